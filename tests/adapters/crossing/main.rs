//! The client of each adapter over HTTP with the server of each adapter, with TLS where the server supports it.

#[path = "../../../adapters/tests/identity.rs"]
mod identity;

use std::{net::SocketAddr, process::ExitCode, thread};

use identity::Identity;
use libtest_mimic::{Arguments, Trial};
use mcp_driver::StopHandle;
use mcp_proto::{connection::ClientRole, protocol::VersionSet};
use mcp_service::{Host, Peer, Service, Tool};
use mcp_tokio::http::rustls;
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

fn service() -> Service {
    let echo = Tool::new_async("echo", async |echo: Echo| echo.message);
    let echo_on_a_thread = Tool::new("echo_on_a_thread", |echo: Echo| echo.message);
    Service::builder("web", "1").tool(echo).tool(echo_on_a_thread).build().expect("all names differ")
}

/// Checks what holds for every pair.
fn visit(client: &Peer<ClientRole>) {
    for tool in ["echo", "echo_on_a_thread"] {
        // One message is larger than any buffer on the way, and still fast.
        for message in ["Ünïcode\n".to_owned(), "x".repeat(1 << 18), "hello".to_owned()] {
            let result = client.call_tool(tool, json!({"message": message})).expect("it is sent").wait();
            assert_eq!(result.expect("it is answered").content[0].as_text(), Some(&*message));
        }
    }
}

/// A server on a thread of its own. The thread returns whether the server ended because it was stopped.
struct Running {
    address: SocketAddr,
    stop: StopHandle,
    served: thread::JoinHandle<bool>,
}

type Serve = fn(Option<&Identity>) -> Running;
type Cross = fn(&str, &Identity, &Host);

fn tokio_runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime")
}

fn serve_on_threads(_: Option<&Identity>) -> Running {
    let listener = mcp_blocking::http::Listener::bind("127.0.0.1:0").expect("there is a port").with_http_sse();
    let (address, stop) = (listener.local_addr(), listener.stop_handle());
    Running { address, stop, served: thread::spawn(move || listener.serve(&service()).is_ok()) }
}

fn serve_on_smol(identity: Option<&Identity>) -> Running {
    let listener = smol::block_on(mcp_smol::http::Listener::bind("127.0.0.1:0")).expect("there is a port");
    let mut listener = listener.with_http_sse();
    if let Some(identity) = identity {
        listener = listener.tls(identity.server.clone());
    }
    let (address, stop) = (listener.local_addr(), listener.stop_handle());
    Running { address, stop, served: thread::spawn(move || smol::block_on(listener.serve(&service())).is_ok()) }
}

fn serve_on_tokio(identity: Option<&Identity>) -> Running {
    let runtime = tokio_runtime();
    let listener = runtime.block_on(mcp_tokio::http::Listener::bind("127.0.0.1:0")).expect("there is a port");
    let mut listener = listener.with_http_sse();
    if let Some(identity) = identity {
        listener = listener.tls(identity.server.clone());
    }
    let (address, stop) = (listener.local_addr(), listener.stop_handle());
    Running { address, stop, served: thread::spawn(move || runtime.block_on(listener.serve(&service())).is_ok()) }
}

fn cross_on_threads(url: &str, identity: &Identity, host: &Host) {
    let connector = mcp_blocking::http::Connector::new(url).expect("an address").tls(identity.client.clone());
    let client = connector.connect(host).expect("it serves");
    visit(&client);
    client.close().into_result().expect("a good end");
    if url.starts_with("https") {
        let unknown = mcp_blocking::Client::connect_http(url, host).expect_err("the system does not know it");
        assert!(unknown.to_string().contains("ertificate"), "it says why: {unknown}");
    }
}

fn cross_on_smol(url: &str, identity: &Identity, host: &Host) {
    let connector = mcp_smol::http::Connector::new(url).expect("an address").tls(identity.client.clone());
    let client = smol::block_on(connector.connect(host)).expect("it serves");
    visit(&client);
    client.close().wait().into_result().expect("a good end");
}

fn cross_on_tokio(url: &str, identity: &Identity, host: &Host) {
    let runtime = tokio_runtime();
    let connector = mcp_tokio::http::Connector::new(url).expect("an address").tls(identity.client.clone());
    let client = runtime.block_on(connector.connect(host)).expect("it serves");
    visit(&client);
    client.close().wait().into_result().expect("a good end");
}

fn main() -> ExitCode {
    let servers: [(&str, Serve, &[&str]); 3] = [
        // A proxy in front of this server adds TLS.
        ("blocking", serve_on_threads, &["http"]),
        ("smol", serve_on_smol, &["http", "https"]),
        ("tokio", serve_on_tokio, &["http", "https"]),
    ];
    let clients: [(&str, Cross); 3] =
        [("blocking", cross_on_threads), ("smol", cross_on_smol), ("tokio", cross_on_tokio)];
    let mut trials = Vec::new();
    for (server, serve, schemes) in servers {
        for (client, cross) in clients {
            for scheme in schemes {
                trials.push(Trial::test(format!("{client}_at_{server}_over_{scheme}"), move || {
                    let identity = Identity::new();
                    let running = serve((*scheme == "https").then_some(&identity));
                    // The certificate is for this name.
                    let at = |path| format!("{scheme}://localhost:{}{path}", running.address.port());
                    for (versions, path) in
                        [(VersionSet::ALL, "/mcp"), (VersionSet::LEGACY, "/mcp"), (VersionSet::LEGACY, "/sse")]
                    {
                        cross(&at(path), &identity, &Host::builder("test", "1").versions(versions).build());
                    }
                    (running.stop)();
                    assert!(running.served.join().expect("no panic"), "it was told to stop");
                    Ok(())
                }));
            }
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
