//! The exit of a child process.

use std::{
    io,
    process::{self, ExitStatus},
};

use mcp_driver::os::thread;

use crate::driver::{Task, Tokio};

/// Waits for the exit of a process on a thread.
pub(crate) fn wait(
    mut started: process::Child,
    exited: impl FnOnce(Option<ExitStatus>) + Send + 'static,
    _runtime: &Tokio,
) -> io::Result<Option<Task>> {
    thread::spawn("mcp-child", move || exited(started.wait().ok()))?;
    Ok(None)
}
