//! Finds the address in the `endpoint` event of HTTP+SSE (2024-11-05), which is the first event of its stream.

/// The most bytes of the first event that are held. More is passed on as it arrives.
const MAX_EVENT: usize = 16 << 10;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// A part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section<'a> {
    /// The address, or a part of the first event that may be one.
    Address(&'a [u8]),
    Other(&'a [u8]),
}

/// Holds the first event with data back until it is whole: its kind may follow its data.
#[derive(Debug, Default)]
struct EndpointScanner {
    held: Vec<u8>,
    /// Where the line begins within `held`.
    line: usize,
    has_started: bool,
    has_returned: bool,
    /// Whether a comment is being passed on that is no part of an event.
    is_comment: bool,
    /// Whether the event has a field.
    has_field: bool,
    has_data: bool,
    /// Whether the event is an `endpoint`, if it has a kind.
    is_endpoint: Option<bool>,
    is_over: bool,
}

/// Returns the name of a field, and where its value begins.
fn field(line: &[u8]) -> (&[u8], usize) {
    let name = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
    let colon = (name + 1).min(line.len());
    // One blank after the colon is no part of the value.
    (&line[..name], colon + usize::from(line.get(colon) == Some(&b' ')))
}

/// Returns the length of a line without its line break.
fn content_len(line: &[u8]) -> usize {
    line.len() - line.iter().rev().take_while(|byte| matches!(byte, b'\r' | b'\n')).count()
}

impl EndpointScanner {
    /// Returns whether the first event has been passed on: no later byte is part of an address.
    const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes bytes of the stream, and passes on what is decided.
    fn take(&mut self, bytes: &[u8], mut pass: impl FnMut(Section<'_>)) {
        for (at, &byte) in bytes.iter().enumerate() {
            if self.is_over {
                return pass(Section::Other(&bytes[at..]));
            }
            let is_second = byte == b'\n' && std::mem::take(&mut self.has_returned);
            self.has_returned = byte == b'\r';
            self.held.push(byte);
            if self.is_comment {
                self.has_started = true;
                self.is_comment = !matches!(byte, b'\r' | b'\n');
                // Line by line, or as the bytes arrive.
                if !self.is_comment || at + 1 == bytes.len() {
                    self.pass_on(false, &mut pass);
                }
                continue;
            }
            // Comments before the event are no part of it, and may be long.
            self.is_comment = byte == b':' && !self.has_field && self.is_line_start();
            if is_second {
                // The line has ended with the byte before.
                self.line = self.held.len();
                if self.held.len() == 1 {
                    self.pass_on(false, &mut pass);
                }
                continue;
            }
            if matches!(byte, b'\r' | b'\n') {
                self.end_line(&mut pass);
            }
            if self.held.len() > MAX_EVENT {
                self.is_over = true;
                self.pass_on(self.is_endpoint != Some(false), &mut pass);
            }
        }
    }

    /// Passes on what is held: the stream has ended.
    fn end(&mut self, mut pass: impl FnMut(Section<'_>)) {
        self.is_over = true;
        self.pass_on(self.is_endpoint != Some(false), &mut pass);
    }

    /// Returns whether the last byte is the first one of its line.
    fn is_line_start(&self) -> bool {
        let line = &self.held[self.line..self.held.len() - 1];
        line.is_empty() || !self.has_started && line == BOM
    }

    fn end_line(&mut self, pass: &mut impl FnMut(Section<'_>)) {
        let mut line = &self.held[self.line..self.held.len() - 1];
        if !std::mem::replace(&mut self.has_started, true) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            let is_endpoint = self.is_endpoint == Some(true);
            // An event without data is none.
            self.is_over = self.has_data;
            return self.pass_on(is_endpoint, pass);
        }
        let (name, value) = field(line);
        match name {
            b"" => {}
            b"event" => (self.is_endpoint, self.has_field) = (Some(&line[value..] == b"endpoint"), true),
            b"data" => (self.has_data, self.has_field) = (true, true),
            _ => self.has_field = true,
        }
        self.line = self.held.len();
    }

    fn pass_on(&mut self, is_address: bool, pass: &mut impl FnMut(Section<'_>)) {
        let held = std::mem::take(&mut self.held);
        (self.line, self.has_field, self.has_data, self.is_endpoint) = (0, false, false, None);
        let mut passed = 0;
        let mut start = 0;
        while is_address && start < held.len() {
            let len = held[start..].iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let end = len.map_or(held.len(), |len| start + len + 1);
            let line = &held[start..end];
            let bare = line.strip_prefix(BOM).unwrap_or(line);
            let (name, value) = field(&bare[..content_len(bare)]);
            if name == b"data" {
                let from = start + line.len() - bare.len() + value;
                let to = start + content_len(line);
                pass(Section::Other(&held[passed..from]));
                pass(Section::Address(&held[from..to]));
                passed = to;
            }
            start = end;
        }
        if passed < held.len() {
            pass(Section::Other(&held[passed..]));
        }
    }
}

/// Replaces the origin of the server in the address by another one.
#[derive(Debug)]
pub(crate) struct EndpointRewriter {
    scanner: EndpointScanner,
    server: Vec<u8>,
    own: Vec<u8>,
}

impl EndpointRewriter {
    /// Creates a rewriter. Origins are such as `http://127.0.0.1:8000`.
    pub(crate) fn new(server: &str, own: &str) -> Self {
        let (server, own) = (server.as_bytes().to_vec(), own.as_bytes().to_vec());
        Self { scanner: EndpointScanner::default(), server, own }
    }

    /// Returns whether all later bytes stay as they are.
    pub(crate) const fn is_over(&self) -> bool {
        self.scanner.is_over()
    }

    /// Appends the bytes to `out`. At most the first event is kept back.
    pub(crate) fn rewrite(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let (server, own) = (&self.server, &self.own);
        self.scanner.take(bytes, |section| write(section, server, own, out));
    }

    /// Writes what was kept back: the stream has ended.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        // An incomplete event has no address.
        self.scanner.end(|section| {
            let (Section::Address(bytes) | Section::Other(bytes)) = section;
            out.extend_from_slice(bytes);
        });
    }
}

fn write(section: Section<'_>, server: &[u8], own: &[u8], out: &mut Vec<u8>) {
    match section {
        Section::Other(bytes) => out.extend_from_slice(bytes),
        Section::Address(address) => match address.strip_prefix(server) {
            Some(rest) if rest.first().is_none_or(|byte| matches!(byte, b'/' | b'?' | b'#')) => {
                out.extend_from_slice(own);
                out.extend_from_slice(rest);
            }
            _ => out.extend_from_slice(address),
        },
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
    fn rewrites_the_first_address_in_chunks_of_any_size() {
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
            // The kind after the data, a byte order mark, and events without data before it.
            ("data: http://server:80/m\nevent: endpoint\n\n", "data: http://own:1/m\nevent: endpoint\n\n"),
            (
                "\u{feff}event: endpoint\rdata: http://server:80/m\r\r",
                "\u{feff}event: endpoint\rdata: http://own:1/m\r\r",
            ),
            ("\u{feff}data: http://server:80\nevent:endpoint\n\n", "\u{feff}data: http://own:1\nevent:endpoint\n\n"),
            (
                "retry: 7\n\nid: 1\n\nevent: endpoint\ndata: http://server:80\n\n",
                "retry: 7\n\nid: 1\n\nevent: endpoint\ndata: http://own:1\n\n",
            ),
        ];
        let same = [
            "event: endpoint\ndata: /m?a=1\n\n",
            "event: endpoint\ndata: http://server:8080/m\n\n",
            "event: endpoint\ndata: http://serv/m\n\n",
            "event: endpoint\ndata: http://server:8",
            "event: endpoint\nevent: x\ndata: http://server:80/m\n\n",
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

    #[test]
    fn an_address_behind_a_long_comment_is_rewritten() {
        let comment = format!(":{}\r\n", "x".repeat(2 * MAX_EVENT));
        let event = |host: &str| format!("\u{feff}{comment}: a\n{comment}event: endpoint\ndata: http://{host}/m\n\n");
        for chunk in [1, 7, 1 << 20] {
            assert!(rewritten(&event("server:80"), chunk) == event("own:1"), "by {chunk}");
        }
    }

    #[test]
    fn comments_and_long_events_are_not_held() {
        let mut rewriter = EndpointRewriter::new("http://server:80", "http://own:1");
        let mut out = Vec::new();
        rewriter.rewrite(": ping\n".repeat(MAX_EVENT).as_bytes(), &mut out);
        assert_eq!((out.len(), rewriter.is_over()), (7 * MAX_EVENT, false));
        rewriter.rewrite(b"data: ", &mut out);
        rewriter.rewrite(&[b'x'; MAX_EVENT], &mut out);
        assert_eq!((out.len(), rewriter.is_over()), (8 * MAX_EVENT + 6, true));
    }
}
