//! What is measured, apart from how: the same cases are timed by criterion, counted by gungraun, and put into a page by the
//! report. See `benches/README.md`.

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
