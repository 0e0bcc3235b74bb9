//! Reads a record of HTTP: whole requests, heads of responses, and the messages in bodies and streams.

use std::{
    collections::{BTreeMap, VecDeque},
    io::BufRead,
    rc::Rc,
};

use mcp_proto::codec::{FrameEnd, SseDecoder};

use super::{
    head::{RequestHead, ResponseHead, parse},
    lines::MAX_MESSAGE,
};
use crate::{
    error::Failed,
    record::{Entry, HttpEvent, Origin, Part, Reader, Step, What},
};

/// The most exchanges that are open at once. More than a recorder has.
pub(crate) const MAX_OPEN: usize = 8 << 10;

/// The most bytes of all heads and bodies that are held together.
const MAX_HELD: usize = 64 << 20;

/// How an exchange ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeEnd {
    /// With the end of the response.
    Complete,
    /// A side closed or broke the connection, for this reason.
    Failed(Origin, String),
    /// The recorder itself responded, with this status and for this reason.
    Answered(u64, String),
    /// Too many exchanges are open, or they have too many bytes: nothing more of it is read.
    GivenUp,
}

/// An entry of a record of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HttpItem {
    /// A whole request. It has no body if that is compressed, longer than the longest message, or not in the record.
    Request { at: u64, exchange: u64, head: Rc<RequestHead>, body: Option<Vec<u8>> },
    /// The head of the final response.
    Response { at: u64, exchange: u64, head: Rc<RequestHead>, response: Rc<ResponseHead> },
    /// The body of a response in JSON, or an event with its id.
    Message { at: u64, exchange: u64, bytes: Vec<u8>, end: FrameEnd, event: Option<String> },
    /// The address of the `endpoint` event of HTTP+SSE.
    Endpoint { at: u64, exchange: u64, address: String },
    /// The end of an exchange. `is_lost`: the body of the response is compressed, too long, or not in the record.
    End { at: u64, exchange: u64, end: ExchangeEnd, is_lost: bool },
    /// Another event of the record.
    Event { at: u64, what: What },
}

/// A body that is being read.
#[derive(Debug, Default)]
enum Body {
    #[default]
    None,
    Json(Vec<u8>),
    Events(Box<SseDecoder>),
    /// It is compressed, too long, or not in the record.
    Lost,
}

impl Body {
    fn size(&self) -> usize {
        match self {
            Self::Json(bytes) => bytes.len(),
            Self::Events(decoder) => size_of::<SseDecoder>() + decoder.buffered(),
            Self::None | Self::Lost => 0,
        }
    }
}

#[derive(Debug)]
struct Exchange {
    head: Rc<RequestHead>,
    request: Body,
    /// Whether the request was returned.
    is_sent: bool,
    response: Option<Rc<ResponseHead>>,
    answer: Body,
    /// How many bytes are counted for it.
    held: usize,
}

impl Exchange {
    fn body(&mut self, from: Origin) -> &mut Body {
        match from {
            Origin::Client => &mut self.request,
            Origin::Server => &mut self.answer,
        }
    }

    fn size(&self) -> usize {
        let head = self.head.method.len() + self.head.target.len() + self.head.fields.size();
        let response = self.response.as_ref().map_or(0, |response| response.fields.size());
        head + response + self.request.size() + self.answer.size()
    }
}

/// Bytes of a stream that events are still cut from.
#[derive(Debug)]
struct Chunk {
    exchange: u64,
    bytes: Vec<u8>,
    at: usize,
}

/// Reads a record. Memory: the heads and the bodies of the exchanges that are open, within limits, and one entry.
#[derive(Debug)]
pub(crate) struct Exchanges<R> {
    reader: Reader<R>,
    open: BTreeMap<u64, Exchange>,
    held: usize,
    ready: VecDeque<HttpItem>,
    chunk: Option<Chunk>,
    at: u64,
}

impl<R: BufRead> Exchanges<R> {
    pub(crate) fn new(reader: Reader<R>) -> Result<Self, Failed> {
        if reader.header().transport != "http" {
            let why = format!("the record is one of {}, which this version cannot read", reader.header().transport);
            return Err(Failed::usage(why));
        }
        Ok(Self { reader, open: BTreeMap::new(), held: 0, ready: VecDeque::new(), chunk: None, at: 0 })
    }

    pub(crate) const fn reader(&self) -> &Reader<R> {
        &self.reader
    }

    /// Returns the next item, or `None` at the end.
    pub(crate) fn next_item(&mut self) -> Result<Option<HttpItem>, Failed> {
        loop {
            if let Some(item) = self.cut() {
                return Ok(Some(item));
            }
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            match self.reader.next_entry()? {
                None => return Ok(None),
                Some(Entry { at, what }) => {
                    self.at = at;
                    match what {
                        What::Http(HttpEvent { exchange, step }) => self.take(exchange, step),
                        what => self.ready.push_back(HttpItem::Event { at, what }),
                    }
                }
            }
        }
    }

    /// Cuts the next event from the bytes of a stream.
    fn cut(&mut self) -> Option<HttpItem> {
        let Chunk { exchange, bytes, at } = self.chunk.as_mut()?;
        let Some(Exchange { answer: Body::Events(decoder), .. }) = self.open.get_mut(exchange) else {
            self.chunk = None;
            return None;
        };
        let (time, exchange) = (self.at, *exchange);
        loop {
            let mut rest = &bytes[*at..];
            let event = decoder.next_event(&mut rest).map(|event| match event {
                Ok(event) => (event.kind.to_owned(), event.data.to_vec(), FrameEnd::Complete),
                Err(_) => ("message".to_owned(), Vec::new(), FrameEnd::Oversized),
            });
            *at = bytes.len() - rest.len();
            let Some((kind, data, end)) = event else {
                self.chunk = None;
                self.settle(exchange);
                return None;
            };
            let id = Some(decoder.last_id().to_owned()).filter(|id| !id.is_empty());
            if id.is_some() && end == FrameEnd::Complete {
                // The id of an event is that of all later ones for a client. Here it is the name of one message.
                **decoder = SseDecoder::new(MAX_MESSAGE);
            }
            match &*kind {
                "message" if !data.is_empty() || end != FrameEnd::Complete => {
                    return Some(HttpItem::Message { at: time, exchange, bytes: data, end, event: id });
                }
                "endpoint" => {
                    let address = String::from_utf8_lossy(&data).trim().to_owned();
                    return Some(HttpItem::Endpoint { at: time, exchange, address });
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, exchange: u64, step: Step) {
        match step {
            Step::Bytes { from: Origin::Client, part: Part::Head, bytes, .. } => self.begin(exchange, &bytes),
            Step::Bytes { from: Origin::Server, part: Part::Head, bytes, .. } => self.response(exchange, &bytes),
            Step::Bytes { from, part: Part::Body, bytes, .. } => self.body(exchange, from, bytes),
            Step::Bytes { part: Part::Trailer, .. } => {}
            Step::Omitted { from, .. } => self.lose(exchange, from),
            Step::End { from: Origin::Client } => self.sent(exchange),
            Step::End { from: Origin::Server } => self.end(exchange, ExchangeEnd::Complete),
            Step::Failed { from, why } => self.end(exchange, ExchangeEnd::Failed(from, why)),
            Step::Answered { status, why } => self.end(exchange, ExchangeEnd::Answered(status, why)),
        }
    }

    fn begin(&mut self, exchange: u64, bytes: &[u8]) {
        if self.open.contains_key(&exchange) {
            return;
        }
        let (first, fields) = parse(bytes);
        let mut words = first.split(' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let head = Rc::new(RequestHead { method: word(), target: word(), fields });
        if self.open.len() == MAX_OPEN {
            self.give_up_oldest();
        }
        let request = if head.fields.is_encoded() { Body::Lost } else { Body::Json(Vec::new()) };
        let open = Exchange { head, request, is_sent: false, response: None, answer: Body::None, held: 0 };
        self.open.insert(exchange, open);
        self.settle(exchange);
    }

    fn response(&mut self, exchange: u64, bytes: &[u8]) {
        let Some(open) = self.open.get(&exchange) else { return };
        let (first, fields) = parse(bytes);
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        // There is one final response, after any number of interim ones.
        if (100..200).contains(&status) || open.response.is_some() {
            return;
        }
        if !open.is_sent {
            // The server did not wait for the end of the request, so it did not need its body.
            self.lose(exchange, Origin::Client);
            self.sent(exchange);
        }
        let (at, Some(open)) = (self.at, self.open.get_mut(&exchange)) else { return };
        open.answer = match &*fields.media_type() {
            "text/event-stream" | "application/json" if fields.is_encoded() => Body::Lost,
            "text/event-stream" => Body::Events(Box::new(SseDecoder::new(MAX_MESSAGE))),
            "application/json" => Body::Json(Vec::new()),
            _ => Body::None,
        };
        let response = Rc::new(ResponseHead { status, fields });
        open.response = Some(Rc::clone(&response));
        let head = Rc::clone(&open.head);
        self.ready.push_back(HttpItem::Response { at, exchange, head, response });
        self.settle(exchange);
    }

    fn body(&mut self, exchange: u64, from: Origin, bytes: Vec<u8>) {
        let Some(open) = self.open.get_mut(&exchange) else { return };
        match open.body(from) {
            Body::Json(body) if body.len() + bytes.len() <= MAX_MESSAGE && self.held + bytes.len() <= MAX_HELD => {
                body.extend_from_slice(&bytes);
                self.settle(exchange);
            }
            Body::Json(_) => self.lose(exchange, from),
            Body::Events(_) => self.chunk = Some(Chunk { exchange, bytes, at: 0 }),
            Body::None | Body::Lost => {}
        }
    }

    fn lose(&mut self, exchange: u64, from: Origin) {
        let Some(open) = self.open.get_mut(&exchange) else { return };
        if !(from == Origin::Client && open.is_sent) {
            *open.body(from) = Body::Lost;
        }
        self.settle(exchange);
    }

    /// Handles the end of a request.
    fn sent(&mut self, exchange: u64) {
        let Some(open) = self.open.get_mut(&exchange) else { return };
        if std::mem::replace(&mut open.is_sent, true) {
            return;
        }
        let body = match std::mem::take(&mut open.request) {
            Body::Json(bytes) => Some(bytes),
            _ => None,
        };
        self.ready.push_back(HttpItem::Request { at: self.at, exchange, head: Rc::clone(&open.head), body });
        self.settle(exchange);
    }

    fn end(&mut self, exchange: u64, end: ExchangeEnd) {
        if self.open.get(&exchange).is_some_and(|open| !open.is_sent) {
            // A part of a message is none.
            self.lose(exchange, Origin::Client);
            self.sent(exchange);
        }
        let Some(mut open) = self.open.remove(&exchange) else { return };
        self.held -= open.held;
        let at = self.at;
        let is_lost = matches!(open.answer, Body::Lost);
        if let Body::Json(bytes) = std::mem::take(&mut open.answer)
            && !bytes.is_empty()
        {
            let end = if end == ExchangeEnd::Complete { FrameEnd::Complete } else { FrameEnd::Unterminated };
            self.ready.push_back(HttpItem::Message { at, exchange, bytes, end, event: None });
        }
        self.ready.push_back(HttpItem::End { at, exchange, end, is_lost });
    }

    /// Counts the bytes that an exchange holds. If all have too many, its event is lost, and then the oldest exchanges.
    fn settle(&mut self, exchange: u64) {
        let Some(open) = self.open.get_mut(&exchange) else { return };
        let mut size = open.size();
        if self.held - open.held + size > MAX_HELD && matches!(open.answer, Body::Events(_)) {
            open.answer = Body::Lost;
            size = open.size();
        }
        self.held = self.held - std::mem::replace(&mut open.held, size) + size;
        while self.held > MAX_HELD && !self.open.is_empty() {
            self.give_up_oldest();
        }
    }

    fn give_up_oldest(&mut self) {
        let Some((exchange, open)) = self.open.pop_first() else { return };
        self.held -= open.held;
        let (at, end) = (self.at, ExchangeEnd::GivenUp);
        if !open.is_sent {
            self.ready.push_back(HttpItem::Request { at, exchange, head: open.head, body: None });
        }
        self.ready.push_back(HttpItem::End { at, exchange, end, is_lost: true });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a record whose bodies are cut into pieces of this size.
    fn items(size: usize) -> Vec<HttpItem> {
        let mut record = "{\"mcp_record\":1,\"transport\":\"http\"}\n".to_owned();
        let mut line = |value: serde_json::Value| record.push_str(&format!("{value}\n"));
        let head = |from: &str, stream: &str, text: &str, exchange: u64| serde_json::json!({"t": 1, "exchange": exchange, "from": from, "stream": stream, "text": text});
        line(head("client", "request-head", "POST /mcp?a=1 HTTP/1.1\r\nA: b\r\na: c\r\n\r\n", 1));
        for piece in b"{\"a\":1}".chunks(size) {
            line(head("client", "request-body", str::from_utf8(piece).expect("text"), 1));
        }
        line(serde_json::json!({"t": 1, "exchange": 1, "from": "client", "stream": "request-body", "end": true}));
        line(head("server", "response-head", "HTTP/1.1 100 Continue\r\n\r\n", 1));
        line(head("client", "request-head", "GET /sse HTTP/1.1\r\n\r\n", 2));
        line(serde_json::json!({"t": 1, "exchange": 2, "from": "client", "stream": "request-body", "end": true}));
        let stream = "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n\r\n";
        line(head("server", "response-head", stream, 2));
        line(head("server", "response-head", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", 1));
        let events = b"event: endpoint\ndata: /m?id=2\n\n: ping\n\nid: 7\ndata: {\"b\":2}\n\nid: 8\ndata:\n\ndata: {\"c\":3}\n\n";
        for piece in events.chunks(size) {
            line(head("server", "response-body", str::from_utf8(piece).expect("text"), 2));
        }
        for piece in b"{\"d\":4}".chunks(size) {
            line(head("server", "response-body", str::from_utf8(piece).expect("text"), 1));
        }
        line(serde_json::json!({"t": 2, "exchange": 1, "from": "server", "stream": "response-body", "end": true}));
        line(serde_json::json!({"t": 3, "exchange": 2, "from": "client", "failed": "x"}));
        let reader = Reader::new("a".into(), record.as_bytes()).expect("a record");
        let mut exchanges = Exchanges::new(reader).expect("one of HTTP");
        let mut all = Vec::new();
        while let Some(item) = exchanges.next_item().expect("JSON") {
            all.push(item);
        }
        assert_eq!((exchanges.held, exchanges.open.len()), (0, 0));
        all
    }

    #[test]
    fn messages_are_read_wherever_bodies_are_cut() {
        let all = items(1);
        for size in 2..80 {
            assert_eq!(items(size), all, "{size}");
        }
        let HttpItem::Request { head, body: Some(body), exchange: 1, .. } = &all[0] else { panic!("{all:?}") };
        assert_eq!((head.name().as_str(), head.target.as_str()), ("POST /mcp", "/mcp?a=1"));
        assert_eq!((head.fields.list("A").as_deref(), body.as_slice()), (Some("b, c"), &b"{\"a\":1}"[..]));
        assert!(matches!(&all[2], HttpItem::Response { exchange: 2, response, .. } if response.status == 200));
        assert!(matches!(&all[4], HttpItem::Endpoint { address, .. } if address == "/m?id=2"), "{all:?}");
        let message = |at: usize| match &all[at] {
            HttpItem::Message { bytes, event, exchange, .. } => (bytes.as_slice(), event.as_deref(), *exchange),
            other => panic!("{other:?}"),
        };
        assert_eq!(message(5), (&b"{\"b\":2}"[..], Some("7"), 2));
        assert_eq!(message(6), (&b"{\"c\":3}"[..], None, 2), "the id is that of the event before");
        assert_eq!(message(7), (&b"{\"d\":4}"[..], None, 1));
        assert!(matches!(&all[9], HttpItem::End { exchange: 2, end: ExchangeEnd::Failed(Origin::Client, _), .. }));
        assert_eq!(all.len(), 10);
    }

    #[test]
    fn open_exchanges_are_bounded() {
        let mut record = "{\"mcp_record\":1,\"transport\":\"http\"}\n".to_owned();
        for exchange in 0..MAX_OPEN + 5 {
            record.push_str(&format!(
                "{{\"t\":1,\"exchange\":{exchange},\"from\":\"client\",\"stream\":\"request-head\",\"text\":\"GET / HTTP/1.1\\r\\n\\r\\n\"}}\n"
            ));
        }
        let reader = Reader::new("a".into(), record.as_bytes()).expect("a record");
        let mut exchanges = Exchanges::new(reader).expect("one of HTTP");
        let mut ended = Vec::new();
        while let Some(item) = exchanges.next_item().expect("JSON") {
            match item {
                HttpItem::Request { body: None, .. } => {}
                HttpItem::End { exchange, end: ExchangeEnd::GivenUp, .. } => ended.push(exchange),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((exchanges.open.len(), ended), (MAX_OPEN, vec![0, 1, 2, 3, 4]));
    }

    /// Reads a record with these lines, and returns its items and the most bytes that were held.
    fn read(lines: impl IntoIterator<Item = serde_json::Value>) -> (Vec<HttpItem>, usize) {
        let mut record = "{\"mcp_record\":1,\"transport\":\"http\"}\n".to_owned();
        lines.into_iter().for_each(|line| record.push_str(&format!("{line}\n")));
        let reader = Reader::new("a".into(), record.as_bytes()).expect("a record");
        let mut exchanges = Exchanges::new(reader).expect("one of HTTP");
        let (mut items, mut most) = (Vec::new(), 0);
        while let Some(item) = exchanges.next_item().expect("JSON") {
            most = most.max(exchanges.held);
            items.push(item);
        }
        assert_eq!(exchanges.held, exchanges.open.values().map(Exchange::size).sum::<usize>());
        (items, most)
    }

    fn part(exchange: u64, from: &str, stream: &str, text: &str) -> serde_json::Value {
        serde_json::json!({"t": 1, "exchange": exchange, "from": from, "stream": stream, "text": text})
    }

    #[test]
    fn heads_and_incomplete_events_are_bounded_too() {
        let long = "x".repeat(1 << 20);
        let heads = (0..100)
            .map(|exchange| part(exchange, "client", "request-head", &format!("GET / HTTP/1.1\r\nA: {long}\r\n\r\n")));
        let (items, most) = read(heads);
        assert!(most <= MAX_HELD && items.len() > 60, "{most} {}", items.len());
        let streams = (0..10).flat_map(|exchange| {
            let head = part(exchange, "client", "request-head", "GET / HTTP/1.1\r\n\r\n");
            let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            let stream = part(exchange, "server", "response-head", stream);
            let start = part(exchange, "server", "response-body", "data: ");
            let data = part(exchange, "server", "response-body", &long);
            [head, stream, start].into_iter().chain(std::iter::repeat_n(data, 8))
        });
        let (items, most) = read(streams);
        assert!(most <= MAX_HELD && items.len() == 20, "{most} {}", items.len());
    }

    #[test]
    fn a_second_final_head_changes_nothing() {
        let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
        let (items, _) = read([
            part(1, "client", "request-head", "GET / HTTP/1.1\r\n\r\n"),
            part(1, "client", "request-head", "GET /other HTTP/1.1\r\n\r\n"),
            serde_json::json!({"t": 1, "exchange": 1, "from": "client", "stream": "request-body", "end": true}),
            part(1, "server", "response-head", json),
            part(1, "server", "response-body", "{}"),
            part(1, "server", "response-head", "HTTP/1.1 500 No\r\n\r\n"),
            serde_json::json!({"t": 1, "exchange": 1, "from": "server", "stream": "response-body", "end": true}),
        ]);
        assert!(matches!(&items[0], HttpItem::Request { head, .. } if head.target == "/"), "{items:?}");
        assert!(matches!(&items[1], HttpItem::Response { response, .. } if response.status == 200), "{items:?}");
        assert!(matches!(&items[2], HttpItem::Message { bytes, .. } if bytes == b"{}"), "{items:?}");
        assert_eq!(items.len(), 4);
    }

    #[test]
    fn an_event_has_only_its_own_id() {
        let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        let (items, _) = read([
            part(1, "client", "request-head", "GET / HTTP/1.1\r\n\r\n"),
            serde_json::json!({"t": 1, "exchange": 1, "from": "client", "stream": "request-body", "end": true}),
            part(1, "server", "response-head", stream),
            part(1, "server", "response-body", "id: 7\r\ndata: 1\r\n\r\ndata: 2\r\n\r\nid: 8\ndata: 3\n\ndata: 4\n\n"),
        ]);
        let ids: Vec<_> = items[2..]
            .iter()
            .map(|item| match item {
                HttpItem::Message { event, .. } => event.as_deref(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(ids, [Some("7"), None, Some("8"), None]);
    }

    #[test]
    fn a_response_before_the_end_of_its_request_is_read() {
        let (items, _) = read([
            part(1, "client", "request-head", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"),
            part(1, "client", "request-body", "half"),
            part(1, "server", "response-head", "HTTP/1.1 413 Too Large\r\n\r\n"),
            part(1, "client", "request-body", "rest!"),
            serde_json::json!({"t": 1, "exchange": 1, "from": "client", "stream": "request-body", "end": true}),
            serde_json::json!({"t": 1, "exchange": 1, "from": "server", "stream": "response-body", "end": true}),
        ]);
        assert!(matches!(&items[0], HttpItem::Request { body: None, .. }), "{items:?}");
        assert!(matches!(&items[1], HttpItem::Response { response, .. } if response.status == 413), "{items:?}");
        assert!(matches!(&items[2], HttpItem::End { .. }) && items.len() == 3, "{items:?}");
    }

    #[test]
    fn compressed_bodies_are_no_messages() {
        for coding in ["Content-Encoding: gzip", "Transfer-Encoding: deflate, chunked"] {
            for media in ["application/json", "text/event-stream"] {
                let fields = format!("\r\nContent-Type: {media}\r\n{coding}\r\n\r\n");
                let (items, _) = read([
                    part(1, "client", "request-head", &format!("POST / HTTP/1.1{fields}")),
                    part(1, "client", "request-body", "no JSON"),
                    serde_json::json!({"t": 1, "exchange": 1, "from": "client", "stream": "request-body", "end": true}),
                    part(1, "server", "response-head", &format!("HTTP/1.1 200 OK{fields}")),
                    part(1, "server", "response-body", "data: no JSON\n\n"),
                    serde_json::json!({"t": 1, "exchange": 1, "from": "server", "stream": "response-body", "end": true}),
                ]);
                assert!(matches!(&items[0], HttpItem::Request { body: None, .. }), "{items:?}");
                assert!(matches!(&items[2], HttpItem::End { is_lost: true, .. }) && items.len() == 3, "{items:?}");
            }
        }
        let plain = "POST / HTTP/1.1\r\nContent-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (items, _) = read([
            part(1, "client", "request-head", plain),
            part(1, "client", "request-body", "{}"),
            serde_json::json!({"t": 1, "exchange": 1, "from": "client", "stream": "request-body", "end": true}),
        ]);
        assert!(matches!(&items[0], HttpItem::Request { body: Some(body), .. } if body == b"{}"), "{items:?}");
    }
}
