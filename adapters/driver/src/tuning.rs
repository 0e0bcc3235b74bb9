//! Timeouts and sizes of buffers: the same on every driver.

use std::time::Duration;

use mcp_proto::rpc::Timestamp;

/// A deadline that never expires.
pub const FAR_FUTURE: Timestamp = Timestamp::from_nanos(u64::MAX);

/// How much is read at once.
pub const READ_CHUNK: usize = 64 * 1024;

/// How much is read at once as long as that is enough.
pub const FIRST_READ_CHUNK: usize = 4 * 1024;

/// How many jobs of one read are collected at most before they are queued.
pub const MAX_BATCHED_JOBS: usize = 64;

/// How long a peer may take to close its end of a socket. If ours were closed while it still sends, the system would
/// call the connection reset, and what it has not read yet would be lost.
pub const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// How long reading continues after writing has failed: the last messages of the peer may carry the better reason.
pub const READ_AFTER_WRITE_ERROR: Duration = Duration::from_millis(500);

/// How long a peer of a listener may take until its first message has come.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a peer of a listener may take until it reads something of what was written to it.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long cancelled handlers may take to end before they are dropped or detached, and how long that may take.
pub const JOB_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait for the exit status after a child closed its output, and then for the end of its standard error.
pub const STDERR_GRACE: Duration = Duration::from_millis(250);
