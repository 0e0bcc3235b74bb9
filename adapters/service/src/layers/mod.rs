//! Ready-made middleware, for [`with_layer`](crate::ServiceBuilder::with_layer).
//!
//! | layer | what it does |
//! | --- | --- |
//! | [`Audit`] | records each request: the caller, the arguments with redaction, the outcome |
//! | [`Metrics`] | counts and times requests |
//! | [`RateLimit`] | limits the requests of each caller |
//! | [`ResultCache`] | keeps the results of some tools |
//! | [`HandlerTimeout`] | limits how long handlers may take |
//! | [`MaskTexts`] | changes the texts of results and errors |
//!
//! The first layer is the outermost. The order of the table is a good one: refusals are recorded, cached results count
//! against the rate limit, and texts are masked before they are kept.
//!
//! On the side of clients, [`Retry`] repeats requests.
//!
//! The layers do no I/O, and take the time from the clock of the connection. So tests with the test client need no real
//! time.

mod audit;
mod caller;
mod handler_timeout;
#[cfg(feature = "log-layer")]
mod log_layer;
mod mask_texts;
mod metrics;
mod rate_limit;
mod result_cache;
mod retry;

pub use audit::{Audit, AuditOutcome, AuditRecord, AuditSink};
pub use handler_timeout::HandlerTimeout;
#[cfg(feature = "log-layer")]
pub use log_layer::LogLayer;
pub use mask_texts::MaskTexts;
pub use metrics::{DURATION, IN_FLIGHT, Labels, Metrics, MetricsRecorder, REQUESTS};
pub use rate_limit::{RATE_LIMITED, RateLimit};
pub use result_cache::ResultCache;
pub use retry::{Retry, RetryPeer};
