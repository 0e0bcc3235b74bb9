//! The calls that became tasks (2025-11-25). Their progress is still reported after the response.

use alloc::collections::VecDeque;

use crate::{collections::LazyBox, rpc::CallId};

/// The calls whose response was a task, each with the hash of the task id. The peer chooses the length of the id, so
/// only the hash is stored. If the hashes of two tasks collide, the end of one also ends the progress of the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskProgressTable(pub(crate) LazyBox<VecDeque<(CallId, u64)>>);

impl TaskProgressTable {
    pub(crate) fn contains(&self, call: CallId) -> bool {
        self.0.iter().any(|(followed, _)| *followed == call)
    }

    pub(crate) fn end(&mut self, task: u64) {
        if let Some(tasks) = self.0.allocated_mut() {
            tasks.retain(|(_, followed)| *followed != task);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0 = LazyBox::default();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
