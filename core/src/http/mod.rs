//! MCP over HTTP, without I/O: a driver passes heads and parts of bodies in both directions.

mod answer;
pub mod client;
mod deadline;
mod fields;
mod limits;
mod media;
mod names;
mod policy;
mod replay;
pub mod server;
mod session_id;

pub use answer::{Answer, Challenge};
pub use deadline::{Deadline, Wake};
pub use limits::Limits;
pub use policy::{InvalidPolicy, Policy};
pub use replay::{MemoryReplayBuffer, ReplayBuffer};
pub use session_id::SessionId;
