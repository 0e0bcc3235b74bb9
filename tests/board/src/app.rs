//! The application: a tool that returns its message, at once or after a while.

use alloc::{string::String, vec, vec::Vec};
use core::time::Duration;

use mcp_proto::{
    Event, Server, Timestamp,
    connection::{Limits, SendError, ServerConfig},
    protocol::{Capability, Method, VersionSet},
    rpc::ReplyKey,
    schema::{CallToolResult, Implementation, ListToolsResult, ServerCapabilities, Tool},
    wire::{ErrorObject, JsonObject, RawJson},
};

use crate::budget::LIMITS;

const TOOL: &str = "echo";

const SCHEMA: &str = r#"{"type":"object","properties":{"message":{"type":"string","description":"The message to return."},"ms":{"type":"integer","minimum":0,"maximum":60000,"description":"When to return it, in milliseconds."}},"required":["message"]}"#;

/// The longest time that a call may take, in milliseconds.
const LONGEST: u32 = 60_000;

/// The time between two progress notifications of a call.
const STEP: Duration = Duration::from_millis(100);

/// Returns the configuration of the server.
pub(crate) fn config(hash_seed: u64) -> ServerConfig {
    let mut config = ServerConfig::new(Implementation::new("mcp-board", "1.0.0"), hash_seed);
    config.capabilities = ServerCapabilities::default().with(Capability::Tools);
    config.settings.versions = VersionSet::ALL;
    config.settings.limits = if cfg!(feature = "default-limits") { Limits::new() } else { LIMITS };
    config
}

/// The requests without a response. [`LIMITS`] bounds their number and their bytes.
pub(crate) struct App {
    calls: Vec<Call>,
}

/// One request.
struct Call {
    key: ReplyKey,
    answer: Answer,
    start: Timestamp,
    due: Timestamp,
    next_progress: Timestamp,
}

enum Answer {
    Tools,
    Message(String),
    Invalid(&'static str),
    Error(ErrorObject),
}

impl App {
    pub(crate) fn new() -> Self {
        Self { calls: Vec::with_capacity(LIMITS.requests) }
    }

    /// Forgets the requests of a connection that has ended.
    pub(crate) fn clear(&mut self) {
        self.calls.clear();
    }

    pub(crate) fn on_event(&mut self, now: Timestamp, event: Event<'_>) {
        match event {
            Event::Request { key, method, params } => {
                let (answer, delay) = match method.known() {
                    Some(Method::ListTools) => (Answer::Tools, Duration::ZERO),
                    Some(Method::CallTool) => call(params.as_ref()),
                    _ => (Answer::Error(ErrorObject::method_not_found(method.as_str())), Duration::ZERO),
                };
                let (due, next_progress) = (now + delay, now + STEP);
                self.calls.push(Call { key, answer, start: now, due, next_progress });
            }
            // The response to a cancelled request frees its place, and is not sent.
            Event::Cancelled { key, .. } => {
                self.calls.iter_mut().filter(|call| call.key == key).for_each(|call| call.due = now);
            }
            _ => {}
        }
    }

    /// Responds to the requests that are due, and reports the progress of the others. What has no room now is tried
    /// again the next time.
    pub(crate) fn advance(&mut self, now: Timestamp, server: &mut Server) {
        self.calls.retain_mut(|call| {
            if call.due <= now {
                return call.respond(server) == Err(SendError::Busy);
            }
            if call.next_progress <= now {
                call.next_progress = call.next_progress + STEP;
                let millis = |end: Timestamp| end.saturating_since(call.start).as_millis().min(LONGEST.into());
                let [done, total] = [now, call.due].map(|end| f64::from(u32::try_from(millis(end)).unwrap_or(LONGEST)));
                // Not every client asks for it, and it is not worth waiting for.
                let _ = server.progress(call.key, done, Some(total), None);
            }
            true
        });
    }
}

impl Call {
    fn respond(&self, server: &mut Server) -> Result<(), SendError> {
        let respond = |server: &mut Server, result: &CallToolResult| {
            // The escaped message may be larger than the limit. Then the client gets an error.
            server.respond_or_error(self.key, result).map(drop)
        };
        match &self.answer {
            Answer::Tools => {
                let mut tool = Tool::new(TOOL, JsonObject::parse(SCHEMA)?);
                tool.description = Some(String::from("Returns the message, with progress until then."));
                server.respond_or_error(self.key, &ListToolsResult::new(vec![tool])).map(drop)
            }
            Answer::Message(message) => respond(server, &CallToolResult::text(message.as_str())),
            Answer::Invalid(reason) => respond(server, &CallToolResult::error(*reason)),
            Answer::Error(error) => server.respond_error(self.key, error),
        }
    }
}

/// Reads a call of the tool: its result, and how long it takes.
fn call(params: Option<&RawJson<'_>>) -> (Answer, Duration) {
    let name = params.and_then(|params| params.member("name")?.into_text());
    if name.as_deref() != Some(TOOL) {
        return (Answer::Error(ErrorObject::invalid_params("Unknown tool")), Duration::ZERO);
    }
    let arguments = params.and_then(|params| params.member("arguments"));
    let Some(message) = arguments.as_ref().and_then(|arguments| arguments.member("message")?.into_text()) else {
        return (Answer::Invalid("message is missing or not a text"), Duration::ZERO);
    };
    let millis = match arguments.as_ref().and_then(|arguments| arguments.member("ms")) {
        Some(millis) => match millis.decode::<u32>() {
            Ok(millis) if millis <= LONGEST => millis,
            _ => return (Answer::Invalid("ms is not a number from 0 to 60000"), Duration::ZERO),
        },
        None => 0,
    };
    (Answer::Message(message.into_owned()), Duration::from_millis(millis.into()))
}
