//! Calls that became tasks (2025-11-25) and whose progress goes on.

use alloc::collections::VecDeque;

use crate::{collections::LazyBox, rpc::CallId};

/// Calls that were answered with a task, and the task. Its id may be as long as the peer likes, so it is kept as a number:
/// should two of them ever have the same, one is not followed to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskProgressTable(pub(crate) LazyBox<VecDeque<(CallId, u64)>>);

impl TaskProgressTable {
    pub(crate) fn contains(&self, call: CallId) -> bool {
        self.0.iter().any(|(followed, _)| *followed == call)
    }

    pub(crate) fn end(&mut self, task: u64) {
        if let Some(tasks) = self.0.made() {
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
