//! Tasks of 2025-11-25, of both roles: a request that is answered with a task, and its result later.

pub(crate) mod handle;
pub(crate) mod receiver;
