//! Visibility of the catalog by principal.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    protocol::{Capability, Era, ProtocolVersion},
    schema::{CacheScope, PromptArgument, TaskSupport, ToolsListChangedParams},
};
use serde_json::{Value, json};

use super::pair::Pair;
use crate::{
    client::Host,
    inbound::{completion_request::CompletionRequest, request::RequestInfo},
    server::{
        builder::ServiceBuilder, prompt::Prompt, register_error::RegisterError, resource::Resource,
        resource_template::ResourceTemplate, service::Service, tool::Tool, visibility::CatalogItem,
    },
};

/// Items with "secret" in their name are visible to the admin only.
fn is_for(offer: CatalogItem<'_>, caller: &RequestInfo) -> bool {
    !offer.name().contains("secret") || caller.principal.as_ref().is_some_and(|who| who.id == "admin")
}

/// A service with three visible items of each kind, alternating with as many hidden ones.
fn vault() -> ServiceBuilder {
    let mut builder = Service::builder("test", "1").page_size(2).subscriptions().visible(is_for);
    for i in 0..6 {
        let name = if i % 2 == 0 { format!("t{i}") } else { format!("secret{i}") };
        builder = builder
            .tool(Tool::new(&name, || "done").task_support(TaskSupport::Optional))
            .prompt(
                Prompt::with_arguments(&name, [PromptArgument::new("a")], || "text")
                    .complete("a", |_: CompletionRequest| vec!["x"]),
            )
            .resource(Resource::new(format!("r://{name}"), "r", || "text").cache_for(HOUR, CacheScope::Public))
            .template(
                ResourceTemplate::new(format!("u://{name}/{{x}}"), "u", || "text").cache_for(HOUR, CacheScope::Public),
            );
    }
    builder.cache_lists_for(HOUR, CacheScope::Public)
}

const HOUR: Duration = Duration::from_secs(3600);

fn pair(service: &Service, version: ProtocolVersion) -> Pair {
    Pair::new(&Host::builder("client", "1").build(), service, version)
}

/// Sends a request as this principal, or without one. Returns the response.
fn send_request_as(pair: &Pair, version: ProtocolVersion, who: Option<&str>, method: &str, mut params: Value) -> Value {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let id = format!("as{}", NEXT.fetch_add(1, Ordering::SeqCst));
    if version.era() == Era::Modern {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
    match who {
        Some(who) => pair.server.input_from(who, line.as_bytes()),
        None => pair.input_to_server(&line),
    }
    let mut answer = pair.await_answer(&id);
    answer["id"] = Value::Null;
    answer
}

// req: TOOL-004 M-TOOL-003
#[test]
fn lists_have_full_pages_of_visible_items() {
    let service = vault().build().expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        for (method, member, name) in [
            ("tools/list", "tools", "name"),
            ("prompts/list", "prompts", "name"),
            ("resources/list", "resources", "uri"),
            ("resources/templates/list", "resourceTemplates", "uriTemplate"),
        ] {
            let walk = |who: Option<&str>| {
                let (mut pages, mut params) = (Vec::new(), json!({}));
                loop {
                    let page = send_request_as(&pair, version, who, method, params)["result"].take();
                    let items = page[member].as_array().expect("items");
                    assert!(
                        items
                            .iter()
                            .all(|item| who.is_some() || !item[name].as_str().expect("a name").contains("secret"))
                    );
                    pages.push(items.len());
                    if version.era() == Era::Modern {
                        assert_eq!((&page["ttlMs"], &page["cacheScope"]), (&json!(3_600_000), &json!("private")));
                    }
                    match page.get("nextCursor") {
                        Some(cursor) => params = json!({ "cursor": cursor }),
                        None => return pages,
                    }
                }
            };
            assert_eq!(walk(None), [2, 1], "{version} {method}");
            assert_eq!(walk(Some("guest")), [2, 1], "{version} {method}");
            assert_eq!(walk(Some("admin")), [2, 2, 2], "{version} {method}");
        }
    }
}

#[test]
fn hidden_items_are_not_found() {
    let service = vault().build().expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        let complete = |kind: &str, key: &str, name: &str, argument: &str| {
            let reference = json!({"type": kind, key: name});
            json!({"ref": reference, "argument": {"name": argument, "value": ""}})
        };
        let mut requests = vec![
            ("tools/call", json!({"name": "secret1"})),
            ("prompts/get", json!({"name": "secret1"})),
            ("resources/read", json!({"uri": "r://secret1"})),
            ("resources/read", json!({"uri": "u://secret1/a"})),
            ("completion/complete", complete("ref/prompt", "name", "secret1", "a")),
            ("completion/complete", complete("ref/resource", "uri", "u://secret1/{x}", "x")),
        ];
        if version.era() == Era::Legacy {
            requests.push(("resources/subscribe", json!({"uri": "r://secret1"})));
        }
        if version == ProtocolVersion::V2025_11_25 {
            requests.push(("tools/call", json!({"name": "secret1", "task": {}})));
        }
        for (method, params) in requests {
            let of_nothing: Value =
                serde_json::from_str(&params.to_string().replace("secret1", "missin9")).expect("JSON");
            for who in [None, Some("guest")] {
                let answer = send_request_as(&pair, version, who, method, params.clone());
                assert!(answer.get("error").is_some(), "{version} {method} {answer}");
                let like_nothing = send_request_as(&pair, version, who, method, of_nothing.clone());
                let answer = answer.to_string().replace("secret1", "missin9");
                assert_eq!(answer, like_nothing.to_string(), "{version} {method}");
            }
            let mine = send_request_as(&pair, version, Some("admin"), method, params);
            assert!(mine.get("error").is_none(), "{version} {method} {mine}");
            if version.era() == Era::Modern && method == "resources/read" {
                assert_eq!(mine["result"]["cacheScope"], "private");
            }
        }
    }
}

#[test]
fn results_are_public_without_a_predicate() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("t", || "done"))
        .resource(Resource::new("r://a", "r", || "text").cache_for(HOUR, CacheScope::Public))
        .cache_lists_for(HOUR, CacheScope::Public);
    let version = ProtocolVersion::V2026_07_28;
    let pair = pair(&service.build().expect("a good service"), version);
    for (method, params) in [("tools/list", json!({})), ("resources/read", json!({"uri": "r://a"}))] {
        assert_eq!(send_request_as(&pair, version, None, method, params)["result"]["cacheScope"], "public");
    }
}

#[test]
fn hidden_items_do_not_hide_visible_templates() {
    let service = Service::builder("test", "1")
        .resource(Resource::new("r://secret", "r", || "resource"))
        .template(ResourceTemplate::new("{+any}secret", "u", || "first"))
        .template(ResourceTemplate::new("r://{x}", "u", || "second"))
        .visible(is_for)
        .build()
        .expect("a good service");
    let version = ProtocolVersion::V2025_11_25;
    let pair = pair(&service, version);
    let read = |who: Option<&str>| {
        let answer = send_request_as(&pair, version, who, "resources/read", json!({"uri": "r://secret"}));
        answer["result"]["contents"][0]["text"].clone()
    };
    assert_eq!((read(None), read(Some("admin"))), (json!("second"), json!("resource")));
}

#[test]
fn hidden_resources_send_no_updates() {
    let service = vault().build().expect("a good service");
    let version = ProtocolVersion::V2026_07_28;
    let pair = pair(&service, version);
    let listen = |who: &str, id: &str| {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": {
            "notifications": {"resourceSubscriptions": ["r://secret1", "r://t0", "r://unknown"]},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }});
        pair.server.input_from(who, line.to_string().as_bytes());
    };
    listen("admin", "a");
    listen("guest", "b");
    pair.settle();
    pair.server.take_lines();
    let told = |uri: &str| {
        let told = service.resource_updated(uri);
        pair.settle();
        let lines = pair.server.take_lines();
        assert_eq!(lines.len(), told);
        let ids = lines.iter().map(|line| line["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(told("r://t0"), [json!("a"), json!("b")]);
    assert_eq!(told("r://secret1"), [json!("a")]);
    assert_eq!(told("r://unknown"), [json!("a"), json!("b")], "nothing is hidden where nothing is");
}

#[test]
fn visibility_change_is_announced() {
    let is_open = Arc::new(AtomicBool::new(false));
    let opens = is_open.clone();
    let received = Arc::new(AtomicUsize::new(0));
    let hears = received.clone();
    let service = Service::builder("test", "1")
        .tool(Tool::new("door", || "open"))
        .visible(move |_, _| opens.load(Ordering::SeqCst))
        .build()
        .expect("a good service");
    let host = Host::builder("client", "1").on(move |_: ToolsListChangedParams, _| {
        hears.fetch_add(1, Ordering::SeqCst);
    });
    let pair = Pair::new(&host.build(), &service, ProtocolVersion::V2025_11_25);
    assert!(pair.to_server().capabilities().contains(Capability::Tools), "some client may see some");
    let tools = || pair.send_request("tools/list", json!({})).expect("a list")["tools"].as_array().map(Vec::len);
    assert_eq!(tools(), Some(0));
    is_open.store(true, Ordering::SeqCst);
    service.visibility_changed();
    pair.settle();
    assert_eq!((received.load(Ordering::SeqCst), tools()), (1, Some(1)));
}

#[test]
fn panicking_visibility_predicate_hides_items() {
    let service = Service::builder("test", "1").tool(Tool::new("t", || "done")).visible(|_, _| panic!("undecided"));
    let pair = pair(&service.build().expect("a good service"), ProtocolVersion::V2025_11_25);
    assert_eq!(pair.send_request("tools/list", json!({})), Ok(json!({"tools": []})));
    assert!(pair.send_request("tools/call", json!({"name": "t"})).is_err());

    let cell: Arc<std::sync::OnceLock<Service>> = Arc::default();
    let inside = cell.clone();
    let service = Service::builder("test", "1")
        .tool(Tool::new("t", || "done"))
        .visible(move |_, _| inside.get().is_some_and(|service| !service.remove_tool("other")));
    let service = service.build().expect("a good service");
    cell.get_or_init(|| service.clone());
    let pair = self::pair(&service, ProtocolVersion::V2025_11_25);
    assert!(pair.send_request("tools/call", json!({"name": "t"})).is_ok());
}

#[test]
fn tool_call_requires_the_scopes_of_the_tool() {
    let service = Service::builder("test", "1").tool(Tool::new("write", || "done").scope("files:write"));
    let service = service.build().expect("it is a scope");
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let (pair, call) = (pair(&service, version), json!({"name": "write", "arguments": {}}));
        let refused = send_request_as(&pair, version, Some("ada"), "tools/call", call.clone());
        assert_eq!(refused["error"]["code"], -32600, "{refused}");
        let listed = send_request_as(&pair, version, Some("ada"), "tools/list", json!({}));
        assert_eq!(listed["result"]["tools"][0]["name"], "write", "{listed}");
        // A pipe does not authenticate the sender of a request.
        let done = send_request_as(&pair, version, None, "tools/call", call);
        assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    }
    for bad in ["", "a b", "a\"b", "a\\b", "\u{e4}"] {
        let refused = Service::builder("test", "1").tool(Tool::new("t", || "").scope(bad)).build();
        assert!(matches!(refused, Err(RegisterError::Scope { .. })), "{bad:?}");
    }
}
