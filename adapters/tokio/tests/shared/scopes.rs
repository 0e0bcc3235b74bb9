//! Scopes of streams that clients resume in another process.

use std::{io, sync::Arc};

use http::{Request, header, request::Builder};
use http_body_util::{BodyExt, Full};
use mcp_proto::{connection::Principal, http::server::Caller};
use mcp_service::{CallError, Context, Service, Tool};
use mcp_tokio::{
    DriverOptions,
    http::{Body, Endpoint, EndpointOptions, Policy},
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::Both;

fn request(method: &str, session: Option<&str>, scopes: &[&str]) -> Builder {
    let mut principal = Principal::new("ada");
    principal.scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    let request = Request::builder()
        .method(method)
        .uri("/mcp")
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .extension(Caller::Known(Arc::new(principal)));
    session.into_iter().fold(request, |request, id| request.header("mcp-session-id", id))
}

async fn send(endpoint: &Endpoint, head: Builder, body: &Value) -> http::Response<Body> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    endpoint.handle(head.body(Full::new(io::Cursor::new(body))).expect("a request")).await
}

/// Reads until the text contains this.
async fn read_until(body: &mut Body, part: &str) -> String {
    let mut text = String::new();
    while !text.contains(part) {
        let frame = body.frame().await.expect("the stream goes on").expect("it is read");
        text += std::str::from_utf8(&frame.into_data().expect("data")).expect("text");
    }
    text
}

/// The scopes of a tool hold in each process, for the messages that another one has stored.
pub(crate) async fn stream_needs_its_scopes_on_another_endpoint(shared: Both) {
    let gate = Arc::new(Semaphore::new(0));
    let [one, other] = shared.map(|shared| {
        let gate = gate.clone();
        let tool = Tool::new_async("write", move |context: Context| {
            let gate = gate.clone();
            async move {
                context.progress(1.0, None, Some("first")).await?;
                gate.acquire().await.expect("it is open").forget();
                Ok::<_, CallError>("second")
            }
        });
        let service = Service::builder("scopes", "1").tool(tool.scope("write")).build().expect("a service");
        let options = EndpointOptions::new(Policy::loopback());
        Endpoint::sharing(&service, options, &DriverOptions::default(), shared).expect("there is a runtime")
    });
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let begins = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let begun = send(&one, request("POST", None, &[]), &begins).await;
    let id = begun.headers()["mcp-session-id"].to_str().expect("a text").to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(send(&one, request("POST", Some(&id), &[]), &ready).await.status(), 202);
    let params = json!({"name": "write", "arguments": {}, "_meta": {"progressToken": 1}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let mut stream = send(&one, request("POST", Some(&id), &["write"]), &call).await.into_body();
    let text = read_until(&mut stream, "first").await;
    let last = text.split_once("id: ").and_then(|(_, rest)| rest.lines().next()).expect("an id").to_owned();
    let resume = |scopes: &[&str]| request("GET", Some(&id), scopes).header("last-event-id", &last);
    // After this the message is in the store.
    let mut resumed = send(&other, resume(&["write"]), &Value::Null).await.into_body();
    let text = read_until(&mut resumed, "first").await;
    assert!(text.contains("data: {\"jsonrpc\""), "the message is as it was sent: {text}");
    for endpoint in [&one, &other] {
        let refused = send(endpoint, resume(&["read"]), &Value::Null).await;
        assert_eq!(refused.status(), 403);
        let challenge = refused.headers()["www-authenticate"].to_str().expect("a text");
        assert!(challenge.contains("insufficient_scope") && challenge.contains("scope=\"write\""), "{challenge}");
    }
    gate.add_permits(1);
    read_until(&mut stream, "second").await;
    read_until(&mut resumed, "second").await;
    assert_eq!(send(&other, resume(&[]), &Value::Null).await.status(), 403);
}
