//! The tasks of a client over HTTP, which one thread at a time runs: a thread that waits for a response, or else the
//! thread of the loop.
//!
//! A thread that waits for a response does not hand the request over to another thread: it runs the tasks of the client
//! itself and waits for its sockets, until its response is there. When no thread leads, a request is begun on the
//! thread that makes it, and the thread of the loop does the rest. It takes the lead again if no other thread has had
//! it for [`TAKE_OVER_AFTER`], so that calls in a row need no change of threads. A call that nothing waits for takes up
//! to twice this time longer, if it directly follows one that a thread has waited for: if the thread of the loop took
//! the lead at once, each of the calls in a row would wake it.

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
    Interrupt, Runtime, WaitingThread, Watched,
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

/// How long no thread leads before the thread of the loop does. It is checked at this interval, so it can take twice as
/// long.
const TAKE_OVER_AFTER: Duration = Duration::from_millis(1);

/// How long the leader waits if the system cannot wait for sockets.
const POLL_BACKOFF: Duration = Duration::from_millis(10);

/// How many tasks run before the sockets are checked.
const BATCH: usize = 64;

/// How long an attempt to connect may take. It cannot be cancelled: if its request is, its thread lives this long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

thread_local! {
    /// The loop whose tasks this thread runs.
    static CURRENT: RefCell<Option<ClientLoop>> = const { RefCell::new(None) };
    /// The address of the loop whose connection this thread changes. It runs the tasks that it wakes afterwards.
    static CHANGES: Cell<usize> = const { Cell::new(0) };
}

/// The tasks of a client, and a thread that runs them while no other thread does. The thread ends when all tasks have
/// ended.
#[derive(Clone)]
pub(super) struct ClientLoop(Arc<Shared>);

pub(super) struct Shared {
    state: Mutex<State>,
    /// Wakes the thread of the loop that does not lead.
    turn: Condvar,
    /// Wakes the leader from its wait for sockets, by who leads.
    wakes: [(WakeReader, WakeWriter); 2],
    /// The number of waits for sockets, and of changes of the leader.
    turns: AtomicU64,
    thread_ended: Watched<bool>,
    /// Runs functions that may block.
    functions: Threads,
}

/// A thread that may lead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leader {
    /// The thread of the loop.
    Thread,
    /// A thread of the application.
    Caller,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Arc<LoopTask<Shared>>>,
    leader: Option<Leader>,
    /// The number of changes of the leader.
    sessions: u64,
    /// Set while the leader waits for sockets.
    polling: bool,
    /// Set while there is a wake-up for a leader that was not consumed yet, by leader.
    woken: [bool; 2],
    /// How often a caller that waits has ended to lead.
    led: u64,
    /// Set if the thread of the loop is to lead at once.
    called: bool,
    /// Set while the thread of the loop sleeps without a timeout.
    asleep: bool,
    /// Callers that wait while another one leads.
    parked: Vec<WaitingThread>,
    timers: BTreeMap<(Instant, u64), Waker>,
    timers_set: u64,
    sockets: Vec<Arc<Socket>>,
    /// The number of tasks that have not ended, once there was one.
    live: Option<usize>,
}

impl ClientLoop {
    /// Starts the thread of a loop.
    ///
    /// # Errors
    /// If the system has no descriptors or threads left.
    pub(super) fn start() -> io::Result<Self> {
        let (state, turn, turns, thread_ended) = Default::default();
        let (wakes, functions) = ([wake_pair()?, wake_pair()?], Threads::new());
        let shared = Arc::new(Shared { state, turn, wakes, turns, thread_ended, functions });
        let this = Self(shared.clone());
        spawn("mcp-http-client", move || this.run())?;
        Ok(Self(shared))
    }

    /// Returns the threads for functions that may block.
    pub(super) fn functions(&self) -> &Threads {
        &self.0.functions
    }

    /// Waits until the thread of the loop has ended, but no longer than `timeout`.
    pub(super) fn wait_for_end(&self, timeout: Duration) {
        self.0.thread_ended.wait_until(timeout, |ended| *ended);
    }

    /// Returns whether this thread may lead: it runs no task of the loop, and does not end.
    fn may_lead(&self) -> bool {
        let is_current = |current: &Option<Self>| current.as_ref().is_some_and(|it| Arc::ptr_eq(&it.0, &self.0));
        CURRENT.try_with(|current| !is_current(&current.borrow())).unwrap_or(false)
    }

    /// Calls `change`, and runs the tasks that it wakes as far as they need not wait. If another thread leads, that
    /// does.
    pub(super) fn run_after<T>(&self, change: impl FnOnce() -> T) -> T {
        struct ChangeGuard(usize);
        impl Drop for ChangeGuard {
            fn drop(&mut self) {
                CHANGES.set(self.0);
            }
        }
        // A handler may hold a lock that other handlers need.
        if !self.may_lead() || is_in_handler() {
            return change();
        }
        let guard = ChangeGuard(CHANGES.replace(self.0.address()));
        let result = change();
        drop(guard);
        let mut state = lock(&self.0.state);
        if state.ready.is_empty() {
            return result;
        }
        if state.leader.is_some() {
            // This thread may not wait for the response, so the thread of the loop keeps its lead: it would take it
            // again much later. If this thread waits at once, it usually leads before the other one has woken up.
            self.0.wake_leader(&mut state);
        } else {
            state.begin(Leader::Caller);
            self.leave(self.lead(state, Leader::Caller, || true), false);
        }
        result
    }

    /// Runs tasks and waits for sockets until `thread`, which is this one, is notified. If another thread of the
    /// application does so, parks until it is notified.
    pub(super) fn drive(&self, thread: &WaitingThread) {
        if !self.may_lead() || !thread.begin_work(self.0.clone()) {
            return;
        }
        match self.try_lead(lock(&self.0.state)) {
            Ok(state) => {
                self.leave(self.lead(state, Leader::Caller, || thread.is_notified()), true);
                thread.end_work();
            }
            Err(mut state) => {
                state.parked.push(thread.clone());
                drop(state);
                thread.end_work();
                thread.park();
                lock(&self.0.state).parked.retain(|other| !other.is(thread));
            }
        }
    }

    /// Makes this thread, which is a caller that waits, the leader, unless another thread runs tasks or is such a
    /// caller.
    fn try_lead<'a>(&self, mut state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>, MutexGuard<'a, State>> {
        match state.leader {
            None => {}
            // It notices that it does not lead any more.
            Some(Leader::Thread) if state.polling => self.0.wake_leader(&mut state),
            Some(_) => return Err(state),
        }
        state.begin(Leader::Caller);
        Ok(state)
    }

    /// Ends the lead of a caller, which may have waited for sockets. If others wait, one of them leads next.
    fn leave(&self, mut state: MutexGuard<'_, State>, has_waited: bool) {
        state.leader = None;
        // Threads that only begin requests must not keep the thread of the loop from the sockets.
        state.led += u64::from(has_waited);
        let next = state.parked.iter().find(|thread| !thread.is_notified()).cloned();
        state.called |= next.is_none() && !state.ready.is_empty();
        if state.called || state.asleep || state.is_over() {
            self.0.turn.notify_one();
        }
        drop(state);
        if let Some(next) = next {
            next.notify();
        }
    }

    /// Runs tasks, and waits for timers and sockets, until `until` returns true. The thread of the loop stops earlier
    /// if a caller leads, or could lead, or there is no task left.
    fn lead<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        leader: Leader,
        until: impl Fn() -> bool,
    ) -> MutexGuard<'a, State> {
        let before = CURRENT.replace(Some(self.clone()));
        let session = state.sessions;
        self.0.turns.fetch_add(1, Ordering::Relaxed);
        let mut ready = Vec::new();
        loop {
            state = self.run_ready(state);
            if until() || state.is_over() || leader == Leader::Thread && state.has_candidate() {
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
            self.0.turns.fetch_add(1, Ordering::Relaxed);
            state = lock(&self.0.state);
            if std::mem::take(&mut state.woken[leader as usize]) {
                let _ = self.0.wakes[leader as usize].0.drain_one();
            }
            let leads = state.sessions == session;
            state.polling &= !leads;
            if !ready.is_empty() {
                drop(state);
                ready.drain(..).for_each(Waker::wake);
                state = lock(&self.0.state);
            }
            if !leads {
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

    /// The body of the thread of the loop.
    fn run(&self) {
        let mut state = lock(&self.0.state);
        let (mut led, mut sessions) = (state.led, state.sessions);
        while !(state.leader.is_none() && state.is_over()) {
            if state.leader.is_none() && (state.called || state.led == led) {
                state.called = false;
                state.begin(Leader::Thread);
                let session = state.sessions;
                state = self.lead(state, Leader::Thread, || false);
                if state.sessions == session {
                    state.leader = None;
                    if let Some(next) = state.parked.iter().find(|thread| !thread.is_notified()).cloned() {
                        drop(state);
                        next.notify();
                        state = lock(&self.0.state);
                    }
                }
                // Another thread leads, or soon will.
                led = state.led.wrapping_sub(1);
            } else if state.leader.is_some() && state.sessions == sessions {
                state.asleep = true;
                state = wait(&self.0.turn, state);
                state.asleep = false;
            } else {
                (led, sessions) = (state.led, state.sessions);
                state = wait_for(&self.0.turn, state, TAKE_OVER_AFTER).0;
            }
        }
        drop(state);
        self.0.thread_ended.update(|ended| *ended = true);
    }
}

/// Waits until a socket is ready that a task waits for, the thread is woken, or `time` has passed. Takes the wakers of
/// the tasks.
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
    fn begin(&mut self, leader: Leader) {
        self.leader = Some(leader);
        self.sessions += 1;
        self.polling = false;
    }

    /// Returns whether a caller waits that could lead.
    fn has_candidate(&self) -> bool {
        self.parked.iter().any(|thread| !thread.is_notified())
    }

    fn is_over(&self) -> bool {
        self.live == Some(0)
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

    /// Returns the number of the current turn. What a task has found out about a socket holds for the rest of it.
    pub(super) fn turn(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
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
            // It runs the task afterwards.
            None | Some(Leader::Thread) if CHANGES.get() == self.address() => {}
            None => {
                state.called = true;
                self.turn.notify_one();
            }
            Some(_) => self.wake_leader(&mut state),
        }
    }

    fn ended(&self) {
        let mut state = lock(&self.state);
        state.live = state.live.map(|live| live - 1);
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

/// What notifies a caller that leads usually runs as a task on its own thread. Other threads do so if they cancel or
/// close, which also wakes a task, and then the leader.
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
    const POLLS_HANDLERS: bool = false;

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
            state.live = Some(state.live.unwrap_or(0) + 1);
        }
        Waker::from(task.clone()).wake();
        ClientTask::Own(TaskHandle(Some(task)))
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
        // The thread of the loop ends.
        let mut state = lock(&client_loop.0.state);
        state.live = Some(0);
        client_loop.0.turn.notify_one();
        client_loop.0.wake_leader(&mut state);
    }
}
