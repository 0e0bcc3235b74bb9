//! Server-sent events: with whole and split input, against a model that has the whole stream, and with written events.

use std::time::Duration;

use mcp_proto::codec::{SseDecoder, SseEvent, SseText, SseTooLong};

use crate::{cost, rng::pieces};

/// The events do not depend on how a stream is split, and are equal to those of the model. Written events are decoded
/// again.
///
/// Input: one byte for the limit, one for the seed of the cuts, the stream. Its first lines are also used as the kind
/// and the id of an event, the rest as its data.
pub fn sse(data: &[u8]) {
    let [limit, seed, stream @ ..] = data else { return };
    let limit = usize::from(*limit);
    cost::assert_bounded(stream, |stream| {
        let mut decoder = SseDecoder::new(1 << 20);
        for mut byte in stream.chunks(1) {
            while decoder.next_event(&mut byte).is_some() {}
        }
    });
    let whole = decode(limit, [stream]);
    assert_eq!(whole, model(limit, stream), "the decoder and the model");
    assert_eq!(whole, decode(limit, stream.chunks(1)), "byte by byte");
    assert_eq!(whole, decode(limit, pieces(stream, u64::from(*seed))), "in pieces");
    written(stream);
}

/// The kind and the data of an event, or the start of one that is too long.
type Read = Result<(String, Vec<u8>), Vec<u8>>;

/// The state of a reader at the end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Events {
    events: Vec<Read>,
    last_id: String,
    retry: Option<Duration>,
}

fn decode<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Events {
    let mut decoder = SseDecoder::new(limit);
    let mut seen = Events::default();
    for mut chunk in chunks {
        while let Some(event) = decoder.next_event(&mut chunk) {
            seen.events.push(match event {
                Ok(SseEvent { kind, data, .. }) => Ok((kind.to_owned(), data.to_vec())),
                Err(SseTooLong { beginning }) => Err(beginning.to_vec()),
            });
        }
        assert!(chunk.is_empty(), "nothing is left to be fed again");
        // An invalid byte becomes a replacement character of three bytes.
        assert!(decoder.buffered() <= 3 * limit, "more is held than an event under the limit");
    }
    (seen.last_id, seen.retry) = (decoder.last_id().to_owned(), decoder.retry());
    seen
}

/// The event that is being read.
#[derive(Default)]
struct Event {
    data: Option<Vec<u8>>,
    kind: Option<String>,
    id: Option<String>,
    too_long: bool,
}

impl Event {
    fn size(&self) -> usize {
        [self.data.as_ref().map(Vec::len), self.kind.as_ref().map(String::len), self.id.as_ref().map(String::len)]
            .into_iter()
            .flatten()
            .sum()
    }
}

/// Decodes the whole stream as the standard specifies.
fn model(limit: usize, stream: &[u8]) -> Events {
    let mut seen = Events::default();
    let mut event = Event::default();
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let (lines, unfinished) = lines(stream);
    let finished = lines.len();
    for (index, line) in lines.into_iter().chain([unfinished]).enumerate() {
        let ends = index < finished;
        if line.is_empty() {
            if ends {
                let Event { data, kind, id, too_long } = std::mem::take(&mut event);
                seen.last_id = id.unwrap_or(seen.last_id);
                let kind = kind.filter(|kind| !kind.is_empty()).unwrap_or_else(|| "message".into());
                seen.events.extend(data.filter(|_| !too_long).map(|data| Ok((kind, data))));
            }
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        if colon.is_none() && !ends {
            // It is not known yet whether the line is a field.
            continue;
        }
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let known = [&b"data"[..], b"event", b"id", b"retry"].contains(&name);
        if !known || event.too_long {
            continue;
        }
        let mut room = limit.saturating_sub(event.size());
        if name == b"data" {
            if let Some(data) = &mut event.data {
                // Lines of data are joined.
                if room == 0 {
                    event.too_long = true;
                } else {
                    data.push(b'\n');
                    room -= 1;
                }
            }
            let data = event.data.get_or_insert_default();
            if !event.too_long {
                data.extend_from_slice(&value[..value.len().min(room)]);
            }
        }
        if event.too_long || value.len() > room {
            event.too_long = true;
            seen.events.push(Err(event.data.clone().unwrap_or_default()));
            continue;
        }
        if !ends {
            continue;
        }
        let text = String::from_utf8_lossy(value).into_owned();
        match name {
            b"event" => event.kind = Some(text),
            b"id" if !value.contains(&0) => event.id = Some(text),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                seen.retry = Some(Duration::from_millis(text.parse().unwrap_or(u64::MAX)));
            }
            _ => {}
        }
    }
    seen
}

/// Returns the lines that have ended, and the text after them.
fn lines(mut stream: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut lines = Vec::new();
    while let Some(end) = stream.iter().position(|byte| b"\r\n".contains(byte)) {
        lines.push(&stream[..end]);
        let both = stream[end..].starts_with(b"\r\n");
        stream = &stream[end + 1 + usize::from(both)..];
    }
    (lines, stream)
}

/// A written event is decoded without a change, except for line breaks.
fn written(text: &[u8]) {
    let mut parts = text.splitn(3, |byte| *byte == b'\n');
    let mut next = || core::str::from_utf8(parts.next()?).ok();
    let (kind, id) = (next(), next());
    let data = parts.next();
    let mut out = Vec::new();
    SseText::comment(&mut out);
    let retry = data.map(|data| Duration::from_millis(data.len() as u64));
    SseText { kind, id, retry, data }.write(&mut out);
    SseText::comment(&mut out);
    let read = decode(usize::MAX / 4, [&out[..]]);
    let without = |text: &str| text.replace(['\r', '\n'], "");
    let lines = data.map(|data| {
        let (mut lines, last) = lines(data);
        lines.push(last);
        lines.join(&b'\n')
    });
    let kind = kind.map(without).filter(|kind| !kind.is_empty()).unwrap_or_else(|| "message".into());
    assert_eq!(read.events, lines.map(|lines| Ok((kind, lines))).into_iter().collect::<Vec<Read>>());
    assert_eq!(read.last_id, id.map(without).filter(|id| !id.contains('\0')).unwrap_or_default());
    assert_eq!(read.retry, retry);
}
