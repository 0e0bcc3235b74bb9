//! The adapters of this project.

use mcp_benches::{ARGUMENTS, Case, TEXT};
use mcp_blocking::Command;
use mcp_proto::{connection::ClientEnd, wire::JsonObject};
use mcp_service::{Host, Peer, Service, Tool};
use tokio::runtime::{Builder, Runtime};

use super::{
    AT_ONCE, SERVE, case,
    service::{Echo, service},
};

/// What is under way between two ends in memory.
const CAPACITY: usize = 64 << 10;

fn functions() -> Service {
    service(|schema| Tool::with_schema("echo", schema, |echo: Echo| echo.message))
}

fn futures() -> Service {
    service(|schema| Tool::with_schema_async("echo", schema, async |echo: Echo| echo.message))
}

fn host() -> Host {
    Host::builder("client", "1.0.0").build()
}

fn arguments() -> JsonObject {
    JsonObject::parse(ARGUMENTS).expect("an object")
}

fn child(adapter: &str) -> Command {
    let program = std::env::current_exe().expect("a program");
    Command::new(program).env(SERVE, adapter)
}

fn runtime() -> Runtime {
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

/// Makes calls at once, and waits for all of them as a task.
async fn calls(client: &Peer<ClientEnd>, arguments: &JsonObject, at_once: usize) {
    let calls: Vec<_> = (0..at_once).map(|_| client.call_tool("echo", arguments).expect("it is allowed")).collect();
    for call in calls {
        assert_eq!(call.await.expect("a result").content[0].as_text(), Some(TEXT));
    }
}

/// The same as a thread.
fn blocking_calls(client: &Peer<ClientEnd>, arguments: &JsonObject, at_once: usize) {
    let calls: Vec<_> = (0..at_once).map(|_| client.call_tool("echo", arguments).expect("it is allowed")).collect();
    for call in calls {
        assert_eq!(call.wait().expect("a result").content[0].as_text(), Some(TEXT));
    }
}

fn blocking(over: &str, at_once: usize) -> Box<dyn FnMut()> {
    let (server, client) = if over == "memory" {
        let (here, there) = mcp_blocking::Transport::pair(CAPACITY);
        let server = mcp_blocking::Server::start(&functions(), there, &mcp_blocking::Options::default());
        (Some(server.expect("a server")), mcp_blocking::Client::over(here, &host()))
    } else {
        (None, mcp_blocking::Client::spawn(child("blocking"), &host()))
    };
    let (client, arguments) = (client.expect("a client"), arguments());
    Box::new(move || {
        let _ = &server;
        blocking_calls(&client, &arguments, at_once);
    })
}

fn smol(over: &str, at_once: usize) -> Box<dyn FnMut()> {
    let (server, client) = smol::block_on(async {
        if over == "memory" {
            let (here, there) = mcp_smol::Transport::pair(CAPACITY);
            let server = mcp_smol::Server::start(&futures(), there, &mcp_smol::Options::default());
            (Some(server.expect("a server")), mcp_smol::Client::over(here, &host()).await)
        } else {
            (None, mcp_smol::Client::spawn(child("smol"), &host()).await)
        }
    });
    let (client, arguments) = (client.expect("a client"), arguments());
    Box::new(move || {
        let _ = &server;
        smol::block_on(calls(&client, &arguments, at_once));
    })
}

fn tokio(over: &str, at_once: usize) -> Box<dyn FnMut()> {
    let runtime = runtime();
    let (server, client) = runtime.block_on(async {
        match over {
            "memory" => {
                let (here, there) = mcp_tokio::Transport::pair(CAPACITY);
                let server = mcp_tokio::Server::start(&futures(), there, &mcp_tokio::Options::default());
                (Some(server.expect("a server")), mcp_tokio::Client::over(here, &host()).await)
            }
            "HTTP" => {
                let listener = mcp_tokio::http::Listener::bind("127.0.0.1:0").await.expect("a socket");
                let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
                tokio::spawn(async move { listener.serve(&futures()).await });
                (None, mcp_tokio::Client::connect_http(&url, &host()).await)
            }
            _ => (None, mcp_tokio::Client::spawn(child("tokio"), &host()).await),
        }
    });
    let (client, arguments) = (client.expect("a client"), arguments());
    Box::new(move || {
        let _ = &server;
        runtime.block_on(calls(&client, &arguments, at_once));
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for at_once in AT_ONCE {
        for over in ["memory", "stdio"] {
            cases.push(case("blocking", over, at_once, blocking));
            cases.push(case("smol", over, at_once, smol));
            cases.push(case("tokio", over, at_once, tokio));
        }
        cases.push(case("tokio", "HTTP", at_once, tokio));
    }
    cases
}
