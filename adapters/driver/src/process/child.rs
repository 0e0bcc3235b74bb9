//! A child process on a runtime.

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use crate::{
    process::{
        command::Command,
        state::{ChildState, Exit, ShutdownStep, Stderr},
    },
    runtime::{Runtime, sleep, timeout},
    stream::io::ByteReader,
    tuning::STDERR_GRACE,
    unix::fd::ProcessGroup,
};

/// A child process that runs a server, and its process group. The adapter waits for the exit of the process and reads
/// its standard error. This type does the rest.
#[derive(Clone, Debug)]
pub struct Child {
    process: Arc<ChildState>,
    group: ProcessGroup,
}

impl Child {
    /// Creates the state of the process with this id, which was started by a command.
    #[must_use]
    pub fn new(command: &Command, number: u32) -> Self {
        Self { process: ChildState::of(command), group: ProcessGroup::of(number) }
    }

    /// Returns the state of the process.
    #[must_use]
    pub const fn process(&self) -> &Arc<ChildState> {
        &self.process
    }

    /// Reads its standard error to the end.
    pub async fn listen(&self, command: &Command, mut source: impl ByteReader) {
        let mut stderr = Stderr::new(&self.process, command);
        let mut chunk = vec![0; 8 * 1024];
        loop {
            // A read error counts as the end: standard error is only for diagnostics.
            let len = std::future::poll_fn(|cx| source.poll_read(cx, &mut chunk)).await.unwrap_or(0);
            stderr.feed(&chunk[..len]);
            if len == 0 {
                return;
            }
        }
    }

    /// Wraps the standard output of the process as a reader. It ends when the process ends, with an error unless the
    /// process reported success.
    pub fn output<S: ByteReader, R: Runtime>(&self, source: S, runtime: &R) -> impl ByteReader + use<S, R> {
        let (ended, gone) = (self.clone(), self.clone());
        let runtime = runtime.clone();
        Output {
            source: Box::new(source),
            ended: Box::pin(async move { ended.process.until_ended().await }),
            last_words: Box::pin(async move {
                if timeout(&runtime, STDERR_GRACE, gone.process.until_ended()).await.is_some() {
                    timeout(&runtime, STDERR_GRACE, gone.process.until_silent()).await;
                }
            }),
            at_end: false,
            child: self.clone(),
        }
    }

    /// Ends the process and its group, after its standard input was closed. Dropping the future kills them.
    pub async fn shut_down<R: Runtime>(self, runtime: R) {
        let leash = KillOnDrop(self);
        let Self { process, group } = &leash.0;
        let mut shutdown_sequence = process.shutdown_sequence(Instant::now());
        loop {
            let has_ended = process.has_ended();
            match shutdown_sequence.next(Instant::now(), has_ended, group.is_anybody_left()) {
                ShutdownStep::Wait(time) if has_ended => sleep(&runtime, time).await,
                ShutdownStep::Wait(time) => drop(timeout(&runtime, time, process.until_ended()).await),
                ShutdownStep::Terminate => group.terminate(),
                ShutdownStep::Kill => group.kill(),
                ShutdownStep::Done => {
                    process.group_ended();
                    break;
                }
            }
        }
        // The wait is bounded, because a process that has left the group can keep standard error open.
        timeout(&runtime, STDERR_GRACE, process.until_silent()).await;
    }

    /// Returns the exit of the process, if it has ended.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.process.exit()
    }

    /// Kills the whole group at once, unless the group is gone: the system may have reused its id for another group.
    pub fn kill(&self) {
        if !self.process.is_group_gone() {
            self.group.kill();
        }
    }
}

/// Kills the group of a process when it is dropped, unless the group is gone.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// The reader that [`Child::output`] returns.
struct Output {
    source: Box<dyn ByteReader>,
    /// Ready when the process has ended.
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Ready when the exit status and the end of standard error are known, or after a bounded wait for them.
    last_words: Pin<Box<dyn Future<Output = ()> + Send>>,
    at_end: bool,
    child: Child,
}

impl ByteReader for Output {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if !self.at_end {
            match self.source.poll_read(cx, buffer) {
                Poll::Ready(Ok(0)) => {}
                // Output that the child wrote before it ended is still read. The end does not depend on other processes
                // that hold the pipe open.
                Poll::Pending if self.child.process.has_ended() || self.ended.as_mut().poll(cx).is_ready() => {}
                read => return read,
            }
            self.at_end = true;
        }
        if self.last_words.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        // A later read returns the same result without waiting.
        self.last_words = Box::pin(async {});
        Poll::Ready(match self.child.exit() {
            Some(exit) if !exit.success() => Err(io::Error::other(format!("the server ended with {exit}"))),
            _ => Ok(0),
        })
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("child", &self.child).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// Starts a program that runs until it is stopped.
    fn sleeping() -> (std::process::Child, Child) {
        let command = Command::new("sleep").arg("1000");
        let started = command.to_std().spawn().expect("there is sleep");
        let child = Child::new(&command, started.id());
        (started, child)
    }

    #[test]
    fn a_group_is_killed_whose_leader_has_ended_and_no_other() {
        let (mut started, child) = sleeping();
        child.process.ended(None);
        drop(KillOnDrop(child));
        assert_eq!(started.wait().expect("it is ours").signal(), Some(9), "who is left in the group is killed");
        let (mut started, child) = sleeping();
        child.process.ended(None);
        child.process.group_ended();
        child.kill();
        drop(KillOnDrop(child.clone()));
        // The id may belong to another group now, so it must not be killed. If it was, SIGTERM would come too late.
        child.group.terminate();
        assert_eq!(started.wait().expect("it is ours").signal(), Some(15), "its number is not used any more");
    }
}
