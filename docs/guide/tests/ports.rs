//! The programs that were ported from rmcp.

#[path = "../examples/completion.rs"]
mod completion;
#[path = "../examples/counter.rs"]
mod counter;
#[path = "../examples/elicitation.rs"]
mod elicitation;
#[path = "../examples/progress.rs"]
mod progress;

use std::time::Duration;

use mcp_proto::schema::{ElicitAction, ElicitFormParams, ElicitResult, PromptReference};
use mcp_service::{CallError, Host, testing::TestClient};
use serde_json::{Value, json};

fn text(client: &TestClient, tool: &str, arguments: Value) -> String {
    let result = client.call_tool(tool, arguments).unwrap();
    result.content[0].as_text().unwrap_or_default().to_owned()
}

#[test]
fn counts() {
    let client = TestClient::new(&counter::service().unwrap());
    let steps = [
        ("increment", "1"),
        ("increment", "2"),
        ("decrement", "1"),
        ("get_value", "1"),
    ];
    for (tool, expected) in steps {
        assert_eq!(text(&client, tool, json!({})), expected);
    }
    assert_eq!(text(&client, "sum", json!({"a": 1, "b": 2})), "3");
    assert_eq!(text(&client, "echo", json!({"x": [1]})), r#"{"x":[1]}"#);
    assert_eq!(
        text(&client, "long_task", json!({})),
        "ten seconds are over"
    );
    let prompt = client
        .get_prompt("counter_analysis", json!({"goal": "20"}))
        .unwrap();
    assert!(
        prompt.messages[1]
            .content
            .as_text()
            .unwrap()
            .contains("Difference: 19")
    );
    assert!(client.read_resource("memo://insights").is_ok());
}

#[test]
fn proposes_what_fits() {
    let client = TestClient::new(&completion::service().unwrap());
    let propose = |argument: &str, value: &str, known: Value| {
        let reference = PromptReference::new("sql_query");
        let pending = client
            .server()
            .complete(reference, argument, value, known)
            .unwrap();
        client.wait(pending).unwrap().completion.values
    };
    assert_eq!(propose("operation", "sel", json!({})), ["SELECT"]);
    assert_eq!(propose("table", "odr", json!({})), ["orders"]);
    assert_eq!(
        propose("columns", "c", json!({"operation": "select"})),
        ["created_at"]
    );
    assert_eq!(
        propose("columns", "c", json!({})),
        ["(the operation comes first)"]
    );
    let query = json!({"operation": "select", "table": "users", "where_clause": "id = 1"});
    let prompt = client.get_prompt("sql_query", query).unwrap();
    let text = prompt.messages[1].content.as_text().unwrap();
    assert!(text.contains("SELECT * FROM users WHERE id = 1"), "{text}");
}

#[test]
fn asks_for_the_name_once() {
    let host = Host::builder("test", "1.0.0")
        .elicitation(|_: ElicitFormParams, _| {
            let content = serde_json::from_value(json!({"name": "Ada"})).ok();
            Ok::<_, CallError>(ElicitResult {
                content,
                ..ElicitResult::new(ElicitAction::Accept)
            })
        })
        .elicitation_url(|_, _| Ok::<_, CallError>(ElicitAction::Cancel))
        .build();
    let client = TestClient::of(&elicitation::service().unwrap())
        .host(&host)
        .connect();
    assert_eq!(
        text(&client, "greet_user", json!({"greeting": "Hello"})),
        "Hello Ada!"
    );
    client.take_transcript();
    assert_eq!(
        text(&client, "greet_user", json!({"greeting": "Bye"})),
        "Bye Ada!"
    );
    client
        .transcript()
        .assert(["client: tools/call", "server: result of tools/call"]);
    text(&client, "reset_name", json!({}));
    text(&client, "greet_user", json!({"greeting": "Hello"}));
    client.transcript().assert_contains("elicitation/create");
    let cancelled = text(&client, "secure_tool_call", json!({}));
    assert_eq!(cancelled, "the page was closed");
}

#[test]
fn reports_each_record() {
    let client = TestClient::new(&progress::service().unwrap());
    let mut seen = Vec::new();
    let call = client.server().call_tool("stream_processor", ()).unwrap();
    let result = client
        .run(call.await_with(|progress| seen.push(progress.progress)))
        .unwrap();
    assert_eq!(result.content[0].as_text(), Some("5 records are done"));
    assert_eq!(
        (seen, client.elapsed()),
        (vec![1.0, 2.0, 3.0, 4.0, 5.0], Duration::from_secs(5))
    );
}
