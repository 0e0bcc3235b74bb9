//! The driver of a connection on threads.
//!
//! In addition to the event loop of `mcp-driver`, this is a second driver, for blocking handlers and readers, which
//! need threads instead of tasks. The two share the job queue, the line reader and the write buffer.
//!
//! # Threads
//!
//! ```text
//!              bytes                                                       bytes
//! peer ------------------> worker (reader) --+                     +--------------------> peer
//!                           | reads, calls    |                    |
//!                           | the application |   +------------+   |  worker, caller: write
//!                           v                 +-->| State      |---+  what does not block
//!                       +----------+          |   | connection |   |
//!                       | JobQueue |          |   | events     |   +-- writer: writes the rest
//!                       +----------+          |   | output     |
//!                           | one job         |   +------------+
//!                           v                 |         ^
//!                         workers ------------+         | deadlines, events of other
//!                           run handlers                | threads, the end
//!                                                  timer thread
//! ```
//!
//! - **Workers** (`mcp-worker`): at most one for each running function, and one more. One of them reads. A worker that
//!   has read a message runs its handler. Another worker takes over reading if the handler blocks or takes longer than
//!   a millisecond. This is the leader/followers pattern: [`worker_pool`].
//! - **Timer thread** (`mcp-timer`, or the thread that serves): waits for deadlines, dispatches events that
//!   other threads caused, starts the writer, and ends the connection: [`timer_thread`].
//! - **Writer** (`mcp-writer`): writes output that would block, and is started when it is first needed: [`writer`].
//! - **Callers**: any thread of the application that makes a request. They write what can be written without waiting.
//!
//! All threads share the [`driver::Driver`], whose [`state::State`] is under one lock. A thread that dispatches events
//! holds the lock `batch`, and takes it before that of the state.

pub(crate) mod driver;
pub(crate) mod reader;
pub(crate) mod state;
pub(crate) mod timer_thread;
pub(crate) mod worker_pool;
pub(crate) mod writer;
