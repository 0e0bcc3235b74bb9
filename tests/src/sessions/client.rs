//! One client: what it has asked, what it has read, and what it is still owed.

use std::collections::BTreeMap;

use mcp_proto::{codec::SseDecoder, rpc::Timestamp};
use serde_json::{Value, json};

use super::asking::Subscription;
use crate::{
    explore::{Fault, Rule, demand},
    web::{Asked, Reply},
};

/// What a client says in one message, or in one member of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Say {
    /// A call that the application answers.
    Call {
        /// It asks for progress.
        progress: bool,
    },
    /// A request that the core answers.
    Ping,
    /// A request of a method that the server does not have.
    Unknown,
    /// A call with the id of the latest call.
    Twin,
    /// The cancellation of the latest call but so many.
    Cancel(u64),
    /// A notification that means nothing.
    Note,
}

/// How the messages of a client travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each request stands alone (2026-07-28).
    Alone,
    /// A session with this id.
    Session(String),
    /// A session over the transport of 2024-11-05: where messages go.
    Old(String),
}

/// What the messages before a request in its batch say of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// Nothing: a request of another message may be in flight with it, and this one be refused.
    Unknown,
    /// No request is in flight with it.
    Free,
    /// A request is in flight with it, so this one is refused.
    Taken,
}

/// A request, as far as its answer goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Want {
    /// The id, as JSON.
    pub id: String,
    /// What the application repeats in its result, if it is the one that answers.
    pub number: Option<u64>,
    /// Whether it asks for progress.
    progress: bool,
    /// The latest progress.
    reported: u64,
    /// It was answered.
    pub answered: bool,
    /// Its client does not want the answer any more.
    pub cancelled: bool,
    /// What is known of its id when it is handled.
    place: Place,
    /// It was not answered when its cancellation was handled: it never will be.
    silenced: bool,
    /// Its client was told that there will be no answer, or has given up the means to get it.
    pub lost: bool,
}

impl Want {
    /// Whether an answer is still to come.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !(self.answered || self.cancelled || self.lost)
    }
}

/// What carries a stream at the moment.
#[derive(Clone, Debug)]
pub struct Carrier {
    /// The request that it answers.
    pub asked: Asked,
    decoder: SseDecoder,
    /// How much of the body was read.
    read: usize,
    /// It takes up a stream.
    resumes: bool,
}

/// A stream of messages: that of a request, or one for what the server says without being asked. It goes on over all
/// exchanges that carry it.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The requests that are to be answered on it.
    pub wants: Vec<Want>,
    /// It belongs to no request.
    pub listens: bool,
    /// The last event that was read.
    pub last_id: String,
    /// Its number in the stream.
    number: Option<u64>,
    /// So many messages were said not to be kept.
    missing: u64,
    /// What carries it. None: the client was cut off, or has hung up.
    pub carrier: Option<Carrier>,
    /// Nothing follows, as the client knows it.
    pub over: bool,
    /// The oldest message that the client may not have read was sent since then.
    pub since: Timestamp,
    /// It is that of a subscription (2026-07-28).
    pub subscription: Option<Subscription>,
    /// What was read, in order: to tell states apart.
    pub log: Vec<String>,
}

/// What a client has learned, for the code that plays it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It was told that what it came back for is gone: at which stream.
    Gone(usize),
    /// A request was refused with this status: at which stream.
    Refused(usize, u16),
    /// The server asks something.
    Asked(Value),
}

/// One client.
#[derive(Clone, Debug)]
pub struct Client {
    /// How its messages travel.
    pub kind: Kind,
    /// The revision.
    pub version: &'static str,
    /// Its streams, in the order in which they began.
    pub streams: Vec<Stream>,
    /// Exchanges that carry nothing any more as far as the client is concerned, and were not closed.
    pub dead: Vec<Asked>,
    /// Its session is over: whatever it asks is refused.
    pub over: bool,
    next_id: u64,
}

impl Client {
    /// A client that has not asked anything.
    #[must_use]
    pub fn new(kind: Kind, version: &'static str) -> Self {
        Self { kind, version, streams: Vec::new(), dead: Vec::new(), over: false, next_id: 1 }
    }

    /// The messages of a request, and what they ask for. `number` is what the application repeats.
    pub fn speak(&mut self, said: &[Say], number: &mut u64) -> (Vec<Value>, Vec<Want>) {
        let (mut messages, mut wants, mut places) = (Vec::new(), Vec::<Want>::new(), BTreeMap::new());
        for say in said {
            let id = match say {
                Say::Twin => self.next_id - 1,
                Say::Call { .. } | Say::Ping | Say::Unknown => {
                    self.next_id += 1;
                    self.next_id - 1
                }
                Say::Cancel(back) => {
                    let id = self.next_id.saturating_sub(back + 1);
                    let same = |want: &&mut Want| want.id == id.to_string();
                    // What was refused is not what a cancellation is about, unless nothing else is.
                    let is_live =
                        wants.iter_mut().filter(same).any(|want| !want.cancelled && want.place != Place::Taken);
                    let meant = wants.iter_mut().filter(same).filter(|want| !is_live || want.place != Place::Taken);
                    meant.for_each(|want| want.cancelled = true);
                    places.insert(id, Place::Free);
                    messages.push(
                        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
                    );
                    continue;
                }
                Say::Note => {
                    messages.push(json!({"jsonrpc": "2.0", "method": "notifications/vendor"}));
                    continue;
                }
            };
            let (method, mut params, own) = match say {
                Say::Ping => ("ping", json!({}), false),
                Say::Unknown => ("prompts/list", json!({}), false),
                _ => ("tools/call", json!({"name": "t"}), true),
            };
            let progress = matches!(say, Say::Call { progress: true });
            if progress {
                params["_meta"] = json!({"progressToken": format!("p{id}")});
            }
            if own {
                *number += 1;
                params["number"] = json!(*number);
            }
            messages.push(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
            let want = Want { number: own.then_some(*number), progress, ..Want::new(&id.to_string()) };
            let place = places.get(&id).copied().unwrap_or(Place::Unknown);
            if own {
                places.insert(id, Place::Taken);
            }
            wants.push(Want { place, ..want });
        }
        (messages, wants)
    }

    /// The ids that messages cancel.
    #[must_use]
    pub fn cancelled(messages: &[Value]) -> Vec<String> {
        let of = messages.iter().filter(|message| message["method"] == "notifications/cancelled");
        of.map(|message| message["params"]["requestId"].to_string()).collect()
    }

    /// A request has been handled that cancels these. `is_answered` says whether the application has answered a request.
    pub fn cancel(&mut self, ids: &[String], is_answered: impl Fn(u64) -> bool) {
        let wants = self.streams.iter_mut().flat_map(|stream| &mut stream.wants);
        for want in wants.filter(|want| ids.contains(&want.id) && !want.answered) {
            want.cancelled = true;
            want.silenced |= want.number.is_some_and(|number| !is_answered(number));
        }
    }

    /// A stream begins.
    pub fn begin(&mut self, now: Timestamp, asked: Asked, wants: Vec<Want>, listens: bool) -> usize {
        self.streams.push(Stream {
            wants,
            listens,
            last_id: String::new(),
            number: None,
            missing: 0,
            carrier: Some(Carrier { asked, decoder: SseDecoder::new(usize::MAX), read: 0, resumes: false }),
            over: false,
            since: now,
            subscription: None,
            log: Vec::new(),
        });
        self.streams.len() - 1
    }

    /// A stream is taken up again. What carried it before, if anything does, is not read any more.
    pub fn resume(&mut self, stream: usize, asked: Asked) {
        let stream = &mut self.streams[stream];
        let decoder = SseDecoder::resuming(usize::MAX, stream.last_id.clone());
        let before = stream.carrier.replace(Carrier { asked, decoder, read: 0, resumes: true });
        self.dead.extend(before.map(|before| before.asked));
    }

    /// The client hangs up on what carries a stream: what that was.
    pub fn hang_up(&mut self, stream: usize) -> Option<Asked> {
        let lasts = matches!(self.kind, Kind::Session(_));
        let stream = &mut self.streams[stream];
        let carrier = stream.carrier.take()?;
        if stream.last_id.is_empty() || !lasts {
            // There is nothing to come back with.
            stream.lose();
        }
        Some(carrier.asked)
    }

    /// Reads what has come on a stream. `now` is when that was sent, if it is read as soon as it is. `is_heard` says
    /// whether the application has been asked for the result with a number.
    ///
    /// # Errors
    /// If that breaks a rule.
    pub fn read(
        &mut self,
        now: Option<Timestamp>,
        at: usize,
        reply: &Reply,
        is_heard: &dyn Fn(u64) -> bool,
        news: &mut Vec<News>,
    ) -> Result<(), Fault> {
        let (kind, over) = (self.kind.clone(), self.over);
        // Over the old transport, whatever is answered is answered on the one stream.
        let shared = matches!(kind, Kind::Old(_)) && at == 0;
        let Some(mut carrier) = self.streams[at].carrier.take() else { return Ok(()) };
        let Some(head) = &reply.head else {
            self.streams[at].carrier = Some(carrier);
            return Ok(());
        };
        let status = head.status.as_u16();
        // Of a batch that cancels all that it asks, nothing is left to answer.
        let asks = self.streams[at].wants.iter().any(|want| !want.cancelled);
        demand(status != 202 || !asks || matches!(kind, Kind::Old(_)), Rule::OneAnswer, || {
            format!("202 for {:?}", self.streams[at].wants)
        })?;
        if reply.header("content-type") == Some("text/event-stream") {
            let mut chunk = &reply.body[carrier.read..];
            self.streams[at].missing += not_kept(chunk);
            carrier.read = reply.body.len();
            while let Some(event) = carrier.decoder.next_event(&mut chunk) {
                let event = event.map_err(|_| Fault::new(Rule::Streams, "an event without end"))?;
                let message = (event.kind == "message" && !event.data.is_empty()).then(|| event.data.to_vec());
                let id = carrier.decoder.last_id().to_owned();
                self.streams[at].event(now, id, message.is_some())?;
                if let Some(message) = message {
                    self.message(at, shared, &message, is_heard, news)?;
                }
            }
            // An id may come without a message.
            let id = carrier.decoder.last_id().to_owned();
            self.streams[at].event(now, id, false)?;
            if !reply.ended {
                self.streams[at].carrier = Some(carrier);
                return Ok(());
            }
            let stream = &mut self.streams[at];
            stream.over = stream.wants.iter().all(|want| !want.is_open()) && !stream.listens;
            let lasts = matches!(kind, Kind::Session(_)) && !stream.last_id.is_empty();
            if !stream.over && !lasts {
                demand(over || stream.listens || reply.aborted, Rule::OneAnswer, || {
                    format!("the stream has ended, and there is no answer to {:?}", stream.wants)
                })?;
                stream.lose();
            }
            return Ok(());
        }
        if !reply.ended {
            self.streams[at].carrier = Some(carrier);
            return Ok(());
        }
        if reply.aborted {
            // The client sees a broken response, and knows that there is no answer in it.
            let stream = &mut self.streams[at];
            stream.log.push("aborted".to_owned());
            stream.lose();
            return Ok(());
        }
        let is_json = reply.header("content-type") == Some("application/json");
        match serde_json::from_slice::<Value>(&reply.body) {
            Ok(Value::Array(all)) if is_json => {
                for message in all {
                    self.message(at, shared, message.to_string().as_bytes(), is_heard, news)?;
                }
            }
            Ok(message) if is_json && message.get("id").is_some_and(|id| !id.is_null()) => {
                self.message(at, shared, message.to_string().as_bytes(), is_heard, news)?;
            }
            _ => {}
        }
        self.over |= status == 404 && matches!(kind, Kind::Session(_));
        let stream = &mut self.streams[at];
        stream.log.push(format!("{status} {}", String::from_utf8_lossy(&reply.body)));
        if carrier.resumes {
            match status {
                400 | 404 => news.push(News::Gone(at)),
                // There is no room for it now.
                409 | 503 => {}
                _ => return Err(Fault::new(Rule::Streams, format!("{status} for what was to be taken up"))),
            }
            return Ok(());
        }
        if status >= 300 {
            news.push(News::Refused(at, status));
        }
        demand(
            status >= 300 || stream.wants.iter().all(|want| !want.is_open()) || status == 202,
            Rule::OneAnswer,
            || format!("{status}, and no answer to {:?}", stream.wants),
        )?;
        if status >= 300 {
            stream.lose();
        }
        stream.over = true;
        Ok(())
    }

    fn message(
        &mut self,
        at: usize,
        shared: bool,
        text: &[u8],
        is_heard: &dyn Fn(u64) -> bool,
        news: &mut Vec<News>,
    ) -> Result<(), Fault> {
        let message: Value = serde_json::from_slice(text).map_err(|error| Fault::new(Rule::Streams, error))?;
        if let Value::Array(all) = &message {
            for message in all {
                self.message(at, shared, message.to_string().as_bytes(), is_heard, news)?;
            }
            return Ok(());
        }
        if let Some(subscription) = &mut self.streams[at].subscription {
            return subscription.hear(&message);
        }
        let streams = if shared { &mut self.streams[..] } else { &mut self.streams[at..=at] };
        let mut wants = streams.iter_mut().flat_map(|stream| &mut stream.wants);
        let id = message.get("id");
        match (message["method"].as_str(), id) {
            (Some(_), Some(_)) => news.push(News::Asked(message.clone())),
            (Some("notifications/progress"), None) => {
                let params = &message["params"];
                let token = params["progressToken"].as_str().and_then(|token| token.strip_prefix('p'));
                let of = wants.find(|want| Some(&*want.id) == token && want.progress && !want.answered);
                let Some(of) = of else {
                    return Err(Fault::new(Rule::Progress, format!("no request waits for {message}")));
                };
                let progress = params["progress"].as_f64().unwrap_or(0.0);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are small")]
                let progress = progress as u64;
                demand(progress > of.reported, Rule::Progress, || format!("{progress} behind {}", of.reported))?;
                of.reported = progress;
            }
            (Some(_), None) => {}
            (None, _) => {
                let id = id.map(Value::to_string).unwrap_or_default();
                let number = message.get("result").map(|result| result["number"].as_u64());
                // Only the core refuses a method.
                let number = number.or_else(|| (message["error"]["code"] == -32601).then_some(None));
                // A result of the application has its number, and a result of the core has none.
                let fits =
                    |want: &Want| want.id == id && !want.answered && number.is_none_or(|number| number == want.number);
                let mut fitting: Vec<_> = wants.filter(|it| fits(it)).collect();
                let is_twin = message["error"]["code"] == -32600;
                let is_full = message["error"]["message"] == "Too many requests in flight";
                let found = if is_full {
                    // The application never hears of the request. A client may read that late: when it has cancelled the
                    // request and used the id again. If both were refused, the first refusal may have been taken back.
                    fitting.retain(|want| want.number.is_some_and(|number| !is_heard(number)));
                    let at = fitting.iter().position(|want| !want.cancelled);
                    (!fitting.is_empty()).then(|| fitting.swap_remove(at.unwrap_or(0)))
                } else if is_twin {
                    let last = |place| fitting.iter().rposition(|want| want.place == place);
                    // Of several that came in messages of their own, the second is refused.
                    let second = |cancelled| {
                        let them = fitting.iter().enumerate();
                        let mut them = them.filter(|(_, it)| it.place == Place::Unknown && it.cancelled == cancelled);
                        them.nth(1).map(|(at, _)| at)
                    };
                    let at = last(Place::Taken).or_else(|| second(false)).or_else(|| second(true));
                    at.or_else(|| last(Place::Unknown)).map(|at| fitting.swap_remove(at))
                } else {
                    // An id is free again once its request was cancelled: the answer is to the one that came after that.
                    if fitting.iter().any(|want| !want.cancelled) {
                        fitting.retain(|want| !want.cancelled);
                    }
                    fitting.into_iter().next()
                };
                let Some(want) = found else {
                    return Err(Fault::new(Rule::OneAnswer, format!("an answer to nothing on stream {at}: {message}")));
                };
                demand(!want.silenced || is_twin, Rule::OneAnswer, || {
                    format!("an answer behind its cancellation: {message}")
                })?;
                demand(message.get("result").is_some() != message.get("error").is_some(), Rule::OneAnswer, || {
                    format!("no answer: {message}")
                })?;
                want.answered = true;
            }
        }
        let mut text = message.to_string();
        text.truncate(60);
        self.streams[at].log.push(text);
        Ok(())
    }

    /// Whether anything is still to be read, or to come.
    #[must_use]
    pub fn open(&self) -> Vec<&Want> {
        self.streams.iter().flat_map(|stream| &stream.wants).filter(|want| want.is_open()).collect()
    }
}

impl Stream {
    /// What is open on it will not be answered.
    pub fn lose(&mut self) {
        self.over = true;
        for want in self.wants.iter_mut().filter(|want| want.is_open()) {
            want.lost = true;
        }
    }

    /// Whether its client can come back to it, and has a reason to.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.carrier.is_none() && !self.over && !self.last_id.is_empty()
    }

    /// An event has come: its number is the next one.
    fn event(&mut self, now: Option<Timestamp>, id: String, is_message: bool) -> Result<(), Fault> {
        if id == self.last_id {
            return demand(id.is_empty() || !is_message, Rule::Streams, || format!("{id} has come twice"));
        }
        let Some((name, Ok(number))) = id.rsplit_once('-').map(|(name, number)| (name, number.parse::<u64>())) else {
            return Err(Fault::new(Rule::Streams, format!("{id} is no id of an event")));
        };
        let same = self.last_id.rsplit_once('-').is_none_or(|(before, _)| before == name);
        demand(same || self.listens, Rule::Streams, || format!("{id} behind {}: another stream", self.last_id))?;
        let next = match self.number.filter(|_| same) {
            Some(before) => before + 1,
            None => u64::from(is_message),
        };
        let lost = number.checked_sub(next).filter(|lost| *lost <= self.missing);
        demand(lost.is_some(), Rule::Streams, || format!("{id} behind {:?}: something is lost", self.last_id))?;
        self.missing -= lost.unwrap_or(0);
        (self.number, self.last_id) = (Some(number), id);
        self.since = now.unwrap_or(self.since);
        Ok(())
    }
}

impl Want {
    /// A request that the core answers.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            number: None,
            progress: false,
            reported: 0,
            answered: false,
            cancelled: false,
            place: Place::Unknown,
            silenced: false,
            lost: false,
        }
    }
}

/// How many messages are said not to be kept any more.
fn not_kept(chunk: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(chunk);
    let comments = text.lines().filter_map(|line| line.strip_prefix(": ")?.split_once(' '));
    comments
        .filter(|(_, said)| said.ends_with("not kept any more"))
        .filter_map(|(number, _)| number.parse::<u64>().ok())
        .sum()
}
