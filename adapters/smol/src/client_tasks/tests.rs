//! Tests of the tasks of a client.

use std::{
    future::poll_fn,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    task::Wake,
    thread::{self, Thread, ThreadId},
    time::Instant,
};

use super::*;

/// Longer than any step takes.
const LONG: Duration = Duration::from_secs(60);

/// Returns the ids of two calls, the earlier first.
fn calls() -> [CallId; 2] {
    let service = mcp_service::Service::builder("test", "1.0.0").tool(mcp_service::Tool::new("wait", || "done"));
    let client = mcp_service::testing::TestClient::new(&service.build().expect("a service"));
    [(); 2].map(|()| client.server().call_tool("wait", ()).expect("it is sent").id())
}

/// A task that reports each poll with the thread that has polled it.
struct Reporter {
    tasks: ClientTasks,
    polls: Receiver<ThreadId>,
    waker: Arc<Mutex<Option<Waker>>>,
    task: Task<()>,
}

impl Reporter {
    /// Spawns the task, and waits for its first poll.
    fn spawn(tasks: &ClientTasks) -> Self {
        let (send, polls): (Sender<ThreadId>, _) = channel();
        let waker = Arc::new(Mutex::new(None));
        let own = waker.clone();
        let task = tasks.spawn(poll_fn(move |cx| {
            *lock(&own) = Some(cx.waker().clone());
            // The test may have ended.
            let _ = send.send(thread::current().id());
            Poll::Pending
        }));
        let reporter = Self { tasks: tasks.clone(), polls, waker, task };
        assert_ne!(reporter.thread(), thread::current().id(), "without a caller, the background task runs it");
        reporter
    }

    fn wake(&self) {
        let waker = lock(&self.waker).clone();
        waker.expect("it was polled").wake();
    }

    /// Returns the thread of the next poll, when that has ended.
    fn thread(&self) -> ThreadId {
        let thread = self.polls.recv_timeout(LONG).expect("it is polled");
        wait_until(|| !lock(&self.tasks.0).is_running);
        thread
    }
}

/// Counts how often a caller is woken.
#[derive(Default)]
struct Caller(AtomicUsize);

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Caller {
    fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn poll(self: &Arc<Self>, tasks: &ClientTasks, call: CallId) {
        tasks.poll_drive(call, &Context::from_waker(&Waker::from(self.clone())));
    }
}

/// Waits until a condition is met.
fn wait_until(condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < LONG, "it is never met");
        thread::yield_now();
    }
}

#[test]
fn caller_runs_tasks_on_its_thread() {
    let (tasks, [call, _], caller) = (ClientTasks::with_interval(LONG), calls(), Arc::new(Caller::default()));
    let reporter = Reporter::spawn(&tasks);
    caller.poll(&tasks, call);
    for round in 1..=100 {
        reporter.wake();
        assert_eq!(caller.wakes(), round);
        caller.poll(&tasks, call);
        assert_eq!(reporter.thread(), thread::current().id());
    }
}

#[test]
fn caller_of_the_latest_call_is_woken() {
    let (tasks, [first, second]) = (ClientTasks::with_interval(LONG), calls());
    let callers = [(); 2].map(|()| Arc::new(Caller::default()));
    let reporter = Reporter::spawn(&tasks);
    callers[1].poll(&tasks, second);
    callers[0].poll(&tasks, first);
    reporter.wake();
    assert_eq!(callers.each_ref().map(|caller| caller.wakes()), [0, 1]);
    tasks.end_drive(second);
    assert_eq!(callers[0].wakes(), 1, "the other one is woken if that stops to wait");
}

#[test]
fn background_task_takes_over_from_a_late_caller() {
    let (tasks, [call, _], caller) = (ClientTasks::default(), calls(), Arc::new(Caller::default()));
    let reporter = Reporter::spawn(&tasks);
    for round in 1..=3 {
        caller.poll(&tasks, call);
        reporter.wake();
        assert_eq!(caller.wakes(), round);
        assert_ne!(reporter.thread(), thread::current().id());
    }
    wait_until(|| !lock(&tasks.0).is_checked);
}

#[test]
fn tasks_beyond_a_batch_have_a_runner() {
    const TASKS: usize = 3 * BATCH;
    let (tasks, [call, _], caller) = (ClientTasks::with_interval(LONG), calls(), Arc::new(Caller::default()));
    // Keeps the background task.
    let _reporter = Reporter::spawn(&tasks);
    let ended = Arc::new(AtomicUsize::new(0));
    tasks.run_before_wait(&mut || {
        for _ in 0..TASKS {
            let ended = ended.clone();
            tasks
                .spawn(async move {
                    ended.fetch_add(1, Ordering::SeqCst);
                })
                .detach();
        }
    });
    caller.poll(&tasks, call);
    assert_eq!((ended.load(Ordering::SeqCst), caller.wakes()), (BATCH, 1));
    tasks.end_drive(call);
    wait_until(|| ended.load(Ordering::SeqCst) == TASKS);
}

#[test]
fn caller_that_stops_to_wait_hands_the_tasks_over() {
    let (tasks, [call, _], caller) = (ClientTasks::with_interval(LONG), calls(), Arc::new(Caller::default()));
    let reporter = Reporter::spawn(&tasks);
    caller.poll(&tasks, call);
    reporter.wake();
    tasks.end_drive(call);
    assert_ne!(reporter.thread(), thread::current().id());
    caller.poll(&tasks, call);
    tasks.end_drive(call);
    reporter.wake();
    assert_ne!(reporter.thread(), thread::current().id());
    assert_eq!((caller.wakes(), lock(&tasks.0).callers.len()), (1, 0));
}

#[test]
fn request_wakes_a_runner_only_if_a_caller_waits() {
    let (tasks, [call, _], caller) = (ClientTasks::with_interval(LONG), calls(), Arc::new(Caller::default()));
    let reporter = Reporter::spawn(&tasks);
    tasks.run_before_wait(&mut || reporter.wake());
    assert_eq!(lock(&tasks.0).woken, Some(Runner::Requester), "it usually waits next");
    caller.poll(&tasks, call);
    assert_eq!(reporter.thread(), thread::current().id());
    tasks.run_before_wait(&mut || reporter.wake());
    assert_eq!(caller.wakes(), 1);
    caller.poll(&tasks, call);
    assert_eq!(reporter.thread(), thread::current().id());
    tasks.end_drive(call);
    tasks.run_before_wait(&mut || reporter.wake());
    tasks.spawn(async {}).detach();
    assert_ne!(reporter.thread(), thread::current().id(), "another task that is ready has a runner at once");
}

#[test]
fn late_callers_delay_tasks_once() {
    let (tasks, ids) = (ClientTasks::default(), calls());
    let (reporter, caller) = (Reporter::spawn(&tasks), Arc::new(Caller::default()));
    ids.iter().for_each(|call| caller.poll(&tasks, *call));
    for _ in 0..3 {
        reporter.wake();
        assert_ne!(reporter.thread(), thread::current().id());
    }
    assert_eq!(caller.wakes(), 1, "the others may wait on the same thread");
}

#[test]
fn background_task_takes_over_from_a_late_requester() {
    let tasks = ClientTasks::default();
    let reporter = Reporter::spawn(&tasks);
    tasks.run_before_wait(&mut || reporter.wake());
    assert_ne!(reporter.thread(), thread::current().id());
}

#[test]
fn task_of_the_client_is_no_caller() {
    let (tasks, [call, _]) = (ClientTasks::default(), calls());
    let (send, callers) = channel();
    let own = tasks.clone();
    let task = tasks.spawn(async move {
        own.poll_drive(call, &Context::from_waker(Waker::noop()));
        send.send(lock(&own.0).callers.len()).expect("the test waits");
    });
    assert_eq!(callers.recv_timeout(LONG), Ok(0), "nothing would run that task");
    drop(task);
}

#[test]
fn background_task_ends_with_the_last_task() {
    let tasks = ClientTasks::default();
    for _ in 0..3 {
        let [dropped, abandoned] = [Reporter::spawn(&tasks), Reporter::spawn(&tasks)];
        drop(dropped.task);
        abandoned.task.detach();
        let (send, ended) = channel();
        tasks.spawn(async move { send.send(()).expect("the test waits") }).detach();
        ended.recv_timeout(LONG).expect("it runs");
        assert!(lock(&tasks.0).has_background);
        tasks.spawn(async { panic!("on purpose") }).detach();
        wait_until(|| lock(&tasks.0).live == 1);
        // The last reference to a task that is not polled again is its waker.
        drop(lock(&abandoned.waker).take());
        wait_until(|| !lock(&tasks.0).has_background);
        assert!(lock(&tasks.0).background.is_none());
    }
}

#[test]
fn no_wake_up_is_lost() {
    const ROUNDS: usize = 20_000;
    let (tasks, ids) = (ClientTasks::with_interval(LONG), calls());
    let reporter = Reporter::spawn(&tasks);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let callers = ids.map(|call| {
            let (tasks, is_over) = (&tasks, &is_over);
            scope.spawn(move || {
                let waker = Waker::from(Arc::new(Unpark(thread::current())));
                for step in 0.. {
                    tasks.poll_drive(call, &Context::from_waker(&waker));
                    if step % 3 == 0 {
                        // Without this wait, the other caller or the background task does its work.
                        tasks.end_drive(call);
                    } else {
                        thread::park();
                    }
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                }
            })
        });
        for _ in 0..ROUNDS {
            reporter.wake();
            reporter.polls.recv_timeout(LONG).expect("it is polled");
            assert!(reporter.polls.try_recv().is_err(), "one wake-up, one poll");
        }
        is_over.store(true, Ordering::SeqCst);
        callers.iter().for_each(|caller| caller.thread().unpark());
    });
}

/// Unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
