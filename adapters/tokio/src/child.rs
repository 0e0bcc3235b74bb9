//! A server as a child process.

use std::{io, os::fd::OwnedFd, process, sync::Arc};

use mcp_driver::{Child, ChildState, Runtime, tuning::STDERR_GRACE, unix::thread};
#[cfg(target_os = "linux")]
use rustix::process::{Pid, PidfdFlags, pidfd_open};
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::{
    driver::{Task, Tokio},
    io::Stream,
    transport::Transport,
};
use mcp_driver::Command;

/// Starts a program with its standard input and output as the transport.
///
/// It does not use `tokio::process`: with that, a runtime would handle signals from its start, with or without
/// children.
pub(crate) fn spawn(command: &Command, runtime: &Tokio) -> io::Result<(Transport, Child)> {
    let mut started = command.to_std().spawn()?;
    let child = Child::new(command, started.id());
    let (stdin, stdout, stderr) = (started.stdin.take(), started.stdout.take(), started.stderr.take());
    let watching = watch(started, child.process().clone(), runtime).inspect_err(|_| child.kill())?;
    let begun = || {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let stderr = stderr.map(|stderr| Receiver::from_owned_fd(stderr.into())).transpose()?;
        let (stdin, stdout) = (OwnedFd::from(stdin.ok_or_else(missing)?), OwnedFd::from(stdout.ok_or_else(missing)?));
        Ok((Sender::from_owned_fd(stdin)?, Receiver::from_owned_fd(stdout)?, stderr))
    };
    let (stdin, stdout, stderr) = begun().inspect_err(|_: &io::Error| {
        child.kill();
    })?;
    let listening = stderr.map(|stderr| {
        let (child, command) = (child.clone(), command.clone());
        runtime.spawn(async move { child.listen(&command, Stream::new(stderr)).await })
    });
    let (end, on) = (child.clone(), runtime.clone());
    let shut_down = async move {
        end.shut_down(on).await;
        drop((listening, watching));
    };
    let output = child.output(Stream::new(stdout), runtime);
    Ok((Transport::new(output, Stream::new(stdin)).on_close(shut_down).close_timeout(STDERR_GRACE), child))
}

/// Waits for the exit of a process: in a task where the system has process descriptors, otherwise on a thread.
fn watch(mut started: process::Child, process: Arc<ChildState>, runtime: &Tokio) -> io::Result<Option<Task>> {
    #[cfg(target_os = "linux")]
    if let Ok(ended) = pidfd_open(Pid::from_child(&started), PidfdFlags::NONBLOCK) {
        #[allow(deprecated, reason = "what is watched owns its descriptor, and the other way to say so is unsafe")]
        let ended = AsyncFd::with_interest(ended, Interest::READABLE)?;
        return Ok(Some(runtime.spawn(async move {
            let ready = ended.readable().await;
            process.ended(ready.and_then(|_| started.wait()).ok());
        })));
    }
    let _ = runtime;
    thread::spawn("mcp-child", move || process.ended(started.wait().ok()))?;
    Ok(None)
}
