//! Middleware.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_proto::{
    protocol::{Era, ProtocolVersion},
    schema::{
        CallToolResult, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitResult, PromptArgument, Role,
        SamplingMessage, TaskSupport,
    },
    wire::{ErrorCode, ErrorObject, JsonObject},
};
use serde_json::json;

use super::echo;
use super::pair::{Pair, code};
use crate::{
    client::Host,
    inbound::{
        completion_request::CompletionRequest,
        context::Context,
        failure::Failure,
        middleware::{Completed, IncomingRequest, Next},
        rpc_result::ResponseKind,
    },
    outbound::error::CallError,
    server::{builder::ServiceBuilder, prompt::Prompt, resource::Resource, service::Service, tool::Tool},
    util::lock::lock,
};

type Seen = Arc<Mutex<Vec<String>>>;

fn host() -> Host {
    Host::builder("client", "1").build()
}

/// Records each request under this name, and its outcome.
async fn note<E: crate::inbound::state::Role>(
    seen: Seen,
    who: &'static str,
    call: IncomingRequest<E>,
    next: Next<E>,
) -> Result<Completed, Failure> {
    let what = format!("{who} {} {}", call.method(), call.name().unwrap_or("-"));
    lock(&seen).push(format!("{what} begins"));
    let completed = next.run().await;
    let how = match completed.kind() {
        ResponseKind::Error(error) => error.code.0.to_string(),
        kind => format!("{kind:?}"),
    };
    lock(&seen).push(format!("{what} {how}"));
    Ok(completed)
}

fn noted(builder: ServiceBuilder, seen: &Seen, who: &'static str) -> ServiceBuilder {
    let seen = seen.clone();
    builder.layer(move |call, next| note(seen.clone(), who, call, next))
}

fn take(seen: &Seen) -> Vec<String> {
    std::mem::take(&mut *lock(seen))
}

/// A service with blocking and async handlers.
fn both() -> ServiceBuilder {
    echo()
        .tool(Tool::new_async("later", async || "done"))
        .tool(Tool::new("fails", || Err::<(), _>("no luck")))
        .tool(Tool::new("panics", || -> &'static str { panic!("secret") }))
        .prompt(
            Prompt::with_arguments_async("greet", [PromptArgument::new("who")], async || "Hello!")
                .complete("who", |_: CompletionRequest| vec!["you"]),
        )
        .resource(Resource::new("a://b", "b", || "text"))
        .on_request("own/double", |x: u32, _| Ok::<_, Failure>(json!({ "double": 2 * x })))
}

#[test]
fn middleware_wraps_every_request() {
    let seen = Seen::default();
    let service = noted(noted(both(), &seen, "out"), &seen, "in").build().expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = Pair::new(&host(), &service, version);
        take(&seen);
        let is_modern = version.era() == Era::Modern;
        let bad_arguments = if version.reports_bad_arguments_as_result() { "Failed" } else { "-32602" };
        let not_found = version.resource_not_found().to_string();
        for (method, params, name, how) in [
            ("tools/call", json!({"name": "echo", "arguments": {"message": "hi"}}), "echo", "Result"),
            ("tools/call", json!({"name": "echo", "arguments": {}}), "echo", bad_arguments),
            ("tools/call", json!({"name": "later"}), "later", "Result"),
            ("tools/call", json!({"name": "fails"}), "fails", "Failed"),
            ("tools/call", json!({"name": "panics"}), "panics", "-32603"),
            ("tools/call", json!({"name": "missing"}), "missing", "-32602"),
            ("tools/list", json!({}), "-", "Result"),
            ("tools/list", json!({"cursor": "x"}), "-", "-32602"),
            ("prompts/get", json!({"name": "greet"}), "greet", "Result"),
            ("resources/read", json!({"uri": "a://b"}), "a://b", "Result"),
            ("resources/read", json!({"uri": "a://c"}), "a://c", &not_found),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": ""}}),
                "greet",
                "Result",
            ),
            ("own/double", json!({}), "-", "-32602"),
        ] {
            let answer = pair.send_request(method, params);
            if let Ok(expected) = how.parse::<i64>() {
                assert_eq!(code(&answer), expected, "{version} {method} {name}");
            }
            let line = |who: &str, what: &str| format!("{who} {method} {name} {what}");
            let expected = [line("out", "begins"), line("in", "begins"), line("in", how), line("out", how)];
            assert_eq!(take(&seen), expected, "{version}");
        }
        if !is_modern {
            assert!(pair.send_request("ping", json!({})).is_ok());
            assert_eq!(take(&seen), [""; 0], "the connection answers that by itself");
        }
        pair.assert_clean();
    }
}

#[test]
fn rejecting_middleware_skips_the_handler() {
    let ran = Seen::default();
    let runs = ran.clone();
    let guard = async |call: IncomingRequest, next: Next| match call.name() {
        Some("forbidden") => Err("not for you".into()),
        Some("coded") => Err(Failure::rpc(ErrorObject::new(ErrorCode(-32001), "not today"))),
        Some("panics") => panic!("secret"),
        Some("withdrawn") => {
            assert_eq!(next.run().await.kind(), &ResponseKind::Result);
            Err("on second thoughts".into())
        }
        _ => Ok(next.run().await),
    };
    let run = move |name: &'static str| {
        let runs = runs.clone();
        Tool::new(name, move || lock(&runs).push(name.to_owned()))
    };
    let seen = Seen::default();
    let service = noted(Service::builder("test", "1"), &seen, "out").layer(guard);
    let service = ["forbidden", "coded", "panics", "withdrawn", "allowed"]
        .map(run)
        .into_iter()
        .fold(service, |all, tool| all.tool(tool));
    let pair = Pair::simple(&service.build().expect("a good service"));
    let call = |name: &str| pair.send_request("tools/call", json!({ "name": name }));
    let error = |code: i64, message: &str| Err(json!({"code": code, "message": message, "data": null}));
    assert_eq!(call("forbidden"), error(-32603, "not for you"));
    assert_eq!(call("coded"), error(-32001, "not today"));
    assert_eq!(call("panics"), error(-32603, "Internal error"));
    assert_eq!(call("withdrawn"), error(-32603, "on second thoughts"));
    assert!(call("allowed").is_ok());
    assert_eq!(take(&ran), ["withdrawn", "allowed"]);
    let ends: Vec<_> = take(&seen).into_iter().filter(|line| !line.ends_with("begins")).collect();
    assert_eq!(
        ends,
        [
            "out tools/call forbidden -32603",
            "out tools/call coded -32001",
            "out tools/call panics -32603",
            "out tools/call withdrawn -32603",
            "out tools/call allowed Result",
        ]
    );
    pair.assert_clean();
}

#[test]
fn elapsed_time_uses_the_connection_clock() {
    let took = Arc::new(Mutex::new(Vec::new()));
    let times = took.clone();
    let service = Service::builder("test", "1")
        .tool(Tool::new("thread", |context: Context| context.sleep(Duration::from_secs(3)).wait()))
        .tool(Tool::new_async("future", async |context: Context| context.sleep(Duration::from_secs(5)).await))
        .layer(move |call: IncomingRequest, next: Next| {
            let times = times.clone();
            async move {
                // Middleware can wait, too: the inner layers and the handler begin after that.
                call.context().sleep(Duration::from_secs(1)).await?;
                let began = call.context().now();
                let completed = next.run().await;
                lock(&times).push(call.context().now().saturating_since(began));
                Ok(completed)
            }
        })
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    for name in ["thread", "future"] {
        let pending = pair.to_server().call_tool(name, ()).expect("it can be sent");
        pair.sleep_through(pending, Duration::from_secs(1)).expect("a result");
    }
    assert_eq!(*lock(&took), [Duration::from_secs(3), Duration::from_secs(5)]);
    pair.assert_clean();
}

#[test]
fn cancellation_in_middleware_skips_handler() {
    let (ran, seen) = (Seen::default(), Seen::default());
    let (runs, sees) = (ran.clone(), seen.clone());
    let service = Service::builder("test", "1")
        .tool(Tool::new("work", move || lock(&runs).push("ran".into())))
        .layer(move |call: IncomingRequest, next: Next| {
            let seen = sees.clone();
            async move {
                lock(&seen).push("begun".into());
                call.context().sleep(Duration::from_secs(9)).await?;
                Ok(next.run().await)
            }
        })
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    let pending = pair.to_server().call_tool("work", ()).expect("it can be sent");
    pair.until(|| !lock(&seen).is_empty());
    pending.cancel(None);
    assert_eq!(pair.wait(pending), Err(CallError::Cancelled));
    assert_eq!(take(&ran), [""; 0]);
    pair.assert_clean();
}

#[test]
fn middleware_refuses_requests_for_input() {
    let requires_input = async |context: Context| {
        let params = CreateMessageParams::new([SamplingMessage::user("Well?")], 5_u64);
        context.sample(params).await.map(|_| "asked")
    };
    let late = Tool::new_async("late", requires_input).task_support(TaskSupport::Optional).defer_task();
    let service = Service::builder("test", "1").tool(Tool::new_async("asks", requires_input)).tool(late);
    let service = service.layer(async |_: IncomingRequest, next: Next| {
        let completed = next.run().await;
        match completed.kind() {
            ResponseKind::InputRequired => Err(ErrorObject::new(ErrorCode(7), "no questions").into()),
            _ => Ok(completed),
        }
    });
    let service = service.build().expect("a good service");
    let host = Host::builder("client", "1").sampling(|_, _| Err::<CreateMessageResult, _>("it was requested"));
    let pair = Pair::new(&host.build(), &service, ProtocolVersion::V2026_07_28);
    // A call that may become a task is refused as any other.
    for name in ["asks", "late"] {
        let refused = pair.send_request("tools/call", json!({ "name": name }));
        assert_eq!(code(&refused), 7, "{name}: {refused:?}");
    }
    pair.assert_clean();
}

#[test]
fn middleware_sees_input_required_rounds() {
    let seen = Seen::default();
    let requires_input = async |context: Context| {
        let params = CreateMessageParams::new([SamplingMessage::user("Well?")], 5_u64);
        context.sample(params).await.map(|_| "asked")
    };
    let late = Tool::new_async("late", requires_input).task_support(TaskSupport::Optional).defer_task();
    let service = Service::builder("test", "1").tool(Tool::new_async("asks", requires_input)).tool(late);
    let service = noted(service, &seen, "out").build().expect("a good service");
    let host = Host::builder("client", "1").sampling(|_, _| {
        Ok::<_, Failure>(CreateMessageResult::new(
            Role::Assistant,
            mcp_proto::schema::SamplingContent::text("yes"),
            "m",
        ))
    });
    let host = host.build();
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        for name in ["asks", "late"] {
            let pair = Pair::new(&host, &service, version);
            take(&seen);
            let pending = pair.to_server().call_tool(name, ()).expect("it can be sent");
            assert_eq!(pair.wait(pending).expect("a result").content[0].as_text(), Some("asked"));
            let line = |what: &str| format!("out tools/call {name} {what}");
            let mut expected = vec![line("begins"), line("Result")];
            if version.era() == Era::Modern {
                expected.splice(0..0, [line("begins"), line("InputRequired")]);
            }
            assert_eq!(take(&seen), expected, "{version}");
            pair.assert_clean();
        }
    }
}

#[test]
fn middleware_wraps_the_work_of_tasks() {
    let seen = Seen::default();
    let service = Service::builder("test", "1")
        .tool(Tool::new("work", || CallToolResult::error("broken")).task_support(TaskSupport::Required));
    let service = noted(service, &seen, "out").build().expect("a good service");
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let pair = Pair::new(&host(), &service, version);
        let tools = pair.wait(pair.to_server().list_tools(None).expect("it can be sent")).expect("tools").tools;
        take(&seen);
        let pending = pair.to_server().run_tool(&tools[0], ()).expect("it can be sent");
        let _started = pair.wait(pending).expect("it begins");
        pair.settle();
        let calls: Vec<_> = take(&seen).into_iter().filter(|line| line.contains("tools/call")).collect();
        assert_eq!(calls, ["out tools/call work begins", "out tools/call work Failed"], "{version}");
    }
}

#[test]
fn hosts_support_middleware() {
    let seen = Seen::default();
    let sees = seen.clone();
    let host = Host::builder("client", "1")
        .sampling(|_, _| Err::<CreateMessageResult, _>(Failure::rejected()))
        .elicitation(|_, _| Ok::<_, Failure>(ElicitResult::new(ElicitAction::Decline)))
        .layer(move |call, next| note(sees.clone(), "out", call, next))
        .build();
    let pair = Pair::new(&host, &echo().build().expect("a good service"), ProtocolVersion::V2025_11_25);
    let answer = pair.send_request_to_client("sampling/createMessage", json!({"messages": [], "maxTokens": 5}));
    assert_eq!(code(&answer), -1);
    assert_eq!(take(&seen), ["out sampling/createMessage - begins", "out sampling/createMessage - -1"]);
    let form = json!({"message": "Well?", "requestedSchema": {"type": "object", "properties": {}}});
    let answer = pair.send_request_to_client("elicitation/create", form);
    assert_eq!(answer.expect("a result")["action"], "decline");
    assert_eq!(take(&seen), ["out elicitation/create - begins", "out elicitation/create - Result"]);
}

#[test]
fn completion_of_another_request_is_rejected() {
    // That of a handler, and that of a middleware.
    for runs in [true, false] {
        let kept: Arc<Mutex<Option<Completed>>> = Arc::default();
        let keeps = kept.clone();
        let service = echo().tool(Tool::new("bare", || "done")).layer(move |call: IncomingRequest, next: Next| {
            let kept = keeps.clone();
            async move {
                if call.name() == Some("bare") {
                    return Ok(lock(&kept).take().expect("one was kept"));
                }
                let empty = || JsonObject::parse(r#"{"content":[]}"#).expect("an object");
                *lock(&kept) = Some(if runs { next.run().await } else { next.respond(empty()) });
                Err("kept".into())
            }
        });
        let pair = Pair::simple(&service.build().expect("a good service"));
        let call = |name: &str| pair.send_request("tools/call", json!({"name": name, "arguments": {"message": "hi"}}));
        assert_eq!(code(&call("echo")), -32603);
        assert_eq!(call("bare"), Err(json!({"code": -32603, "message": "Internal error", "data": null})));
        pair.assert_clean();
    }
}
