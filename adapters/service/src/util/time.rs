//! The clocks: those of std or, with the feature `js` on `wasm32-unknown-unknown`, those of the JavaScript host.

#[cfg(not(all(feature = "js", target_arch = "wasm32", target_os = "unknown")))]
pub(crate) use std::time::UNIX_EPOCH;
#[cfg(not(all(feature = "js", target_arch = "wasm32", target_os = "unknown")))]
pub use std::time::{Instant, SystemTime};
#[cfg(all(feature = "js", target_arch = "wasm32", target_os = "unknown"))]
pub(crate) use web_time::UNIX_EPOCH;
#[cfg(all(feature = "js", target_arch = "wasm32", target_os = "unknown"))]
pub use web_time::{Instant, SystemTime};
