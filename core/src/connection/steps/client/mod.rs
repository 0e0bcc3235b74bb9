//! The steps of a client: era detection, and the retries, task polling, subscriptions and caching of the modern era
//! (2026-07-28).

mod caching;
mod discover;
mod input_rounds;
pub(crate) mod renegotiate;
mod retries;
mod start;
pub(crate) mod subscription;
mod task_poller;
