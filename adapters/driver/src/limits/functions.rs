//! Limits the blocking functions that run for all connections of a listener, or for all sessions of an endpoint.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use crate::sync::lock;
use crate::{
    limits::quota::{Permit, Quota},
    runtime::{Runtime, sleep},
};
use mcp_service::driver_api::{Holder, Instant};

/// A callback that starts a function on a thread that may block. The function drops the guard when it ends.
type Start = Box<dyn FnOnce(FunctionGuard) + Send>;

/// How many functions of one client may wait, as a multiple of the number that may run for all clients.
const WAITING: usize = 4;

/// The blocking functions that run or wait to start. Their number is bounded in total and per client, so that one
/// client cannot take every thread of a pool.
pub(crate) struct Functions {
    quota: Arc<Quota>,
    /// How long a function waits to start.
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Functions that wait to start, with their deadlines. No queue is empty.
    waiting: BTreeMap<Holder, VecDeque<(Option<Instant>, Start)>>,
    /// Set while a task runs that drops functions whose deadlines have passed.
    watched: bool,
    /// The client whose waiting function was started last.
    last: Option<Holder>,
    /// Set while a thread starts waiting functions. It checks for the next one after each of them.
    starting: bool,
}

impl Functions {
    #[cfg(any(feature = "http", feature = "os"))]
    pub(crate) fn new(most: usize, timeout: Duration) -> Arc<Self> {
        Arc::new(Self { quota: Quota::new(most.max(1)), timeout, state: Mutex::default() })
    }

    /// Starts a function now, or when there is a permit for this client. Drops it if too many functions of this client
    /// wait already, or when it has waited for too long. Dropping it responds to its request with an error.
    pub(crate) fn begin<R: Runtime>(self: &Arc<Self>, runtime: &R, holder: &Holder, start: Start) {
        if self.begin_or_wait(holder, start) {
            let (functions, runtime) = (Arc::downgrade(self), runtime.clone());
            R::detach(runtime.clone().spawn(watch(runtime, functions)));
        }
    }

    /// Starts a function or queues it. Returns whether the caller has to start the task that drops late functions.
    fn begin_or_wait(self: &Arc<Self>, holder: &Holder, start: Start) -> bool {
        match self.quota.take(holder, 1) {
            Some(permit) => {
                start(FunctionGuard { functions: self.clone(), permit: Some(permit) });
                false
            }
            None => {
                let (refused, is_watched) = {
                    let until = Instant::now().checked_add(self.timeout);
                    let state = &mut *lock(&self.state);
                    let waiting = state.waiting.entry(holder.clone()).or_default();
                    let has_room = waiting.len() < self.quota.capacity().saturating_mul(WAITING);
                    if has_room {
                        waiting.push_back((until, start));
                        // Without a deadline there is nothing to watch for.
                        (None, until.is_none() || mem::replace(&mut state.watched, true))
                    } else {
                        (Some(start), true)
                    }
                };
                // Dropped outside of the lock: it responds to its request, which takes locks.
                drop(refused);
                // A function may have ended before this one was queued.
                self.begin_next();
                !is_watched
            }
        }
    }

    /// Drops the functions whose deadlines have passed. Returns the next deadline, or `None` if there is none.
    fn drop_late(&self, now: Instant) -> Option<Instant> {
        let (mut late, mut next) = (Vec::new(), None);
        {
            let state = &mut *lock(&self.state);
            state.waiting.retain(|_, starts| {
                while starts.front().is_some_and(|(until, _)| until.is_some_and(|until| until <= now)) {
                    late.extend(starts.pop_front());
                }
                let first = starts.front().and_then(|(until, _)| *until);
                next = [next, first].into_iter().flatten().min();
                !starts.is_empty()
            });
            state.watched = next.is_some();
        }
        // Dropped outside of the lock: they respond to their requests, which takes locks and may panic.
        for start in late {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(start)));
        }
        next
    }

    /// Starts waiting functions while there are permits for them.
    fn begin_next(self: &Arc<Self>) {
        if mem::replace(&mut lock(&self.state).starting, true) {
            return;
        }
        while let Some((start, permit)) = self.next() {
            let guard = FunctionGuard { functions: self.clone(), permit: Some(permit) };
            // If no thread can be started, the request gets an error, and the next function is started.
            let _ = catch_unwind(AssertUnwindSafe(|| start(guard)));
        }
    }

    /// Takes the next function that may start. If there is none, the function that ends next searches again.
    fn next(&self) -> Option<(Start, Permit)> {
        let state = &mut *lock(&self.state);
        let found = state.take_next(&self.quota);
        state.starting = found.is_some();
        found
    }
}

impl State {
    /// Takes a function of the next client that may start one. Clients take turns, in the order of their holders.
    fn take_next(&mut self, quota: &Arc<Quota>) -> Option<(Start, Permit)> {
        // If capacity is free, only clients that hold a part of the quota are refused, and those are few: the search is
        // short.
        if quota.taken() >= quota.capacity() {
            return None;
        }
        let last = self.last.as_ref().unwrap_or(&Holder::Unknown);
        let behind = self.waiting.range((Bound::Excluded(last), Bound::Unbounded));
        let mut clients = behind.chain(self.waiting.range(..=last)).map(|(holder, _)| holder);
        let (holder, permit) = clients.find_map(|holder| Some((holder.clone(), quota.take(holder, 1)?)))?;
        let starts = self.waiting.get_mut(&holder)?;
        let (_, start) = starts.pop_front()?;
        if starts.is_empty() {
            self.waiting.remove(&holder);
        }
        self.last = Some(holder);
        Some((start, permit))
    }
}

/// Drops late functions, until none with a deadline waits any more.
async fn watch<R: Runtime>(runtime: R, functions: Weak<Functions>) {
    loop {
        let Some(next) = functions.upgrade().and_then(|functions| functions.drop_late(Instant::now())) else { return };
        sleep(&runtime, next.saturating_duration_since(Instant::now())).await;
    }
}

/// The permit of a running function. Dropping it starts waiting functions.
pub(crate) struct FunctionGuard {
    functions: Arc<Functions>,
    permit: Option<Permit>,
}

impl Drop for FunctionGuard {
    fn drop(&mut self) {
        self.permit = None;
        self.functions.begin_next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT_LIMIT: Duration = Duration::from_secs(60);

    /// The time is a parameter, so the test does not wait.
    #[test]
    fn functions_wait_for_a_bounded_time() {
        let (functions, running) = (Functions::new(8, WAIT_LIMIT), Arc::new(Mutex::new(Vec::new())));
        let clients = [1, 2].map(|last| Holder::at([127, 0, 0, last].into()));
        let waiting = || lock(&functions.state).waiting.values().map(VecDeque::len).sum::<usize>();
        let mut watches = 0;
        for _ in 0..9 {
            for client in &clients {
                let running = running.clone();
                let begun = functions.begin_or_wait(client, Box::new(move |guard| lock(&running).push(guard)));
                watches += usize::from(begun);
            }
        }
        assert_eq!((lock(&running).len(), waiting(), watches), (8, 10, 1));
        let next = functions.drop_late(Instant::now()).expect("some wait");
        assert!(next <= Instant::now() + WAIT_LIMIT);
        assert_eq!(waiting(), 10, "their time is not over");
        assert_eq!(functions.drop_late(Instant::now() + WAIT_LIMIT), None);
        assert_eq!((lock(&running).len(), waiting()), (8, 0));
        // The next function that waits needs a new task.
        assert!(functions.begin_or_wait(&clients[0], Box::new(|_| ())));
    }

    #[test]
    fn clients_do_not_exhaust_functions_of_others() {
        let (functions, running) = (Functions::new(16, WAIT_LIMIT), Arc::new(Mutex::new(Vec::new())));
        let [one, other] = [1, 2].map(|last| Holder::at([127, 0, 0, last].into()));
        let begin = |holder: &Holder| {
            let (running, whose) = (running.clone(), holder.clone());
            let _ = functions.begin_or_wait(holder, Box::new(move |guard| lock(&running).push((whose, guard))));
        };
        let count = |holder: &Holder| lock(&running).iter().filter(|(whose, _)| whose == holder).count();
        (0..40).for_each(|_| begin(&one));
        assert_eq!((count(&one), functions.quota.has_room(&one, 1)), (14, false));
        begin(&other);
        assert_eq!((count(&other), functions.quota.has_room(&other, 1)), (1, true));
        let ended = lock(&running).remove(0);
        drop(ended);
        assert_eq!((count(&one), lock(&functions.state).waiting.values().map(VecDeque::len).sum::<usize>()), (14, 25));
        // As functions end, all waiting ones start.
        let mut all = 0;
        loop {
            let ended = lock(&running).pop();
            let Some(ended) = ended else { break };
            drop(ended);
            all += 1;
        }
        assert_eq!((all, functions.quota.taken(), lock(&functions.state).waiting.len()), (40, 0, 0));
        // Functions beyond the limit of waiting ones are dropped.
        (0..100).for_each(|_| begin(&one));
        assert_eq!(lock(&functions.state).waiting[&one].len(), 16 * WAITING);
    }

    /// Running functions end in the order in which they began.
    #[test]
    fn waiting_functions_of_clients_alternate() {
        let (functions, running) = (Functions::new(16, WAIT_LIMIT), Arc::new(Mutex::new(VecDeque::new())));
        let clients = [1, 2, 3, 4, 5].map(|last| Holder::at([127, 0, 0, last].into()));
        let mut begun = [0; 5];
        for client in &clients {
            for _ in 0..60 {
                let (running, whose) = (running.clone(), client.clone());
                functions.begin_or_wait(client, Box::new(move |guard| lock(&running).push_back((whose, guard))));
            }
        }
        for _ in 0..80 {
            let (whose, guard) = lock(&running).pop_front().expect("there are functions");
            drop(guard);
            clients.iter().zip(&mut begun).for_each(|(client, begun)| *begun += usize::from(*client == whose));
        }
        assert!(begun.iter().all(|begun| *begun >= 5), "{begun:?}");
    }

    /// A start can fail, because the system has no threads left.
    #[test]
    fn failed_start_does_not_block_other_functions() {
        let (functions, running) = (Functions::new(1, WAIT_LIMIT), Arc::new(Mutex::new(Vec::new())));
        let holder = Holder::at([127, 0, 0, 1].into());
        let keep = |running: &Arc<Mutex<Vec<FunctionGuard>>>| {
            let running = running.clone();
            Box::new(move |guard| lock(&running).push(guard))
        };
        functions.begin_or_wait(&holder, keep(&running));
        functions.begin_or_wait(&holder, Box::new(|_| std::panic::resume_unwind(Box::new("there is no thread"))));
        functions.begin_or_wait(&holder, keep(&running));
        let first = lock(&running).remove(0);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(first)));
        assert_eq!(lock(&running).len(), 1, "the last one runs");
        lock(&running).clear();
        assert_eq!((functions.quota.taken(), lock(&functions.state).waiting.len()), (0, 0));
    }

    #[test]
    fn wait_time_may_be_unlimited() {
        let (functions, running) = (Functions::new(1, Duration::MAX), Arc::new(Mutex::new(Vec::new())));
        let holder = Holder::at([127, 0, 0, 1].into());
        for _ in 0..3 {
            let running = running.clone();
            let begun = functions.begin_or_wait(&holder, Box::new(move |guard| lock(&running).push(guard)));
            assert!(!begun, "no task has to look for late functions");
        }
        assert_eq!(functions.drop_late(Instant::now()), None);
        for _ in 0..3 {
            let first = lock(&running).remove(0);
            drop(first);
        }
        assert_eq!((functions.quota.taken(), lock(&functions.state).waiting.len()), (0, 0));
    }
}
