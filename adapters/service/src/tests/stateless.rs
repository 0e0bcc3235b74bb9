//! Tests what a service offers in 2026-07-28, where a connection has no meaning: the response does not depend on the
//! client, or on earlier requests.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use mcp_proto::{
    protocol::{Capability, ProtocolVersion},
    schema::{ContentBlock, EmbeddedResource, PromptArgument, PromptMessage, TextResourceContents},
};
use serde_json::{Value, json};

use super::pair::{Pair, code};
use super::{
    body,
    modern::{everything, form, modern, obliging, send, text},
};
use crate::{
    inbound::{context::Context, failure::Failure},
    server::{
        builder::ServiceBuilder, prompt::Prompt, resource::Resource, resource_template::ResourceTemplate,
        service::Service, tool::Tool,
    },
    util::lock::lock,
};

const VERSION: ProtocolVersion = ProtocolVersion::V2026_07_28;

const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
];

fn long() -> ServiceBuilder {
    let mut builder = Service::builder("test", "1").page_size(2).subscriptions();
    for i in 0..5 {
        builder = builder
            .tool(Tool::new(format!("t{i}"), || "done"))
            .prompt(Prompt::new(format!("p{i}"), || "text"))
            .resource(Resource::new(format!("r://{i}"), "r", || "text"))
            .template(ResourceTemplate::new(format!("u://{i}/{{x}}"), "u", || ""));
    }
    builder
}

/// Reads all pages of all lists over this connection.
fn lists(pair: &Pair, capabilities: &Value) -> Vec<Value> {
    let walk = |(method, member): (&str, &str)| {
        let (mut items, mut params) = (Vec::new(), json!({}));
        loop {
            let page = body(VERSION, true, send(pair, method, params, capabilities.clone()));
            items.extend(page[member].as_array().expect("an array").iter().cloned());
            match page.get("nextCursor") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return Value::from(items),
            }
        }
    };
    LISTS.into_iter().map(walk).collect()
}

// req: M-TOOL-002 M-TOOL-003 M-TOOL-005 M-PROMPT-003 M-RES-003 M-STDIO-021
#[test]
fn lists_are_independent_of_connection_history() {
    let service = long().build().expect("a good service");
    let fresh = modern(&service);
    let expected = lists(&fresh, &json!({}));
    assert!(expected.iter().all(|list| list.as_array().map(Vec::len) == Some(5)));

    for version in [VERSION, ProtocolVersion::V2025_11_25] {
        let used = Pair::new(&obliging().build(), &service, version);
        for (method, params) in [
            ("tools/call", json!({"name": "t0"})),
            ("tools/call", json!({"name": "none"})),
            ("prompts/get", json!({"name": "p1"})),
            ("resources/read", json!({"uri": "r://2"})),
            ("resources/read", json!({"uri": "r://none"})),
            ("tools/list", json!({"cursor": "t2"})),
        ] {
            let _ = used.send_request(method, params.clone());
            let _ = send(&used, method, params, everything());
        }
        used.send_line(
            "subscriptions/listen",
            json!({"notifications": {"toolsListChanged": true}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}),
        );
        assert_eq!(lists(&used, &json!({})), expected, "{version}");
        assert_eq!(lists(&used, &everything()), expected, "whatever the client can do");
    }
    assert_eq!(lists(&fresh, &json!({})), expected, "and whatever others did");
}

// req: M-PAGE-009 M-BASE-044
#[test]
fn cursors_are_valid_on_any_connection() {
    let service = long().build().expect("a good service");
    let [here, there] = [modern(&service), modern(&service)];
    for (method, member) in LISTS {
        let first = body(VERSION, true, send(&here, method, json!({}), json!({})));
        let second = body(VERSION, true, send(&there, method, json!({"cursor": first["nextCursor"]}), json!({})));
        let third = body(VERSION, true, send(&here, method, json!({"cursor": second["nextCursor"]}), json!({})));
        let seen: Vec<_> = [&first, &second, &third].iter().flat_map(|it| it[member].as_array().expect("it")).collect();
        let whole = &lists(&modern(&service), &json!({}))[LISTS.iter().position(|(it, _)| *it == method).expect("it")];
        assert_eq!(seen, whole.as_array().expect("it").iter().collect::<Vec<_>>(), "{method}");
        assert_eq!(third.get("nextCursor"), None);
    }
}

// req: M-BASE-044 M-TOOL-039 M-MRTR-029
#[test]
fn explicit_handles_work_on_any_connection() {
    let carts = Arc::new(Mutex::new(Vec::<Vec<String>>::new()));
    let (open, fill) = (carts.clone(), carts.clone());
    #[derive(serde::Deserialize)]
    struct Item {
        cart: usize,
        item: String,
    }
    let schema = super::object(&json!({"type": "object", "properties": {
        "cart": {"type": "integer"}, "item": {"type": "string"}}, "required": ["cart", "item"]}));
    let service = Service::builder("test", "1")
        .tool(Tool::new("open", move || {
            let mut carts = lock(&open);
            carts.push(Vec::new());
            (carts.len() - 1).to_string()
        }))
        .tool(Tool::with_schema("add", schema, move |Item { cart, item }: Item| {
            let mut carts = lock(&fill);
            let cart = carts.get_mut(cart).ok_or("no such cart")?;
            cart.push(item);
            Ok::<_, &str>(cart.join(" "))
        }))
        .tool(Tool::new("greet", |context: Context| {
            let name = context.elicit("Who are you?", form("name")).wait()?;
            Ok::<_, Failure>(super::modern::said(&name, "name"))
        }))
        .build()
        .expect("a good service");
    let [here, there] = [modern(&service), modern(&service)];
    let call = |pair: &Pair, name: &str, arguments: Value| {
        send(pair, "tools/call", json!({"name": name, "arguments": arguments}), everything()).expect("a result")
    };
    assert_eq!(text(&call(&here, "open", json!({}))), "0");
    assert_eq!(text(&call(&there, "open", json!({}))), "1");
    assert_eq!(text(&call(&here, "add", json!({"cart": 1, "item": "egg"}))), "egg");
    assert_eq!(text(&call(&there, "add", json!({"cart": 1, "item": "ham"}))), "egg ham");
    assert_eq!(text(&call(&there, "add", json!({"cart": 0, "item": "jam"}))), "jam");
    // The same holds for input requests: one connection gets the request, the other one sends the response.
    let requested = call(&here, "greet", json!({}));
    let answers = json!({"q1": {"action": "accept", "content": {"name": "Ada"}}});
    let again =
        json!({"name": "greet", "arguments": {}, "requestState": requested["requestState"], "inputResponses": answers});
    assert_eq!(text(&send(&there, "tools/call", again, everything()).expect("a result")), "String(\"Ada\")");
}

// req: LIFE-023 M-DISC-010 M-TOOL-001 M-PROMPT-001 M-RES-001 M-RES-005 M-COMPL-001 M-LOG-001
#[test]
fn discovery_lists_all_capabilities() {
    let none = || Service::builder("test", "1");
    let tool = || Tool::new("t", || "done");
    let prompt = || Prompt::with_arguments("p", [PromptArgument::new("a")], || "text");
    let resource = || Resource::new("a://b", "b", || "text");
    let (listed, logs) = (json!({"listChanged": true}), json!({}));
    let table = [
        (none(), json!({})),
        (none().tool(tool()), json!({"tools": listed, "logging": logs})),
        (none().enable_tools(), json!({"tools": listed, "logging": logs})),
        (none().prompt(prompt()), json!({"prompts": listed, "logging": logs})),
        (
            none().prompt(prompt().complete("a", |_| vec!["x"])),
            json!({"prompts": listed, "completions": {}, "logging": logs}),
        ),
        (none().resource(resource()), json!({"resources": listed, "logging": logs})),
        (
            none().template(ResourceTemplate::new("a://{b}", "b", || "").complete("b", |_| vec!["x"])),
            json!({"resources": listed, "completions": {}, "logging": logs}),
        ),
        (
            none().resource(resource()).subscriptions(),
            json!({"resources": {"listChanged": true, "subscribe": true}, "logging": logs}),
        ),
        (
            none().resource(resource()).subscriptions().disable_capability(Capability::ResourcesListChanged),
            json!({"resources": {"subscribe": true}, "logging": logs}),
        ),
        (
            none()
                .resource(resource())
                .disable_capability(Capability::ResourcesListChanged)
                .disable_capability(Capability::Logging),
            json!({"resources": {}}),
        ),
    ];
    for (builder, expected) in table {
        let service = builder.build().expect("a good service");
        // 2024-11-05 has no capability for completion.
        for version in ProtocolVersion::LEGACY {
            let pair = Pair::new(&obliging().build(), &service, version);
            let declared = pair.client.with_conn(|conn| conn.peer_capabilities());
            for capability in [Capability::Tools, Capability::Prompts, Capability::Resources, Capability::Logging] {
                let is_expected = expected.get(capability.path()).is_some();
                assert_eq!(declared.contains(capability), is_expected, "{capability:?} in {version}: {expected}");
            }
            let completes = version > ProtocolVersion::V2024_11_05 && expected.get("completions").is_some();
            assert_eq!(declared.contains(Capability::Completions), completes, "{version}: {expected}");
        }
        let pair = modern(&service);
        let discovered = body(VERSION, true, send(&pair, "server/discover", json!({}), json!({})));
        assert_eq!(discovered["capabilities"], expected);
        assert_eq!(discovered["supportedVersions"][0], "2026-07-28");
        // A method whose capability is not declared does not exist.
        for (method, capability) in
            [("tools/list", "tools"), ("prompts/list", "prompts"), ("resources/list", "resources")]
        {
            let answer = send(&pair, method, json!({}), json!({}));
            assert_eq!(answer.is_ok(), expected.get(capability).is_some(), "{method} {expected}");
            assert!(answer.is_ok() || code(&answer) == -32601);
        }
        let reference = json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}});
        let completed = send(&pair, "completion/complete", reference, json!({}));
        assert_eq!(completed.is_err() && code(&completed) == -32601, expected.get("completions").is_none());
    }
}

// req: M-RES-005 M-RES-019 M-RES-020 M-TOOL-022
#[test]
fn changes_reach_subscribers() {
    for (subscribe, list_changed) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut builder = Service::builder("test", "1").tool(Tool::new("t", || ())).resource(Resource::new(
            "test://a",
            "a",
            || "text",
        ));
        if subscribe {
            builder = builder.subscriptions();
        }
        if !list_changed {
            builder = builder.disable_capability(Capability::ResourcesListChanged);
        }
        let service = builder.build().expect("a good service");
        let pair = modern(&service);
        let filter =
            json!({"toolsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["test://a"]});
        let id = pair.send_line(
            "subscriptions/listen",
            json!({"notifications": filter, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}),
        );
        pair.server.flush();
        let mut honoured = json!({"toolsListChanged": true});
        if list_changed {
            honoured["resourcesListChanged"] = json!(true);
        }
        if subscribe {
            honoured["resourceSubscriptions"] = json!(["test://a"]);
        }
        assert_eq!(pair.server.take_lines()[0]["params"]["notifications"], honoured);
        service.add(Tool::new("u", || ())).expect("its name is free");
        service.add(Resource::new("test://b", "b", || "text")).expect("its name is free");
        assert_eq!(service.resource_updated("test://a"), usize::from(subscribe));
        assert_eq!(service.resource_updated("test://b"), 0);
        pair.server.flush();
        let tag = json!({"io.modelcontextprotocol/subscriptionId": id});
        let news = |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
        let mut expected = Vec::new();
        if subscribe {
            expected.push(news("notifications/resources/updated", json!({"uri": "test://a", "_meta": tag})));
        }
        expected.push(news("notifications/tools/list_changed", json!({ "_meta": tag })));
        if list_changed {
            expected.push(news("notifications/resources/list_changed", json!({ "_meta": tag })));
        }
        assert_eq!(pair.server.take_lines(), expected, "{subscribe} {list_changed}");
    }
}

// req: CONT-006 M-PROMPT-015 M-PROMPT-016 M-SCHEMA-015 M-SCHEMA-017
#[test]
fn prompt_content_has_mime_types() {
    let named =
        TextResourceContents { mime_type: Some("text/markdown".into()), ..TextResourceContents::new("a://b", "#") };
    let message = |content: ContentBlock| move || PromptMessage { content: content.clone(), ..PromptMessage::user("") };
    let bytes = mcp_proto::schema::BlobResourceContents::from_bytes("a://c", &[0xff, 0]);
    let service = Service::builder("test", "1")
        .prompt(Prompt::new("text", message(EmbeddedResource::new(TextResourceContents::new("a://b", "hi")).into())))
        .prompt(Prompt::new("named", message(EmbeddedResource::new(named).into())))
        .prompt(Prompt::new("bytes", message(EmbeddedResource::new(bytes).into())))
        .prompt(Prompt::new("image", message(ContentBlock::image("/wA=", "image/png"))))
        .prompt(Prompt::new("sound", message(ContentBlock::audio("/wA=", "audio/wav"))))
        .prompt(Prompt::new("no bytes", message(ContentBlock::image("not base64", "image/png"))))
        .prompt(Prompt::new("no type", message(ContentBlock::audio("/wA=", "sound"))))
        .build()
        .expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = Pair::new(&obliging().build(), &service, version);
        let get = |name: &str| pair.send_request("prompts/get", json!({ "name": name }));
        let content = |name: &str| body(version, false, get(name))["messages"][0]["content"].clone();
        let embedded = |resource: Value| json!({"type": "resource", "resource": resource});
        assert_eq!(content("text"), embedded(json!({"uri": "a://b", "mimeType": "text/plain", "text": "hi"})));
        assert_eq!(content("named"), embedded(json!({"uri": "a://b", "mimeType": "text/markdown", "text": "#"})));
        assert_eq!(
            content("bytes"),
            embedded(json!({"uri": "a://c", "mimeType": "application/octet-stream", "blob": "/wA="}))
        );
        assert_eq!(content("image"), json!({"type": "image", "data": "/wA=", "mimeType": "image/png"}));
        // Sounds are content since 2025-03-26.
        if version == ProtocolVersion::V2024_11_05 {
            continue;
        }
        assert_eq!(content("sound"), json!({"type": "audio", "data": "/wA=", "mimeType": "audio/wav"}));
        for bad in ["no bytes", "no type"] {
            assert_eq!(code(&get(bad)), -32603, "{bad}");
        }
    }
}

// req: M-RES-021 M-RES-024
#[test]
fn resource_bytes_are_sent_as_base64() {
    let service = Service::builder("test", "1")
        .resource(Resource::new("test://text", "text", || "t\u{f6}xt"))
        .resource(Resource::new("test://bytes", "bytes", || b"text".to_vec()))
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let read = |uri: &str| body(VERSION, true, send(&pair, "resources/read", json!({ "uri": uri }), json!({})));
    assert_eq!(read("test://text"), json!({"contents": [{"uri": "test://text", "text": "t\u{f6}xt"}]}));
    assert_eq!(read("test://bytes"), json!({"contents": [{"uri": "test://bytes", "blob": "dGV4dA=="}]}));
}

// req: M-VERS-011
#[test]
fn optional_task_runs_plain_without_task_support() {
    // A tool that can be a task is a plain tool for clients without tasks.
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let service = Service::builder("test", "1")
        .tool(
            Tool::new("slow", move || {
                count.fetch_add(1, Ordering::SeqCst);
                "done"
            })
            .task_support(mcp_proto::schema::TaskSupport::Optional),
        )
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let unknown = json!({"extensions": {"com.example/barn": {"doors": 2}}, "experimental": {"x": {}}, "future": true});
    for capabilities in [json!({}), unknown] {
        let result = send(&pair, "tools/call", json!({"name": "slow"}), capabilities).expect("a result");
        assert_eq!((text(&result), &result["resultType"]), ("done", &json!("complete")));
    }
    assert_eq!(ran.load(Ordering::SeqCst), 2);
}
