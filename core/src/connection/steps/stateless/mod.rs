//! The steps of a server of the modern era (2026-07-28), in which each request is independent.

pub(crate) mod requests;
mod subscriptions;
