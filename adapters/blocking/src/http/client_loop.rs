//! The tasks of a client over HTTP. One thread at a time runs them, the **leader**: a thread of the application that
//! waits for a response (a **caller**), or else the **loop thread** of the client.
//!
//! ```text
//!   callers                        State (one lock)                     loop thread
//!   ---------                      ----------------                     -----------
//!   drive: waits for a response    ready tasks, timers, sockets
//!     no leader ------ leads ----> leader, leader_changes <--- leads -- no caller has led for
//!     a caller leads - parks ----> waiting_callers                      TAKE_OVER_AFTER, or
//!     loop thread                                                       needs_loop_thread is set
//!     runs tasks ----- parks ----> waiting_callers
//!     polls sockets -- takes over, and wakes it from poll(2)
//!
//!   run_after: begins a request,   push, timers, sockets
//!     does not wait
//!     no leader ------ leads, and runs up to BATCH ready tasks
//!                     (then a waiting caller, or else the loop thread, runs the others)
//!     another leads -- wakes it from poll(2)
//!
//!   leader: run ready tasks -> fire timers -> poll(2) on its wake pipe and the sockets -> repeat
//!   A leader that finds another value in `leader_changes` after poll(2) has lost the lead, and stops.
//! ```
//!
//! A caller does not hand its request over to another thread: it runs the tasks of the client itself, until its
//! response has arrived. So calls in a row need no change of threads. When a caller stops, one of `waiting_callers`
//! leads next. Without one, the loop thread leads if no caller has led for [`TAKE_OVER_AFTER`]. For a request without a
//! caller that directly follows one with a caller, this takes up to twice this time: if the loop thread led at once,
//! each of the calls in a row would wake it.
//!
//! `leader`, `leader_changes` and `polling` change only under the lock. Tasks, wakers and `poll(2)` run without it.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    future::Future,
    io,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
    thread,
    time::{Duration, Instant},
};

use mcp_driver::{
    CallerTasks, Interrupt, Runtime, WaitingThread, Watched,
    http::ConnectRuntime,
    is_in_handler,
    os::{
        thread::{lock, spawn, wait, wait_for},
        wake::{WakeReader, WakeWriter, wake_pair},
    },
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    loop_socket::{ClientStream, Socket},
    loop_task::{LoopTask, LoopTimer, Scheduler, TaskHandle},
    task::Running,
    threads::Threads,
};

/// The loop thread leads after this time without a leading caller. It checks that at this interval, so it can take
/// twice as long.
const TAKE_OVER_AFTER: Duration = Duration::from_millis(1);

/// The pause of the leader if the system cannot wait for sockets.
const POLL_BACKOFF: Duration = Duration::from_millis(10);

/// The most tasks that run before the sockets are checked.
const BATCH: usize = 64;

/// The timeout of an attempt to connect. An attempt cannot be cancelled, so its thread can live this long after its
/// request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

thread_local! {
    /// The loop whose tasks this thread runs.
    static CURRENT: RefCell<Option<ClientLoop>> = const { RefCell::new(None) };
    /// The address of the loop whose connection this thread changes. It then runs the tasks that the change wakes.
    static CHANGES: Cell<usize> = const { Cell::new(0) };
}

/// The tasks of a client, and their loop thread, which ends when all tasks have ended.
#[derive(Clone)]
pub(super) struct ClientLoop(Arc<Shared>);

pub(super) struct Shared {
    state: Mutex<State>,
    /// Notifies the loop thread while it does not lead.
    loop_thread_wakeup: Condvar,
    /// The pipes that wake the leader from its wait for sockets, one for each [`Leader`].
    wakes: [(WakeReader, WakeWriter); 2],
    /// The number of waits for sockets, and of changes of the leader.
    poll_epoch: AtomicU64,
    thread_ended: Watched<bool>,
    /// Runs functions that may block.
    functions: Threads,
}

/// A thread that may lead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leader {
    /// The loop thread.
    LoopThread,
    /// A thread of the application.
    Caller,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Arc<LoopTask<Shared>>>,
    leader: Option<Leader>,
    /// The number of changes of the leader. A leader that finds another number than at its start does not lead any
    /// more.
    leader_changes: u64,
    /// Set while the leader waits for sockets.
    polling: bool,
    /// Set while a wake-up was sent and not consumed yet, for each [`Leader`].
    woken: [bool; 2],
    /// The number of times that a caller which waited for a response has stopped leading.
    finished_callers: u64,
    /// Set if the loop thread has to lead at once.
    needs_loop_thread: bool,
    /// Set while the loop thread sleeps without a timeout.
    loop_thread_sleeps: bool,
    /// Callers that wait while another caller leads or the loop thread runs tasks.
    waiting_callers: Vec<WaitingThread>,
    timers: BTreeMap<(Instant, u64), Waker>,
    timers_set: u64,
    sockets: Vec<Arc<Socket>>,
    /// The number of tasks that have not ended. `None` until the first task.
    live_tasks: Option<usize>,
}

impl ClientLoop {
    /// Starts the loop thread of a client.
    ///
    /// # Errors
    /// If the system has no descriptors or threads left.
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            loop_thread_wakeup: Condvar::new(),
            wakes: [wake_pair()?, wake_pair()?],
            poll_epoch: AtomicU64::new(0),
            thread_ended: Watched::default(),
            functions: Threads::new(),
        });
        let this = Self(shared.clone());
        spawn("mcp-http-client", move || this.run())?;
        Ok(Self(shared))
    }

    /// Returns the threads for functions that may block.
    pub(super) fn functions(&self) -> &Threads {
        &self.0.functions
    }

    /// Waits until the loop thread has ended, but no longer than `timeout`. Returns whether it has.
    pub(super) fn wait_for_end(&self, timeout: Duration) -> bool {
        self.0.thread_ended.wait_until(timeout, |ended| *ended)
    }

    /// Returns whether this thread may lead: it runs no task of the loop, and its thread-local values still exist.
    fn may_lead(&self) -> bool {
        let is_current = |current: &Option<Self>| current.as_ref().is_some_and(|it| Arc::ptr_eq(&it.0, &self.0));
        CURRENT.try_with(|current| !is_current(&current.borrow())).unwrap_or(false)
    }

    /// Makes the current thread, which waits for a response, the leader. Fails if another caller leads, or the loop
    /// thread runs tasks.
    fn try_lead<'a>(&self, mut state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>, MutexGuard<'a, State>> {
        match state.leader {
            None => {}
            // The loop thread finds `leader_changes` changed, and stops leading.
            Some(Leader::LoopThread) if state.polling => self.0.wake_leader(&mut state),
            Some(_) => return Err(state),
        }
        state.set_leader(Leader::Caller);
        Ok(state)
    }

    /// Ends the lead of a caller. If other callers wait, one of them leads next. `has_waited` says whether the caller
    /// waited for a response.
    fn release_lead(&self, mut state: MutexGuard<'_, State>, has_waited: bool) {
        state.leader = None;
        // Callers that only begin requests do not count: they must not delay the loop thread, which reads the sockets.
        state.finished_callers += u64::from(has_waited);
        let next = state.next_caller();
        state.needs_loop_thread |= next.is_none() && !state.ready.is_empty();
        if state.needs_loop_thread || state.loop_thread_sleeps || state.has_ended() {
            self.0.loop_thread_wakeup.notify_one();
        }
        drop(state);
        if let Some(next) = next {
            next.notify();
        }
    }

    /// Runs tasks, and waits for timers and sockets, until `until` returns true or all tasks have ended. The loop
    /// thread also stops if a caller leads or waits to lead.
    fn lead<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        leader: Leader,
        until: impl Fn() -> bool,
    ) -> MutexGuard<'a, State> {
        let before = CURRENT.replace(Some(self.clone()));
        let change = state.leader_changes;
        self.0.poll_epoch.fetch_add(1, Ordering::Relaxed);
        let mut ready = Vec::new();
        loop {
            state = self.run_ready(state);
            if until() || state.has_ended() || leader == Leader::LoopThread && state.next_caller().is_some() {
                break;
            }
            let now = Instant::now();
            if state.timers.first_key_value().is_some_and(|((at, _), _)| *at <= now) {
                let due = state.take_due(now);
                drop(state);
                due.into_iter().for_each(Waker::wake);
                state = lock(&self.0.state);
                continue;
            }
            state.polling = state.ready.is_empty();
            let time = match state.timers.first_key_value() {
                _ if !state.polling => Some(Duration::ZERO),
                first => first.map(|((at, _), _)| at.saturating_duration_since(now)),
            };
            let sockets = state.sockets.clone();
            drop(state);
            wait_for_sockets(&self.0.wakes[leader as usize].0, &sockets, time, &mut ready);
            self.0.poll_epoch.fetch_add(1, Ordering::Relaxed);
            state = lock(&self.0.state);
            if std::mem::take(&mut state.woken[leader as usize]) {
                let _ = self.0.wakes[leader as usize].0.drain_one();
            }
            let still_leads = state.leader_changes == change;
            // If another thread leads, the flag is its flag.
            state.polling &= !still_leads;
            if !ready.is_empty() {
                drop(state);
                ready.drain(..).for_each(Waker::wake);
                state = lock(&self.0.state);
            }
            if !still_leads {
                break;
            }
        }
        CURRENT.set(before);
        state
    }

    /// Runs tasks that are ready.
    fn run_ready<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        for _ in 0..BATCH {
            let Some(task) = state.ready.pop_front() else { break };
            drop(state);
            task.run();
            drop(task);
            state = lock(&self.0.state);
        }
        state
    }

    /// Runs the loop thread until all tasks have ended.
    fn run(&self) {
        let mut state = lock(&self.0.state);
        let (mut seen_callers, mut seen_changes) = (state.finished_callers, state.leader_changes);
        while !(state.leader.is_none() && state.has_ended()) {
            let is_due = state.needs_loop_thread || state.finished_callers == seen_callers;
            if state.leader.is_none() && is_due {
                state.needs_loop_thread = false;
                state.set_leader(Leader::LoopThread);
                let change = state.leader_changes;
                state = self.lead(state, Leader::LoopThread, || false);
                if state.leader_changes == change {
                    state.leader = None;
                    if let Some(next) = state.next_caller() {
                        drop(state);
                        next.notify();
                        state = lock(&self.0.state);
                    }
                }
                // A caller leads or is about to, so this thread first sleeps at least once.
                seen_callers = state.finished_callers.wrapping_sub(1);
            } else if state.leader.is_some() && state.leader_changes == seen_changes {
                // The same caller has led since the last check. It notifies this thread when it stops.
                state.loop_thread_sleeps = true;
                state = wait(&self.0.loop_thread_wakeup, state);
                state.loop_thread_sleeps = false;
            } else {
                (seen_callers, seen_changes) = (state.finished_callers, state.leader_changes);
                state = wait_for(&self.0.loop_thread_wakeup, state, TAKE_OVER_AFTER).0;
            }
        }
        drop(state);
        self.0.thread_ended.update(|ended| *ended = true);
    }
}

impl CallerTasks for ClientLoop {
    /// Calls `change`, and runs the tasks that are ready then, up to [`BATCH`]. The next leader runs the others: a
    /// waiting caller, or else the loop thread. If another thread leads already, it runs all of them.
    fn run_after(&self, change: &mut dyn FnMut()) {
        struct ChangeGuard(usize);
        impl Drop for ChangeGuard {
            fn drop(&mut self) {
                CHANGES.set(self.0);
            }
        }
        // A handler may hold a lock that other handlers need.
        if !self.may_lead() || is_in_handler() {
            change();
            return;
        }
        let guard = ChangeGuard(CHANGES.replace(self.0.address()));
        change();
        drop(guard);
        let mut state = lock(&self.0.state);
        if state.ready.is_empty() {
            return;
        }
        if state.leader.is_some() {
            // This thread may not wait for the response. So the loop thread keeps the lead, which it would otherwise
            // get again much later. A thread that waits at once usually leads before the loop thread has woken up.
            self.0.wake_leader(&mut state);
        } else {
            state.set_leader(Leader::Caller);
            self.release_lead(self.lead(state, Leader::Caller, || true), false);
        }
    }

    /// Leads until `thread`, which is the current one, is notified. If another caller leads or the loop thread runs
    /// tasks, parks until `thread` is notified.
    fn drive(&self, thread: &WaitingThread) {
        if !self.may_lead() || !thread.begin_work(self.0.clone()) {
            return;
        }
        match self.try_lead(lock(&self.0.state)) {
            Ok(state) => {
                self.release_lead(self.lead(state, Leader::Caller, || thread.is_notified()), true);
                thread.end_work();
            }
            Err(mut state) => {
                state.waiting_callers.push(thread.clone());
                drop(state);
                thread.end_work();
                thread.park();
                lock(&self.0.state).waiting_callers.retain(|other| !other.is(thread));
            }
        }
    }
}

/// Waits until a socket is ready for which a task waits, the thread is woken, or `time` has passed. Adds the wakers of
/// these tasks to `ready`.
fn wait_for_sockets(wakes: &WakeReader, sockets: &[Arc<Socket>], time: Option<Duration>, ready: &mut Vec<Waker>) {
    let mut waited: Vec<_> = sockets.iter().filter_map(|socket| Some((socket, socket.interest()?))).collect();
    let mut fds = Vec::with_capacity(waited.len() + 1);
    fds.push(PollFd::new(wakes, PollFlags::IN));
    fds.extend(waited.iter().map(|(socket, interest)| PollFd::new(socket.stream(), *interest)));
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    let polled = loop {
        match poll(&mut fds, time.as_ref()) {
            Err(Errno::INTR) => {}
            polled => break polled,
        }
    };
    if polled.is_err() {
        // The system lacks memory, or the limit of descriptors was lowered. The tasks then check their sockets
        // themselves, at intervals.
        thread::sleep(POLL_BACKOFF);
    }
    for ((socket, interest), fd) in waited.drain(..).zip(&fds[1..]) {
        socket.take_wakers(if polled.is_ok() { fd.revents() } else { interest }, ready);
    }
}

impl State {
    fn set_leader(&mut self, leader: Leader) {
        self.leader = Some(leader);
        self.leader_changes += 1;
        self.polling = false;
    }

    /// Returns the caller that leads next, if one waits without its response.
    fn next_caller(&self) -> Option<WaitingThread> {
        self.waiting_callers.iter().find(|thread| !thread.is_notified()).cloned()
    }

    /// Returns whether all tasks have ended.
    fn has_ended(&self) -> bool {
        self.live_tasks == Some(0)
    }

    fn take_due(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        while let Some(timer) = self.timers.first_entry().filter(|timer| timer.key().0 <= now) {
            due.push(timer.remove());
        }
        due
    }
}

impl Shared {
    /// Wakes the leader if it waits for sockets.
    fn wake_leader(&self, state: &mut State) {
        if let Some(leader) = state.leader.filter(|_| state.polling)
            && !std::mem::replace(&mut state.woken[leader as usize], true)
        {
            self.wakes[leader as usize].1.wake();
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns the number of the current period between two waits for sockets. A socket without more input is not read
    /// again in the same period.
    pub(super) fn poll_epoch(&self) -> u64 {
        self.poll_epoch.load(Ordering::Relaxed)
    }

    pub(super) fn add_socket(&self, socket: Arc<Socket>) {
        lock(&self.state).sockets.push(socket);
    }

    pub(super) fn remove_socket(&self, socket: &Arc<Socket>) {
        lock(&self.state).sockets.retain(|other| !Arc::ptr_eq(other, socket));
    }
}

impl Scheduler for Shared {
    fn push(self: Arc<Self>, task: Arc<LoopTask<Self>>) {
        let mut state = lock(&self.state);
        state.ready.push_back(task);
        match state.leader {
            // `run_after` runs the task after the change.
            None | Some(Leader::LoopThread) if CHANGES.get() == self.address() => {}
            None => {
                state.needs_loop_thread = true;
                self.loop_thread_wakeup.notify_one();
            }
            Some(_) => self.wake_leader(&mut state),
        }
    }

    fn ended(&self) {
        let mut state = lock(&self.state);
        state.live_tasks = state.live_tasks.map(|live| live - 1);
    }

    fn add_timer(&self, at: Instant, waker: Waker) -> u64 {
        let mut state = lock(&self.state);
        state.timers_set += 1;
        let number = state.timers_set;
        state.timers.insert((at, number), waker);
        number
    }

    fn remove_timer(&self, key: (Instant, u64)) {
        let before = lock(&self.state).timers.remove(&key);
        // Dropped outside of the lock, since it may hold the last reference to a task.
        drop(before);
    }
}

/// Wakes a caller that leads, after it was notified by another thread. Usually a task on its own thread notifies it.
impl Interrupt for Shared {
    fn interrupt(&self) {
        self.wake_leader(&mut lock(&self.state));
    }
}

/// A task of a client. Dropping it cancels the task.
pub(super) enum ClientTask {
    Own(TaskHandle<Shared>),
    Handler(Running),
}

impl Runtime for ClientLoop {
    type Task = ClientTask;
    type Timer = LoopTimer<Shared>;

    /// Returns the loop of the current task.
    fn current() -> io::Result<Self> {
        CURRENT.with_borrow(Clone::clone).ok_or_else(|| io::Error::other("no task runs on this thread"))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Task {
        let task = LoopTask::new(&self.0, future);
        {
            let mut state = lock(&self.0.state);
            state.live_tasks = Some(state.live_tasks.unwrap_or(0) + 1);
        }
        Waker::from(task.clone()).wake();
        ClientTask::Own(TaskHandle(Some(task)))
    }

    fn polls_handlers(&self) -> bool {
        false
    }

    /// Handlers run on other threads than those of the application, which may hold a lock that a handler needs.
    fn spawn_handler(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Task {
        ClientTask::Handler(self.0.functions.spawn(future))
    }

    fn detach(task: Self::Task) {
        match task {
            ClientTask::Own(mut task) => task.0 = None,
            ClientTask::Handler(task) => Threads::detach(task),
        }
    }

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        self.0.functions.spawn_blocking(f);
    }

    fn timer(&self) -> Self::Timer {
        LoopTimer::new(self.0.clone())
    }
}

impl ConnectRuntime for ClientLoop {
    type Stream = ClientStream;

    async fn connect(address: SocketAddr) -> io::Result<ClientStream> {
        let this = Self::current()?;
        let connected = Arc::new(Watched::new(None));
        let result = connected.clone();
        this.spawn_blocking(move || {
            let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
            result.update(|result| *result = Some(stream));
        });
        let take = |result: &Option<io::Result<TcpStream>>| result.is_some().then_some(());
        connected.wait_for(take).await;
        let stream = connected.update(Option::take).unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()))?;
        ClientStream::new(stream, this.0)
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::mpsc::channel, task::Poll};

    use mcp_service::driver_api::block_on_driving;

    use super::*;

    #[test]
    fn notification_wakes_a_leader_without_tasks() {
        let client_loop = ClientLoop::start().expect("there are threads");
        let ((send, threads), (end, ended), leading) = (channel(), channel(), client_loop.clone());
        thread::spawn(move || {
            let mut polls = 0;
            let notified = poll_fn(|_| {
                polls += 1;
                if polls > 2 { Poll::Ready(()) } else { Poll::Pending }
            });
            block_on_driving(notified, |thread| {
                send.send(thread.clone()).expect("the test listens");
                leading.drive(thread);
            });
            end.send(()).expect("the test listens");
        });
        let waiting: WaitingThread = threads.recv().expect("it waits");
        let is_waiting = |state: &State| state.leader == Some(Leader::Caller) && state.polling;
        while !is_waiting(&lock(&client_loop.0.state)) {
            thread::yield_now();
        }
        waiting.notify();
        assert!(ended.recv_timeout(Duration::from_secs(60)).is_ok(), "it ends to wait for sockets");
        // The loop thread ends.
        let mut state = lock(&client_loop.0.state);
        state.live_tasks = Some(0);
        client_loop.0.loop_thread_wakeup.notify_one();
        client_loop.0.wake_leader(&mut state);
    }
}
