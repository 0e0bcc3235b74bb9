use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use mcp_proto::{
    protocol::{Capability, Era, ProtocolVersion, VersionSet},
    schema::{
        AudioContent, CallToolResult, ContentBlock, ResourceLink, TaskSupport, ToolAnnotations, ToolsListChangedParams,
    },
    wire::{ErrorCode, ErrorObject},
};
use serde_json::{Value, json};

use super::pair::{Pair, code};
use super::{body, echo, object};
use crate::{
    client::Host,
    inbound::{
        context::Context,
        failure::Failure,
        middleware::{IncomingRequest, Next},
    },
    server::{catalog_update::CatalogUpdate, register_error::RegisterError, service::Service, tool::Tool},
};

fn pair(service: &Service, version: ProtocolVersion) -> Pair {
    Pair::new(&Host::builder("client", "1").build(), service, version)
}

fn text(result: &Result<Value, Value>) -> (&str, bool) {
    let result = result.as_ref().expect("a result");
    (result["content"][0]["text"].as_str().expect("a text"), result["isError"] == json!(true))
}

// req: TOOL-001 TOOL-002 TOOL-003 TOOL-004 TOOL-005 TOOL-010 TOOL-039 M-TOOL-001 M-TOOL-002 M-TOOL-006 M-TOOL-007
#[test]
fn listed_tools_fit_the_revision() {
    let service = echo()
        .tool(
            Tool::new("bare", || "done")
                .title("Bare")
                .description("Does nothing")
                .annotations(ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::default() })
                .task_support(TaskSupport::Optional),
        )
        .build()
        .expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        assert!(pair.to_server().capabilities().contains(Capability::Tools));
        let listed = body(version, true, pair.send_request("tools/list", json!({})));
        assert_eq!(listed.get("nextCursor"), None);
        assert_eq!(listed["tools"].as_array().map(Vec::len), Some(2));
        let bare = &listed["tools"][1];
        assert_eq!(bare["name"], "bare");
        assert_eq!(bare["inputSchema"], json!({"type": "object", "additionalProperties": false}));
        assert_eq!(bare["description"], "Does nothing");
        assert_eq!(bare.get("title").is_some(), version >= ProtocolVersion::V2025_06_18);
        assert_eq!(bare.get("annotations").is_some(), version >= ProtocolVersion::V2025_03_26);
        assert_eq!(bare["execution"]["taskSupport"] == "optional", version == ProtocolVersion::V2025_11_25);
        assert_eq!(listed["tools"][0].get("execution"), None);

        let none = Service::builder("test", "1").enable_tools().build().expect("a good service");
        assert_eq!(
            body(version, true, self::pair(&none, version).send_request("tools/list", json!({}))),
            json!({"tools": []})
        );
    }
}

// req: BASE-022 BASE-025 BASE-026 TOOL-015 TOOL-020 TOOL-021 TOOL-022 TOOL-023 TOOL-025 TOOL-037
// req: M-BASE-028 M-BASE-029 M-BASE-030 M-TOOL-012 M-TOOL-018 M-TOOL-019 M-TOOL-034
#[test]
fn tool_failures_fit_the_revision() {
    let service = echo()
        .tool(Tool::new("fails", || Err::<(), _>("no luck")))
        .tool(Tool::new("mixed", || Err::<&str, Failure>(std::io::Error::other("disk").into())))
        .tool(Tool::new("refuses", || Err::<String, _>(ErrorObject::new(ErrorCode(-32099), "not today"))))
        .tool(Tool::new("panics", || -> String { panic!("secret") }))
        .tool(Tool::new("silent", || ()))
        .build()
        .expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        let call = |name: &str, arguments: Value| {
            pair.send_request("tools/call", json!({"name": name, "arguments": arguments}))
        };

        assert_eq!(text(&call("echo", json!({"message": "hi"}))), ("hi", false));
        assert_eq!(call("silent", json!({})).expect("a result")["content"], json!([]));
        assert_eq!(text(&call("fails", json!({}))), ("no luck", true));
        assert_eq!(text(&call("mixed", json!({}))), ("disk", true));
        // 2026-07-28 reserves this code.
        let refused = if version.era() == Era::Modern { -32603 } else { -32099 };
        assert_eq!(code(&call("refuses", json!({}))), refused);
        let panicked = call("panics", json!({}));
        assert_eq!(code(&panicked), -32603);
        assert!(!panicked.expect_err("an error").to_string().contains("secret"));

        assert_eq!(code(&call("unknown", json!({}))), -32602);
        assert_eq!(code(&pair.send_request("tools/call", json!({"arguments": {}}))), -32602, "no name");
        assert_eq!(code(&call("echo", json!(["hi"]))), -32602, "arguments that are no object");
        assert_eq!(code(&pair.send_request("vendor/unknown", json!({}))), -32601);

        for bad in [json!({}), json!({"message": 1}), Value::Null] {
            let answer = call("echo", bad);
            if version >= ProtocolVersion::V2025_11_25 {
                let (why, is_error) = text(&answer);
                assert!(is_error && why.starts_with("Invalid arguments: "), "{why}");
            } else {
                assert_eq!(code(&answer), -32602);
            }
        }
        assert_eq!(text(&call("echo", json!({"message": "still here"}))), ("still here", false));
        pair.assert_clean();
    }
}

#[test]
fn missing_null_and_empty_arguments_are_equal() {
    let service = || Service::builder("test", "1").tool(Tool::new("now", || "12:00"));
    let layered = service().layer(async |request: IncomingRequest, next: Next| {
        assert!(request.arguments().is_none_or(|arguments| arguments.is_object()), "null is none");
        Ok(next.run().await)
    });
    for service in [service(), layered].map(|service| service.build().expect("a good service")) {
        for version in ProtocolVersion::ALL {
            let pair = pair(&service, version);
            for arguments in [None, Some(json!(null)), Some(json!({}))] {
                let mut params = json!({"name": "now"});
                params.as_object_mut().expect("an object").extend(arguments.map(|it| ("arguments".to_owned(), it)));
                assert_eq!(text(&pair.send_request("tools/call", params)), ("12:00", false));
            }
        }
    }
}

// req: TOOL-006 TOOL-007
#[test]
fn tool_names_are_valid_and_unique() {
    let build = |name: &str| Service::builder("test", "1").tool(Tool::new(name, || ())).build().map(drop);
    let longest = "a".repeat(128);
    for good in ["a", "A-z_0.9", longest.as_str()] {
        assert_eq!(build(good), Ok(()), "{good:?}");
    }
    let too_long = "a".repeat(129);
    for bad in ["", "a b", "a\n", "ä", "a/b", too_long.as_str()] {
        assert_eq!(build(bad), Err(RegisterError::Name(bad.into())));
    }
    let twice = echo().tool(Tool::new("echo", || ())).build().map(drop);
    assert_eq!(twice, Err(RegisterError::Taken("echo".into())));
    let service = echo().build().expect("a good service");
    assert_eq!(service.add(Tool::new("echo", || ())), Err(RegisterError::Taken("echo".into())));
    service.add(Tool::new("other", || ())).expect("its name is free");
    for version in ProtocolVersion::LEGACY {
        let listed = pair(&service, version).send_request("tools/list", json!({})).expect("a list");
        let names: Vec<_> = listed["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["echo", "other"], "{version}");
    }
}

// req: TOOL-031 TOOL-033 TOOL-034 TOOL-035 M-TOOL-014 M-TOOL-016
#[test]
fn structured_results_match_their_output_schema() {
    let schema = object(&json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}));
    let add = |name: &str, result: Value| Tool::new(name, move || result.clone()).output_schema(schema.clone());
    let service = Service::builder("test", "1")
        .tool(add("good", json!({"sum": 3})))
        .tool(add("wrong", json!({"sum": "three"})))
        .tool(add("list", json!([3])))
        .tool(Tool::new("none", || "3").output_schema(schema.clone()))
        .tool(Tool::new("error", || CallToolResult::error("no")).output_schema(schema.clone()))
        .build()
        .expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        let call = |name: &str| pair.send_request("tools/call", json!({"name": name}));
        let good = call("good").expect("a result");
        assert_eq!(good["content"], json!([{"type": "text", "text": "{\"sum\":3}"}]));
        let has_structure = version >= ProtocolVersion::V2025_06_18;
        assert_eq!(good.get("structuredContent"), has_structure.then_some(&json!({"sum": 3})));
        for broken in ["list", "none"] {
            assert_eq!(code(&call(broken)), -32603, "{broken}");
        }
        assert_eq!(code(&call("wrong")), -32603);
        assert_eq!(text(&call("error")), ("no", true));
        let listed = pair.send_request("tools/list", json!({})).expect("a list");
        assert_eq!(listed["tools"][0].get("outputSchema").is_some(), has_structure);
    }
}

/// A service with a schema that cannot be checked is refused.
#[cfg(not(any(feature = "schemas", feature = "json-schema")))]
#[test]
fn rejects_schemas_the_simple_checker_cannot_check() {
    let lists = object(&json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}));
    let tools = [Tool::with_schema("list", lists.clone(), || ()), Tool::new("list", || json!({})).output_schema(lists)];
    for tool in tools {
        let refused = Service::builder("test", "1").tool(tool).build().expect_err("it says too much");
        assert!(matches!(&refused, RegisterError::Schema { tool, .. } if tool == "list"), "{refused}");
        assert!(refused.to_string().contains("the feature `schemas` of mcp-service"), "{refused}");
    }
}

// req: M-TOOL-013 M-TOOL-014 M-TOOL-016
#[cfg(any(feature = "schemas", feature = "json-schema"))]
#[test]
fn structured_results_of_any_type_need_the_revision() {
    let numbers = object(&json!({"type": "array", "items": {"type": "integer"}}));
    let yields = |name: &str, result: Value| Tool::new(name, move || result.clone()).output_schema(numbers.clone());
    let service = Service::builder("test", "1")
        .tool(yields("good", json!([1, 2])))
        .tool(yields("wrong", json!(["one"])))
        .tool(Tool::new("null", || Value::Null))
        .build()
        .expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        let is_modern = version.era() == Era::Modern;
        let listed = pair.send_request("tools/list", json!({})).expect("a list");
        assert_eq!(listed["tools"][0].get("outputSchema").is_some(), is_modern);
        let call = |name: &str| pair.send_request("tools/call", json!({"name": name}));
        for (name, content) in [("good", json!([1, 2])), ("null", Value::Null)] {
            let result = call(name).expect("a result");
            assert_eq!(result.get("structuredContent"), is_modern.then_some(&content), "{name} {version}");
            assert_eq!(result["content"], json!([{"type": "text", "text": content.to_string()}]));
        }
        assert_eq!(code(&call("wrong")), -32603);
    }
}

// req: TOOL-016 TOOL-017 TOOL-018
#[test]
fn content_not_in_the_revision_is_not_sent() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("audio", || ContentBlock::from(AudioContent::new("AAAA", "audio/wav"))))
        .tool(Tool::new("link", || vec![ContentBlock::from(ResourceLink::new("a://b", "b"))]))
        .build()
        .expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        let call = |name: &str| pair.send_request("tools/call", json!({"name": name}));
        for (name, since) in [("audio", ProtocolVersion::V2025_03_26), ("link", ProtocolVersion::V2025_06_18)] {
            match call(name) {
                Ok(result) => assert!(version >= since && result["content"][0]["type"] != "text"),
                Err(error) => assert!(version < since && error["code"] == -32603),
            }
        }
        pair.assert_clean();
    }
}

// req: TOOL-026 TOOL-028
#[test]
fn list_change_is_announced_once_per_session() {
    let service = echo().build().expect("a good service");
    let narrow = ProtocolVersion::LEGACY.map(|version| {
        Pair::with(&Host::builder("client", "1").build(), &service, |joining| {
            joining.client.settings.versions = VersionSet::only(version);
            joining.server.capabilities.tools.as_mut().expect("tools").list_changed = None;
        })
    });
    let received = Arc::new(AtomicUsize::new(0));
    let pairs = ProtocolVersion::LEGACY.map(|version| {
        let recorder = received.clone();
        let counts = move |_: ToolsListChangedParams, _| _ = recorder.fetch_add(1, Ordering::SeqCst);
        Pair::new(&Host::builder("client", "1").on(counts).build(), &service, version)
    });

    let many = (0..500).fold(CatalogUpdate::new(), |changes, i| changes.add(Tool::new(format!("tool{i}"), || ())));
    service.update(many.remove_tool("echo")).expect("names are free");
    for pair in &pairs {
        pair.settle();
        let lines = pair.server.take_lines();
        assert_eq!(lines, [json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})]);
        let listed = pair.send_request("tools/list", json!({})).expect("a list");
        let names: Vec<_> =
            listed["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, (0..500).map(|i| json!(format!("tool{i}"))).collect::<Vec<_>>());
    }
    assert_eq!(received.load(Ordering::SeqCst), pairs.len(), "each client hears of it without having asked for that");
    for pair in &narrow {
        pair.settle();
        assert_eq!(pair.server.take_lines(), [Value::Null; 0]);
    }

    // An update without an effect is not announced, and a failed update has no effect.
    pairs.iter().for_each(|pair| drop(pair.server.take_lines()));
    assert!(!service.remove_tool("echo"));
    let half = CatalogUpdate::new().add(Tool::new("new", || ())).add(Tool::new("tool7", || ()));
    assert_eq!(service.update(half), Err(RegisterError::Taken("tool7".into())));
    pairs.iter().for_each(Pair::settle);
    assert!(pairs.iter().all(|pair| pair.server.take_lines().is_empty()));
    let replaced = CatalogUpdate::new().remove_tool("tool7").add(Tool::new("tool7", || "seven"));
    service.update(replaced).expect("its place is free by then");
}

#[test]
fn handler_can_add_tools() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("grow", |context: Context| context.service().add(Tool::new("grown", || "big"))))
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    assert_eq!(pair.send_request("tools/call", json!({"name": "grow"})).expect("a result")["content"], json!([]));
    assert_eq!(text(&pair.send_request("tools/call", json!({"name": "grown"}))), ("big", false));
    assert!(text(&pair.send_request("tools/call", json!({"name": "grow"}))).1, "there is one already");
}

#[test]
fn panics_do_not_affect_concurrent_calls() {
    let service = echo().tool(Tool::new("panics", || -> String { panic!("boom") })).build().expect("a good service");
    let pair = Pair::simple(&service);
    let calls: Vec<_> = (0..40)
        .map(|i| {
            let (name, arguments) =
                if i % 2 == 0 { ("panics", json!({})) } else { ("echo", json!({"message": i.to_string()})) };
            pair.send("tools/call", json!({"name": name, "arguments": arguments}))
        })
        .collect();
    for (i, call) in calls.into_iter().enumerate() {
        let result = pair.wait(call);
        match i % 2 {
            0 => assert_eq!(result.expect_err("it panicked").rpc().map(|error| error.code), Some(ErrorCode(-32603))),
            _ => assert!(result.expect("it did not").get().contains(&format!("\"text\":\"{i}\""))),
        }
    }
    pair.assert_clean();
}
