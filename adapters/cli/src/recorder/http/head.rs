//! Heads of requests and responses: what the recorder has to know of them, and what it changes.

use std::ops::Range;

use super::body::Framing;

/// The most fields of a head.
const MAX_FIELDS: usize = 256;

/// A field of a head, as places in its bytes.
#[derive(Clone, Debug)]
struct Field {
    name: Range<usize>,
    value: Range<usize>,
}

/// A parsed head.
#[derive(Clone, Debug)]
pub(super) struct Head {
    bytes: Vec<u8>,
    fields: Vec<Field>,
    first: First,
    is_1_1: bool,
}

#[derive(Clone, Debug)]
enum First {
    Request { method: String, target: String },
    Response { status: u16 },
}

/// Where one side is, as the other side has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// `http` or `https`.
    pub(super) scheme: String,
    /// The host, and the port unless it is the default one.
    pub(super) authority: String,
}

impl Origin {
    /// Returns such as `http://127.0.0.1:8000`.
    pub(super) fn text(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }
}

/// Returns the place of a part of the bytes.
fn place(bytes: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - bytes.as_ptr().addr();
    start..start + part.len()
}

fn fields(bytes: &[u8], headers: &[httparse::Header<'_>]) -> Vec<Field> {
    let of = |header: &httparse::Header<'_>| Field {
        name: place(bytes, header.name.as_bytes()),
        value: place(bytes, header.value),
    };
    headers.iter().map(of).collect()
}

impl Head {
    /// Parses a whole head of a request.
    pub(super) fn request(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(len)) if len == bytes.len() => {}
            Err(httparse::Error::TooManyHeaders) => return Err("the head of the request has too many fields"),
            _ => return Err("the head of the request is not HTTP/1.1"),
        }
        let (method, target) =
            (request.method.unwrap_or_default().to_owned(), request.path.unwrap_or_default().to_owned());
        let (fields, is_1_1) = (fields(&bytes, request.headers), request.version == Some(1));
        Ok(Self { bytes, fields, first: First::Request { method, target }, is_1_1 })
    }

    /// Parses a whole head of a response.
    pub(super) fn response(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(&bytes) {
            Ok(httparse::Status::Complete(len)) if len == bytes.len() => {}
            Err(httparse::Error::TooManyHeaders) => return Err("the head of the response has too many fields"),
            _ => return Err("the head of the response is not HTTP/1.1"),
        }
        let status = response.code.unwrap_or_default();
        let (fields, is_1_1) = (fields(&bytes, response.headers), response.version == Some(1));
        Ok(Self { bytes, fields, first: First::Response { status }, is_1_1 })
    }

    pub(super) fn method(&self) -> &str {
        match &self.first {
            First::Request { method, .. } => method,
            First::Response { .. } => "",
        }
    }

    pub(super) const fn status(&self) -> u16 {
        match &self.first {
            First::Request { .. } => 0,
            First::Response { status } => *status,
        }
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Field, &'a [u8])> {
        let is_it = move |field: &&Field| self.bytes[field.name.clone()].eq_ignore_ascii_case(name.as_bytes());
        self.fields.iter().filter(is_it).map(|field| (field, &self.bytes[field.value.clone()]))
    }

    /// Returns the value of the first field of a name.
    pub(super) fn value(&self, name: &str) -> Option<&[u8]> {
        let is_it = |field: &&Field| self.bytes[field.name.clone()].eq_ignore_ascii_case(name.as_bytes());
        self.fields.iter().find(is_it).map(|field| self.bytes[field.value.clone()].trim_ascii())
    }

    /// Returns the media type of the body, in lower case and without parameters.
    pub(super) fn media_type(&self) -> String {
        let value = String::from_utf8_lossy(self.value("content-type").unwrap_or_default()).to_ascii_lowercase();
        value.split(';').next().unwrap_or_default().trim().to_owned()
    }

    /// Returns whether the body is compressed, by its own coding or by one of the transfer.
    pub(super) fn is_encoded(&self) -> bool {
        let codings = |name| self.all(name).flat_map(|(_, value)| value.split(|byte| *byte == b','));
        let is_plain = |coding: &[u8], also: &[u8]| {
            let coding = coding.trim_ascii();
            coding.is_empty() || coding.eq_ignore_ascii_case(b"identity") || coding.eq_ignore_ascii_case(also)
        };
        codings("content-encoding").any(|coding| !is_plain(coding, b""))
            || codings("transfer-encoding").any(|coding| !is_plain(coding, b"chunked"))
    }

    fn length(&self) -> Result<Option<u64>, &'static str> {
        const WRONG: &str = "the length of the body is no number";
        let mut found = None;
        for (_, value) in self.all("content-length") {
            for part in value.split(|byte| *byte == b',') {
                let digits = str::from_utf8(part.trim_ascii()).map_err(|_| WRONG)?;
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(WRONG);
                }
                let length = digits.parse().map_err(|_| WRONG)?;
                if found.is_some_and(|found| found != length) {
                    return Err("the body has two lengths");
                }
                found = Some(length);
            }
        }
        Ok(found)
    }

    /// Returns whether the last transfer coding is `chunked`. `None`: there is no transfer coding.
    fn is_chunked(&self) -> Result<Option<bool>, &'static str> {
        let Some((_, value)) = self.all("transfer-encoding").last() else { return Ok(None) };
        if !self.is_1_1 {
            return Err("HTTP/1.0 has no transfer coding");
        }
        let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
        Ok(Some(last.trim_ascii().eq_ignore_ascii_case(b"chunked")))
    }

    /// Returns how the end of the body of a request is known.
    pub(super) fn request_framing(&self) -> Result<Framing, &'static str> {
        match (self.is_chunked()?, self.length()?) {
            (Some(_), Some(_)) => Err("the body has a length and a transfer coding"),
            (Some(true), None) => Ok(Framing::chunked()),
            (Some(false), None) => Err("the end of the body is not known"),
            (None, length) => Ok(Framing::Length(length.unwrap_or_default())),
        }
    }

    /// Returns how the end of the body of a response to a method is known.
    pub(super) fn response_framing(&self, method: &str) -> Result<Framing, &'static str> {
        if method == "HEAD" || matches!(self.status(), 100..=199 | 204 | 304) {
            return Ok(Framing::Length(0));
        }
        match self.is_chunked()? {
            Some(true) => Ok(Framing::chunked()),
            Some(false) => Ok(Framing::UntilEnd),
            None => Ok(self.length()?.map_or(Framing::UntilEnd, Framing::Length)),
        }
    }

    /// Checks whether a request is one that the recorder forwards. Returns the authority that the client uses.
    pub(super) fn authority(&self) -> Result<Option<String>, (u16, &'static str)> {
        let First::Request { method, target } = &self.first else { return Ok(None) };
        if method == "CONNECT" || !(target.starts_with('/') || target == "*") {
            return Err((400, "the recorder is no forward proxy: the target of a request is a path"));
        }
        let mut hosts = self.all("host");
        let host = hosts.next().map(|(_, value)| String::from_utf8_lossy(value).trim().to_owned());
        if hosts.next().is_some() {
            return Err((400, "the request has two hosts"));
        }
        // A page of another site whose name leads to this machine must not get past the check of the server.
        match host {
            Some(host) if !is_loopback(&host) => Err((421, "the host of the request is no address of this machine")),
            host => Ok(host),
        }
    }

    /// Returns the head of a request as the server gets it.
    pub(super) fn for_server(&self, own: &Origin, server: &Origin, no_compression: bool) -> Vec<u8> {
        let mut edits: Vec<(Range<usize>, Vec<u8>)> = Vec::new();
        for (field, _) in self.all("host") {
            edits.push((field.value.clone(), server.authority.clone().into_bytes()));
        }
        let own = own.text();
        for (field, value) in self.all("origin") {
            if value.trim_ascii().eq_ignore_ascii_case(own.as_bytes()) {
                edits.push((field.value.clone(), server.text().into_bytes()));
            }
        }
        for (field, _) in self.all("upgrade") {
            let end = self.bytes[field.value.end..].iter().position(|byte| *byte == b'\n');
            edits.push((field.name.start..field.value.end + end.map_or(0, |end| end + 1), Vec::new()));
        }
        if no_compression {
            for (field, _) in self.all("accept-encoding") {
                edits.push((field.value.clone(), b"identity".to_vec()));
            }
        }
        self.edited(edits)
    }

    /// Returns the head of a response as the client gets it.
    pub(super) fn for_client(&self, own: &Origin, server: &Origin) -> Vec<u8> {
        let (own, server) = (own.text(), server.text());
        let mut edits = Vec::new();
        for (field, value) in self.all("location") {
            let rest = value.get(server.len()..).filter(|_| value.starts_with(server.as_bytes()));
            if rest.is_some_and(|rest| rest.first().is_none_or(|byte| matches!(byte, b'/' | b'?' | b'#'))) {
                let start = field.value.start;
                edits.push((start..start + server.len(), own.clone().into_bytes()));
            }
        }
        self.edited(edits)
    }

    fn edited(&self, mut edits: Vec<(Range<usize>, Vec<u8>)>) -> Vec<u8> {
        edits.sort_by_key(|(place, _)| place.start);
        let (mut out, mut at) = (Vec::with_capacity(self.bytes.len() + 64), 0);
        for (place, text) in edits {
            out.extend_from_slice(&self.bytes[at..place.start]);
            out.extend_from_slice(&text);
            at = place.end;
        }
        out.extend_from_slice(&self.bytes[at..]);
        out
    }
}

/// Returns whether a host, with or without a port, is one of this machine.
fn is_loopback(host: &str) -> bool {
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Finds the end of a head. Memory is linear in the head, and each byte is looked at once.
#[derive(Debug, Default)]
pub(super) struct HeadEnd {
    searched: usize,
}

impl HeadEnd {
    /// Returns the length of the head, if its empty line is there.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        for at in self.searched..bytes.len() {
            let before = &bytes[..at];
            if bytes[at] == b'\n' && (before.ends_with(b"\n") || before.ends_with(b"\n\r")) {
                return Some(at + 1);
            }
        }
        self.searched = bytes.len();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(scheme: &str, authority: &str) -> Origin {
        Origin { scheme: scheme.into(), authority: authority.into() }
    }

    fn request(text: &str) -> Head {
        Head::request(text.as_bytes().to_vec()).expect("a head")
    }

    #[test]
    fn heads_end_wherever_they_are_cut() {
        for (text, len) in [("GET / HTTP/1.1\r\nA: b\r\n\r\nrest", 24), ("GET / HTTP/1.1\nA: b\n\nrest", 21)] {
            for cut in 0..text.len() {
                let mut end = HeadEnd::default();
                let found = end.find(&text.as_bytes()[..cut]).or_else(|| end.find(text.as_bytes()));
                assert_eq!(found, Some(len), "{cut}");
            }
        }
    }

    #[test]
    fn requests_change_only_what_they_must() {
        let head = request(
            "POST /mcp HTTP/1.1\r\nHOST:  localhost:9\r\nOrigin: http://localhost:9\r\nX: Host: a\r\nUpgrade: h2c\r\n\
             Connection: Upgrade\r\nAccept-Encoding: gzip\r\n\r\n",
        );
        assert_eq!(head.authority(), Ok(Some("localhost:9".into())));
        let (own, server) = (origin("http", "localhost:9"), origin("https", "mcp.example"));
        let text = |bytes| String::from_utf8(bytes).expect("text");
        assert_eq!(
            text(head.for_server(&own, &server, false)),
            "POST /mcp HTTP/1.1\r\nHOST:  mcp.example\r\nOrigin: https://mcp.example\r\nX: Host: a\r\n\
             Connection: Upgrade\r\nAccept-Encoding: gzip\r\n\r\n"
        );
        assert!(text(head.for_server(&own, &server, true)).contains("Accept-Encoding: identity\r\n"));
        let other = request("GET / HTTP/1.1\r\nHost: [::1]:9\r\nOrigin: http://localhost:6274\r\n\r\n");
        assert!(text(other.for_server(&own, &server, false)).contains("Origin: http://localhost:6274\r\n"));
    }

    #[test]
    fn locations_lead_back_to_the_recorder() {
        let (own, server) = (origin("http", "localhost:9"), origin("http", "a:8"));
        for (location, expected) in [
            ("http://a:8/b?c", "http://localhost:9/b?c"),
            ("http://a:8", "http://localhost:9"),
            ("http://a:80/b", "http://a:80/b"),
            ("/b", "/b"),
            ("https://a:8/b", "https://a:8/b"),
        ] {
            let text = |location: &str| format!("HTTP/1.1 307 Moved\r\nLocation: {location}\r\nA: http://a:8\r\n\r\n");
            let head = Head::response(text(location).into_bytes()).expect("a head");
            assert_eq!(head.for_client(&own, &server), text(expected).into_bytes());
        }
    }

    #[test]
    fn codings_of_the_transfer_hide_a_body_too() {
        let is_encoded = |fields: &str| request(&format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n")).is_encoded();
        for plain in
            ["A: b", "Transfer-Encoding: Chunked", "Content-Encoding: identity", "Transfer-Encoding: , chunked"]
        {
            assert!(!is_encoded(plain), "{plain}");
        }
        for coded in ["Transfer-Encoding: gzip, chunked", "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"] {
            assert!(is_encoded(coded), "{coded}");
        }
        assert!(is_encoded("Content-Encoding: gzip") && is_encoded("Content-Encoding: chunked"));
        let old = request("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(old.request_framing().is_err());
    }

    #[test]
    fn requests_of_other_hosts_are_refused() {
        for (text, status) in [
            ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
            ("GET / HTTP/1.1\r\nHost: 192.168.0.1:9\r\n\r\n", 421),
            ("GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", 421),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
            ("GET http://a/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
            ("CONNECT a:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ] {
            assert_eq!(request(text).authority().expect_err(text).0, status);
        }
        for host in ["localhost", "LOCALHOST:9", "127.0.0.1:9", "127.1.2.3", "[::1]:9"] {
            assert!(request(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).authority().is_ok(), "{host}");
        }
    }

    #[test]
    fn the_end_of_a_body_is_known_or_the_head_is_refused() {
        let framing = |fields: &str| request(&format!("POST / HTTP/1.1\r\n{fields}\r\n")).request_framing();
        assert!(matches!(framing(""), Ok(Framing::Length(0))));
        assert!(matches!(framing("Content-Length: 7\r\nContent-Length: 7\r\n"), Ok(Framing::Length(7))));
        assert!(matches!(framing("Transfer-Encoding: gzip, Chunked\r\n"), Ok(Framing::Chunked(_))));
        for wrong in [
            "Content-Length: 7\r\nContent-Length: 8\r\n",
            "Content-Length: +7\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length: \r\n",
            "Content-Length: 7\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding: chunked\u{a0}\r\n",
        ] {
            assert!(framing(wrong).is_err(), "{wrong}");
        }
        let framing = |status: u16, fields: &str, method: &str| {
            let head = Head::response(format!("HTTP/1.1 {status} X\r\n{fields}\r\n").into_bytes()).expect("a head");
            head.response_framing(method).expect("it is known")
        };
        for (status, method) in [(200, "HEAD"), (204, "GET"), (304, "GET"), (100, "POST")] {
            assert!(matches!(framing(status, "Content-Length: 7\r\n", method), Framing::Length(0)));
        }
        assert!(matches!(framing(200, "", "GET"), Framing::UntilEnd));
        assert!(matches!(
            framing(200, "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n", "GET"),
            Framing::Chunked(_)
        ));
    }
}
