//! Limits that several peers share.

pub(crate) mod functions;
pub(crate) mod quota;
