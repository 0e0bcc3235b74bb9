//! One side of a connection with its driver. The parts of the driver loop run in any order.

use std::time::Duration;

use mcp_proto::{
    codec::{Frame, LineDecoder},
    connection::{Connection, Event, Limits, ResourceUsage, Route, Transmit},
    protocol::{Phase, Role},
    rpc::Timestamp,
};

use super::{
    application::{Application, RoleExt, is_modern},
    environment::Environment,
    message_observer::MessageObserver,
    transport::{Input, Transport},
};
use crate::{monitor::Monitor, testbed::Line};

/// A conforming side of a connection.
pub struct Peer<E> {
    /// The connection.
    pub conn: Connection<E>,
    /// Its application.
    pub app: Application,
    observer: MessageObserver,
    /// The monitor ignores cuts and limits, so it checks undisturbed connections only.
    monitor: Option<Monitor>,
    lines: LineDecoder,
    /// A second decoder that receives the same bytes one by one. The lines must be equal.
    byte_decoder: Option<LineDecoder>,
    out: Vec<u8>,
    /// When output was last written, or none was pending.
    progress_at: Timestamp,
    eof: bool,
    is_broken: bool,
    /// The driver has left its loop.
    pub has_stopped: bool,
}

const CANCELLED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/cancelled""#;

/// The most messages of a loop iteration that polls single messages.
const FRUGAL: u64 = 30;

/// How long a write may make no progress. It is longer than all stalls, after which a connection has to recover.
const WRITE_TIMEOUT: Duration = Duration::from_secs(7200);

impl<E: RoleExt> Peer<E> {
    /// Returns a driver before its first iteration.
    #[must_use]
    pub fn new(env: &mut Environment<'_>, conn: Connection<E>, app: Application) -> Self {
        let limit = conn.settings().limits.frame_bytes;
        let byte_decoder = env.rng.percent(10).then(|| LineDecoder::new(limit));
        let observer = MessageObserver::new(app.other.is_conforming);
        let monitor = (E::ROLE == Role::Server && app.other.is_undisturbed).then(|| Monitor::new(false));
        let lines = LineDecoder::new(limit);
        Self {
            conn,
            app,
            observer,
            monitor,
            lines,
            byte_decoder,
            out: Vec::new(),
            progress_at: env.now,
            eof: false,
            is_broken: false,
            has_stopped: false,
        }
    }

    /// Runs the loop once. Returns whether there was anything to do.
    pub fn tick(&mut self, env: &mut Environment<'_>, input: &mut Transport, output: &mut Transport) -> bool {
        if self.has_stopped {
            return false;
        }
        let mut moved = false;
        if env.rng.percent(50) {
            moved |= self.read(env, input);
            moved |= self.write(env, output);
        } else {
            moved |= self.write(env, output);
            moved |= self.read(env, input);
        }
        moved |= self.handle_timeout(env);
        self.take_events(env);
        if self.conn.is_drained() && self.out.is_empty() {
            env.note(self.app.peer_id, "leaves", "");
            output.end();
            input.abandoned = true;
            self.has_stopped = true;
            moved = true;
        }
        moved
    }

    fn read(&mut self, env: &mut Environment<'_>, input: &mut Transport) -> bool {
        if self.eof {
            return false;
        }
        let Some(input) = input.read(env.now, &mut env.rng) else { return false };
        match input {
            Input::Bytes(bytes) => self.feed(env, &bytes),
            Input::Message(bytes) => self.handle(env, Frame::new(&bytes)),
            Input::End => {
                env.note(self.app.peer_id, "eof", "");
                self.eof = true;
                self.lines.end();
                self.feed(env, b"");
                self.conn.handle_eof(env.now);
            }
        }
        self.take_events(env);
        true
    }

    fn feed(&mut self, env: &mut Environment<'_>, bytes: &[u8]) {
        let mut recut = self.byte_decoder.as_mut().map(|byte_decoder| recut(byte_decoder, bytes, self.eof).into_iter());
        self.lines.feed(bytes);
        // Moved out, so that `self` can be borrowed while the frames are handled.
        let mut lines = std::mem::replace(&mut self.lines, LineDecoder::new(0));
        while let Some(frame) = lines.next_frame() {
            if let Some(recut) = &mut recut {
                assert_eq!(recut.next(), Some(frame.bytes().to_vec()), "lines depend on how bytes are cut");
            }
            self.handle(env, frame);
        }
        assert_eq!(recut.and_then(|mut recut| recut.next()), None, "lines depend on how bytes are cut");
        let limit = self.conn.settings().limits.frame_bytes;
        assert!(lines.buffered() <= limit + 2, "{} bytes of a line", lines.buffered());
        self.lines = lines;
    }

    fn handle(&mut self, env: &mut Environment<'_>, frame: Frame<'_>) {
        let bytes = frame.bytes();
        env.note(self.app.peer_id, "reads", String::from_utf8_lossy(bytes));
        if env.rng.percent(50) {
            self.take_events(env);
        }
        // A closed connection ignores input, although it may still have output.
        let listens = self.conn.phase() < Phase::Closed;
        self.observer.before_reading(bytes);
        if let Some(monitor) = &mut self.monitor {
            monitor.watch(&[Line::In(String::from_utf8_lossy(bytes).into_owned())]);
        }
        let event = self.conn.handle_frame(env.now, frame);
        if let Some(event) = event {
            self.dispatch(env, event.into_owned());
        }
        if listens {
            self.observer.after_reading(bytes);
        }
        self.check();
    }

    fn dispatch(&mut self, env: &mut Environment<'_>, event: Event<'static>) {
        self.app.on_event(env, &mut self.conn, event);
    }

    /// Handles all events.
    pub fn take_events(&mut self, env: &mut Environment<'_>) {
        while let Some(event) = self.conn.poll_event() {
            self.dispatch(env, event);
        }
        self.check();
    }

    fn handle_timeout(&mut self, env: &mut Environment<'_>) -> bool {
        let due = self.conn.poll_timeout().filter(|deadline| deadline.at <= env.now);
        // A call before the deadline does nothing.
        if due.is_some() || env.rng.percent(5) {
            let before = self.conn.usage();
            self.conn.handle_timeout(env.now);
            if due.is_none() {
                assert_eq!(self.conn.usage(), before, "time was up before it was up");
            }
            let next = self.conn.poll_timeout();
            assert!(next.is_none_or(|next| next.at > env.now), "{next:?} is due after it was dealt with");
            self.take_events(env);
            self.app.check_deadlines(&self.conn, env.now);
        }
        due.is_some()
    }

    fn write(&mut self, env: &mut Environment<'_>, output: &mut Transport) -> bool {
        if self.is_broken {
            // The peer has disconnected.
            self.out.clear();
            return false;
        }
        let mut moved = false;
        let mut most = if env.rng.percent(50) { env.rng.within(1..=FRUGAL) } else { u64::MAX };
        while most > 0 && self.out.len() < self.app.behavior.high_water && output.has_room() {
            let start = self.out.len();
            let Some(sent) = self.conn.poll_transmit(&mut self.out) else { break };
            self.sent(env, start, sent);
            most -= 1;
            moved = true;
            if output.carries_messages() {
                let mut message = self.out.split_off(start);
                message.pop();
                // A stateless request is cancelled by closing its stream.
                let behind_all = is_modern(&self.conn) && message.starts_with(CANCELLED);
                if output.send(env.now, &mut env.rng, sent.route, message, behind_all).is_err() {
                    self.disconnect(env);
                    return true;
                }
            }
        }
        if !self.out.is_empty() {
            match output.write(env.now, &mut env.rng, &mut self.out) {
                Ok(written) => moved |= written > 0,
                Err(_) => {
                    self.disconnect(env);
                    return true;
                }
            }
        }
        self.check();
        if moved || self.out.is_empty() && output.has_room() {
            self.progress_at = env.now;
        } else if env.now.saturating_since(self.progress_at) > WRITE_TIMEOUT {
            env.note(self.app.peer_id, "gives up", "the peer does not read");
            self.disconnect(env);
            return true;
        }
        moved
    }

    fn sent(&mut self, env: &mut Environment<'_>, start: usize, sent: Transmit) {
        let line = &self.out[start..];
        assert_eq!(sent.len, line.len());
        env.note(self.app.peer_id, "writes", String::from_utf8_lossy(&line[..line.len() - 1]));
        self.observer.on_write(line);
        if let Some(monitor) = &mut self.monitor {
            monitor.watch(&[Line::Out(String::from_utf8_lossy(line).into_owned())]);
        }
        if let Route::Call(call) = sent.route {
            assert!(
                self.app.calls.contains_key(&call) || !self.app.ended.contains(&call),
                "a message of an ended call is written"
            );
        }
    }

    fn disconnect(&mut self, env: &mut Environment<'_>) {
        env.note(self.app.peer_id, "breaks", "");
        self.is_broken = true;
        self.out.clear();
        self.conn.handle_disconnect();
        self.take_events(env);
    }

    /// Checks the tables of the connection, and their limits.
    fn check(&self) {
        let usage = self.conn.usage();
        check_limits(&usage, &self.conn.settings().limits);
        if usage.events == 0 {
            self.app.check_tables(&self.conn);
        }
    }

    /// Checks that no call is open, and that the connection is idle.
    pub fn assert_idle(&self) {
        self.app.assert_done();
        assert_eq!(self.conn.usage(), ResourceUsage::default(), "{} is not idle", self.app.peer_id);
        if !self.has_stopped {
            self.observer.assert_idle();
        }
    }
}

/// Checks the usage of a connection against its limits.
fn check_limits(usage: &ResourceUsage, limits: &Limits) {
    // One message more than the limit, and the end of each subscription. The longest has 4000 bytes.
    let slack = limits.frame_bytes.min(4000) + limits.subscriptions * 500;
    let bytes = limits.outbox_bytes + limits.control_bytes + slack;
    assert!(usage.outbox_bytes <= bytes, "{} bytes are queued, the limit is {bytes}", usage.outbox_bytes);
    assert!(usage.calls <= limits.calls + 2, "{} calls", usage.calls);
    assert!(usage.requests <= limits.requests, "{} requests", usage.requests);
    assert!(usage.request_ids <= usage.requests, "{} ids of {} requests", usage.request_ids, usage.requests);
    assert!(usage.request_bytes <= limits.request_bytes, "{} bytes of requests", usage.request_bytes);
    assert!(usage.subscriptions <= limits.subscriptions, "{} subscriptions", usage.subscriptions);
    assert!(usage.tasks <= limits.tasks, "{} tasks", usage.tasks);
    assert!(usage.kept <= usage.calls, "{} kept of {} calls", usage.kept, usage.calls);
    // One request more than the limit, and the data for matching its response.
    let bytes = limits.call_bytes + 2 * limits.frame_bytes.min(4000);
    assert!(usage.call_bytes <= bytes, "{} bytes of calls, {bytes} may be", usage.call_bytes);
    assert!(usage.deadlines <= 2 * usage.calls + 66, "{} deadlines of {} calls", usage.deadlines, usage.calls);
}

/// Returns the lines of bytes that arrive one by one.
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
