//! Sleeps without a connection, whose driver would fire the timer.

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    panic::{self, AssertUnwindSafe},
    pin::Pin,
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use mcp_proto::rpc::Timestamp;

use crate::{
    driver_api::detached_timer::{DetachedTimer, detached_timer},
    util::{lock::lock, time::Instant},
};

/// How long the thread waits for another deadline before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one poll blocks if no thread can be started.
const PAUSE: Duration = Duration::from_millis(5);

/// The alarm for the next task that expires: its time on the clock of the service.
///
/// Over HTTP without sessions, the connection that created a task has ended before the task expires, and its timers do
/// not fire any more.
pub(super) type DetachedAlarm = Mutex<Option<(Timestamp, Pin<Box<DetachedSleep>>)>>;

/// The deadlines of a process. One thread fires them: it starts with the first deadline and ends some time after the
/// last.
pub(super) struct SleepThread {
    state: Mutex<State>,
    changed: Condvar,
    start: fn(Arc<SleepThread>) -> io::Result<()>,
    /// Fires the deadlines instead of the thread.
    timer: Option<DetachedTimer>,
}

#[derive(Default)]
struct State {
    /// The wakers by deadline and number.
    wakers: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    has_thread: bool,
}

impl SleepThread {
    pub(super) fn new(start: fn(Arc<Self>) -> io::Result<()>, timer: Option<DetachedTimer>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), start, timer })
    }

    /// Returns the sleep thread of this process, which starts with the first sleep.
    pub(super) fn of_process() -> &'static Arc<Self> {
        static SLEEP_THREAD: OnceLock<Arc<SleepThread>> = OnceLock::new();
        SLEEP_THREAD.get_or_init(|| {
            let start = |sleep_thread: Arc<Self>| {
                thread::Builder::new().name("mcp-sleep".into()).spawn(move || sleep_thread.run()).map(drop)
            };
            Self::new(start, detached_timer())
        })
    }

    /// Sleeps for `time`. A sleep whose end the clock cannot represent never ends.
    pub(super) fn sleep(self: &Arc<Self>, time: Duration) -> DetachedSleep {
        let until = Instant::now().checked_add(time);
        DetachedSleep { sleep_thread: self.clone(), until, key: None, alarm: None }
    }

    /// Fires the deadlines; the body of the thread.
    fn run(&self) {
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            if let Some(first) = state.wakers.first_entry().filter(|first| first.key().0 <= now) {
                let waker = first.remove();
                drop(state);
                // A waker may call code of the application, whose panic must not end the sleeps of others.
                let _ = panic::catch_unwind(AssertUnwindSafe(|| waker.wake()));
                state = lock(&self.state);
                continue;
            }
            let first = state.wakers.first_key_value().map(|((at, _), _)| *at);
            let time = first.map_or(IDLE_TIMEOUT, |at| at.saturating_duration_since(now));
            let (woken, waited) = self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if waited.timed_out() && state.wakers.is_empty() {
                state.has_thread = false;
                return;
            }
        }
    }
}

/// A sleep until a deadline.
pub(super) struct DetachedSleep {
    sleep_thread: Arc<SleepThread>,
    until: Option<Instant>,
    /// The key of its waker.
    key: Option<(Instant, u64)>,
    /// The waker that the timer of the driver wakes, and the timer, which is cancelled with the sleep.
    alarm: Option<(Arc<Alarm>, Box<dyn Send + Sync>)>,
}

/// The waker that the timer of the driver has. It notes that the timer has fired: timers may do so early.
struct Alarm {
    waker: Waker,
    has_fired: AtomicBool,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.has_fired.store(true, Ordering::Release);
        self.waker.wake_by_ref();
    }
}

impl Future for DetachedSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(until) = self.until else { return Poll::Pending };
        if until <= Instant::now() {
            return Poll::Ready(());
        }
        if let Some(timer) = self.sleep_thread.timer {
            let is_set = self.alarm.as_ref().is_some_and(|(alarm, _)| {
                !alarm.has_fired.load(Ordering::Acquire) && alarm.waker.will_wake(cx.waker())
            });
            if !is_set {
                let alarm = Arc::new(Alarm { waker: cx.waker().clone(), has_fired: AtomicBool::new(false) });
                let set = timer(until, alarm.clone().into());
                self.alarm = Some((alarm, set));
            }
            return Poll::Pending;
        }
        let mut state = lock(&self.sleep_thread.state);
        let key = self.key.unwrap_or_else(|| {
            state.next += 1;
            (until, state.next)
        });
        let before = state.wakers.insert(key, cx.waker().clone());
        let is_first = state.wakers.first_key_value().is_some_and(|(first, _)| *first == key);
        // The flag is set under the lock, so that only one thread is started.
        let started = if state.has_thread { Ok(()) } else { (self.sleep_thread.start)(self.sleep_thread.clone()) };
        state.has_thread = started.is_ok();
        drop(state);
        // Dropping the waker may drop a task, which may sleep here as well.
        drop(before);
        self.key = Some(key);
        match started {
            Ok(()) if is_first => self.sleep_thread.changed.notify_one(),
            Ok(()) => {}
            // No thread can be started. A sleep that ended at once would make its handler spin, and one that never
            // ended would keep its task forever. So it is polled again and again, with a pause each time.
            Err(_) => {
                thread::sleep(until.saturating_duration_since(Instant::now()).min(PAUSE));
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }
}

impl Drop for DetachedSleep {
    fn drop(&mut self) {
        let waker = self.key.and_then(|key| lock(&self.sleep_thread.state).wakers.remove(&key));
        // Dropping the waker may drop a task, as above.
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver_api::{block_on::block_on, deferred::select_biased};
    use std::sync::atomic::AtomicUsize;

    static STARTED: AtomicUsize = AtomicUsize::new(0);

    fn start(sleep_thread: Arc<SleepThread>) -> io::Result<()> {
        STARTED.fetch_add(1, Ordering::Relaxed);
        thread::Builder::new().spawn(move || sleep_thread.run()).map(drop)
    }

    #[test]
    fn all_sleeps_share_one_thread() {
        let sleep_thread = SleepThread::new(start, None);
        let begin = Instant::now();
        let sleepers: Vec<_> = (0..200)
            .rev()
            .map(|n| {
                let time = Duration::from_millis(n / 4);
                let sleep = sleep_thread.sleep(time);
                (time, sleep)
            })
            .collect();
        for (time, sleep) in sleepers {
            block_on(sleep);
            assert!(begin.elapsed() >= time);
        }
        assert_eq!(STARTED.load(Ordering::Relaxed), 1);
        // One that is given up leaves nothing behind, and one that is too long does not end.
        let long = || sleep_thread.sleep(Duration::from_secs(1000));
        assert!(block_on(select_biased(long(), sleep_thread.sleep(Duration::from_millis(1)))).is_err());
        let endless = sleep_thread.sleep(Duration::MAX);
        assert!(block_on(select_biased(endless, sleep_thread.sleep(Duration::from_millis(1)))).is_err());
        assert!(lock(&sleep_thread.state).wakers.is_empty());
    }

    #[test]
    fn sleeps_with_one_deadline_have_a_waker_each() {
        let sleep_thread = SleepThread::new(|_| Ok(()), None);
        let mut one = sleep_thread.sleep(Duration::from_secs(1000));
        let mut other = sleep_thread.sleep(Duration::ZERO);
        other.until = one.until;
        for sleep in [&mut one, &mut other] {
            assert!(Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(lock(&sleep_thread.state).wakers.len(), 2);
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }

    #[test]
    fn panic_of_a_waker_ends_no_other_sleep() {
        let start = |sleep_thread: Arc<SleepThread>| thread::Builder::new().spawn(move || sleep_thread.run()).map(drop);
        let sleep_thread = SleepThread::new(start, None);
        let mut first = sleep_thread.sleep(Duration::from_millis(1));
        let waker = Waker::from(Arc::new(Panics));
        assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&waker)).is_pending());
        block_on(sleep_thread.sleep(Duration::from_millis(20)));
    }

    #[test]
    fn sleep_without_a_thread_does_not_spin() {
        static TRIES: AtomicUsize = AtomicUsize::new(0);
        let start = |_| {
            TRIES.fetch_add(1, Ordering::Relaxed);
            Err(io::ErrorKind::WouldBlock.into())
        };
        let sleep_thread = SleepThread::new(start, None);
        let (begin, time) = (Instant::now(), Duration::from_millis(50));
        block_on(sleep_thread.sleep(time));
        assert!(begin.elapsed() >= time);
        let tries = TRIES.load(Ordering::Relaxed);
        assert!((1..=11).contains(&tries), "{tries} wake-ups in {time:?}");
        assert!(lock(&sleep_thread.state).wakers.is_empty());
    }

    /// A timer that notes when it is cancelled.
    struct Noted(&'static AtomicUsize);

    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn timer_of_the_driver_replaces_the_thread() {
        static CALLS: Mutex<Vec<(Instant, Waker)>> = Mutex::new(Vec::new());
        static CANCELLED: AtomicUsize = AtomicUsize::new(0);
        let start = |_| panic!("no thread is started");
        let timer: DetachedTimer = |at, waker| {
            lock(&CALLS).push((at, waker));
            Box::new(Noted(&CANCELLED))
        };
        let sleep_thread = SleepThread::new(start, Some(timer));
        let (begin, time) = (Instant::now(), Duration::from_secs(1000));
        let mut sleep = sleep_thread.sleep(time);
        // Of a waker in a static, the clone may count as another waker.
        let waker = Waker::noop().clone();
        let mut poll = || Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending() && poll().is_pending());
        assert_eq!(lock(&CALLS).len(), 1, "the same waker needs one call");
        assert!(lock(&CALLS)[0].0 >= begin + time);
        block_on(sleep_thread.sleep(Duration::ZERO));
        assert_eq!(lock(&CALLS).len(), 1, "no timer is needed for the past");
        assert_eq!(CANCELLED.load(Ordering::Relaxed), 0);
        drop(sleep);
        assert_eq!(CANCELLED.load(Ordering::Relaxed), 1, "a sleep that is dropped leaves no timer");
    }

    #[test]
    fn timer_that_fires_early_is_set_again() {
        static CALLS: Mutex<Vec<(Instant, Waker)>> = Mutex::new(Vec::new());
        let start = |_| panic!("no thread is started");
        let timer: DetachedTimer = |at, waker| {
            lock(&CALLS).push((at, waker));
            Box::new(())
        };
        let sleep_thread = SleepThread::new(start, Some(timer));
        let mut sleep = sleep_thread.sleep(Duration::from_secs(1000));
        // Of a waker in a static, the clone may count as another waker.
        let waker = Waker::noop().clone();
        let mut poll = || Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending());
        let (at, waker) = lock(&CALLS)[0].clone();
        waker.wake();
        assert!(poll().is_pending() && poll().is_pending());
        assert_eq!(lock(&CALLS).len(), 2, "the timer is set once more");
        assert_eq!(lock(&CALLS)[1].0, at);
    }
}
