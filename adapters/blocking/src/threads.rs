//! The threads of a connection.
//!
//! The [crew](crate::crew) reads and runs handlers. The *writer* is there for bytes that cannot be written at once. The *keeper*
//! waits for deadlines, hands out what other threads caused, and closes the door behind everybody. None of them waits for
//! another: each does its work however stuck the others are.

use std::{
    io, mem,
    sync::{Arc, MutexGuard},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use mcp_proto::{
    codec::LineDecoder,
    connection::{Connection, Event},
    rpc::Timestamp,
};
use mcp_service::{Application, Link};

use crate::{
    Options, Sink, Source, Stopper, Transport,
    crew::Intake,
    driver::{Driver, NEVER, State},
    lock::{lock, wait, wait_for},
};

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// What a job weighs beside the text that it keeps.
const JOB: usize = 256;

/// How long handlers may take that hear of the end, before they are left to themselves.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long reading may go on when writing has failed.
const LAST_READ: Duration = Duration::from_millis(500);

/// What the threads of a connection have in common.
struct Post<E> {
    driver: Arc<Driver<E>>,
    link: Arc<dyn Link<E>>,
    application: Arc<dyn Application<E>>,
}

/// The thread that looks after the others. Nothing but the first bytes happens before it [runs](Self::run).
pub(crate) struct Keeper<E> {
    post: Arc<Post<E>>,
    source: Box<dyn Source>,
    stop_source: Option<Stopper>,
    stop_sink: Option<Stopper>,
    linger: Duration,
    end: Box<dyn FnOnce() + Send>,
}

/// Makes a connection ready to run over a transport.
pub(crate) fn prepare<E: Send + 'static>(
    connection: impl FnOnce(Timestamp) -> Connection<E>,
    application: Arc<dyn Application<E>>,
    transport: Transport,
    options: &Options,
) -> (Arc<Driver<E>>, Keeper<E>) {
    let Transport { source, sink, linger, end } = transport;
    let (stop_source, stop_sink) = (source.stopper(), sink.stopper());
    let driver = Arc::new(Driver::new(connection, sink, options));
    driver.settle(driver.lock());
    let post = Arc::new(Post { driver: driver.clone(), link: driver.clone(), application });
    (driver, Keeper { post, source, stop_source, stop_sink, linger, end })
}

pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(run)
}

impl<E: Send + 'static> Keeper<E> {
    /// Runs the connection to its end.
    pub(crate) fn run(self) {
        let Self { post, source, stop_source, stop_sink, linger, end } = self;
        let crew = &post.driver.crew;
        let limit = post.driver.lock().connection.settings().limits.frame_bytes;
        let lines = LineDecoder::new(limit);
        let began = crew.begin(Box::new(Reading { post: post.clone(), source, lines, chunk: vec![0; CHUNK] }));
        let writer = spawn("mcp-writer", {
            let post = post.clone();
            move || post.write()
        });
        if let Some(error) = began.err().as_ref().or(writer.as_ref().err()) {
            // Without its threads, the connection is broken.
            post.driver.fail(error);
        }
        post.keep();
        post.flush_or_stop(stop_sink.as_deref());
        end();
        post.wait_until(linger, |state| state.reader_left);
        if let Some(stop) = &stop_source {
            stop();
            post.wait_until(LAST_WORDS, |state| state.reader_left);
        }
        if let Ok(writer) = writer
            && (stop_sink.is_some() || writer.is_finished())
        {
            let _ = writer.join();
        }
        crew.dismiss(LAST_WORDS);
        post.driver.lock().over = true;
        post.driver.news.notify_all();
    }
}

/// What is read from, and what of it is no whole line yet.
struct Reading<E: Send + 'static> {
    post: Arc<Post<E>>,
    source: Box<dyn Source>,
    lines: LineDecoder,
    chunk: Vec<u8>,
}

impl<E: Send + 'static> Intake for Reading<E> {
    fn turn(&mut self) -> bool {
        match self.source.read(&mut self.chunk) {
            Ok(0) => {
                self.lines.end();
                self.post.take_in(&mut self.lines, true);
                false
            }
            Ok(len) => {
                self.lines.feed(&self.chunk[..len]);
                self.post.take_in(&mut self.lines, false);
                true
            }
            Err(error) => {
                self.post.driver.fail(&error);
                false
            }
        }
    }
}

impl<E: Send + 'static> Drop for Reading<E> {
    fn drop(&mut self) {
        self.post.driver.lock().reader_left = true;
        self.post.driver.news.notify_all();
    }
}

impl<E: Send + 'static> Post<E> {
    /// Hands the lines that are complete to the connection, and what comes of them to the application.
    fn take_in(&self, lines: &mut LineDecoder, ended: bool) {
        let _turn = lock(&self.driver.turn);
        let now = self.driver.now();
        while let Some(frame) = lines.next_frame() {
            let mut state = self.driver.lock();
            let event = state.connection.handle_frame(now, frame);
            match event {
                // What other threads caused comes first.
                Some(event) if !state.events.is_empty() => state.events.push_back(event.into_owned()),
                Some(event) => {
                    drop(state);
                    self.hand_out(event, true);
                    continue;
                }
                None => state.collect(),
            }
            self.hand_out_waiting(state, true);
        }
        let mut state = self.driver.lock();
        if ended {
            state.connection.handle_eof(now);
            state.collect();
            self.hand_out_waiting(state, true);
            state = self.driver.lock();
        }
        self.driver.settle(state);
    }

    fn write(&self) {
        let driver = &self.driver;
        let mut state = driver.lock();
        loop {
            while !state.blocked {
                state = wait(&driver.output, state);
            }
            let Some(mut sink) = state.sink.take() else { break };
            if state.fill() {
                let (out, from) = (mem::take(&mut state.out), state.written);
                drop(state);
                let result = write_all(&mut *sink, &out[from..]);
                state = driver.lock();
                state.sink = Some(sink);
                let rest = out.len() - from;
                state.out = out;
                state.wrote(rest);
                match result {
                    Ok(()) => driver.make_room(),
                    Err(error) => {
                        drop(state);
                        // What the peer has said before it left is still heard, and may be the better reason.
                        self.wait_until(LAST_READ, |state| state.reader_left);
                        driver.fail(&error);
                        state = driver.lock();
                    }
                }
            } else if state.connection.is_drained() {
                break;
            } else {
                state.sink = Some(sink);
                state.blocked = false;
            }
        }
        state.writer_left = true;
        driver.news.notify_all();
    }

    /// Keeps the time until the connection has ended.
    fn keep(&self) {
        let driver = &self.driver;
        let mut state = driver.lock();
        loop {
            let now = driver.now();
            let due = state.connection.poll_timeout().map_or(NEVER, |deadline| deadline.at);
            if due <= now || !state.events.is_empty() {
                drop(state);
                let turn = lock(&driver.turn);
                state = driver.lock();
                state.connection.handle_timeout(driver.now());
                state.collect();
                self.hand_out_waiting(state, false);
                drop(turn);
                driver.settle(driver.lock());
                state = driver.lock();
            } else if state.closed.is_some() {
                return;
            } else {
                state.asleep = Some(due);
                state = match due {
                    NEVER => wait(&driver.clock, state),
                    due => wait_for(&driver.clock, state, due.saturating_since(now)).0,
                };
                state.asleep = None;
            }
        }
    }

    /// Hands out the events that wait. The caller has the turn.
    fn hand_out_waiting<'a>(&'a self, mut state: MutexGuard<'a, State<E>>, reads: bool) {
        while let Some(event) = state.events.pop_front() {
            drop(state);
            self.hand_out(event, reads);
            state = self.driver.lock();
        }
    }

    /// Hands an event to the application. The caller has the turn; whoever `reads` comes for the job after that.
    fn hand_out(&self, event: Event<'_>, reads: bool) {
        let weight = match &event {
            Event::Notification { params, .. } => JOB + params.as_ref().map_or(0, |params| params.get().len()),
            Event::Progress { progress, .. } => JOB + progress.message.as_ref().map_or(0, |message| message.len()),
            Event::Violation(_) | Event::PeerError(_) => JOB,
            // Requests in flight are bounded by the connection itself.
            _ => 0,
        };
        let end = if let Event::Closed(reason) = &event { Some(reason.clone()) } else { None };
        let (is_ready, is_answer) = (event == Event::Ready, matches!(event, Event::Response { .. }));
        if let Some(job) = self.application.handle(&self.link, event) {
            self.driver.crew.push(job, weight, reads);
        }
        if is_answer {
            self.driver.make_room();
        }
        if is_ready || end.is_some() {
            let mut state = self.driver.lock();
            state.closed = end;
            self.driver.settle(state);
            self.driver.news.notify_all();
        }
    }

    /// Waits until everything is written and the sink is closed, or gives up on a peer that does not read.
    fn flush_or_stop(&self, stop: Option<&(dyn Fn() + Send)>) {
        let patience = self.driver.lock().connection.settings().limits.drain;
        if !self.wait_until(patience, |state| state.writer_left) {
            let mut state = self.driver.lock();
            state.connection.handle_broken();
            self.driver.settle(state);
            if let Some(stop) = stop {
                stop();
            }
        }
    }

    fn wait_until(&self, patience: Duration, condition: impl Fn(&State<E>) -> bool) -> bool {
        let until = Instant::now() + patience;
        let mut state = self.driver.lock();
        while !condition(&state) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = wait_for(&self.driver.news, state, left).0;
        }
        true
    }
}

fn write_all(sink: &mut dyn Sink, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match sink.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}
