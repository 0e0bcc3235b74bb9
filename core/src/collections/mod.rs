//! Collections that the standard library does not have. They do not depend on JSON-RPC or MCP.

mod lazy_box;
#[cfg(feature = "http")]
mod seq_map;
mod slab;
mod slot_index;
mod window_map;

pub(crate) use lazy_box::{LazyBox, StaticDefault};
#[cfg(feature = "http")]
pub(crate) use seq_map::SeqMap;
pub(crate) use slab::DebugSlab;
pub(crate) use slot_index::SlotIndex;
pub(crate) use window_map::WindowMap;
