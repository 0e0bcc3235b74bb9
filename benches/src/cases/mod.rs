//! What there is to measure of the core.

mod churn;
mod decode;
mod encode;
mod http;
mod round_trip;
mod sse;

use crate::Case;

pub use round_trip::IN_FLIGHT;

/// Everything that is measured of the core, beside the limits that it is measured against.
#[must_use]
pub fn core() -> Vec<Case> {
    [decode::cases(), encode::cases(), round_trip::cases(), churn::cases(), sse::cases(), http::cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// Of these the instructions are counted: ours, and no larger than valgrind can bear.
#[must_use]
pub fn counted() -> Vec<Case> {
    core().into_iter().filter(|case| !case.name.contains("limit:") && !case.name.contains("0000")).collect()
}
