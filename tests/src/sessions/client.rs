//! One client: its requests, its streams, and the responses that it expects.

use std::collections::BTreeMap;

use mcp_proto::{codec::SseDecoder, rpc::Timestamp};
use serde_json::{Value, json};

use super::{abandoned_exchange::AbandonedExchange, server_requests::Subscription};
use crate::{
    explore::{Rule, Violation, ensure},
    http_server::{Reply, RequestRef},
};

/// A message of a client, or a member of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientMessage {
    /// A call that the application responds to.
    Call {
        /// Whether it requests progress.
        progress: bool,
    },
    /// A request that the core responds to.
    Ping,
    /// A request with a method that the server does not have.
    Unknown,
    /// A call with the id of the latest call.
    DuplicateCall,
    /// The cancellation of an earlier call: the number of calls after it.
    Cancel(u64),
    /// A notification without effect.
    Notification,
}

/// How the messages of a client are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// As stateless requests (2026-07-28).
    Stateless,
    /// In a session with this id.
    Session(String),
    /// In a session over HTTP+SSE (2024-11-05), with the path for messages.
    HttpSse(String),
}

/// The state of the id of a request, as far as its batch determines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum IdState {
    /// Unknown: a request of another message may use the id, so the server may reject this one.
    Unknown,
    /// No request in flight uses the id.
    Free,
    /// A request in flight uses the id, so the server rejects this one.
    InUse,
}

/// A request and the state of its response.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExpectedResponse {
    /// The id, as JSON.
    pub id: String,
    /// The number that the result of the application repeats. None if the core responds.
    pub number: Option<u64>,
    /// Whether it requests progress.
    progress: bool,
    /// The latest progress.
    reported: u64,
    /// Its response was received.
    pub answered: bool,
    /// The client has cancelled it.
    pub cancelled: bool,
    /// The state of its id when the server handles it.
    id_state: IdState,
    /// It had no response when its cancellation was handled, so it never gets one.
    suppressed: bool,
    /// The client was told that there is no response, or has lost the means to receive it.
    pub lost: bool,
}

impl ExpectedResponse {
    /// Returns whether the response is still expected.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !(self.answered || self.cancelled || self.lost)
    }
}

/// The exchange that carries a stream at present.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The request of the exchange.
    pub sent: RequestRef,
    decoder: SseDecoder,
    /// The bytes of the body that were read.
    read: usize,
    /// It resumes a stream.
    resumes: bool,
}

/// A stream of messages: that of a request, or that of a session for messages that belong to no request. It continues
/// over all exchanges that carry it.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The requests whose responses belong on it.
    pub expected: Vec<ExpectedResponse>,
    /// It belongs to no request.
    pub listens: bool,
    /// The id of the last event that was read.
    pub last_id: String,
    /// The number in that id.
    number: Option<u64>,
    /// The number of messages that the server reported as dropped from the replay.
    missing: u64,
    /// The exchange that carries it. None after a disconnection.
    pub exchange: Option<Exchange>,
    /// The client expects nothing more.
    pub over: bool,
    /// The earliest time at which a message was sent that the client may not have read.
    pub since: Timestamp,
    /// The subscription of the stream (2026-07-28).
    pub subscription: Option<Subscription>,
    /// What was read, in order. Part of the state of an exploration.
    pub log: Vec<String>,
}

/// An event of a client, for the test that controls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The server reported that a stream cannot be resumed. The index of the stream.
    StreamGone(usize),
    /// A request was rejected with this status. The index of the stream.
    Refused(usize, u16),
    /// The server has sent a request.
    ServerRequest(Value),
}

/// One client.
#[derive(Clone, Debug)]
pub struct Client {
    /// How its messages are sent.
    pub kind: TransportKind,
    /// The revision.
    pub version: &'static str,
    /// Its streams, in the order of their start.
    pub streams: Vec<Stream>,
    /// Exchanges that were abandoned and not closed.
    pub abandoned: Vec<AbandonedExchange>,
    /// Its session is over: the server rejects all requests.
    pub over: bool,
    next_id: u64,
}

impl Client {
    /// Returns a client without requests.
    #[must_use]
    pub fn new(kind: TransportKind, version: &'static str) -> Self {
        Self { kind, version, streams: Vec::new(), abandoned: Vec::new(), over: false, next_id: 1 }
    }

    /// Returns the messages of a request and the responses to expect. `number` is increased for each call of the
    /// application.
    pub fn build_messages(&mut self, kinds: &[ClientMessage], number: &mut u64) -> (Vec<Value>, Vec<ExpectedResponse>) {
        let (mut messages, mut expected, mut id_states) = (Vec::new(), Vec::<ExpectedResponse>::new(), BTreeMap::new());
        for kind in kinds {
            let id = match kind {
                ClientMessage::DuplicateCall => self.next_id - 1,
                ClientMessage::Call { .. } | ClientMessage::Ping | ClientMessage::Unknown => {
                    self.next_id += 1;
                    self.next_id - 1
                }
                ClientMessage::Cancel(back) => {
                    let id = self.next_id.saturating_sub(back + 1);
                    let same = |response: &&mut ExpectedResponse| response.id == id.to_string();
                    // A cancellation refers to a rejected request only if there is no other one.
                    let is_live = expected
                        .iter_mut()
                        .filter(same)
                        .any(|response| !response.cancelled && response.id_state != IdState::InUse);
                    let matching = expected
                        .iter_mut()
                        .filter(same)
                        .filter(|response| !is_live || response.id_state != IdState::InUse);
                    matching.for_each(|response| response.cancelled = true);
                    id_states.insert(id, IdState::Free);
                    messages.push(
                        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
                    );
                    continue;
                }
                ClientMessage::Notification => {
                    messages.push(json!({"jsonrpc": "2.0", "method": "notifications/vendor"}));
                    continue;
                }
            };
            let (method, mut params, own) = match kind {
                ClientMessage::Ping => ("ping", json!({}), false),
                ClientMessage::Unknown => ("prompts/list", json!({}), false),
                _ => ("tools/call", json!({"name": "t"}), true),
            };
            let progress = matches!(kind, ClientMessage::Call { progress: true });
            if progress {
                params["_meta"] = json!({"progressToken": format!("p{id}")});
            }
            if own {
                *number += 1;
                params["number"] = json!(*number);
            }
            messages.push(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
            let response =
                ExpectedResponse { number: own.then_some(*number), progress, ..ExpectedResponse::new(&id.to_string()) };
            let id_state = id_states.get(&id).copied().unwrap_or(IdState::Unknown);
            if own {
                id_states.insert(id, IdState::InUse);
            }
            expected.push(ExpectedResponse { id_state, ..response });
        }
        (messages, expected)
    }

    /// Returns the ids that messages cancel.
    #[must_use]
    pub fn cancelled(messages: &[Value]) -> Vec<String> {
        let of = messages.iter().filter(|message| message["method"] == "notifications/cancelled");
        of.map(|message| message["params"]["requestId"].to_string()).collect()
    }

    /// Records that the server has handled a cancellation of these ids. `is_answered` tells whether the application has
    /// responded.
    pub fn cancel(&mut self, ids: &[String], is_answered: impl Fn(u64) -> bool) {
        let expected = self.streams.iter_mut().flat_map(|stream| &mut stream.expected);
        for response in expected.filter(|response| ids.contains(&response.id) && !response.answered) {
            response.cancelled = true;
            response.suppressed |= response.number.is_some_and(|number| !is_answered(number));
        }
    }

    /// Starts a stream.
    pub fn begin(&mut self, now: Timestamp, sent: RequestRef, expected: Vec<ExpectedResponse>, listens: bool) -> usize {
        self.streams.push(Stream {
            expected,
            listens,
            last_id: String::new(),
            number: None,
            missing: 0,
            exchange: Some(Exchange { sent, decoder: SseDecoder::new(usize::MAX), read: 0, resumes: false }),
            over: false,
            since: now,
            subscription: None,
            log: Vec::new(),
        });
        self.streams.len() - 1
    }

    /// Resumes a stream. The client stops reading its previous exchange, if there is one.
    pub fn resume(&mut self, at: usize, sent: RequestRef) {
        let stream = &mut self.streams[at];
        let decoder = SseDecoder::resuming(usize::MAX, stream.last_id.clone());
        let before = stream.exchange.replace(Exchange { sent, decoder, read: 0, resumes: true });
        self.abandoned.extend(before.map(|before| AbandonedExchange::new(before.sent, at, sent)));
    }

    /// Disconnects the client from a stream. Returns the exchange that carried it.
    pub fn disconnect(&mut self, stream: usize) -> Option<RequestRef> {
        let is_resumable = matches!(self.kind, TransportKind::Session(_));
        let stream = &mut self.streams[stream];
        let exchange = stream.exchange.take()?;
        if matches!(self.kind, TransportKind::HttpSse(_)) && !stream.listens {
            // Requests that were not accepted yet wait for capacity, and never reach the application.
            stream.expected.clear();
        }
        if stream.last_id.is_empty() || !is_resumable {
            // Without an event id the stream cannot be resumed.
            stream.mark_lost();
        }
        Some(exchange.sent)
    }

    /// Reads the response on a stream. `now` is the time at which it was sent, if it is read at once. `is_delivered`
    /// tells whether the application received the request with a number.
    ///
    /// # Errors
    /// If the response breaks a rule.
    pub fn read(
        &mut self,
        now: Option<Timestamp>,
        at: usize,
        reply: &Reply,
        is_delivered: &dyn Fn(u64) -> bool,
        events: &mut Vec<ClientEvent>,
    ) -> Result<(), Violation> {
        let kind = self.kind.clone();
        // Over HTTP+SSE all responses are sent on the one stream.
        let shared = matches!(kind, TransportKind::HttpSse(_)) && at == 0;
        let Some(exchange) = self.streams[at].exchange.take() else { return Ok(()) };
        let Some(head) = &reply.head else {
            self.streams[at].exchange = Some(exchange);
            return Ok(());
        };
        let status = head.status.as_u16();
        // A batch that cancels all its requests has no response.
        let expects_response = self.streams[at].expected.iter().any(|response| !response.cancelled);
        ensure(
            status != 202 || !expects_response || matches!(kind, TransportKind::HttpSse(_)),
            Rule::OneAnswer,
            || format!("202 for {:?}", self.streams[at].expected),
        )?;
        if status == 202 && matches!(kind, TransportKind::HttpSse(_)) {
            let accepted = std::mem::take(&mut self.streams[at].expected);
            self.streams[0].expected.extend(accepted);
        }
        if reply.header("content-type") == Some("text/event-stream") {
            if exchange.resumes {
                AbandonedExchange::accept(&mut self.abandoned, at);
            }
            return self.read_stream((now, at, shared), exchange, reply, is_delivered, events);
        }
        if !reply.ended {
            self.streams[at].exchange = Some(exchange);
            return Ok(());
        }
        if reply.aborted {
            // The client detects the aborted response, so it expects no result from it.
            let stream = &mut self.streams[at];
            stream.log.push("aborted".to_owned());
            stream.mark_lost();
            return Ok(());
        }
        self.read_complete((at, shared), &exchange, reply, is_delivered, events)
    }

    /// Reads the events of a stream, and checks what is missing when it has ended.
    fn read_stream(
        &mut self,
        (now, at, shared): (Option<Timestamp>, usize, bool),
        mut exchange: Exchange,
        reply: &Reply,
        is_delivered: &dyn Fn(u64) -> bool,
        events: &mut Vec<ClientEvent>,
    ) -> Result<(), Violation> {
        let mut chunk = &reply.body[exchange.read..];
        self.streams[at].missing += not_kept(chunk);
        exchange.read = reply.body.len();
        while let Some(event) = exchange.decoder.next_event(&mut chunk) {
            let event = event.map_err(|_| Violation::new(Rule::Streams, "an event without end"))?;
            let message = (event.kind == "message" && !event.data.is_empty()).then(|| event.data.to_vec());
            let id = exchange.decoder.last_id().to_owned();
            self.streams[at].event(now, id, message.is_some())?;
            if let Some(message) = message {
                self.message(at, shared, &message, is_delivered, events)?;
            }
        }
        // An id can arrive without a message.
        let id = exchange.decoder.last_id().to_owned();
        self.streams[at].event(now, id, false)?;
        if !reply.ended {
            self.streams[at].exchange = Some(exchange);
            return Ok(());
        }
        let stream = &mut self.streams[at];
        stream.over = stream.expected.iter().all(|response| !response.is_open()) && !stream.listens;
        let is_resumable = matches!(self.kind, TransportKind::Session(_)) && !stream.last_id.is_empty();
        if !stream.over && !is_resumable {
            ensure(self.over || stream.listens || reply.aborted, Rule::OneAnswer, || {
                format!("the stream has ended without responses to {:?}", stream.expected)
            })?;
            stream.mark_lost();
        }
        Ok(())
    }

    /// Reads a response that is no stream.
    fn read_complete(
        &mut self,
        (at, shared): (usize, bool),
        exchange: &Exchange,
        reply: &Reply,
        is_delivered: &dyn Fn(u64) -> bool,
        events: &mut Vec<ClientEvent>,
    ) -> Result<(), Violation> {
        let status = reply.head.as_ref().map_or(0, |head| head.status.as_u16());
        let is_json = reply.header("content-type") == Some("application/json");
        match serde_json::from_slice::<Value>(&reply.body) {
            Ok(Value::Array(all)) if is_json => {
                for message in all {
                    self.message(at, shared, message.to_string().as_bytes(), is_delivered, events)?;
                }
            }
            Ok(message) if is_json && message.get("id").is_some_and(|id| !id.is_null()) => {
                self.message(at, shared, message.to_string().as_bytes(), is_delivered, events)?;
            }
            _ => {}
        }
        self.over |= status == 404 && matches!(self.kind, TransportKind::Session(_));
        let stream = &mut self.streams[at];
        stream.log.push(format!("{status} {}", String::from_utf8_lossy(&reply.body)));
        if exchange.resumes {
            match status {
                400 | 404 => events.push(ClientEvent::StreamGone(at)),
                // There is no capacity at present.
                409 | 503 => {}
                _ => return Err(Violation::new(Rule::Streams, format!("{status} for a resumption"))),
            }
            AbandonedExchange::reject(&mut self.abandoned, exchange.sent, status);
            return Ok(());
        }
        if status >= 300 {
            events.push(ClientEvent::Refused(at, status));
        }
        ensure(
            status >= 300 || stream.expected.iter().all(|response| !response.is_open()) || status == 202,
            Rule::OneAnswer,
            || format!("{status}, and no answer to {:?}", stream.expected),
        )?;
        if status >= 300 {
            stream.mark_lost();
        }
        stream.over = true;
        Ok(())
    }

    fn message(
        &mut self,
        at: usize,
        shared: bool,
        text: &[u8],
        is_delivered: &dyn Fn(u64) -> bool,
        events: &mut Vec<ClientEvent>,
    ) -> Result<(), Violation> {
        let message: Value = serde_json::from_slice(text).map_err(|error| Violation::new(Rule::Streams, error))?;
        if let Value::Array(all) = &message {
            for message in all {
                self.message(at, shared, message.to_string().as_bytes(), is_delivered, events)?;
            }
            return Ok(());
        }
        if let Some(subscription) = &mut self.streams[at].subscription {
            return subscription.handle(&message);
        }
        let streams = if shared { &mut self.streams[..] } else { &mut self.streams[at..=at] };
        let mut expected = streams.iter_mut().flat_map(|stream| &mut stream.expected);
        let id = message.get("id");
        match (message["method"].as_str(), id) {
            (Some(_), Some(_)) => events.push(ClientEvent::ServerRequest(message.clone())),
            (Some("notifications/progress"), None) => {
                let params = &message["params"];
                let token = params["progressToken"].as_str().and_then(|token| token.strip_prefix('p'));
                let of =
                    expected.find(|response| Some(&*response.id) == token && response.progress && !response.answered);
                let Some(of) = of else {
                    return Err(Violation::new(Rule::Progress, format!("no open request for {message}")));
                };
                let progress = params["progress"].as_f64().unwrap_or(0.0);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are small")]
                let progress = progress as u64;
                ensure(progress > of.reported, Rule::Progress, || format!("{progress} after {}", of.reported))?;
                of.reported = progress;
            }
            (Some(_), None) => {}
            (None, _) => {
                let id = id.map(Value::to_string).unwrap_or_default();
                let number = message.get("result").map(|result| result["number"].as_u64());
                // Only the core rejects a method.
                let number = number.or_else(|| (message["error"]["code"] == -32601).then_some(None));
                // A result of the application has its number. A result of the core has none.
                let fits = |response: &ExpectedResponse| {
                    response.id == id && !response.answered && number.is_none_or(|number| number == response.number)
                };
                let fitting: Vec<_> = expected.filter(|it| fits(it)).collect();
                let is_duplicate = message["error"]["code"] == -32600;
                let is_full = message["error"]["message"] == "Too many requests in flight";
                let found = response_of(fitting, is_duplicate, is_full, is_delivered);
                let Some(response) = found else {
                    return Err(Violation::new(
                        Rule::OneAnswer,
                        format!("a response without a request on stream {at}: {message}"),
                    ));
                };
                ensure(!response.suppressed || is_duplicate, Rule::OneAnswer, || {
                    format!("a response after its cancellation: {message}")
                })?;
                ensure(message.get("result").is_some() != message.get("error").is_some(), Rule::OneAnswer, || {
                    format!("no answer: {message}")
                })?;
                response.answered = true;
            }
        }
        let mut text = message.to_string();
        text.truncate(60);
        self.streams[at].log.push(text);
        Ok(())
    }

    /// Returns the responses that are still expected.
    #[must_use]
    pub fn open_requests(&self) -> Vec<&ExpectedResponse> {
        self.streams.iter().flat_map(|stream| &stream.expected).filter(|response| response.is_open()).collect()
    }
}

impl Stream {
    /// Marks the open requests of the stream as lost.
    pub fn mark_lost(&mut self) {
        self.over = true;
        for response in self.expected.iter_mut().filter(|response| response.is_open()) {
            response.lost = true;
        }
    }

    /// Returns whether the client can resume the stream, and has a reason to.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        self.exchange.is_none() && !self.over && !self.last_id.is_empty()
    }

    /// Checks that an event has the next number.
    fn event(&mut self, now: Option<Timestamp>, id: String, is_message: bool) -> Result<(), Violation> {
        if id == self.last_id {
            return ensure(id.is_empty() || !is_message, Rule::Streams, || format!("{id} arrived twice"));
        }
        let Some((name, Ok(number))) = id.rsplit_once('-').map(|(name, number)| (name, number.parse::<u64>())) else {
            return Err(Violation::new(Rule::Streams, format!("{id} is no id of an event")));
        };
        let same = self.last_id.rsplit_once('-').is_none_or(|(before, _)| before == name);
        ensure(same || self.listens, Rule::Streams, || format!("{id} after {}: another stream", self.last_id))?;
        let next = match self.number.filter(|_| same) {
            Some(before) => before + 1,
            None => u64::from(is_message),
        };
        let lost = number.checked_sub(next).filter(|lost| *lost <= self.missing);
        ensure(lost.is_some(), Rule::Streams, || format!("{id} after {:?}: messages are lost", self.last_id))?;
        self.missing -= lost.unwrap_or(0);
        (self.number, self.last_id) = (Some(number), id);
        self.since = now.unwrap_or(self.since);
        Ok(())
    }
}

impl ExpectedResponse {
    /// Returns a request that the core responds to.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            number: None,
            progress: false,
            reported: 0,
            answered: false,
            cancelled: false,
            id_state: IdState::Unknown,
            suppressed: false,
            lost: false,
        }
    }
}

/// Returns the number of messages that the comments of a chunk report as dropped.
fn not_kept(chunk: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(chunk);
    let comments = text.lines().filter_map(|line| line.strip_prefix(": ")?.split_once(' '));
    comments
        .filter(|(_, text)| text.ends_with("not kept any more"))
        .filter_map(|(number, _)| number.parse::<u64>().ok())
        .sum()
}

/// Returns the expected response to which a received one belongs, among those that it fits.
fn response_of<'a>(
    mut fitting: Vec<&'a mut ExpectedResponse>,
    is_duplicate: bool,
    is_full: bool,
    is_delivered: &dyn Fn(u64) -> bool,
) -> Option<&'a mut ExpectedResponse> {
    if is_full {
        // The request does not reach the application. A client may read this response late, after it has
        // cancelled the request and used the id again. If both were rejected, the first response may have
        // been withdrawn.
        fitting.retain(|response| response.number.is_some_and(|number| !is_delivered(number)));
        let at = fitting.iter().position(|response| !response.cancelled);
        (!fitting.is_empty()).then(|| fitting.swap_remove(at.unwrap_or(0)))
    } else if is_duplicate {
        // A rejected request does not reach the application. Without this rule a rejection that is read late could be
        // taken for the response of an earlier request with the same id.
        fitting.retain(|response| response.number.is_none_or(|number| !is_delivered(number)));
        let last = |id_state| fitting.iter().rposition(|response| response.id_state == id_state);
        // Of several requests in separate messages, the second is rejected.
        let second = |cancelled| {
            let them = fitting.iter().enumerate();
            let mut them = them.filter(|(_, it)| it.id_state == IdState::Unknown && it.cancelled == cancelled);
            them.nth(1).map(|(at, _)| at)
        };
        let at = last(IdState::InUse).or_else(|| second(false)).or_else(|| second(true));
        at.or_else(|| last(IdState::Unknown)).map(|at| fitting.swap_remove(at))
    } else {
        // An id is free after the cancellation of its request, so the response belongs to the later
        // request.
        if fitting.iter().any(|response| !response.cancelled) {
            fitting.retain(|response| !response.cancelled);
        }
        fitting.into_iter().next()
    }
}
