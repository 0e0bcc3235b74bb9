//! Scopes of protected servers where a response has no status of its own: over HTTP+SSE, and in batches. The including
//! test has the adapter as `crate::adapter`, and its runtime as `crate::run`.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http_body_util::{BodyExt, Full};
use mcp_proto::schema::{CacheScope, PromptArgument, TaskSupport};
use mcp_service::{CompletionRequest, Prompt, Resource, ResourceTemplate, Service, Tool};
use serde_json::{Value, json};

use crate::{
    adapter::http::{Body, Endpoint},
    http_protected::{Received, ask, begin, endpoint, initialize, request},
    run,
};

/// A service with tools that need no scope, two, and another one; and how often they have run.
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
        .on_notification("custom/count", {
            let count = runs.clone();
            move |_: Value, _| {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
    (service.build().expect("all names differ"), runs)
}

fn call(id: u64, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

/// A session over HTTP+SSE.
struct HttpSseSession {
    stream: Body,
    messages: String,
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

async fn open(endpoint: &Endpoint, token: &str) -> HttpSseSession {
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
async fn send(endpoint: &Endpoint, session: Option<&str>, token: &str, method: &str, mut params: Value) -> Received {
    let mut head = request("POST", "/mcp", Some(token));
    match session {
        Some(id) => head = head.header("mcp-session-id", id),
        None => {
            let name = ["name", "uri", "taskId"]
                .iter()
                .find_map(|name| params.get(*name))
                .and_then(Value::as_str)
                .map(str::to_owned);
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
    let mut params = json!({"name": tool, "arguments": {}});
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
fn notifications_about_a_task_of_a_tool_with_scopes_are_not_sent() {
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

/// A service with a prompt, a resource and a template that need scopes, and with others that need none; and how often
/// the handlers of the first have run.
fn catalog() -> (Service, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let run = || {
        let count = runs.clone();
        move || {
            count.fetch_add(1, Ordering::SeqCst);
            "done"
        }
    };
    let argument = || [PromptArgument::new("a")];
    let complete = || {
        let count = runs.clone();
        move |_: CompletionRequest| {
            count.fetch_add(1, Ordering::SeqCst);
            vec!["b"]
        }
    };
    let hour = Duration::from_secs(3600);
    let service = Service::builder("catalog", "1")
        .subscriptions()
        .prompt(
            Prompt::with_arguments("review", argument(), run())
                .complete("a", complete())
                .scope("files:read")
                .scope("files:write"),
        )
        .prompt(Prompt::new("hello", || "hello"))
        .resource(
            Resource::new("test://secret", "secret", run())
                .cache_for(hour, CacheScope::Public)
                .scope("files:read")
                .scope("files:write"),
        )
        .resource(Resource::new("test://open", "open", || "open").cache_for(hour, CacheScope::Public))
        .template(
            ResourceTemplate::new("test://files/{a}", "files", run())
                .complete("a", complete())
                .scope("files:read")
                .scope("files:write"),
        );
    (service.build().expect("all names differ"), runs)
}

/// Requests that need scopes, and whether a handler runs.
fn needy() -> [(&'static str, Value, bool); 7] {
    let complete = |reference: Value| json!({"ref": reference, "argument": {"name": "a", "value": ""}});
    [
        ("prompts/get", json!({"name": "review"}), true),
        ("resources/read", json!({"uri": "test://secret"}), true),
        ("resources/read", json!({"uri": "test://files/x"}), true),
        ("completion/complete", complete(json!({"type": "ref/prompt", "name": "review"})), true),
        ("completion/complete", complete(json!({"type": "ref/resource", "uri": "test://files/{a}"})), true),
        ("resources/subscribe", json!({"uri": "test://secret"}), false),
        ("resources/subscribe", json!({"uri": "test://files/x"}), false),
    ]
}

// req: AUTH-059 AUTH-060 M-AUTH-037
#[test]
fn requests_for_prompts_and_resources_need_their_scopes() {
    run(async {
        let (service, runs) = catalog();
        let endpoint = endpoint(&service);
        let session = begin(&endpoint, "2025-11-25", "ada").await;
        for session in [Some(&*session), None] {
            for (method, params, has_handler) in needy() {
                // Subscriptions are part of `subscriptions/listen` then.
                if session.is_none() && method == "resources/subscribe" {
                    continue;
                }
                let refused = send(&endpoint, session, "ada", method, params.clone()).await;
                let shown = (refused.status, refused.challenged("error"), refused.challenged("scope"));
                let expected = (403, Some("insufficient_scope"), Some("mcp files:read files:write"));
                assert_eq!(shown, expected, "{method} {params}: {}", refused.body);
                assert_eq!(runs.load(Ordering::SeqCst), 0, "no handler has run");
                let done = send(&endpoint, session, "ada-writes", method, params.clone()).await;
                assert_eq!(done.status, 200, "{method} {params}: {}", done.body);
                assert!(!done.body.contains("\"error\""), "{method} {params}: {}", done.body);
                assert_eq!(runs.swap(0, Ordering::SeqCst), usize::from(has_handler), "{method} {params}");
            }
            for (method, params) in
                [("prompts/get", json!({"name": "hello"})), ("resources/read", json!({"uri": "test://open"}))]
            {
                let done = send(&endpoint, session, "ada", method, params).await;
                assert_eq!(done.status, 200, "{method}: {}", done.body);
            }
            // The items stay in lists, and unknown ones are not found.
            for (method, name) in
                [("prompts/list", "review"), ("resources/list", "secret"), ("resources/templates/list", "files")]
            {
                let listed = send(&endpoint, session, "ada", method, json!({})).await;
                assert!(listed.body.contains(name), "{method}: {}", listed.body);
            }
            let unknown = send(&endpoint, session, "ada", "prompts/get", json!({"name": "x"})).await;
            assert!(unknown.body.contains("Unknown prompt"), "{}", unknown.body);
        }
        // What needs scopes is not for shared caches.
        for (uri, scope) in [("test://open", "public"), ("test://secret", "private")] {
            let read = send(&endpoint, None, "ada-writes", "resources/read", json!({"uri": uri})).await;
            assert!(read.body.contains(&format!("\"cacheScope\":\"{scope}\"")), "{}", read.body);
        }
        endpoint.close().await;
    });
}

#[test]
fn prompts_and_resources_need_their_scopes_in_batches_and_over_http_sse() {
    run(async {
        let (service, runs) = catalog();
        let endpoint = endpoint(&service);
        let id = begin(&endpoint, "2025-03-26", "ada").await;
        let sse = open(&endpoint, "ada").await;
        for (method, params, _) in needy() {
            let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
            let hello = json!({"jsonrpc": "2.0", "id": 8, "method": "prompts/get", "params": {"name": "hello"}});
            let post = request("POST", "/mcp", Some("ada")).header("mcp-session-id", &id);
            let batch = ask(&endpoint, post, &json!([hello, message])).await;
            let single = ask(&endpoint, request("POST", &sse.messages, Some("ada")), &message).await;
            for refused in [batch, single] {
                let shown = (refused.status, refused.challenged("error"), refused.challenged("scope"));
                let expected = (403, Some("insufficient_scope"), Some("mcp files:read files:write"));
                assert_eq!(shown, expected, "{method} {params}: {}", refused.body);
            }
        }
        assert_eq!(runs.load(Ordering::SeqCst), 0, "no handler has run");
        endpoint.close().await;
    });
}

/// A subscription of 2026-07-28 names resources, and is no way around their scopes.
#[test]
fn subscription_without_scopes_gets_no_notification() {
    run(async {
        let (service, _) = catalog();
        let endpoint = endpoint(&service);
        let listen = |token: &str| {
            let params = json!({"notifications": {"resourceSubscriptions": ["test://secret", "test://open"]},
                "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {}}});
            let head = request("POST", "/mcp", Some(token)).header("mcp-protocol-version", "2026-07-28");
            let head = head.header("mcp-method", "subscriptions/listen");
            let body = json!({"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": params});
            head.body(Full::new(io::Cursor::new(body.to_string()))).expect("a request")
        };
        let mut streams = Vec::new();
        for token in ["ada", "ada-writes"] {
            let mut stream = endpoint.handle(listen(token)).await.into_body();
            let acknowledged = stream.frame().await.expect("the stream goes on").expect("it is read");
            assert!(acknowledged.into_data().is_ok());
            streams.push(stream);
        }
        assert_eq!((service.resource_updated("test://secret"), service.resource_updated("test://open")), (1, 2));
        for (stream, first) in streams.iter_mut().zip(["test://open", "test://secret"]) {
            let mut text = String::new();
            while !text.contains("notifications/resources/updated") {
                let frame = stream.frame().await.expect("the stream goes on").expect("it is read");
                text += std::str::from_utf8(&frame.into_data().expect("data")).expect("text");
            }
            let (_, update) = text.split_once("notifications/resources/updated").expect("it is there");
            assert!(update.contains(first), "{text}");
        }
        endpoint.close().await;
    });
}
