//! What MCP means: revisions and eras, the method table, capabilities, `_meta`, lifecycle. Tables and pure functions.

mod capability;
mod method;
mod version;

pub use capability::{Capability, CapabilitySet};
pub use method::{Kind, Method, MethodName, Party};
pub use version::{Era, ProtocolVersion, VersionSet, negotiate};
