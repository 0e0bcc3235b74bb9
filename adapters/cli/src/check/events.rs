//! Server-sent events, as their bytes have them.

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
}

impl Events {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
        // Line ends may be any of the three; all become one.
        for &byte in bytes {
            match byte {
                b'\n' if self.buffer.last() == Some(&b'\r') => {
                    self.buffer.pop();
                    self.buffer.push(b'\n');
                }
                byte => {
                    if let Some(last) = self.buffer.last_mut().filter(|last| **last == b'\r') {
                        *last = b'\n';
                    }
                    self.buffer.push(byte);
                }
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
                    "id" => event.id = Some(value.to_owned()),
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
}
