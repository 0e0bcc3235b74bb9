//! Lines of a record.

use mcp_proto::schema::{decode_base64, encode_base64};
use serde_json::{Map, Value, json};

use super::exchange::HttpEvent;

/// The version of the format.
const VERSION: u64 = 1;

/// The first line of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The time of the start, as RFC 3339 has it.
    pub(crate) started: String,
    /// `stdio` or `http`.
    pub(crate) transport: String,
    /// The program or the URL of the server.
    pub(crate) server: String,
    /// Whether secrets were masked.
    pub(crate) masked: bool,
}

/// The side that sent bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Origin {
    Client,
    Server,
}

impl Origin {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// An event of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Bytes of a stream.
    Bytes { from: Origin, stream: String, bytes: Vec<u8> },
    /// The end of a stream.
    End { from: Origin, stream: String },
    /// The exit code of the server.
    Exit(i64),
    /// The signal that ended the server.
    Signal(i64),
    /// The recording stopped before the connection ended, for this reason.
    Stopped(String),
    /// An event of an HTTP exchange.
    Http(HttpEvent),
}

/// A line after the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Microseconds since the start.
    pub(crate) at: u64,
    pub(crate) what: What,
}

impl Header {
    /// Returns the line, with its line break.
    pub(crate) fn line(&self) -> String {
        let Self { started, transport, server, masked } = self;
        let line = json!({"mcp_record": VERSION, "started": started, "transport": transport, "server": server,
            "masked": masked});
        format!("{line}\n")
    }

    /// Reads a line.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, String> {
        let line: Value = serde_json::from_slice(line).map_err(|_| "the first line is no JSON")?;
        match line.get("mcp_record").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(other) => return Err(format!("the record has the version {other}, which this program cannot read")),
            None => return Err("the first line has no member `mcp_record`".into()),
        }
        let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self {
            started: text("started"),
            transport: text("transport"),
            server: text("server"),
            masked: line.get("masked").and_then(Value::as_bool).unwrap_or_default(),
        })
    }
}

/// Appends the lines of some bytes: as text where they are UTF-8, else as base64. A chunk may begin and end inside of a
/// character, so it can take three lines.
/// `start` is the beginning of each line: its members before the bytes, with the comma after them.
pub(super) fn encode_bytes(out: &mut Vec<u8>, start: &str, bytes: &[u8]) {
    let is_continuation = |byte: &u8| byte & 0xc0 == 0x80;
    let head = bytes.iter().take(3).take_while(|byte| is_continuation(byte)).count();
    let (head, rest) = bytes.split_at(head);
    let valid = match str::from_utf8(rest) {
        Ok(_) => rest.len(),
        Err(error) => error.valid_up_to(),
    };
    let (text, tail) = rest.split_at(valid);
    // A chunk that is only in part text for other reasons than its ends is base64 as a whole.
    let is_cut = tail.len() < 4;
    if !is_cut {
        return encode_value(out, start, "base64", &encode_base64(bytes));
    }
    for (bytes, is_text) in [(head, false), (text, true), (tail, false)] {
        match str::from_utf8(bytes) {
            Ok("") => {}
            Ok(text) if is_text => encode_value(out, start, "text", text),
            _ => encode_value(out, start, "base64", &encode_base64(bytes)),
        }
    }
}

/// Appends one line of some bytes: as text if all of them are UTF-8, else as base64.
pub(super) fn encode_whole(out: &mut Vec<u8>, start: &str, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => encode_value(out, start, "text", text),
        Err(_) => encode_value(out, start, "base64", &encode_base64(bytes)),
    }
}

fn encode_value(out: &mut Vec<u8>, start: &str, member: &str, value: &str) {
    out.extend_from_slice(format!("{start}\"{member}\":").as_bytes());
    // Writing into memory does not fail, and text is JSON always.
    let _ = serde_json::to_writer(&mut *out, value);
    out.extend_from_slice(b"}\n");
}

impl Entry {
    /// Appends the lines of the entry.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let at = self.at;
        let line = match &self.what {
            What::Bytes { from, stream, bytes } => {
                let start = format!("{{\"t\":{at},\"from\":\"{}\",\"stream\":\"{stream}\",", from.name());
                return encode_bytes(out, &start, bytes);
            }
            What::Http(event) => return event.encode(at, out),
            What::End { from, stream } => json!({"t": at, "from": from.name(), "stream": stream, "end": true}),
            What::Exit(code) => json!({"t": at, "exit": code}),
            What::Signal(signal) => json!({"t": at, "signal": signal}),
            What::Stopped(why) => json!({"t": at, "stopped": why}),
        };
        out.extend_from_slice(format!("{line}\n").as_bytes());
    }

    /// Reads a line. `None` is an event that this version does not have.
    pub(crate) fn parse(line: &[u8]) -> Result<Option<Self>, String> {
        let Ok(Value::Object(line)) = serde_json::from_slice(line) else { return Err("is no JSON object".into()) };
        let Some(at) = line.get("t").and_then(Value::as_u64) else { return Err("has no time `t`".into()) };
        if let Some(number) = line.get("exchange") {
            let number = number.as_u64().ok_or("has an `exchange` that is no number")?;
            return Ok(HttpEvent::parse(number, &line)?.map(|event| Self { at, what: What::Http(event) }));
        }
        let what = match (line.get("exit"), line.get("signal"), line.get("stopped"), line.get("stream")) {
            (Some(code), ..) => What::Exit(code.as_i64().ok_or("has an `exit` that is no number")?),
            (_, Some(signal), ..) => What::Signal(signal.as_i64().ok_or("has a `signal` that is no number")?),
            (_, _, Some(why), _) => What::Stopped(why.as_str().unwrap_or_default().to_owned()),
            (_, _, _, Some(stream)) => of_stream(&line, stream.as_str().ok_or("has a `stream` that is no text")?)?,
            _ => return Ok(None),
        };
        Ok(Some(Self { at, what }))
    }
}

/// Reads the side of a line.
pub(super) fn origin(line: &Map<String, Value>) -> Result<Origin, String> {
    match line.get("from").and_then(Value::as_str) {
        Some("client") => Ok(Origin::Client),
        Some("server") => Ok(Origin::Server),
        _ => Err("is `from` neither client nor server".into()),
    }
}

/// Reads the bytes of a line. `None` is the end of the stream.
pub(super) fn bytes(line: &Map<String, Value>) -> Result<Option<Vec<u8>>, String> {
    match (line.get("text"), line.get("base64")) {
        (Some(Value::String(text)), None) => Ok(Some(text.clone().into_bytes())),
        (None, Some(Value::String(text))) => {
            decode_base64(text).map(Some).ok_or_else(|| "has bytes that are no base64".into())
        }
        (None, None) if line.get("end") == Some(&Value::Bool(true)) => Ok(None),
        _ => Err("has neither `text` nor `base64`".into()),
    }
}

fn of_stream(line: &Map<String, Value>, stream: &str) -> Result<What, String> {
    let stream = stream.to_owned();
    let from = origin(line)?;
    Ok(match bytes(line)? {
        Some(bytes) => What::Bytes { from, stream, bytes },
        None => What::End { from, stream },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        encode_bytes(&mut out, "{\"t\":7,\"from\":\"client\",\"stream\":\"stdin\",", bytes);
        let mut all = Vec::new();
        let lines: Vec<_> = out.split_inclusive(|byte| *byte == b'\n').collect();
        for line in &lines {
            match Entry::parse(line) {
                Ok(Some(Entry { at: 7, what: What::Bytes { from: Origin::Client, stream, bytes } })) => {
                    assert_eq!(stream, "stdin");
                    all.extend(bytes);
                }
                other => panic!("{other:?}"),
            }
        }
        (all, lines.len())
    }

    #[test]
    fn all_bytes_are_read_back() {
        let every: Vec<u8> = (0..=255).collect();
        let text = "a ä € 🦀\n\"\\\u{7f}".as_bytes();
        assert_eq!(lines(&every), (every.clone(), 1));
        assert_eq!(lines(text), (text.to_vec(), 1));
        // A character of four bytes, cut in two at each place.
        let crab = "x🦀y".as_bytes();
        for cut in 1..5 {
            let (left, right) = crab.split_at(cut);
            let count = if cut == 1 { (1, 1) } else { (2, 2) };
            assert_eq!((lines(left), lines(right)), ((left.to_vec(), count.0), (right.to_vec(), count.1)), "{cut}");
        }
        for other in [&[0xff][..], &[0x80; 9], b"abc\xff\xff\xff\xffdef", b""] {
            assert_eq!(lines(other).0, other);
        }
    }

    #[test]
    fn wrong_lines_are_refused() {
        for (line, why) in [
            (r#"[]"#, "is no JSON object"),
            (r#"{"from":"client"}"#, "has no time `t`"),
            (r#"{"t":1,"stream":"stdin","text":""}"#, "is `from` neither client nor server"),
            (r#"{"t":1,"from":"server","stream":"stdin","base64":"*"}"#, "has bytes that are no base64"),
            (r#"{"t":1,"from":"server","stream":"stdin","text":1}"#, "has neither `text` nor `base64`"),
        ] {
            assert_eq!(Entry::parse(line.as_bytes()), Err(why.to_owned()));
        }
        assert_eq!(Entry::parse(br#"{"t":1,"later":1}"#), Ok(None));
        assert!(Header::parse(br#"{"mcp_record":2}"#).is_err_and(|why| why.contains("version 2")));
    }

    #[test]
    fn events_are_read_back() {
        let from = Origin::Server;
        for what in
            [What::End { from, stream: "stdout".into() }, What::Exit(3), What::Signal(9), What::Stopped("full".into())]
        {
            let entry = Entry { at: 1, what };
            let mut out = Vec::new();
            entry.encode(&mut out);
            assert_eq!(Entry::parse(&out), Ok(Some(entry)));
        }
        let header = Header { started: "2026".into(), transport: "stdio".into(), server: "a\"b".into(), masked: true };
        assert_eq!(Header::parse(header.line().as_bytes()), Ok(header));
    }
}
