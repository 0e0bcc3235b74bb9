//! Progress of requests that became tasks (2025-11-25), which is reported after the response too.

use alloc::string::String;
use core::hash::BuildHasher;

use foldhash::quality::FixedState;

use crate::{connection::engine::Engine, protocol::Method, rpc::CallId, wire::RawJson};

fn text(json: Option<RawJson<'_>>) -> Option<String> {
    json?.decode().ok()
}

impl Engine {
    /// Updates the table of tasks from a result: adds a new task, or removes one that has ended.
    pub(crate) fn watch_result(&mut self, call: CallId, method: Option<Method>, task: bool, result: &RawJson<'_>) {
        if task
            && let Some(started) = result.member("task")
            && let Some(id) = text(started.member("taskId"))
        {
            let number = self.number_of(&id);
            if self.task_progress.len() >= self.limits().tasks {
                self.task_progress.0.pop_front();
            }
            self.task_progress.0.push_back((call, number));
            // The task may already have ended.
            self.watch_task(&started);
        }
        match method {
            Some(Method::GetTask | Method::CancelTask) => self.watch_task(result),
            // Only a task that has ended has a result.
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

    /// Removes a task whose status is terminal: it has no more progress.
    pub(crate) fn watch_task(&mut self, task: &RawJson<'_>) {
        let status = text(task.member("status"));
        if matches!(status.as_deref(), Some("completed" | "failed" | "cancelled"))
            && let Some(id) = text(task.member("taskId"))
        {
            self.task_ended(&id);
        }
    }

    /// Removes a task that has ended. If messages can arrive in any order, its progress may still arrive, so the task
    /// stays until the table is full.
    fn task_ended(&mut self, task: &str) {
        if !self.unordered {
            self.task_progress.end(self.number_of(task));
        }
    }

    fn number_of(&self, task: &str) -> u64 {
        FixedState::with_seed(self.role_state.hash_seed()).hash_one(task)
    }
}
