//! Timeouts and sizes of buffers, which all drivers share.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use mcp_proto::rpc::Timestamp;

/// A deadline that never expires.
pub const FAR_FUTURE: Timestamp = Timestamp::from_nanos(u64::MAX);

/// The size of reads from a peer that sends much.
pub const READ_CHUNK: usize = 64 * 1024;

/// The size of reads until one of them fills the buffer.
pub const FIRST_READ_CHUNK: usize = 4 * 1024;

/// How many jobs of one read are collected at most before they are queued.
pub const MAX_BATCHED_JOBS: usize = 64;

/// How long a peer may take to close its end of a socket. If this end was closed while the peer still sends, the system
/// would reset the connection, and the peer would lose output that it has not read yet.
pub const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// How long reading continues after writing has failed: the last messages of the peer may carry a better reason.
pub const READ_AFTER_WRITE_ERROR: Duration = Duration::from_millis(500);

/// How long a peer of a listener may take to send its first message, and to complete each message that it has begun.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a peer of a listener may read nothing of pending output.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long cancelled handlers may take to end before they are dropped or detached, and how long that may take.
pub const JOB_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait for the exit status after a child closed its output, and then for the end of its standard error.
pub const STDERR_GRACE: Duration = Duration::from_millis(250);

/// How long connections to children may take to drain, and then to be flushed, in a process that ends because of a
/// signal.
pub const ENDING_DRAIN: Duration = Duration::from_millis(100);

/// How long a signal that ends this process waits for programs that are being started.
pub const START_GRACE: Duration = Duration::from_millis(500);

/// The longest wait whose end is earlier if a signal ends this process.
pub const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Set when a signal is about to end this process.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Notes that a signal is about to end this process.
#[cfg(feature = "signals")]
pub(crate) fn set_ending() {
    ENDING.store(true, Ordering::Release);
}

/// Returns whether a signal is about to end this process.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// Returns how long output may take to be written at the end of a connection: `limit`, or less if a signal is about to
/// end this process. The children of a child that does not read have to be ended in time, too.
#[must_use]
pub fn flush_timeout(limit: Duration) -> Duration {
    if is_ending() { limit.min(ENDING_DRAIN) } else { limit }
}
