//! One end of a connection with its driver: the loop of every driver, taken apart so that its parts come in any order.

use mcp_proto::{
    codec::{Frame, LineDecoder},
    connection::{Connection, Event, Limits, ResourceUsage, Route, Transmit},
    protocol::{Phase, Role},
};

use super::{
    desk::{Desk, End, is_modern},
    stage::Stage,
    way::{Input, Way},
    wiretap::Wiretap,
};
use crate::{bed::Line, monitor::Monitor};

/// One end of a connection that keeps the rules.
pub struct Seat<E> {
    /// The connection.
    pub conn: Connection<E>,
    /// Its application.
    pub desk: Desk,
    tap: Wiretap,
    /// Knows nothing of cuts and limits.
    monitor: Option<Monitor>,
    lines: LineDecoder,
    /// The same bytes, cut differently: the lines have to be the same.
    shadow: Option<LineDecoder>,
    out: Vec<u8>,
    eof: bool,
    is_broken: bool,
    /// The driver has left its loop.
    pub has_left: bool,
}

const CANCELLED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/cancelled""#;

/// The most turns of the loop that poll one message at a time.
const FRUGAL: u64 = 30;

impl<E: End> Seat<E> {
    /// A driver that has not done anything yet.
    #[must_use]
    pub fn new(stage: &mut Stage<'_>, conn: Connection<E>, desk: Desk) -> Self {
        let limit = conn.settings().limits.frame_bytes;
        let shadow = stage.dice.percent(10).then(|| LineDecoder::new(limit));
        let tap = Wiretap::new(desk.other.is_good);
        let monitor = (E::ROLE == Role::Server && desk.other.is_calm).then(|| Monitor::new(false));
        let lines = LineDecoder::new(limit);
        Self { conn, desk, tap, monitor, lines, shadow, out: Vec::new(), eof: false, is_broken: false, has_left: false }
    }

    /// One turn of the loop. Whether anything moved.
    pub fn turn(&mut self, stage: &mut Stage<'_>, input: &mut Way, output: &mut Way) -> bool {
        if self.has_left {
            return false;
        }
        let mut moved = false;
        if stage.dice.percent(50) {
            moved |= self.read(stage, input);
            moved |= self.write(stage, output);
        } else {
            moved |= self.write(stage, output);
            moved |= self.read(stage, input);
        }
        moved |= self.keep_time(stage);
        self.take_events(stage);
        if self.conn.is_drained() && self.out.is_empty() {
            stage.note(self.desk.who, "leaves", "");
            output.end();
            input.abandoned = true;
            self.has_left = true;
            moved = true;
        }
        moved
    }

    fn read(&mut self, stage: &mut Stage<'_>, input: &mut Way) -> bool {
        if self.eof {
            return false;
        }
        let Some(input) = input.read(stage.now, &mut stage.dice) else { return false };
        match input {
            Input::Bytes(bytes) => self.feed(stage, &bytes),
            Input::Letter(bytes) => self.handle(stage, Frame::new(&bytes)),
            Input::End => {
                stage.note(self.desk.who, "eof", "");
                self.eof = true;
                self.lines.end();
                self.feed(stage, b"");
                self.conn.handle_eof(stage.now);
            }
        }
        self.take_events(stage);
        true
    }

    fn feed(&mut self, stage: &mut Stage<'_>, bytes: &[u8]) {
        let mut recut = self.shadow.as_mut().map(|shadow| recut(shadow, bytes, self.eof).into_iter());
        self.lines.feed(bytes);
        // Moved out, so that what is read can be handed on together with everything else.
        let mut lines = std::mem::replace(&mut self.lines, LineDecoder::new(0));
        while let Some(frame) = lines.next_frame() {
            if let Some(recut) = &mut recut {
                assert_eq!(recut.next(), Some(frame.bytes().to_vec()), "lines depend on how bytes are cut");
            }
            self.handle(stage, frame);
        }
        assert_eq!(recut.and_then(|mut recut| recut.next()), None, "lines depend on how bytes are cut");
        let limit = self.conn.settings().limits.frame_bytes;
        assert!(lines.buffered() <= limit + 2, "{} bytes of a line", lines.buffered());
        self.lines = lines;
    }

    fn handle(&mut self, stage: &mut Stage<'_>, frame: Frame<'_>) {
        let bytes = frame.bytes();
        stage.note(self.desk.who, "reads", String::from_utf8_lossy(bytes));
        if stage.dice.percent(50) {
            self.take_events(stage);
        }
        // What has ended listens to nothing, even if it has something to write.
        let listens = self.conn.phase() < Phase::Closed;
        self.tap.before_reading(bytes);
        if let Some(monitor) = &mut self.monitor {
            monitor.watch(&[Line::In(String::from_utf8_lossy(bytes).into_owned())]);
        }
        let event = self.conn.handle_frame(stage.now, frame);
        if let Some(event) = event {
            self.hand_on(stage, event.into_owned());
        }
        if listens {
            self.tap.after_reading(bytes);
        }
        self.check();
    }

    fn hand_on(&mut self, stage: &mut Stage<'_>, event: Event<'static>) {
        self.desk.on_event(stage, &mut self.conn, event);
    }

    /// Takes all events, and whatever comes of them.
    pub fn take_events(&mut self, stage: &mut Stage<'_>) {
        while let Some(event) = self.conn.poll_event() {
            self.hand_on(stage, event);
        }
        self.check();
    }

    fn keep_time(&mut self, stage: &mut Stage<'_>) -> bool {
        let due = self.conn.poll_timeout().filter(|deadline| deadline.at <= stage.now);
        // Early calls do nothing.
        if due.is_some() || stage.dice.percent(5) {
            let before = self.conn.usage();
            self.conn.handle_timeout(stage.now);
            if due.is_none() {
                assert_eq!(self.conn.usage(), before, "time was up before it was up");
            }
            let next = self.conn.poll_timeout();
            assert!(next.is_none_or(|next| next.at > stage.now), "{next:?} is due after it was dealt with");
            self.take_events(stage);
            self.desk.check_deadlines(&self.conn, stage.now);
        }
        due.is_some()
    }

    fn write(&mut self, stage: &mut Stage<'_>, output: &mut Way) -> bool {
        if self.is_broken {
            // There is no peer to write to.
            self.out.clear();
            return false;
        }
        let mut moved = false;
        let mut most = if stage.dice.percent(50) { stage.dice.within(1..=FRUGAL) } else { u64::MAX };
        while most > 0 && self.out.len() < self.desk.habits.high_water && output.has_room() {
            let start = self.out.len();
            let Some(sent) = self.conn.poll_transmit(&mut self.out) else { break };
            self.sent(stage, start, sent);
            most -= 1;
            moved = true;
            if output.has_letters() {
                let mut letter = self.out.split_off(start);
                letter.pop();
                // Without a session, a request is cancelled by closing its stream.
                let behind_all = is_modern(&self.conn) && letter.starts_with(CANCELLED);
                if output.send(stage.now, &mut stage.dice, sent.route, letter, behind_all).is_err() {
                    self.breaks(stage);
                    return true;
                }
            }
        }
        if !self.out.is_empty() {
            match output.write(stage.now, &mut stage.dice, &mut self.out) {
                Ok(written) => moved |= written > 0,
                Err(_) => {
                    self.breaks(stage);
                    return true;
                }
            }
        }
        self.check();
        moved
    }

    fn sent(&mut self, stage: &mut Stage<'_>, start: usize, sent: Transmit) {
        let line = &self.out[start..];
        assert_eq!(sent.len, line.len());
        stage.note(self.desk.who, "writes", String::from_utf8_lossy(&line[..line.len() - 1]));
        self.tap.writes(line);
        if let Some(monitor) = &mut self.monitor {
            monitor.watch(&[Line::Out(String::from_utf8_lossy(line).into_owned())]);
        }
        if let Route::Call(call) = sent.route {
            assert!(
                self.desk.calls.contains_key(&call) || !self.desk.ended.contains(&call),
                "a call that has ended leaves"
            );
        }
    }

    fn breaks(&mut self, stage: &mut Stage<'_>) {
        stage.note(self.desk.who, "breaks", "");
        self.is_broken = true;
        self.out.clear();
        self.conn.handle_disconnect();
        self.take_events(stage);
    }

    /// Confirms that the tables are as they should be, and within their limits.
    fn check(&self) {
        let usage = self.conn.usage();
        check_limits(&usage, &self.conn.settings().limits);
        if usage.events == 0 {
            self.desk.check_tables(&self.conn);
        }
    }

    /// Confirms that nothing is open: no call waits, and nothing is held.
    pub fn assert_at_rest(&self) {
        self.desk.assert_done();
        assert_eq!(self.conn.usage(), ResourceUsage::default(), "{} holds something", self.desk.who);
        if !self.has_left {
            self.tap.assert_at_rest();
        }
    }
}

/// What the limits promise, in the terms of what a connection says that it holds.
fn check_limits(usage: &ResourceUsage, limits: &Limits) {
    // One message more than there is room for, and the end of each subscription. The longest has 4000 bytes.
    let slack = limits.frame_bytes.min(4000) + limits.subscriptions * 500;
    let bytes = limits.outbox_bytes + limits.control_bytes + slack;
    assert!(usage.outbox_bytes <= bytes, "{} bytes wait to be written, {bytes} may", usage.outbox_bytes);
    assert!(usage.calls <= limits.calls + 2, "{} calls", usage.calls);
    assert!(usage.requests <= limits.requests, "{} requests", usage.requests);
    assert!(usage.request_ids <= usage.requests, "{} ids of {} requests", usage.request_ids, usage.requests);
    assert!(usage.request_bytes <= limits.request_bytes, "{} bytes of requests", usage.request_bytes);
    assert!(usage.subscriptions <= limits.subscriptions, "{} subscriptions", usage.subscriptions);
    assert!(usage.tasks <= limits.tasks, "{} tasks", usage.tasks);
    assert!(usage.kept <= usage.calls, "{} kept of {} calls", usage.kept, usage.calls);
    // One request more than there is room for, and what its answer is looked for under.
    let bytes = limits.call_bytes + 2 * limits.frame_bytes.min(4000);
    assert!(usage.call_bytes <= bytes, "{} bytes of calls, {bytes} may be", usage.call_bytes);
    assert!(usage.deadlines <= 2 * usage.calls + 66, "{} deadlines of {} calls", usage.deadlines, usage.calls);
}

/// The lines of some bytes that come one by one.
fn recut(lines: &mut LineDecoder, bytes: &[u8], ended: bool) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    if ended {
        lines.end();
    }
    for byte in bytes.chunks(1).chain(ended.then_some(&b""[..])) {
        lines.feed(byte);
        while let Some(frame) = lines.next_frame() {
            found.push(frame.bytes().to_vec());
        }
    }
    found
}
