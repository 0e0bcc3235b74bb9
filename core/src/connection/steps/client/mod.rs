//! What only a client does: find out the era of its server, and send again, poll and subscribe in the modern era (2026-07-28).

mod caching;
mod discover;
mod input_rounds;
pub(crate) mod renegotiate;
mod retries;
mod start;
pub(crate) mod subscription;
mod task_poller;
