//! A server as a child process.

use std::{
    io,
    process::{self, ExitStatus},
};

use async_io::Async;
use mcp_driver::{Child, Runtime, tuning::STDERR_GRACE};

use crate::{driver::Smol, io::Stream, transport::Transport};
use mcp_driver::Command;

/// Starts a program with its standard input and output as the transport.
pub(crate) fn spawn(command: &Command) -> io::Result<(Transport, Child)> {
    let mut started = command.to_std().spawn()?;
    let child = Child::new(command, started.id());
    let (stdin, stdout, stderr) = (started.stdin.take(), started.stdout.take(), started.stderr.take());
    let process = child.process().clone();
    let watching = Smol.spawn(async move { process.ended(wait(started).await.ok()) });
    let begun = || {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let stderr = stderr.map(Async::new).transpose()?;
        Ok((Async::new(stdin.ok_or_else(missing)?)?, Async::new(stdout.ok_or_else(missing)?)?, stderr))
    };
    let (stdin, stdout, stderr) = begun().inspect_err(|_: &io::Error| {
        child.kill();
    })?;
    let listening = stderr.map(|stderr| {
        let (child, command) = (child.clone(), command.clone());
        Smol.spawn(async move { child.listen(&command, Stream::new(stderr)).await })
    });
    let end = child.clone();
    let shut_down = async move {
        end.shut_down(Smol).await;
        drop((listening, watching));
    };
    let output = child.output(Stream::new(stdout), &Smol);
    Ok((Transport::new(output, Stream::new(stdin)).on_close(shut_down).close_timeout(STDERR_GRACE), child))
}

/// Waits for the exit of a process: without a thread where the system has process descriptors.
async fn wait(mut started: process::Child) -> io::Result<ExitStatus> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        if let Ok(ended) = pidfd_open(Pid::from_child(&started), PidfdFlags::NONBLOCK) {
            Async::new_nonblocking(ended)?.readable().await?;
        }
    }
    blocking::unblock(move || started.wait()).await
}
