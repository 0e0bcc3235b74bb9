//! The state of a child process that runs a server, and the sequence of its shutdown.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use mcp_proto::codec::LineDecoder;

use crate::{
    process::command::{Command, OnLine, ShutdownTimeouts},
    tuning::{SIGNAL_INTERVAL, is_ending},
    watched::Watched,
};

/// How long to wait after SIGKILL. Only the kernel can delay the end of a killed process.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// The first and the longest interval of checks whether the group has members left. The system has no notification for
/// that.
const POLL_INTERVALS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// How many bytes of one line of standard error are kept.
const MAX_STDERR_LINE: usize = 8 * 1024;

/// How many bytes of standard error are kept.
const MAX_STDERR: usize = 16 * 1024;

/// How a process ended.
#[derive(Clone, Debug)]
pub struct Exit {
    /// Its exit status, unless it is unknown.
    pub status: Option<ExitStatus>,
    /// The last lines of its standard error, if they were kept.
    pub stderr: Vec<String>,
}

impl Exit {
    /// Returns whether the process reported success.
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

/// The state of a child process that runs a server. The driver updates it; other tasks and threads wait for changes.
#[derive(Debug)]
pub struct ChildState {
    status: Watched<Status>,
    shutdown_timeouts: Option<ShutdownTimeouts>,
}

#[derive(Debug, Default)]
struct Status {
    ended: bool,
    exit: Option<ExitStatus>,
    /// The group has no members left, or could not be ended. Its id must not be used any more.
    group_ended: bool,
    /// Standard error has ended, or is not read by this process.
    stderr_ended: bool,
    tail: Tail,
}

impl ChildState {
    /// Creates the state of a process that a command has started.
    #[must_use]
    pub fn new(command: &Command) -> Arc<Self> {
        let status = Status { stderr_ended: !command.keeps_stderr(), ..Status::default() };
        Arc::new(Self { status: Watched::new(status), shutdown_timeouts: command.get_shutdown_timeouts() })
    }

    /// Records that the process has ended.
    pub fn ended(&self, status: Option<ExitStatus>) {
        self.status.update(|state| (state.ended, state.exit) = (true, status));
    }

    /// Records that its standard error has ended.
    pub fn set_stderr_ended(&self) {
        self.status.update(|status| status.stderr_ended = true);
    }

    /// Records that its group has no members left, or could not be ended. Its id must not be used afterwards, since the
    /// system may reuse it for another group.
    pub fn group_ended(&self) {
        self.status.update(|status| status.group_ended = true);
    }

    /// Blocks until its group is [gone](Self::group_ended), but no longer than its shutdown takes in a process that is
    /// about to end because of a signal.
    pub fn wait_group_ended(&self) {
        let timeouts = self.shutdown_timeouts.unwrap_or(ShutdownTimeouts::OF_ENDING_PROCESS);
        let limit = timeouts.after_eof + timeouts.after_sigterm + KILL_TIMEOUT;
        self.status.wait_until(limit, |status| status.group_ended);
    }

    /// Returns whether its group is [gone](Self::group_ended).
    #[must_use]
    pub fn is_group_gone(&self) -> bool {
        self.status.read(|status| status.group_ended)
    }

    /// Returns whether the process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.status.read(|status| status.ended)
    }

    /// Returns the exit of the process, if it has ended. The last lines may still be missing: see
    /// [`until_stderr_ended`](Self::until_stderr_ended).
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.status.read(|status| status.ended.then(|| Exit { status: status.exit, stderr: status.tail.lines() }))
    }

    /// Blocks until the process has ended, but no longer than `timeout`, and returns whether it has.
    pub fn wait_ended(&self, timeout: Duration) -> bool {
        self.status.wait_until(timeout, |status| status.ended)
    }

    /// Blocks until its standard error has ended, but no longer than `timeout`, and returns whether it has.
    pub fn wait_stderr_ended(&self, timeout: Duration) -> bool {
        self.status.wait_until(timeout, |status| status.stderr_ended)
    }

    /// Waits until the process has ended.
    pub async fn until_ended(&self) {
        self.status.wait_for(|status| status.ended.then_some(())).await;
    }

    /// Waits until its standard error has ended.
    pub async fn until_stderr_ended(&self) {
        self.status.wait_for(|status| status.stderr_ended.then_some(())).await;
    }

    /// Returns the steps that end the process and its group.
    #[must_use]
    pub fn shutdown_sequence(&self, now: Instant) -> ShutdownSequence {
        ShutdownSequence {
            timeouts: self.shutdown_timeouts,
            step: Step::StdinClosed,
            since: now,
            poll_interval: POLL_INTERVALS[0],
        }
    }
}

/// The steps that end a process and its group after its standard input was closed. Processes that do not end get
/// SIGTERM, and then SIGKILL.
///
/// It does no I/O: a driver carries out each step and then calls `next` again.
#[derive(Debug)]
pub struct ShutdownSequence {
    /// The grace periods, unless they are the default ones.
    timeouts: Option<ShutdownTimeouts>,
    step: Step,
    /// The time at which the step began.
    since: Instant,
    poll_interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Its standard input was closed.
    StdinClosed,
    /// SIGTERM was sent.
    Terminated,
    /// SIGKILL was sent.
    Killed,
}

/// The next step of ending a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownStep {
    /// Wait for so long, or until the process ends if it is still running.
    Wait(Duration),
    /// Send SIGTERM to the group.
    Terminate,
    /// Send SIGKILL to the group.
    Kill,
    /// Nothing: the processes have ended, or did not end after SIGKILL.
    Done,
}

impl ShutdownSequence {
    /// Returns the next step, given whether the process has ended and whether its group still has members.
    pub fn next(&mut self, now: Instant, has_ended: bool, has_members: bool) -> ShutdownStep {
        self.next_if(is_ending(), now, has_ended, has_members)
    }

    /// Returns the next step, given whether this process is about to end because of a signal.
    fn next_if(&mut self, is_ending: bool, now: Instant, has_ended: bool, has_members: bool) -> ShutdownStep {
        let left = (self.since + self.timeout(is_ending)).saturating_duration_since(now);
        match self.step {
            _ if has_ended && !has_members => ShutdownStep::Done,
            Step::StdinClosed if has_ended || left.is_zero() => {
                // Processes that outlive the child have no server to work for, so they get SIGTERM at once.
                (self.step, self.since) = (Step::Terminated, now);
                ShutdownStep::Terminate
            }
            Step::Terminated if left.is_zero() => {
                (self.step, self.since, self.poll_interval) = (Step::Killed, now, POLL_INTERVALS[0]);
                ShutdownStep::Kill
            }
            Step::Killed if left.is_zero() => ShutdownStep::Done,
            _ if has_ended => {
                let poll_interval = self.poll_interval;
                self.poll_interval = (2 * poll_interval).min(POLL_INTERVALS[1]);
                ShutdownStep::Wait(poll_interval.min(left))
            }
            _ if self.timeouts.is_none() && !is_ending => ShutdownStep::Wait(left.min(SIGNAL_INTERVAL)),
            _ => ShutdownStep::Wait(left),
        }
    }

    /// Returns how long the step lasts at most.
    fn timeout(&self, is_ending: bool) -> Duration {
        let default = if is_ending { ShutdownTimeouts::OF_ENDING_PROCESS } else { ShutdownTimeouts::DEFAULT };
        let ShutdownTimeouts { after_eof, after_sigterm } = self.timeouts.unwrap_or(default);
        match self.step {
            Step::StdinClosed => after_eof,
            Step::Terminated => after_sigterm,
            Step::Killed => KILL_TIMEOUT,
        }
    }
}

/// Processes the standard error of a child and keeps the last lines. It is read to its end, so that the child never
/// blocks on a full pipe.
pub struct Stderr {
    process: Arc<ChildState>,
    lines: LineDecoder,
    on_line: Option<OnLine>,
}

impl Stderr {
    /// Creates an empty reader. Dropping it counts as the end of standard error.
    #[must_use]
    pub fn new(process: &Arc<ChildState>, command: &Command) -> Self {
        Self { process: process.clone(), lines: LineDecoder::new(MAX_STDERR_LINE), on_line: command.on_line() }
    }

    /// Processes bytes that were read. An empty slice is the end.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.lines.feed(bytes);
        if bytes.is_empty() {
            self.lines.end();
        }
        while let Some(frame) = self.lines.next_frame() {
            let line = String::from_utf8_lossy(frame.bytes());
            self.process.status.update(|status| status.tail.push(&line));
            // A callback that panics is not called again, because its lock is poisoned. Reading continues, so that the
            // child does not block.
            let call = |on_line: &OnLine| {
                if let Ok(mut f) = on_line.lock() {
                    f(&line);
                }
            };
            let _ = catch_unwind(AssertUnwindSafe(|| self.on_line.as_ref().map(call)));
        }
    }
}

impl Drop for Stderr {
    fn drop(&mut self) {
        self.process.set_stderr_ended();
    }
}

impl fmt::Debug for Stderr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stderr").field("process", &self.process).finish_non_exhaustive()
    }
}

/// The last lines, up to a total size.
#[derive(Debug, Default)]
struct Tail {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Tail {
    fn push(&mut self, line: &str) {
        self.bytes += line.len();
        self.lines.push_back(line.to_owned());
        while self.bytes > MAX_STDERR
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    const SECOND: Duration = Duration::from_secs(1);

    fn shutdown_sequence(now: Instant) -> ShutdownSequence {
        ChildState::new(&Command::new("x").shutdown_timeouts(2 * SECOND, 3 * SECOND)).shutdown_sequence(now)
    }

    // req: STDIO-011 STDIO-012 STDIO-013
    #[test]
    fn shutdown_terminates_then_kills_process() {
        let mut now = Instant::now();
        let mut shutdown_sequence = shutdown_sequence(now);
        for (passes, step) in [
            (0, ShutdownStep::Wait(2 * SECOND)),
            (1, ShutdownStep::Wait(SECOND)),
            (1, ShutdownStep::Terminate),
            (0, ShutdownStep::Wait(3 * SECOND)),
            (3, ShutdownStep::Kill),
            (0, ShutdownStep::Wait(KILL_TIMEOUT)),
            (1, ShutdownStep::Done),
            (0, ShutdownStep::Done),
        ] {
            now += passes * SECOND;
            assert_eq!(shutdown_sequence.next(now, false, true), step);
        }
    }

    #[test]
    fn polls_remaining_group_at_growing_intervals() {
        let now = Instant::now();
        assert_eq!(shutdown_sequence(now).next(now, true, false), ShutdownStep::Done);
        let mut shutdown_sequence = shutdown_sequence(now);
        assert_eq!(shutdown_sequence.next(now, false, true), ShutdownStep::Wait(2 * SECOND));
        // The child exits, but not the processes that it has started.
        assert_eq!(shutdown_sequence.next(now + SECOND, true, true), ShutdownStep::Terminate);
        for ms in [1, 2, 4, 8, 16, 20, 20] {
            assert_eq!(shutdown_sequence.next(now + SECOND, true, true), ShutdownStep::Wait(Duration::from_millis(ms)));
        }
        assert_eq!(shutdown_sequence.next(now + 4 * SECOND, true, true), ShutdownStep::Kill);
        assert_eq!(shutdown_sequence.next(now + 4 * SECOND, true, true), ShutdownStep::Wait(POLL_INTERVALS[0]));
        assert_eq!(shutdown_sequence.next(now + 4 * SECOND, true, false), ShutdownStep::Done);
    }

    #[test]
    fn default_timeouts_are_shorter_in_a_process_that_ends() {
        let begin = Instant::now();
        let sequence = |timeouts: Option<[Duration; 2]>| {
            let command = Command::new("x");
            let command = match timeouts {
                Some([after_eof, after_sigterm]) => command.shutdown_timeouts(after_eof, after_sigterm),
                None => command,
            };
            ChildState::new(&command).shutdown_sequence(begin)
        };
        let at = |ms| begin + Duration::from_millis(ms);
        let (mut default, mut own) = (sequence(None), sequence(Some([2 * SECOND; 2])));
        for (is_ending, ms, of_default, of_own) in [
            (false, 500, ShutdownStep::Wait(SIGNAL_INTERVAL), ShutdownStep::Wait(Duration::from_millis(1_500))),
            (false, 1_999, ShutdownStep::Wait(Duration::from_millis(1)), ShutdownStep::Wait(Duration::from_millis(1))),
            // A signal arrives.
            (true, 1_999, ShutdownStep::Terminate, ShutdownStep::Wait(Duration::from_millis(1))),
            (true, 2_000, ShutdownStep::Wait(Duration::from_millis(499)), ShutdownStep::Terminate),
            (true, 2_499, ShutdownStep::Kill, ShutdownStep::Wait(Duration::from_millis(1_501))),
        ] {
            assert_eq!(default.next_if(is_ending, at(ms), false, true), of_default, "{is_ending}, {ms}");
            assert_eq!(own.next_if(is_ending, at(ms), false, true), of_own, "{is_ending}, {ms}");
        }
    }

    #[test]
    fn grace_periods_without_end_can_be_waited_for() {
        let begin = Instant::now();
        let process = ChildState::new(&Command::new("x").shutdown_timeouts(Duration::MAX, Duration::MAX));
        let ShutdownStep::Wait(time) = process.shutdown_sequence(begin).next(begin, false, true) else {
            panic!("it is not terminated at once");
        };
        process.group_ended();
        process.wait_group_ended();
        process.ended(None);
        assert!(process.wait_ended(time) && time > Duration::from_secs(1 << 20));
    }

    // req: STDIO-009
    #[test]
    fn stderr_tail_is_bounded_and_lines_are_reported() {
        let seen = Arc::new(Mutex::new(0));
        let count = seen.clone();
        let command = Command::new("x").on_stderr(move |_| *count.lock().expect("no panic") += 1);
        let process = ChildState::new(&command);
        let mut stderr = Stderr::new(&process, &command);
        for number in 0..100_000 {
            stderr.feed(format!("line {number}\n").as_bytes());
        }
        stderr.feed(b"half a ");
        stderr.feed(b"line");
        assert!(!process.wait_stderr_ended(Duration::ZERO));
        stderr.feed(b"");
        drop(stderr);
        assert!(process.wait_stderr_ended(Duration::ZERO));
        assert_eq!(*seen.lock().expect("no panic"), 100_001);
        assert!(process.exit().is_none());
        process.ended(None);
        let exit = process.exit().expect("it has ended");
        assert_eq!(exit.stderr.last().map(String::as_str), Some("half a line"));
        assert!(exit.stderr.len() > 1000 && exit.stderr.iter().map(String::len).sum::<usize>() <= MAX_STDERR);
        let mut tail = Tail::default();
        tail.push(&"x".repeat(2 * MAX_STDERR));
        assert!(tail.lines().is_empty());
    }

    #[test]
    fn lines_of_stderr_are_cut_after_8_kib() {
        let command = Command::new("x");
        let process = ChildState::new(&command);
        let mut stderr = Stderr::new(&process, &command);
        stderr.feed(&[b'x'; 10_000]);
        stderr.feed(b"\nshort\n");
        process.ended(None);
        assert_eq!(process.exit().expect("it has ended").stderr, ["x".repeat(8 * 1024), "short".into()]);
    }

    #[test]
    fn panicking_stderr_callback_does_not_lose_lines() {
        let command = Command::new("x").on_stderr(|_| panic!("on purpose"));
        let process = ChildState::new(&command);
        let mut stderr = Stderr::new(&process, &command);
        stderr.feed(b"a\nb\n");
        process.ended(None);
        assert_eq!(process.exit().expect("it has ended").stderr, ["a", "b"]);
    }
}
