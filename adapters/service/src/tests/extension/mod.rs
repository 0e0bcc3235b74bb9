//! Tasks of the extension of 2026-07-28, which belong to a service and not to a session.

mod client;
mod expiry;
mod input_requests;
mod shared;
mod start;
mod store;

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{CallToolResult, TaskSupport},
};
use serde_json::{Value, json};

use super::pair::Pair;
use super::tasks::Gate;
use crate::{
    client::Host,
    inbound::{context::Context, failure::Failure},
    server::{service::Service, tool::Tool},
};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The capabilities of a client that declares all of them.
fn everything() -> Value {
    json!({
        "extensions": {EXTENSION: {}},
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": {},
    })
}

fn task_tool(name: &str, f: impl Fn(Context) -> Result<CallToolResult, Failure> + Send + Sync + 'static) -> Tool {
    Tool::new(name, move |context: Context| f(context)).task_support(TaskSupport::Optional)
}

/// A tool that runs until a gate opens.
fn works(gate: &Gate) -> Tool {
    let gate = gate.clone();
    task_tool("works", move |context| {
        gate.pass(&context)?;
        Ok(CallToolResult::text("done"))
    })
}

/// Connects a client without a session. The tests write its requests.
fn modern(service: &Service) -> Pair {
    Pair::new(&Host::builder("client", "1").build(), service, ProtocolVersion::V2026_07_28)
}

/// Sends a request with these client capabilities. Returns its id.
fn send_as(pair: &Pair, capabilities: &Value, method: &str, mut params: Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    pair.send_line(method, params)
}

fn body(mut answer: Value) -> Result<Value, Value> {
    if answer.get("error").is_some() { Err(answer["error"].take()) } else { Ok(answer["result"].take()) }
}

fn send_request_as(pair: &Pair, capabilities: &Value, method: &str, params: Value) -> Result<Value, Value> {
    let id = send_as(pair, capabilities, method, params);
    body(pair.await_answer(&id))
}

fn send_request(pair: &Pair, method: &str, params: Value) -> Result<Value, Value> {
    send_request_as(pair, &everything(), method, params)
}

/// Calls a tool that becomes a task. Returns the id of the task.
fn begin(pair: &Pair, name: &str) -> String {
    let task = send_request(pair, "tools/call", json!({"name": name})).expect("a result");
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    task["taskId"].as_str().expect("an id").to_owned()
}

fn get(pair: &Pair, id: &str) -> Result<Value, Value> {
    send_request(pair, "tasks/get", json!({"taskId": id}))
}

fn update(pair: &Pair, id: &str, answers: Value) -> Result<Value, Value> {
    send_request(pair, "tasks/update", json!({"taskId": id, "inputResponses": answers}))
}

fn cancel(pair: &Pair, id: &str) -> Result<Value, Value> {
    send_request(pair, "tasks/cancel", json!({"taskId": id}))
}

/// Polls a task until it fulfils a condition. Returns its state.
fn until(pair: &Pair, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut task = Value::Null;
    pair.until(|| {
        task = get(pair, id).expect("a task");
        is_so(&task)
    });
    task
}

fn until_status(pair: &Pair, id: &str, status: &str) -> Value {
    until(pair, id, |task| task["status"] == status)
}

/// Opens a subscription to tasks. Returns its id and the acknowledged tasks.
fn listen(pair: &Pair, tasks: &[&str]) -> (String, Value) {
    let id = send_as(pair, &everything(), "subscriptions/listen", json!({"notifications": {"taskIds": tasks}}));
    let mut acknowledged = Value::Null;
    pair.until(|| {
        let all = received(pair, "notifications/subscriptions/acknowledged", &id);
        acknowledged = all.first().map_or(Value::Null, |params| params["notifications"]["taskIds"].clone());
        !all.is_empty()
    });
    (id, acknowledged)
}

/// Cancels a subscription.
fn unlisten(pair: &Pair, subscription: &str) {
    let params = json!({"requestId": subscription});
    pair.input_to_server(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string());
}

/// Returns the notifications of a subscription.
fn received(pair: &Pair, method: &str, subscription: &str) -> Vec<Value> {
    let lines = crate::util::lock::lock(&pair.server.lines);
    let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let params = lines.filter(|line| line["method"] == method).map(|mut line| line["params"].take());
    params.filter(|params| params["_meta"]["io.modelcontextprotocol/subscriptionId"] == subscription).collect()
}

/// Returns the states of tasks that a subscription has reported, in order.
fn notifications_of(pair: &Pair, subscription: &str) -> Vec<Value> {
    received(pair, "notifications/tasks", subscription)
}

fn methods_sent(pair: &Pair) -> Vec<String> {
    let lines = crate::util::lock::lock(&pair.server.lines);
    let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter_map(|line| Some(line.get("method")?.as_str()?.to_owned())).collect()
}
