//! The accounting of the room that tasks take, and the removal of tasks.

use std::{
    cmp::Reverse,
    sync::{Arc, atomic::Ordering},
};

use super::{State, Table, Task, Tasks};
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

    /// Releases the room of a task that was removed from the table.
    pub(super) fn release(&self, table: &mut Table, task: &Task) {
        self.reweigh(task, &mut lock(&task.state), 0);
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
        let is_own =
            |own: (usize, usize)| own.0 > policy.max_tasks_per_principal || own.1 > policy.max_bytes_per_principal;
        let is_all = |all: (usize, usize)| all.0 > policy.max_shared_tasks || all.1 > policy.max_shared_bytes;
        if !is_own(own) && !is_all(all) {
            return true;
        }
        let is_crowded = all.0 > policy.max_shared_tasks;
        let takes = |share: &Share| if is_crowded { share.tasks() } else { share.bytes() };
        let would_take = takes(share).saturating_add(if is_crowded { tasks } else { bytes });
        let ended = table.tasks.values().filter_map(|task| {
            let State { status, fetched, updated, weight, .. } = &*lock(&task.state);
            let is_ours = Arc::ptr_eq(&task.share, share);
            let gives_way = status.is_terminal() && (is_ours || *fetched || takes(&task.share) > would_take);
            let most = if *fetched { 0 } else { takes(&task.share) };
            gives_way.then(|| ((!fetched, Reverse(most), *updated), is_ours, *weight, task.clone()))
        });
        let mut ended: Vec<_> = ended.collect();
        ended.sort_by_key(|(order, ..)| *order);
        let mut removed = Vec::new();
        for only_ours in [true, false] {
            ended.retain(|(_, is_ours, weight, task)| {
                let is_lacking = if only_ours { is_own(own) && *is_ours } else { is_all(all) };
                if is_lacking {
                    all = (all.0 - 1, all.1.saturating_sub(*weight));
                    if *is_ours {
                        own = (own.0 - 1, own.1.saturating_sub(*weight));
                    }
                    removed.push(task.clone());
                }
                !is_lacking
            });
        }
        let has_room = !is_own(own) && !is_all(all);
        if has_room {
            removed.iter().for_each(|task| self.remove(table, task));
        }
        has_room
    }

    /// Changes the size of a task, if there is room for it. Returns whether it did; a smaller size always succeeds.
    pub(super) fn reweigh(&self, task: &Task, state: &mut State, weight: usize) -> bool {
        let fits = match weight.checked_sub(state.weight) {
            Some(more) => task.share.reserve(&self.bytes, more, &self.policy),
            None => {
                task.share.release(&self.bytes, state.weight - weight);
                true
            }
        };
        if fits {
            state.weight = weight;
        }
        fits
    }
}
