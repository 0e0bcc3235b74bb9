//! The cases of the core, and small calls in a service.

mod churn;
mod decode;
mod encode;
mod http;
mod round_trip;
mod service;
mod sse;

use crate::Case;

pub use round_trip::IN_FLIGHT;

/// Returns all cases of the core, with their limits.
#[must_use]
pub fn core() -> Vec<Case> {
    [
        decode::cases(),
        encode::cases(),
        round_trip::cases(),
        churn::cases(),
        sse::cases(),
        http::cases(),
        service::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the cases whose instructions are counted: without limits, and without those that are too large for valgrind.
#[must_use]
pub fn counted() -> Vec<Case> {
    core().into_iter().filter(|case| !case.name.contains("limit:") && !case.name.contains("0000")).collect()
}
