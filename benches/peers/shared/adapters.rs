//! The adapters of this project.

use std::{net::SocketAddr, thread};

use mcp_benches::{ARGUMENTS, Case, TEXT};
use mcp_blocking::Command;
use mcp_proto::{
    connection::{ClientRole, SendError},
    protocol::{ProtocolVersion, VersionSet},
    wire::JsonObject,
};
use mcp_service::{Context, Host, Peer, Service, Tool};
use tokio::runtime::{Builder, Runtime};

use super::{
    AT_ONCE, Make, REVISIONS, SERVE, case, rounds,
    service::{Echo, schema, service},
};

/// Any free port.
const ANYWHERE: &str = "127.0.0.1:0";

/// The capacity of an in-memory connection in one direction.
const CAPACITY: usize = 64 << 10;

fn functions() -> Service {
    service(|schema| Tool::with_schema("echo", schema, |echo: Echo| echo.message))
}

fn futures() -> Service {
    service(|schema| Tool::with_schema_async("echo", schema, async |echo: Echo| echo.message))
}

/// A service for HTTP, with a second tool that reports progress, so that its response is a stream.
fn web() -> Service {
    let echo = |echo: Echo| async { echo.message };
    let stream = async |echo: Echo, context: Context| {
        context.progress(1.0, None, None).await?;
        Ok::<_, SendError>(echo.message)
    };
    let service = Service::builder("echo", "1.0.0")
        .tool(Tool::with_schema_async("echo", schema(), echo))
        .tool(Tool::with_schema_async("stream", schema(), stream));
    service.build().expect("two tools")
}

fn blocking_web() -> Service {
    let stream = |echo: Echo, context: Context| {
        context.progress(1.0, None, None).wait()?;
        Ok::<_, SendError>(echo.message)
    };
    let service = Service::builder("echo", "1.0.0")
        .tool(Tool::with_schema("echo", schema(), |echo: Echo| echo.message))
        .tool(Tool::with_schema("stream", schema(), stream));
    service.build().expect("two tools")
}

/// Returns the host of a client that speaks only this revision.
pub(super) fn host(revision: ProtocolVersion) -> Host {
    Host::builder("client", "1.0.0").versions(VersionSet::only(revision)).build()
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/mcp")
}

pub(super) fn arguments() -> JsonObject {
    JsonObject::parse(ARGUMENTS).expect("an object")
}

fn child(adapter: &str) -> Command {
    let program = std::env::current_exe().expect("a program");
    Command::new(program).env(SERVE, adapter)
}

pub(super) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

pub(super) fn serve(adapter: &str) {
    let served = match adapter {
        "blocking" => mcp_blocking::serve_stdio(&functions()),
        "smol" => smol::block_on(mcp_smol::serve_stdio(&futures())),
        _ => runtime().block_on(mcp_tokio::serve_stdio(&futures())),
    };
    served.expect("it was served");
}

/// Serves HTTP on one thread, or on one for each connection. Prints the address.
#[expect(clippy::print_stdout, reason = "the process that started it reads it")]
pub(super) fn serve_http(adapter: &str) {
    let served = match adapter {
        "blocking" => {
            let listener = mcp_blocking::http::Listener::bind(ANYWHERE).expect("a socket");
            println!("{}", listener.local_addr());
            listener.serve(&blocking_web())
        }
        "smol" => smol::block_on(async {
            let listener = mcp_smol::http::Listener::bind(ANYWHERE).await.expect("a socket");
            println!("{}", listener.local_addr());
            listener.serve(&web()).await
        }),
        _ => runtime().block_on(async {
            let listener = mcp_tokio::http::Listener::bind(ANYWHERE).await.expect("a socket");
            println!("{}", listener.local_addr());
            listener.serve(&web()).await
        }),
    };
    served.expect("it was served");
}

/// Makes calls at once, and awaits all of them, in several rounds.
pub(super) async fn calls(client: &Peer<ClientRole>, arguments: &JsonObject, at_once: usize) {
    for _ in 0..rounds(at_once) {
        let calls: Vec<_> = (0..at_once).map(|_| client.call_tool("echo", arguments).expect("it is allowed")).collect();
        for call in calls {
            assert_eq!(call.await.expect("a result").content[0].as_text(), Some(TEXT));
        }
    }
}

/// Makes calls at once, and blocks until all are complete, in several rounds.
pub(super) fn blocking_calls(client: &Peer<ClientRole>, arguments: &JsonObject, at_once: usize) {
    for _ in 0..rounds(at_once) {
        let calls: Vec<_> = (0..at_once).map(|_| client.call_tool("echo", arguments).expect("it is allowed")).collect();
        for call in calls {
            assert_eq!(call.wait().expect("a result").content[0].as_text(), Some(TEXT));
        }
    }
}

fn blocking(over: &str, revision: ProtocolVersion, at_once: usize) -> Box<dyn FnMut()> {
    let (server, client) = match over {
        "memory" => {
            let (here, there) = mcp_blocking::Transport::pair(CAPACITY);
            let server = mcp_blocking::Server::start(&functions(), there, &mcp_blocking::DriverOptions::default());
            (Some(server.expect("a server")), mcp_blocking::Client::connect(here, &host(revision)))
        }
        "HTTP" => {
            let listener = mcp_blocking::http::Listener::bind(ANYWHERE).expect("a socket");
            let url = url(listener.local_addr());
            thread::spawn(move || listener.serve(&functions()));
            (None, mcp_blocking::Client::connect_http(&url, &host(revision)))
        }
        _ => (None, mcp_blocking::Client::spawn(child("blocking"), &host(revision))),
    };
    let (client, arguments) = (client.expect("a client"), arguments());
    Box::new(move || {
        let _ = &server;
        blocking_calls(&client, &arguments, at_once);
    })
}

/// Cases of an async adapter. They differ in names and in the function that blocks on a future.
macro_rules! on_a_runtime {
    ($name:ident, $adapter:ident, $runtime:expr, $block_on:path, $spawn:expr) => {
        fn $name(over: &str, revision: ProtocolVersion, at_once: usize) -> Box<dyn FnMut()> {
            let runtime = $runtime;
            let connecting = async {
                match over {
                    "memory" => {
                        let (here, there) = $adapter::Transport::pair(CAPACITY);
                        let server = $adapter::Server::start(&futures(), there, &$adapter::DriverOptions::default());
                        (Some(server.expect("a server")), $adapter::Client::connect(here, &host(revision)).await)
                    }
                    "HTTP" => {
                        let listener = $adapter::http::Listener::bind(ANYWHERE).await.expect("a socket");
                        let url = url(listener.local_addr());
                        $spawn(async move { listener.serve(&futures()).await });
                        (None, $adapter::Client::connect_http(&url, &host(revision)).await)
                    }
                    _ => (None, $adapter::Client::spawn(child(stringify!($name)), &host(revision)).await),
                }
            };
            let (server, client) = $block_on(&runtime, connecting);
            let (client, arguments) = (client.expect("a client"), arguments());
            Box::new(move || {
                let _ = &server;
                $block_on(&runtime, calls(&client, &arguments, at_once));
            })
        }
    };
}

fn on_smol<F: Future>((): &(), future: F) -> F::Output {
    smol::block_on(future)
}

fn on_tokio<F: Future>(runtime: &Runtime, future: F) -> F::Output {
    runtime.block_on(future)
}

on_a_runtime!(smol, mcp_smol, (), on_smol, |serving| smol::spawn(serving).detach());
on_a_runtime!(tokio, mcp_tokio, runtime(), on_tokio, |serving| drop(tokio::spawn(serving)));

pub(super) fn cases() -> Vec<Case> {
    let adapters: [(_, Make); 3] = [("blocking", blocking), ("smol", smol), ("tokio", tokio)];
    let of = |revision| {
        let over = |over, at_once| adapters.map(|(name, make)| case(name, over, revision, at_once, make));
        AT_ONCE.map(|at_once| ["memory", "stdio", "HTTP"].map(|name| over(name, at_once)))
    };
    REVISIONS.into_iter().flat_map(of).flatten().flatten().collect()
}
