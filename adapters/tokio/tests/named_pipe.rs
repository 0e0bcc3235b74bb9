//! Clients and servers over a named pipe.
#![cfg(windows)]

use std::{io::ErrorKind, process, time::Duration};

use mcp_service::{Host, Service, Tool};
use mcp_tokio::{Client, Listener};
use tokio::{runtime::Builder, task, time::timeout};

const LONG: Duration = Duration::from_secs(60);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

#[test]
fn clients_share_a_named_pipe() {
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { timeout(LONG, converse()).await.expect("it takes too long") });
}

/// Wine 8 does not know the flag `FILE_FLAG_FIRST_PIPE_INSTANCE`, so this fails there.
#[test]
fn name_of_a_pipe_is_taken_once() {
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let _entered = runtime.enter();
    let name = format!(r"\\.\pipe\mcp-tokio-taken-{}", process::id());
    let _first = Listener::pipe(&name).expect("the name is free");
    let second = Listener::pipe(&name).expect_err("the name is taken");
    assert_eq!(second.kind(), ErrorKind::PermissionDenied);
}

async fn converse() {
    let service = Service::builder("echo", "1.0.0").tool(Tool::new_async("echo", async |echo: Echo| echo.message));
    let service = service.build().expect("a service");
    let host = Host::builder("client", "1.0.0").build();
    let name = format!(r"\\.\pipe\mcp-tokio-test-{}", process::id());
    let missing = Client::connect_pipe(&name, &host).await;
    assert!(missing.is_err(), "nothing listens");
    let listener = Listener::pipe(&name).expect("the name is free");
    let stop = listener.stop_handle();
    let serving = task::spawn(async move { listener.serve(&service).await });
    let mut clients = Vec::new();
    for number in 0..3 {
        let client = Client::connect_pipe(&name, &host).await.expect("it listens");
        let message = format!("{number}").repeat(100_000);
        let call = client.call_tool("echo", serde_json::json!({"message": message})).expect("it is open");
        assert_eq!(call.await.expect("a result").content[0].as_text(), Some(message.as_str()));
        clients.push(client);
    }
    for client in clients {
        client.close().await;
    }
    stop();
    serving.await.expect("no panic").expect("it was stopped");
}
