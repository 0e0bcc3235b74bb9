//! Bytes to frames, and bytes as text. No JSON in here.

mod base64;
mod lines;
mod sse;

pub use base64::{decode_base64, encode_base64, is_base64};
pub use lines::{Frame, FrameEnd, LineDecoder};
pub use sse::{SseDecoder, SseEvent, SseText, SseTooLong};
