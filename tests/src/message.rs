//! Constructors of messages as JSON.

use serde_json::{Value, json};

/// Returns a request without params.
#[must_use]
pub fn request(id: impl Into<Value>, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method})
}

/// Returns a request.
#[must_use]
pub fn request_with(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// Returns a request with a progress token.
#[must_use]
pub fn request_with_token(id: impl Into<Value>, method: &str, token: impl Into<Value>) -> Value {
    request_with(id, method, json!({"_meta": {"progressToken": token.into()}}))
}

/// Returns a notification without params.
#[must_use]
pub fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

/// Returns a notification.
#[must_use]
pub fn notification_with(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// Returns the cancellation of the request with this id.
#[must_use]
pub fn cancelled(id: impl Into<Value>) -> Value {
    notification_with("notifications/cancelled", json!({"requestId": id.into()}))
}

/// Returns progress of the request with this token.
#[must_use]
pub fn progress(token: impl Into<Value>, progress: impl Into<Value>) -> Value {
    notification_with("notifications/progress", json!({"progressToken": token.into(), "progress": progress.into()}))
}

/// Returns a response with a result.
#[must_use]
pub fn result(id: impl Into<Value>, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": result})
}

/// Returns an error response.
#[must_use]
pub fn error(id: impl Into<Value>, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "error": {"code": code, "message": message}})
}

/// The key of `_meta` with the revision of a request (2026-07-28).
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The key of `_meta` with the capabilities of the client that sends a request (2026-07-28).
pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Returns a request of 2026-07-28 from a client without capabilities.
#[must_use]
pub fn modern(id: impl Into<Value>, method: &str, params: Value) -> Value {
    modern_with(id, method, params, json!({}))
}

/// Returns a request of 2026-07-28. Members of `meta` are added to its `_meta` or replace members of it.
///
/// # Panics
/// If `meta` is not an object, or `params` is neither an object nor null.
#[must_use]
pub fn modern_with(id: impl Into<Value>, method: &str, mut params: Value, meta: Value) -> Value {
    let mut all = json!({ VERSION: "2026-07-28", CAPABILITIES: {} });
    let Value::Object(meta) = meta else { panic!("_meta is an object") };
    all.as_object_mut().expect("it is one").extend(meta);
    params["_meta"] = all;
    request_with(id, method, params)
}

/// Returns `subscriptions/listen` (2026-07-28).
#[must_use]
pub fn listen(id: impl Into<Value>, filter: Value) -> Value {
    modern(id, "subscriptions/listen", json!({ "notifications": filter }))
}

/// Returns the subscription that a notification belongs to.
#[must_use]
pub fn subscription_of(notification: &Value) -> Option<&Value> {
    notification["params"]["_meta"].get("io.modelcontextprotocol/subscriptionId")
}
