//! The thread that looks after a connection: it waits for deadlines, hands out what other threads caused, and closes the
//! door behind everybody.

use std::{sync::Arc, time::Duration};

use mcp_proto::{connection::Connection, rpc::Timestamp};
use mcp_service::Application;

use crate::{
    Options, Source, Stopper, Transport,
    driver::{Driver, NEVER},
    lock::{lock, spawn, wait, wait_for},
    post::Post,
    reader::Reader,
};

/// How long handlers may take that hear of the end, before they are left to themselves.
const LAST_WORDS: Duration = Duration::from_secs(1);

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
    post.application.begin(&post.link);
    (driver, Keeper { post, source, stop_source, stop_sink, linger, end })
}

impl<E: Send + 'static> Keeper<E> {
    /// Runs the connection to its end.
    pub(crate) fn run(self) {
        let Self { post, source, stop_source, stop_sink, linger, end } = self;
        let crew = &post.driver.crew;
        let began = crew.begin(Box::new(Reader::new(post.clone(), source)));
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
        }
        let patience = if stop_source.is_some() { LAST_WORDS } else { Duration::ZERO };
        let reader_left = post.wait_until(patience, |state| state.reader_left);
        if let Ok(writer) = writer
            && (stop_sink.is_some() || writer.is_finished())
        {
            let _ = writer.join();
        }
        crew.dismiss(LAST_WORDS, !reader_left);
        post.driver.lock().over = true;
        post.driver.news.notify_all();
    }
}

impl<E: 'static> Post<E> {
    /// Keeps the time until the connection has ended.
    fn keep(&self) {
        let driver = &self.driver;
        let mut state = driver.lock();
        loop {
            let now = driver.now();
            let due = driver.due(&state);
            if due <= now || !state.events.is_empty() {
                drop(state);
                driver.lobby.ring(now);
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
}
