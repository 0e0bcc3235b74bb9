//! Events of HTTP exchanges: a request and its response.

use serde_json::{Map, Value, json};

use super::entry::{Origin, bytes, encode_bytes, encode_whole, origin};

/// A part of a request or of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// The first line and the headers, with the empty line.
    Head,
    /// The content, without the framing of chunks.
    Body,
    /// The fields after a chunked body.
    Trailer,
}

/// A step of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Bytes of a part. `connection` is the number of the connection of the client, at the head of a request.
    Bytes { from: Origin, part: Part, connection: Option<u64>, bytes: Vec<u8> },
    /// The end of a body.
    End { from: Origin },
    /// Bytes of a body that are not in the record, because a compressed body cannot be masked.
    Omitted { from: Origin, len: u64 },
    /// A side ended the exchange before its end, for this reason.
    Failed { from: Origin, why: String },
    /// The recorder itself sent a response with this status, for this reason.
    Answered { status: u64, why: String },
}

/// An event of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpEvent {
    /// The number of the exchange, from 1.
    pub(crate) exchange: u64,
    pub(crate) step: Step,
}

impl Part {
    const fn name(self, from: Origin) -> &'static str {
        match (from, self) {
            (Origin::Client, Self::Head) => "request-head",
            (Origin::Client, Self::Body) => "request-body",
            (Origin::Client, Self::Trailer) => "request-trailer",
            (Origin::Server, Self::Head) => "response-head",
            (Origin::Server, Self::Body) => "response-body",
            (Origin::Server, Self::Trailer) => "response-trailer",
        }
    }
}

impl HttpEvent {
    /// Appends the lines of the event.
    pub(super) fn encode(&self, at: u64, out: &mut Vec<u8>) {
        let exchange = self.exchange;
        let line = match &self.step {
            Step::Bytes { from, part, connection, bytes } => {
                let number = connection.map(|number| format!("\"connection\":{number},")).unwrap_or_default();
                let (from, stream) = (from.name(), part.name(*from));
                let start = format!(
                    "{{\"t\":{at},\"exchange\":{exchange},{number}\"from\":\"{from}\",\"stream\":\"{stream}\","
                );
                // A head is one event for its readers.
                return match part {
                    Part::Body => encode_bytes(out, &start, bytes),
                    Part::Head | Part::Trailer => encode_whole(out, &start, bytes),
                };
            }
            Step::End { from } => {
                json!({"t": at, "exchange": exchange, "from": from.name(), "stream": Part::Body.name(*from), "end": true})
            }
            Step::Omitted { from, len } => {
                json!({"t": at, "exchange": exchange, "from": from.name(), "stream": Part::Body.name(*from), "omitted": len})
            }
            Step::Failed { from, why } => {
                json!({"t": at, "exchange": exchange, "from": from.name(), "failed": why})
            }
            Step::Answered { status, why } => {
                json!({"t": at, "exchange": exchange, "answered": status, "why": why})
            }
        };
        out.extend_from_slice(format!("{line}\n").as_bytes());
    }

    /// Reads a line. `None` is an event that this version does not have.
    pub(super) fn parse(exchange: u64, line: &Map<String, Value>) -> Result<Option<Self>, String> {
        let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let step = if line.contains_key("failed") {
            Step::Failed { from: origin(line)?, why: text("failed") }
        } else if let Some(status) = line.get("answered") {
            let status = status.as_u64().ok_or("has an `answered` that is no number")?;
            Step::Answered { status, why: text("why") }
        } else if line.contains_key("stream") {
            let from = origin(line)?;
            let stream = text("stream");
            let Some(part) = [Part::Head, Part::Body, Part::Trailer].into_iter().find(|part| part.name(from) == stream)
            else {
                return Ok(None);
            };
            if let Some(len) = line.get("omitted") {
                Step::Omitted { from, len: len.as_u64().ok_or("has an `omitted` that is no number")? }
            } else {
                let connection = line.get("connection").and_then(Value::as_u64);
                match bytes(line)? {
                    Some(bytes) => Step::Bytes { from, part, connection, bytes },
                    None => Step::End { from },
                }
            }
        } else {
            return Ok(None);
        };
        Ok(Some(Self { exchange, step }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Entry, What};

    #[test]
    fn events_are_read_back() {
        let (client, server) = (Origin::Client, Origin::Server);
        let steps = [
            Step::Bytes {
                from: client,
                part: Part::Head,
                connection: Some(4),
                bytes: b"GET / HTTP/1.1\r\n\r\n".into(),
            },
            Step::Bytes { from: server, part: Part::Body, connection: None, bytes: vec![0xff, 0, 1] },
            Step::Bytes { from: client, part: Part::Trailer, connection: None, bytes: b"a: b\r\n\r\n".into() },
            Step::Bytes {
                from: server,
                part: Part::Head,
                connection: None,
                bytes: b"HTTP/1.1 200 \xe9\r\n\r\n".into(),
            },
            Step::Bytes {
                from: server,
                part: Part::Head,
                connection: None,
                bytes: b"HTTP/1.1 200 A\r\nB: \xff".into(),
            },
            Step::End { from: client },
            Step::End { from: server },
            Step::Omitted { from: server, len: 7 },
            Step::Failed { from: server, why: "it \"ended\"".into() },
            Step::Answered { status: 502, why: "no server".into() },
        ];
        for step in steps {
            let entry = Entry { at: 9, what: What::Http(HttpEvent { exchange: 3, step }) };
            let mut line = Vec::new();
            entry.encode(&mut line);
            assert_eq!(Entry::parse(&line), Ok(Some(entry)));
        }
        for line in [r#"{"t":1,"exchange":1,"later":1}"#, r#"{"t":1,"exchange":1,"from":"client","stream":"later"}"#] {
            assert_eq!(Entry::parse(line.as_bytes()), Ok(None));
        }
        for (line, why) in [
            (r#"{"t":1,"exchange":"1"}"#, "has an `exchange` that is no number"),
            (r#"{"t":1,"exchange":1,"failed":"x"}"#, "is `from` neither client nor server"),
            (r#"{"t":1,"exchange":1,"from":"client","stream":"request-body"}"#, "has neither `text` nor `base64`"),
        ] {
            assert_eq!(Entry::parse(line.as_bytes()), Err(why.to_owned()));
        }
    }
}
