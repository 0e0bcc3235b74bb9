//! Tests the test client, as the author of a server uses it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    connection::{ClientRole, Principal},
    protocol::ProtocolVersion,
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitAction, ElicitResult, ElicitSchema, LoggingLevel, Map, Role,
        SamplingContent, SamplingMessage, TaskSupport,
    },
};
use mcp_service::{
    CallError, Context, Failure, Host, Prompt, Resource, Service, Tool,
    testing::{Side, TestClient},
};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn service() -> Service {
    let dig = |context: Context, metres: u32| {
        for metre in 1..=metres {
            context.progress(metre.into(), Some(metres.into()), None).wait()?;
            context.sleep(Duration::from_secs(1)).wait()?;
        }
        Ok::<_, Failure>("a hole")
    };
    Service::builder("test", "1.0.0")
        .tool(Tool::new("add", |add: Add| (add.a + add.b).to_string()))
        .tool(Tool::new("dig", move |context: Context| dig(context, 3)))
        .tool(Tool::new_async("sleep", async |context: Context| {
            context.sleep(Duration::from_secs(3600)).await?;
            Ok::<_, CallError>("slept")
        }))
        .tool(Tool::new("ask", |context: Context| {
            context.log(LoggingLevel::Info, None, "about to ask").wait()?;
            let params = CreateMessageParams::new([SamplingMessage::user("Who?")], 10_u64);
            let answer = context.sample(params).wait()?;
            let [SamplingContent::Text(text)] = answer.content.as_slice() else { return Err(Failure::new("no text")) };
            Ok(text.text.clone())
        }))
        .tool(
            Tool::new("late", |context: Context| context.sleep(Duration::from_secs(5)).wait())
                .task_support(TaskSupport::Optional),
        )
        .prompt(Prompt::new("greet", || "Hello!"))
        .resource(Resource::new("a://b", "b", || "text"))
        .visible(|offer, caller| offer.name() != "late" || caller.principal.is_some())
        .build()
        .expect("a good service")
}

#[test]
fn test_client_calls_a_tool() {
    let client = TestClient::new(&service());
    let result = client.call_tool("add", json!({"a": 1, "b": 2})).expect("a result");
    assert_eq!(result.content[0].as_text(), Some("3"));
    client.transcript().assert(["client: tools/call", "server: result of tools/call"]);
}

#[test]
fn test_client_supports_every_revision() {
    for version in ProtocolVersion::ALL {
        let client = TestClient::of(&service()).version(version).connect();
        assert_eq!(client.server().version(), Some(version));
        let prompt = client.get_prompt("greet", ()).expect("a prompt");
        assert_eq!(prompt.messages[0].content.as_text(), Some("Hello!"));
        assert!(client.read_resource("a://c").expect_err("there is none").is_resource_not_found());
        let error = if version == ProtocolVersion::V2026_07_28 { -32602 } else { -32002 };
        let lines = ["client: prompts/get", "server: result of prompts/get", "client: resources/read"];
        let last = format!("server: error {error} of resources/read");
        client.transcript().assert(lines.into_iter().chain([&*last]));
        client.assert_idle();
    }
}

#[test]
fn test_clock_advances_when_all_are_idle() {
    let client = TestClient::new(&service());
    let mut seen = Vec::new();
    let (send, progress) = std::sync::mpsc::channel();
    let call = client.server().call_tool("dig", ()).expect("it can be sent");
    let call = call.on_progress(move |progress| send.send(progress.progress).expect("the receiver lives"));
    let result = client.wait(call).expect("a result");
    assert_eq!((result.content[0].as_text(), client.elapsed()), (Some("a hole"), Duration::from_secs(3)));
    seen.extend(progress.try_iter());
    assert_eq!(seen, [1.0, 2.0, 3.0]);
    let transcript = client.transcript();
    let at: Vec<_> = transcript.lines().iter().map(|line| line.at().as_secs()).collect();
    assert_eq!(at, [0, 0, 1, 2, 3], "{transcript}");
    assert_eq!(transcript.from(Side::Server).outline()[..2], ["server: notifications/progress"; 2]);
    client.assert_idle();
}

#[test]
fn call_times_out_in_simulated_time() {
    let client = TestClient::new(&service());
    let call = client.server().within(Duration::from_secs(30)).call_tool("sleep", ()).expect("it can be sent");
    assert_eq!(client.wait(call), Err(CallError::TimedOut { total: true }));
    assert_eq!(client.elapsed(), Duration::from_secs(30));
    client.transcript().assert(["client: tools/call", "client: notifications/cancelled"]);
    client.transcript().assert_contains("\"requestId\"");
    client.assert_idle();
}

#[test]
fn running_call_can_be_cancelled() {
    for name in ["dig", "sleep"] {
        let client = TestClient::of(&service()).version(ProtocolVersion::V2025_11_25).connect();
        let call = client.server().call_tool(name, ()).expect("it can be sent");
        client.advance(Duration::from_millis(1500));
        client.take_transcript();
        call.cancel(Some("enough"));
        assert_eq!(client.wait(call), Err(CallError::Cancelled));
        client.advance(Duration::from_secs(7200));
        client.transcript().assert(["client: notifications/cancelled"]);
        client.assert_idle();
        assert_eq!(client.elapsed(), Duration::from_millis(7_201_500));
    }
}

#[test]
fn host_responds_to_server_requests() {
    let host = Host::builder("host", "1")
        .sampling(|_, _| Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("Me"), "m")))
        .build();
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2026_07_28] {
        let client = TestClient::of(&service()).host(&host).version(version).connect();
        let result = client.call_tool("ask", ()).expect("a result");
        assert_eq!(result.content[0].as_text(), Some("Me"), "{}", client.transcript());
        client.assert_idle();
    }
}

#[test]
fn principal_sees_more_tools_than_anonymous() {
    let names = |client: &TestClient| {
        let tools = client.run(client.server().all_tools().try_collect()).expect("a list");
        tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&TestClient::new(&service())), ["add", "dig", "sleep", "ask"]);
    let known = TestClient::of(&service()).principal(Principal::new("me")).connect();
    assert_eq!(names(&known), ["add", "dig", "sleep", "ask", "late"]);
    // The call becomes a task, and the client follows it.
    let call = known.call_tool("late", ()).expect("a result");
    assert!(!call.is_error());
    assert!(known.elapsed() >= Duration::from_secs(5));
    known.assert_idle();
}

#[test]
fn test_client_can_send_raw_messages() {
    let client = TestClient::of(&service()).version(ProtocolVersion::V2025_11_25).connect();
    client.send_line("{ this is no JSON");
    client.send_line(r#"{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"add"}}"#);
    client.transcript().assert([
        "client: no message",
        "server: error -32700",
        "client: tools/call",
        "server: result of tools/call",
    ]);
    client.transcript().assert_contains("Invalid arguments");
}

#[test]
fn failed_assertions_show_the_transcript() {
    let message = |f: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it fails");
        panic.downcast_ref::<String>().expect("a text").clone()
    };
    let client = TestClient::of(&service()).version(ProtocolVersion::V2025_11_25).connect();
    client.call_tool("add", json!({"a": 1, "b": 2})).expect("a result");
    let stuck = message(&|| client.run(std::future::pending()));
    assert!(stuck.starts_with("the connection is idle"), "{stuck}");
    assert!(stuck.contains(r#"    0.000 s  client  {"jsonrpc":"2.0","#), "{stuck}");
    let other = message(&|| client.transcript().assert(["client: ping"]));
    assert!(other.contains("client: ping") && other.contains("tools/call"), "{other}");
    assert!(message(&|| client.transcript().assert_contains("nothing of the sort")).contains("no message contains"));
    let call = client.server().call_tool("sleep", ()).expect("it can be sent");
    assert!(message(&|| client.assert_idle()).starts_with("1 handlers run"));
    drop(call);
    client.assert_idle();
}

#[test]
fn calls_over_the_server_limit_wait() {
    let mut settings = mcp_proto::connection::Settings::default();
    settings.limits.requests = 4;
    let service = Service::builder("test", "1.0.0")
        .settings(settings)
        .tool(Tool::new_async("sleep", async |context: Context| {
            context.sleep(Duration::from_secs(1)).await?;
            Ok::<_, CallError>("slept")
        }))
        .build()
        .expect("a good service");
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let client = TestClient::of(&service).version(version).connect();
        let calls: Vec<_> = (0..40).map(|_| client.server().call_tool("sleep", ()).expect("it can be sent")).collect();
        for call in calls {
            let result = client.wait(call).expect("a call waits for room and is not refused");
            assert_eq!(result.content[0].as_text(), Some("slept"));
        }
        assert_eq!(client.elapsed(), Duration::from_secs(10), "four calls at a time");
        client.assert_idle();
    }
}

/// Those that run, and those that wait for one of 32 threads.
#[test]
fn all_handlers_that_have_not_ended_are_counted() {
    let sleep = Tool::new("sleep", |context: Context| context.sleep(Duration::from_secs(1)).wait());
    let service = Service::builder("test", "1.0.0").tool(sleep).build().expect("a good service");
    let client = TestClient::new(&service);
    let calls: Vec<_> = (0..64).map(|_| client.server().call_tool("sleep", ()).expect("it can be sent")).collect();
    let failed = catch_unwind(AssertUnwindSafe(|| client.assert_idle())).expect_err("it is not idle");
    let failed = failed.downcast_ref::<String>().expect("a text");
    assert!(failed.contains("64 handlers run"), "{failed}");
    for call in calls {
        client.wait(call).expect("a result");
    }
    assert_eq!(client.elapsed(), Duration::from_secs(2), "32 at a time");
    client.assert_idle();
}

/// The user of the client may think for minutes, in which the connection of the client has no frame and no deadline.
#[test]
fn a_call_goes_on_after_its_user_was_slow() {
    let tool = Tool::new_async("greet", async |context: Context| {
        let answer = context.elicit("Your name?", ElicitSchema::new(Map::new())).await?;
        context.sleep(Duration::from_secs(59)).await?;
        Ok::<_, CallError>(format!("{:?}", answer.action))
    });
    let service = Service::builder("test", "1.0.0").tool(tool).build().expect("a good service");
    let host = Host::builder("test", "1").elicitation_async(|_, context: Context<ClientRole>| async move {
        context.sleep(Duration::from_secs(121)).await?;
        Ok::<_, CallError>(ElicitResult::new(ElicitAction::Decline))
    });
    let host = host.build();
    let client = TestClient::of(&service).host(&host).version(ProtocolVersion::V2026_07_28).connect();
    let call = client.server().call_tool("greet", ()).expect("a request");
    client.advance(Duration::from_secs(121));
    client.advance(Duration::from_secs(59));
    let result = client.wait(call).expect("a result");
    assert!(!result.is_error(), "{result:?}");
}

/// A tool that has a side effect before or after its question.
fn paying(first: bool) -> Service {
    let tool = Tool::new_async("pay", move |context: Context| async move {
        if first {
            context.side_effect("payment");
        }
        let answer = context.elicit("Pay?", ElicitSchema::new(Map::new())).await?;
        context.side_effect("payment");
        Ok::<_, CallError>(format!("{:?}", answer.action))
    });
    Service::builder("shop", "1").tool(tool).build().expect("a good service")
}

fn payer() -> Host {
    Host::builder("client", "1").elicitation(|_, _| Ok::<_, Failure>(ElicitResult::decline())).build()
}

#[test]
fn a_question_after_a_side_effect_fails_the_test_on_request() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        for (first, checks, fails) in [(true, true, true), (true, false, false), (false, true, false)] {
            let host = payer();
            let setup = TestClient::of(&paying(first)).host(&host).version(version);
            let client = if checks { setup.check_side_effects() } else { setup }.connect();
            let called = catch_unwind(AssertUnwindSafe(|| client.call_tool("pay", ())));
            match called {
                Ok(result) => assert!(!fails && result.is_ok(), "{version} {first} {checks}"),
                Err(panic) => {
                    let why = panic.downcast_ref::<String>().expect("a text");
                    assert!(fails && why.contains("side effect \"payment\""), "{version} {first} {checks}: {why}");
                }
            }
        }
    }
}

#[test]
fn dropped_log_messages_are_counted() {
    let tool = Tool::new_async("log", async |context: Context| {
        for level in [LoggingLevel::Debug, LoggingLevel::Error] {
            assert!(context.log(level, None, "x").await.is_ok());
        }
        "done"
    });
    let service = Service::builder("talker", "1").tool(tool).build().expect("a good service");
    for (version, dropped) in [(ProtocolVersion::V2025_11_25, 0), (ProtocolVersion::V2026_07_28, 2)] {
        let client = TestClient::of(&service).version(version).connect();
        client.call_tool("log", ()).expect("a result");
        assert_eq!(client.dropped_log_messages(), dropped, "{version}");
        assert_eq!(client.transcript().from(Side::Server).lines().len(), 3 - dropped, "{version}");
        let server = client.server();
        let server = match version {
            ProtocolVersion::V2026_07_28 => server.logging(LoggingLevel::Warning),
            _ => {
                client.wait(server.set_log_level(LoggingLevel::Warning).expect("it can be sent")).expect("a result");
                server
            }
        };
        client.wait(server.call_tool("log", ()).expect("it can be sent")).expect("a result");
        assert_eq!(client.dropped_log_messages(), dropped + 1, "{version}");
    }
}

#[test]
fn work_in_real_time_can_be_cancelled() {
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = steps.clone();
    let tool = Tool::new("work", move |context: Context| -> Result<(), CallError> {
        loop {
            counted.fetch_add(1, Ordering::SeqCst);
            context.check()?;
            std::thread::yield_now();
        }
    });
    let service = Service::builder("worker", "1").tool(tool).build().expect("a good service");
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        steps.store(0, Ordering::SeqCst);
        let client = TestClient::of(&service).version(version).connect();
        let call = client.server().call_tool("work", ()).expect("it can be sent");
        client.run_until(|| steps.load(Ordering::SeqCst) > 10);
        call.cancel(None);
        assert_eq!(client.wait(call), Err(CallError::Cancelled));
        client.assert_idle();
        let ended = steps.load(Ordering::SeqCst);
        client.settle();
        assert_eq!(steps.load(Ordering::SeqCst), ended, "{version}");
    }
}
