//! Syntax: lines, envelopes, ids, members, server-sent events, base64.

use mcp_proto::{
    codec::{LineDecoder, SseDecoder, decode_base64},
    schema::{CallToolResult, Extra, InitializeParams},
    wire::{ArrayIter, Json, Message, RawJson},
};

use super::{Case, Work, descending, list};

const DEPTH: u32 = 128;

pub(super) const CASES: &[Case] = &[
    Case { name: "lines/one line, byte by byte", make: |size| lines("x".repeat(size) + "\n", 1) },
    Case { name: "lines/empty lines", make: |size| lines("\n".repeat(size), 4096) },
    Case { name: "lines/beyond the limit", make: |size| lines_with_limit("x".repeat(size) + "\n", 1, 1024) },
    Case { name: "sse/one event, byte by byte", make: |size| sse(format!("data: {}\n\n", "x".repeat(size)), 1) },
    Case { name: "sse/a line of data each byte", make: |size| sse("data\n".repeat(size / 5) + "\n", 1) },
    Case {
        name: "sse/a long id, then bytes",
        make: |size| sse(format!("id: {}\n\n:{}", "i".repeat(size / 2), "x".repeat(size / 2)), 1),
    },
    Case { name: "sse/an id for each event", make: |size| sse("id:1\ndata:\n\n".repeat(size / 12), 7) },
    Case { name: "envelope/params of many members", make: |size| envelope(&descending(size, "1")) },
    Case { name: "envelope/escaped names", make: |size| envelope(&escaped_names(size)) },
    Case { name: "envelope/nested arrays", make: |size| envelope(&nested(size)) },
    Case {
        name: "envelope/escapes in a text",
        make: |size| envelope(&format!("{{\"a\":\"{}\"}}", "\\u0041".repeat(size / 6))),
    },
    Case {
        name: "envelope/a long id",
        make: |size| {
            message(format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{}\",\"method\":\"ping\"}}", "\\u0061".repeat(size / 6)))
        },
    },
    Case {
        name: "envelope/a number of many digits as id",
        make: |size| message(format!("{{\"jsonrpc\":\"2.0\",\"id\":{}.0,\"method\":\"ping\"}}", "7".repeat(size))),
    },
    Case {
        name: "envelope/unknown members",
        make: |size| {
            message(format!(
                "{{{},\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}",
                list(size, |index| format!("\"m{index}\":0"))
            ))
        },
    },
    Case { name: "batch/many members", make: |size| batch(format!("[{}]", list(size, |_| "{}".into()))) },
    Case { name: "members/walked", make: |size| members(descending(size, "1")) },
    Case { name: "members/kept as Extra", make: |size| decode::<Extra>(descending(size, "1")) },
    Case { name: "members/kept as Value", make: |size| decode::<serde_json::Value>(descending(size, "1")) },
    Case {
        name: "typed/result, type last in each block",
        make: |size| {
            decode::<CallToolResult>(format!(
                "{{\"content\":[{}]}}",
                list(size, |_| r#"{"text":"aaaaaaaaaaaaaaaa","type":"text"}"#.into())
            ))
        },
    },
    Case {
        name: "typed/result, blocks of a type that is unknown",
        make: |size| {
            decode::<CallToolResult>(format!(
                "{{\"content\":[{}]}}",
                list(size, |_| r#"{"type":"smell","b":[1]}"#.into())
            ))
        },
    },
    Case {
        name: "typed/result, members that are unknown",
        make: |size| {
            decode::<CallToolResult>(format!("{{\"content\":[],{}}}", list(size, |index| format!("\"m{index}\":0"))))
        },
    },
    Case {
        name: "typed/a text where a boolean is expected",
        make: |size| {
            decode::<CallToolResult>(format!("{{\"content\":[],\"isError\":\"{}\"}}", "\u{200b}".repeat(size / 3)))
        },
    },
    Case {
        name: "typed/a text where an object is expected",
        make: |size| {
            decode::<InitializeParams>(format!(
                "{{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{{}},\"clientInfo\":\"{}\"}}",
                "\u{7f}".repeat(size)
            ))
        },
    },
    Case { name: "base64/a long text", make: |size| base64("QUJD".repeat(size / 4)) },
];

fn escaped_names(size: usize) -> String {
    format!("{{{}}}", list(size, |index| format!("\"\\u006d{index}\":0")))
}

/// Brackets as deep as they may be, around a text of `size` bytes.
fn nested(size: usize) -> String {
    let depth = DEPTH as usize - 8;
    format!("{{\"a\":{}\"{}\"{}}}", "[".repeat(depth), "x".repeat(size), "]".repeat(depth))
}

fn lines(text: String, chunk: usize) -> Work {
    lines_with_limit(text, chunk, 1 << 30)
}

fn lines_with_limit(text: String, chunk: usize, limit: usize) -> Work {
    Work::new(text.len(), move || {
        let mut lines = LineDecoder::new(limit);
        for chunk in text.as_bytes().chunks(chunk) {
            lines.feed(chunk);
            while lines.next_frame().is_some() {}
        }
    })
}

fn sse(text: String, chunk: usize) -> Work {
    Work::new(text.len(), move || {
        let mut decoder = SseDecoder::new(1 << 30);
        for mut chunk in text.as_bytes().chunks(chunk) {
            while decoder.next_event(&mut chunk).is_some() {}
        }
    })
}

fn message(text: String) -> Work {
    Work::new(text.len(), move || drop(Message::parse(&text, DEPTH)))
}

fn envelope(params: &str) -> Work {
    message(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{params}}}"))
}

fn batch(text: String) -> Work {
    Work::new(text.len(), move || assert!(ArrayIter::new(&text, DEPTH).count() > 0, "members are handed out"))
}

fn members(text: String) -> Work {
    let input = text.len();
    let json = Json::parse(text).expect("it is JSON");
    Work::new(input, move || {
        let raw = RawJson::from(&json);
        assert!(raw.members().count() > 0, "there are members");
        assert_eq!(raw.member("none").map(|raw| raw.get().len()), None);
    })
}

fn decode<T: for<'a> serde_core::Deserialize<'a> + 'static>(text: String) -> Work {
    let input = text.len();
    let json = Json::parse(text).expect("it is JSON");
    Work::new(input, move || drop(RawJson::from(&json).decode::<T>()))
}

fn base64(text: String) -> Work {
    Work::new(text.len(), move || assert!(decode_base64(&text).is_some(), "it is base64"))
}
