//! A server that is a child process, with an observer between.

use std::{
    io::{self, ErrorKind, Read, Write},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use mcp_blocking::{ByteReader, ByteWriter, Transport};
use mcp_driver::{
    ChildState, Command, ShutdownStep, Stderr,
    os::process::{ProcessGroup, ReadPipe, Spawned, WritePipe, spawn},
};

use super::observer::{Lines, Observer};
use crate::record::Origin;

/// How long the rest of the output is read after the process has ended.
const GRACE: Duration = Duration::from_millis(500);

/// A running server.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    state: Arc<ChildState>,
    group: ProcessGroup,
}

impl Program {
    /// Starts a program. Its standard input and output are the transport. Lines of its error output are logged, unless
    /// it is quiet.
    pub(crate) fn start(command: Command, observer: &Observer, is_quiet: bool) -> io::Result<(Transport, Self)> {
        let log = observer.clone();
        let command = if is_quiet { command.discard_stderr() } else { command.on_stderr(move |line| log.log(line)) };
        let Spawned { mut child, group, stdin, stdout, stderr, output_end } = spawn(command.to_std())?;
        let program = Self { state: ChildState::new(&command), group };
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            program.kill();
            return Err(ErrorKind::NotFound.into());
        };
        let mut errors = Stderr::new(&program.state, &command);
        start("errors", move || {
            let mut chunk = [0; 8 * 1024];
            let mut source = stderr.map(reader);
            loop {
                // A read error counts as the end.
                let len = source.as_mut().and_then(|it| it.read(&mut chunk).ok()).unwrap_or_default();
                errors.feed(&chunk[..len]);
                if len == 0 {
                    return;
                }
            }
        })
        .inspect_err(|_| program.kill())?;
        let (state, exit) = (program.state.clone(), observer.clone());
        start("child", move || {
            let status = child.wait().ok();
            output_end.wait();
            state.ended(status);
            if let Some(end) = state.exit() {
                exit.event(format!("the server ended with {end}"));
            }
        })
        .inspect_err(|_| program.kill())?;
        let output = Output { source: Box::new(reader(stdout)), lines: Lines::new(observer.clone(), Origin::Server) };
        let input = Input { sink: Box::new(writer(stdin)), lines: Lines::new(observer.clone(), Origin::Client) };
        let end = program.clone();
        Ok((Transport::new(output, input).on_close(move || end.shut_down()).close_timeout(GRACE), program))
    }

    /// Ends the process and its group, after its standard input was closed.
    fn shut_down(&self) {
        let Self { state, group } = self;
        let mut sequence = state.shutdown_sequence(Instant::now());
        loop {
            let has_ended = state.has_ended();
            match sequence.next(Instant::now(), has_ended, group.has_members()) {
                ShutdownStep::Wait(time) if has_ended => thread::sleep(time),
                ShutdownStep::Wait(time) => drop(state.wait_ended(time)),
                ShutdownStep::Terminate => group.terminate(),
                ShutdownStep::Kill => group.kill(),
                ShutdownStep::Done => return state.group_ended(),
            }
        }
    }

    /// Kills the whole group, unless it is gone: the system may have reused its id.
    pub(crate) fn kill(&self) {
        if !self.is_gone() {
            self.group.kill();
        }
    }

    /// Returns whether the whole group has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.state.is_group_gone()
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(format!("inspect-{name}")).spawn(run)
}

#[cfg(unix)]
fn reader(pipe: ReadPipe) -> impl Read + Send + 'static {
    std::fs::File::from(pipe)
}

#[cfg(unix)]
fn writer(pipe: WritePipe) -> impl Write + Send + 'static {
    std::fs::File::from(pipe)
}

#[cfg(not(unix))]
fn reader(pipe: ReadPipe) -> impl Read + Send + 'static {
    pipe
}

#[cfg(not(unix))]
fn writer(pipe: WritePipe) -> impl Write + Send + 'static {
    pipe
}

/// The standard output of the server.
struct Output {
    source: Box<dyn Read + Send>,
    lines: Lines,
}

impl ByteReader for Output {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.source.read(buffer) {
                Ok(0) => {
                    self.lines.end();
                    return Ok(0);
                }
                Ok(len) => {
                    self.lines.feed(&buffer[..len]);
                    return Ok(len);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The standard input of the server.
struct Input {
    sink: Box<dyn Write + Send>,
    lines: Lines,
}

impl ByteWriter for Input {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Before the server can respond to it.
        self.lines.feed(bytes);
        self.sink.write_all(bytes)?;
        Ok(bytes.len())
    }
}
