//! Messages that repeat parts of earlier ones on their connection, which are not decoded again: a message has the same
//! effect whatever came before it.

use mcp_proto::{
    connection::{Event, RequestOptions, ServerRole},
    protocol::VersionSet,
    wire::RawJson,
};
use mcp_tests::harness::{Harness, full_client, full_server};
use serde_json::{Value, json};

/// The members of `_meta` with the capability of tasks, which a server may require.
const TASKS: &str =
    r#""io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
const NONE: &str = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
const OTHER_VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-29""#;
const INFO: &str = r#""io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"}"#;
const OTHER_INFO: &str = r#""io.modelcontextprotocol/clientInfo":{"name":"b","version":"1"}"#;
const LEVEL: &str = r#""io.modelcontextprotocol/logLevel":"error""#;
const TRACE: &str = r#""traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01""#;
const TOKEN: &str = r#""progressToken":"a,b""#;

/// Returns texts of `_meta`, valid and invalid ones.
fn metas() -> Vec<String> {
    let members: [&[&str]; 20] = [
        &[VERSION, INFO, NONE],
        &[VERSION, INFO, TASKS],
        &[VERSION, OTHER_INFO, NONE],
        &[VERSION, NONE],
        &[VERSION, NONE, INFO],
        &[INFO, VERSION, NONE],
        &[VERSION, INFO],
        &[INFO, NONE],
        &[OTHER_VERSION, INFO, NONE],
        &[TOKEN, VERSION, INFO, NONE],
        &[VERSION, INFO, NONE, TOKEN],
        &[VERSION, INFO, NONE, LEVEL],
        &[VERSION, INFO, LEVEL, NONE],
        &[TRACE, VERSION, INFO, NONE],
        &[TOKEN, VERSION, INFO, NONE, TRACE, LEVEL],
        &[VERSION, INFO, NONE, OTHER_INFO],
        &[OTHER_INFO, VERSION, INFO, NONE],
        &[VERSION, INFO, NONE, VERSION],
        &[r#""x":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#, VERSION, INFO, NONE],
        &[],
    ];
    let mut metas: Vec<_> = members.iter().map(|members| format!("{{{}}}", members.join(","))).collect();
    metas.push(format!("{{ {VERSION} , {INFO} , {NONE} }}"));
    metas.push(format!("{{{VERSION},{INFO},{}}}", NONE.replace("clientCap", "client\\u0043ap")));
    metas
}

/// Sends a request. Returns what the application and the client see of it.
fn effect(server: &mut Harness<ServerRole>, method: &str, meta: &str) -> String {
    server.feed_text(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"t","_meta":{meta}}}}}"#
    ));
    let mut seen = Vec::new();
    for event in server.take_events() {
        if let Event::Request { key, .. } = event {
            let context = format!("{:?}", server.conn.context(key));
            let described = server.conn.usage().request_bytes;
            server.conn.progress(key, 1.0, None, None).expect("it is in flight");
            let task = RawJson::from(&json_text(&json!({"resultType": "task"}))).into_owned();
            let is_task = server.conn.respond_raw(key, &task).is_ok();
            if !is_task {
                server.respond(key, &json!({}));
            }
            seen.push(format!("{context} {described} {is_task}"));
        } else {
            seen.push(format!("{event:?}"));
        }
    }
    format!("{seen:?} {:?}", server.sent_text())
}

fn json_text(value: &Value) -> mcp_proto::wire::Json {
    mcp_proto::wire::Json::new(value).expect("JSON")
}

fn server() -> Harness<ServerRole> {
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    Harness::server(config)
}

#[test]
fn requests_have_the_same_effect_after_any_other() {
    let metas = metas();
    let alone = |meta: &str| ["tools/call", "tasks/get"].map(|method| effect(&mut server(), method, meta));
    let expected: Vec<_> = metas.iter().map(|meta| alone(meta)).collect();
    let distinct: std::collections::BTreeSet<_> = expected.iter().collect();
    assert!(distinct.len() > 10, "the requests differ in their effects");
    for first in &metas {
        for (second, expected) in metas.iter().zip(&expected) {
            let mut server = server();
            effect(&mut server, "tools/call", first);
            effect(&mut server, "tools/call", first);
            for (method, expected) in ["tools/call", "tasks/get"].into_iter().zip(expected) {
                assert_eq!(effect(&mut server, method, second), *expected, "{second} after {first}");
            }
        }
    }
}

#[test]
fn requests_in_flight_have_their_own_clients() {
    let mut server = server();
    let mut open = Vec::new();
    let infos = [INFO, INFO, OTHER_INFO, OTHER_INFO, INFO, OTHER_INFO, OTHER_INFO, INFO, INFO];
    for (id, info) in infos.into_iter().enumerate() {
        server.feed_text(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{"_meta":{{{VERSION},{info},{NONE}}}}}}}"#
        ));
        let key = server.take_events().into_iter().find_map(|event| match event {
            Event::Request { key, .. } => Some(key),
            _ => None,
        });
        open.push((key.expect("a request"), info));
        for (key, info) in &open {
            let name = server.conn.context(*key).and_then(|context| Some(context.client_info?.name.clone()));
            let expected = if *info == INFO { "a" } else { "b" };
            assert_eq!(name.as_deref(), Some(expected), "after {id}");
        }
        // Some of them end before the next one.
        if id % 3 != 2 {
            let (key, _) = open.remove(id % open.len());
            server.respond(key, &json!({"tools": []}));
            server.sent();
        }
    }
}

#[test]
fn results_have_the_same_effect_after_any_other() {
    let info = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}"#;
    let complete = r#""resultType":"complete""#;
    // Their `resultType` is behind other members.
    let behind = [r#""content":[],"resultType":"complete""#, r#""requestState":"s","resultType":"input_required""#];
    let behind = behind.into_iter().chain([r#""content":[],"resultType":"task""#, r#""content":[],"resultType":5"#]);
    let results = [
        format!("{{{complete},{info},\"content\":[]}}"),
        format!("{{{complete},{info}}}"),
        format!("{{{info},{complete}}}"),
        format!("{{{complete},{}}}", info.replace("\"s\"", "\"t\"")),
        format!("{{{info}}}"),
        format!("{{{complete},{info},{complete}}}"),
        format!("{{{complete},{info},\"resultType\":\"task\"}}"),
        format!("{{\"resultType\":\"input_required\",{info},\"requestState\":\"s\"}}"),
        format!("{{\"resultType\":\"task\",{info}}}"),
        format!("{{\"resultType\":5,{info}}}"),
        format!("{{\"content\":[],{complete},{info}}}"),
        String::from("{}"),
    ];
    let results: Vec<_> = results.into_iter().chain(behind.map(|rest| format!("{{{info},{rest}}}"))).collect();
    let client = || Harness::modern_client_with(full_client());
    let effect = |client: &mut Harness<_>, result: &str| {
        let id = client.call_with("tools/call", RequestOptions::no_timeout()).as_u64();
        client.feed_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        let seen = client.take_events().into_iter().map(|event| match event {
            Event::Response { outcome, .. } => format!("{outcome:?}"),
            other => format!("{other:?}"),
        });
        let seen: Vec<_> = seen.collect();
        client.sent();
        seen
    };
    let expected: Vec<_> = results.iter().map(|result| effect(&mut client(), result)).collect();
    for first in &results {
        for (second, expected) in results.iter().zip(&expected) {
            let mut client = client();
            effect(&mut client, first);
            effect(&mut client, first);
            assert_eq!(effect(&mut client, second), *expected, "{second} after {first}");
        }
    }
}
