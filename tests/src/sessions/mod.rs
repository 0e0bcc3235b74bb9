//! Sessions over HTTP, and requests that stand alone, with clients that read slowly or not at all, hang up, come back
//! with `Last-Event-ID` and cancel, while answers are owed.
//!
//! A [`World`] is one endpoint, its clients and the applications of its sessions. The code that plays it decides what happens
//! next: the explorer ([`explore`]) tries every order, the simulation ([`crate::simulate`]) draws one from a seed. After
//! each step the world holds what was read against the rules:
//!
//! - every request gets exactly one answer, on its own exchange or on one that takes its stream up again, or its client
//!   is told that it is lost; a request is never answered with 202;
//! - messages of a stream come once and in order, over all exchanges that carry it;
//! - nothing is answered behind its cancellation, and progress grows and belongs to a request that is open;
//! - a request of the server reaches its client once and ends once, with what the client has answered;
//! - a subscription (2026-07-28) is acknowledged first, and its client hears of every change;
//! - what a session holds stays under its limits;
//! - an exchange whose client has come back on another one holds no other up;
//! - when everything is over, nothing is left: see [`World::wind_down`].

mod asking;
mod client;
pub mod explore;
mod rest;
mod world;

pub use asking::{Question, Subscription};
pub use client::{Client, Kind, Say, Stream, Want};
pub use world::{Answered, Job, Play, World};
