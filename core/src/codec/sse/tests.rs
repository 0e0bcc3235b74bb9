use super::*;
use alloc::{format, string::ToString, vec};

/// The decoded stream: for each event its kind, its data and the last id after it, or `None` for an event that is too
/// long; then the last id and the retry delay.
type Seen = (Vec<Option<(String, String, String)>>, String, Option<Duration>);

fn decode<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let mut events = SseDecoder::new(limit);
    let mut seen = Vec::new();
    for mut chunk in chunks {
        loop {
            match events.next_event(&mut chunk) {
                None => break,
                Some(Ok(event)) => {
                    let (kind, data) = (event.kind.to_string(), String::from_utf8_lossy(event.data).to_string());
                    seen.push(Some((kind, data, events.last_id().to_string())));
                }
                Some(Err(long)) => {
                    assert!(long.beginning.len() <= limit);
                    seen.push(None);
                }
            }
            assert!(events.buffered() <= limit);
        }
        assert!(chunk.is_empty(), "everything is read");
        assert!(events.buffered() <= limit);
    }
    (seen, events.last_id().to_string(), events.retry())
}

/// Every way to cut `input` in two, byte by byte, and whole, with each kind of line break: the same.
fn all_cuts(limit: usize, input: &str) -> Seen {
    let whole = decode(limit, [input.as_bytes()]);
    for ending in ["\n", "\r", "\r\n"] {
        let input = input.replace('\n', ending).into_bytes();
        assert_eq!(decode(limit, input.chunks(1)), whole, "byte by byte, {ending:?}");
        for cut in 0..=input.len() {
            let (a, b) = input.split_at(cut);
            assert_eq!(decode(limit, [a, b]), whole, "cut at {cut}, {ending:?}");
        }
    }
    whole
}

fn message(data: &str, id: &str) -> Option<(String, String, String)> {
    Some(("message".to_string(), data.to_string(), id.to_string()))
}

// req: HTTP-074 M-HTTP-023 M-HTTP-098
#[test]
fn parses_event_streams_as_in_the_standard() {
    let table = [
        ("data: one\n\n", vec![message("one", "")]),
        ("data:one\n\ndata:  two\n\n", vec![message("one", ""), message(" two", "")]),
        ("data: YHOO\ndata: +2\ndata: 10\n\n", vec![message("YHOO\n+2\n10", "")]),
        (
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            vec![message("first event", "1"), message("second event", ""), message(" third event", "")],
        ),
        ("data\n\ndata\ndata\n\ndata:", vec![message("", ""), message("\n", "")]),
        ("data:test\n\ndata: test\n\n", vec![message("test", ""), message("test", "")]),
        ("id: 1\ndata: \n\n", vec![message("", "1")]),
        ("id: 1\nevent: ping\n\ndata: x\n\n", vec![message("x", "1")]),
        ("id: 1\ndata: x\n\nid: a\0b\ndata: y\n\n", vec![message("x", "1"), message("y", "1")]),
        ("event: ping\ndata: {}\n\n", vec![Some(("ping".into(), "{}".into(), String::new()))]),
        ("event: a\nevent: b\ndata: {}\n\n", vec![Some(("b".into(), "{}".into(), String::new()))]),
        ("event: a\nevent\ndata: {}\n\n", vec![message("{}", "")]),
        ("Data: x\ndata : x\n data: x\ndatas: x\ndat: x\nnothing\n\n", vec![]),
        ("\u{feff}data: x\n\n\u{feff}data: y\n\n", vec![message("x", "")]),
        ("\u{feff}\u{feff}data: x\n\ndata: y\n\n", vec![message("y", "")]),
        ("\u{feff}: x\ndata: y\n\n", vec![message("y", "")]),
        ("\n\n\n:\n: :\ndata: é😀\n\n\n", vec![message("é😀", "")]),
        ("data: x\nid: 5\n", vec![]),
        ("data: x\nid: 5", vec![]),
    ];
    for (input, expected) in table {
        assert_eq!(all_cuts(99, input).0, expected, "{input:?}");
    }
}

#[test]
fn partial_byte_order_mark_is_a_field_name() {
    for start in [&b"\xEF"[..], b"\xEF\xBB", b"\xEF\xBBx", b"\xBB"] {
        let input = [start, b"data: x\n\ndata: y\n\n"].concat();
        assert_eq!(decode(99, [&input[..]]).0, [message("y", "")], "{start:?}");
        assert_eq!(decode(99, input.chunks(1)).0, [message("y", "")], "{start:?}");
        let input = [start, b"\ndata: y\n\n"].concat();
        assert_eq!(decode(99, [&input[..]]).0, [message("y", "")], "{start:?}");
    }
}

// req: HTTP-027
#[test]
fn event_id_applies_at_the_end_of_its_event() {
    assert_eq!(all_cuts(99, "id: 1\n\n").1, "1");
    assert_eq!(all_cuts(99, "id: 1\n\nid: 2\ndata: x\n").1, "1");
    assert_eq!(all_cuts(99, "id: 1\n\nid\n\n").1, "");
}

#[test]
fn overlong_event_id_is_dropped() {
    let long = |length: usize, filler: &str| format!("id: a\n\nid: {}\ndata: x\n\n", filler.repeat(length));
    // The id, and what is left of it. Bytes that are not UTF-8 have three for each.
    for (length, filler, kept) in [(4096, "z", 4096), (4097, "z", 0), (40_000, "z", 0), (2048, "é", 4096)] {
        let stream = long(length, filler);
        for chunk in [1, 7, 4096, stream.len()] {
            let (seen, last_id, _) = decode(50_000, stream.as_bytes().chunks(chunk));
            assert_eq!((seen.len(), last_id.len()), (1, kept), "{length}");
        }
    }
    let stream = [b"id: ", &[0xff; 1366][..], b"\ndata: x\n\n"].concat();
    assert_eq!(decode(50_000, [&stream[..]]).1, "");
    let stream = [b"id: ", &[0xff; 1365][..], b"\ndata: x\n\n"].concat();
    assert_eq!(decode(50_000, [&stream[..]]).1.len(), 4095);
    // While one comes, no more is held of it.
    let mut events = SseDecoder::new(50_000);
    for mut chunk in [&b"id: "[..]].into_iter().chain([&b"zzzzzzzz"[..]; 10_000]) {
        assert_eq!(events.next_event(&mut chunk), None);
        assert!(events.buffered() <= 4097);
    }
}

#[test]
fn retry_applies_at_once_and_must_be_a_number() {
    let retry = |input: &str| all_cuts(99, input).2;
    assert_eq!(retry("retry: 500\n"), Some(Duration::from_millis(500)));
    assert_eq!(retry("retry: 500\nretry: 5x\nretry: -1\nretry\nretry:\n\n"), Some(Duration::from_millis(500)));
    assert_eq!(retry("retry: 500"), None);
    assert_eq!(retry("retry: 99999999999999999999999999\n"), Some(Duration::from_millis(u64::MAX)));
}

#[test]
fn oversized_event_is_reported_once() {
    let long = "y".repeat(11);
    let stream = format!(
        "data: 0123456789\n\nid: 1\ndata: {long}\ndata: {long}\n\ndata: ok\n\ndata: 01234\ndata: 5678\n\ndata: \
         01234\ndata: 56789\n\nevent: {long}\nid: 2\n\nid: {long}\n\nid: 3\n: {long}{long}\nname: {long}{long}\n\n"
    );
    let (seen, last_id, _) = all_cuts(10, &stream);
    let whole = |data: &str| message(data, "1");
    assert_eq!(seen[..3], [message("0123456789", ""), None, whole("ok")]);
    assert_eq!(seen[3..], [whole("01234\n5678"), None, None, None]);
    assert_eq!(last_id, "3");
}

#[test]
fn endless_fields_are_held_in_bounded_memory() {
    // The beginning of a stream, its endless continuation, and the number of errors for events that are too long.
    let table = [
        ("data: ", "xxxxxxxx", 1),
        ("data: x\n", "data: x\n", 1),
        ("", "data\n", 1),
        ("event: ", "xxxxxxxx", 1),
        ("id: ", "xxxxxxxx", 1),
        ("retry: ", "00000000", 1),
        ("", "id: xxxx\n", 0),
        ("", "xxxxxxxx", 0),
        (":", "xxxxxxxx", 0),
        ("name: ", "xxxxxxxx", 0),
    ];
    for (start, more, expected) in table {
        let mut events = SseDecoder::new(100);
        let mut reports = 0;
        for text in [start].into_iter().chain([more; 10_000]) {
            let mut chunk = text.as_bytes();
            while let Some(event) = events.next_event(&mut chunk) {
                assert!(event.is_err());
                reports += 1;
            }
            assert!(events.buffered() <= 100);
        }
        assert_eq!(reports, expected, "{more:?}");
    }
}

#[test]
fn event_type_is_held_in_bounded_memory() {
    // Invalid UTF-8 becomes three times as long as text.
    let mut events = SseDecoder::new(1 << 20);
    let input = ["event: ".as_bytes(), &[0xff; 100_000], b"\n"].concat();
    let mut chunk = &input[..];
    while let Some(event) = events.next_event(&mut chunk) {
        assert!(event.is_err());
    }
    assert!(events.kind.as_ref().map_or(0, String::len) <= 3 * ID, "a kind of {} bytes", input.len());
    // An event of such a kind is too long, and the next one is not.
    let input = [&b"event: "[..], &[b'e'; ID + 1], b"\ndata: x\n\ndata: y\n\n"].concat();
    let (mut chunk, mut events) = (&input[..], SseDecoder::new(1 << 20));
    assert!(matches!(events.next_event(&mut chunk), Some(Err(_))));
    assert!(matches!(events.next_event(&mut chunk), Some(Ok(event)) if event.data == b"y"));
}

#[test]
fn ignores_many_comments_and_unknown_fields() {
    let input = ": comment\nunknown: field\n\nevent: ping\n\n".repeat(250_000) + "data: x\n\n";
    assert_eq!(decode(99, [input.as_bytes()]).0, [message("x", "")]);
}

// req: HTTP-075 M-HTTP-097
#[test]
fn written_events_round_trip() {
    for data in ["", "x", "{\"a\":1}", " leading", "a\nb", "a\r\nb\rc\n", "\n", "é\u{0}"] {
        let mut out = Vec::new();
        let retry = Some(Duration::from_millis(1500));
        SseText { kind: Some("endpoint"), id: Some("4-2"), retry, data: Some(data.as_bytes()) }.write(&mut out);
        SseText::comment(&mut out);
        SseText { id: Some("4-3"), ..SseText::default() }.write(&mut out);
        let text = String::from_utf8(out).expect("text stays text");
        let joined = data.replace("\r\n", "\n").replace('\r', "\n");
        let expected = vec![Some(("endpoint".to_string(), joined, "4-2".to_string()))];
        assert_eq!(all_cuts(99, &text), (expected, "4-3".to_string(), retry), "{text:?}");
    }
}

#[test]
fn written_fields_contain_no_line_breaks() {
    let mut out = Vec::new();
    let text = "x\ndata: y\r\n\r\n".to_string();
    SseText { kind: Some(&text), id: Some(&text), retry: None, data: Some(b"z") }.write(&mut out);
    assert_eq!(out, b"event: xdata: y\nid: xdata: y\ndata: z\n\n");
}

#[test]
fn a_buffer_of_at_most_64_kib_is_kept_for_the_next_event() {
    for len in [48 << 10, 200 << 10] {
        let mut events = SseDecoder::new(1 << 20);
        let input = format!("data: {}\n\ndata: x\n\n", "x".repeat(len));
        let mut chunk = input.as_bytes();
        for expected in [len, 1] {
            let event = events.next_event(&mut chunk).expect("an event").expect("it is within the limit");
            assert_eq!(event.data.len(), expected);
        }
        let capacity = events.data.as_ref().map_or(0, Vec::capacity);
        assert!((48 << 10..=64 << 10).contains(&capacity), "{capacity} bytes after {len}");
    }
}
