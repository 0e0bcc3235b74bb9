//! The clock of tasks. It belongs to the service: each connection has its own clock, and tasks outlive connections.

use std::{
    sync::{Arc, Mutex, OnceLock, Weak},
    task::{Wake, Waker},
};

use mcp_proto::{connection::ServerRole, rpc::Timestamp};

use super::detached_sleep::SleepThread;
use crate::{
    driver_api::{connection_handle::ConnectionHandle, deferred::select_biased},
    inbound::{context::Context, state::SessionState},
    outbound::calls::Calls,
    util::lock::lock,
};

/// The relation between the clock of a connection and that of its service.
#[derive(Debug, Default)]
pub(in crate::server) struct TaskClock {
    /// One moment on the clock of the service, and on that of the connection.
    same: OnceLock<(Timestamp, Timestamp)>,
    alarm: Mutex<Alarm>,
}

/// The alarm of a connection for tasks that expire.
#[derive(Debug, Default)]
struct Alarm {
    /// The time and the key of its timer.
    timer: Option<(Timestamp, u64)>,
    /// Whether the connection has ended, so that its timers do not fire any more.
    is_over: bool,
}

impl Context<ServerRole> {
    /// Returns the current time on the clock of the service, which is the same for all connections.
    pub(crate) fn service_time(&self) -> Timestamp {
        self.shared.task_time(&self.connection)
    }
}

impl SessionState<ServerRole> {
    /// Returns the current time on the clock of tasks.
    pub(crate) fn task_time(&self, connection: &Arc<dyn ConnectionHandle<ServerRole>>) -> Timestamp {
        self.task_time_at(connection.update(|_, now| now))
    }

    /// Converts a time of this connection to the clock of tasks.
    pub(super) fn task_time_at(&self, now: Timestamp) -> Timestamp {
        let (service, connection) = self.task_epoch(now);
        service + now.saturating_since(connection)
    }

    fn task_epoch(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        *self.state.task_clock.same.get_or_init(|| (self.app.tasks().now(), now))
    }

    /// Ends the tasks that have expired, and sets an alarm for the next one, so that tasks expire even if no client
    /// asks about them. Every connection over which a client has asked about tasks does this.
    pub(super) fn expire_tasks(self: &Arc<Self>, connection: &Arc<dyn ConnectionHandle<ServerRole>>) {
        let tasks = self.app.tasks();
        for task in tasks.expire(self.task_time(connection)) {
            tasks.notify_subscribers(&task);
        }
        self.watch_tasks(connection);
    }

    pub(crate) fn watch_tasks(self: &Arc<Self>, connection: &Arc<dyn ConnectionHandle<ServerRole>>) {
        let Some(next) = self.app.tasks().next_expiry() else { return };
        let now = connection.update(|_, now| now);
        let at = now + next.saturating_since(self.task_time_at(now));
        let mut alarm = lock(&self.state.task_clock.alarm);
        if alarm.is_over {
            drop(alarm);
            return self.app.0.shared_tasks.watch_detached();
        }
        if alarm.timer.is_some_and(|(before, _)| before <= at) {
            return;
        }
        if let Some(before) = alarm.timer.take() {
            connection.waiters().remove_timer(before);
        }
        alarm.timer = Some(connection.waiters().add_timer(at, Waker::from(Arc::new(Watch(Arc::downgrade(self))))));
        drop(alarm);
        // This makes the driver compute its next deadline again.
        connection.update(|_, _| ());
    }

    /// Hands the alarm of a connection that has ended to the service.
    pub(in crate::server) fn unwatch_tasks(&self) {
        let timer = {
            let mut alarm = lock(&self.state.task_clock.alarm);
            alarm.is_over = true;
            alarm.timer.take()
        };
        if let Some(timer) = timer {
            if let Some(connection) = self.calls.connection() {
                connection.waiters().remove_timer(timer);
            }
            self.app.0.shared_tasks.watch_detached();
        }
    }

    #[cfg(test)]
    pub(crate) fn watches_tasks(&self) -> bool {
        lock(&self.state.task_clock.alarm).timer.is_some()
    }
}

/// Wakes to remove expired tasks.
struct Watch(Weak<SessionState<ServerRole>>);

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        let Some(shared) = self.0.upgrade() else { return };
        lock(&shared.state.task_clock.alarm).timer.take();
        if let Some(connection) = shared.calls.connection() {
            shared.expire_tasks(&connection);
        }
    }
}

/// Waits until a point of time on the clock of the connection, even if the connection closes before.
pub(crate) async fn sleep_detached<E: 'static>(
    connection: &Arc<dyn ConnectionHandle<E>>,
    calls: &Arc<Calls<E>>,
    until: Timestamp,
) {
    if select_biased(connection.sleep_until(until), calls.closed()).await.is_err() {
        // The timers of a closed connection do not fire any more.
        let left = until.saturating_since(connection.update(|_, now| now));
        SleepThread::of_process().sleep(left).await;
    }
}
