//! Sessions over HTTP, and stateless requests, with clients that read slowly or not at all, disconnect, resume with
//! `Last-Event-ID` and cancel.
//!
//! A [`System`] is one endpoint, its clients and the applications of its sessions. Its caller chooses the actions: the
//! exploration ([`explore`]) tries all orders, the simulation ([`crate::simulate`]) draws one from a seed. After each
//! action the system checks the messages that were read:
//!
//! - each request gets exactly one response, on its own exchange or on one that resumes its stream, or its client is
//!   told that it is lost; a request never gets status 202;
//! - messages of a stream arrive once and in order, over all exchanges that carry it;
//! - no response follows the cancellation of its request, and progress increases and belongs to an open request;
//! - a request of the server reaches its client once and ends once, with the response of the client;
//! - the first message of a subscription (2026-07-28) is its acknowledgement, and its client receives every change;
//! - the usage of a session stays below its limits;
//! - an exchange that was replaced by a resumption does not block another one;
//! - at the end all sessions are idle: see [`System::wind_down`].

mod abandoned_exchange;
mod client;
pub mod explore;
mod server_requests;
mod system;
mod wind_down;

pub use abandoned_exchange::AbandonedExchange;
pub use client::{Client, ClientMessage, ExpectedResponse, Stream, TransportKind};
pub use server_requests::{ServerRequest, Subscription};
pub use system::{Job, RespondOutcome, System, SystemConfig};
