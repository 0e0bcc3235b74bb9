//! Requests of this side: how they are made, waited for and cancelled, and what they fail with.

pub(crate) mod calls;
pub(crate) mod cancel;
pub(crate) mod error;
pub(crate) mod peer;
pub(crate) mod pending;
pub(crate) mod response_slot;
pub(crate) mod subscriptions;
