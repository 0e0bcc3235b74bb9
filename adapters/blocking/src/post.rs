//! Where what happens on a connection is handed on.

use std::{
    sync::{Arc, MutexGuard},
    time::{Duration, Instant},
};

use mcp_proto::connection::Event;
use mcp_service::{Application, Link};

use crate::{driver::Driver, lock::wait_for, state::State};

/// What a job weighs beside the text that it keeps.
const JOB: usize = 256;

/// What the threads of a connection have in common.
pub(crate) struct Post<E> {
    pub(crate) driver: Arc<Driver<E>>,
    pub(crate) link: Arc<dyn Link<E>>,
    pub(crate) application: Arc<dyn Application<E>>,
}

impl<E: 'static> Post<E> {
    /// Hands out the events that wait. The caller has the turn.
    pub(crate) fn hand_out_waiting<'a>(&'a self, mut state: MutexGuard<'a, State<E>>, reads: bool) {
        while let Some(event) = state.events.pop_front() {
            drop(state);
            self.hand_out(event, reads);
            state = self.driver.lock();
        }
    }

    /// Hands an event to the application. The caller has the turn; whoever `reads` comes for the job after that.
    pub(crate) fn hand_out(&self, event: Event<'_>, reads: bool) {
        let weight = match &event {
            Event::Notification { params, .. } => JOB + params.as_ref().map_or(0, |params| params.get().len()),
            Event::Progress { progress, .. } => JOB + progress.message.as_ref().map_or(0, |message| message.len()),
            Event::Violation(_) | Event::PeerError(_) => JOB,
            // Requests in flight are bounded by the connection itself.
            _ => 0,
        };
        let end = if let Event::Closed(reason) = &event { Some(reason.clone()) } else { None };
        let is_ready = event == Event::Ready;
        if let Some(job) = self.application.handle(&self.link, event) {
            self.driver.crew.push(job, weight, reads);
        }
        if is_ready || end.is_some() {
            let mut state = self.driver.lock();
            state.closed = end;
            self.driver.settle(state);
            self.driver.news.notify_all();
        }
    }

    /// Waits until `condition` holds, but no longer than `patience`; whether it does.
    pub(crate) fn wait_until(&self, patience: Duration, condition: impl Fn(&State<E>) -> bool) -> bool {
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
