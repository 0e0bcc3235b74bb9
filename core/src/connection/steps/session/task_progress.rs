//! Requests that became tasks (2025-11-25): their progress goes on after they were answered.

use alloc::string::String;
use core::hash::BuildHasher;

use foldhash::quality::FixedState;

use crate::{connection::engine::Engine, protocol::Method, rpc::CallId, wire::RawJson};

fn text(json: Option<RawJson<'_>>) -> Option<String> {
    json?.decode().ok()
}

impl Engine {
    /// Looks at a result for what it says about tasks.
    pub(crate) fn watch_result(&mut self, call: CallId, method: Option<Method>, task: bool, result: &RawJson<'_>) {
        if task
            && let Some(started) = result.member("task")
            && let Some(id) = text(started.member("taskId"))
        {
            let number = self.number_of(&id);
            if self.followed.len() >= self.limits().tasks {
                self.followed.0.pop_front();
            }
            self.followed.0.push_back((call, number));
            // It may be over already.
            self.watch_task(&started);
        }
        match method {
            Some(Method::GetTask | Method::CancelTask) => self.watch_task(result),
            // Only a task that is over has a result.
            Some(Method::GetTaskResult) => {
                let meta = result.member("_meta");
                let related = meta.as_ref().and_then(|meta| meta.member("io.modelcontextprotocol/related-task"));
                if let Some(id) = related.as_ref().and_then(|related| text(related.member("taskId"))) {
                    self.task_ended(&id);
                }
            }
            _ => {}
        }
    }

    /// Looks at the fields of a task: in the end it has no progress any more.
    pub(crate) fn watch_task(&mut self, task: &RawJson<'_>) {
        let status = text(task.member("status"));
        if matches!(status.as_deref(), Some("completed" | "failed" | "cancelled"))
            && let Some(id) = text(task.member("taskId"))
        {
            self.task_ended(&id);
        }
    }

    /// A task is over. Where messages come in any order, more may be said of it all the same: it is forgotten then when there are
    /// too many.
    fn task_ended(&mut self, task: &str) {
        if !self.unordered {
            self.followed.end(self.number_of(task));
        }
    }

    fn number_of(&self, task: &str) -> u64 {
        FixedState::with_seed(self.role_state.hash_seed()).hash_one(task)
    }
}
