//! Framing of byte streams (lines, server-sent events) and base64. This module does not depend on JSON.

mod base64;
mod lines;
mod sse;

pub use base64::{decode_base64, encode_base64, is_base64};
pub use lines::{Frame, FrameEnd, LineDecoder};
pub use sse::{SseDecoder, SseEvent, SseText, SseTooLong};
