//! Signals that abort requests.

use js_sys::{Function, Promise};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;
use web_sys::AbortSignal;

/// A future that is ready when a request was aborted.
pub(crate) type Aborted = JsFuture;

/// Returns a future that is ready when a signal is aborted.
pub(crate) fn aborted(signal: &AbortSignal) -> Aborted {
    let promise = Promise::new(&mut |resolve: Function, _| {
        if signal.aborted() || signal.add_event_listener_with_callback("abort", &resolve).is_err() {
            let _ = resolve.call0(&JsValue::UNDEFINED);
        }
    });
    JsFuture::from(promise)
}
