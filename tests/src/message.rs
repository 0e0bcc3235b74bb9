//! Messages as JSON, to be fed and to be compared with.

use serde_json::{Value, json};

/// A request without params.
#[must_use]
pub fn request(id: impl Into<Value>, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method})
}

/// A request.
#[must_use]
pub fn request_with(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// A request that wants to hear of progress.
#[must_use]
pub fn request_with_token(id: impl Into<Value>, method: &str, token: impl Into<Value>) -> Value {
    request_with(id, method, json!({"_meta": {"progressToken": token.into()}}))
}

/// A notification without params.
#[must_use]
pub fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

/// A notification.
#[must_use]
pub fn notification_with(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// The cancellation of the request with this id.
#[must_use]
pub fn cancelled(id: impl Into<Value>) -> Value {
    notification_with("notifications/cancelled", json!({"requestId": id.into()}))
}

/// Progress of the request with this token.
#[must_use]
pub fn progress(token: impl Into<Value>, progress: impl Into<Value>) -> Value {
    notification_with("notifications/progress", json!({"progressToken": token.into(), "progress": progress.into()}))
}

/// A good answer.
#[must_use]
pub fn result(id: impl Into<Value>, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": result})
}

/// A bad answer.
#[must_use]
pub fn error(id: impl Into<Value>, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "error": {"code": code, "message": message}})
}
