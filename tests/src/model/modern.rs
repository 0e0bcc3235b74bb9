//! The model: stateless requests, as a server of 2026-07-28 handles them.

use mcp_proto::protocol::Role;
use serde_json::{Value, json};

use super::{
    peer::{Model, Phase},
    receive::NOTIFICATIONS,
    table::may_send,
};

pub(super) const META: &str = "io.modelcontextprotocol/";

impl Model {
    pub(super) fn receive_modern_request(&mut self, id: &Value, method: &str, params: &Value) {
        let meta = |key: &str| params["_meta"].get(format!("{META}{key}"));
        let Some(version) = meta("protocolVersion") else {
            if method == "initialize" && self.phase != Phase::Draining {
                let spoken = if params["protocolVersion"].is_string() { "NotSupported" } else { "BadParams" };
                return self.refuse(id, -32602, None, spoken);
            }
            if method.starts_with(NOTIFICATIONS) {
                return self.refuse(id, -32600, None, "WrongKind");
            }
            // The request belongs to no supported era.
            return match self.phase {
                Phase::Draining => self.respond_directly(id, Err(-32603), None),
                _ => self.refuse(id, -32602, None, "NotReady"),
            };
        };
        if self.phase == Phase::Draining {
            return self.respond_directly(id, Err(-32603), None);
        }
        if !version.is_string() || !meta("clientCapabilities").is_some_and(Value::is_object) {
            return self.refuse(id, -32602, None, "BadMeta");
        }
        if version != self.revision.as_str() {
            return self.refuse(id, -32022, None, "UnsupportedVersion");
        }
        if method.starts_with(NOTIFICATIONS) {
            return self.refuse(id, -32600, None, "WrongKind");
        }
        if method == "server/discover" {
            return self.respond_directly(id, Ok(json!("what the server is")), None);
        }
        if may_send(method, Role::Client, self.revision).is_err() {
            return self.refuse(id, -32601, None, "NotSupported");
        }
        if method != "subscriptions/listen" {
            self.admit(id, method, params, None);
            return;
        }
        let Some(filter) = params.get("notifications").filter(|filter| filter.is_object()) else {
            return self.refuse(id, -32602, None, "BadParams");
        };
        if let Some(subscriber) = self.register(id, method, params, None) {
            self.notify_subscriber(
                subscriber,
                "notifications/subscriptions/acknowledged",
                json!({"notifications": filter}),
            );
            self.subscribers.push(subscriber);
        }
    }
}
