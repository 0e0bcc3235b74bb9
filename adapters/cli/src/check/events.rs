//! Server-sent events, as their bytes have them.

/// The byte order mark.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SseEvent {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    /// The lines of data, joined. `None` if there is no such field.
    pub(super) data: Option<String>,
    pub(super) has_retry: bool,
}

/// Cuts a stream into events. Unlike a browser, it returns events without data.
#[derive(Debug, Default)]
pub(super) struct Events {
    buffer: Vec<u8>,
    /// Where the next event begins. What is before is removed with the next bytes, not with each event.
    start: usize,
    /// How far the buffer has no end of an event.
    searched: usize,
    /// Whether the byte order mark that a stream may begin with is over, or was not there.
    has_begun: bool,
    /// Whether the last byte was a carriage return. A line feed after it belongs to the same line end.
    after_return: bool,
}

impl Events {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
        // Line ends may be any of the three; all become one, at once: the stream may be silent after them.
        for &byte in bytes {
            let is_second = std::mem::replace(&mut self.after_return, byte == b'\r') && byte == b'\n';
            if !is_second {
                self.buffer.push(if byte == b'\r' { b'\n' } else { byte });
            }
        }
        if !self.has_begun {
            if MARK.starts_with(&self.buffer) && self.buffer.len() < MARK.len() {
                return;
            }
            self.has_begun = true;
            if self.buffer.starts_with(MARK) {
                self.buffer.drain(..MARK.len());
            }
        }
    }

    pub(super) fn next_event(&mut self) -> Option<SseEvent> {
        loop {
            let from = self.searched;
            let Some(end) = self.buffer[from..].windows(2).position(|it| it == b"\n\n").map(|at| at + from) else {
                self.searched = self.buffer.len().saturating_sub(2).max(self.start);
                return None;
            };
            let block = self.start..end + 2;
            (self.start, self.searched) = (block.end, block.end);
            let mut event = SseEvent::default();
            let mut has_field = false;
            for line in String::from_utf8_lossy(&self.buffer[block]).lines() {
                let (field, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                has_field |= matches!(field, "id" | "event" | "data" | "retry");
                match field {
                    // An empty one resets the last id, and one with NUL is ignored: neither can be resumed after.
                    "id" => event.id = Some(value.to_owned()).filter(|id| !id.is_empty() && !id.contains('\0')),
                    "event" => event.name = Some(value.to_owned()),
                    "data" => match &mut event.data {
                        Some(data) => {
                            data.push('\n');
                            data.push_str(value);
                        }
                        None => event.data = Some(value.to_owned()),
                    },
                    "retry" => event.has_retry = true,
                    _ => {}
                }
            }
            if has_field {
                return Some(event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_at_empty_lines() {
        let text = ": comment\r\n\r\nid: 1\r\ndata:\r\n\r\nevent: message\ndata: {\ndata: }\n\nretry: 5\r\r";
        let mut events = Events::default();
        for byte in text.bytes() {
            events.feed(&[byte]);
        }
        events.feed(b"\n");
        let event = events.next_event().expect("an event");
        assert_eq!((event.id.as_deref(), event.data.as_deref()), (Some("1"), Some("")));
        let event = events.next_event().expect("an event");
        assert_eq!((event.name.as_deref(), event.data.as_deref()), (Some("message"), Some("{\n}")));
        assert!(events.next_event().is_some_and(|event| event.has_retry));
        assert_eq!(events.next_event(), None);
    }

    #[test]
    fn empty_ids_and_ids_with_nul_are_none() {
        let mut events = Events::default();
        events.feed(b"id:\ndata: 1\n\nid: a\0b\ndata: 2\n\nid: c\ndata: 3\n\n");
        let ids: Vec<_> = std::iter::from_fn(|| events.next_event()).map(|event| event.id).collect();
        assert_eq!(ids, [None, None, Some("c".to_owned())]);
    }

    #[test]
    fn a_mark_and_a_last_return_are_taken() {
        let mut events = Events::default();
        for byte in b"\xef\xbb\xbfdata: 1\r\r" {
            events.feed(&[*byte]);
        }
        assert_eq!(events.next_event().and_then(|event| event.data).as_deref(), Some("1"));
        events.feed(b"\ndata: 2\r\n\r\n");
        assert_eq!(events.next_event().and_then(|event| event.data).as_deref(), Some("2"));
        assert_eq!(events.next_event(), None);
    }
}
