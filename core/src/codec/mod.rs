//! Bytes to frames. No JSON in here.

mod lines;
mod sse;

pub use lines::{Frame, FrameEnd, LineDecoder};
pub use sse::{SseDecoder, SseEvent, SseText, SseTooLong};
