//! Checks of servers with sessions.

pub(super) mod features;
pub(super) mod handshake;
pub(super) mod http;
pub(super) mod messages;
