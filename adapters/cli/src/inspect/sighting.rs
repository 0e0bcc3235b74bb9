//! The events of a connection as seen from outside: messages, broken rules, lines of the error output.

use mcp_proto::wire::{Message, RawJson, RequestId};

use crate::{messages::subject, record::Origin};

/// The most bytes that are kept of the text of a message.
pub(crate) const MAX_TEXT: usize = 16 * 1024;

/// The most characters of a name: of a method, a tool, an error.
const MAX_NAME: usize = 200;

/// The most members of a batch that are shown.
pub(crate) const MAX_PARTS: usize = 64;

/// Something that happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    /// Microseconds since the start of the program.
    pub(crate) at: u64,
    pub(crate) what: Seen,
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A message was sent or received.
    Message(Observed),
    /// A message broke rules. Those of the first messages are known after the handshake.
    Broken { number: u64, findings: Vec<Broken> },
    /// A line of the error output of the server.
    Log(String),
    /// Something else, in words.
    Event(String),
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    /// The number on its connection, from 0.
    pub(crate) number: u64,
    pub(crate) from: Origin,
    /// The bytes of the message.
    pub(crate) size: usize,
    /// Its beginning.
    pub(crate) text: String,
    /// Whether the text is only the beginning.
    pub(crate) is_cut: bool,
    /// One, or the members of a batch.
    pub(crate) parts: Vec<Part>,
}

/// A JSON-RPC message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) kind: PartKind,
    /// The id as JSON. A cancellation has that of its request.
    pub(crate) id: Option<String>,
    pub(crate) method: Option<String>,
    /// The tool, prompt or resource.
    pub(crate) subject: Option<String>,
    /// The code and the text of an error.
    pub(crate) error: Option<String>,
    /// The progress token of a request or of progress.
    pub(crate) token: Option<String>,
    /// The progress, in words.
    pub(crate) progress: Option<String>,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PartKind {
    Request,
    Notification,
    Result,
    /// The result of a tool that says that it is an error.
    Failure,
    Error,
    #[default]
    Invalid,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) by: Origin,
    /// The row of the requirement tables, if one states the rule.
    pub(crate) rule: Option<&'static str>,
    /// The text of the rule.
    pub(crate) text: &'static str,
    /// The mistake in the message.
    pub(crate) what: String,
}

impl Part {
    pub(crate) fn of(message: &Message<'_>) -> Self {
        let of_id = |id: &RequestId| Some(id.as_json().to_owned());
        let mut part = Self::default();
        match message {
            Message::Request { id, method, params, meta } => {
                (part.kind, part.id, part.method) = (PartKind::Request, of_id(id), Some(short(method)));
                part.subject = subject(params.as_ref()).map(|it| short(&it));
                part.token = token(meta.as_ref());
            }
            Message::Notification { method, params } => {
                (part.kind, part.method) = (PartKind::Notification, Some(short(method)));
                match &**method {
                    "notifications/cancelled" => {
                        let id = params.as_ref().and_then(|params| params.member("requestId"));
                        part.id = id.and_then(|id| id.decode::<RequestId>().ok()).and_then(|id| of_id(&id));
                    }
                    "notifications/progress" => {
                        part.token = token(params.as_ref());
                        part.progress = params.as_ref().map(progress);
                    }
                    _ => part.subject = subject(params.as_ref()).map(|it| short(&it)),
                }
            }
            Message::Response { id, result } => {
                let is_error = result.member("isError").is_some_and(|it| it.get() == "true");
                part.kind = if is_error { PartKind::Failure } else { PartKind::Result };
                part.id = of_id(id);
            }
            Message::Error { id, error } => {
                (part.kind, part.id) = (PartKind::Error, id.as_ref().and_then(of_id));
                part.error = Some(short(&format!("{} {}", error.code, error.message)));
            }
        }
        part
    }
}

fn token(params: Option<&RawJson<'_>>) -> Option<String> {
    let token: RequestId = params?.member("progressToken")?.decode().ok()?;
    Some(token.as_json().to_owned())
}

fn progress(params: &RawJson<'_>) -> String {
    let number = |name| params.member(name).and_then(|it| it.decode::<f64>().ok());
    let total = number("total").map(|total| format!("/{total}")).unwrap_or_default();
    let message = params.member("message").and_then(|it| it.decode::<String>().ok());
    let message = message.map(|message| format!(" {message}")).unwrap_or_default();
    short(&format!("{}{total}{message}", number("progress").unwrap_or_default()))
}

/// Cuts a name.
fn short(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}[...]", &name[..end]),
        None => name.to_owned(),
    }
}

/// Returns the beginning of a message as text, and whether it was cut.
pub(crate) fn beginning(bytes: &[u8]) -> (String, bool) {
    let kept = &bytes[..bytes.len().min(MAX_TEXT)];
    let text = String::from_utf8_lossy(kept);
    // A character that was cut in two is left out.
    let is_cut = kept.len() < bytes.len();
    let text = if is_cut { text.trim_end_matches('\u{fffd}') } else { &text };
    (text.to_owned(), is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> Part {
        Part::of(&Message::parse(text, 16).expect("a message"))
    }

    #[test]
    fn messages_are_described() {
        let request = part(
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","_meta":{"progressToken":3}}}"#,
        );
        let expected = Part {
            kind: PartKind::Request,
            id: Some("\"a\"".into()),
            method: Some("tools/call".into()),
            subject: Some("echo".into()),
            token: Some("3".into()),
            ..Part::default()
        };
        assert_eq!(request, expected);
        let progress = part(
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":1,"total":4,"message":"x"}}"#,
        );
        assert_eq!((progress.token.as_deref(), progress.progress.as_deref()), (Some("3"), Some("1/4 x")));
        let error = part(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#);
        assert_eq!((error.kind, error.error.as_deref()), (PartKind::Error, Some("-32601 no")));
        let failure = part(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#);
        assert_eq!(failure.kind, PartKind::Failure);
        let cancelled = part(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
        assert_eq!(cancelled.id.as_deref(), Some("7"));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = format!("x{}", "ä".repeat(MAX_TEXT));
        let (kept, is_cut) = beginning(text.as_bytes());
        assert!(is_cut && kept.len() == MAX_TEXT - 1 && kept.ends_with('ä'), "{}", kept.len());
        assert_eq!(beginning(b"{}"), ("{}".to_owned(), false));
        let name = part(&format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "m".repeat(100_000)));
        assert_eq!(name.method.map(|it| it.len()), Some(MAX_NAME + 5));
    }
}
