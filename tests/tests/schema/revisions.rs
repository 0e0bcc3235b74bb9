//! Members that a revision does not have cannot be encoded for it: they are omitted, or the message is refused if it
//! would mean something else without them.

use crate::schema_support::{encode, value};
use mcp_proto::{
    protocol::{ProtocolVersion, VersionSet},
    schema::*,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use Otherwise::{Filled, Left, Needed, Refused};
use ProtocolVersion::{V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};

/// What happens in the revisions that do not have a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Otherwise {
    /// The member is omitted.
    Left,
    /// The message is refused.
    Refused,
    /// Nothing, but the revisions that have the member fill in a default.
    Filled,
    /// As `Left`, and the revisions that have the member require it.
    Needed,
}

/// One member: its object, its path and its revisions.
pub(super) struct Row {
    name: &'static str,
    json: Value,
    pointer: &'static str,
    versions: VersionSet,
    otherwise: Otherwise,
    write: fn(&Value, Option<ProtocolVersion>) -> Result<String, String>,
}

pub(super) fn row<T: Encode + DeserializeOwned>(
    json: Value,
    pointer: &'static str,
    versions: VersionSet,
    otherwise: Otherwise,
) -> Row {
    let write = |json: &Value, version| {
        let read: T = serde_json::from_str(&json.to_string()).map_err(|error| format!("{error} in {json}"))?;
        encode(&read, version)
    };
    Row { name: std::any::type_name::<T>(), json, pointer, versions, otherwise, write }
}

pub(super) const JUNE: VersionSet = VersionSet::since(V2025_06_18);
pub(super) const NOVEMBER: VersionSet = VersionSet::since(V2025_11_25);
pub(super) const TASKS: VersionSet = VersionSet::only(V2025_11_25);
pub(super) const MODERN: VersionSet = VersionSet::since(V2026_07_28);
pub(super) const MARCH: VersionSet = VersionSet::since(V2025_03_26);
pub(super) const LEGACY: VersionSet = VersionSet::LEGACY;

pub(super) fn check_rows(rows: Vec<Row>) {
    for row in rows {
        let Row { name, json, pointer, versions, otherwise, write } = row;
        assert!(json.pointer(pointer).is_some(), "{name}: no {pointer} in {json}");
        let whole = write(&json, None).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(value(&whole).pointer(pointer).is_some(), "{name} without revision: no {pointer} in {whole}");
        let (parent, member) = pointer.rsplit_once('/').expect("a pointer has a slash");
        let mut without = json.clone();
        without.pointer_mut(parent).and_then(Value::as_object_mut).expect("a member").remove(member);

        for version in ProtocolVersion::ALL {
            let written = write(&json, Some(version));
            if versions.contains(version) {
                let text = written.unwrap_or_else(|error| panic!("{name}{pointer} at {version}: {error}"));
                assert_eq!(value(&text).pointer(pointer), json.pointer(pointer), "{name} at {version}: {text}");
                match otherwise {
                    Filled => {
                        let text = write(&without, Some(version)).expect("the rest is fine");
                        assert!(value(&text).pointer(pointer).is_some(), "{name}{pointer} at {version}: {text}");
                    }
                    Needed => {
                        let error = write(&without, Some(version)).expect_err(name);
                        assert!(error.contains(member) && error.contains(version.as_str()), "{error}");
                    }
                    Left | Refused => {}
                }
            } else if otherwise == Refused {
                let error = written.expect_err(&format!("{name}{pointer} at {version}"));
                assert!(error.contains(version.as_str()), "{error}");
            } else {
                let text = written.unwrap_or_else(|error| panic!("{name}{pointer} at {version}: {error}"));
                assert!(value(&text).pointer(pointer).is_none(), "{name} at {version}: {text}");
            }
        }
    }
}

fn implementation() -> Value {
    json!({"name": "n", "version": "1", "title": "t", "description": "d", "websiteUrl": "https://a", "icons": [{"src": "data:"}]})
}

fn tool() -> Value {
    json!({"name": "n", "inputSchema": {"type": "object"}, "title": "t", "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": true}, "execution": {"taskSupport": "required"}, "icons": [{"src": "data:"}],
        "_meta": {"a": 1}})
}

fn resource() -> Value {
    json!({"uri": "a:b", "name": "n", "title": "t", "size": 5, "icons": [{"src": "data:"}], "_meta": {"a": 1},
        "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-01"}})
}

fn template() -> Value {
    json!({"uriTemplate": "a:{b}", "name": "n", "title": "t", "icons": [{"src": "data:"}], "_meta": {"a": 1},
        "annotations": {"lastModified": "2025-01-01"}})
}

fn prompt() -> Value {
    json!({"name": "n", "title": "t", "icons": [{"src": "data:"}], "_meta": {"a": 1},
        "arguments": [{"name": "a", "title": "t", "required": true}]})
}

/// Checks that the cache hints of lists are filled in where the revision has them.
fn check_cache_hints() {
    check_rows(vec![
        row::<ListToolsResult>(
            json!({"tools": [], "resultType": "complete", "ttlMs": 5, "cacheScope": "public"}),
            "/ttlMs",
            MODERN,
            Filled,
        ),
        row::<ListToolsResult>(json!({"tools": [], "cacheScope": "public"}), "/cacheScope", MODERN, Filled),
        row::<ListPromptsResult>(json!({"prompts": [], "ttlMs": 5}), "/ttlMs", MODERN, Filled),
        row::<ListPromptsResult>(json!({"prompts": [], "cacheScope": "public"}), "/cacheScope", MODERN, Filled),
        row::<ListResourcesResult>(json!({"resources": [], "ttlMs": 5}), "/ttlMs", MODERN, Filled),
        row::<ListResourcesResult>(json!({"resources": [], "cacheScope": "public"}), "/cacheScope", MODERN, Filled),
        row::<ListResourceTemplatesResult>(json!({"resourceTemplates": [], "ttlMs": 5}), "/ttlMs", MODERN, Filled),
        row::<ListResourceTemplatesResult>(
            json!({"resourceTemplates": [], "cacheScope": "public"}),
            "/cacheScope",
            MODERN,
            Filled,
        ),
        row::<ReadResourceResult>(json!({"contents": [], "ttlMs": 5}), "/ttlMs", MODERN, Filled),
        row::<ReadResourceResult>(json!({"contents": [], "cacheScope": "public"}), "/cacheScope", MODERN, Filled),
    ]);
}

// req: PROG-005 COMPL-003 COMPL-004 TOOL-033 TOOL-035 LIFE-031 LIFE-032 M-CACHE-001 M-TOOL-006 M-TOOL-010 M-PROMPT-005 M-RES-006 M-RES-007 M-RES-011
#[test]
fn optional_later_members_are_omitted() {
    check_cache_hints();
    check_rows(vec![
        row::<Implementation>(implementation(), "/title", JUNE, Left),
        row::<Implementation>(implementation(), "/description", NOVEMBER, Left),
        row::<Implementation>(implementation(), "/websiteUrl", NOVEMBER, Left),
        row::<Implementation>(implementation(), "/icons", NOVEMBER, Left),
        row::<Tool>(tool(), "/title", JUNE, Left),
        row::<Tool>(tool(), "/outputSchema", JUNE, Left),
        row::<Tool>(tool(), "/annotations", MARCH, Left),
        row::<Tool>(tool(), "/execution", TASKS, Left),
        row::<Tool>(tool(), "/icons", NOVEMBER, Left),
        row::<Tool>(tool(), "/_meta", JUNE, Left),
        row::<Tool>(
            json!({"name": "n", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}}),
            "/outputSchema",
            MODERN,
            Left,
        ),
        row::<CallToolResult>(json!({"content": [], "structuredContent": {"a": 1}}), "/structuredContent", JUNE, Left),
        row::<CallToolResult>(json!({"content": [], "structuredContent": [1]}), "/structuredContent", MODERN, Left),
        row::<CallToolResult>(json!({"content": [], "structuredContent": null}), "/structuredContent", MODERN, Left),
        row::<Resource>(resource(), "/title", JUNE, Left),
        row::<Resource>(resource(), "/icons", NOVEMBER, Left),
        row::<Resource>(resource(), "/_meta", JUNE, Left),
        row::<Resource>(resource(), "/annotations/lastModified", JUNE, Left),
        row::<Resource>(resource(), "/annotations/priority", VersionSet::ALL, Left),
        row::<Resource>(resource(), "/size", VersionSet::ALL, Left),
        row::<ResourceTemplate>(template(), "/title", JUNE, Left),
        row::<ResourceTemplate>(template(), "/icons", NOVEMBER, Left),
        row::<ResourceTemplate>(template(), "/_meta", JUNE, Left),
        row::<ResourceTemplate>(template(), "/annotations/lastModified", JUNE, Left),
        row::<ResourceContents>(json!({"uri": "a:b", "text": "", "_meta": {}}), "/_meta", JUNE, Left),
        row::<ResourceContents>(json!({"uri": "a:b", "blob": "", "_meta": {}}), "/_meta", JUNE, Left),
        row::<Prompt>(prompt(), "/title", JUNE, Left),
        row::<Prompt>(prompt(), "/icons", NOVEMBER, Left),
        row::<Prompt>(prompt(), "/_meta", JUNE, Left),
        row::<Prompt>(prompt(), "/arguments/0/title", JUNE, Left),
        row::<Root>(json!({"uri": "file:///a", "_meta": {}}), "/_meta", JUNE, Left),
        row::<ContentBlock>(json!({"type": "text", "text": "", "_meta": {}}), "/_meta", JUNE, Left),
        row::<ContentBlock>(
            json!({"type": "image", "data": "", "mimeType": "a/b", "_meta": {}, "annotations": {"lastModified": ""}}),
            "/annotations/lastModified",
            JUNE,
            Left,
        ),
        row::<ContentBlock>(
            json!({"type": "resource", "resource": {"uri": "a:b", "text": ""}, "_meta": {}}),
            "/_meta",
            JUNE,
            Left,
        ),
        row::<SamplingMessage>(
            json!({"role": "user", "content": {"type": "text", "text": ""}, "_meta": {}}),
            "/_meta",
            NOVEMBER,
            Left,
        ),
        row::<ProgressParams>(json!({"progressToken": 1, "progress": 1, "message": "m"}), "/message", MARCH, Left),
        row::<CompleteParams>(
            json!({"ref": {"type": "ref/prompt", "name": "n"}, "argument": {"name": "a", "value": ""}, "context": {"arguments": {"b": "c"}}}),
            "/context",
            JUNE,
            Left,
        ),
        row::<CompletionReference>(json!({"type": "ref/prompt", "name": "n", "title": "t"}), "/title", JUNE, Left),
        row::<CancelledParams>(json!({"requestId": 1}), "/requestId", VersionSet::ALL, Needed),
    ]);
}

// req: LIFE-027 LIFE-028
#[test]
fn capabilities_are_limited_to_the_revision() {
    let client = json!({"roots": {"listChanged": true}, "sampling": {"context": {}, "tools": {}}, "elicitation": {"form": {}, "url": {}},
        "tasks": {"list": {}, "requests": {"sampling": {"createMessage": {}}}}, "experimental": {"a": {}}, "extensions": {"b/c": {}}});
    let server = json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}, "logging": {}, "completions": {},
        "resources": {"subscribe": true, "listChanged": true}, "tasks": {"requests": {"tools": {"call": {}}}}, "extensions": {"b/c": {}}});
    check_rows(vec![
        row::<ClientCapabilities>(json!({"roots": {}}), "/roots", VersionSet::ALL, Left),
        row::<ClientCapabilities>(json!({"sampling": {}}), "/sampling", VersionSet::ALL, Left),
        row::<ClientCapabilities>(client.clone(), "/roots/listChanged", LEGACY, Left),
        row::<ClientCapabilities>(client.clone(), "/sampling/context", NOVEMBER, Left),
        row::<ClientCapabilities>(client.clone(), "/sampling/tools", NOVEMBER, Left),
        row::<ClientCapabilities>(client.clone(), "/elicitation/form", NOVEMBER, Left),
        row::<ClientCapabilities>(client.clone(), "/elicitation/url", NOVEMBER, Left),
        row::<ClientCapabilities>(json!({"elicitation": {}}), "/elicitation", JUNE, Left),
        row::<ClientCapabilities>(json!({"elicitation": {"url": {}}}), "/elicitation", NOVEMBER, Left),
        row::<ClientCapabilities>(client.clone(), "/tasks", TASKS, Left),
        row::<ClientCapabilities>(client.clone(), "/experimental", VersionSet::ALL, Left),
        row::<ClientCapabilities>(client, "/extensions", NOVEMBER, Left),
        row::<ClientCapabilities>(json!({"extensions": {TASKS_EXTENSION: {}}}), "/extensions", MODERN, Left),
        row::<ServerCapabilities>(server.clone(), "/tools", VersionSet::ALL, Left),
        row::<ServerCapabilities>(server.clone(), "/prompts", VersionSet::ALL, Left),
        row::<ServerCapabilities>(server.clone(), "/resources", VersionSet::ALL, Left),
        row::<ServerCapabilities>(server.clone(), "/logging", VersionSet::ALL, Left),
        row::<ServerCapabilities>(server.clone(), "/completions", MARCH, Left),
        row::<ServerCapabilities>(server.clone(), "/tasks", TASKS, Left),
        row::<ServerCapabilities>(server, "/extensions", NOVEMBER, Left),
        row::<ServerCapabilities>(json!({"extensions": {SKILLS_EXTENSION: {}}}), "/extensions", NOVEMBER, Left),
        row::<ServerCapabilities>(
            json!({"extensions": {TASKS_EXTENSION: {}, SKILLS_EXTENSION: {}}}),
            "/extensions/io.modelcontextprotocol~1tasks",
            MODERN,
            Left,
        ),
    ]);
}

// req: CONT-004 CONT-008 TOOL-016 TOOL-017 TOOL-018 PROMPT-009 PROMPT-010 PROMPT-011 SAMP-013 SAMP-014 SAMP-015 SAMP-017 M-SAMP-012
#[test]
fn content_of_later_revisions_is_refused() {
    let blocks = [
        (json!({"type": "text", "text": ""}), VersionSet::ALL),
        (json!({"type": "image", "data": "", "mimeType": "a/b"}), VersionSet::ALL),
        (json!({"type": "resource", "resource": {"uri": "a:b", "text": ""}}), VersionSet::ALL),
        (json!({"type": "audio", "data": "", "mimeType": "a/b"}), MARCH),
        (json!({"type": "resource_link", "uri": "a:b", "name": "n"}), JUNE),
    ];
    for (block, versions) in &blocks {
        check_rows(vec![
            row::<CallToolResult>(json!({"content": [block]}), "/content", *versions, Refused),
            row::<GetPromptResult>(
                json!({"messages": [{"role": "user", "content": block}]}),
                "/messages",
                *versions,
                Refused,
            ),
        ]);
    }
    let pieces = [
        (json!({"type": "text", "text": ""}), VersionSet::ALL),
        (json!({"type": "image", "data": "", "mimeType": "a/b"}), VersionSet::ALL),
        (json!({"type": "audio", "data": "", "mimeType": "a/b"}), MARCH),
        (json!({"type": "tool_use", "id": "1", "name": "n", "input": {}}), NOVEMBER),
        (json!({"type": "tool_result", "toolUseId": "1", "content": []}), NOVEMBER),
        (json!([{"type": "text", "text": ""}, {"type": "text", "text": ""}]), NOVEMBER),
        (json!([]), NOVEMBER),
    ];
    for (content, versions) in &pieces {
        check_rows(vec![
            row::<SamplingMessage>(json!({"role": "user", "content": content}), "/content", *versions, Refused),
            row::<CreateMessageParams>(
                json!({"messages": [{"role": "user", "content": content}], "maxTokens": 5}),
                "/messages",
                *versions,
                Refused,
            ),
            row::<CreateMessageResult>(
                json!({"role": "user", "content": content, "model": "m"}),
                "/content",
                *versions,
                Refused,
            ),
        ]);
    }
    // An array of one element is sent to older peers as the element.
    let one = json!({"role": "user", "content": [{"type": "text", "text": "a"}]});
    let message: SamplingMessage = serde_json::from_value(one.clone()).expect("a message");
    for version in ProtocolVersion::ALL {
        let written = value(&encode(&message, version).expect("text"));
        assert_eq!(written["content"].is_array(), version >= V2025_11_25, "{version}");
    }
    // Sampling has no embedded resources, in any revision.
    assert!(matches!(
        serde_json::from_value(json!({"type": "resource", "resource": {"uri": "a:b", "text": ""}})),
        Ok(SamplingContent::Other(_))
    ));
    // Kinds that no revision has are not sent.
    let unknown = json!({"type": "hologram", "beam": true});
    check_rows(vec![row::<CallToolResult>(json!({"content": [unknown]}), "/content", VersionSet::NONE, Refused)]);
    for block in [
        json!({"type": "resource", "resource": {"uri": "a:b", "text": ""}}),
        json!({"type": "resource_link", "uri": "a:b", "name": "n"}),
        unknown,
    ] {
        check_rows(vec![row::<SamplingMessage>(
            json!({"role": "user", "content": block}),
            "/content",
            VersionSet::NONE,
            Refused,
        )]);
    }
    let image = json!({"toolUseId": "1", "type": "tool_result", "content": [], "structuredContent": 5});
    check_rows(vec![row::<ToolResultContentInMessage>(image, "/structuredContent", MODERN, Left)]);
}

/// Tool results exist in two revisions only, so this wrapper leaves the others out of the table.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct ToolResultContentInMessage(ToolResultContent);

impl Encode for ToolResultContentInMessage {
    fn encode_at<S: serde::Serializer>(
        &self,
        version: Option<ProtocolVersion>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        self.0.encode_at(version.map(|version| version.max(V2025_11_25)), serializer)
    }
}

/// Checks the params and results of elicitations.
fn check_elicitations() {
    let form =
        |property: Value| json!({"message": "m", "requestedSchema": {"type": "object", "properties": {"a": property}}});
    let url = json!({"mode": "url", "message": "m", "url": "https://a", "elicitationId": "1"});
    let option = json!({"const": "a", "title": "A"});
    check_rows(vec![
        row::<ElicitParams>(form(json!({"type": "string"})), "/message", JUNE, Refused),
        row::<ElicitParams>(form(json!({"type": "string", "enum": ["a"]})), "/message", JUNE, Refused),
        row::<ElicitParams>(
            form(json!({"type": "string", "enum": ["a"], "enumNames": ["A"]})),
            "/message",
            JUNE,
            Refused,
        ),
        row::<ElicitParams>(form(json!({"type": "string", "oneOf": [option]})), "/message", NOVEMBER, Refused),
        row::<ElicitParams>(
            form(json!({"type": "array", "items": {"anyOf": [option]}})),
            "/message",
            NOVEMBER,
            Refused,
        ),
        row::<ElicitParams>(
            form(json!({"type": "array", "items": {"type": "string", "enum": ["a"]}})),
            "/message",
            NOVEMBER,
            Refused,
        ),
        row::<ElicitParams>(form(json!({"type": "object", "properties": {}})), "/message", VersionSet::NONE, Refused),
        row::<ElicitParams>(
            form(json!({"type": "array", "items": {"type": "object"}})),
            "/message",
            VersionSet::NONE,
            Refused,
        ),
        row::<ElicitParams>(url, "/message", NOVEMBER, Refused),
        row::<ElicitResult>(json!({"action": "accept", "content": {"a": ["b"]}}), "/content", NOVEMBER, Refused),
        row::<ElicitResult>(
            json!({"action": "accept", "content": {"a": {"b": 1}}}),
            "/content",
            VersionSet::NONE,
            Refused,
        ),
        row::<ElicitResult>(
            json!({"action": "accept", "content": {"a": "b", "c": 1.5, "d": true}}),
            "/content",
            JUNE,
            Refused,
        ),
    ]);
}

/// Checks the members of elicitations that depend on the mode.
fn check_modes_of_elicitations() {
    let url = json!({"mode": "url", "message": "m", "url": "https://a", "elicitationId": "1"});
    // The id of the elicitation exists in one revision only, and is required there.
    for version in [V2025_11_25, V2026_07_28] {
        let params: ElicitParams = serde_json::from_value(url.clone()).expect("params");
        let written = value(&encode(&params, version).expect("text"));
        assert_eq!(written.get("elicitationId").is_some(), version == V2025_11_25);
        assert_eq!(written["mode"], "url");
        let nameless = ElicitUrlParams::new("m", "https://a");
        assert_eq!(encode(&nameless, version).is_ok(), version == V2026_07_28);
    }
    // A form does not keep another mode.
    let schema: ElicitSchema = serde_json::from_value(json!({"type": "object", "properties": {}})).expect("a form");
    let odd = ElicitFormParams { mode: Some(ElicitMode::Url), ..ElicitFormParams::new("m", schema) };
    assert!(encode(&odd, V2025_11_25).is_err());
    // A form has no mode in 2025-06-18, and keeps its mode later.
    let params: ElicitParams = serde_json::from_value(json!({
        "mode": "form", "message": "m", "requestedSchema": {"type": "object", "properties": {}, "$schema": "x"}
    }))
    .expect("params");
    let june = value(&encode(&params, V2025_06_18).expect("text"));
    assert_eq!(june, json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}}));
    assert_eq!(value(&encode(&params, V2025_11_25).expect("text"))["mode"], "form");
}

// req: ELIC-007 ELIC-010 ELIC-017 ELIC-025 M-ELIC-010 M-ELIC-020 M-MRTR-037
#[test]
fn members_that_change_the_meaning_are_refused() {
    let task = json!({"ttl": 5});
    check_rows(vec![
        row::<CallToolParams>(json!({"name": "n", "task": task}), "/task", TASKS, Refused),
        row::<CreateMessageParams>(json!({"messages": [], "maxTokens": 5, "task": task}), "/task", TASKS, Refused),
        row::<CreateMessageParams>(json!({"messages": [], "maxTokens": 5, "tools": []}), "/tools", NOVEMBER, Refused),
        row::<CreateMessageParams>(
            json!({"messages": [], "maxTokens": 5, "toolChoice": {"mode": "none"}}),
            "/toolChoice",
            NOVEMBER,
            Refused,
        ),
        row::<CallToolParams>(json!({"name": "n", "inputResponses": {}}), "/inputResponses", MODERN, Refused),
        row::<CallToolParams>(json!({"name": "n", "requestState": "s"}), "/requestState", MODERN, Refused),
        row::<GetPromptParams>(json!({"name": "n", "inputResponses": {}}), "/inputResponses", MODERN, Refused),
        row::<GetPromptParams>(json!({"name": "n", "requestState": "s"}), "/requestState", MODERN, Refused),
        row::<ReadResourceParams>(json!({"uri": "a:b", "inputResponses": {}}), "/inputResponses", MODERN, Refused),
        row::<ReadResourceParams>(json!({"uri": "a:b", "requestState": "s"}), "/requestState", MODERN, Refused),
        row::<CompleteResult>(
            json!({"completion": {"values": vec!["a"; 101]}}),
            "/completion",
            VersionSet::NONE,
            Refused,
        ),
        row::<CompleteResult>(
            json!({"completion": {"values": vec!["a"; 100]}}),
            "/completion",
            VersionSet::ALL,
            Refused,
        ),
        row::<InitializeResult>(
            json!({"protocolVersion": "v", "capabilities": {}, "serverInfo": {"name": "n", "version": "1"}}),
            "/capabilities",
            LEGACY,
            Refused,
        ),
        row::<DiscoverResult>(
            json!({"supportedVersions": [], "capabilities": {}}),
            "/supportedVersions",
            MODERN,
            Refused,
        ),
        row::<ElicitParams>(
            json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}, "task": {}}),
            "/task",
            TASKS,
            Refused,
        ),
        row::<ElicitParams>(
            json!({"mode": "url", "message": "m", "url": "https://a", "elicitationId": "1", "task": {}}),
            "/task",
            TASKS,
            Refused,
        ),
        row::<MissingRequiredClientCapability>(
            json!({"requiredCapabilities": {}}),
            "/requiredCapabilities",
            MODERN,
            Refused,
        ),
        row::<UrlElicitationRequired>(json!({"elicitations": []}), "/elicitations", TASKS, Refused),
        row::<SubscriptionFilter>(json!({"toolsListChanged": true}), "/toolsListChanged", MODERN, Refused),
        row::<InputRequiredResult>(json!({"requestState": "s"}), "/requestState", MODERN, Refused),
        row::<CreateTaskResult>(
            json!({"task": {"taskId": "t", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": null}}),
            "/task",
            TASKS,
            Refused,
        ),
        row::<EmptyResult>(json!({"resultType": "complete"}), "/resultType", MODERN, Left),
    ]);

    // A result does not keep a result type of another kind.
    let odd: EmptyResult = serde_json::from_str(r#"{"resultType":"task"}"#).expect("a result");
    assert!(encode(&odd, V2026_07_28).is_err());

    check_elicitations();
    check_modes_of_elicitations();
}

#[test]
fn defaults_of_forms_follow_the_revision() {
    let form = |property: &Value| json!({"message": "m", "requestedSchema": {"type": "object", "properties": {"a": property}}});
    let late = [
        json!({"type": "string", "default": "x"}),
        json!({"type": "number", "default": 1.5}),
        json!({"type": "integer", "default": 1}),
        json!({"type": "string", "enum": ["x"], "default": "x"}),
        json!({"type": "string", "enum": ["x"], "enumNames": ["X"], "default": "x"}),
    ];
    for (property, early) in
        late.iter().map(|property| (property, false)).chain([(&json!({"type": "boolean", "default": true}), true)])
    {
        let params: ElicitParams = serde_json::from_value(form(property)).expect("params");
        for version in [V2025_06_18, V2025_11_25, V2026_07_28] {
            let written = value(&encode(&params, version).expect("text"));
            let default = written.pointer("/requestedSchema/properties/a/default");
            let expected = (early || version > V2025_06_18).then(|| &property["default"]);
            assert_eq!(default, expected, "{property} at {version}");
        }
    }
}

// req: M-CACHE-001 M-CACHE-002
#[test]
fn modern_lists_always_carry_cache_hints() {
    let written = value(&encode(&DiscoverResult::new([], ServerCapabilities::default()), V2026_07_28).expect("text"));
    assert_eq!(written["ttlMs"], 0);
    assert_eq!(written["cacheScope"], "private");
    // An invalid value of the peer is not written next to the default.
    let odd: ListToolsResult =
        serde_json::from_str(r#"{"tools":[],"ttlMs":-5,"cacheScope":null,"nextCursor":7}"#).expect("a result");
    assert_eq!((odd.ttl_ms, odd.cache_scope.as_ref(), odd.next_cursor.as_ref()), (None, None, None));
    assert_eq!(
        encode(&odd, V2026_07_28).expect("text"),
        r#"{"tools":[],"ttlMs":0,"cacheScope":"private","nextCursor":7}"#
    );
    assert_eq!(encode(&odd, V2025_11_25).expect("text"), r#"{"tools":[],"nextCursor":7}"#);
    assert_eq!(encode(&odd, None).expect("text"), r#"{"tools":[],"ttlMs":-5,"cacheScope":null,"nextCursor":7}"#);
    // A value that was set later replaces the invalid one.
    let set = ListToolsResult { next_cursor: Some("c".into()), ..odd };
    assert_eq!(encode(&set, V2025_11_25).expect("text"), r#"{"tools":[],"nextCursor":"c"}"#);
}
