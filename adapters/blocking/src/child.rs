//! A server as a child process, from its start to the last of its group.

use std::{
    fmt,
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    process::{self, ExitStatus},
    sync::{Arc, Condvar, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::{
    Source, Stopper, Transport,
    fd::{FdSink, FdSource, Latch},
    lock::{lock, spawn, wait_for},
    stderr::{OnLine, Tail, drain},
};

/// How long after the end of its output the exit of a process is waited for, to be told with it, and then the end of
/// what it says on standard error.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// How long what was killed may take to be gone. Only the kernel can delay it.
const KILLED: Duration = Duration::from_secs(1);

/// What becomes of standard error.
#[derive(Clone)]
pub(crate) enum Stderr {
    Inherit,
    Discard,
    Keep(Option<OnLine>),
}

/// How long a process may take to end.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) after_eof: Duration,
    pub(crate) after_sigterm: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { after_eof: Duration::from_secs(2), after_sigterm: Duration::from_secs(2) }
    }
}

/// How a process ended.
#[derive(Clone, Debug)]
pub struct Exit {
    /// Its exit status, unless it could not be had.
    pub status: Option<ExitStatus>,
    /// The last lines of its standard error, if they were kept.
    pub stderr: Vec<String>,
}

impl Exit {
    /// Whether it said that all went well.
    #[must_use]
    pub fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => status.fmt(f)?,
            None => f.write_str("exit status unknown")?,
        }
        match self.stderr.as_slice() {
            [] => Ok(()),
            lines => write!(f, "; the end of its standard error:\n{}", lines.join("\n")),
        }
    }
}

/// A process that was started as a server, and all that it starts.
#[derive(Clone)]
pub(crate) struct Child(Arc<Inner>);

struct Inner {
    /// The number of the process, and of its group.
    group: Pid,
    patience: Patience,
    life: Mutex<Life>,
    changed: Condvar,
}

#[derive(Default)]
struct Life {
    ended: bool,
    status: Option<ExitStatus>,
    /// Standard error has ended, or is not ours.
    silent: bool,
    tail: Tail,
    stop_stderr: Option<Stopper>,
    threads: Vec<JoinHandle<()>>,
}

impl Child {
    /// Takes charge of a process that leads a group of its own.
    pub(crate) fn adopt(
        mut process: process::Child,
        stderr: Stderr,
        patience: Patience,
    ) -> io::Result<(Transport, Self)> {
        let group = Pid::from_child(&process);
        let child = Self(Arc::new(Inner { group, patience, life: Mutex::default(), changed: Condvar::new() }));
        let streams = child.streams(&mut process, stderr);
        if streams.is_err() {
            child.signal(Signal::KILL);
        }
        // From here on there is somebody who waits for it, whatever else fails.
        let latch = streams.as_ref().ok().map(|(output, _)| output.source.latch());
        child.watch(process, latch)?;
        let (output, input) = streams?;
        let end = child.clone();
        Ok((Transport::new(output, input).at_end(move || end.shut_down()).linger(LAST_WORDS), child))
    }

    fn streams(&self, process: &mut process::Child, stderr: Stderr) -> io::Result<(Output, FdSink)> {
        let missing = || io::Error::from(ErrorKind::NotFound);
        let input = OwnedFd::from(process.stdin.take().ok_or_else(missing)?);
        let output = OwnedFd::from(process.stdout.take().ok_or_else(missing)?);
        match (stderr, process.stderr.take()) {
            (Stderr::Keep(on_line), Some(stderr)) => self.listen(FdSource::new(stderr.into())?, on_line)?,
            _ => lock(&self.0.life).silent = true,
        }
        Ok((Output { source: FdSource::new(output)?, child: self.clone() }, FdSink::new(input, false)?))
    }

    fn listen(&self, stderr: FdSource, on_line: Option<OnLine>) -> io::Result<()> {
        let child = self.clone();
        let stopper = stderr.stopper();
        let thread = spawn("mcp-stderr", move || {
            drain(stderr, |line| lock(&child.0.life).tail.push(line), on_line);
            child.change(|life| life.silent = true);
        })?;
        self.change(|life| {
            life.stop_stderr = stopper;
            life.threads.push(thread);
        });
        Ok(())
    }

    /// Waits for the process on a thread.
    fn watch(&self, mut process: process::Child, output: Option<Arc<Latch>>) -> io::Result<()> {
        let child = self.clone();
        let thread = spawn("mcp-child", move || {
            let status = process.wait().ok();
            child.change(|life| (life.ended, life.status) = (true, status));
            if let Some(output) = output {
                // What it has written is still read; whoever else could write there does not speak for it.
                output.release();
            }
        })?;
        self.change(|life| life.threads.push(thread));
        Ok(())
    }

    /// How it ended, if it has. Once it has, its last lines may be a moment late; they are waited for.
    pub(crate) fn exit(&self) -> Option<Exit> {
        if !self.has_ended() {
            return None;
        }
        self.wait_until(LAST_WORDS, |life| life.silent);
        let life = lock(&self.0.life);
        Some(Exit { status: life.status, stderr: life.tail.lines() })
    }

    /// Ends the process and its group. Standard input has been closed; what that does not end is told to end, and what
    /// does not end then is killed.
    fn shut_down(&self) {
        let Patience { after_eof, after_sigterm } = self.0.patience;
        // Those whom the process leaves behind have nobody left to serve.
        if !self.wait_until(after_eof, |life| life.ended) || self.is_anybody_left() {
            self.signal(Signal::TERM);
            if !self.wait_gone(after_sigterm) {
                self.signal(Signal::KILL);
                self.wait_gone(KILLED);
            }
        }
        // Whoever has left the group can still hold standard error.
        self.wait_until(LAST_WORDS, |life| life.silent);
        let (stop, threads) = {
            let mut life = lock(&self.0.life);
            (life.stop_stderr.take(), std::mem::take(&mut life.threads))
        };
        if let Some(stop) = stop {
            stop();
        }
        for thread in threads {
            if self.has_ended() {
                let _ = thread.join();
            }
        }
    }

    /// Kills the whole group at once.
    #[cfg(feature = "signals")]
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // The number is taken as long as anybody is in the group. If nobody is, there is nobody to tell.
        let _ = kill_process_group(self.0.group, signal);
    }

    fn is_anybody_left(&self) -> bool {
        test_kill_process_group(self.0.group).is_ok()
    }

    fn has_ended(&self) -> bool {
        lock(&self.0.life).ended
    }

    /// Waits until the process and everybody else in its group is gone; whether they are.
    fn wait_gone(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        if !self.wait_until(patience, |life| life.ended) {
            return false;
        }
        // The others are not our children, so nothing tells us.
        let mut pause = Duration::from_millis(1);
        while self.is_anybody_left() {
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(20));
        }
        true
    }

    /// Waits until `condition` holds, but no longer than `patience`; whether it does.
    fn wait_until(&self, patience: Duration, condition: impl Fn(&Life) -> bool) -> bool {
        let until = Instant::now() + patience;
        let mut life = lock(&self.0.life);
        while !condition(&life) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            life = wait_for(&self.0.changed, life, left).0;
        }
        true
    }

    fn change(&self, change: impl FnOnce(&mut Life)) {
        change(&mut lock(&self.0.life));
        self.0.changed.notify_all();
    }
}

/// Standard output of the process. When it ends, that is because the process does.
struct Output {
    source: FdSource,
    child: Child,
}

impl Source for Output {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read(buffer)?;
        if len > 0 || !self.child.wait_until(LAST_WORDS, |life| life.ended) {
            return Ok(len);
        }
        match self.child.exit() {
            Some(exit) if !exit.success() => Err(io::Error::other(format!("the server ended with {exit}"))),
            _ => Ok(0),
        }
    }

    fn stopper(&self) -> Option<Stopper> {
        self.source.stopper()
    }
}
