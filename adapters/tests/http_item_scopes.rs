//! Scopes of prompts, resources and templates of protected servers. The including test has the adapter as
//! `crate::adapter`, and its runtime as `crate::run`.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http_body_util::{BodyExt, Full};
use mcp_proto::schema::{CacheScope, PromptArgument};
use mcp_service::{CompletionRequest, Prompt, Resource, ResourceTemplate, Service};
use serde_json::{Value, json};

use crate::{
    http_protected::{ask, begin, endpoint, request},
    http_scopes::{open, send},
    run,
};

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
fn prompts_and_resources_need_scopes_in_batches_and_sse() {
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
