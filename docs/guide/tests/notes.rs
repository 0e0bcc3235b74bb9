//! Tests of the program `notes`, with the test client.

#[path = "../examples/notes.rs"]
mod notes;

use mcp_proto::schema::{ElicitAction, ElicitFormParams, ElicitResult, PromptReference};
use mcp_service::{CallError, Host, Service, testing::TestClient};
use serde_json::json;

fn service() -> Service {
    notes::service(notes::Notes::open(None).unwrap()).unwrap()
}

fn text(client: &TestClient, tool: &str, arguments: serde_json::Value) -> String {
    let result = client.call_tool(tool, arguments).unwrap();
    result.content[0].as_text().unwrap_or_default().to_owned()
}

#[test]
fn finds_what_was_added() {
    let client = TestClient::new(&service());
    client
        .call_tool("add", json!({"title": "milk", "text": "Buy milk"}))
        .unwrap();
    assert_eq!(
        text(&client, "find", json!({"text": "milk"})),
        r#"{"titles":["milk"]}"#
    );
    assert_eq!(
        client.read_resource("notes://milk").unwrap().contents.len(),
        1
    );
    assert!(client.read_resource("notes://bread").is_err());
    let proposed = client.wait(
        client
            .server()
            .complete(PromptReference::new("improve"), "title", "m", ())
            .unwrap(),
    );
    assert_eq!(proposed.unwrap().completion.values, ["milk"]);
}

#[test]
fn import_reports_each_line() {
    let client = TestClient::new(&service());
    let mut seen = Vec::new();
    let call = client
        .server()
        .call_tool("import", json!({"lines": "a\nb\nc"}))
        .unwrap();
    let result = client
        .run(call.await_with(|progress| seen.push(progress.progress)))
        .unwrap();
    assert_eq!(result.content[0].as_text(), Some("3 imported"));
    assert_eq!(seen, [1.0, 2.0, 3.0]);
    assert_eq!(
        text(&client, "find", json!({"text": "b"})),
        r#"{"titles":["import 2"]}"#
    );
}

#[test]
fn deletes_only_if_the_user_agrees() {
    for (delete, expected) in [(true, "deleted"), (false, "kept")] {
        let host = Host::builder("test", "1.0.0")
            .elicitation(move |form: ElicitFormParams, _| {
                assert_eq!(form.message, r#"Delete "milk"?"#);
                let content = serde_json::from_value(json!({"delete": delete})).ok();
                Ok::<_, CallError>(ElicitResult {
                    content,
                    ..ElicitResult::new(ElicitAction::Accept)
                })
            })
            .build();
        let client = TestClient::of(&service()).host(&host).connect();
        client
            .call_tool("add", json!({"title": "milk", "text": "Buy milk"}))
            .unwrap();
        assert_eq!(text(&client, "delete", json!({"title": "milk"})), expected);
        let found = text(&client, "find", json!({"text": "milk"}));
        assert_eq!(found.contains("milk"), !delete);
    }
}
