//! Shares of clients whose sessions began in another process.

use std::{io, net::IpAddr, sync::Arc};

use http::{Request, header};
use http_body_util::{BodyExt, Full};
use mcp_driver::Watched;
use mcp_proto::{connection::Principal, http::server::Caller};
use mcp_service::{Service, Tool};
use mcp_tokio::{
    DriverOptions,
    http::{Endpoint, EndpointOptions, Policy},
};
use serde_json::{Value, json};

use crate::{Both, LONG};

/// The number of blocking handlers that have begun, and whether they continue.
type Functions = Arc<Watched<(usize, bool)>>;

fn caller(name: &str) -> Caller {
    let address = name.parse::<IpAddr>().map(Caller::Anonymous);
    address.unwrap_or_else(|_| Caller::Known(Arc::new(Principal::new(name))))
}

/// Sends a message. Returns the session id and the response.
async fn post(endpoint: &Endpoint, client: &str, session: Option<&str>, message: &Value) -> (Option<String>, String) {
    let mut request = Request::post("/mcp")
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream");
    request = session.into_iter().fold(request, |request, id| request.header("mcp-session-id", id));
    let body = Full::new(io::Cursor::new(message.to_string()));
    let answer = endpoint.handle(request.extension(caller(client)).body(body).expect("a request")).await;
    assert!(answer.status().is_success(), "{client}: {}", answer.status());
    let session = answer.headers().get("mcp-session-id").map(|id| id.to_str().expect("a text").to_owned());
    let body = answer.into_body().collect().await.expect("it is whole").to_bytes();
    (session, String::from_utf8(body.to_vec()).expect("a text"))
}

/// Begins a session.
async fn begin(endpoint: &Endpoint, client: &str) -> String {
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let (session, _) = post(endpoint, client, None, &message).await;
    let session = session.expect("a session");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    post(endpoint, client, Some(&session), &ready).await;
    session
}

async fn call(endpoint: Endpoint, client: &'static str, session: String, id: usize, tool: &'static str) -> String {
    let params = json!({"name": tool, "arguments": {}});
    let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    post(&endpoint, client, Some(&session), &message).await.1
}

fn service(functions: &Functions) -> Service {
    let functions = functions.clone();
    let block = Tool::new("block", move || {
        functions.update(|(begun, _)| *begun += 1);
        assert!(functions.wait_until(LONG, |(_, released)| *released), "they are released");
        "released"
    });
    Service::builder("shared", "1").tool(block).tool(Tool::new("quick", || "done")).build().expect("a service")
}

/// Blocking handlers of an endpoint are counted by client, also for sessions that began in another process.
pub(crate) async fn adopted_sessions_count_for_their_client(shared: Both) {
    for [greedy, honest] in [["192.0.2.1", "192.0.2.2"], ["eve", "ada"]] {
        let functions = Functions::default();
        let [one, other] = shared.clone().map(|shared| {
            let options = DriverOptions { functions: 8, ..DriverOptions::default() };
            let endpoint = EndpointOptions::new(Policy::loopback());
            Endpoint::sharing(&service(&functions), endpoint, &options, shared).expect("there is a runtime")
        });
        let mut many = Vec::new();
        for session in 0..2 {
            let id = begin(&one, greedy).await;
            for call_id in 1..=4 {
                let work = call(other.clone(), greedy, id.clone(), 10 * session + call_id, "block");
                many.push(tokio::spawn(work));
            }
        }
        functions.wait_for(|(begun, _)| (*begun >= 7).then_some(())).await;
        let id = begin(&one, honest).await;
        let answer = call(other, honest, id, 1, "quick").await;
        assert!(answer.contains("done"), "{answer}");
        assert_eq!(functions.read(|(begun, _)| *begun), 7, "seven of eight at once");
        functions.update(|(_, released)| *released = true);
        for work in many {
            let answer = work.await.expect("no panic");
            assert!(answer.contains("released"), "{answer}");
        }
    }
}
