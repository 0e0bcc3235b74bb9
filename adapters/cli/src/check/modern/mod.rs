//! Checks of servers of 2026-07-28.

pub(super) mod features;
pub(super) mod http;
pub(super) mod messages;
pub(super) mod subscriptions;
