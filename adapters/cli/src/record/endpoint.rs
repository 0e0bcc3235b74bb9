//! Finds the address in the `endpoint` event of HTTP+SSE (2024-11-05), which is the first event of its stream.

/// The most bytes of a line that tell what it is.
const START: usize = 16;

/// Reads a stream byte by byte.
#[derive(Debug, Default)]
pub(crate) struct EndpointScanner {
    start: [u8; START],
    /// The bytes of the line, at most one more than `start` has.
    len: usize,
    has_returned: bool,
    /// Whether the event has a field.
    has_field: bool,
    is_endpoint: bool,
    is_over: bool,
}

impl EndpointScanner {
    /// Whether the first event has ended: no later byte is part of an address.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes a byte. Returns whether it is part of the address.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        if self.is_over {
            return false;
        }
        let is_second = byte == b'\n' && self.has_returned;
        self.has_returned = byte == b'\r';
        if is_second {
            return false;
        }
        if matches!(byte, b'\r' | b'\n') {
            self.end_line();
            return false;
        }
        if self.len < START {
            self.start[self.len] = byte;
        }
        self.len = (self.len + 1).min(START + 1);
        let is_data = self.is_endpoint && self.len > 5 && self.start.starts_with(b"data:");
        // One blank after the colon is no part of the value.
        is_data && !(self.len == 6 && byte == b' ')
    }

    fn end_line(&mut self) {
        let line = &self.start[..self.len.min(START)];
        match line {
            [] => self.is_over = self.has_field,
            b"event: endpoint" | b"event:endpoint" if self.len <= START => {
                (self.is_endpoint, self.has_field) = (true, true);
            }
            [b':', ..] => {}
            _ => self.has_field = true,
        }
        self.len = 0;
    }
}

/// Replaces the origin of the server in the address by another one.
#[derive(Debug)]
pub(crate) struct EndpointRewriter {
    scanner: EndpointScanner,
    server: Vec<u8>,
    own: Vec<u8>,
    /// How many bytes of the origin were read and not written. `None`: the address does not begin with it.
    held: Option<usize>,
}

impl EndpointRewriter {
    /// Creates a rewriter. Origins are such as `http://127.0.0.1:8000`.
    pub(crate) fn new(server: &str, own: &str) -> Self {
        let (server, own) = (server.as_bytes().to_vec(), own.as_bytes().to_vec());
        Self { scanner: EndpointScanner::default(), server, own, held: Some(0) }
    }

    /// Whether all later bytes stay as they are.
    pub(crate) const fn is_over(&self) -> bool {
        self.scanner.is_over()
    }

    /// Appends the bytes to `out`. At most the origin is kept back.
    pub(crate) fn rewrite(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            let is_address = self.scanner.take(byte);
            match self.held {
                Some(held) if is_address && self.server.get(held) == Some(&byte) => {
                    self.held = Some(held + 1);
                    continue;
                }
                Some(held) if is_address => {
                    let is_whole = held == self.server.len() && matches!(byte, b'/' | b'?' | b'#');
                    out.extend_from_slice(if is_whole { &self.own } else { &self.server[..held] });
                    self.held = None;
                }
                Some(held @ 1..) => {
                    let is_whole = held == self.server.len();
                    out.extend_from_slice(if is_whole { &self.own } else { &self.server[..held] });
                    self.held = None;
                }
                _ => {}
            }
            out.push(byte);
        }
    }

    /// Writes what was kept back: the stream has ended.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(held) = self.held.take() {
            out.extend_from_slice(&self.server[..held]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str, chunk: usize) -> String {
        let mut rewriter = EndpointRewriter::new("http://server:80", "http://own:1");
        let mut out = Vec::new();
        for bytes in text.as_bytes().chunks(chunk) {
            rewriter.rewrite(bytes, &mut out);
        }
        rewriter.end(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn only_the_address_of_the_first_event_is_rewritten_in_chunks_of_any_size() {
        let rows = [
            ("event: endpoint\ndata: http://server:80/m?a=1\n\n", "event: endpoint\ndata: http://own:1/m?a=1\n\n"),
            (
                ": hi\r\n\r\nevent:endpoint\r\ndata:http://server:80\r\n\r\n",
                ": hi\r\n\r\nevent:endpoint\r\ndata:http://own:1\r\n\r\n",
            ),
            (
                "id: 1\nevent: endpoint\ndata: http://server:80?x\n\n",
                "id: 1\nevent: endpoint\ndata: http://own:1?x\n\n",
            ),
        ];
        let same = [
            "event: endpoint\ndata: /m?a=1\n\n",
            "event: endpoint\ndata: http://server:8080/m\n\n",
            "event: endpoint\ndata: http://serv/m\n\n",
            "event: endpoint\ndata: http://server:8",
            "event: endpoints\ndata: http://server:80/m\n\n",
            "data: http://server:80/m\n\nevent: endpoint\ndata: http://server:80/m\n\n",
            "event: message\ndata: {\"a\":\"http://server:80/m\"}\n\n",
            "event: endpoint\ndata: /m\n\nevent: endpoint\ndata: http://server:80/m\n\n",
        ];
        for (text, expected) in rows.into_iter().chain(same.map(|text| (text, text))) {
            for chunk in 1..=text.len() {
                assert_eq!(rewritten(text, chunk), expected, "{text:?} by {chunk}");
            }
        }
    }
}
