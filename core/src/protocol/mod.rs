//! The rules of MCP as tables and pure functions: revisions and eras, methods, capabilities, `_meta`, lifecycle.

mod capability;
mod headers;
mod lifecycle;
mod meta;
mod method;
mod version;
mod x_mcp_header;

pub use capability::{Capability, CapabilitySet};
pub use headers::{HeaderError, HeaderMismatch, MirroredHeaders, MirroredValue, decode_header, encode_header};
pub use lifecycle::{MethodRefusal, Phase, Role, check};
pub use meta::{InvalidMetaKey, check_extension_name, check_meta_key, is_reserved_meta_key};
pub use method::{Method, MethodKind, MethodName, Sender};
pub use version::{Era, ProtocolVersion, VersionSet, negotiate};
pub use x_mcp_header::{HeaderParam, InvalidHeaderParam, NotEncodable};
