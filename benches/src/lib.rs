//! The cases, independent of the tool: criterion times them, gungraun counts their instructions, and the report writes
//! a page about them. See `benches/README.md`.

mod case;
mod cases;
mod corpus;
pub mod memory;
mod pair;
mod web;

pub use case::{Case, Work};
pub use cases::{IN_FLIGHT, core, counted};
pub use corpus::{ARGUMENTS, FRAMES, SIZES, TEXT, frame, text};
pub use pair::Pair;
pub use web::Web;
