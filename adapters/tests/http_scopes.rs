//! Scopes of protected servers where a response has no status of its own: over HTTP+SSE, and in batches. The including
//! test has the adapter as `crate::adapter`, and its runtime as `crate::run`.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use http_body_util::{BodyExt, Full};
use mcp_proto::{
    connection::Principal,
    http::server::Caller,
    schema::{LoggingLevel, TaskSupport},
};
use mcp_service::{CallError, Context, Prompt, Resource, Service, Tool};
use serde_json::{Value, json};

use crate::{
    adapter::http::{Body, Endpoint},
    http_protected::{Received, ask, begin, endpoint, initialize, request, unprotected},
    run, timeout,
};

/// A service with tools that need no scope, two, and another one, and how often they have run; and with a prompt and a
/// resource that need two.
fn service() -> (Service, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let tool = |name: &str| {
        let count = runs.clone();
        Tool::new_async(name, move || {
            count.fetch_add(1, Ordering::SeqCst);
            async { "done" }
        })
    };
    let service = Service::builder("scopes", "1")
        .tool(tool("open"))
        .tool(tool("write").scope("files:read").scope("files:write"))
        .tool(tool("purge").scope("files:purge").scope("files:read"))
        .tool(tool("scan").scope("files:read").scope("files:write").task_support(TaskSupport::Optional))
        .tool(tool("count").task_support(TaskSupport::Optional))
        .tool(
            Tool::new_async("talk", async |context: Context| talk("talk", context).await)
                .scope("files:read")
                .scope("files:write")
                .task_support(TaskSupport::Optional),
        )
        .tool(
            Tool::new_async("chat", async |context: Context| talk("chat", context).await)
                .task_support(TaskSupport::Optional),
        )
        .prompt(
            Prompt::new_async("talk", async |context: Context| talk("talk", context).await)
                .scope("files:read")
                .scope("files:write"),
        )
        .resource(
            Resource::new_async("test://talk", "talk", async |context: Context| talk("talk", context).await)
                .scope("files:read")
                .scope("files:write"),
        )
        .on_notification("custom/count", {
            let count = runs.clone();
            move |_: Value, _| {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
    (service.build().expect("all names differ"), runs)
}

/// Logs, reports progress and asks the client's model. The texts begin with this name.
async fn talk(name: &str, context: Context) -> Result<String, CallError> {
    context.log(LoggingLevel::Error, None, format!("{name} log")).await?;
    context.progress(1.0, None, Some(&format!("{name} progress"))).await?;
    let answer = context.sample_text(format!("{name} question"), 9).await?;
    context.log(LoggingLevel::Error, None, format!("{name} end")).await?;
    Ok(format!("{name} {answer}"))
}

fn call(id: u64, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

/// A session over HTTP+SSE.
pub(crate) struct HttpSseSession {
    stream: Body,
    pub(crate) messages: String,
}

impl HttpSseSession {
    /// Waits for the data of the next event.
    async fn event(&mut self) -> String {
        loop {
            let frame = self.stream.frame().await.expect("the stream goes on").expect("it is read");
            let text = String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text");
            if let Some((_, data)) = text.split_once("data: ") {
                return data.trim().to_owned();
            }
        }
    }
}

pub(crate) async fn open(endpoint: &Endpoint, token: &str) -> HttpSseSession {
    let opening = request("GET", "/sse", Some(token)).body(Full::new(io::Cursor::new(String::new())));
    let response = endpoint.handle(opening.expect("a request")).await;
    let mut session = HttpSseSession { stream: response.into_body(), messages: String::new() };
    session.messages = session.event().await;
    for message in [initialize("2024-11-05"), json!({"jsonrpc": "2.0", "method": "notifications/initialized"})] {
        let posted = ask(endpoint, request("POST", &session.messages, Some(token)), &message).await;
        assert_eq!(posted.status, 202, "{}", posted.body);
    }
    assert!(session.event().await.contains("\"serverInfo\""));
    session
}

/// The POST gets the challenge, and nothing is sent on the stream: the client may send the request again.
#[test]
fn a_call_over_http_sse_needs_the_scopes_of_its_tool() {
    run(async {
        let (service, runs) = service();
        let endpoint = endpoint(&service);
        let mut session = open(&endpoint, "ada").await;
        let post = |token| request("POST", &session.messages, Some(token));
        for _ in 0..2 {
            let refused = ask(&endpoint, post("ada"), &call(7, "write")).await;
            assert_eq!((refused.status, refused.challenged("error")), (403, Some("insufficient_scope")));
            assert_eq!(refused.challenged("scope"), Some("mcp files:read files:write"));
            let error: Value = serde_json::from_str(&refused.body).expect("JSON");
            assert_eq!((&error["id"], &error["error"]["code"]), (&json!(7), &json!(-32600)));
            assert_eq!(error["error"]["message"], "Insufficient scope: files:read files:write");
        }
        assert_eq!(runs.load(Ordering::SeqCst), 0, "the handler has not run");
        assert_eq!(ask(&endpoint, post("ada-writes"), &call(7, "write")).await.status, 202);
        let answer: Value = serde_json::from_str(&session.event().await).expect("JSON");
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(7), &json!("done")));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        endpoint.close().await;
    });
}

/// None of the calls runs, so the client may send the batch again.
#[test]
fn a_batch_needs_the_scopes_of_all_its_calls() {
    run(async {
        let (service, runs) = service();
        let endpoint = endpoint(&service);
        let id = begin(&endpoint, "2025-03-26", "ada").await;
        let post = |token| request("POST", "/mcp", Some(token)).header("mcp-session-id", &id);
        for (token, tools, needed) in [
            ("ada", &["open", "write"][..], "mcp files:read files:write"),
            ("ada", &["write", "open"], "mcp files:read files:write"),
            ("ada", &["write"], "mcp files:read files:write"),
            ("ada", &["open", "purge", "write", "write"], "mcp files:purge files:read files:write"),
            ("ada-writes", &["open", "purge", "write"], "mcp files:purge files:read files:write"),
        ] {
            let batch: Value = tools.iter().zip(1..).map(|(tool, id)| call(id, tool)).collect();
            let refused = ask(&endpoint, post(token), &batch).await;
            let shown = (refused.status, refused.challenged("error"), refused.challenged("scope"));
            assert_eq!(shown, (403, Some("insufficient_scope"), Some(needed)), "{tools:?}: {}", refused.body);
            let error: Value = serde_json::from_str(&refused.body).expect("JSON");
            assert_eq!(error.get("id"), None, "it answers no single request");
            assert_eq!(runs.load(Ordering::SeqCst), 0, "no handler has run");
        }
        // Nor is a notification handled: it is sent again with the batch.
        let notification = json!({"jsonrpc": "2.0", "method": "custom/count", "params": {}});
        let batch = json!([notification, call(1, "write"), notification]);
        assert_eq!(ask(&endpoint, post("ada"), &batch).await.status, 403);
        assert_eq!(runs.load(Ordering::SeqCst), 0, "no handler has run");
        // Notifications are handled before the requests after them.
        let done = ask(&endpoint, post("ada-writes"), &json!([notification, call(1, "write")])).await;
        assert_eq!((done.status, runs.swap(0, Ordering::SeqCst)), (200, 2), "{}", done.body);
        let batch = json!([call(1, "open"), call(2, "write"), call(3, "nothing")]);
        let done = ask(&endpoint, post("ada-writes"), &batch).await;
        assert_eq!((done.status, runs.load(Ordering::SeqCst)), (200, 2), "{}", done.body);
        assert!(done.body.contains("Unknown tool"), "{}", done.body);
        endpoint.close().await;
    });
}

/// Sends a request in a session, or one of 2026-07-28 of a client with tasks.
pub(crate) async fn send(
    endpoint: &Endpoint,
    session: Option<&str>,
    token: &str,
    method: &str,
    mut params: Value,
) -> Received {
    let mut head = request("POST", "/mcp", Some(token));
    match session {
        Some(id) => head = head.header("mcp-session-id", id),
        None => {
            let names = ["name", "uri", "taskId"];
            let name = names.iter().find_map(|name| params.get(*name)).and_then(Value::as_str).map(str::to_owned);
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
            head = head.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
            head = name.into_iter().fold(head, |head, name| head.header("mcp-name", name));
        }
    }
    ask(endpoint, head, &json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params})).await
}

/// Calls a tool as a task, and returns the id of the task.
async fn begin_task(endpoint: &Endpoint, session: Option<&str>, tool: &str) -> String {
    let mut params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": tool}});
    if session.is_some() {
        params["task"] = json!({});
    }
    let begun = send(endpoint, session, "ada-writes", "tools/call", params).await;
    let (_, id) = begun.body.split_once("\"taskId\":\"").expect("a task");
    id.split_once('"').expect("an id").0.to_owned()
}

// req: AUTH-059 AUTH-060 M-AUTH-037
#[test]
fn requests_for_a_task_need_the_scopes_of_its_tool() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        let session = begin(&endpoint, "2025-11-25", "ada").await;
        for (session, methods) in [
            (Some(&*session), &["tasks/get", "tasks/result", "tasks/cancel"][..]),
            (None, &["tasks/get", "tasks/update", "tasks/cancel", "subscriptions/listen"]),
        ] {
            let (protected, open) =
                (begin_task(&endpoint, session, "scan").await, begin_task(&endpoint, session, "count").await);
            let params = |method: &str, task: &str| match method {
                "tasks/update" => json!({"taskId": task, "inputResponses": {}}),
                "subscriptions/listen" => json!({"notifications": {"taskIds": [task]}}),
                _ => json!({"taskId": task}),
            };
            for method in methods {
                let refused = send(&endpoint, session, "ada", method, params(method, &protected)).await;
                let shown = (refused.status, refused.challenged("error"), refused.challenged("scope"));
                let expected = (403, Some("insufficient_scope"), Some("mcp files:read files:write"));
                assert_eq!(shown, expected, "{method}: {}", refused.body);
                // An unknown task, and one of another subject, are not found.
                if *method != "subscriptions/listen" {
                    let unknown = send(&endpoint, session, "ada", method, params(method, "unknown")).await;
                    assert!(unknown.body.contains("Task not found"), "{method}: {}", unknown.body);
                }
            }
            let listed = match session {
                Some(_) => send(&endpoint, session, "ada", "tasks/list", json!({})).await.body,
                None => open.clone(),
            };
            assert!(listed.contains(&open) && !listed.contains(&protected), "{listed}");
            // The handler has not been cancelled, and the scopes are enough.
            let get = send(&endpoint, session, "ada-writes", "tasks/get", params("", &protected)).await;
            assert!(get.status == 200 && get.body.contains(&protected), "{}", get.body);
            let get = send(&endpoint, session, "ada", "tasks/get", params("", &open)).await;
            assert!(get.status == 200 && get.body.contains(&open), "{}", get.body);
        }
        // Another subject does not find it.
        let protected = begin_task(&endpoint, None, "scan").await;
        let other = send(&endpoint, None, "eve", "tasks/get", json!({"taskId": protected})).await;
        assert!(other.body.contains("Task not found"), "{}", other.body);
        endpoint.close().await;
    });
}

/// Another token of the same subject may have opened the stream of the session.
#[test]
fn notifications_about_tasks_with_scopes_are_not_sent() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        let session = begin(&endpoint, "2025-11-25", "ada").await;
        let listen = request("GET", "/mcp", Some("ada")).header("mcp-session-id", &session);
        let listen = listen.body(Full::new(io::Cursor::new(String::new()))).expect("a request");
        let mut stream = endpoint.handle(listen).await.into_body();
        let mut tasks = Vec::new();
        for tool in ["scan", "count"] {
            let task = begin_task(&endpoint, Some(&session), tool).await;
            let result = send(&endpoint, Some(&session), "ada-writes", "tasks/result", json!({"taskId": task})).await;
            assert!(result.text().contains("done"), "{}", result.body);
            tasks.push(task);
        }
        let mut text = String::new();
        while !text.contains("notifications/tasks/status") {
            let frame = stream.frame().await.expect("the stream goes on").expect("it is read");
            text += std::str::from_utf8(&frame.into_data().expect("data")).expect("text");
        }
        assert!(text.contains(&tasks[1]) && !text.contains(&tasks[0]), "{tasks:?} {text}");
        endpoint.close().await;
    });
}

/// A stream of events, as far as it was read.
struct EventStream {
    body: Body,
    text: String,
}

impl EventStream {
    async fn open(endpoint: &Endpoint, head: http::request::Builder, body: &Value) -> Self {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = head.body(Full::new(io::Cursor::new(body))).expect("a request");
        Self { body: endpoint.handle(request).await.into_body(), text: String::new() }
    }

    /// Reads until the text contains all of these.
    async fn read_until(&mut self, parts: &[&str]) -> &str {
        while !parts.iter().all(|part| self.text.contains(part)) {
            let frame = timeout(Duration::from_secs(60), self.body.frame()).await.expect("it arrives within a minute");
            let frame = frame.expect("the stream goes on").expect("it is read");
            self.text += std::str::from_utf8(&frame.into_data().expect("data")).expect("text");
        }
        &self.text
    }

    /// Returns the id of the question on the stream.
    fn question(&self) -> Value {
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data: {")).map(|rest| format!("{{{rest}"));
        let mut messages = data.map(|data| serde_json::from_str::<Value>(&data).expect("JSON"));
        messages.find(|message| message["method"] == "sampling/createMessage").expect("a question")["id"].clone()
    }
}

/// Begins a session of a client with a model.
async fn begin_with_model(endpoint: &Endpoint, token: &str) -> String {
    let mut opening = initialize("2025-11-25");
    opening["params"]["capabilities"] = json!({"sampling": {}});
    let begun = ask(endpoint, request("POST", "/mcp", Some(token)), &opening).await;
    let id = begun.header("mcp-session-id").expect("a session").to_owned();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    ask(endpoint, request("POST", "/mcp", Some(token)).header("mcp-session-id", &id), &initialized).await;
    id
}

async fn respond(endpoint: &Endpoint, session: &str, id: Value) {
    let result = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "done"}});
    let head = request("POST", "/mcp", Some("ada-writes")).header("mcp-session-id", session);
    let said = ask(endpoint, head, &json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    assert_eq!(said.status, 202, "{}", said.body);
}

/// Logs, progress and questions of the task are sent only to a request for its result, which had the scopes.
#[test]
fn messages_of_tasks_with_scopes_are_sent_with_the_result() {
    run(async {
        let (service, _) = service();
        let endpoint = endpoint(&service);
        let session = begin_with_model(&endpoint, "ada").await;
        let in_session = |method, token| request(method, "/mcp", Some(token)).header("mcp-session-id", &session);
        let mut listener = EventStream::open(&endpoint, in_session("GET", "ada"), &Value::Null).await;
        let protected = begin_task(&endpoint, Some(&session), "talk").await;
        // The client finds out that it has to wait for the result.
        let about = json!({"taskId": protected});
        while !send(&endpoint, Some(&session), "ada-writes", "tasks/get", about.clone())
            .await
            .body
            .contains("input_required")
        {}
        let wait = json!({"jsonrpc": "2.0", "id": 3, "method": "tasks/result", "params": about});
        let mut result = EventStream::open(&endpoint, in_session("POST", "ada-writes"), &wait).await;
        result.read_until(&["talk question"]).await;
        let question = result.question();
        respond(&endpoint, &session, question).await;
        let text = result.read_until(&["talk end", "talk done"]).await;
        assert!(!text.contains("talk log"), "no request has waited then: {text}");
        // Those of a tool without scopes are sent on the stream of the session.
        let open = begin_task(&endpoint, Some(&session), "chat").await;
        let expected = ["chat log", "chat progress", "chat question", "input_required", &*open];
        listener.read_until(&expected).await;
        let question = listener.question();
        respond(&endpoint, &session, question).await;
        let text = listener.read_until(&["chat end", "completed"]).await;
        assert!(!text.contains("talk") && !text.contains(&protected), "{text}");
        endpoint.close().await;
    });
}

/// `Last-Event-ID` is no way around the scopes of an item.
#[test]
fn resuming_a_response_needs_the_scopes_of_its_tool() {
    resume_needs_scopes("tools/call", json!({"name": "talk", "arguments": {}}));
}

#[test]
fn resuming_a_response_needs_the_scopes_of_its_prompt() {
    resume_needs_scopes("prompts/get", json!({"name": "talk"}));
}

#[test]
fn resuming_a_response_needs_the_scopes_of_its_resource() {
    resume_needs_scopes("resources/read", json!({"uri": "test://talk"}));
}

fn resume_needs_scopes(method: &str, params: Value) {
    let (service, _) = service();
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    run(async {
        let endpoint = endpoint(&service);
        let session = begin_with_model(&endpoint, "ada").await;
        let in_session = |method, token| request(method, "/mcp", Some(token)).header("mcp-session-id", &session);
        let mut first = EventStream::open(&endpoint, in_session("POST", "ada-writes"), &message).await;
        first.read_until(&["talk question"]).await;
        let question = first.question();
        let (_, rest) = first.text.split_once("id: ").expect("an id");
        let last = rest.lines().next().expect("an id").to_owned();
        assert!(last.ends_with("-0"), "{last}");
        for _ in 0..2 {
            let refused = ask(&endpoint, in_session("GET", "ada").header("last-event-id", &last), &Value::Null).await;
            assert_eq!((refused.status, refused.challenged("error")), (403, Some("insufficient_scope")));
            assert_eq!(refused.challenged("scope"), Some("mcp files:read files:write"));
        }
        let again = in_session("GET", "ada-writes").header("last-event-id", &last);
        respond(&endpoint, &session, question).await;
        first.read_until(&["talk done"]).await;
        let refused = ask(&endpoint, in_session("GET", "ada").header("last-event-id", &last), &Value::Null).await;
        assert_eq!(refused.status, 403, "after the response as well");
        let mut again = EventStream::open(&endpoint, again, &Value::Null).await;
        again.read_until(&["talk log", "talk done"]).await;
        endpoint.close().await;
    });
}

/// A layer that authenticates requests itself sets when the authorization expires.
#[test]
fn layer_sets_the_expiry_of_a_stream() {
    run(async {
        let (service, _) = service();
        let endpoint = unprotected(&service);
        let caller = |expires| {
            let mut principal = Principal::new("ada");
            principal.expires = expires;
            Caller::Known(Arc::new(principal))
        };
        let head = request("POST", "/mcp", None).extension(caller(None));
        let begun = ask(&endpoint, head, &initialize("2025-11-25")).await;
        let session = begun.header("mcp-session-id").expect("a session");
        let (start, time) = (Instant::now(), Duration::from_millis(200));
        let expires = endpoint.timestamp(SystemTime::now() + time);
        let head = request("GET", "/mcp", None).header("mcp-session-id", session).extension(caller(Some(expires)));
        let mut stream = EventStream::open(&endpoint, head, &Value::Null).await;
        while stream.body.frame().await.transpose().expect("it is read").is_some() {}
        assert!(start.elapsed() >= time / 2, "it ends when the authorization expires: {:?}", start.elapsed());
        assert!(endpoint.timestamp(SystemTime::now() - time) < endpoint.timestamp(SystemTime::now() + time));
        endpoint.close().await;
    });
}
