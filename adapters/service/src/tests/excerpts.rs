//! What errors repeat of what a peer has sent.

use mcp_proto::protocol::{Method, ProtocolVersion};
use serde_json::{Value, json};

use super::echo;
use crate::{Host, Prompt, testing::Pair};

/// Everything that a request may name, and more than anybody would want to read of it.
fn long_params() -> Value {
    let long = "\u{7f}é".repeat(2000);
    let names = [
        "name",
        "uri",
        "taskId",
        "level",
        "cursor",
        "ref",
        "argument",
        "arguments",
        "protocolVersion",
        "capabilities",
        "clientInfo",
        "notifications",
        "inputResponses",
        "requestState",
        "params",
    ];
    names.into_iter().map(|name| (name.to_owned(), json!(long))).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn an_error_repeats_little_of_a_request() {
    #[derive(serde::Deserialize)]
    struct Wanted {
        #[allow(dead_code, reason = "it only has to be wanted")]
        number: u64,
    }
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let service = echo()
            .prompt(Prompt::new("p", || "said"))
            .resources_may_come()
            .subscriptions()
            .on_request("x/custom", |wanted: Wanted, _| Ok::<_, crate::Failure>(wanted.number))
            .build()
            .expect("a good service");
        let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
        let methods = Method::ALL.iter().map(|method| method.as_str()).chain(["x/custom"]);
        let mut refused = 0;
        for method in methods.filter(|method| !method.starts_with("notifications/") && *method != "initialize") {
            let mut requests = vec![long_params(), json!({"name": "echo", "arguments": {"message": [long_params()]}})];
            if method == "completion/complete" {
                let reference = json!({"type": "ref/prompt", "name": long_params()["name"]});
                requests.push(json!({"ref": reference, "argument": {"name": "x", "value": "y"}}));
            }
            for mut params in requests {
                if version == ProtocolVersion::V2026_07_28 {
                    params["_meta"] = json!({
                        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                        "io.modelcontextprotocol/clientCapabilities": {},
                    });
                }
                let id = pair.send_line(method, params);
                let answer = pair.await_answer(&id);
                let text = answer.to_string();
                assert!(text.len() < 4000, "{method}: {} bytes: {}", text.len(), &text[..300]);
                refused += usize::from(answer.get("error").is_some());
            }
        }
        assert!(refused > 10, "{refused}");
    }
}
