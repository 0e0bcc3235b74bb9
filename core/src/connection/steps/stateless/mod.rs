//! What a server does in the modern era (2026-07-28), in which each request stands alone.

pub(crate) mod requests;
mod subscriptions;
