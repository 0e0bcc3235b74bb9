//! Frames of typical connections, small and large.

use serde_json::json;

/// The text of small calls, which the tool returns.
pub const TEXT: &str = "thirty-two bytes of plain text..";

/// The arguments of a small call.
pub const ARGUMENTS: &str = r#"{"message":"thirty-two bytes of plain text.."}"#;

/// The sizes of texts.
pub const SIZES: [(&str, usize); 4] = [("32 B", 32), ("1 KiB", 1 << 10), ("64 KiB", 64 << 10), ("1 MiB", 1 << 20)];

/// Returns a text of `size` bytes: prose with line breaks and quotes, or plain.
#[must_use]
pub fn text(size: usize, prose: bool) -> String {
    let piece = if prose {
        "She said \"so be it\" and went on her way, as one does;\n"
    } else {
        "plain text without any escapes at all, "
    };
    piece.chars().cycle().take(size).collect()
}

fn call(params: &serde_json::Value) -> String {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string()
}

fn result(text: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": text}]}}).to_string()
}

fn tools(count: usize) -> String {
    let tool = |number: usize| {
        json!({
            "name": format!("tool_number_{number}"), "title": format!("Tool {number}"),
            "description": "Searches the project for a pattern, and returns the lines that match with the names of their files.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "What to look for"},
                    "path": {"type": "string", "description": "Where to look"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
                    "flags": {"type": "array", "items": {"type": "string", "enum": ["i", "m", "s"]}},
                },
                "required": ["pattern"], "additionalProperties": false,
            },
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        })
    };
    let tools: Vec<_> = (0..count).map(tool).collect();
    json!({"jsonrpc": "2.0", "id": 7, "result": {"tools": tools}}).to_string()
}

/// The names of the messages of the corpus.
pub const FRAMES: [&str; 8] =
    ["ping", "progress", "call", "call of 2026-07-28", "result", "list of 50 tools", "64 KiB plain", "64 KiB prose"];

/// Returns a message of the corpus with a static lifetime.
///
/// # Panics
/// If there is no message of this name.
#[must_use]
pub fn frame(name: &str) -> &'static str {
    let arguments = json!({"message": TEXT});
    let frame = match name {
        "ping" => json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}).to_string(),
        "progress" => {
            let params = json!({"progressToken": 7, "progress": 0.5, "total": 1, "message": "half way"});
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string()
        }
        "call" => call(&json!({"_meta": {"progressToken": 7}, "name": "echo", "arguments": arguments})),
        "call of 2026-07-28" => {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1.0.0"},
                "io.modelcontextprotocol/clientCapabilities": {"roots": {}, "sampling": {}, "elicitation": {}},
            });
            call(&json!({"_meta": meta, "name": "echo", "arguments": arguments}))
        }
        "result" => result(TEXT),
        "list of 50 tools" => tools(50),
        "64 KiB plain" => result(&text(64 << 10, false)),
        "64 KiB prose" => result(&text(64 << 10, true)),
        other => panic!("there is no {other}"),
    };
    frame.leak()
}
