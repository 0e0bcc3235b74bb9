//! One connection, its lock, and what any thread does that touches it.

use std::{
    io, mem,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Instant,
};

use mcp_proto::{connection::Connection, rpc::Timestamp};
use mcp_service::{Link, Lobby};

use crate::{Options, Sink, crew::Crew, lock::lock, state::State};

/// Until when one sleeps who sleeps until told.
pub(crate) const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

/// One connection as all of its threads see it.
///
/// What they know of each other is in [`State`], under one lock that nobody keeps while waiting for anything else. The
/// condition variables only say that it is worth another look.
pub(crate) struct Driver<E> {
    pub(crate) crew: Arc<Crew>,
    /// Whoever holds it hands out events, so they come in order. It is taken before the state.
    pub(crate) turn: Mutex<()>,
    /// Wakes the writer.
    pub(crate) output: Condvar,
    /// Wakes the keeper.
    pub(crate) clock: Condvar,
    /// Wakes those who wait for the handshake or for the end.
    pub(crate) news: Condvar,
    pub(crate) lobby: Lobby,
    state: Mutex<State<E>>,
    epoch: Instant,
}

impl<E> Driver<E> {
    pub(crate) fn new(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        sink: Box<dyn Sink>,
        options: &Options,
    ) -> Self {
        Self {
            crew: Crew::new(options.handlers, options.backlog),
            turn: Mutex::default(),
            output: Condvar::new(),
            clock: Condvar::new(),
            news: Condvar::new(),
            lobby: Lobby::new(),
            state: Mutex::new(State::new(connection(Timestamp::ZERO), sink)),
            epoch: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::after_zero(self.epoch.elapsed())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<E>> {
        lock(&self.state)
    }

    /// When something is to be done next.
    pub(crate) fn due(&self, state: &State<E>) -> Timestamp {
        let due = state.connection.poll_timeout().map_or(NEVER, |deadline| deadline.at);
        self.lobby.next_alarm().map_or(due, |alarm| alarm.min(due))
    }

    /// Looks after what came of touching the connection: events, a nearer deadline, output, room.
    pub(crate) fn settle<'a>(&'a self, mut state: MutexGuard<'a, State<E>>) {
        state.collect();
        let due = self.due(&state);
        let woken = !state.events.is_empty() || state.closed.is_some();
        if state.asleep.is_some_and(|until| woken || due < until) {
            state.asleep = None;
            self.clock.notify_one();
        }
        let state = self.flush(state);
        let vacancies = self.lobby.vacancies(&state.connection);
        drop(state);
        self.lobby.announce(vacancies);
    }

    /// Writes what can be written without waiting. The rest is up to the writer, and so is closing.
    fn flush<'a>(&'a self, mut state: MutexGuard<'a, State<E>>) -> MutexGuard<'a, State<E>> {
        // Whoever writes already looks again before it stops.
        if state.blocked {
            return state;
        }
        let Some(mut sink) = state.sink.take() else { return state };
        if state.fill() {
            let out = mem::take(&mut state.out);
            drop(state);
            let result = sink.try_write(&out);
            state = self.lock();
            state.out = out;
            // An error is for the writer, who will run into it again.
            state.wrote(result.unwrap_or(0));
            state.fill();
        }
        state.sink = Some(sink);
        if !state.out.is_empty() || state.connection.is_drained() {
            state.blocked = true;
            self.output.notify_one();
        }
        state
    }

    /// Nothing can be read or written any more.
    pub(crate) fn fail(&self, error: &io::Error) {
        let mut state = self.lock();
        state.connection.handle_lost(error.to_string());
        self.settle(state);
    }
}

impl<E: Send + 'static> Link<E> for Driver<E> {
    fn with(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp)) {
        let mut state = self.lock();
        f(&mut state.connection, self.now());
        self.settle(state);
    }

    fn lobby(&self) -> &Lobby {
        &self.lobby
    }
}
