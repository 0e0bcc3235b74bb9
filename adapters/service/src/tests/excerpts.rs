//! Error messages that repeat text of a peer.

use mcp_proto::{protocol::ProtocolVersion, schema::PromptArgument};
use serde_json::{Value, json};

use super::pair::Pair;
use super::{echo, object};
use crate::{
    client::Host,
    inbound::failure::Failure,
    server::{prompt::Prompt, tool::Tool},
};

#[derive(serde::Deserialize)]
struct Chosen {
    #[allow(dead_code, reason = "it only has to be wanted")]
    choice: Choice,
}

#[derive(serde::Deserialize)]
enum Choice {
    One,
}

/// Well-formed requests whose errors repeat a name of thousands of bytes.
fn requests(long: &str) -> Vec<(&'static str, Value)> {
    let complete = |prompt: &str, argument: &str| json!({"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": argument, "value": "y"}});
    vec![
        ("tools/call", json!({"name": long})),
        ("tools/call", json!({"name": "choose", "arguments": {"choice": long}})),
        ("prompts/get", json!({"name": long})),
        ("prompts/get", json!({"name": "choose", "arguments": {"choice": long}})),
        ("completion/complete", complete(long, "choice")),
        ("completion/complete", complete("choose", long)),
        ("x/custom", json!({"choice": long})),
    ]
}

#[test]
fn errors_quote_little_of_the_request() {
    let schema = object(&json!({"type": "object", "properties": {"choice": {"type": "string"}}}));
    // The length limit is not at a character boundary.
    for long in [format!("q{}", "\u{e9}".repeat(4000)), format!("qq{}", "\u{e9}".repeat(4000))] {
        for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
            let service = echo()
                .tool(Tool::with_schema("choose", schema.clone(), |_: Chosen| "chosen"))
                .prompt(
                    Prompt::with_arguments("choose", [PromptArgument::new("choice")], |_: Chosen| "chosen")
                        .complete("choice", |_: crate::inbound::completion_request::CompletionRequest| vec!["One"]),
                )
                .on_request("x/custom", |_: Chosen, _| Ok::<_, Failure>("chosen"))
                .build()
                .expect("a good service");
            let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
            for (at, (method, mut params)) in requests(&long).into_iter().enumerate() {
                if version == ProtocolVersion::V2026_07_28 {
                    params["_meta"] = json!({
                        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                        "io.modelcontextprotocol/clientCapabilities": {},
                    });
                }
                let answer = pair.await_answer(&pair.send_line(method, params));
                let is_refused = answer.get("error").is_some() || answer["result"]["isError"] == json!(true);
                let text = answer.to_string();
                assert!(
                    is_refused && text.contains("q\u{e9}"),
                    "{version} {at} {method}: it names what is wrong: {text}"
                );
                assert!(text.len() < 1000, "{version} {at} {method}: {} bytes", text.len());
            }
        }
    }
}
