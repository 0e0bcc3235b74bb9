//! How tasks take room, and give way.

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

    /// A task is gone from the table, and takes no room any more.
    pub(super) fn release(&self, table: &mut Table, task: &Task) {
        self.reweigh(task, &mut lock(&task.state), 0);
        task.share.gone();
        table.shares.settle(&task.share);
    }

    /// Sees to it that there is room for so many more tasks and bytes of a holder, if it can be had at the cost of tasks that
    /// have ended: the holder's own where its share is full, and those of others where there is no room at all. First go tasks
    /// whose result was fetched, the oldest before the others; then those of the holder who has most. Tasks of holders who have
    /// no more than this one would have do not give way to it before their result was fetched. If it cannot be had, nothing is
    /// removed.
    pub(super) fn make_room(&self, table: &mut Table, share: &Arc<Share>, tasks: usize, bytes: usize) -> bool {
        let policy = &self.policy;
        // What is there behind what is to come, of the holder and of all.
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

    /// A task weighs this much from now on, if there is room for it. There is always room for less.
    pub(super) fn reweigh(&self, task: &Task, state: &mut State, weight: usize) -> bool {
        let fits = match weight.checked_sub(state.weight) {
            Some(more) => task.share.hold(&self.bytes, more, &self.policy),
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
