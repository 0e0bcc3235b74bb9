//! Scopes of tools and of their tasks, without HTTP: a request that lacks them gets an error.

use std::{borrow::Cow, time::Duration};

use mcp_proto::{
    connection::Principal,
    protocol::{Era, ProtocolVersion},
    schema::{CacheScope, PromptArgument, TaskSupport},
    wire::{Json, RawJson},
};
use serde_json::{Value, json};

use super::pair::Pair;
use crate::{
    CompletionRequest, Host, Prompt, Resource, ResourceTemplate, Service, Tool,
    driver_api::connection_handle::Application as _,
};

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

/// For each kind of item: the list, its member, the member of an entry that a request names, a name and the request.
const LISTS: [(&str, &str, &str, &str, &str); 4] = [
    ("tools/list", "tools", "name", "scan", "tools/call"),
    ("prompts/list", "prompts", "name", "ask", "prompts/get"),
    ("resources/list", "resources", "uri", "f://a", "resources/read"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate", "g://{a}", "resources/read"),
];

fn listing_service(hides: bool) -> Service {
    let builder = Service::builder("test", "1")
        .page_size(1)
        .tool(Tool::new("open", || ""))
        .tool(Tool::new("scan", || "").scope("s"))
        .tool(Tool::new("last", || ""))
        .prompt(Prompt::new("ask", || "").scope("s"))
        // The scopes of a resource are those of all items that match it.
        .resource(Resource::new("f://a", "a", || ""))
        .template(ResourceTemplate::new("f://{a}", "f", |_: Value| "").scope("s"))
        .template(ResourceTemplate::new("g://{a}", "g", |_: Value| "").scope("s"))
        .cache_lists_for(Duration::from_secs(1), CacheScope::Public);
    if hides { builder.hide_without_scopes() } else { builder }.build().expect("a good service")
}

/// Returns the names in all pages of a list.
fn listed(
    pair: &Pair,
    version: ProtocolVersion,
    scopes: &[&str],
    (method, member, key): (&str, &str, &str),
) -> Vec<String> {
    let (mut names, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let result = send_request(pair, version, scopes, method, params)["result"].clone();
        let page = result[member].as_array().expect("a list");
        assert!(page.len() <= 1, "{result}");
        names.extend(page.iter().map(|item| item[key].as_str().expect("a name").to_owned()));
        cursor = result["nextCursor"].clone();
        if cursor.is_null() {
            return names;
        }
    }
}

#[test]
fn lists_may_leave_out_what_would_be_refused() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        for hides in [false, true] {
            let pair = Pair::new(&Host::builder("client", "1").build(), &listing_service(hides), version);
            for (method, member, key, item, request) in LISTS {
                for scopes in [&[][..], &["other"], &["s"]] {
                    let names = listed(&pair, version, scopes, (method, member, key));
                    let has_scope = scopes == ["s"];
                    assert_eq!(names.iter().any(|name| name == item), has_scope || !hides, "{method} {scopes:?}");
                    let uri = item.replace("{a}", "7");
                    let params = json!({ if key == "name" { "name" } else { "uri" }: uri });
                    let response = send_request(&pair, version, scopes, request, params);
                    assert_eq!(response["error"]["message"] == "Insufficient scope: s", !has_scope, "{response}");
                }
            }
            let tools = listed(&pair, version, &[], ("tools/list", "tools", "name"));
            assert_eq!(tools, if hides { vec!["open", "last"] } else { vec!["open", "scan", "last"] });
        }
    }
}

#[cfg(feature = "skills")]
#[test]
fn folders_may_leave_out_what_would_be_refused() {
    let skill =
        crate::Skill::new("pdf", "---\nname: pdf\ndescription: About\n---\n").file("open", "").file("secret/key", "");
    let service = Service::builder("test", "1")
        .skill(skill)
        .template(ResourceTemplate::new("skill://pdf/secret/{a}", "secrets", |_: Value| "").scope("s"))
        .hide_without_scopes()
        .build()
        .expect("a good service");
    let version = ProtocolVersion::V2026_07_28;
    let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
    let read = |folder: &str, scopes: &[&str]| {
        let response = send_request(&pair, version, scopes, "resources/directory/read", json!({"uri": folder}));
        let entries = response["result"]["resources"].as_array().cloned().unwrap_or_default();
        entries.iter().map(|entry| entry["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(read("skill://pdf", &["s"]), ["pdf", "open", "secret"]);
    assert_eq!(read("skill://pdf", &[]), ["pdf", "open"]);
    assert_eq!((read("skill://pdf/secret", &["s"]).len(), read("skill://pdf/secret", &[]).len()), (1, 0));
}

#[test]
fn a_removed_resource_needs_no_scopes() {
    let service = Service::builder("test", "1")
        .resource(Resource::new("test://secret", "a", || "contents").scope("s"))
        .resource(Resource::new("test://%73ecret", "b", || "contents").scope("t"))
        .template(ResourceTemplate::new("test://{a}", "c", |_: Value| "contents"))
        .build()
        .expect("a good service");
    let refusals = |expected: &[&str]| {
        let uris = ["test://secret", "test://%73ecret", "test://%73e%63ret"];
        let messages = uris.map(|uri| reads(&service, uri, &[])[0]["error"]["message"].clone());
        let mut named: Vec<_> = messages.iter().filter_map(|it| it.as_str()?.strip_prefix("Insufficient ")).collect();
        named.sort_unstable();
        assert_eq!(named, expected);
    };
    refusals(&["scope: s t", "scope: t s", "scope: t s"]);
    assert!(service.remove_resource("test://secret"));
    refusals(&["scope: t"; 3]);
    assert!(service.remove_resource("test://%73ecret"));
    refusals(&[]);
}

#[test]
fn lists_that_depend_on_scopes_are_private() {
    for (hides, expected) in [(false, "public"), (true, "private")] {
        let version = ProtocolVersion::V2026_07_28;
        let pair = Pair::new(&Host::builder("client", "1").build(), &listing_service(hides), version);
        for (method, ..) in LISTS {
            let result = &send_request(&pair, version, &["s"], method, json!({}))["result"];
            assert_eq!(result["cacheScope"], expected, "{method}: {result}");
        }
    }
}

/// Reads a resource without a scope and with some. Returns the two responses.
fn reads(service: &Service, uri: &str, scopes: &[&str]) -> [Value; 2] {
    let pair = Pair::new(&Host::builder("client", "1").build(), service, ProtocolVersion::V2026_07_28);
    [&[][..], scopes]
        .map(|scopes| send_request(&pair, ProtocolVersion::V2026_07_28, scopes, "resources/read", json!({"uri": uri})))
}

#[test]
fn a_uri_needs_the_scopes_of_all_items_that_match_it() {
    let run = || "contents";
    let resource = |uri: &str| Resource::new(uri, uri, run);
    let template = |uri: &str| ResourceTemplate::new(uri, uri, run);
    let builder = || Service::builder("test", "1");
    let secret = || resource("test://secret").scope("s");
    let hidden = |name| builder().visible(move |item, _| item.name() != name);
    for (what, builder, uri, needed) in [
        ("an escape", builder().resource(secret()).template(template("test://{a}")), "test://%73ecret", &["s"][..]),
        ("itself", builder().resource(secret()).template(template("test://{a}")), "test://secret", &["s"]),
        ("another", builder().resource(secret()).template(template("test://{a}")), "test://open", &[]),
        (
            "an escape in the resource",
            builder().resource(resource("test://%73ecre%74").scope("s")).template(template("test://{a}")),
            "test://s%65cret",
            &["s"],
        ),
        (
            "an escape for a template",
            builder().template(template("{+a}")).template(template("f://p/{a}").scope("s")),
            "f://%70/1",
            &["s"],
        ),
        (
            "an escape in a template",
            builder().template(template("f://{+a}")).template(template("f://%70/{a}").scope("s")),
            "f://p/1",
            &["s"],
        ),
        (
            "the template after",
            builder().template(template("f://{+a}")).template(template("f://p/{a}").scope("s")),
            "f://p/1",
            &["s"],
        ),
        (
            "the template before",
            builder().template(template("f://{+a}").scope("s")).template(template("f://p/{a}")),
            "f://p/1",
            &["s"],
        ),
        (
            "all of them",
            builder()
                .template(template("f://p/{a}").scope("b").scope("a"))
                .resource(resource("f://p/1").scope("c").scope("a"))
                .template(template("f://{+a}").scope("d")),
            "f://p/1",
            &["c", "a", "b", "d"],
        ),
        (
            "what is hidden",
            hidden("test://secret").resource(secret()).template(template("{+a}")),
            "test://secret",
            &["s"],
        ),
        (
            "a hidden template",
            hidden("f://p/{a}").template(template("f://p/{a}").scope("s")).template(template("f://{+a}")),
            "f://p/1",
            &["s"],
        ),
    ] {
        let service = builder.build().expect("a good service");
        let [without, with] = reads(&service, uri, needed);
        if needed.is_empty() {
            assert!(without["result"].is_object(), "{what}: {without}");
        } else {
            let message = format!("Insufficient scope: {}", needed.join(" "));
            assert_eq!(without["error"]["message"], message, "{what}: {without}");
        }
        assert!(with.to_string().contains("contents"), "{what}: {with}");
    }
}

#[test]
fn completion_and_subscriptions_need_scopes_of_all_matches() {
    let service = Service::builder("test", "1")
        .subscriptions()
        .template(ResourceTemplate::new("f://{+a}", "all", || "").complete("a", |_: CompletionRequest| vec!["b"]))
        .template(ResourceTemplate::new("f://p/{a}", "some", || "").scope("s"))
        .build()
        .expect("a good service");
    let pair = Pair::new(&Host::builder("client", "1").build(), &service, ProtocolVersion::V2025_11_25);
    let complete =
        |uri: &str| json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "a", "value": ""}});
    for (method, params, is_refused) in [
        ("resources/subscribe", json!({"uri": "f://%70/1"}), true),
        ("resources/subscribe", json!({"uri": "f://q/1"}), false),
        ("completion/complete", complete("f://%70/1"), true),
        ("completion/complete", complete("f://q/1"), false),
        ("completion/complete", complete("f://{+a}"), false),
    ] {
        let refused = send_request(&pair, ProtocolVersion::V2025_11_25, &["other"], method, params.clone());
        assert_eq!(refused["error"]["message"] == "Insufficient scope: s", is_refused, "{method} {params}: {refused}");
        let done = send_request(&pair, ProtocolVersion::V2025_11_25, &["s"], method, params.clone());
        assert!(done["result"].is_object(), "{method} {params}: {done}");
    }
}

/// A driver asks for the scopes of requests that it cannot refuse later.
#[test]
fn requests_have_scopes_before_they_are_received() {
    let complete = |argument: CompletionRequest| vec![argument.value];
    let service = Service::builder("test", "1")
        .subscriptions()
        .tool(Tool::new("scan", || "secret").scope("s").task_support(TaskSupport::Optional))
        .tool(Tool::new("count", || "open").task_support(TaskSupport::Optional))
        .prompt(Prompt::with_arguments("ask", [PromptArgument::new("a")], || "?").scope("s").complete("a", complete))
        .prompt(Prompt::with_arguments("tell", [PromptArgument::new("a")], || "!").complete("a", complete))
        .resource(Resource::new("test://s", "s", || "secret").scope("s"))
        .resource(Resource::new("test://o", "o", || "open"))
        .template(ResourceTemplate::new("s://{a}", "st", || "secret").scope("s").complete("a", complete))
        .template(ResourceTemplate::new("o://{a}", "ot", || "open").complete("a", complete))
        .build()
        .expect("a good service");
    let version = ProtocolVersion::V2025_11_25;
    let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
    let task = |tool: &str| {
        let mut principal = Principal::new("ada");
        principal.scopes = vec!["s".to_owned()];
        let params = json!({"name": tool, "arguments": {}, "task": {}});
        let line = json!({"jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": params}).to_string();
        pair.server.input_of(principal, line.as_bytes());
        pair.await_answer(tool)["result"]["task"]["taskId"].clone()
    };
    let (scan, count) = (task("scan"), task("count"));
    let prompt =
        |name: &str| json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "a", "value": ""}});
    let uri = |uri: &str| json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "a", "value": ""}});
    for (method, params, needs_scope) in [
        ("tools/call", json!({"name": "scan"}), true),
        ("tools/call", json!({"name": "count"}), false),
        ("tools/call", json!({"name": "unknown"}), false),
        ("tools/list", json!({"name": "scan"}), false),
        ("tasks/get", json!({"taskId": scan}), true),
        ("tasks/result", json!({"taskId": scan}), true),
        ("tasks/cancel", json!({"taskId": scan}), true),
        ("tasks/get", json!({"taskId": count}), false),
        ("tasks/cancel", json!({"taskId": "unknown"}), false),
        ("tasks/list", json!({}), false),
        ("prompts/get", json!({"name": "ask"}), true),
        ("prompts/get", json!({"name": "tell"}), false),
        ("prompts/get", json!({"name": "unknown"}), false),
        ("prompts/list", json!({"name": "ask"}), false),
        ("resources/read", json!({"uri": "test://s"}), true),
        ("resources/read", json!({"uri": "s://1"}), true),
        ("resources/subscribe", json!({"uri": "s://1"}), true),
        ("resources/read", json!({"uri": "test://o"}), false),
        ("resources/read", json!({"uri": "o://1"}), false),
        ("resources/read", json!({"uri": "unknown://1"}), false),
        ("resources/list", json!({"uri": "test://s"}), false),
        ("completion/complete", prompt("ask"), true),
        ("completion/complete", prompt("tell"), false),
        ("completion/complete", prompt("unknown"), false),
        ("completion/complete", uri("s://{a}"), true),
        ("completion/complete", uri("o://{a}"), false),
        ("completion/complete", uri("unknown://{a}"), false),
        ("own/method", json!({"name": "scan", "taskId": scan}), false),
    ] {
        let text = Json::new(&params).expect("JSON");
        let mut requests = std::iter::once((Cow::Borrowed(method), Some(RawJson::from(&text))));
        let required = pair.server_session.required_scopes(&pair.server.connection(), None, &mut requests);
        let expected = if needs_scope { vec![vec!["s".to_owned()]] } else { Vec::new() };
        assert_eq!(required, expected, "{method} {params}");
    }
}

/// A resource may get scopes after a client has subscribed to it.
#[test]
fn subscribers_without_the_scopes_of_a_resource_get_no_updates() {
    let service = Service::builder("test", "1").subscriptions().resource(Resource::new("test://b", "b", || "open"));
    let service = service.build().expect("a good service");
    let version = ProtocolVersion::V2026_07_28;
    let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
    for (id, scopes) in [("reader", &["s"][..]), ("other", &["t"])] {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": {
            "notifications": {"resourceSubscriptions": ["test://a", "test://b"]},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }});
        let mut principal = Principal::new(id);
        principal.scopes = scopes.iter().map(ToString::to_string).collect();
        pair.server.input_of(principal, line.to_string().as_bytes());
    }
    pair.settle();
    service.add(Resource::new("test://a", "a", || "secret").scope("s")).expect("it is new");
    pair.settle();
    pair.server.take_lines();
    let told = |uri: &str| {
        service.resource_updated(uri);
        pair.settle();
        let id = |line: Value| line["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
        pair.server.take_lines().into_iter().map(id).collect::<Vec<_>>()
    };
    assert_eq!(told("test://a"), [json!("reader")]);
    assert_eq!(told("test://b"), [json!("reader"), json!("other")]);
}
