//! Features that only 2026-07-28 has, with the test support crate.

mod bloat;
mod cache;
mod client;
mod flow;
mod gating;
mod input_requests;
mod listening;
mod messages;
mod meta;
mod options;
mod probe;
mod renegotiation;
mod rounds;
mod server;
mod subscriptions;
mod task_answers;
mod task_input_requests;
mod task_news;
mod task_polling;
mod tasks;
