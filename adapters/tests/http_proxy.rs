//! A service in front of a server over HTTP, with several clients. The including test has the adapter as
//! `crate::adapter`, and its runtime as `crate::{run, spawn, timeout}`.

use std::{future::Future, sync::Arc, time::Duration};

use mcp_driver::Watched;
use mcp_proto::{
    protocol::{ProtocolVersion, VersionSet},
    schema::{
        CreateMessageParams, CreateMessageResult, LogMessageParams, LoggingLevel, Role, SamplingContent,
        SamplingMessage,
    },
};
use mcp_service::{Context, Failure, Host, Service, Tool, proxy::Backend};

use crate::{
    adapter::{Client, http::Listener},
    run, spawn, timeout,
};

/// A timeout that no operation of a passing test reaches.
const LONG: Duration = Duration::from_secs(20);

/// Fails the test, instead of hanging, if a future takes too long.
async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(LONG, future).await.expect("it does not take that long")
}

/// A server of sessions that asks and logs, and counts the calls that wait.
fn server(waiting: &Arc<Watched<usize>>) -> Service {
    let waiting = waiting.clone();
    Service::builder("back", "1")
        .versions(VersionSet::LEGACY)
        .tool(Tool::new_async("who", async |context: Context| {
            context.log(LoggingLevel::Error, None, "asking").await?;
            let answer = context.sample(CreateMessageParams::new([SamplingMessage::user("who?")], 10_u64)).await?;
            Ok::<_, Failure>(answer.model)
        }))
        .tool(Tool::new_async("wait", move |context: Context| {
            let waiting = waiting.clone();
            async move {
                waiting.update(|waiting| *waiting += 1);
                context.cancelled().await;
                waiting.update(|waiting| *waiting -= 1);
            }
        }))
        .build()
        .expect("all names differ")
}

/// A client with a model of this name, and the number of its log messages.
fn host(name: &str) -> (Host, Arc<Watched<usize>>) {
    let logs = Arc::new(Watched::<usize>::default());
    let (model, logged) = (name.to_owned(), logs.clone());
    let host = Host::builder(name, "1")
        .versions(VersionSet::only(ProtocolVersion::V2025_11_25))
        .sampling_async(move |_, _| {
            let result = CreateMessageResult::new(Role::Assistant, SamplingContent::text("me"), &*model);
            async move { Ok::<_, Failure>(result) }
        })
        .on(move |_: LogMessageParams, _| logged.update(|logs| *logs += 1))
        .build();
    (host, logs)
}

#[test]
fn messages_on_the_stream_of_a_call_reach_its_client() {
    run(async {
        let waiting = Arc::new(Watched::default());
        let back = Listener::bind("127.0.0.1:0").await.expect("there is a port");
        let url = format!("http://{}/mcp", back.local_addr());
        let (stop_back, service) = (back.stop_handle(), server(&waiting));
        let back = spawn(async move { back.serve(&service).await });

        let front = Service::builder("front", "1").enable_backends().build().expect("a service");
        let backend = Backend::builder("back").join(&front).expect("a backend");
        let running = backend.clone();
        let proxy = spawn(async move {
            let connect = || async { Client::connect_http(&url, running.host()).await };
            running.run(connect).await.map_err(|error| error.to_string())
        });
        within(backend.ready()).await.expect("it is ready");
        let listener = Listener::bind("127.0.0.1:0").await.expect("there is a port");
        let url = format!("http://{}/mcp", listener.local_addr());
        let (stop_front, service) = (listener.stop_handle(), front.clone());
        let listening = spawn(async move { listener.serve(&service).await });

        let ((ada, ada_logs), (bob, bob_logs)) = (host("ada"), host("bob"));
        let ada = within(Client::connect_http(&url, &ada)).await.expect("it serves");
        let bob = within(Client::connect_http(&url, &bob)).await.expect("it serves");
        let call = async |client: &Client, tool: &str| {
            let result = within(client.call_tool(tool, ()).expect("it is sent")).await.expect("a result");
            result.content[0].as_text().expect("a text").to_owned()
        };
        // A session does not name the call of a question. The stream does, while another client has a call in flight,
        // and after that was cancelled.
        let others = bob.call_tool("back__wait", ()).expect("it is sent");
        within(waiting.wait_for(|waiting| (*waiting == 1).then_some(()))).await;
        assert_eq!(call(&ada, "back__who").await, "ada");
        drop(others);
        within(waiting.wait_for(|waiting| (*waiting == 0).then_some(()))).await;
        assert_eq!(call(&ada, "back__who").await, "ada");
        assert_eq!(call(&bob, "back__who").await, "bob");
        within(ada_logs.wait_for(|logs| (*logs == 2).then_some(()))).await;
        within(bob_logs.wait_for(|logs| (*logs == 1).then_some(()))).await;

        backend.remove();
        within(proxy).await.expect("it was removed");
        within(ada.close()).await;
        within(bob.close()).await;
        stop_front();
        within(listening).await.expect("it was told to");
        stop_back();
        within(back).await.expect("it was told to");
    });
}
