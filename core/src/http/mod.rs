//! MCP over HTTP, without I/O: a driver passes heads and parts of bodies in both directions.

pub mod client;
mod cors;
mod deadline;
mod fields;
mod limits;
mod media;
mod names;
mod policy;
mod replay;
mod response;
pub mod server;
mod session_id;

pub use crate::connection::Principal;
pub use cors::Cors;
pub use deadline::{Deadline, Wake};
pub use limits::Limits;
pub use policy::{InvalidPolicy, Policy};
pub use replay::{MemoryReplayBuffer, ReplayBuffer};
use response::content_length;
pub use response::{AuthRefusal, HttpResponse};
pub use server::Caller;
pub use session_id::SessionId;
