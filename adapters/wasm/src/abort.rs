//! Signals that abort requests.

use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll},
};

use js_sys::Reflect;
use wasm_bindgen::{JsCast, JsValue, closure::Closure};
use web_sys::{AbortSignal, Request};

/// Notices that a request is aborted.
pub(crate) struct Aborted(Option<Listener>);

/// The reaction to the abort of a signal.
type Reaction = Rc<RefCell<Option<Box<dyn FnOnce(JsValue)>>>>;

/// A listener of a signal. Dropping it removes it, since a signal may live for much longer than its request.
struct Listener {
    signal: AbortSignal,
    reaction: Reaction,
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
        let waker = cx.waker().clone();
        listener.set(move |_| waker.wake());
        Poll::Pending
    }

    /// Calls a function with the reason when the request is aborted, also if that has happened already. It replaces the
    /// waker of [`poll`](Self::poll).
    pub(crate) fn on_abort(&self, reaction: impl FnOnce(JsValue) + 'static) {
        let Some(listener) = &self.0 else { return };
        if listener.signal.aborted() {
            reaction(listener.signal.reason());
        } else {
            listener.set(reaction);
        }
    }
}

impl Listener {
    fn new(signal: AbortSignal) -> Self {
        let reaction = Reaction::default();
        let (called, aborted) = (reaction.clone(), signal.clone());
        let callback = Closure::new(move || {
            let reaction = called.take();
            if let Some(reaction) = reaction {
                reaction(aborted.reason());
            }
        });
        // It fails for a value that is not a signal, which never aborts.
        let _ = signal.add_event_listener_with_callback("abort", callback.as_ref().unchecked_ref());
        Self { signal, reaction, callback }
    }

    fn set(&self, reaction: impl FnOnce(JsValue) + 'static) {
        let before = self.reaction.replace(Some(Box::new(reaction)));
        // Not under the borrow: dropping a waker may drop its task.
        drop(before);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let callback = self.callback.as_ref().unchecked_ref();
        let _ = self.signal.remove_event_listener_with_callback("abort", callback);
    }
}
