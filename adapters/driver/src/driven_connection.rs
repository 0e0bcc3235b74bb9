//! A client connection whose callers run its tasks.

use std::{sync::Arc, task::Context};

use mcp_proto::{
    connection::{ClientRole, Connection},
    rpc::{CallId, Timestamp},
};
use mcp_service::driver_api::{ConnectionHandle, Waiters, WaitingThread};

use crate::runtime::{CallerTasks, Runtime};

/// A client connection whose callers run its tasks.
pub struct DrivenConnection {
    connection: Arc<dyn ConnectionHandle<ClientRole>>,
    tasks: Arc<dyn CallerTasks>,
}

impl DrivenConnection {
    /// Creates a connection from one that has these tasks.
    pub fn new(connection: Arc<dyn ConnectionHandle<ClientRole>>, tasks: Arc<dyn CallerTasks>) -> Self {
        Self { connection, tasks }
    }
}

/// Returns the connection that a client uses, whose tasks run on this runtime.
pub(crate) fn client_connection<R: Runtime>(
    runtime: &R,
    connection: Arc<dyn ConnectionHandle<ClientRole>>,
) -> Arc<dyn ConnectionHandle<ClientRole>> {
    match runtime.caller_tasks() {
        Some(tasks) => Arc::new(DrivenConnection::new(connection, tasks)),
        None => connection,
    }
}

impl ConnectionHandle<ClientRole> for DrivenConnection {
    fn with_mut(&self, f: &mut dyn FnMut(&mut Connection<ClientRole>, Timestamp)) {
        self.tasks.run_after(&mut || self.connection.with_mut(f));
    }

    fn with_mut_untimed(&self, f: &mut dyn FnMut(&mut Connection<ClientRole>)) {
        self.tasks.run_after(&mut || self.connection.with_mut_untimed(f));
    }

    fn with_mut_before_wait(&self, f: &mut dyn FnMut(&mut Connection<ClientRole>, Timestamp)) {
        self.tasks.run_before_wait(&mut || self.connection.with_mut(f));
    }

    fn with_ref(&self, f: &mut dyn FnMut(&Connection<ClientRole>)) {
        self.connection.with_ref(f);
    }

    fn waiters(&self) -> &Waiters {
        self.connection.waiters()
    }

    fn drive(&self, thread: &WaitingThread) {
        self.tasks.drive(thread);
    }

    fn drives_in_tasks(&self) -> bool {
        self.tasks.drives_in_tasks()
    }

    fn poll_drive(&self, call: CallId, cx: &Context<'_>) {
        self.tasks.poll_drive(call, cx);
    }

    fn end_drive(&self, call: CallId) {
        self.tasks.end_drive(call);
    }
}
