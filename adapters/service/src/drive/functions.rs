//! The functions that run for all sessions of an endpoint.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::{Arc, Mutex},
};

use super::{Holder, Permit, Quota};
use crate::sync::lock;

/// Starts a function on a thread that may block. The function drops the turn when it is over.
type Start = Box<dyn FnOnce(Turn) + Send>;

/// How many times as many functions of one client may wait as may run for all.
const WAITING: usize = 4;

/// Functions that run for all sessions of an endpoint, and those that wait to begin. They are bounded in all and by client, so
/// that one client cannot take every thread of a pool.
pub(super) struct Functions {
    quota: Arc<Quota>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Functions that wait to begin. There are no empty queues.
    waiting: BTreeMap<Holder, VecDeque<Start>>,
    /// A thread starts those that may begin, and looks again after each of them.
    starting: bool,
}

impl Functions {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { quota: Quota::new(most.max(1)), state: Mutex::default() })
    }

    /// Starts a function now, or when others of this client have ended. Drops it if too many of this client wait already, so
    /// that its request is answered with an error.
    pub(super) fn begin(self: &Arc<Self>, holder: &Holder, start: Start) {
        match self.quota.take(holder, 1) {
            Some(permit) => start(Turn { functions: self.clone(), permit: Some(permit) }),
            None => {
                let refused = {
                    let state = &mut *lock(&self.state);
                    let waiting = state.waiting.entry(holder.clone()).or_default();
                    let has_room = waiting.len() < self.quota.capacity().saturating_mul(WAITING);
                    if has_room {
                        waiting.push_back(start);
                        None
                    } else {
                        Some(start)
                    }
                };
                // What answers its request takes locks of its own.
                drop(refused);
                // One may have ended before this one waited.
                self.begin_next();
            }
        }
    }

    /// Starts functions that wait, as long as there is room for them.
    fn begin_next(self: &Arc<Self>) {
        if mem::replace(&mut lock(&self.state).starting, true) {
            return;
        }
        while let Some((start, permit)) = self.next() {
            start(Turn { functions: self.clone(), permit: Some(permit) });
        }
    }

    /// The next function that may begin. If there is none, the next one that ends has to look.
    fn next(&self) -> Option<(Start, Permit)> {
        let state = &mut *lock(&self.state);
        let found = state.waiting.iter_mut().find_map(|(holder, starts)| {
            let permit = self.quota.take(holder, 1)?;
            Some((starts.pop_front()?, permit, holder.clone(), starts.is_empty()))
        });
        state.starting = found.is_some();
        let (start, permit, holder, is_last) = found?;
        if is_last {
            state.waiting.remove(&holder);
        }
        Some((start, permit))
    }
}

/// The turn of a function that runs. Dropping it lets others begin.
pub(super) struct Turn {
    functions: Arc<Functions>,
    permit: Option<Permit>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.permit = None;
        self.functions.begin_next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_one_client_wait_for_each_other_alone() {
        let (functions, running) = (Functions::new(16), Arc::new(Mutex::new(Vec::new())));
        let [one, other] = [1, 2].map(|last| Holder::at([127, 0, 0, last].into()));
        let begin = |holder: &Holder| {
            let (running, whose) = (running.clone(), holder.clone());
            functions.begin(holder, Box::new(move |turn| lock(&running).push((whose, turn))));
        };
        let count = |holder: &Holder| lock(&running).iter().filter(|(whose, _)| whose == holder).count();
        (0..40).for_each(|_| begin(&one));
        assert_eq!((count(&one), functions.quota.has_room(&one, 1)), (14, false));
        begin(&other);
        assert_eq!((count(&other), functions.quota.has_room(&other, 1)), (1, true));
        let ended = lock(&running).remove(0);
        drop(ended);
        assert_eq!((count(&one), lock(&functions.state).waiting.values().map(VecDeque::len).sum::<usize>()), (14, 25));
        // As they end, all have their turn.
        let mut all = 0;
        loop {
            let ended = lock(&running).pop();
            let Some(ended) = ended else { break };
            drop(ended);
            all += 1;
        }
        assert_eq!((all, functions.quota.taken(), lock(&functions.state).waiting.len()), (40, 0, 0));
        // More than a client may have waiting is dropped.
        (0..100).for_each(|_| begin(&one));
        assert_eq!(lock(&functions.state).waiting[&one].len(), 16 * WAITING);
    }
}
