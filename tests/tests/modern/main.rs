//! Features that only 2026-07-28 has, with the test support crate.

mod bloat;
mod cache;
mod client;
mod flow;
mod gating;
mod listening;
mod messages;
mod meta;
mod options;
mod probe;
mod questions;
mod renegotiation;
mod rounds;
mod server;
mod subscriptions;
mod task_answers;
mod task_news;
mod task_polling;
mod task_questions;
mod tasks;
