//! Turns panics of handlers into errors of their requests.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::Poll,
};

use mcp_proto::wire::ErrorObject;

use super::{log, rpc_result::RpcResult};
use crate::driver_api::deferred::Deferred;

/// Starts a handler. A panic fails only this request, with an error without details.
pub(crate) fn catch_panic<T>(begin: impl FnOnce() -> Deferred<RpcResult<T>>) -> Deferred<RpcResult<T>> {
    // As below.
    catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| {
        log::panicked();
        Deferred::ready(Err(ErrorObject::internal("Internal error")))
    })
}

/// Polls a handler. A panic fails only this request, with an error without details.
pub(crate) fn catch_panic_async<T>(
    mut f: Pin<&mut impl Future<Output = RpcResult<T>>>,
) -> impl Future<Output = RpcResult<T>> {
    // A panic can leave only the state of `f` inconsistent: this crate holds no lock while it runs.
    poll_fn(move |cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| f.as_mut().poll(cx)));
        polled.unwrap_or_else(|_| {
            log::panicked();
            Poll::Ready(Err(ErrorObject::internal("Internal error")))
        })
    })
}
