//! Features that only 2026-07-28 has, with the test support crate.

mod cache;
mod client;
mod gating;
mod input_requests;
mod input_rounds;
mod listening;
mod messages;
mod meta;
mod options;
mod oversized_declarations;
mod probe;
mod renegotiation;
mod repetition;
mod server;
mod side_messages;
mod subscriptions;
mod task_input_requests;
mod task_input_responses;
mod task_notifications;
mod task_polling;
mod tasks;
