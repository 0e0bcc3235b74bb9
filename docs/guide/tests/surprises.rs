//! Tests of handlers that only real time, a question or a log level makes go wrong.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_proto::schema::{ElicitResult, LoggingLevel, Map};
use mcp_service::{CallError, Context, Failure, Host, Service, Tool, testing::TestClient};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Confirm {}

async fn pay(context: Context) -> Result<&'static str, Failure> {
    context.elicit_as::<Confirm>("Pay 5 EUR?").await?;
    context.side_effect("payment");
    Ok("paid")
}

async fn pay_too_early(context: Context) -> Result<&'static str, Failure> {
    context.side_effect("payment");
    context.elicit_as::<Confirm>("Pay 5 EUR?").await?;
    Ok("paid")
}

#[test]
fn a_payment_comes_after_the_last_question() {
    let service = Service::builder("shop", "1.0.0")
        .tool(Tool::new_async("pay", pay))
        .tool(Tool::new_async("pay_too_early", pay_too_early))
        .build()
        .unwrap();
    let host = Host::builder("test", "1.0.0")
        .elicitation(|_, _| Ok::<_, CallError>(ElicitResult::accept(Map::new())))
        .build();
    let client = || {
        TestClient::of(&service)
            .host(&host)
            .check_side_effects()
            .connect()
    };
    let paid = client().call_tool("pay", ()).unwrap();
    assert_eq!(paid.content[0].as_text(), Some("paid"));
    let wrong = AssertUnwindSafe(|| client().call_tool("pay_too_early", ()));
    let panic = catch_unwind(wrong).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("side effect \"payment\""), "{text}");
}

#[test]
fn log_messages_are_dropped_unless_a_request_asks_for_them() {
    let work = async |context: Context| {
        context
            .log(LoggingLevel::Info, None, "half of it is done")
            .await
    };
    let service = Service::builder("worker", "1.0.0")
        .tool(Tool::new_async("work", work))
        .build()
        .unwrap();
    let client = TestClient::new(&service);
    client.call_tool("work", ()).unwrap();
    assert_eq!(client.dropped_log_messages(), 1);
    let server = client.server().logging(LoggingLevel::Info);
    client.wait(server.call_tool("work", ()).unwrap()).unwrap();
    assert_eq!(client.dropped_log_messages(), 1);
    client.transcript().assert_contains("half of it is done");
}

#[test]
fn work_in_real_time_ends_when_it_is_cancelled() {
    let started = Arc::new(AtomicBool::new(false));
    let starts = started.clone();
    let solve = move |context: Context| -> Result<&'static str, CallError> {
        loop {
            starts.store(true, Ordering::SeqCst);
            context.check()?; // between two steps of real work
        }
    };
    let service = Service::builder("solver", "1.0.0")
        .tool(Tool::new("solve", solve))
        .build()
        .unwrap();
    let client = TestClient::new(&service);
    let call = client.server().call_tool("solve", ()).unwrap();
    client.run_until(|| started.load(Ordering::SeqCst));
    call.cancel(None);
    assert_eq!(client.wait(call), Err(CallError::Cancelled));
    client.assert_idle();
}
