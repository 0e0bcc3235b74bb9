//! A server that is a process.

use std::{
    io::{self, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    thread,
    time::{Duration, Instant},
};

use super::wire::{Program, Read};
use crate::error::Failed;

/// The longest line that is read.
const MAX_LINE: usize = 16 << 20;

/// How long a process may take to end after its input was closed, before it is killed.
const END: Duration = Duration::from_secs(2);

/// How long a process may leave its input unread.
const WRITE: Duration = Duration::from_secs(20);

/// How a process is started.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) variables: Vec<(String, String)>,
    pub(super) folder: Option<String>,
    pub(super) quiet: bool,
}

/// A process that is started anew as often as needed.
#[derive(Debug)]
pub(super) struct Process {
    start: Start,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// The thread that writes: a process that does not read must not stop this program.
    input: Option<SyncSender<Vec<u8>>>,
    written: Receiver<io::Result<()>>,
    lines: Receiver<Vec<u8>>,
}

impl Process {
    pub(super) fn new(start: Start) -> Result<Self, Failed> {
        let mut process = Self { start, running: None };
        process.restart().map_err(|error| Failed::start(&process.start.program, &error))?;
        Ok(process)
    }
}

impl Program for Process {
    fn restart(&mut self) -> io::Result<()> {
        self.running = None;
        let Start { program, arguments, variables, folder, quiet } = &self.start;
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(if *quiet { Stdio::null() } else { Stdio::inherit() });
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        // Launchers such as `npx` have the server as their own child: all of them are in one group.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let (sender, lines) = mpsc::sync_channel(1024);
        if let Some(output) = child.stdout.take() {
            thread::Builder::new().name("server".into()).spawn(move || read_lines(output, &sender))?;
        }
        let (input, to_write) = mpsc::sync_channel(1);
        let (acknowledge, written) = mpsc::sync_channel(1);
        if let Some(stdin) = child.stdin.take() {
            thread::Builder::new().name("writer".into()).spawn(move || write_all(stdin, &to_write, &acknowledge))?;
        }
        self.running = Some(Running { child, input: Some(input), written, lines });
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let running = self.running.as_mut().ok_or_else(broken)?;
        let input = running.input.as_ref().ok_or_else(broken)?;
        input.send(bytes.to_vec()).map_err(|_| broken())?;
        running.written.recv_timeout(WRITE).unwrap_or_else(|_| {
            running.input = None;
            Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not read its input"))
        })
    }

    fn read_line(&mut self, timeout: Duration) -> Read {
        let Some(running) = &self.running else { return Read::End };
        match running.lines.recv_timeout(timeout) {
            Ok(line) => Read::Bytes(line),
            Err(RecvTimeoutError::Timeout) => Read::Silence,
            Err(RecvTimeoutError::Disconnected) => Read::End,
        }
    }

    fn ends_after_input(&mut self, timeout: Duration) -> bool {
        self.running.as_mut().is_none_or(|running| running.ends(timeout))
    }
}

impl Running {
    /// Closes the input, and waits for the end.
    fn ends(&mut self, timeout: Duration) -> bool {
        self.input = None;
        let deadline = Instant::now() + timeout;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => {
                    // The output ends with the process, which wakes this thread up early.
                    if self.lines.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Disconnected) {
                        thread::sleep(Duration::from_millis(5));
                    }
                }
                Ok(None) => return false,
                _ => return true,
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let has_ended = self.ends(END);
        #[cfg(unix)]
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // A member of the group may outlive its leader.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        if !has_ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Writes pieces until there are no more, and closes the input.
fn write_all(mut stdin: ChildStdin, pieces: &Receiver<Vec<u8>>, acknowledge: &SyncSender<io::Result<()>>) {
    for piece in pieces {
        let outcome = stdin.write_all(&piece).and_then(|()| stdin.flush());
        if acknowledge.send(outcome).is_err() {
            return;
        }
    }
}

/// Cuts an output into lines. A line that is too long is cut.
fn read_lines(mut output: impl io::Read, sender: &SyncSender<Vec<u8>>) {
    let (mut line, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let len = match output.read(&mut chunk) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for piece in chunk[..len].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            let is_whole = line.last() == Some(&b'\n');
            if is_whole {
                line.pop();
            }
            if (is_whole || line.len() >= MAX_LINE) && sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    }
    if !line.is_empty() {
        let _ = sender.send(line);
    }
}
