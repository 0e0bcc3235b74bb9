//! A layer of `tracing_subscriber` that sends events to clients (feature `log-layer`).

use std::{
    cell::Cell,
    fmt::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use mcp_proto::{
    schema::{LogMessageParams, LoggingLevel},
    wire::Json,
};
use serde_core::{Serialize, Serializer, ser::SerializeMap};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{
    layer::{Context, Layer},
    registry::LookupSpan,
};

use crate::inbound::log_target::LogTarget;

/// A layer of `tracing_subscriber` that sends events as log messages to the client of the request in whose span they
/// happen (feature `log-layer`).
///
/// ```
/// use mcp_service::layers::LogLayer;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let subscriber = tracing_subscriber::registry().with(LogLayer::of_targets(["my_server"]));
/// # drop(subscriber);
/// ```
///
/// - Clients get the events of the named targets only, which are modules unless an event names another target. So
///   events of other libraries, such as queries of a database, are not sent by accident. Events of this library are
///   never sent.
/// - The client decides on the level: in a session with `logging/setLevel`, without one for each request (2026-07-28).
///   A client of 2026-07-28 that requests no level gets no messages.
/// - An event belongs to the nearest span of a request around it, also on other threads and in other tasks that are
///   instrumented with a span in it. Events without such a span are not sent.
/// - The message is an object with the fields of the event; its logger is the target.
///
/// The spans have the level `INFO` and the target `mcp_service`; a filter must not disable them.
///
/// # Limits
/// A message has at most 8 KiB of texts; the rest is cut. A message is dropped if the output of the connection is full,
/// if it is emitted while this library holds a lock, or while another message is formatted, and in tasks.
/// [`dropped`](Self::dropped) counts those for which there was no room.
#[derive(Clone, Debug)]
pub struct LogLayer {
    /// The targets; empty for all.
    targets: Vec<String>,
    dropped: Arc<AtomicU64>,
}

/// The most bytes of all texts of a message.
const MAX_TEXT: usize = 8 << 10;

/// Targets whose events are never sent: those of this library.
const OWN: [&str; 6] = ["mcp_service", "mcp_proto", "mcp_driver", "mcp_tokio", "mcp_smol", "mcp_blocking"];

thread_local! {
    /// Whether this thread formats a message. Events of the formatted values are not sent.
    static SENDS: Cell<bool> = const { Cell::new(false) };
}

impl LogLayer {
    /// Creates a layer for the events of these targets and the modules in them.
    #[must_use]
    pub fn of_targets<T: Into<String>>(targets: impl IntoIterator<Item = T>) -> Self {
        Self { targets: targets.into_iter().map(Into::into).collect(), dropped: Arc::default() }
    }

    /// Returns a counter of the messages for which the output of a connection had no room.
    #[must_use]
    pub fn dropped(&self) -> Arc<AtomicU64> {
        self.dropped.clone()
    }

    fn is_sent(&self, metadata: &Metadata<'_>) -> bool {
        let within = |target: &str, outer: &str| {
            target.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let target = metadata.target();
        self.targets.iter().any(|outer| within(target, outer)) && !OWN.iter().any(|own| within(target, own))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let (Some(target), Some(span)) = (LogTarget::take(), context.span(id)) {
            span.extensions_mut().replace(target);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        if !self.is_sent(metadata) {
            return;
        }
        let mut spans = context.event_scope(event).into_iter().flatten();
        let Some(target) = spans.find_map(|span| span.extensions().get::<LogTarget>().cloned()) else { return };
        let level = level(*metadata.level());
        let Some(_sending) = Sending::begin() else { return };
        if !target.wants(level) {
            return;
        }
        let mut fields = Fields { texts: Vec::new(), room: MAX_TEXT };
        event.record(&mut fields);
        let Ok(data) = Json::new(&fields) else { return };
        let logger = Some(metadata.target().to_owned());
        let sent = target.send(&LogMessageParams { logger, ..LogMessageParams::new(level, data) });
        if sent == Err(mcp_proto::connection::SendError::Busy) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A guard that marks this thread as one that formats a message.
struct Sending;

impl Sending {
    fn begin() -> Option<Self> {
        let before = SENDS.try_with(|sends| sends.replace(true)).unwrap_or(true);
        (!before).then_some(Self)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let _ = SENDS.try_with(|sends| sends.set(false));
    }
}

fn level(level: Level) -> LoggingLevel {
    match level {
        Level::ERROR => LoggingLevel::Error,
        Level::WARN => LoggingLevel::Warning,
        Level::INFO => LoggingLevel::Info,
        _ => LoggingLevel::Debug,
    }
}

/// The fields of an event, with bounded texts.
struct Fields {
    texts: Vec<(&'static str, Value)>,
    /// The remaining bytes for texts.
    room: usize,
}

enum Value {
    Text(String),
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

impl Write for Fields {
    /// Appends to the last text.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Some((_, Value::Text(last))) = self.texts.last_mut() else { return Err(fmt::Error) };
        let end = (0..=self.room.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        last.push_str(&text[..end]);
        self.room -= end;
        // The rest of a value that is cut is not formatted.
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.texts.push((field.name(), Value::Text(String::new())));
        if write!(self, "{value:?}").is_err()
            && let Some((_, Value::Text(text))) = self.texts.last_mut()
        {
            text.push('…');
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.texts.push((field.name(), Value::Text(String::new())));
        if self.write_str(value).is_err()
            && let Some((_, Value::Text(text))) = self.texts.last_mut()
        {
            text.push('…');
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.texts.push((field.name(), Value::Bool(value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.texts.push((field.name(), Value::Signed(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.texts.push((field.name(), Value::Unsigned(value)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.texts.push((field.name(), Value::Float(value)));
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(self.texts.len()))?;
        for (name, value) in &self.texts {
            match value {
                Value::Text(text) => members.serialize_entry(name, text)?,
                Value::Bool(is) => members.serialize_entry(name, is)?,
                Value::Signed(number) => members.serialize_entry(name, number)?,
                Value::Unsigned(number) => members.serialize_entry(name, number)?,
                // JSON has no number for infinity.
                Value::Float(number) => members.serialize_entry(name, &number.is_finite().then_some(number))?,
            }
        }
        members.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_formats_one_message_at_a_time() {
        let first = Sending::begin();
        assert!(first.is_some() && Sending::begin().is_none());
        drop(first);
        let again = Sending::begin();
        assert!(again.is_some(), "the first one has ended");
        std::thread::spawn(|| assert!(Sending::begin().is_some())).join().expect("threads are independent");
    }

    #[test]
    fn each_level_has_a_level_of_the_protocol() {
        for (of_event, expected) in [
            (Level::ERROR, LoggingLevel::Error),
            (Level::WARN, LoggingLevel::Warning),
            (Level::INFO, LoggingLevel::Info),
            (Level::DEBUG, LoggingLevel::Debug),
            (Level::TRACE, LoggingLevel::Debug),
        ] {
            assert_eq!(level(of_event), expected);
        }
    }

    /// The texts of a message share its room, and are cut at the start of a character.
    #[test]
    fn texts_are_cut_where_the_room_ends() {
        let write = |room, texts: &[&str]| {
            let mut fields = Fields { texts: vec![("a", Value::Text(String::new()))], room };
            let is_whole = texts.iter().all(|text| fields.write_str(text).is_ok());
            let Some((_, Value::Text(text))) = fields.texts.pop() else { unreachable!("it is a text") };
            (text, fields.room, is_whole)
        };
        assert_eq!(write(4, &["ab", "cd"]), ("abcd".into(), 0, true));
        assert_eq!(write(4, &["ab", "cde"]), ("abcd".into(), 0, false));
        assert_eq!(write(5, &["abcd"]), ("abcd".into(), 1, true));
        assert_eq!(write(3, &["aéé"]), ("aé".into(), 0, false));
        assert_eq!(write(2, &["éé"]), ("é".into(), 0, false));
        assert_eq!(write(1, &["é"]), (String::new(), 1, false));
        assert_eq!(write(0, &[""]), (String::new(), 0, true));
        let mut fields = Fields { texts: vec![("a", Value::Bool(true))], room: 9 };
        assert!(fields.write_str("a").is_err(), "the last value is no text");
    }

    #[test]
    fn fields_keep_the_types_of_their_values() {
        let texts = vec![
            ("text", Value::Text("a".into())),
            ("bool", Value::Bool(true)),
            ("signed", Value::Signed(-1)),
            ("unsigned", Value::Unsigned(u64::MAX)),
            ("float", Value::Float(1.5)),
            ("infinite", Value::Float(f64::INFINITY)),
        ];
        let json = serde_json::to_string(&Fields { texts, room: 0 }).expect("JSON");
        let expected =
            r#"{"text":"a","bool":true,"signed":-1,"unsigned":18446744073709551615,"float":1.5,"infinite":null}"#;
        assert_eq!(json, expected);
    }
}
