//! Events of `tracing` for errors of handlers and of the peer. Without the feature the functions do nothing.

#[cfg(feature = "tracing")]
mod there {
    use std::{borrow::Cow, fmt};

    use mcp_proto::connection::SendError;

    use crate::{inbound::fault::Fault, util::text_arguments::excerpt};

    /// Logs that a handler has panicked. Only the panic hook gets the message of the panic.
    pub(crate) fn panicked() {
        tracing::error!(target: "mcp_service", "a handler has panicked");
    }

    /// Logs that the response of a handler cannot be sent. The peer gets an internal error; the author of the handler
    /// needs the reason.
    pub(crate) fn unsent(why: &SendError) {
        let why = excerpt(why);
        tracing::error!(target: "mcp_service", why = &*plain(&why), "a response cannot be sent");
    }

    /// Logs the failure of a handler whose text the peer does not get.
    pub(crate) fn failed(why: &str) {
        tracing::error!(target: "mcp_service", why = &*escaped(why, FAILURE), "a handler has failed");
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

    /// The most bytes of a peer's text that are recorded.
    const RECORDED: usize = 400;

    /// The most bytes of the text of a failure that are recorded.
    const FAILURE: usize = 16 << 10;

    /// Escapes a peer's text for a log: it stays on one line and contains no control sequences. A long text is cut.
    pub(crate) fn plain(text: &str) -> Cow<'_, str> {
        escaped(text, RECORDED)
    }

    fn escaped(text: &str, most: usize) -> Cow<'_, str> {
        let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
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
        fn escapes_control_characters_in_logs() {
            assert!(matches!(plain("a \"b\" \\ é"), Cow::Borrowed("a \"b\" \\ é")));
            assert_eq!(plain("a\nINFO b\r\u{1b}[2J\u{202e}\u{2028}"), "a\\nINFO b\\r\\u{1b}[2J\\u{202e}\\u{2028}");
            let long = "é".repeat(RECORDED);
            assert_eq!(plain(&long), format!("{}…", "é".repeat(RECORDED / 2)));
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod there {
    use std::fmt;

    use mcp_proto::connection::SendError;

    use crate::inbound::fault::Fault;

    pub(crate) const fn panicked() {}

    pub(crate) const fn failed(_: &str) {}

    pub(crate) const fn unsent(_: &SendError) {}

    pub(crate) const fn fault(_: &Fault) {}

    pub(crate) const fn ready() {}

    pub(crate) fn closed(_: &dyn fmt::Display) {}
}

#[cfg(feature = "tracing")]
pub(crate) use there::plain;
pub(crate) use there::{closed, failed, fault, panicked, ready, unsent};
