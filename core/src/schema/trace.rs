//! Distributed traces of requests.
//!
//! Spec: [W3C Trace Context](https://www.w3.org/TR/trace-context/), [W3C Baggage](https://www.w3.org/TR/baggage/), and
//! [`_meta`](https://modelcontextprotocol.io/specification/2026-07-28/basic#meta), which has room for them.

use alloc::string::{String, ToString};
use core::fmt;

use super::{Meta, keys};
use crate::wire::RawJson;

/// The most bytes of `baggage`, as many as every system has to forward.
const MAX_BAGGAGE: usize = 8192;

/// The most bytes of `tracestate`: 32 entries of two times 256 characters with their separators.
const MAX_STATE: usize = 32 * 514;

/// The position of a request in a distributed trace: `traceparent`, `tracestate` and `baggage` in its `_meta`.
///
/// The values have the formats of the W3C. A received value in another format counts as absent, and so does
/// `tracestate` without a `traceparent`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    parent: Option<String>,
    state: Option<String>,
    baggage: Option<String>,
}

/// The error that a value does not have the format of the W3C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidTrace {
    /// `traceparent` does not have the format of `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`.
    Parent,
    /// `tracestate` is empty, is too long, has characters that it must not have, or has no `traceparent`.
    State,
    /// `baggage` is empty, is too long, or has characters that it must not have.
    Baggage,
}

impl fmt::Display for InvalidTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parent => "not a traceparent",
            Self::State => "not a tracestate",
            Self::Baggage => "not a baggage",
        })
    }
}

impl core::error::Error for InvalidTrace {}

impl TraceContext {
    /// Creates a context without a trace.
    #[must_use]
    pub const fn new() -> Self {
        Self { parent: None, state: None, baggage: None }
    }

    /// Creates the context within the trace and the operation that `traceparent` names.
    ///
    /// # Errors
    /// Returns an error if the text does not have this format.
    pub fn within(traceparent: impl Into<String>) -> Result<Self, InvalidTrace> {
        let parent = traceparent.into();
        if !is_parent(&parent) {
            return Err(InvalidTrace::Parent);
        }
        Ok(Self { parent: Some(parent), ..Self::new() })
    }

    /// Sets `tracestate`: data that tracing systems add for each other.
    ///
    /// # Errors
    /// Returns an error if the text is empty, has more than 16448 bytes or characters that it must not have, or if
    /// there is no `traceparent`.
    pub fn with_state(mut self, tracestate: impl Into<String>) -> Result<Self, InvalidTrace> {
        let state = tracestate.into();
        if self.parent.is_none() || !is_text(&state, MAX_STATE) {
            return Err(InvalidTrace::State);
        }
        self.state = Some(state);
        Ok(self)
    }

    /// Sets `baggage`: values of the application for services that handle the request later.
    ///
    /// # Errors
    /// Returns an error if the text is empty, or has more than 8192 bytes or characters that it must not have.
    pub fn with_baggage(mut self, baggage: impl Into<String>) -> Result<Self, InvalidTrace> {
        let baggage = baggage.into();
        if !is_text(&baggage, MAX_BAGGAGE) {
            return Err(InvalidTrace::Baggage);
        }
        self.baggage = Some(baggage);
        Ok(self)
    }

    /// Reads the trace of `_meta`, or `None` if there is none.
    pub(crate) fn of(meta: &RawJson<'_>) -> Option<Self> {
        let values = meta.pick([keys::TRACEPARENT, keys::TRACESTATE, keys::BAGGAGE]);
        if values.iter().all(Option::is_none) {
            return None;
        }
        Self::read(values.map(|value| RawJson::trusted(value?).decode().ok()))
    }

    fn read([parent, state, baggage]: [Option<String>; 3]) -> Option<Self> {
        let mut this = parent.and_then(|parent| Self::within(parent).ok()).unwrap_or_default();
        this.state = state.filter(|state| this.parent.is_some() && is_text(state, MAX_STATE));
        this.baggage = baggage.filter(|baggage| is_text(baggage, MAX_BAGGAGE));
        (this != Self::default()).then_some(this)
    }

    /// Returns an iterator over the names and values that are present.
    pub(crate) fn members(&self) -> impl DoubleEndedIterator<Item = (&'static str, &str)> {
        let names = [keys::TRACEPARENT, keys::TRACESTATE, keys::BAGGAGE];
        let values = [&self.parent, &self.state, &self.baggage];
        names.into_iter().zip(values).filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// Returns `traceparent`: the trace, and the operation in it that caused the request.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    /// Returns `tracestate`.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Returns `baggage`.
    #[must_use]
    pub fn baggage(&self) -> Option<&str> {
        self.baggage.as_deref()
    }

    /// Returns the id of the trace: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> Option<&str> {
        self.parent.as_deref()?.get(3..35)
    }

    /// Returns the id of the operation that caused the request: 16 hexadecimal digits.
    #[must_use]
    pub fn parent_id(&self) -> Option<&str> {
        self.parent.as_deref()?.get(36..52)
    }

    /// Returns whether the sender may have recorded the trace (the flag `sampled`).
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        let flags = self.parent.as_deref().and_then(|parent| u8::from_str_radix(parent.get(53..55)?, 16).ok());
        flags.is_some_and(|flags| flags & 1 == 1)
    }
}

impl Meta {
    /// Returns the distributed trace that the message belongs to.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        TraceContext::read([keys::TRACEPARENT, keys::TRACESTATE, keys::BAGGAGE].map(|name| self.decode(name)))
    }

    /// Sets the distributed trace that the message belongs to, in place of any former one.
    ///
    /// # Errors
    /// Never in practice, since JSON can represent every text.
    pub fn set_trace(&mut self, trace: &TraceContext) -> Result<(), serde_json::Error> {
        for name in [keys::TRACEPARENT, keys::TRACESTATE, keys::BAGGAGE] {
            self.remove(name);
        }
        trace.members().try_for_each(|(name, value)| self.set(name, &value.to_string()))
    }
}

/// Returns whether the text is `version-trace-parent-flags` in lower case. Versions after 00 may have more fields.
fn is_parent(text: &str) -> bool {
    let mut fields = text.split('-');
    let mut field = |len: usize| {
        let is_hex =
            |field: &&str| field.len() == len && field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        fields.next().filter(is_hex)
    };
    let (Some(version), Some(trace), Some(parent), Some(_)) = (field(2), field(32), field(16), field(2)) else {
        return false;
    };
    let is_something = |id: &str| id.bytes().any(|byte| byte != b'0');
    let has_more = fields.next().is_some();
    version != "ff" && !(version == "00" && has_more) && is_something(trace) && is_something(parent)
}

/// Returns whether the text can be the value of a header: not empty, at most `max` bytes, only visible ASCII, spaces
/// and tabs.
fn is_text(text: &str, max: usize) -> bool {
    !text.is_empty() && text.len() <= max && text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    // req: M-META-025
    #[test]
    fn trace_values_follow_w3c_grammar() {
        let trace = TraceContext::within(PARENT).expect("the example of the W3C");
        assert_eq!(trace.trace_id(), Some("0af7651916cd43dd8448eb211c80319c"));
        assert_eq!((trace.parent_id(), trace.is_sampled()), (Some("b7ad6b7169203331"), true));
        let table = [
            (PARENT, true),
            ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more", true),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", false),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
            ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", false),
            ("0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
            ("", false),
        ];
        for (parent, good) in table {
            assert_eq!(TraceContext::within(parent).is_ok(), good, "{parent}");
        }
        assert_eq!(TraceContext::new().with_state("a=b"), Err(InvalidTrace::State));
        assert_eq!(trace.clone().with_state("a=\u{e4}"), Err(InvalidTrace::State));
        assert_eq!(trace.clone().with_baggage("a=b\nc"), Err(InvalidTrace::Baggage));
        assert_eq!(trace.clone().with_baggage("a".repeat(MAX_BAGGAGE + 1)), Err(InvalidTrace::Baggage));
        let full = trace.with_state("a=b").and_then(|trace| trace.with_baggage("c=d"));
        assert_eq!(full.map(|full| full.members().count()), Ok(3));
    }

    // req: M-META-025
    #[test]
    fn malformed_trace_members_are_ignored() {
        let of = |meta: &str| TraceContext::of(&RawJson::trusted(meta));
        assert_eq!(of("{}"), None);
        assert_eq!(of(r#"{"traceparent":5,"tracestate":"a=b"}"#), None);
        let good = alloc::format!(r#"{{"x":{{}},"trace\u0073tate":"a=b","traceparent":"{PARENT}","baggage":"\n"}}"#);
        let trace = of(&good).expect("it is there");
        assert_eq!((trace.parent(), trace.state(), trace.baggage()), (Some(PARENT), Some("a=b"), None));
        let mut meta: Meta = serde_json::from_str(&good).expect("an object");
        assert_eq!(meta.trace(), Some(trace.clone()));
        meta.set_trace(&TraceContext::new().with_baggage("c=d").expect("a baggage")).expect("JSON");
        assert_eq!(serde_json::to_string(&meta).expect("JSON"), r#"{"x":{},"baggage":"c=d"}"#);
        meta.set_trace(&trace).expect("JSON");
        assert_eq!(meta.trace(), Some(trace));
    }
}
