//! The process of a server whose output is read while lines are written to it.

use std::{
    io::{self, Read, Write},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    thread,
    time::{Duration, Instant},
};

use mcp_proto::codec::LineDecoder;

/// The longest message of the server.
const MAX_MESSAGE: usize = 16 << 20;

/// The most events that wait to be taken. A server that writes more has to wait.
const WAITING: usize = 8;

/// How long a server may take to end after its input was closed.
const END: Duration = Duration::from_secs(2);

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

/// The process of a server. Dropping it closes the input of the process, and kills it if it does not end in time.
pub(super) struct LiveServer {
    child: Child,
    /// The lines for the thread that writes. It can be blocked as long as the server does not read.
    lines: Option<SyncSender<Vec<u8>>>,
    events: Receiver<Event>,
}

impl LiveServer {
    /// Starts a server.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, events) = mpsc::sync_channel(WAITING);
        let (lines, written) = mpsc::sync_channel(1);
        // If a thread cannot be started, dropping the server ends its process.
        let server = Self { child, lines: Some(lines), events };
        if let (Some(input), Some(output)) = (input, output) {
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
        self.lines = None;
        let deadline = Instant::now() + END;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            // The server may write before it ends.
            if matches!(self.events.recv_timeout(LOOK), Err(RecvTimeoutError::Disconnected)) {
                thread::sleep(LOOK);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
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
