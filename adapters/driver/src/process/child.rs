//! A child process on a runtime.

use std::{
    fmt,
    future::Future,
    io,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

#[cfg(feature = "signals")]
use crate::process::signals;
use crate::{
    os::process::{ProcessGroup, Spawned, spawn},
    process::{
        command::Command,
        start::Start,
        state::{ChildState, Exit, ShutdownStep, Stderr},
    },
    runtime::{Runtime, TransportKind, sleep, timeout},
    stream::{
        io::ByteReader,
        stream_runtime::StreamRuntime,
        transport::{OnRuntime, Transport},
    },
    tuning::STDERR_GRACE,
};

/// A child process that runs a server, and its process group. The runtime waits for the exit of the process.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    process: Arc<ChildState>,
    group: ProcessGroup,
}

impl Child {
    /// Starts a program with its standard input and output as the transport. When the transport is closed, the process
    /// is shut down. When the transport is dropped before that, the process and its group are killed.
    ///
    /// # Errors
    /// If the program cannot be started, or the runtime cannot use its pipes.
    pub(crate) fn start<R: StreamRuntime>(
        command: &Command,
        start: Start,
        runtime: &R,
    ) -> io::Result<(OnRuntime<R>, Self)> {
        let Spawned { child: started, group, stdin, stdout, stderr, output_end } = spawn(command.to_std())?;
        let child = Self { process: ChildState::new(command), group };
        let process = child.process.clone();
        let ended = move |status| {
            output_end.wait();
            process.ended(status);
        };
        let guard = KillOnDrop::new(child.clone(), start);
        let waiting = ExitWait::<R>(runtime.wait_for_child(started, ended)?);
        let pipes = || -> io::Result<_> {
            let missing = || io::Error::from(io::ErrorKind::NotFound);
            let stderr = stderr.map(R::pipe_reader).transpose()?;
            let (stdin, stdout) = (stdin.ok_or_else(missing)?, stdout.ok_or_else(missing)?);
            Ok((R::pipe_writer(stdin)?, R::pipe_reader(stdout)?, stderr))
        };
        let (stdin, stdout, stderr) = pipes()?;
        let listening = stderr.map(|stderr| {
            let (child, command) = (child.clone(), command.clone());
            runtime.spawn(async move { child.read_stderr(&command, stderr).await })
        });
        let on = runtime.clone();
        let shut_down = async move {
            guard.shut_down(on).await;
            drop((listening, waiting));
        };
        let transport = Transport::new(child.output(stdout, runtime), stdin);
        let transport = transport.kind(TransportKind::Pipes).on_close(shut_down).close_timeout(STDERR_GRACE);
        Ok((OnRuntime { transport, runtime: PhantomData }, child))
    }

    /// Reads its standard error to the end.
    async fn read_stderr(&self, command: &Command, mut source: impl ByteReader) {
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
    fn output<S: ByteReader, R: Runtime>(&self, source: S, runtime: &R) -> impl ByteReader + use<S, R> {
        let (ended, gone) = (self.clone(), self.clone());
        let runtime = runtime.clone();
        Output {
            source: Box::new(source),
            ended: Box::pin(async move { ended.process.until_ended().await }),
            exit_known: Box::pin(async move {
                if timeout(&runtime, STDERR_GRACE, gone.process.until_ended()).await.is_some() {
                    timeout(&runtime, STDERR_GRACE, gone.process.until_stderr_ended()).await;
                }
            }),
            at_end: false,
            child: self.clone(),
        }
    }

    /// Returns the exit of the process, if it has ended.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.process.exit()
    }

    /// Kills the whole group at once, unless it has ended: the system may have reused its id for another group.
    pub(crate) fn kill(&self) {
        if !self.process.is_group_gone() {
            self.group.kill();
        }
    }
}

/// A guard that kills the group of a process on drop, unless the group has ended.
struct KillOnDrop(Arc<Child>);

impl KillOnDrop {
    /// Creates the guard. A signal that ends this process ends the child, too, also after its client was dropped.
    fn new(child: Child, start: Start) -> Self {
        let child = Arc::new(child);
        #[cfg(feature = "signals")]
        signals::register(&child);
        drop(start);
        Self(child)
    }

    /// Ends the process and its group, after its standard input was closed. Dropping the future kills them.
    async fn shut_down<R: Runtime>(self, runtime: R) {
        let Child { process, group } = &*self.0;
        let mut shutdown_sequence = process.shutdown_sequence(Instant::now());
        loop {
            let has_ended = process.has_ended();
            match shutdown_sequence.next(Instant::now(), has_ended, group.has_members()) {
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
        timeout(&runtime, STDERR_GRACE, process.until_stderr_ended()).await;
    }
}

#[cfg(feature = "signals")]
impl signals::Closing for Child {
    fn begin_close(&self) {}

    fn wait(&self) {
        self.process.wait_group_ended();
    }

    fn kill(&self) {
        self.kill();
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// The wait for the exit of a process. It continues after it is dropped: otherwise a process that has ended would stay
/// in the table of the system as long as this process runs.
struct ExitWait<R: Runtime>(Option<R::Task>);

impl<R: Runtime> Drop for ExitWait<R> {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            R::detach(task);
        }
    }
}

/// The reader that [`Child::output`] returns.
struct Output {
    source: Box<dyn ByteReader>,
    /// Ready when the process has ended.
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Ready when the exit status and the end of standard error are known, or after a bounded wait for them.
    exit_known: Pin<Box<dyn Future<Output = ()> + Send>>,
    at_end: bool,
    child: Child,
}

impl ByteReader for Output {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        while !self.at_end {
            // Output that the child wrote before it ended is still read, so its end is checked before the read. The end
            // does not depend on other processes that hold the pipe open.
            let has_ended = self.child.process.has_ended();
            match self.source.poll_read(cx, buffer) {
                Poll::Ready(Ok(0)) => self.at_end = true,
                Poll::Pending if has_ended => self.at_end = true,
                Poll::Pending if self.ended.as_mut().poll(cx).is_ready() => {}
                read => return read,
            }
        }
        if self.exit_known.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        // A later read returns the same result without waiting.
        self.exit_known = Box::pin(async {});
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// Starts a program that runs until it is stopped.
    fn sleeping() -> (std::process::Child, Child) {
        let command = Command::new("sleep").arg("1000");
        let started = command.to_std().spawn().expect("there is sleep");
        let child = Child { process: ChildState::new(&command), group: ProcessGroup::of(started.id()) };
        (started, child)
    }

    /// The output of a process that writes its last bytes, and ends, after a read that has found nothing.
    struct LastOutput {
        process: Arc<ChildState>,
        reads: usize,
    }

    impl ByteReader for LastOutput {
        fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
            self.reads += 1;
            if self.reads == 1 {
                self.process.ended(Some(std::process::ExitStatus::from_raw(0)));
            }
            if self.reads != 2 {
                return Poll::Pending;
            }
            buffer[0] = b'x';
            Poll::Ready(Ok(1))
        }
    }

    #[test]
    fn reads_what_was_written_just_before_the_end() {
        let process = ChildState::new(&Command::new("program"));
        let child = Child { process: process.clone(), group: ProcessGroup::of(0) };
        let ended = process.clone();
        let mut output = Output {
            source: Box::new(LastOutput { process, reads: 0 }),
            ended: Box::pin(async move { ended.until_ended().await }),
            exit_known: Box::pin(async {}),
            at_end: false,
            child,
        };
        let mut read = || output.poll_read(&mut Context::from_waker(std::task::Waker::noop()), &mut [0]);
        assert!(matches!(read(), Poll::Ready(Ok(1))), "the last byte");
        assert!(matches!(read(), Poll::Ready(Ok(0))), "the end");
    }

    #[test]
    fn kills_group_of_ended_leader_and_no_other() {
        let (mut started, child) = sleeping();
        child.process.ended(None);
        drop(KillOnDrop::new(child, Start::begin()));
        assert_eq!(
            started.wait().expect("it is ours").signal(),
            Some(9),
            "the remaining members of the group are killed"
        );
        let (mut started, child) = sleeping();
        child.process.ended(None);
        child.process.group_ended();
        child.kill();
        drop(KillOnDrop::new(child.clone(), Start::begin()));
        // The id may belong to another group now, so it must not be killed. If it was, SIGTERM would come too late.
        child.group.terminate();
        assert_eq!(started.wait().expect("it is ours").signal(), Some(15), "its id is not used any more");
    }
}
