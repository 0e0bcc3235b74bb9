//! The memory of the program, computed from the limits of its connection when it is compiled.

use core::time::Duration;

use mcp_proto::connection::Limits;

/// The limits of the connection.
pub(crate) const LIMITS: Limits = {
    let mut limits = Limits::new();
    (limits.frame_bytes, limits.outbox_bytes, limits.control_bytes) = (2048, 2048, 512);
    // Nesting uses the stack, not the heap.
    limits.json_depth = 16;
    (limits.requests, limits.request_bytes) = (4, 4096);
    (limits.batch_members, limits.subscriptions) = (2, 1);
    // The server sends no requests and has no tasks.
    (limits.calls, limits.call_bytes, limits.tasks, limits.input_requests) = (0, 0, 0, 0);
    (limits.cache_entries, limits.cache_bytes) = (0, 0);
    limits.input_pause = Duration::from_secs(10);
    limits
};

/// The number of bytes that are read from the serial line before they are passed to the decoder.
pub(crate) const CHUNK: usize = 64;

/// The number of bytes of output beyond which no further message is taken from the connection.
pub(crate) const HIGH_WATER: usize = 256;

/// The capacity of the buffer for output: one message and its line feed may come on top of the rest.
pub(crate) const OUTPUT: usize = HIGH_WATER + LIMITS.frame_bytes + 1;

/// The bytes of the configuration, and of the list of tools while it is written.
const FIXED: usize = 2 << 10;

/// The bytes of the application: the messages of the calls that wait, whose requests count for the limit, and one call
/// whose arguments and result are decoded and encoded.
const APPLICATION: usize = FIXED + LIMITS.request_bytes + 2 * LIMITS.frame_bytes;

/// The size of the heap.
pub(crate) const HEAP: usize = (LIMITS.memory() + 2 * CHUNK + OUTPUT + APPLICATION).next_multiple_of(8);
