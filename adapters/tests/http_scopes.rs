//! Scopes of protected servers where a response has no status of its own: over HTTP+SSE, and in batches. The including
//! test has the adapter as `crate::adapter`, and its runtime as `crate::run`.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use http_body_util::{BodyExt, Full};
use mcp_service::{Service, Tool};
use serde_json::{Value, json};

use crate::{
    adapter::http::{Body, Endpoint},
    http_protected::{ask, begin, endpoint, initialize, request},
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
        .tool(tool("purge").scope("files:purge").scope("files:read"));
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
        let batch = json!([call(1, "open"), call(2, "write"), call(3, "nothing")]);
        let done = ask(&endpoint, post("ada-writes"), &batch).await;
        assert_eq!((done.status, runs.load(Ordering::SeqCst)), (200, 2), "{}", done.body);
        assert!(done.body.contains("Unknown tool"), "{}", done.body);
        endpoint.close().await;
    });
}
