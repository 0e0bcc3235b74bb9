//! Scopes of tools and of their tasks, without HTTP: a request that lacks them gets an error.

use mcp_proto::{
    connection::Principal,
    protocol::{Era, ProtocolVersion},
    schema::TaskSupport,
};
use serde_json::{Value, json};

use super::pair::Pair;
use crate::{Host, Prompt, Resource, ResourceTemplate, Service, Tool};

/// The scopes of the tool.
const ALL: [&str; 2] = ["read", "write"];

fn service() -> Service {
    let tool = |name| Tool::new_async(name, async || "secret").task_support(TaskSupport::Optional);
    let [read, write] = ALL;
    Service::builder("test", "1")
        .tool(tool("scan").scope(read).scope(write))
        .tool(tool("count"))
        .build()
        .expect("a good service")
}

/// Sends a request with these scopes. Returns the response.
fn send_request(pair: &Pair, version: ProtocolVersion, scopes: &[&str], method: &str, mut params: Value) -> Value {
    if version.era() == Era::Modern {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
    }
    let line = json!({"jsonrpc": "2.0", "id": "by hand", "method": method, "params": params}).to_string();
    let mut principal = Principal::new("ada");
    principal.scopes = scopes.iter().map(ToString::to_string).collect();
    pair.server.take_lines();
    pair.server.input_of(principal, line.as_bytes());
    pair.await_answer("by hand")
}

fn begin(pair: &Pair, version: ProtocolVersion, tool: &str) -> Value {
    let mut params = json!({"name": tool, "arguments": {}});
    if version.era() == Era::Legacy {
        params["task"] = json!({});
    }
    let result = &send_request(pair, version, &ALL, "tools/call", params)["result"];
    let id = if version.era() == Era::Legacy { &result["task"]["taskId"] } else { &result["taskId"] };
    assert!(id.is_string(), "{result}");
    id.clone()
}

// req: AUTH-059 AUTH-060 M-AUTH-037
#[test]
fn a_task_needs_the_scopes_of_its_tool() {
    let refusal = "Insufficient scope: read write";
    for (version, methods) in [
        (ProtocolVersion::V2025_11_25, ["tasks/result", "tasks/get", "tasks/cancel"]),
        (ProtocolVersion::V2026_07_28, ["tasks/get", "tasks/update", "tasks/cancel"]),
    ] {
        let pair = Pair::new(&Host::builder("client", "1").build(), &service(), version);
        let (scan, count) = (begin(&pair, version, "scan"), begin(&pair, version, "count"));
        for method in methods {
            let about = |task: &Value| json!({"taskId": task, "inputResponses": {}});
            for scopes in [&[][..], &ALL[..1], &ALL[1..], &["other"]] {
                let refused = send_request(&pair, version, scopes, method, about(&scan));
                assert_eq!(refused["error"]["code"], -32600, "{method} {scopes:?}: {refused}");
                assert_eq!(refused["error"]["message"], refusal, "{method} {scopes:?}");
            }
            for (scopes, task) in [(&ALL[..], &scan), (&[], &count)] {
                let answer = send_request(&pair, version, scopes, method, about(task));
                assert_ne!(answer["error"]["message"], refusal, "{method} {scopes:?}");
            }
        }
        if version.era() == Era::Legacy {
            for (scopes, expected) in [(&ALL[..], vec![&scan, &count]), (&ALL[..1], vec![&count])] {
                let list = send_request(&pair, version, scopes, "tasks/list", json!({}));
                let tasks = list["result"]["tasks"].as_array().expect("a list").clone();
                assert_eq!(tasks.iter().map(|task| &task["taskId"]).collect::<Vec<_>>(), expected, "{scopes:?}");
            }
        }
    }
}

#[test]
fn mounted_items_need_their_scopes() {
    let part = Service::builder("part", "1")
        .tool(Tool::new_async("scan", async || "secret").scope("read"))
        .prompt(Prompt::new("ask", || "secret").scope("read"))
        .resource(Resource::new("part://a", "a", || "secret").scope("read"))
        .template(ResourceTemplate::new("part://{id}/b", "b", |_: Value| "secret").scope("read"))
        .build()
        .expect("a good service");
    let whole = Service::builder("whole", "1").mount("p", &part).build().expect("a good service");
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let pair = Pair::new(&Host::builder("client", "1").build(), &whole, version);
        for (method, params) in [
            ("tools/call", json!({"name": "p__scan", "arguments": {}})),
            ("prompts/get", json!({"name": "p__ask"})),
            ("resources/read", json!({"uri": "p+part://a"})),
            ("resources/read", json!({"uri": "p+part://7/b"})),
        ] {
            let refused = send_request(&pair, version, &["other"], method, params.clone());
            assert_eq!(refused["error"]["message"], "Insufficient scope: read", "{method}: {refused}");
            let result = send_request(&pair, version, &["read"], method, params);
            assert!(result["result"].to_string().contains("secret"), "{method}: {result}");
        }
    }
}
