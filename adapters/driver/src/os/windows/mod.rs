//! The same as in `unix`, with what Windows has.

#[cfg(feature = "os")]
pub mod descriptor;
#[cfg(feature = "os")]
pub(super) mod limits;
#[cfg(feature = "os")]
pub(super) mod process;
#[cfg(feature = "signals")]
pub(crate) mod signals;
#[cfg(feature = "os")]
pub(super) mod stdio;
#[cfg(all(test, feature = "os"))]
mod tests;
#[cfg(feature = "os")]
pub mod wake;

/// A group of processes of its own, which Ctrl-C does not reach (`CREATE_NEW_PROCESS_GROUP`), and a console that is not
/// shown (`CREATE_NO_WINDOW`).
pub(super) const CREATION_FLAGS: u32 = 0x0000_0200 | 0x0800_0000;
