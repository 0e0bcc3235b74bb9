//! Functions and errors of the JavaScript host.

use js_sys::{Function, Promise, Reflect};
use wasm_bindgen::{JsCast, JsValue, closure::Closure};

/// Returns a function of the global object: `setTimeout` or `fetch`, for example. They are not those of a window, since
/// workers have none.
pub(crate) fn global_function(name: &str) -> Result<Function, JsValue> {
    Reflect::get(&js_sys::global(), &name.into())?.dyn_into()
}

/// Returns the text of an error, which may be any value.
pub(crate) fn error_text(error: &JsValue) -> String {
    if let Some(error) = error.dyn_ref::<js_sys::Error>() {
        return error.to_string().into();
    }
    error.as_string().unwrap_or_else(|| "an error without a text".into())
}

/// Handles the rejection of a promise whose result does not matter. Without a handler, hosts report it as an error, and
/// Node.js ends the process.
pub(crate) fn ignore(promise: &Promise) {
    let handler = Closure::once_into_js(|| ());
    if let Some(handler) = handler.dyn_ref::<Function>() {
        let then = Reflect::get(promise, &"then".into()).and_then(|then| then.dyn_into::<Function>());
        let _ = then.and_then(|then| then.call2(promise, handler, handler));
    }
}
