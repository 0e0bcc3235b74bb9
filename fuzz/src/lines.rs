//! The line decoder: with whole and split input, and against a model that has the whole stream.

use mcp_proto::codec::{FrameEnd, LineDecoder};

use crate::{cost, rng::pieces};

/// The frames do not depend on how a stream is split, and are equal to those of the model.
///
/// Input: one byte for the limit, one for the seed of the cuts, the stream.
pub fn lines(data: &[u8]) {
    let [limit, seed, stream @ ..] = data else { return };
    let limit = usize::from(*limit);
    cost::assert_bounded(stream, |stream| {
        let mut lines = LineDecoder::new(1 << 20);
        for byte in stream.chunks(1) {
            lines.feed(byte);
            while lines.next_frame().is_some() {}
        }
    });
    let whole = decode(limit, [stream]);
    assert_eq!(whole, model(limit, stream), "the decoder and the model");
    assert_eq!(whole, decode(limit, stream.chunks(1)), "byte by byte");
    assert_eq!(whole, decode(limit, pieces(stream, u64::from(*seed))), "in pieces");
}

type Frames = Vec<(Vec<u8>, FrameEnd)>;

fn decode<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Frames {
    let mut lines = LineDecoder::new(limit);
    let mut seen = Vec::new();
    let mut take = |lines: &mut LineDecoder| {
        while let Some(frame) = lines.next_frame() {
            seen.push((frame.bytes().to_vec(), frame.end()));
        }
    };
    for chunk in chunks {
        lines.feed(chunk);
        take(&mut lines);
        // Two bytes that may begin a byte order mark are held under any limit.
        assert!(lines.buffered() <= limit.max(2) + 1 + chunk.len(), "more is held than a line under the limit");
    }
    lines.end();
    take(&mut lines);
    assert_eq!(lines.buffered(), 0);
    seen
}

/// Decodes the whole stream as the documentation of the decoder specifies.
fn model(limit: usize, stream: &[u8]) -> Frames {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let mut lines: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    // Text after the last line feed is a line only if it is not empty.
    let last = lines.pop().unwrap_or_default();
    let ends = lines.into_iter().map(|line| (line, FrameEnd::Complete)).chain([(last, FrameEnd::Unterminated)]);
    let mut seen = Vec::new();
    for (line, end) in ends {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > limit {
            seen.push((line[..limit].to_vec(), FrameEnd::Oversized));
        } else if !line.iter().all(|byte| b" \t\r".contains(byte)) {
            seen.push((line.to_vec(), end));
        }
    }
    seen
}
