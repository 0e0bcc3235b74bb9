//! The driver of a connection on threads.
//!
//! It is a second driver beside the event loop of `mcp-driver`: blocking handlers and blocking readers take threads, not tasks. It
//! shares with the other one the job queue, the line reader and the write buffer.
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
//! - **Workers** (`mcp-worker`): at most one for each running function and one more. One of them reads. A worker that has read a
//!   message runs its handler, and another worker takes over reading if the handler blocks or takes longer than a millisecond.
//!   This is the leader/followers pattern: [`worker_pool`].
//! - **Timer thread** (`mcp-timer thread`, or the thread that serves): waits for deadlines, dispatches the events that other threads
//!   caused, starts the writer, and ends the connection: [`timer_thread`].
//! - **Writer** (`mcp-writer`): is started when a write would block: [`writer`].
//! - **Callers**: any thread of the application that makes a request. They write what can be written without waiting.
//!
//! All of them meet in [`driver::Driver`], whose [`state::State`] is under one lock. A thread that dispatches events holds the lock
//! `batch`, and takes it before the state.

pub(crate) mod driver;
pub(crate) mod reader;
pub(crate) mod state;
pub(crate) mod timer_thread;
pub(crate) mod worker_pool;
pub(crate) mod writer;
