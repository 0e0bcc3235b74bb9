//! The exit of a child process.

use std::{
    io,
    process::{self, ExitStatus},
};

#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;

#[cfg(target_os = "linux")]
use mcp_driver::Runtime;
use mcp_driver::os::thread;
#[cfg(target_os = "linux")]
use rustix::process::{Pid, PidfdFlags, pidfd_open};
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};

use crate::driver::{Task, Tokio};

/// Waits for the exit of a process: in a task where the system has process descriptors, otherwise on a thread.
///
/// It does not use `tokio::process`: with that, a runtime would handle signals from its start, with or without
/// children.
pub(crate) fn wait(
    mut started: process::Child,
    exited: impl FnOnce(Option<ExitStatus>) + Send + 'static,
    runtime: &Tokio,
) -> io::Result<Option<Task>> {
    #[cfg(target_os = "linux")]
    if let Ok(descriptor) = descriptor(&started) {
        return Ok(Some(runtime.spawn(async move {
            let ready = descriptor.readable().await;
            exited(ready.and_then(|_| started.wait()).ok());
        })));
    }
    let _ = runtime;
    thread::spawn("mcp-child", move || exited(started.wait().ok()))?;
    Ok(None)
}

/// Returns a descriptor that is readable once the process has exited.
#[cfg(target_os = "linux")]
#[allow(deprecated, reason = "what is watched owns its descriptor, and the other way to say so is unsafe")]
fn descriptor(started: &process::Child) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd_open(Pid::from_child(started), PidfdFlags::NONBLOCK)?, Interest::READABLE)
}
