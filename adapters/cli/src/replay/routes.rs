//! Finds the session of each exchange over HTTP, and what is known of the sessions before they are played.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    io::BufRead,
};

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{DiscoverResult, InitializeParams, InitializeResult, ServerCapabilities},
    wire::{Message, RequestId},
};

use super::roles::{DEPTH, Setup};
use crate::{
    error::Failed,
    messages::{ExchangeEnd, Exchanges, HttpItem, MAX_OPEN, RequestHead, is_modern},
    record::{NO_NAME, Origin},
};

/// The most sessions that are told apart, and the most addresses and ids of sessions that are known.
const MAX_SESSIONS: u32 = 4096;

/// The longest id of a session, address and target that is known, in bytes.
const MAX_NAME: usize = 8 << 10;

/// The most exchanges that are known to be refused. Records with more of them are not judged.
const MAX_REFUSED: usize = 1 << 20;

/// Where an exchange belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Route {
    /// A session of the legacy era, by its number.
    Session(u32),
    /// An exchange of 2026-07-28, which belongs to no session.
    Modern(u64),
    /// No exchange of the protocol, or one of which too little is known.
    Other,
}

/// The facts that are known of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) setup: Setup,
    /// Whether the record has the handshake, and no other session could be meant.
    pub(super) is_certain: bool,
    /// Whether a message is not in the record, or may not have reached the server.
    pub(super) has_lost: bool,
    opening: Option<RequestId>,
}

/// Finds the sessions of exchanges, in the order of a record.
#[derive(Debug, Default)]
pub(super) struct Router {
    /// The path of the server.
    path: String,
    by_id: HashMap<String, u32>,
    by_address: HashMap<String, u32>,
    /// The sessions of HTTP+SSE.
    with_address: HashSet<u32>,
    /// The session of requests without an id.
    without_id: Option<u32>,
    /// The sessions that the server opened without an id.
    opened_without_id: BTreeSet<u32>,
    last: u32,
    /// The exchanges that are open.
    exchanges: BTreeMap<u64, Open>,
}

/// An exchange that is open.
#[derive(Debug)]
struct Open {
    route: Route,
    /// Whether its request opens a session.
    opens: bool,
    /// The path and the query of a GET, which the address of an `endpoint` event may be relative to.
    base: Option<String>,
}

/// Returns the path of a URL.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// Returns the address of an `endpoint` event as the target of a request. `base` is the target of the stream.
fn resolve(base: &str, address: &str) -> String {
    if address.contains("://") {
        return path_of(address).to_owned();
    }
    if let Some(rest) = address.strip_prefix("//") {
        return path_of(rest).to_owned();
    }
    if address.starts_with('/') {
        return address.to_owned();
    }
    let path = base.split('?').next().unwrap_or_default();
    if address.starts_with('?') {
        return format!("{path}{address}");
    }
    let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
    format!("{folder}{address}")
}

/// Returns whether an id or an address has the name of all values beyond those that have a name of their own. It may be
/// that of any session. A text that is too long is none that is known.
fn is_unnamed(text: &str) -> bool {
    text.len() > MAX_NAME || text.split(['=', '&', '?']).any(|part| part == NO_NAME)
}

/// Returns the message in a body.
pub(super) fn message(body: &[u8]) -> Option<Message<'_>> {
    str::from_utf8(body).ok().and_then(|text| Message::parse(text, DEPTH).ok())
}

/// Returns whether a request is one of 2026-07-28, by its header or by its body.
pub(super) fn is_of_2026(head: &RequestHead, message: Option<&Message<'_>>) -> bool {
    let named = head.fields.get("mcp-protocol-version").and_then(ProtocolVersion::parse);
    named == Some(ProtocolVersion::V2026_07_28)
        || matches!(message, Some(Message::Request { meta, .. }) if is_modern(meta.as_ref()))
}

impl Router {
    pub(super) fn new(server: &str) -> Self {
        Self { path: path_of(server).to_owned(), ..Self::default() }
    }

    /// Returns where an exchange belongs.
    pub(super) fn route(&self, exchange: u64) -> Route {
        self.exchanges.get(&exchange).map_or(Route::Other, |open| open.route)
    }

    /// Returns whether a session is one of HTTP+SSE, for which the rules of Streamable HTTP do not hold.
    pub(super) fn is_sse(&self, number: u32) -> bool {
        self.with_address.contains(&number)
    }

    fn begin_session(&mut self) -> Route {
        if self.last == MAX_SESSIONS {
            return Route::Other;
        }
        self.last += 1;
        Route::Session(self.last)
    }

    /// Takes the next item. It is to be called for each of them.
    pub(super) fn take(&mut self, item: &HttpItem) {
        match item {
            HttpItem::Request { exchange, head, body, .. } => {
                let (route, opens) = self.of_request(*exchange, head, body.as_deref());
                let is_base = head.method == "GET" && head.target.len() <= MAX_NAME;
                let base = is_base.then(|| head.target.clone());
                self.exchanges.insert(*exchange, Open { route, opens, base });
                // As many as the reader has.
                while self.exchanges.len() > MAX_OPEN {
                    self.exchanges.pop_first();
                }
            }
            HttpItem::Response { exchange, response, .. } => {
                let Some(&Open { route: Route::Session(number), opens: true, .. }) = self.exchanges.get(exchange)
                else {
                    return;
                };
                if !(200..300).contains(&response.status) {
                    return;
                }
                match response.fields.get("mcp-session-id") {
                    Some(id) => {
                        if !is_unnamed(id) {
                            self.by_id.insert(id.to_owned(), number);
                        }
                        if self.without_id == Some(number) {
                            self.without_id = None;
                        }
                    }
                    None => drop(self.opened_without_id.insert(number)),
                }
            }
            HttpItem::Endpoint { exchange, address, .. } => {
                let base = self.exchanges.get(exchange).and_then(|open| open.base.as_deref());
                let target = resolve(base.unwrap_or(&self.path), address);
                if is_unnamed(&target) {
                    return;
                }
                let route = self.begin_session();
                if let Route::Session(number) = route {
                    self.by_address.insert(target, number);
                    self.with_address.insert(number);
                    self.exchanges.insert(*exchange, Open { route, opens: false, base: None });
                }
            }
            HttpItem::Message { .. } | HttpItem::End { .. } | HttpItem::Event { .. } => {}
        }
    }

    /// Forgets an exchange that has ended.
    pub(super) fn end(&mut self, exchange: u64) {
        self.exchanges.remove(&exchange);
    }

    fn of_request(&mut self, exchange: u64, head: &RequestHead, body: Option<&[u8]>) -> (Route, bool) {
        let message = body.and_then(message);
        let other = (Route::Other, false);
        if head.method == "POST"
            && let Some(number) = self.by_address.get(&head.target)
        {
            return (Route::Session(*number), false);
        }
        if is_unnamed(&head.target) || head.fields.get("mcp-session-id").is_some_and(is_unnamed) {
            return other;
        }
        let is_here = head.path() == self.path;
        let is_message = head.method == "POST" && (is_here || message.is_some());
        if is_message && is_of_2026(head, message.as_ref()) {
            return (Route::Modern(exchange), false);
        }
        let opens = matches!(&message, Some(Message::Request { method, .. }) if method == "initialize");
        match head.fields.get("mcp-session-id") {
            Some(id) if !opens => match self.by_id.get(id) {
                Some(number) => (Route::Session(*number), false),
                // The record has begun within the session.
                None if is_message => {
                    let route = self.begin_session();
                    if let Route::Session(number) = route {
                        self.by_id.insert(id.to_owned(), number);
                    }
                    (route, false)
                }
                None => other,
            },
            _ if is_message && opens => {
                let route = self.begin_session();
                if let Route::Session(number) = route {
                    self.without_id = Some(number);
                }
                (route, true)
            }
            _ if is_message => (self.without_id.map_or(Route::Other, Route::Session), false),
            _ => other,
        }
    }
}

/// The facts of a record that are collected before it is played.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    sessions: BTreeMap<u32, Known>,
    /// The exchanges whose requests the server did not accept.
    refused: HashSet<u64>,
    /// Whether the server answered requests of 2026-07-28.
    pub(super) is_modern: bool,
    /// The capabilities that the server told in that revision.
    pub(super) server: Option<ServerCapabilities>,
}

impl Survey {
    /// Reads a whole record.
    pub(super) fn read<R: BufRead>(mut exchanges: Exchanges<R>) -> Result<Self, Failed> {
        let mut router = Router::new(&exchanges.reader().header().server.clone());
        let mut survey = Self::default();
        let (mut without_id, mut discoveries, mut accepted) = (BTreeSet::new(), HashSet::new(), HashSet::new());
        while let Some(item) = exchanges.next_item()? {
            router.take(&item);
            match &item {
                HttpItem::Request { exchange, body: None, .. } => survey.lose(router.route(*exchange)),
                HttpItem::Request { exchange, body: Some(body), .. } => {
                    let Some(Message::Request { id, method, params, .. }) = message(body) else { continue };
                    match router.route(*exchange) {
                        Route::Session(number) if method == "initialize" => {
                            let params = params.and_then(|params| params.decode::<InitializeParams>().ok());
                            let known = survey.sessions.entry(number).or_default();
                            known.setup.client = params.map(|params| params.capabilities);
                            known.opening = Some(id);
                        }
                        Route::Session(number) if router.without_id == Some(number) => {
                            without_id.insert(number);
                        }
                        Route::Modern(_) if method == "server/discover" => {
                            discoveries.insert(*exchange);
                        }
                        _ => {}
                    }
                }
                HttpItem::Response { exchange, response, .. } => {
                    if (200..300).contains(&response.status) {
                        accepted.insert(*exchange);
                    } else {
                        survey.refuse(*exchange);
                    }
                }
                HttpItem::Message { exchange, bytes, .. } => {
                    survey.answered(router.route(*exchange), bytes, discoveries.contains(exchange));
                }
                HttpItem::End { exchange, end, is_lost, .. } => {
                    discoveries.remove(exchange);
                    let was_accepted = accepted.remove(exchange);
                    let route = router.route(*exchange);
                    match end {
                        ExchangeEnd::Answered(..) => survey.refuse(*exchange),
                        ExchangeEnd::Failed(Origin::Server, _) if !was_accepted => survey.lose(route),
                        ExchangeEnd::GivenUp => survey.lose(route),
                        _ if *is_lost => survey.lose(route),
                        _ => {}
                    }
                    router.end(*exchange);
                }
                HttpItem::Endpoint { .. } | HttpItem::Event { .. } => {}
            }
        }
        // Several clients without ids of sessions cannot be told apart.
        without_id.append(&mut router.opened_without_id);
        if without_id.len() > 1 {
            for number in without_id {
                survey.sessions.entry(number).or_default().is_certain = false;
            }
        }
        Ok(survey)
    }

    /// Takes it that a message of a session is not in the record, or did not reach the server.
    fn lose(&mut self, route: Route) {
        if let Route::Session(number) = route {
            self.sessions.entry(number).or_default().has_lost = true;
        }
    }

    fn refuse(&mut self, exchange: u64) {
        if self.refused.len() < MAX_REFUSED {
            self.refused.insert(exchange);
        }
    }

    /// Reads what the result of a request tells.
    fn answered(&mut self, route: Route, body: &[u8], is_discovery: bool) {
        let Some(Message::Response { id, result }) = message(body) else { return };
        match route {
            Route::Session(number) => {
                let Some(known) = self.sessions.get_mut(&number) else { return };
                if known.opening.as_ref() == Some(&id)
                    && let Ok(result) = result.decode::<InitializeResult>()
                {
                    known.opening = None;
                    known.is_certain = true;
                    known.setup.version = ProtocolVersion::parse(&result.protocol_version);
                    known.setup.server = Some(result.capabilities);
                }
            }
            Route::Modern(_) => {
                self.is_modern = true;
                if is_discovery && let Ok(result) = result.decode::<DiscoverResult>() {
                    self.server = Some(result.capabilities);
                }
            }
            Route::Other => {}
        }
    }

    /// Returns what is known of a session.
    pub(super) fn session(&self, number: u32) -> Known {
        self.sessions.get(&number).cloned().unwrap_or_default()
    }

    /// Returns whether the server did not accept the request of an exchange.
    pub(super) fn is_refused(&self, exchange: u64) -> bool {
        self.refused.contains(&exchange) || self.refused.len() == MAX_REFUSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_targets() {
        for (address, target) in [
            ("/m?a=1", "/m?a=1"),
            ("http://a:1/m?a=1", "/m?a=1"),
            ("https://a", "/"),
            ("m?a=1", "/x/m?a=1"),
            ("//a/m", "/m"),
            ("?a=1", "/x/sse?a=1"),
        ] {
            assert_eq!(resolve("/x/sse?b=/c", address), target);
        }
        assert_eq!((path_of("http://a/b/c"), path_of("http://a")), ("/b/c", "/"));
    }
}
