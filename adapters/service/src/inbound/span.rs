//! What of the work on a request can be watched with `tracing`. Without the feature there is nothing in here.

#[cfg(feature = "tracing")]
mod there {
    use std::{borrow::Cow, fmt, future::Future};

    use mcp_proto::{connection::SendError, protocol::Era};
    use tracing::{Instrument, Level, field::Empty};

    use crate::{
        inbound::{
            answer::Answered,
            fault::Fault,
            request::{Asked, Subject, subject},
            state::Role,
        },
        util::text_arguments::excerpt,
    };

    /// The span of a request.
    #[derive(Debug)]
    pub(crate) struct Span(tracing::Span);

    impl Span {
        /// It begins when the request comes in, so waiting for a handler is part of it.
        pub(crate) fn of<E: Role>(asked: &Asked<'_, E>) -> Self {
            if !tracing::span_enabled!(target: "mcp_service", Level::INFO) {
                return Self(tracing::Span::none());
            }
            let info = asked.link.look(|conn| E::info(conn, Some(asked.key)));
            let Subject { id, method, name } = subject(asked);
            let trace = info.trace.or_else(|| asked.meta()?.trace());
            let trace = trace.as_ref();
            // It may hold anything that somebody in front of the client has put there.
            let has_details = tracing::enabled!(target: "mcp_service", Level::DEBUG);
            let era = match info.version.era() {
                Era::Legacy => "legacy",
                Era::Modern => "modern",
            };
            Self(tracing::info_span!(
                target: "mcp_service",
                "request",
                method = &*plain(&method),
                name = name.as_deref().map(plain).as_deref(),
                id = id.as_ref().map(|id| id.as_json()),
                era,
                version = info.version.as_str(),
                principal = info.principal.as_ref().map(|principal| plain(&principal.id)).as_deref(),
                traceparent = trace.and_then(|trace| trace.parent()).map(plain).as_deref(),
                tracestate = trace.and_then(|trace| trace.state()).map(plain).as_deref(),
                baggage = trace.and_then(|trace| trace.baggage()).filter(|_| has_details).map(plain).as_deref(),
                outcome = Empty,
                code = Empty,
            ))
        }

        pub(crate) fn within<T>(&self, f: impl FnOnce() -> T) -> T {
            self.0.in_scope(f)
        }

        pub(crate) fn around<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
            future.instrument(self.0.clone())
        }

        /// What the request is answered with, unless nobody wants the answer any more.
        pub(crate) fn end(&self, is_cancelled: bool, answered: impl FnOnce() -> Answered) {
            if self.0.is_disabled() {
                return;
            }
            let answered = answered();
            let outcome = match &answered {
                _ if is_cancelled => "cancelled",
                Answered::Result => "result",
                Answered::Failed => "failed",
                Answered::Questions => "questions",
                Answered::Error(_) => "error",
            };
            self.0.record("outcome", outcome);
            match answered {
                Answered::Error(error) if !is_cancelled => {
                    self.0.record("code", error.code.0);
                    tracing::info!(target: "mcp_service", parent: &self.0, message = &*plain(&error.message));
                }
                _ => tracing::debug!(target: "mcp_service", parent: &self.0, "answered"),
            }
        }
    }

    /// A handler has panicked. What it says goes to the panic hook, and to nobody else.
    pub(crate) fn panicked() {
        tracing::error!(target: "mcp_service", "a handler has panicked");
    }

    /// An answer of a handler cannot be sent, and its peer gets an internal error. Why is for the author of the handler.
    pub(crate) fn unsent(why: &SendError) {
        let why = excerpt(why);
        tracing::error!(target: "mcp_service", why = &*plain(&why), "an answer cannot be sent");
    }

    pub(crate) fn fault(fault: &Fault) {
        let fault = excerpt(fault);
        tracing::warn!(target: "mcp_service", fault = &*plain(&fault), "the peer has done something wrong");
    }

    pub(crate) fn ready() {
        tracing::debug!(target: "mcp_service", "the connection is ready");
    }

    pub(crate) fn closed(reason: &dyn fmt::Display) {
        let reason = excerpt(reason);
        tracing::debug!(target: "mcp_service", reason = &*plain(&reason), "the connection has ended");
    }

    /// How much of a text that a peer has chosen is recorded, in bytes.
    const RECORDED: usize = 400;

    /// A text that a peer has chosen, for a log: whatever prints it as it is prints one line, and nothing that changes how others
    /// look. It is cut where it is long.
    fn plain(text: &str) -> Cow<'_, str> {
        let end = (0..=RECORDED.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (text, is_cut) = (&text[..end], end < text.len());
        // What separates lines or paragraphs, and what turns the direction of writing.
        let is_odd = |c: char| {
            c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        if !is_cut && !text.contains(is_odd) {
            return Cow::Borrowed(text);
        }
        let mut plain = String::new();
        for c in text.chars() {
            if is_odd(c) { plain.extend(c.escape_default()) } else { plain.push(c) }
        }
        if is_cut {
            plain.push('…');
        }
        Cow::Owned(plain)
    }

    #[cfg(test)]
    mod tests {
        use super::super::there::*;

        #[test]
        fn no_line_of_a_log_can_be_forged() {
            assert!(matches!(plain("a \"b\" \\ é"), Cow::Borrowed("a \"b\" \\ é")));
            assert_eq!(plain("a\nINFO b\r\u{1b}[2J\u{202e}\u{2028}"), "a\\nINFO b\\r\\u{1b}[2J\\u{202e}\\u{2028}");
            let long = "é".repeat(RECORDED);
            assert_eq!(plain(&long), format!("{}…", "é".repeat(RECORDED / 2)));
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod there {
    use std::{fmt, future::Future};

    use mcp_proto::connection::SendError;

    use crate::inbound::{answer::Answered, fault::Fault, request::Asked, state::Role};

    #[derive(Debug)]
    pub(crate) struct Span;

    impl Span {
        pub(crate) const fn of<E: Role>(_: &Asked<'_, E>) -> Self {
            Self
        }

        #[allow(clippy::unused_self, reason = "there is nothing to see")]
        pub(crate) fn within<T>(&self, f: impl FnOnce() -> T) -> T {
            f()
        }

        #[allow(clippy::unused_self, reason = "there is nothing to see")]
        pub(crate) fn around<F: Future>(&self, future: F) -> F {
            future
        }

        #[allow(clippy::unused_self, reason = "there is nothing to see")]
        pub(crate) fn end(&self, _: bool, _: impl FnOnce() -> Answered) {}
    }

    pub(crate) const fn panicked() {}

    pub(crate) const fn unsent(_: &SendError) {}

    pub(crate) const fn fault(_: &Fault) {}

    pub(crate) const fn ready() {}

    pub(crate) fn closed(_: &dyn fmt::Display) {}
}

pub(crate) use super::span::there::{Span, closed, fault, panicked, ready, unsent};
