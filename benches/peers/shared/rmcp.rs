//! The official SDK, also on one thread.

use futures_util::future::join_all;
use mcp_benches::{ARGUMENTS, Case, TEXT};
use mcp_proto::protocol::ProtocolVersion;
use rmcp::{RoleClient, ServiceExt, model::CallToolRequestParams, service::Peer, transport::TokioChildProcess};
use tokio::runtime::{Builder, Runtime};

use super::{AT_ONCE, case, child, rounds};

#[path = "../../servers/rmcp/src/echo.rs"]
mod echo;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

pub(super) fn serve() {
    runtime().block_on(async {
        let running = echo::Echo.serve(rmcp::transport::io::stdio_pipes()).await;
        let _ = running.expect("a client").waiting().await;
    });
}

async fn calls(client: &Peer<RoleClient>, call: &CallToolRequestParams, at_once: usize) {
    for _ in 0..rounds(at_once) {
        let results = join_all((0..at_once).map(|_| client.call_tool(call.clone()))).await;
        for result in results {
            let result = result.expect("a result");
            assert_eq!(result.content[0].as_text().map(|text| &*text.text), Some(TEXT));
        }
    }
}

fn rmcp(over: &str, _: ProtocolVersion, at_once: usize) -> Box<dyn FnMut()> {
    let runtime = runtime();
    let (server, client) = runtime.block_on(async {
        if over == "memory" {
            let (here, there) = tokio::io::duplex(64 << 10);
            let server = tokio::spawn(async { echo::Echo.serve(there).await.expect("a client").waiting().await });
            (Some(server), ().serve(here).await.expect("a server"))
        } else {
            let child = TokioChildProcess::new(tokio::process::Command::from(child("rmcp"))).expect("a child");
            (None, ().serve(child).await.expect("a server"))
        }
    });
    let arguments = serde_json::from_str(ARGUMENTS).expect("an object");
    let call = CallToolRequestParams::new("echo").with_arguments(arguments);
    Box::new(move || {
        let _ = &server;
        runtime.block_on(calls(client.peer(), &call, at_once));
    })
}

pub(super) fn cases() -> Vec<Case> {
    // Its client and its server negotiate this revision.
    let revision = ProtocolVersion::LATEST_LEGACY;
    AT_ONCE.iter().flat_map(|at| ["memory", "stdio"].map(|over| case("rmcp", over, revision, *at, rmcp))).collect()
}
