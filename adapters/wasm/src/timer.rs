//! Timers on `setTimeout`.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use js_sys::Function;
use mcp_driver::Timer;
use mcp_service::driver_api::Instant;
use send_wrapper::SendWrapper;
use wasm_bindgen::{JsCast, JsValue, closure::Closure};

use crate::js::global_function;

/// The longest delay of `setTimeout`, in milliseconds. A longer one would end at once.
const MAX_DELAY: u32 = i32::MAX as u32;

/// A timer of the host. It has at most one timeout at a time.
#[derive(Debug)]
pub struct TimeoutTimer<T = Timeout> {
    armed: Option<Armed<T>>,
}

/// A timeout, and what it wakes.
#[derive(Debug)]
struct Armed<T> {
    until: Instant,
    alarm: Arc<Mutex<Alarm>>,
    _timeout: T,
}

/// The state that a timeout changes.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    has_fired: bool,
    waker: Option<Waker>,
}

/// Sets a timeout, which dropping it clears.
pub(crate) trait SetTimeout: Sized + Send + Unpin + 'static {
    /// Calls [`fire`] after some milliseconds.
    fn set(delay: u32, alarm: Arc<Mutex<Alarm>>) -> Self;
}

impl<T> Default for TimeoutTimer<T> {
    fn default() -> Self {
        Self { armed: None }
    }
}

fn lock(alarm: &Mutex<Alarm>) -> MutexGuard<'_, Alarm> {
    alarm.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that a timeout is over, and wakes its task.
fn fire(alarm: &Mutex<Alarm>) {
    let waker = {
        let mut alarm = lock(alarm);
        alarm.has_fired = true;
        alarm.waker.take()
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Returns the delay for `setTimeout`, in whole milliseconds: rounded up, so that the timeout is not early.
fn delay(time: Duration) -> u32 {
    u32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(MAX_DELAY).min(MAX_DELAY)
}

impl<T: SetTimeout> Timer for TimeoutTimer<T> {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if at <= now {
            return Poll::Ready(());
        }
        // Most deadlines move away while a timeout runs. It goes on then, and the timer waits again after it has fired.
        if let Some(armed) = self.armed.as_ref().filter(|armed| armed.until <= at) {
            let mut alarm = lock(&armed.alarm);
            if !alarm.has_fired {
                let before = alarm.waker.replace(cx.waker().clone());
                drop(alarm);
                drop(before);
                return Poll::Pending;
            }
        }
        let delay = delay(at - now);
        let alarm = Arc::new(Mutex::new(Alarm { has_fired: false, waker: Some(cx.waker().clone()) }));
        let until = now + Duration::from_millis(delay.into());
        self.armed = Some(Armed { until, alarm: alarm.clone(), _timeout: T::set(delay, alarm) });
        Poll::Pending
    }
}

/// A running timeout of the host. Dropping it clears it.
#[derive(Debug)]
pub struct Timeout {
    _running: SendWrapper<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    /// A number, or in Node.js an object.
    id: JsValue,
    clear: Function,
    _callback: Closure<dyn FnMut()>,
}

impl Timeout {
    fn new(callback: impl FnOnce() + 'static, delay: u32) -> Self {
        // A host without timers is none that this crate supports: connections on it have no deadlines.
        Self { _running: SendWrapper::new(start(Closure::once(callback), delay).ok()) }
    }
}

impl SetTimeout for Timeout {
    fn set(delay: u32, alarm: Arc<Mutex<Alarm>>) -> Self {
        Self::new(move || fire(&alarm), delay)
    }
}

/// Starts a timeout.
fn start(callback: Closure<dyn FnMut()>, delay: u32) -> Result<Running, JsValue> {
    let clear = global_function("clearTimeout")?;
    let set = global_function("setTimeout")?;
    let id = set.call2(&JsValue::UNDEFINED, callback.as_ref().unchecked_ref(), &delay.into())?;
    Ok(Running { id, clear, _callback: callback })
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.clear.call1(&JsValue::UNDEFINED, &self.id);
    }
}

/// Wakes a task at a time, for sleeps without a connection. Dropping the result clears the timeout.
pub(crate) fn wake_at(at: Instant, waker: Waker) -> Box<dyn Send + Sync> {
    let delay = delay(at.saturating_duration_since(Instant::now()));
    Box::new(Timeout::new(move || waker.wake(), delay))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        /// The timeouts that were set: their delays, and what they fire.
        static SET: RefCell<Vec<(u32, Arc<Mutex<Alarm>>)>> = const { RefCell::new(Vec::new()) };
    }

    #[derive(Debug)]
    struct Noted;

    impl SetTimeout for Noted {
        fn set(delay: u32, alarm: Arc<Mutex<Alarm>>) -> Self {
            SET.with_borrow_mut(|set| set.push((delay, alarm)));
            Self
        }
    }

    fn poll(timer: &mut TimeoutTimer<Noted>, at: Instant) -> Poll<()> {
        timer.poll_until(at, &mut Context::from_waker(Waker::noop()))
    }

    fn count() -> usize {
        SET.with_borrow(Vec::len)
    }

    #[test]
    fn later_deadline_keeps_the_timeout_and_an_earlier_one_does_not() {
        let (mut timer, start) = (TimeoutTimer::<Noted>::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(poll(&mut timer, after(100)).is_pending());
        assert!(poll(&mut timer, after(200)).is_pending());
        assert_eq!(count(), 1);
        assert!(poll(&mut timer, after(50)).is_pending());
        assert_eq!(count(), 2);
        let delays = SET.with_borrow(|set| set.iter().map(|(delay, _)| *delay).collect::<Vec<_>>());
        assert!((99_000..=100_000).contains(&delays[0]) && (49_000..=50_000).contains(&delays[1]), "{delays:?}");
    }

    #[test]
    fn timeout_that_fires_early_is_set_again() {
        let mut timer = TimeoutTimer::<Noted>::default();
        let at = Instant::now() + Duration::from_secs(100);
        assert!(poll(&mut timer, at).is_pending());
        let alarm = SET.with_borrow(|set| set[0].1.clone());
        fire(&alarm);
        assert!(lock(&alarm).waker.is_none(), "the task was woken");
        assert!(poll(&mut timer, at).is_pending());
        assert_eq!(count(), 2);
        assert!(poll(&mut timer, Instant::now()).is_ready());
        assert_eq!(count(), 2);
    }

    #[test]
    fn delays_are_rounded_up_and_bounded() {
        assert_eq!(delay(Duration::ZERO), 0);
        assert_eq!(delay(Duration::from_nanos(1)), 1);
        assert_eq!(delay(Duration::from_micros(1500)), 2);
        assert_eq!(delay(Duration::from_millis(u64::from(MAX_DELAY) - 1)), MAX_DELAY - 1);
        assert_eq!(delay(Duration::from_millis(u64::from(MAX_DELAY) + 1)), MAX_DELAY);
        assert_eq!(delay(Duration::MAX), MAX_DELAY);
    }
}
