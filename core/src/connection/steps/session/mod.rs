//! The steps of a session of the legacy era (2024-11-05 to 2025-11-25).

mod batch;
mod handshake;
mod keepalive;
mod list_changes;
mod task_progress;
