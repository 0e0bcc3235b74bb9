//! One HTTP request and its response.

use alloc::{boxed::Box, vec::Vec};

use http::{HeaderValue, Response, header, response::Parts};

use crate::{
    codec::SseText,
    http::{
        Deadline, HttpResponse, Wake,
        names::{ACCEL_BUFFERING, EVENTS},
    },
    rpc::Timestamp,
};

/// The id of one HTTP request to a session. It is never reused within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(pub(super) u64);

/// While fewer bytes than this wait on an exchange, the next message of a replay is written to it.
pub(super) const FEED: usize = 64 << 10;

/// The event of a message. Its kind is named because some clients require it.
pub(super) const MESSAGE: SseText<'_> = SseText { kind: Some("message"), id: None, retry: None, data: None };

/// The usual number of bytes of an event besides its data.
const FIELDS: usize = 64;

/// The initial capacity of a stream: most streams have two short messages.
const FIRST: usize = 512;

/// The maximum number of bytes of a stream that one poll returns. The driver holds them until they are written. Only
/// bytes that were not polled yet are counted here.
const PIECE: usize = 32 << 10;

/// The next part of a response.
#[derive(Debug)]
pub enum Output {
    /// The status and the headers: the first output.
    Head(Parts),
    /// The number of bytes of the body that were appended.
    Data(usize),
    /// The body is complete: the last output.
    End,
    /// The body breaks off because the client has not read it for too long: the last output, after the head. A driver
    /// closes the connection (HTTP/1.1) or resets the stream (HTTP/2) and does not end the body, so that the client
    /// does not mistake its beginning for a complete response.
    Abort,
}

/// The state of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Nothing was sent. At this time the response becomes a stream.
    Open {
        until: Timestamp,
    },
    Stream,
    Whole,
}

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) form: Form,
    /// The stream of the session that belongs to the exchange.
    pub(super) stream: Option<u64>,
    /// Whether the exchange opens the session: its response carries the session id.
    pub(super) opens: bool,
    head: Option<Parts>,
    body: Vec<u8>,
    /// The number of bytes of the body that were polled.
    taken: usize,
    ended: bool,
    /// Whether the exchange ends with [`Output::Abort`].
    aborted: bool,
    /// When a comment is due on a stream on which nothing is written.
    pub(super) quiet: Option<Timestamp>,
    /// Whether the exchange is in the queue of exchanges with new output.
    pub(super) announced: bool,
    /// When its authorization expires: it ends then if it is a stream that may end early.
    pub(super) authorized_until: Option<Timestamp>,
    /// The last message that was replayed. Later messages are kept, and written once there is room for them.
    pub(super) behind: Option<u64>,
    /// The [watch](super::pressure) in which the client last read something, or in which nothing waited.
    pub(super) read_in: u32,
}

impl Exchange {
    pub(super) const fn new(until: Timestamp, authorized_until: Option<Timestamp>) -> Self {
        Self {
            form: Form::Open { until },
            stream: None,
            opens: false,
            head: None,
            body: Vec::new(),
            taken: 0,
            ended: false,
            aborted: false,
            quiet: None,
            announced: false,
            authorized_until,
            behind: None,
            read_in: 0,
        }
    }

    /// Creates an exchange in the memory of an earlier one, if there is such memory.
    pub(super) fn in_memory(
        memory: Option<Box<Self>>,
        until: Timestamp,
        authorized_until: Option<Timestamp>,
    ) -> Box<Self> {
        let new = Self::new(until, authorized_until);
        let Some(mut exchange) = memory else { return Box::new(new) };
        *exchange = new;
        exchange
    }

    /// Sets a whole response.
    pub(super) fn answer(&mut self, answer: HttpResponse) {
        let (head, body) = answer.into_parts();
        (self.form, self.head, self.body, self.ended) = (Form::Whole, Some(head), body, true);
    }

    /// Begins a response that is a stream of events.
    pub(super) fn stream(&mut self) {
        let mut head = Response::new(()).into_parts().0;
        let set = |headers: &mut http::HeaderMap, name, value| headers.insert(name, HeaderValue::from_static(value));
        set(&mut head.headers, header::CONTENT_TYPE, EVENTS);
        // Proxies must not cache, collect or transform the stream.
        set(&mut head.headers, header::CACHE_CONTROL, "no-cache, no-transform");
        set(&mut head.headers, ACCEL_BUFFERING, "no");
        (self.form, self.head) = (Form::Stream, Some(head));
        self.body.reserve(FIRST);
    }

    /// Writes an event, and returns the number of its bytes.
    pub(super) fn event(&mut self, event: &SseText<'_>) -> usize {
        self.tidy();
        let before = self.body.len();
        self.body.reserve(event.data.map_or(0, <[u8]>::len) + FIELDS);
        event.write(&mut self.body);
        self.body.len() - before
    }

    /// Frees the space of bytes that were polled, at a constant cost for each byte. The space of polled bytes is never
    /// more than that of waiting bytes, and the capacity of the body at most four times the waiting bytes, or 64 KiB.
    fn tidy(&mut self) {
        if self.taken <= self.waiting() {
            return;
        }
        self.body.drain(..self.taken);
        self.taken = 0;
        // More bytes were polled than wait, so the capacity was more than twice as large as the rest.
        self.body.shrink_to(2 * PIECE);
    }

    /// Writes a comment, unless earlier output still waits. Returns the number of bytes.
    pub(super) fn comment(&mut self) -> usize {
        let before = self.body.len();
        if before == 0 {
            SseText::comment(&mut self.body);
        }
        self.body.len() - before
    }

    /// Writes a comment that `missing` messages are not kept any more. Returns the number of bytes.
    pub(super) fn remark(&mut self, missing: u64) -> usize {
        let before = self.body.len();
        let messages = if missing == 1 { "message is" } else { "messages are" };
        self.body.extend_from_slice(alloc::format!(": {missing} {messages} not kept any more\n\n").as_bytes());
        self.body.len() - before
    }

    /// Drops the waiting output and completes the exchange. If nothing was sent, the response is an empty stream.
    pub(super) fn cut(&mut self) {
        (self.body, self.taken, self.behind) = (Vec::new(), 0, None);
        if self.is_open() {
            self.stream();
        }
        self.end();
    }

    /// Drops the output that a client does not read. The response becomes `instead` if its head was not polled, and
    /// breaks off otherwise.
    pub(super) fn abort(&mut self, instead: HttpResponse) {
        if self.head.is_some() || self.is_open() {
            (self.taken, self.behind, self.quiet) = (0, None, None);
            return self.answer(instead);
        }
        self.cut();
        self.aborted = true;
    }

    /// Marks the exchange as complete.
    pub(super) fn end(&mut self) {
        self.ended = true;
        self.quiet = None;
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.form, Form::Open { .. })
    }

    pub(super) const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns the time at which the session acts on the exchange, if nothing happens before.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        match self.form {
            // A message of the old transport has no stream to open.
            Form::Open { until } => self.stream.map(|_| Deadline { at: until, wake: Wake::StreamAfter }),
            Form::Stream => self.quiet.map(|at| Deadline { at, wake: Wake::Quiet }),
            Form::Whole => None,
        }
    }

    /// Returns whether the exchange replays a stream and has room for more of it.
    pub(super) fn is_hungry(&self) -> bool {
        self.behind.is_some() && self.waiting() < FEED
    }

    /// Returns the number of bytes that wait to be polled.
    pub(super) fn waiting(&self) -> usize {
        self.body.len() - self.taken
    }

    pub(super) fn has_output(&self) -> bool {
        self.head.is_some() || !self.body.is_empty() || self.ended
    }

    /// Returns the next part of the response, and appends the bytes of [`Output::Data`] to `out`.
    pub(super) fn take(&mut self, out: &mut Vec<u8>) -> Option<Output> {
        if let Some(head) = self.head.take() {
            return Some(Output::Head(head));
        }
        match self.waiting() {
            0 if self.aborted => Some(Output::Abort),
            0 => self.ended.then_some(Output::End),
            len if self.taken == 0 && out.is_empty() && (len <= PIECE || self.form == Form::Whole) => {
                core::mem::swap(out, &mut self.body);
                Some(Output::Data(len))
            }
            len => {
                let len = len.min(PIECE);
                out.extend_from_slice(&self.body[self.taken..][..len]);
                self.taken += len;
                if self.waiting() == 0 {
                    (self.body, self.taken) = (Vec::new(), 0);
                }
                self.tidy();
                Some(Output::Data(len))
            }
        }
    }

    /// Returns the response if it is a whole one that was not polled yet, with a body of at most `most` bytes.
    pub(super) fn take_whole(&mut self, most: usize) -> Option<HttpResponse> {
        if self.form != Form::Whole || self.taken > 0 || self.body.len() > most {
            return None;
        }
        let head = self.head.take()?;
        Some(HttpResponse::from_parts(head, core::mem::take(&mut self.body)))
    }

    pub(super) const fn is_at_end(&self) -> bool {
        self.ended && self.head.is_none() && self.body.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::response;
    use alloc::{string::String, vec};
    use http::StatusCode;

    const MIB: usize = 1 << 20;

    /// Takes output until at most `left` bytes wait. Returns the number of bytes taken.
    fn take_until(exchange: &mut Exchange, left: usize) -> usize {
        let mut taken = 0;
        while exchange.waiting() > left {
            // The buffer is not empty, as when head and body are polled together.
            let mut out = vec![0];
            assert!(exchange.take(&mut out).is_some());
            taken += out.len() - 1;
        }
        taken
    }

    #[test]
    fn mostly_read_body_releases_its_buffer() {
        for whole in [false, true] {
            let mut exchange = Exchange::new(Timestamp::ZERO, None);
            if whole {
                exchange.answer(response::json(StatusCode::OK, vec![b'x'; 4 * MIB]));
            } else {
                exchange.stream();
                (0..4).for_each(|_| _ = exchange.event(&SseText { data: Some(&vec![b'x'; MIB]), ..MESSAGE }));
            }
            let all = exchange.waiting();
            let taken = take_until(&mut exchange, 4096);
            let (waiting, capacity) = (exchange.waiting(), exchange.body.capacity());
            assert_eq!(taken + waiting, all);
            assert!(capacity <= 4 * PIECE, "{capacity} bytes for {waiting}, {}", exchange.taken);
        }
    }

    #[test]
    fn body_capacity_is_bounded_by_unread_bytes() {
        for count in [65, 129, 257] {
            let mut exchange = Exchange::new(Timestamp::ZERO, None);
            exchange.stream();
            (0..count).for_each(|_| _ = exchange.event(&SseText { data: Some(&vec![b'x'; 4096]), ..MESSAGE }));
            let mut out = Vec::new();
            while exchange.waiting() > PIECE {
                let (capacity, waiting) = (exchange.body.capacity(), exchange.waiting());
                assert!(capacity <= (4 * waiting).max(2 * PIECE), "{capacity} bytes for {waiting}");
                out.clear();
                assert!(exchange.take(&mut out).is_some());
            }
        }
    }

    #[test]
    fn only_replays_with_little_output_are_hungry() {
        for (behind, waiting, expected) in [
            (None, 0, false),
            (None, FEED, false),
            (Some(1), 0, true),
            (Some(1), FEED - 1, true),
            (Some(1), FEED, false),
        ] {
            let mut exchange = Exchange::new(Timestamp::ZERO, None);
            exchange.stream();
            exchange.behind = behind;
            exchange.body = vec![b'x'; waiting];
            assert_eq!(exchange.is_hungry(), expected, "{behind:?} {waiting}");
        }
    }

    #[test]
    fn exchange_reports_its_state_and_its_bytes() {
        let until = Timestamp::from_nanos(7);
        let mut exchange = Exchange::new(until, Some(until));
        assert!(exchange.is_open() && !exchange.has_output() && !exchange.is_ended() && !exchange.is_at_end());
        assert_eq!((exchange.authorized_until, exchange.deadline()), (Some(until), None));
        exchange.stream = Some(1);
        assert_eq!(exchange.deadline(), Some(Deadline { at: until, wake: Wake::StreamAfter }));
        exchange.stream();
        assert!(!exchange.is_open() && exchange.has_output());
        assert_eq!(exchange.deadline(), None);
        exchange.quiet = Some(until);
        assert_eq!(exchange.deadline(), Some(Deadline { at: until, wake: Wake::Quiet }));
        // A comment is written only if nothing waits.
        assert_eq!([exchange.comment(), exchange.comment()], [3, 0]);
        let remarks = [": 1 message is not kept any more\n\n", ": 2 messages are not kept any more\n\n"];
        assert_eq!([exchange.remark(1), exchange.remark(2)], remarks.map(str::len));
        let event = exchange.event(&SseText { data: Some(b"x"), ..MESSAGE });
        exchange.end();
        assert!(exchange.is_ended() && !exchange.is_at_end() && exchange.quiet.is_none());
        assert_eq!(exchange.waiting(), 3 + remarks.concat().len() + event);
        let mut out = Vec::new();
        assert!(matches!(exchange.take(&mut out), Some(Output::Head(_))));
        let all = exchange.waiting();
        assert!(matches!(exchange.take(&mut out), Some(Output::Data(len)) if len == all && len == out.len()));
        assert!(String::from_utf8_lossy(&out).starts_with(&[":\n\n", &*remarks.concat()].concat()));
        assert!(exchange.is_at_end() && exchange.has_output());
        assert!(matches!(exchange.take(&mut out), Some(Output::End)));
    }

    #[test]
    fn large_output_is_taken_in_pieces() {
        let taken = |exchange: &mut Exchange, before: usize| {
            let mut out = vec![0; before];
            match exchange.take(&mut out) {
                Some(Output::Data(len)) => (len, out.len() - before),
                other => panic!("{other:?}"),
            }
        };
        for (waiting, before, expected) in [
            (PIECE, 0, PIECE),
            (PIECE + 1, 0, PIECE),
            (PIECE, 1, PIECE),
            (PIECE - 1, 1, PIECE - 1),
            (PIECE + 1, 1, PIECE),
        ] {
            let mut exchange = Exchange::new(Timestamp::ZERO, None);
            exchange.stream();
            (exchange.head, exchange.body) = (None, vec![b'x'; waiting]);
            assert_eq!(taken(&mut exchange, before), (expected, expected), "{waiting} {before}");
            assert_eq!(exchange.waiting(), waiting - expected);
        }
        // A whole response is given away, however large it is.
        let mut exchange = Exchange::new(Timestamp::ZERO, None);
        exchange.answer(response::json(StatusCode::OK, vec![b'x'; 3 * PIECE]));
        assert!(matches!(exchange.take(&mut Vec::new()), Some(Output::Head(_))));
        assert_eq!(taken(&mut exchange, 0), (3 * PIECE, 3 * PIECE));
        assert!(exchange.is_at_end());
    }

    #[test]
    fn whole_responses_are_taken_before_their_heads_only() {
        let whole = |bytes: usize| {
            let mut exchange = Exchange::new(Timestamp::ZERO, None);
            exchange.answer(response::json(StatusCode::OK, vec![b'x'; bytes]));
            exchange
        };
        for (bytes, most, taken) in [(0, 0, true), (8, 8, true), (9, 8, false)] {
            let mut exchange = whole(bytes);
            let response = exchange.take_whole(most);
            assert_eq!(response.map(|it| it.body().len()), taken.then_some(bytes), "{bytes} {most}");
            assert_eq!((exchange.waiting(), exchange.is_at_end()), if taken { (0, true) } else { (bytes, false) });
        }
        let mut exchange = whole(8);
        assert!(matches!(exchange.take(&mut Vec::new()), Some(Output::Head(_))));
        assert!(exchange.take_whole(8).is_none(), "its head was polled");
        let mut exchange = Exchange::new(Timestamp::ZERO, None);
        assert!(exchange.take_whole(8).is_none(), "there is no response");
        exchange.stream();
        exchange.end();
        assert!(exchange.take_whole(8).is_none(), "it is a stream");
    }

    #[test]
    fn aborted_output_is_replaced_only_before_its_head() {
        for (polled, open) in [(false, true), (false, false), (true, false)] {
            let mut exchange = Exchange::new(Timestamp::ZERO, None);
            if !open {
                exchange.stream();
                exchange.event(&SseText { data: Some(b"x"), ..MESSAGE });
            }
            let mut out = Vec::new();
            if polled {
                assert!(matches!(exchange.take(&mut out), Some(Output::Head(_))));
            }
            exchange.abort(response::empty(StatusCode::SERVICE_UNAVAILABLE));
            match exchange.take(&mut out) {
                Some(Output::Head(head)) if !polled => assert_eq!(head.status, StatusCode::SERVICE_UNAVAILABLE),
                Some(Output::Abort) => assert!(polled),
                other => panic!("{other:?}"),
            }
            assert_eq!((exchange.waiting(), exchange.is_ended()), (0, true));
        }
    }

    #[test]
    fn body_shrinks_to_what_waits_or_two_pieces() {
        let mut exchange = Exchange::new(Timestamp::ZERO, None);
        exchange.stream();
        (exchange.head, exchange.body) = (None, vec![b'x'; 8 * PIECE + 100]);
        let mut capacities = Vec::new();
        while exchange.waiting() > 0 {
            assert!(exchange.take(&mut vec![0]).is_some());
            capacities.push((exchange.body.capacity(), exchange.taken));
        }
        let all = 8 * PIECE + 100;
        let (half, least) = (3 * PIECE + 100, 2 * PIECE);
        let at = |taken: usize| taken * PIECE;
        assert_eq!(
            capacities,
            [
                (all, at(1)),
                (all, at(2)),
                (all, at(3)),
                (all, at(4)),
                (half, 0),
                (half, at(1)),
                (least, 0),
                (least, 0),
                (0, 0)
            ]
        );
    }
}
