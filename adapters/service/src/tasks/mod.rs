//! Tasks of 2025-11-25, of both roles: a request whose response is a task, and the later result of the task.

pub(crate) mod handle;
pub(crate) mod receiver;
