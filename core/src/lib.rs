//! The Model Context Protocol as a state machine.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod codec;
pub mod connection;
pub mod protocol;
pub mod rpc;
pub mod schema;
pub mod wire;
