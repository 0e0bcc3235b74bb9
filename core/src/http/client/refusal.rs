//! Handling of HTTP responses that carry no JSON-RPC response: redirects, refusals, and the fallback to the old
//! transport after some of them.

use alloc::{boxed::Box, string::String, vec::Vec};

use core::time::Duration;

use http::{StatusCode, header, response::Parts};

use super::{
    Client, ExchangeId,
    exchange::{Exchange, PostKind, PostRequest, Purpose, Rejection, ResumeInfo, error_of},
    machine::{SendGate, Transport},
    uri::{resolve, same_origin},
};
use crate::{
    codec::Frame,
    connection::{CloseReason, Event, Failure},
    http::names::single,
    protocol::{Era, ProtocolVersion},
    wire::{RequestId, encode},
};

impl Client {
    pub(super) fn redirected(&mut self, id: ExchangeId, status: StatusCode, location: &str) {
        let Some(exchange) = self.exchanges.get(id) else { return };
        let same_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let redirects = exchange.redirects + 1;
        let target = resolve(exchange.address(&self.options.url), location)
            .filter(|target| same_method && same_origin(target, &self.options.url))
            .filter(|_| redirects <= self.options.limits.redirects);
        match target {
            Some(target) => {
                let (until, sent_in) = (exchange.until, exchange.sent_in.clone());
                let purpose = self.take_purpose(id).and_then(|purpose| self.repeatable(sent_in.as_ref(), purpose));
                let Some(purpose) = purpose else { return };
                let next = self.start_again(id, until, purpose, Some(target), redirects);
                if let Some(exchange) = self.exchanges.get_mut(next) {
                    exchange.redirected_from = Some(id);
                }
            }
            None => {
                self.no_server_stream |= matches!(exchange.purpose, Purpose::Listen(_));
                if self.gate == SendGate::Initialized(id) {
                    self.open_gate();
                }
                self.fail(id, Failure::Redirected(shown(location)));
            }
        }
    }

    /// Handles the refusal of a request: tries the old transport, or reports the failure of the message.
    pub(super) fn refused(&mut self, purpose: Purpose, refused: Rejection) {
        let post = match purpose {
            Purpose::Post(post) => post,
            Purpose::Old(Some(why)) => return self.refused(Purpose::Post(why.post), why.refused),
            // There were no credentials for the stream. The reason may be temporary.
            purpose => return self.come_back(purpose),
        };
        let newest = self.conn.settings().versions.iter().rev().find(|version| version.era() == Era::Legacy);
        let is_old = newest.is_some_and(|version| ProtocolVersion::means_http_sse(version, refused.status));
        if post.kind == PostKind::Initialize
            && is_old
            && self.options.http_sse
            && self.gate == SendGate::Open
            && matches!(self.transport, Transport::Streamable)
        {
            self.gate = SendGate::Handshake;
            self.start(Purpose::Old(Some(Box::new(ResumeInfo { post, refused, again: false }))), None, 0);
            return;
        }
        if post.kind == PostKind::Initialize && self.gate == SendGate::Handshake {
            self.gate = SendGate::Open;
        }
        if post.kind == PostKind::Initialized {
            self.open_gate();
        }
        self.refused_finally(post, refused);
    }

    fn refused_finally(&mut self, post: PostRequest, refused: Rejection) {
        let depth = self.conn.settings().limits.json_depth;
        if self.refresh(&post, &refused.body) {
            return;
        }
        let says_who = matches!(refused.status, 401 | 403);
        match (post.request, error_of(&refused.body, depth).filter(|_| !says_who)) {
            (Some(request), Some(error)) => {
                let mut frame = Vec::new();
                encode::error(&mut frame, Ok(&RequestId::from(request.id)), &error);
                let event = self.conn.handle_frame(self.clock, Frame::new(&frame)).map(Event::into_owned);
                self.events.extend(event);
                self.refreshed(request.id, &[]);
            }
            (Some(request), None) => {
                let Rejection { status, challenges, retry_after, body } = refused;
                let body = String::from_utf8_lossy(&body).into_owned();
                if self.conn.awaits(request.id) {
                    self.conn.fail(request.call, Failure::Status { status, challenges, retry_after, body });
                    self.refreshed(request.id, &[]);
                }
            }
            (None, Some(error)) => self.events.push_back(Event::PeerError(error)),
            (None, None) => {}
        }
    }

    // ---- the transport of 2024-11-05 ----

    /// Handles the first event of the old transport: the address for messages.
    pub(super) fn endpoint(&mut self, id: ExchangeId, data: &[u8]) {
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        let reference = String::from_utf8_lossy(data);
        let server = &self.options.url;
        let target = resolve(exchange.address(server), &reference).filter(|target| same_origin(target, server));
        let Some(target) = target else {
            // Messages would be sent to another origin.
            let failure = Failure::Redirected(shown(&reference));
            return self.end(CloseReason::Failed(failure));
        };
        self.transport = Transport::Old(target);
        if let Purpose::Old(why) = &mut exchange.purpose
            && let Some(why) = why.take()
        {
            self.gate = SendGate::Open;
            self.post(why.post);
        }
    }

    /// Gives up the old transport, since the stream does not belong to it. The earlier refusal remains the result.
    pub(super) fn no_http_sse(&mut self, id: ExchangeId) {
        if let Some(Exchange { purpose: Purpose::Old(Some(why)), .. }) = self.abort(id) {
            self.refused(Purpose::Post(why.post), why.refused);
        }
    }
}

/// Returns the beginning of a reference: the whole may be as long as a message.
fn shown(reference: &str) -> String {
    reference.chars().take(MOST_SHOWN).collect()
}

/// The maximum number of characters of a refused reference in an error. Usable addresses are shorter.
const MOST_SHOWN: usize = 8192;

/// The maximum number of bytes of the challenges of one response.
const MOST_CHALLENGED: usize = 64 << 10;

/// Returns the beginning of a refusal: the head without the body. Challenges beyond the limit are dropped.
pub(super) fn refused(head: &Parts) -> Rejection {
    let mut room = MOST_CHALLENGED;
    let challenges = head.headers.get_all(header::WWW_AUTHENTICATE).iter();
    let challenges = challenges.map(|value| String::from_utf8_lossy(value.as_bytes()));
    let challenges = challenges.map_while(|challenge| {
        room = room.checked_sub(challenge.len())?;
        Some(challenge.into_owned())
    });
    let challenges = challenges.collect();
    Rejection { status: head.status.as_u16(), challenges, retry_after: retry_after(head), body: Vec::new() }
}

/// Returns the delay in seconds that the server requests (RFC 9110, section 10.2.3). A date is ignored, since the core
/// has no calendar.
fn retry_after(head: &Parts) -> Option<Duration> {
    let value = single(&head.headers, &header::RETRY_AFTER).ok()??;
    let digits = value.to_str().ok()?.trim_matches([' ', '\t']);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Duration::from_secs(digits.parse().unwrap_or(u64::MAX)))
}
