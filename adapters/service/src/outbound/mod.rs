//! Requests of this side: how they are made, awaited and cancelled, and their errors.

pub(crate) mod call_span;
pub(crate) mod calls;
pub(crate) mod cancel;
pub(crate) mod error;
pub(crate) mod peer;
pub(crate) mod pending;
pub(crate) mod response_slot;
pub(crate) mod subscriptions;
