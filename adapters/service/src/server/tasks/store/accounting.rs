//! The accounting of the number and the size of tasks, and the removal of tasks.

use std::{
    cmp::Reverse,
    sync::{Arc, atomic::Ordering},
};

use super::{Table, Task, TaskState, Tasks};
use crate::server::tasks::shares::Share;
use crate::util::lock::lock;

impl Tasks {
    pub(super) fn remove(&self, table: &mut Table, task: &Task) {
        if table.tasks.remove(&task.id).is_some() {
            if let Some(at) = task.expiry() {
                table.expiries.remove(&(at, task.id.clone()));
            }
            self.release(table, task);
        }
    }

    /// Releases the size of a task that was removed from the table.
    pub(super) fn release(&self, table: &mut Table, task: &Task) {
        self.resize(task, &mut lock(&task.state), 0);
        // The store removes it.
        self.store.iter().for_each(|store| store.changed(&task.id));
        task.share.remove_task();
        table.shares.remove_if_empty(&task.share);
    }

    /// Makes room for this many more tasks and bytes of a holder by removing ended tasks: the holder's own if its share
    /// is full, and those of all holders if the total is full. Tasks with a fetched result are removed first, oldest
    /// first, then those of the holder with most tasks or bytes. A task without a fetched result is removed only if it
    /// is the holder's own, or its holder has more than this one would have. Returns whether there is room; if not,
    /// nothing is removed.
    pub(super) fn make_room(&self, table: &mut Table, share: &Arc<Share>, tasks: usize, bytes: usize) -> bool {
        let policy = &self.policy;
        // The tasks and bytes after the change, of the holder and of all.
        let mut own = (share.tasks() + tasks, share.bytes().saturating_add(bytes));
        let mut all = (table.tasks.len() + tasks, self.bytes.load(Ordering::Relaxed).saturating_add(bytes));
        let exceeds_own =
            |own: (usize, usize)| own.0 > policy.max_tasks_per_principal || own.1 > policy.max_bytes_per_principal;
        let exceeds_total = |all: (usize, usize)| all.0 > policy.max_shared_tasks || all.1 > policy.max_shared_bytes;
        if !exceeds_own(own) && !exceeds_total(all) {
            return true;
        }
        let counts_tasks = all.0 > policy.max_shared_tasks;
        let usage_of = |share: &Share| if counts_tasks { share.tasks() } else { share.bytes() };
        let usage_after = usage_of(share).saturating_add(if counts_tasks { tasks } else { bytes });
        let ended = table.tasks.values().filter_map(|task| {
            let TaskState { status, fetched, updated, size, .. } = &*lock(&task.state);
            let is_own = Arc::ptr_eq(&task.share, share);
            let is_removable = status.is_terminal() && (is_own || *fetched || usage_of(&task.share) > usage_after);
            let usage = if *fetched { 0 } else { usage_of(&task.share) };
            is_removable.then(|| ((!fetched, Reverse(usage), *updated), is_own, *size, task.clone()))
        });
        let mut ended: Vec<_> = ended.collect();
        ended.sort_by_key(|(order, ..)| *order);
        let mut removed = Vec::new();
        for only_own in [true, false] {
            ended.retain(|(_, is_own, size, task)| {
                let exceeds = if only_own { exceeds_own(own) && *is_own } else { exceeds_total(all) };
                if exceeds {
                    all = (all.0 - 1, all.1.saturating_sub(*size));
                    if *is_own {
                        own = (own.0 - 1, own.1.saturating_sub(*size));
                    }
                    removed.push(task.clone());
                }
                !exceeds
            });
        }
        let has_room = !exceeds_own(own) && !exceeds_total(all);
        if has_room {
            removed.iter().for_each(|task| self.remove(table, task));
        }
        has_room
    }

    /// Changes the size of a task, if there is room for it. Returns whether it did; a smaller size always succeeds.
    pub(super) fn resize(&self, task: &Task, state: &mut TaskState, size: usize) -> bool {
        let fits = match size.checked_sub(state.size) {
            Some(more) => task.share.reserve(&self.bytes, more, &self.policy),
            None => {
                task.share.release(&self.bytes, state.size - size);
                true
            }
        };
        if fits {
            state.size = size;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            At, CallToolResult, TaskStatus, VERSION,
            tests::{at, create},
        },
        *,
    };
    use crate::{TaskPolicy, util::random::Random};

    #[test]
    fn result_takes_the_room_of_older_results_despite_a_message() {
        let written = At(&CallToolResult::text("done"), Some(VERSION)).to_json().expect("JSON").get().len();
        // There is room for both results, but not for the message of four bytes as well.
        let policy = TaskPolicy { max_bytes_per_principal: 2 * written + 2, ..TaskPolicy::default() };
        let tasks = Tasks::new(policy, Random::default(), None);
        let older = create(&tasks, 1);
        tasks.finish(at(1), &older, Ok(CallToolResult::text("don")));
        let task = create(&tasks, 0);
        lock(&older.state).fetched = true;
        let before = lock(&older.state).size;
        assert_eq!(before, written - 1);
        tasks.set_status_message(at(2), &task, "half");
        tasks.finish(at(3), &task, Ok(CallToolResult::text("done")));
        assert_eq!(lock(&task.state).status, TaskStatus::Completed);
        assert_eq!(tasks.bytes.load(Ordering::Relaxed), written + 4);
    }
}
