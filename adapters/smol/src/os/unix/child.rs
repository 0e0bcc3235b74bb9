//! The exit of a child process.

use std::{
    io,
    process::{self, ExitStatus},
};

#[cfg(target_os = "linux")]
use async_io::Async;

/// Waits for the exit of a process: without a thread where the system has process descriptors.
pub(crate) async fn wait(mut started: process::Child) -> io::Result<ExitStatus> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        if let Ok(ended) = pidfd_open(Pid::from_child(&started), PidfdFlags::NONBLOCK)
            && let Ok(ended) = Async::new_nonblocking(ended)
        {
            ended.readable().await?;
        }
    }
    blocking::unblock(move || started.wait()).await
}
