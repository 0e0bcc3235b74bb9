//! A service in front of other servers, with clients and servers of both eras.

mod access;
mod arrival;
mod asking;
mod faults;
mod list_errors;
mod pages;
mod passing;
mod questions;
mod resubscription;
mod subscriptions;
mod watching;
mod world;
