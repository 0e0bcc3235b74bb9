//! The shape of what all features share: cursors, progress, cancellation, `_meta`, subscriptions, error data.

use super::shapes::{fails, is};
use crate::schema_support::{assert_same, encode, shape, value};
use mcp_proto::{
    protocol::{InvalidMetaKey, Method, ProtocolVersion},
    schema::*,
    wire::{Json, RawJson, RequestId},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

// req: PAGE-001 PAGE-002 PAGE-005 PAGE-007 TASK-048 TASK-051 M-PAGE-001 M-PAGE-003 M-PAGE-004
#[test]
fn cursors_are_opaque() {
    fn page<T: DeserializeOwned>(list: &str, next: impl Fn(T) -> Option<String>, go_on: impl Fn(String) -> String) {
        for cursor in ["", " ", "eyJwYWdlIjogMn0=", "{\"a\":1}", "5", "ä\u{0}\n\"\\"] {
            let result = json!({list: [], "nextCursor": cursor});
            let found = next(is(result));
            assert_eq!(found.as_deref(), Some(cursor));
            assert_eq!(value(&go_on(found.expect("a cursor")))["cursor"], cursor);
        }
        assert_eq!(next(is(json!({list: []}))), None);
        assert_eq!(next(is(json!({list: [], "nextCursor": null}))), None);
    }
    let text = |written: Result<String, String>| written.expect("text");
    let november = ProtocolVersion::V2025_11_25;
    page(
        "tools",
        |result: ListToolsResult| result.next_cursor,
        |cursor| text(encode(&ListToolsParams { cursor: Some(cursor), ..Default::default() }, november)),
    );
    page(
        "prompts",
        |result: ListPromptsResult| result.next_cursor,
        |cursor| text(encode(&ListPromptsParams { cursor: Some(cursor), ..Default::default() }, november)),
    );
    page(
        "resources",
        |result: ListResourcesResult| result.next_cursor,
        |cursor| text(encode(&ListResourcesParams { cursor: Some(cursor), ..Default::default() }, november)),
    );
    page(
        "resourceTemplates",
        |result: ListResourceTemplatesResult| result.next_cursor,
        |cursor| text(encode(&ListResourceTemplatesParams { cursor: Some(cursor), ..Default::default() }, november)),
    );
    page(
        "tasks",
        |result: ListTasksResult| result.next_cursor,
        |cursor| text(encode(&ListTasksParams { cursor: Some(cursor), ..Default::default() }, november)),
    );
    fails::<ListToolsParams>(json!({"cursor": 5}));
}

// req: PROG-002 PROG-004 PROG-005 CANC-001 CANC-002 CANC-003 M-PROG-002 M-PROG-004 M-PROG-005 M-CANC-002 M-META-027 M-META-028
#[test]
fn progress_and_cancellation_params() {
    shape::<ProgressParams>(
        json!({"_meta": {}, "progressToken": "t", "progress": 0.5, "total": 1, "message": "m"}),
        &["progressToken", "progress"],
    );
    for (token, good) in [
        (json!("1"), true),
        (json!(1), true),
        (json!(u64::MAX), true),
        (json!(1.5), false),
        (json!(null), false),
        (json!({}), false),
    ] {
        let read = serde_json::from_value::<ProgressParams>(json!({"progressToken": token, "progress": 1}));
        assert_eq!(read.is_ok(), good, "{token}");
        if let Ok(read) = read {
            assert_eq!(value(&encode(&read, ProtocolVersion::V2026_07_28).expect("text"))["progressToken"], token);
        }
        let params: CallToolParams = is(json!({"name": "n", "_meta": {"progressToken": token}}));
        assert_eq!(params.meta.as_ref().and_then(Meta::progress_token).is_some(), good, "{token}");
    }
    shape::<CancelledParams>(json!({"_meta": {}, "requestId": 5, "reason": "r"}), &[]);
    let nameless: CancelledParams = is(json!({"reason": "r"}));
    assert_eq!(nameless.request_id, None);
    for version in ProtocolVersion::ALL {
        assert!(encode(&nameless, version).is_err());
        let named = CancelledParams::of(RequestId::from("5"));
        assert_eq!(encode(&named, version).expect("text"), r#"{"requestId":"5"}"#);
    }
}

// req: META-001 META-002 META-003 META-004 TASK-063 M-META-024 M-META-026
#[test]
fn metadata() {
    // Values of reserved names are kept without a check.
    let odd = json!({"io.modelcontextprotocol/related-task": 5, "mcp.dev/x": [null], "progressToken": {}, "a/b/c": true, "": 1,
        "io.modelcontextprotocol/future": {"a": 1.50}, "not a key": "x"});
    let read: EmptyResult = is(json!({"_meta": odd}));
    let meta = read.meta.as_ref().expect("metadata");
    assert_eq!((meta.related_task(), meta.progress_token(), meta.model_immediate_response()), (None, None, None));
    assert_eq!(meta.get("not a key").as_ref().map(RawJson::get), Some("\"x\""));
    assert_same(&encode(&read, ProtocolVersion::V2025_11_25).expect("text"), &json!({"_meta": odd}).to_string());

    // `_meta` is written first, also if it is empty.
    let mut params = CallToolParams::new("n");
    params.meta = Some(Meta::new());
    assert_eq!(encode(&params, ProtocolVersion::V2025_11_25).expect("text"), r#"{"_meta":{},"name":"n"}"#);
    assert!(!PingParams { meta: Some(Meta::new()), ..Default::default() }.extra.iter().any(|_| true));

    let mut meta = Meta::new();
    let one = || Json::parse("1").expect("a number");
    assert_eq!(meta.insert("com.example/a", one()), Ok(None));
    assert_eq!(meta.insert("com.example/a", one()), Ok(Some(one())));
    assert_eq!(meta.insert("com.mcp.example/a", one()), Err(InvalidMetaKey::Reserved));
    assert_eq!(meta.insert("progressToken", one()), Err(InvalidMetaKey::Reserved));
    assert_eq!(meta.insert("com..example/a", one()), Err(InvalidMetaKey::Prefix));
    assert_eq!(meta.insert("com.example/-", one()), Err(InvalidMetaKey::Name));
    meta.set_related_task("t1").expect("a text");
    meta.set(keys::MODEL_IMMEDIATE_RESPONSE, "wait").expect("a text");
    assert_eq!(meta.related_task().as_deref(), Some("t1"));
    assert_eq!(meta.model_immediate_response().as_deref(), Some("wait"));
    assert_eq!(meta.remove("com.example/a"), Some(one()));
    assert_eq!(
        encode(&meta, None).expect("text"),
        r#"{"io.modelcontextprotocol/related-task":{"taskId":"t1"},"io.modelcontextprotocol/model-immediate-response":"wait"}"#
    );

    // Every object with metadata keeps it, in both revisions.
    let given = json!({"com.example/a": {"b": [1.50]}});
    let everywhere = [
        pass::<Resource>(json!({"uri": "a:b", "name": "n", "_meta": given})),
        pass::<ResourceTemplate>(json!({"uriTemplate": "a:b", "name": "n", "_meta": given})),
        pass::<ResourceContents>(json!({"uri": "a:b", "text": "", "_meta": given})),
        pass::<ResourceContents>(json!({"uri": "a:b", "blob": "", "_meta": given})),
        pass::<Prompt>(json!({"name": "n", "_meta": given})),
        pass::<Tool>(json!({"name": "n", "inputSchema": {}, "_meta": given})),
        pass::<Root>(json!({"uri": "file:///a", "_meta": given})),
        pass::<ContentBlock>(json!({"type": "text", "text": "", "_meta": given})),
        pass::<ContentBlock>(json!({"type": "image", "data": "", "mimeType": "a/b", "_meta": given})),
        pass::<ContentBlock>(json!({"type": "audio", "data": "", "mimeType": "a/b", "_meta": given})),
        pass::<ContentBlock>(json!({"type": "resource_link", "uri": "a:b", "name": "n", "_meta": given})),
        pass::<ContentBlock>(json!({"type": "resource", "resource": {"uri": "a:b", "text": ""}, "_meta": given})),
    ];
    for [june, november] in everywhere {
        assert_eq!((&june["_meta"], &november["_meta"]), (&given, &given));
    }
    for [_, november] in [
        pass::<SamplingMessage>(json!({"role": "user", "content": {"type": "text", "text": ""}, "_meta": given})),
        pass_late::<SamplingContent>(json!({"type": "tool_use", "id": "1", "name": "n", "input": {}, "_meta": given})),
        pass_late::<SamplingContent>(json!({"type": "tool_result", "toolUseId": "1", "content": [], "_meta": given})),
    ] {
        assert_eq!(november["_meta"], given);
    }
}

/// Returns the object as it is encoded for 2025-06-18 and 2025-11-25.
fn pass<T: Encode + DeserializeOwned>(json: Value) -> [Value; 2] {
    let read: T = is(json);
    [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25]
        .map(|version| value(&encode(&read, version).expect("text")))
}

/// Does the same for objects that 2025-11-25 introduced.
fn pass_late<T: Encode + DeserializeOwned>(json: Value) -> [Value; 2] {
    let read: T = is(json);
    let written = value(&encode(&read, ProtocolVersion::V2025_11_25).expect("text"));
    [Value::Null, written]
}

// req: M-SUBS-001 M-SUBS-002 M-TASK-062
#[test]
fn subscriptions() {
    let filter = json!({"toolsListChanged": true, "promptsListChanged": false, "resourcesListChanged": true,
        "resourceSubscriptions": ["a:b"], "taskIds": ["t"]});
    shape::<SubscriptionFilter>(filter.clone(), &[]);
    shape::<SubscriptionsListenParams>(json!({"_meta": {}, "notifications": filter}), &["notifications"]);
    shape::<SubscriptionsAcknowledgedParams>(json!({"_meta": {}, "notifications": filter}), &["notifications"]);
    for id in [json!(1), json!("1")] {
        let id: RequestId = is(id.clone());
        let result = SubscriptionsListenResult::of(&id).expect("an id");
        let written = encode(&result, ProtocolVersion::V2026_07_28).expect("text");
        assert_eq!(written, format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}}}"#, id.as_json()));
    }
}

// req: M-META-014
#[test]
fn error_data_shapes() {
    let page = json!({"mode": "url", "message": "m", "url": "https://a", "elicitationId": "e"});
    shape::<UrlElicitationRequired>(json!({"elicitations": [page]}), &["elicitations"]);
    shape::<UnsupportedProtocolVersion>(json!({"supported": ["a"], "requested": "b"}), &["supported", "requested"]);
    shape::<MissingRequiredClientCapability>(
        json!({"requiredCapabilities": {"elicitation": {}}}),
        &["requiredCapabilities"],
    );
    fails::<MissingRequiredClientCapability>(json!({"requiredCapabilities": ["elicitation"]}));
    assert_eq!(Method::Elicit.as_str(), "elicitation/create");
}

#[test]
fn skill_shapes() {
    let file = json!({"uri": "skill://a/SKILL.md", "digest": format!("sha256:{:064x}", 7), "size": 12});
    shape::<SkillResource>(file.clone(), &["uri", "digest", "size"]);
    let frontmatter = json!({"name": "a", "description": "b", "license": "MIT", "metadata": {"version": "2"}});
    shape::<SkillFrontmatter>(frontmatter.clone(), &["name", "description"]);
    let skill = json!({"uri": "skill://a/SKILL.md", "frontmatter": frontmatter, "resources": [file]});
    shape::<Skill>(skill.clone(), &["uri", "frontmatter", "resources"]);
    shape::<ListSkillsResult>(json!({"skills": [skill], "nextCursor": "c", "ttlMs": 1}), &["skills"]);
    shape::<GetSkillResult>(json!({"skill": skill, "cacheScope": "public"}), &["skill"]);
    shape::<ListSkillsParams>(json!({"cursor": "c"}), &[]);
    shape::<GetSkillParams>(json!({"uri": "skill://a/SKILL.md"}), &["uri"]);
    shape::<ReadDirectoryParams>(json!({"uri": "skill://a", "cursor": "c"}), &["uri"]);
    shape::<ReadDirectoryResult>(json!({"resources": [{"uri": "skill://a/b", "name": "b"}]}), &["resources"]);
    let read = |resources: Value| {
        let skill = json!({"uri": "a:b", "frontmatter": {"name": "n", "description": "d"}, "resources": resources});
        serde_json::from_str::<Skill>(&skill.to_string()).map(|skill| skill.resources)
    };
    assert_eq!(read(json!("dynamic")).expect("a skill"), SkillResources::Dynamic);
    assert_eq!(read(json!([])).expect("a skill"), SkillResources::Listed(Vec::new()));
    // The resources of such a skill are unknown, so it is refused.
    for bad in [json!("static"), json!(null), json!({}), json!(5), json!([{"uri": "a:b"}])] {
        read(bad.clone()).expect_err(&bad.to_string());
    }
}
