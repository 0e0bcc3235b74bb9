//! The representation of tasks for clients, and notifications of their status.

use std::{sync::Arc, time::Duration};

use mcp_proto::{
    connection::{Connection, ServerRole},
    schema::{
        InputRequests, TaskStatus,
        tasks_extension::{Task as Shown, TaskParams},
    },
};

use super::{Subscriber, Task, TaskState, Tasks};
use crate::{inbound::state::SessionState, util::lock::lock};

impl Tasks {
    /// Returns the current state of a task.
    pub(in crate::server::tasks) fn show(&self, task: &Task) -> Shown {
        self.describe(task, &lock(&task.state))
    }

    /// Returns the current state of a task as `show` does, for its client. After that an ended task may be removed for
    /// others.
    pub(in crate::server::tasks) fn fetch(&self, task: &Task) -> Shown {
        let mut state = lock(&task.state);
        state.fetched |= state.status.is_terminal();
        self.describe(task, &state)
    }

    fn describe(&self, task: &Task, state: &TaskState) -> Shown {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let pending = state.pending_inputs.iter().map(|pending| (pending.key.clone(), pending.input_request.clone()));
        let input_requests = (state.status == TaskStatus::InputRequired).then(|| pending.collect::<InputRequests>());
        let (result, error) = match &state.outcome {
            Some(Ok(result)) => (Some(result.clone()), None),
            Some(Err(error)) if state.status == TaskStatus::Failed => (None, Some(error.clone().into())),
            _ => (None, None),
        };
        let (created, updated) = (self.clock.iso(task.created), self.clock.iso(state.updated));
        Shown {
            status_message: state.message.clone(),
            ttl_ms: task.ttl.map(millis),
            poll_interval_ms: Some(millis(self.policy.poll_interval)),
            input_requests,
            result,
            error,
            ..Shown::new(&*task.id, state.status.clone(), created, updated)
        }
    }

    /// Notifies the subscriptions of this connection of a task from now on, and of its status now.
    pub(in crate::server::tasks) fn subscribe(
        &self,
        task: &Task,
        session: &Arc<SessionState<ServerRole>>,
        conn: &mut Connection<ServerRole>,
    ) {
        let state = &mut *lock(&task.state);
        state.subscribers.retain(|subscriber| subscriber.session.strong_count() > 0);
        let is_same = |subscriber: &&mut Subscriber| std::ptr::eq(subscriber.session.as_ptr(), Arc::as_ptr(session));
        match state.subscribers.iter_mut().find(is_same) {
            // Another subscription over the same connection needs the current status, too.
            Some(subscriber) => subscriber.notified = 0,
            None => state.subscribers.push(Subscriber { session: Arc::downgrade(session), notified: 0 }),
        }
        self.notify_session(task, state, Arc::as_ptr(session), conn);
    }

    /// Notifies the subscriptions to a task, and the store, of its status.
    pub(crate) fn notify_subscribers(&self, task: &Task) {
        if let Some(store) = &self.store {
            let state = &mut *lock(&task.state);
            if state.noted != state.revision {
                state.noted = state.revision;
                store.changed(&task.id);
            }
        }
        let sessions: Vec<_> = {
            let mut state = lock(&task.state);
            state.subscribers.retain(|subscriber| subscriber.session.strong_count() > 0);
            state.subscribers.iter().filter_map(|subscriber| subscriber.session.upgrade()).collect()
        };
        for session in sessions {
            if let Some(connection) = session.calls.connection() {
                connection
                    .update(|conn, _| self.notify_session(task, &mut lock(&task.state), Arc::as_ptr(&session), conn));
            }
        }
    }

    /// Notifies one session. The status is read when the notification is queued, so no client gets an older status
    /// after a newer one.
    fn notify_session(
        &self,
        task: &Task,
        state: &mut TaskState,
        session: *const SessionState<ServerRole>,
        conn: &mut Connection<ServerRole>,
    ) {
        let revision = state.revision;
        let is_due = |subscriber: &Subscriber| {
            std::ptr::eq(subscriber.session.as_ptr(), session) && subscriber.notified < revision
        };
        let Some(at) = state.subscribers.iter().position(is_due) else { return };
        // A client that does not read notifications has to poll.
        if conn.notify(&TaskParams::from(self.describe(task, state))).is_ok() {
            state.subscribers[at].notified = revision;
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::{protocol::ProtocolVersion, rpc::Timestamp};

    use super::*;
    use crate::{
        Host, Service, TaskPolicy, inbound::in_flight::InFlight, server::tasks::shares::TaskHolder, tests::pair::Pair,
        util::random::Random,
    };

    #[test]
    fn subscribers_that_have_ended_are_removed() {
        let service = Service::builder("test", "1").build().expect("a good service");
        let host = Host::builder("client", "1").build();
        let [first, second] = [(); 2].map(|()| Pair::new(&host, &service, ProtocolVersion::V2026_07_28));
        let tasks = Tasks::new(TaskPolicy::default(), Random::default(), None);
        let in_flight = InFlight::of_task("x".into(), None);
        let task = tasks
            .create(Timestamp::ZERO, (None, vec![]), TaskHolder::Connection(1), &in_flight, 0)
            .expect("there is room");
        let subscribe = |pair: &Pair| {
            pair.server.with_conn(|conn| tasks.subscribe(&task, pair.server_session.shared(), conn));
        };
        let count = || lock(&task.state).subscribers.len();
        subscribe(&first);
        subscribe(&first);
        subscribe(&second);
        tasks.notify_subscribers(&task);
        assert_eq!(count(), 2);
        drop(first);
        subscribe(&second);
        assert_eq!(count(), 1);
        drop(second);
        tasks.notify_subscribers(&task);
        assert_eq!(count(), 0);
    }
}
