//! Bytes to frames. No JSON in here.

mod lines;

pub use lines::{Frame, FrameEnd, LineDecoder};
