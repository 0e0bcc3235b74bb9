//! Middleware that reads and replaces arguments and results.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{
        CallToolResult, CreateMessageParams, CreateMessageResult, PromptArgument, Role, SamplingContent,
        SamplingMessage, TaskSupport,
    },
    wire::JsonObject,
};
use serde_json::{Value, json};

use super::{
    echo, object,
    pair::{Pair, code},
};
use crate::{
    client::Host,
    inbound::{
        context::Context,
        failure::Failure,
        middleware::{IncomingRequest, Next},
        rpc_result::ResponseKind,
    },
    server::{builder::ServiceBuilder, prompt::Prompt, resource::Resource, service::Service, tool::Tool},
    tasks::handle::ResultOrTask,
    util::lock::lock,
};

fn host() -> Host {
    Host::builder("client", "1").build()
}

fn text(text: &str) -> JsonObject {
    object(&json!({ "content": [{ "type": "text", "text": text }] }))
}

/// The members that decide a test.
fn content(answer: Result<Value, Value>) -> Value {
    answer.expect("a result")["content"].take()
}

fn said(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

/// A service with an item of each kind.
fn items() -> ServiceBuilder {
    echo()
        .tool(Tool::new_async("later", async || "done"))
        .tool(Tool::new("fails", || Err::<(), _>("no luck")))
        .prompt(Prompt::with_arguments("greet", [PromptArgument::new("who")], |texts: Who| format!("Hi {}", texts.who)))
        .resource(Resource::new("a://b", "b", || "text"))
}

#[derive(serde::Deserialize)]
struct Who {
    who: String,
}

const REQUESTS: [(&str, &str); 6] = [
    ("tools/call", r#"{"name": "echo", "arguments": {"message": "hi"}}"#),
    ("tools/call", r#"{"name": "later"}"#),
    ("tools/call", r#"{"name": "fails"}"#),
    ("tools/list", "{}"),
    ("prompts/get", r#"{"name": "greet", "arguments": {"who": "Ada"}}"#),
    ("resources/read", r#"{"uri": "a://b"}"#),
];

#[test]
fn middleware_reads_params_and_results() {
    type Seen = Arc<Mutex<Vec<(Option<Value>, Option<Value>, Option<Value>)>>>;
    let seen = Seen::default();
    let sees = seen.clone();
    let reading = items().layer(move |call: IncomingRequest, next: Next| {
        let seen = sees.clone();
        async move {
            let completed = next.run().await;
            let params = call.params().map(|params| params.decode().expect("JSON"));
            let arguments = call.arguments().map(|arguments| arguments.decode().expect("JSON"));
            let result = completed.result().map(|result| result.decode().expect("JSON"));
            lock(&seen).push((params, arguments, result));
            Ok(completed)
        }
    });
    let (reading, plain) = (reading.build().expect("a good service"), items().build().expect("a good service"));
    for version in ProtocolVersion::ALL {
        let (with, without) = (Pair::new(&host(), &reading, version), Pair::new(&host(), &plain, version));
        lock(&seen).clear();
        for (method, params) in REQUESTS {
            let params: Value = serde_json::from_str(params).expect("JSON");
            let answer = with.send_request(method, params.clone());
            assert_eq!(answer, without.send_request(method, params.clone()), "{version} {method}");
            let mut answer = answer.expect("a result");
            let (sent, arguments, result) = lock(&seen).pop().expect("it was seen");
            let mut sent = sent.expect("it has params");
            sent.as_object_mut().expect("an object").remove("_meta");
            assert_eq!(sent, params);
            assert_eq!(arguments, params.get("arguments").cloned());
            let mut result = result.expect("a result");
            for value in [&mut answer, &mut result] {
                let members = value.as_object_mut().expect("an object");
                members.retain(|name, _| !["_meta", "resultType", "ttlMs", "cacheScope"].contains(&name.as_str()));
            }
            assert_eq!(result, answer, "{version} {method}");
        }
        // An error is no result.
        assert_eq!(code(&with.send_request("tools/call", json!({"name": "missing"}))), -32602);
        assert_eq!(lock(&seen).pop().expect("it was seen").2, None);
        with.assert_clean();
    }
}

#[test]
fn replaced_arguments_are_checked() {
    let service = items().layer(async |call: IncomingRequest, next: Next| {
        let arguments = match (call.name(), call.arguments().and_then(|arguments| arguments.decode::<Value>().ok())) {
            (Some("echo"), Some(arguments)) if arguments["message"] == "bad" => json!({"message": 5}),
            (Some("echo"), Some(_)) => json!({"message": "replaced"}),
            (Some("greet"), _) => json!({"who": "Grace"}),
            (Some("later"), _) | (None, _) => json!({}),
            _ => return Ok(next.run().await),
        };
        Ok(next.with_arguments(object(&arguments)).run().await)
    });
    // The inner middleware sees what the outer one has set.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let service = service.layer(move |call: IncomingRequest, next: Next| {
        if let Some(arguments) = call.arguments() {
            lock(&sees).push(arguments.get().to_owned());
        }
        next_run(next)
    });
    let service = service.build().expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = Pair::new(&host(), &service, version);
        let call =
            |message: &str| pair.send_request("tools/call", json!({"name": "echo", "arguments": {"message": message}}));
        assert_eq!(content(call("hi")), said("replaced"));
        let bad = call("bad");
        if version.reports_bad_arguments_as_result() {
            assert_eq!(bad.expect("a result")["isError"], json!(true));
        } else {
            assert_eq!(code(&bad), -32602);
        }
        let greeted = pair.send_request("prompts/get", json!({"name": "greet", "arguments": {"who": "Ada"}}));
        assert_eq!(greeted.expect("a result")["messages"][0]["content"]["text"], json!("Hi Grace"));
        assert_eq!(code(&pair.send_request("tools/list", json!({}))), -32603, "it has no arguments");
        let expected = [r#"{"message":"replaced"}"#, r#"{"message":5}"#, r#"{"who":"Grace"}"#];
        assert_eq!(std::mem::take(&mut *lock(&seen)), expected);
        pair.assert_clean();
    }
}

/// The type of the handler's arguments accepts everything, so only the schema can refuse them.
#[cfg(any(feature = "schemas", feature = "json-schema"))]
#[test]
fn replaced_arguments_are_checked_against_the_schema() {
    let schema = json!({"type": "object", "properties": {"size": {"enum": ["s", "m"]}}, "required": ["size"]});
    let ran = Arc::new(AtomicUsize::new(0));
    let runs = ran.clone();
    let pick = Tool::with_schema("pick", object(&schema), move |arguments: Value| {
        runs.fetch_add(1, Ordering::SeqCst);
        arguments["size"].to_string()
    });
    let service = Service::builder("test", "1").tool(pick).layer(async |call: IncomingRequest, next: Next| {
        let replaced = match call.decode_arguments::<Value>()?["size"].as_str() {
            Some("m") => "xl",
            _ => "s",
        };
        Ok(next.with_arguments(object(&json!({ "size": replaced }))).run().await)
    });
    let service = service.build().expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = Pair::new(&host(), &service, version);
        let call = |size: &str| pair.send_request("tools/call", json!({"name": "pick", "arguments": {"size": size}}));
        let refused = call("m");
        if version.reports_bad_arguments_as_result() {
            assert_eq!(refused.expect("a result")["isError"], json!(true), "{version}");
        } else {
            assert_eq!(code(&refused), -32602, "{version}");
        }
        assert_eq!(ran.load(Ordering::SeqCst), 0, "{version}");
        // The arguments of the client are not checked in their place.
        assert_eq!(content(call("none of these")), said("\"s\""), "{version}");
        assert_eq!(ran.swap(0, Ordering::SeqCst), 1, "{version}");
        pair.assert_clean();
    }
}

async fn next_run(next: Next) -> Result<crate::inbound::middleware::Completed, Failure> {
    Ok(next.run().await)
}

#[test]
fn replaced_results_are_sent() {
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let sees = kinds.clone();
    let service = items().layer(move |_: IncomingRequest, next: Next| {
        let kinds = sees.clone();
        async move {
            let completed = next.run().await;
            let result = completed.result().map(|result| result.decode::<Value>().expect("JSON"));
            lock(&kinds).push((completed.kind().clone(), result));
            Ok(completed)
        }
    });
    let service = service.layer(async |call: IncomingRequest, next: Next| {
        let completed = next.run().await;
        Ok(match call.name() {
            Some("echo") => completed.with_result(text("masked")),
            // An error becomes a result.
            Some("missing") => completed.with_result(text("there is none")),
            Some("later") => completed.with_result(object(&json!({"content": [], "isError": true}))),
            Some("fails") => completed.with_result(object(&json!({"resultType": "input_required"}))),
            _ => completed,
        })
    });
    let service = service.build().expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = Pair::new(&host(), &service, version);
        let call = |name: &str| pair.send_request("tools/call", json!({"name": name, "arguments": {"message": "hi"}}));
        lock(&kinds).clear();
        assert_eq!(content(call("echo")), said("masked"), "{version}");
        assert_eq!(content(call("missing")), said("there is none"), "{version}");
        assert_eq!(call("later").expect("a result")["isError"], json!(true));
        assert_eq!(call("fails"), Err(json!({"code": -32603, "message": "Internal error", "data": null})));
        let seen = std::mem::take(&mut *lock(&kinds));
        assert_eq!(seen[0], (ResponseKind::Result, Some(json!({ "content": said("masked") }))));
        assert_eq!(seen[1].0, ResponseKind::Result);
        assert_eq!(seen[2].0, ResponseKind::Failed);
        assert!(matches!(seen[3], (ResponseKind::Error(_), None)));
        pair.assert_clean();
    }
}

#[test]
fn responding_middleware_skips_the_handler() {
    let ran = Arc::new(AtomicUsize::new(0));
    let runs = ran.clone();
    let service = Service::builder("test", "1")
        .tool(Tool::new("work", move || runs.fetch_add(1, Ordering::SeqCst).to_string()))
        .layer(async |call: IncomingRequest, next: Next| match call.method() {
            "tools/call" => Ok(next.respond(text("kept"))),
            _ => Ok(next.run().await),
        })
        .build()
        .expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = Pair::new(&host(), &service, version);
        assert_eq!(content(pair.send_request("tools/call", json!({"name": "work"}))), said("kept"));
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        pair.assert_clean();
    }
}

#[test]
fn dropping_the_rest_drops_the_handler() {
    let alive = Arc::new(());
    let held = alive.clone();
    let service = Service::builder("test", "1")
        .tool(Tool::new_async("work", move |context: Context| {
            let held = held.clone();
            async move {
                context.sleep(Duration::from_secs(60)).await?;
                drop(held);
                Ok::<_, Failure>("done")
            }
        }))
        .layer(async |call: IncomingRequest, next: Next| {
            let limit = call.context().sleep(Duration::from_secs(1));
            match crate::driver_api::deferred::select_biased(next.run(), limit).await {
                Ok(completed) => Ok(completed),
                Err(_) => Err("too slow".into()),
            }
        })
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    let pending = pair.to_server().call_tool("work", ()).expect("it can be sent");
    let ended = pair.sleep_through(pending, Duration::from_secs(1));
    assert!(ended.is_err());
    // The thread of the job may still be dropping it. Its time of a minute does not pass.
    pair.until(|| Arc::strong_count(&alive) == 2);
    pair.assert_clean();
}

/// A host that responds to sampling.
fn model() -> Host {
    let yes = |_, _| Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("yes"), "m"));
    Host::builder("client", "1").sampling(yes).build()
}

#[test]
fn input_required_rounds_keep_their_outcome() {
    let answered = Arc::<AtomicUsize>::default();
    let requires_input = || {
        let answers = answered.clone();
        move |context: Context| {
            let answers = answers.clone();
            async move {
                let params = CreateMessageParams::new([SamplingMessage::user("Well?")], 5_u64);
                let answer = context.sample(params).await;
                answer.map(|_| answers.fetch_add(1, Ordering::Relaxed).to_string())
            }
        }
    };
    let late = Tool::new_async("late", requires_input()).task_support(TaskSupport::Optional).defer_task();
    let service = Service::builder("test", "1").tool(Tool::new_async("asks", requires_input())).tool(late);
    let service = service.layer(async |call: IncomingRequest, next: Next| {
        let completed = next.run().await;
        if *completed.kind() == ResponseKind::InputRequired {
            assert_eq!(completed.result(), None);
        }
        Ok(if call.method() == "tools/call" { completed.with_result(text("replaced")) } else { completed })
    });
    let service = service.build().expect("a good service");
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        for name in ["asks", "late"] {
            let pair = Pair::new(&model(), &service, version);
            let pending = pair.to_server().call_tool(name, ()).expect("it can be sent");
            assert_eq!(pair.wait(pending).expect("a result").content[0].as_text(), Some("replaced"), "{version}");
            pair.assert_clean();
        }
    }
    assert_eq!(answered.load(Ordering::Relaxed), 4, "each call has its input");
}

#[test]
fn results_of_tasks_are_replaced() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("work", || "secret").task_support(TaskSupport::Required))
        .tool(Tool::new("breaks", || CallToolResult::error("secret")).task_support(TaskSupport::Required))
        .layer(async |call: IncomingRequest, next: Next| {
            let completed = next.run().await;
            Ok(match call.name() {
                Some("work") => completed.with_result(text("masked")),
                Some("breaks") => completed.with_result(object(&json!({
                    "content": [{ "type": "text", "text": "masked" }], "isError": true,
                }))),
                _ => completed,
            })
        })
        .build()
        .expect("a good service");
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let pair = Pair::new(&host(), &service, version);
        let tools = pair.wait(pair.to_server().list_tools(None).expect("it can be sent")).expect("tools").tools;
        for tool in &tools {
            let pending = pair.to_server().run_tool(tool, ()).expect("it can be sent");
            let ResultOrTask::Task(task) = pair.wait(pending).expect("it begins") else { panic!("a task") };
            pair.settle();
            let result = pair.wait(task.result().expect("it can be sent")).expect("a result");
            assert_eq!(result.content[0].as_text(), Some("masked"), "{version}");
        }
        let lines = lock(&pair.server.lines).join("\n");
        assert!(!lines.contains("secret"), "{version} {lines}");
    }
}
