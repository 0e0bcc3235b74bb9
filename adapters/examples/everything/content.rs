//! The image and the audio that the fixtures share.

use mcp_proto::schema::{AudioContent, ContentBlock, ImageContent, TextResourceContents};

/// One red pixel.
pub(crate) const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8, 2,
    0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 12, b'I', b'D', b'A', b'T', 0x78, 0xda, 0x63, 0xf8, 0xcf, 0xc0, 0x00,
    0x00, 0x03, 0x01, 0x01, 0x00, 0xf7, 0x03, 0x41, 0x43, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// Four samples of silence: 8 bits, one channel, 8 kHz.
const WAV: &[u8] = &[
    b'R', b'I', b'F', b'F', 40, 0, 0, 0, b'W', b'A', b'V', b'E', b'f', b'm', b't', b' ', 16, 0, 0, 0, 1, 0, 1, 0, 0x40,
    0x1f, 0, 0, 0x40, 0x1f, 0, 0, 1, 0, 8, 0, b'd', b'a', b't', b'a', 4, 0, 0, 0, 0x80, 0x80, 0x80, 0x80,
];

pub(crate) fn picture() -> ContentBlock {
    ImageContent::from_bytes(PNG, "image/png").into()
}

pub(crate) fn sound() -> ContentBlock {
    AudioContent::from_bytes(WAV, "audio/wav").into()
}

/// An embedded text resource.
pub(crate) fn document(uri: &str, mime_type: &str, text: &str) -> ContentBlock {
    let mime_type = Some(mime_type.to_owned());
    ContentBlock::resource(TextResourceContents { mime_type, ..TextResourceContents::new(uri, text) })
}
