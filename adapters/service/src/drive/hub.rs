//! One connection on a runtime, as its driver, its handlers and its handles see it.

use std::{
    collections::VecDeque,
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard},
    task::Waker,
    time::{Duration, Instant},
};

use mcp_proto::{
    connection::{CloseReason, Connection, Event},
    rpc::Timestamp,
};

use super::{Duty, Jobs, Options, Slot, Watch, carrier::Carrier};
use crate::{Link, Lobby, sync::lock};

/// Until when one sleeps who sleeps until told.
pub(super) const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

/// One connection and its lock. The driver sleeps unless there is something to do; whoever causes something wakes it.
pub(super) struct Hub<E, C = Connection<E>> {
    pub(super) state: Mutex<State<C>>,
    pub(super) jobs: Mutex<Work>,
    pub(super) lobby: Lobby,
    pub(super) duty: Duty,
    pub(super) stage: Watch<Stage>,
    epoch: Instant,
    end: PhantomData<fn() -> E>,
}

/// What is under the lock of the connection.
pub(super) struct State<C> {
    pub(super) carrier: C,
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

impl<E: 'static, C: Carrier<E>> Hub<E, C> {
    /// A connection that begins with the clock.
    pub(super) fn new(carrier: impl FnOnce(Timestamp) -> C, options: &Options) -> Arc<Self> {
        Self::since(Instant::now(), carrier(Timestamp::ZERO), options)
    }

    /// A connection whose clock has run for a while.
    pub(super) fn since(epoch: Instant, carrier: C, options: &Options) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State { carrier, events: VecDeque::new(), asleep: None }),
            jobs: Mutex::new(Work { jobs: Jobs::new(options), ended: Vec::new() }),
            lobby: Lobby::new(),
            duty: Duty::default(),
            stage: Watch::default(),
            epoch,
            end: PhantomData,
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
    pub(super) fn due(&self, carrier: &C) -> Timestamp {
        let due = carrier.due().unwrap_or(NEVER);
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

impl<E: 'static, C: Carrier<E>> Hub<E, C> {
    /// Does something with what carries the connection, and sees to what comes of it.
    pub(super) fn run<T>(&self, f: impl FnOnce(&mut C, Timestamp) -> T) -> T {
        let mut state = lock(&self.state);
        let now = self.now();
        let result = f(&mut state.carrier, now);
        self.settle(state, now);
        result
    }

    /// Sees to what has come of whatever was done.
    pub(super) fn settle(&self, mut state: MutexGuard<'_, State<C>>, now: Timestamp) {
        state.collect();
        let due = self.due(&state.carrier);
        let (has_events, has_output) = (!state.events.is_empty(), state.carrier.has_output());
        let asleep = state.asleep.take_if(|it| has_events || due < it.until || it.can_write && has_output);
        let woken = state.carrier.woken();
        let vacancies = self.lobby.vacancies(state.carrier.connection(now));
        drop(state);
        self.lobby.announce(vacancies);
        woken.into_iter().for_each(Waker::wake);
        if let Some(asleep) = asleep {
            asleep.waker.wake();
        }
    }
}

impl<C> State<C> {
    /// Takes the events that there are.
    pub(super) fn collect<E>(&mut self)
    where
        C: Carrier<E>,
    {
        while let Some(event) = self.carrier.poll_event() {
            self.events.push_back(event);
        }
    }
}

impl<E: Send + 'static, C: Carrier<E>> Link<E> for Hub<E, C> {
    fn with(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp)) {
        self.run(|carrier, now| f(carrier.connection(now), now));
    }

    fn view(&self, f: &mut dyn FnMut(&Connection<E>)) {
        f(lock(&self.state).carrier.view());
    }

    fn lobby(&self) -> &Lobby {
        &self.lobby
    }
}
