//! The process of a server whose output is read while lines are written to it.

#[cfg(unix)]
use std::fs::File;
use std::{
    io::{self, Read, Write},
    process::Child,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use mcp_driver::{
    ChildState, Command, ShutdownStep, Start,
    os::process::{ProcessGroup, Spawned, spawn},
    signals::{Closing, block_if_ending, register},
};
use mcp_proto::codec::LineDecoder;

/// The longest message of the server.
const MAX_MESSAGE: usize = 16 << 20;

/// The most events that wait to be taken. A server that writes more has to wait.
const WAITING: usize = 8;

/// How often it is looked whether the server has ended.
const LOOK: Duration = Duration::from_millis(5);

/// An event of a server.
pub(super) enum Event {
    /// The server has written a line.
    Line(Vec<u8>),
    /// The last line was written to the server, or could not be.
    Written(io::Result<()>),
    /// The output of the server has ended.
    End,
}

/// A server that runs. Dropping it closes the input of the process, and ends the process and all that it has started if
/// they do not end in time.
pub(super) struct LiveServer {
    process: Arc<Process>,
    /// The lines for the thread that writes. It can be blocked as long as the server does not read.
    lines: Option<SyncSender<Vec<u8>>>,
    events: Receiver<Event>,
}

/// The process of a server, and its group: a launcher such as `npx` has the server as its own child.
struct Process {
    child: Mutex<Child>,
    /// Whether it has got SIGTERM. A second one may mean something else to it.
    is_terminated: AtomicBool,
    state: Arc<ChildState>,
    group: ProcessGroup,
}

impl Process {
    /// Sends SIGTERM to the group, once.
    fn terminate(&self) {
        if !self.is_terminated.swap(true, Ordering::Relaxed) {
            self.group.terminate();
        }
    }

    /// Ends the process and its group, whose input is closed. `pause` waits for a part of the given time.
    fn shut_down(&self, mut pause: impl FnMut(Duration)) {
        let mut sequence = self.state.shutdown_sequence(Instant::now());
        loop {
            if !self.state.has_ended()
                && let Ok(Some(status)) = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait()
            {
                self.state.ended(Some(status));
            }
            let step = sequence.next(Instant::now(), self.state.has_ended(), self.group.has_members());
            match step {
                // The system may have reused the id of a group that is gone.
                _ if self.state.is_group_gone() => return,
                ShutdownStep::Wait(time) => pause(time),
                ShutdownStep::Terminate => self.terminate(),
                ShutdownStep::Kill => self.group.kill(),
                ShutdownStep::Done => self.state.group_ended(),
            }
        }
    }
}

impl Closing for Process {
    fn begin_close(&self) {
        if !self.state.is_group_gone() {
            self.terminate();
        }
    }

    fn wait(&self) {
        self.shut_down(|time| thread::sleep(time.min(LOOK)));
    }

    fn kill(&self) {
        if !self.state.is_group_gone() {
            self.group.kill();
        }
    }
}

impl LiveServer {
    /// Starts a server. A signal that ends this program ends the server, too.
    pub(super) fn start(command: &Command) -> io::Result<Self> {
        let start = Start::begin();
        let Spawned { child, group, stdin, stdout, .. } = spawn(command.to_std())?;
        let (child, is_terminated) = (Mutex::new(child), AtomicBool::new(false));
        let process = Arc::new(Process { child, is_terminated, state: ChildState::new(command), group });
        register(&process);
        drop(start);
        #[cfg(unix)]
        let (stdin, stdout) = (stdin.map(File::from), stdout.map(File::from));
        let (sender, events) = mpsc::sync_channel(WAITING);
        let (lines, written) = mpsc::sync_channel(1);
        // If a thread cannot be started, dropping the server ends its process.
        let server = Self { process, lines: Some(lines), events };
        if let (Some(input), Some(output)) = (stdin, stdout) {
            let reports = sender.clone();
            thread::Builder::new().name("server-input".into()).spawn(move || write(input, &written, &reports))?;
            thread::Builder::new().name("server-output".into()).spawn(move || read(output, &sender))?;
        }
        Ok(server)
    }

    /// Begins to write a line. The next one has to wait for [`Event::Written`].
    pub(super) fn write(&self, line: Vec<u8>) {
        if let Some(lines) = &self.lines {
            // The thread waits for lines as long as this sender exists.
            let _ = lines.send(line);
        }
    }

    /// Returns the next event, or `None` if there is none before the deadline, or the deadline has passed: a server may
    /// write without end.
    pub(super) fn next_event(&self, deadline: Instant) -> Option<Event> {
        match self.events.recv_timeout(deadline.checked_duration_since(Instant::now())?) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Event::End),
        }
    }
}

impl Drop for LiveServer {
    fn drop(&mut self) {
        // The thread of the signals ends the server, and then this program with the status of the signal.
        block_if_ending();
        self.lines = None;
        self.process.shut_down(|time| {
            let time = time.min(LOOK);
            // The server may write before it ends.
            if matches!(self.events.recv_timeout(time), Err(RecvTimeoutError::Disconnected)) {
                thread::sleep(time);
            }
        });
        block_if_ending();
    }
}

/// Writes lines until there are no more.
fn write(mut input: impl Write, lines: &Receiver<Vec<u8>>, events: &SyncSender<Event>) {
    for line in lines {
        let written = input.write_all(&line).and_then(|()| input.write_all(b"\n")).and_then(|()| input.flush());
        if events.send(Event::Written(written)).is_err() {
            return;
        }
    }
}

/// Reads lines to the end of the output.
fn read(mut output: impl Read, events: &SyncSender<Event>) {
    let mut lines = LineDecoder::new(MAX_MESSAGE);
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match output.read(&mut chunk) {
            Ok(0) => break,
            Ok(len) => lines.feed(&chunk[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        }
        while let Some(frame) = lines.next_frame() {
            if events.send(Event::Line(frame.bytes().to_vec())).is_err() {
                return;
            }
        }
    }
    let _ = events.send(Event::End);
}
