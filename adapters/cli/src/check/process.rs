//! A server that is a process.

#[cfg(unix)]
use std::fs::File;
use std::{
    fs,
    io::{self, Write},
    panic,
    path::PathBuf,
    process::{self, Child},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use mcp_driver::{
    Command,
    os::process::{ProcessGroup, ReadPipe, Spawned, WritePipe, spawn},
    signals::{block_if_ending, is_ending},
};
#[cfg(unix)]
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use super::wire::{Program, Read};
use crate::error::Failed;

/// The longest line that is read.
const MAX_LINE: usize = 16 << 20;

/// The most bytes of lines that are read ahead of the checks. After them the process has to wait.
const MAX_QUEUED: usize = 64 << 20;

/// The bytes of a line in the queue in addition to its content.
const LINE: usize = 64;

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
    lines: Lines,
}

/// Lines that are read ahead.
#[derive(Debug)]
struct Lines {
    receiver: Receiver<Vec<u8>>,
    room: Arc<Room>,
}

impl Lines {
    fn recv_timeout(&self, timeout: Duration) -> Result<Vec<u8>, RecvTimeoutError> {
        let line = self.receiver.recv_timeout(timeout)?;
        self.room.free(line.len() + LINE);
        Ok(line)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // The thread that reads may wait for room.
        self.room.close();
    }
}

/// The room for lines that are read ahead, in bytes.
#[derive(Debug)]
pub(super) struct Room {
    /// `None` is closed.
    left: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        Self { left: Mutex::new(Some(bytes)), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<usize>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room and takes it. Returns whether there is any: there is none after the end.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let is_full = |left: &mut Option<usize>| left.is_some_and(|left| left < bytes);
        let mut left = self.changed.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner);
        *left = left.map(|left| left - bytes);
        left.is_some()
    }

    pub(super) fn free(&self, bytes: usize) {
        let mut left = self.lock();
        *left = left.map(|left| left + bytes);
        self.changed.notify_all();
    }

    pub(super) fn close(&self) {
        *self.lock() = None;
        self.changed.notify_all();
    }
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
        let mut command = Command::new(program).args(arguments).inherit_env();
        for (name, value) in variables {
            command = command.env(name, value);
        }
        if let Some(folder) = folder {
            command = command.current_dir(folder);
        }
        command = if *quiet { command.discard_stderr() } else { command.inherit_stderr() };
        // Launchers such as `npx` have the server as their own child: all of them are in one group.
        let (child, stdin, stdout) = start(command.to_std())?;
        #[cfg(unix)]
        let (stdin, stdout) = (stdin.map(File::from), stdout.map(File::from));
        let (sender, receiver) = mpsc::channel();
        let lines = Lines { receiver, room: Arc::new(Room::new(MAX_QUEUED)) };
        if let Some(output) = stdout {
            let room = lines.room.clone();
            thread::Builder::new().name("server".into()).spawn(move || read_lines(output, &sender, &room))?;
        }
        let (input, to_write) = mpsc::sync_channel(1);
        let (acknowledge, written) = mpsc::sync_channel(1);
        if let Some(stdin) = stdin {
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
        // A member of the group may outlive its leader.
        kill_group(&mut lock_group());
        if !has_ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The process group of the server that runs, or its job on Windows.
static GROUP: Mutex<Option<ProcessGroup>> = Mutex::new(None);

/// A file that is removed at the end.
static FILE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Names the file that a signal removes, too.
pub(super) fn remove_on_signals(file: Option<PathBuf>) {
    *FILE.lock().unwrap_or_else(PoisonError::into_inner) = file;
}

pub(super) fn lock_group() -> MutexGuard<'static, Option<ProcessGroup>> {
    GROUP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process with a group of its own, which ends together with this program. Returns it with its standard input
/// and output.
pub(super) fn start(command: process::Command) -> io::Result<(Child, Option<WritePipe>, Option<ReadPipe>)> {
    let mut group = lock_group();
    if is_ending() {
        // The group has been ended already.
        drop(group);
        block_if_ending();
        group = lock_group();
    }
    let Spawned { child, group: started, stdin, stdout, .. } = spawn(command)?;
    *group = Some(started);
    Ok((child, stdin, stdout))
}

pub(super) fn kill_group(group: &mut Option<ProcessGroup>) {
    if let Some(group) = group.take() {
        group.kill();
    }
}

/// Ends the process group, and removes the file.
fn release(group: &mut Option<ProcessGroup>, file: &mut Option<PathBuf>) {
    kill_group(group);
    if let Some(file) = file.take() {
        let _ = fs::remove_file(file);
    }
}

/// Ends the server together with this program on SIGINT, SIGTERM and SIGHUP: Ctrl-C does not reach another group. So
/// does a panic if it aborts the program, since nothing is dropped then.
#[cfg(unix)]
pub(super) fn end_on_signals() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let end = move || {
        if let Some(signal) = signals.forever().next() {
            // The guard is kept, so that no process is started any more.
            let mut group = lock_group();
            release(&mut group, &mut FILE.lock().unwrap_or_else(PoisonError::into_inner));
            process::exit(128 + signal);
        }
    };
    if cfg!(panic = "abort") {
        end_on_panics();
    }
    thread::Builder::new().name("signals".into()).spawn(end).map(|_| ())
}

/// Ends the server together with this program at the events of the console, which do not reach a job, and at a panic if
/// it aborts the program.
#[cfg(not(unix))]
pub(super) fn end_on_signals() -> io::Result<()> {
    use std::sync::LazyLock;

    use mcp_driver::signals::{Closing, register};

    /// The group of the server that runs.
    struct Group;

    impl Closing for Group {
        fn begin_close(&self) {
            self.kill();
        }

        fn wait(&self) {}

        fn kill(&self) {
            release(&mut lock_group(), &mut FILE.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    static CURRENT: LazyLock<Arc<Group>> = LazyLock::new(|| Arc::new(Group));

    if cfg!(panic = "abort") {
        end_on_panics();
    }
    register(&CURRENT);
    mcp_blocking::shutdown_on_signals()
}

/// Ends the server together with this program at a panic.
fn end_on_panics() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        previous(info);
        // The thread that panics may have a lock.
        if let (Ok(mut group), Ok(mut file)) = (GROUP.try_lock(), FILE.try_lock()) {
            release(&mut group, &mut file);
        }
    }));
}

/// Writes pieces until there are no more, and closes the input.
fn write_all(mut stdin: impl Write, pieces: &Receiver<Vec<u8>>, acknowledge: &SyncSender<io::Result<()>>) {
    for piece in pieces {
        let outcome = stdin.write_all(&piece).and_then(|()| stdin.flush());
        if acknowledge.send(outcome).is_err() {
            return;
        }
    }
}

/// Cuts an output into lines. A line that is too long is cut.
fn read_lines(mut output: impl io::Read, sender: &Sender<Vec<u8>>, room: &Room) {
    let send = |line: Vec<u8>| room.take(line.len() + LINE) && sender.send(line).is_ok();
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
            if (is_whole || line.len() >= MAX_LINE) && !send(std::mem::take(&mut line)) {
                return;
            }
        }
    }
    if !line.is_empty() {
        send(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variable of the environment that makes a test panic with a server, and names a file.
    #[cfg(unix)]
    const PANICS: &str = "MCP_TEST_PANICS";

    /// A process of this test panics. As with `panic = "abort"`, nothing of it is dropped that would end the server.
    #[cfg(unix)]
    #[test]
    fn panics_end_the_server_and_remove_the_file() {
        use std::{env, os::unix::process::CommandExt, time::Instant};

        if let Some(file) = env::var_os(PANICS) {
            end_on_panics();
            remove_on_signals(Some(file.into()));
            let mut server = process::Command::new("sleep").arg("60").process_group(0).spawn().expect("it starts");
            *lock_group() = Some(ProcessGroup::of(server.id()));
            thread::spawn(|| panic!("a bug")).join().expect_err("it panics");
            // The hook has ended the server.
            server.wait().expect("it ends");
            panic!("a second bug");
        }
        let file = env::temp_dir().join(format!("mcp-cli-panics-{}", process::id()));
        fs::write(&file, "a token").expect("it is written");
        let mut test = process::Command::new(env::current_exe().expect("a program"));
        test.args(["--exact", "check::process::tests::panics_end_the_server_and_remove_the_file", "--nocapture"]);
        let began = Instant::now();
        // The server has the outputs, too, so they end with it.
        let output = test.env(PANICS, &file).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("a bug") && !output.status.success(), "{text}");
        assert!(began.elapsed() < Duration::from_secs(30), "the server is not ended");
        assert!(!file.exists(), "the file is there");
    }

    #[test]
    fn lines_are_not_read_ahead_without_a_limit() {
        let (sender, receiver) = mpsc::channel();
        let room = Arc::new(Room::new(3 * (LINE + 1)));
        let lines = Lines { receiver, room: room.clone() };
        let reader = thread::spawn(move || read_lines(&b"a\nb\nc\nd\ne"[..], &sender, &room));
        for line in [b"a", b"b", b"c", b"d"] {
            // The fourth line is only there because room has become free.
            assert_eq!(lines.recv_timeout(Duration::from_secs(60)).expect("a line"), line);
            assert!(lines.room.lock().is_some_and(|left| left <= 3 * (LINE + 1)));
        }
        drop(lines);
        reader.join().expect("it ends");
    }

    #[test]
    fn readers_wait_for_room() {
        let (sender, receiver) = mpsc::channel();
        let room = Arc::new(Room::new(LINE + 1));
        let lines = Lines { receiver, room: room.clone() };
        let reader = thread::spawn(move || read_lines(&b"a\nb\n"[..], &sender, &room));
        // Without the first line there is no second one: dropping the lines ends the thread, which waits for room.
        drop(lines);
        reader.join().expect("it ends");
        let closed = Room::new(0);
        closed.close();
        assert!(!closed.take(1) && Room::new(1).take(1));
    }
}
