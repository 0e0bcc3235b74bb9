//! The foundations of the types of the schema: macros, encoding, decoding, `_meta`, and shared types.

#[cfg(feature = "arbitrary")]
pub(crate) mod arbitrary;
pub(crate) mod common;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod extra;
pub(crate) mod format;
pub(crate) mod logging_level;
pub(crate) mod macros;
pub(crate) mod map;
pub(crate) mod meta;
pub(crate) mod one_or_many;
pub(crate) mod params;
