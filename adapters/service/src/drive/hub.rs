//! One connection on a runtime, as its driver, its handlers and its handles see it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::Waker,
    time::{Duration, Instant},
};

use mcp_proto::{
    connection::{CloseReason, Connection, Event},
    rpc::Timestamp,
};

use super::{Duty, Jobs, Options, Slot, Watch};
use crate::{Link, Lobby, sync::lock};

/// Until when one sleeps who sleeps until told.
pub(super) const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

/// One connection and its lock. The driver sleeps unless there is something to do; whoever causes something wakes it.
pub(super) struct Hub<E> {
    pub(super) state: Mutex<State<E>>,
    pub(super) jobs: Mutex<Work>,
    pub(super) lobby: Lobby,
    pub(super) duty: Duty,
    pub(super) stage: Watch<Stage>,
    epoch: Instant,
}

/// What is under the lock of the connection.
pub(super) struct State<E> {
    pub(super) connection: Connection<E>,
    /// What was not handed out yet.
    pub(super) events: VecDeque<Event<'static>>,
    /// The driver, while it sleeps.
    pub(super) asleep: Option<Asleep>,
}

/// A driver that sleeps.
pub(super) struct Asleep {
    pub(super) waker: Waker,
    pub(super) until: Timestamp,
    /// Whether it could write if there was something to write.
    pub(super) can_write: bool,
}

/// Jobs, and the tasks that have ended.
#[derive(Default)]
pub(super) struct Work {
    pub(super) jobs: Jobs,
    pub(super) ended: Vec<u64>,
}

/// How far a connection is on its way to the end.
#[derive(Debug, Default)]
pub(super) struct Stage {
    /// Why it ended, once the application knows.
    pub(super) closed: Option<CloseReason>,
    /// Nothing is left of it.
    pub(super) over: bool,
}

impl<E: 'static> Hub<E> {
    pub(super) fn new(connection: impl FnOnce(Timestamp) -> Connection<E>, options: &Options) -> Arc<Self> {
        let connection = connection(Timestamp::ZERO);
        Arc::new(Self {
            state: Mutex::new(State { connection, events: VecDeque::new(), asleep: None }),
            jobs: Mutex::new(Work { jobs: Jobs::new(options), ended: Vec::new() }),
            lobby: Lobby::new(),
            duty: Duty::default(),
            stage: Watch::default(),
            epoch: Instant::now(),
        })
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::after_zero(self.epoch.elapsed())
    }

    /// When that is on the clock of the runtime.
    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        self.epoch + Duration::from_nanos(at.as_nanos())
    }

    /// When something is to be done next.
    pub(super) fn due(&self, connection: &Connection<E>) -> Timestamp {
        let due = connection.poll_timeout().map_or(NEVER, |deadline| deadline.at);
        self.lobby.next_alarm().map_or(due, |alarm| alarm.min(due))
    }

    /// A job has ended, or was given up.
    pub(super) fn ended(&self, slot: Slot, task: Option<u64>) {
        {
            let mut work = lock(&self.jobs);
            work.jobs.ended(slot);
            work.ended.extend(task);
        }
        let asleep = lock(&self.state).asleep.take();
        if let Some(asleep) = asleep {
            asleep.waker.wake();
        }
    }
}

impl<E> State<E> {
    /// Takes the events that the connection has.
    pub(super) fn collect(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            self.events.push_back(event);
        }
    }
}

impl<E: Send + 'static> Link<E> for Hub<E> {
    fn with(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp)) {
        let mut state = lock(&self.state);
        f(&mut state.connection, self.now());
        state.collect();
        let due = self.due(&state.connection);
        let (has_events, has_output) = (!state.events.is_empty(), state.connection.has_output());
        let asleep = state.asleep.take_if(|it| has_events || due < it.until || it.can_write && has_output);
        let vacancies = self.lobby.vacancies(&state.connection);
        drop(state);
        self.lobby.announce(vacancies);
        if let Some(asleep) = asleep {
            asleep.waker.wake();
        }
    }

    fn lobby(&self) -> &Lobby {
        &self.lobby
    }
}
