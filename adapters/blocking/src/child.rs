//! A server as a child process, from its start to the end of its process group.

use std::{
    io::{self, ErrorKind},
    process,
    sync::{Arc, Mutex, mpsc},
    thread::{self, JoinHandle},
    time::Instant,
};

#[cfg(feature = "signals")]
use mcp_driver::signals;
use mcp_driver::{
    ChildState, Exit, ShutdownStep, Start, Stderr,
    os::process::{OutputEnd, ProcessGroup, ReadPipe, Spawned, WritePipe, spawn as spawn_process},
    tuning::STDERR_GRACE,
};

use crate::{
    os::{ChildReader, child_reader, child_writer, release_handle},
    transport::{ByteReader, ByteWriter, Transport},
};
use mcp_driver::os::thread::{lock, spawn};
use mcp_driver::{Command, StopHandle, WaitingThread};

/// The size of reads from standard error.
const CHUNK: usize = 8 * 1024;

/// A child process that runs a server, and its process group.
#[derive(Clone)]
pub(crate) struct Child(Arc<Inner>);

struct Inner {
    process: Arc<ChildState>,
    group: ProcessGroup,
    /// The threads that wait for it and read its standard error, and the handle that stops the latter.
    threads: Mutex<(Vec<JoinHandle<()>>, Option<StopHandle>)>,
}

impl Child {
    /// Starts a program. Its standard input and output are the transport.
    pub(crate) fn spawn(command: &Command, start: Start) -> io::Result<(Transport, Self)> {
        let Spawned { child: started, group, stdin, stdout, stderr, output_end } = spawn_process(command.to_std())?;
        let child = Self(Arc::new(Inner { process: ChildState::new(command), group, threads: Mutex::default() }));
        #[cfg(feature = "signals")]
        signals::register(&child.0);
        drop(start);
        let streams = child.streams((stdin, stdout, stderr), command);
        if streams.is_err() {
            child.kill();
        }
        // The thread is started even after an error, so that the process is always waited for.
        let release = streams.as_ref().ok().map(|(output, _)| release_handle(&output.source));
        child.watch(started, output_end, release)?;
        let (output, input) = streams?;
        let end = child.clone();
        Ok((Transport::new(output, input).on_close(move || end.shut_down()).close_timeout(STDERR_GRACE), child))
    }

    fn streams(
        &self,
        (stdin, stdout, stderr): (Option<WritePipe>, Option<ReadPipe>, Option<ReadPipe>),
        command: &Command,
    ) -> io::Result<(Output, impl ByteWriter + use<>)> {
        let missing = || io::Error::from(ErrorKind::NotFound);
        let (input, output) = (stdin.ok_or_else(missing)?, stdout.ok_or_else(missing)?);
        if let Some(stderr) = stderr {
            self.listen(child_reader(stderr), Stderr::new(&self.0.process, command))?;
        }
        Ok((Output { source: child_reader(output), child: self.clone() }, child_writer(input)))
    }

    /// Reads standard error to its end.
    fn listen(&self, mut source: ChildReader, mut stderr: Stderr) -> io::Result<()> {
        lock(&self.0.threads).1 = source.stop_handle();
        let thread = spawn("mcp-stderr", move || {
            let mut chunk = [0; CHUNK];
            loop {
                // A read error counts as the end: standard error is only for diagnostics.
                let len = source.read(&mut chunk).unwrap_or(0);
                stderr.feed(&chunk[..len]);
                if len == 0 {
                    return;
                }
            }
        })?;
        lock(&self.0.threads).0.push(thread);
        Ok(())
    }

    /// Waits for the process on a thread.
    fn watch(
        &self,
        mut started: process::Child,
        output_end: OutputEnd,
        release: Option<impl FnOnce() + Send + 'static>,
    ) -> io::Result<()> {
        let process = self.0.process.clone();
        let (hand_over, handed_over) = mpsc::sync_channel::<process::Child>(1);
        let thread = spawn("mcp-child", move || {
            let Ok(mut started) = handed_over.recv() else { return };
            let status = started.wait().ok();
            output_end.wait();
            process.ended(status);
            if let Some(release) = release {
                // Output that the child wrote before it ended is still read.
                release();
            }
        });
        let thread = match thread {
            Ok(thread) => thread,
            Err(error) => {
                // Without the thread, the process is ended and waited for here.
                self.kill();
                let _ = started.wait();
                return Err(error);
            }
        };
        // The thread waits for it, so it is received.
        let _ = hand_over.send(started);
        lock(&self.0.threads).0.push(thread);
        Ok(())
    }

    /// Returns the exit of the process, if it has ended. Waits a bounded time for the rest of its standard error.
    pub(crate) fn exit(&self) -> Option<Exit> {
        if self.0.process.has_ended() {
            self.0.process.wait_stderr_ended(STDERR_GRACE);
        }
        self.0.process.exit()
    }

    /// Ends the process and its group, after its standard input was closed.
    fn shut_down(&self) {
        let Inner { process, group, .. } = &*self.0;
        let mut shutdown_sequence = process.shutdown_sequence(Instant::now());
        loop {
            let has_ended = process.has_ended();
            match shutdown_sequence.next(Instant::now(), has_ended, group.has_members()) {
                ShutdownStep::Wait(time) if has_ended => thread::sleep(time),
                ShutdownStep::Wait(time) => drop(process.wait_ended(time)),
                ShutdownStep::Terminate => group.terminate(),
                ShutdownStep::Kill => group.kill(),
                ShutdownStep::Done => {
                    process.group_ended();
                    break;
                }
            }
        }
        // The wait is bounded, because a process that has left the group can keep standard error open.
        process.wait_stderr_ended(STDERR_GRACE);
        let (threads, stop_stderr) = std::mem::take(&mut *lock(&self.0.threads));
        if let Some(stop) = stop_stderr {
            stop();
        }
        for thread in threads.into_iter().filter(|_| process.has_ended()) {
            let _ = thread.join();
        }
    }

    /// Kills the whole group at once, unless the group is gone: the system may have reused its id for another group.
    pub(crate) fn kill(&self) {
        self.0.kill();
    }
}

impl Inner {
    fn kill(&self) {
        if !self.process.is_group_gone() {
            self.group.kill();
        }
    }
}

/// A signal that ends this process ends the child, too, also while its client is dropped.
#[cfg(feature = "signals")]
impl signals::Closing for Inner {
    fn begin_close(&self) {}

    fn wait(&self) {
        self.process.wait_group_ended();
    }

    fn kill(&self) {
        self.kill();
    }
}

/// The standard output of the process. It ends when the process ends, with an error unless the process reported
/// success.
struct Output {
    source: ChildReader,
    child: Child,
}

impl Output {
    /// Returns the number of bytes that were read, or the error of the process if they have ended with it.
    fn check_end(&self, len: usize) -> io::Result<usize> {
        if len > 0 || !self.child.0.process.wait_ended(STDERR_GRACE) {
            return Ok(len);
        }
        match self.child.exit() {
            Some(exit) if !exit.success() => Err(io::Error::other(format!("the server ended with {exit}"))),
            _ => Ok(0),
        }
    }
}

impl ByteReader for Output {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read(buffer)?;
        self.check_end(len)
    }

    fn read_until_notified(&mut self, buffer: &mut [u8], thread: &WaitingThread) -> io::Result<usize> {
        let len = self.source.read_until_notified(buffer, thread)?;
        self.check_end(len)
    }

    fn stop_handle(&self) -> Option<StopHandle> {
        self.source.stop_handle()
    }
}
