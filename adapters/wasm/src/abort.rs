//! Signals that abort requests.

use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use js_sys::Reflect;
use wasm_bindgen::{JsCast, JsValue, closure::Closure};
use web_sys::{AbortSignal, Request};

/// Notices that a request is aborted.
pub(crate) struct Aborted(Option<Listener>);

/// A listener of a signal. Dropping it removes it, since a signal may live for much longer than its request.
struct Listener {
    signal: AbortSignal,
    waker: Rc<RefCell<Option<Waker>>>,
    callback: Closure<dyn FnMut()>,
}

impl Aborted {
    /// Listens to the signal of a request. A request of a host that sets no signal is never aborted.
    pub(crate) fn of(request: &Request) -> Self {
        let signal = Reflect::get(request, &"signal".into()).ok();
        Self(signal.filter(JsValue::is_object).map(|signal| Listener::new(signal.unchecked_into())))
    }

    /// Returns the reason when the request is aborted.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<JsValue> {
        let Some(listener) = &self.0 else { return Poll::Pending };
        if listener.signal.aborted() {
            return Poll::Ready(listener.signal.reason());
        }
        let before = listener.waker.replace(Some(cx.waker().clone()));
        drop(before);
        Poll::Pending
    }
}

impl Listener {
    fn new(signal: AbortSignal) -> Self {
        let waker = Rc::new(RefCell::new(None::<Waker>));
        let woken = waker.clone();
        let callback = Closure::new(move || {
            let waker = woken.take();
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        // It fails for a value that is not a signal, which never aborts.
        let _ = signal.add_event_listener_with_callback("abort", callback.as_ref().unchecked_ref());
        Self { signal, waker, callback }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let callback = self.callback.as_ref().unchecked_ref();
        let _ = self.signal.remove_event_listener_with_callback("abort", callback);
    }
}
