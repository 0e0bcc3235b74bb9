//! Connections over streams: readers and writers, framing, and the task that runs a connection.

pub(crate) mod connection_task;
pub(crate) mod framed;
pub(crate) mod io;
pub(crate) mod line_reader;
pub mod memory;
#[cfg(feature = "os")]
pub(crate) mod stream_runtime;
#[cfg(any(all(windows, feature = "os"), test))]
#[cfg_attr(not(windows), expect(unreachable_pub, reason = "only Windows uses it; the tests run everywhere"))]
pub(crate) mod thread_io;
pub(crate) mod transport;
pub(crate) mod write_buffer;
