//! The shape of each object of the specification: its required members, its optional members, and their defaults.

use crate::schema_support::{assert_same, encode, shape, value};
use mcp_proto::{
    protocol::{Capability, CapabilitySet, ProtocolVersion},
    schema::*,
    wire::Json,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(super) fn is<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_str(&json.to_string()).unwrap_or_else(|error| panic!("{error} in {json}"))
}

pub(super) fn fails<T: DeserializeOwned + std::fmt::Debug>(json: Value) {
    serde_json::from_str::<T>(&json.to_string()).expect_err(&json.to_string());
}

// req: LIFE-002 LIFE-003 LIFE-004 LIFE-005 LIFE-031 LIFE-032 M-SCHEMA-024 M-DISC-003 M-DISC-004 M-DISC-006
#[test]
fn the_handshake() {
    let who = json!({"name": "n", "version": "1", "title": "N", "description": "d", "websiteUrl": "https://a/",
        "icons": [{"src": "https://a/b.png", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "dark"}]});
    shape::<Implementation>(who.clone(), &["name", "version"]);
    shape::<InitializeParams>(
        json!({"_meta": {}, "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who}),
        &["protocolVersion", "capabilities", "clientInfo"],
    );
    shape::<InitializeResult>(
        json!({"_meta": {}, "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": who, "instructions": "i"}),
        &["protocolVersion", "capabilities", "serverInfo"],
    );
    shape::<DiscoverResult>(
        json!({"supportedVersions": ["2026-07-28"], "capabilities": {}, "instructions": "i", "ttlMs": 0, "cacheScope": "public"}),
        &["supportedVersions", "capabilities"],
    );
    let mut program = Implementation::new("n", "1");
    assert_eq!(program.display_name(), "n");
    program.title = Some("N".into());
    assert_eq!(program.display_name(), "N");
}

// req: LIFE-024 LIFE-027 LIFE-028 LIFE-029 ELIC-003 TASK-002 TASK-003 M-META-032
#[test]
fn capabilities_are_declared_by_presence() {
    use Capability::*;
    let client = |json: Value| is::<ClientCapabilities>(json).set().iter().collect::<Vec<_>>();
    let server = |json: Value| is::<ServerCapabilities>(json).set().iter().collect::<Vec<_>>();
    assert_eq!(client(json!({})), []);
    assert_eq!(client(json!({"roots": {}})), [Roots]);
    assert_eq!(client(json!({"roots": {"listChanged": false}})), [Roots]);
    assert_eq!(client(json!({"roots": {"listChanged": true}})), [Roots, RootsListChanged]);
    assert_eq!(client(json!({"roots": {"listChanged": "yes"}})), [Roots]);
    assert_eq!(client(json!({"roots": null, "sampling": true, "elicitation": []})), []);
    assert_eq!(client(json!({"sampling": {"tools": {}, "context": {}}})), [Sampling, SamplingContext, SamplingTools]);
    assert_eq!(client(json!({"elicitation": {}})), [Elicitation, ElicitationForm]);
    assert_eq!(client(json!({"elicitation": {"form": {}}})), [Elicitation, ElicitationForm]);
    assert_eq!(client(json!({"elicitation": {"url": {}}})), [Elicitation, ElicitationUrl]);
    assert_eq!(client(json!({"elicitation": {"form": {}, "url": {}}})), [Elicitation, ElicitationForm, ElicitationUrl]);
    assert_eq!(client(json!({"tasks": {}})), [Tasks]);
    assert_eq!(
        client(json!({"tasks": {"list": {}, "cancel": {}, "requests": {
            "sampling": {"createMessage": {}}, "elicitation": {"create": {}}
        }}})),
        [Tasks, TasksList, TasksCancel, TasksSampling, TasksElicitation]
    );
    assert_eq!(client(json!({"extensions": {TASKS_EXTENSION: {}}})), [TasksExtension]);
    assert_eq!(client(json!({"extensions": {SKILLS_EXTENSION: {"directoryRead": true}}})), []);
    for off in [json!({}), json!({"directoryRead": false}), json!({"directoryRead": "true"})] {
        assert_eq!(server(json!({"extensions": {SKILLS_EXTENSION: off}})), [SkillsExtension]);
    }
    let reads = json!({"extensions": {SKILLS_EXTENSION: {"directoryRead": true}}});
    assert_eq!(server(reads), [SkillsExtension, SkillsDirectories]);

    assert_eq!(server(json!({"tools": {}, "prompts": {}, "resources": {}})), [Prompts, Resources, Tools]);
    assert_eq!(
        server(
            json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}, "resources": {"listChanged": true, "subscribe": true}})
        ),
        [Prompts, PromptsListChanged, Resources, ResourcesSubscribe, ResourcesListChanged, Tools, ToolsListChanged]
    );
    assert_eq!(server(json!({"resources": {"subscribe": false, "listChanged": null}})), [Resources]);
    assert_eq!(server(json!({"logging": {}, "completions": {"x": 1}})), [Logging, Completions]);
    assert_eq!(server(json!({"logging": true, "completions": null})), []);
    assert_eq!(
        server(json!({"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}})),
        [Tasks, TasksList, TasksCancel, TasksToolsCall]
    );

    // A capability that `with` declares is found by `set` and written at its path.
    for capability in Capability::ALL.iter().copied() {
        let client = ClientCapabilities::default().with(capability);
        let server = ServerCapabilities::default().with(capability);
        let mut known = 0;
        for (set, text) in [(client.set(), encode(&client, None)), (server.set(), encode(&server, None))] {
            let text = text.expect("text");
            if set == CapabilitySet::EMPTY {
                assert_eq!(text, "{}");
                continue;
            }
            known += 1;
            assert!(set.contains(capability), "{capability:?}: {set:?}");
            let path = capability.path();
            let pointer = match path.strip_prefix("extensions.") {
                // The part after a dot behind the name is a setting.
                Some(extension) => {
                    let (prefix, name) = extension.split_once('/').expect("a prefix");
                    format!("/extensions/{prefix}~1{}", name.replace('.', "/"))
                }
                None => format!("/{}", path.replace('.', "/")),
            };
            let declared = value(&text);
            let declared = declared.pointer(&pointer).unwrap_or_else(|| panic!("no {pointer} in {text}"));
            assert!(declared.is_object() || *declared == json!(true), "{text}");
        }
        assert!(known > 0, "{capability:?}");
    }
}

// req: LIFE-025 LIFE-026 LIFE-030 M-META-029 M-META-031
#[test]
fn unknown_capabilities_are_preserved() {
    let json = json!({"experimental": {"a": {"b": [1.50]}}, "sampling": {"beam": {}}, "future": 5,
        "roots": {"listChanged": true, "x": null}});
    let read: ClientCapabilities = is(json.clone());
    let experimental = read.experimental.as_ref().and_then(|all| all.get("a")).expect("an entry");
    assert_eq!(experimental.get(), r#"{"b":[1.5]}"#);
    assert_same(&encode(&read, None).expect("text"), &json.to_string());
    let read: ServerCapabilities = is(json!({"experimental": {"a": 5}, "tools": {}}));
    assert!(read.experimental.is_none() && read.tools.is_some());
}

// req: ICON-001 ICON-005 M-SCHEMA-019 M-SCHEMA-020
#[test]
fn icons() {
    shape::<Icon>(json!({"src": "data:,", "mimeType": "image/png", "sizes": ["any"], "theme": "light"}), &["src"]);
    let icon = json!([{"src": "https://a/b"}]);
    shape::<Implementation>(json!({"name": "n", "version": "1", "icons": icon}), &["name", "version"]);
    shape::<Tool>(json!({"name": "n", "inputSchema": {"type": "object"}, "icons": icon}), &["name", "inputSchema"]);
    shape::<Prompt>(json!({"name": "n", "icons": icon}), &["name"]);
    shape::<Resource>(json!({"uri": "a:b", "name": "n", "icons": icon}), &["uri", "name"]);
    shape::<ResourceTemplate>(json!({"uriTemplate": "a:b", "name": "n", "icons": icon}), &["uriTemplate", "name"]);
    shape::<ResourceLink>(
        json!({"type": "resource_link", "uri": "a:b", "name": "n", "icons": icon}),
        &["type", "uri", "name"],
    );
    // (may be sent, may be loaded)
    for (src, valid, safe) in [
        ("https://a/b.png", true, true),
        ("HTTPS://a/b.png", true, true),
        ("data:image/png;base64,aGk=", true, true),
        ("http://a/b.png", true, false),
        ("javascript:alert(1)", false, false),
        ("file:///etc/passwd", false, false),
        ("ftp://a/b", false, false),
        ("ws://a/b", false, false),
        (" https://a/b", false, false),
        ("b.png", false, false),
        ("//a/b.png", false, false),
        ("", false, false),
    ] {
        assert_eq!((Icon::new(src).is_valid(), Icon::new(src).is_safe()), (valid, safe), "{src}");
    }
    for theme in [IconTheme::Light, IconTheme::Dark] {
        let icon = Icon { theme: Some(theme.clone()), ..Icon::new("data:,") };
        assert_eq!(value(&encode(&icon, ProtocolVersion::V2025_11_25).expect("text"))["theme"], theme.as_str());
    }
    assert_eq!((IconTheme::Light.as_str(), IconTheme::Dark.as_str()), ("light", "dark"));
}

// req: CONT-001 CONT-002 CONT-003 CONT-005 CONT-007 CONT-012 M-SCHEMA-013 M-SCHEMA-014 M-SCHEMA-015 M-SCHEMA-016 M-SCHEMA-017
#[test]
fn content() {
    let annotations = json!({"audience": ["user", "assistant"], "priority": 1, "lastModified": "2025-01-12T15:00:58Z"});
    shape::<Annotations>(annotations.clone(), &[]);
    shape::<ContentBlock>(
        json!({"type": "text", "text": "t", "annotations": annotations, "_meta": {}}),
        &["type", "text"],
    );
    for kind in ["image", "audio"] {
        shape::<ContentBlock>(
            json!({"type": kind, "data": "aGk=", "mimeType": "a/b", "annotations": annotations, "_meta": {}}),
            &["type", "data", "mimeType"],
        );
    }
    shape::<ContentBlock>(
        json!({"type": "resource_link", "uri": "a:b", "name": "n", "title": "t", "description": "d", "mimeType": "a/b",
            "size": 5, "annotations": annotations, "_meta": {}}),
        &["type", "uri", "name"],
    );
    for contents in [json!({"uri": "a:b", "text": "t"}), json!({"uri": "a:b", "mimeType": "a/b", "blob": "aGk="})] {
        shape::<ContentBlock>(
            json!({"type": "resource", "resource": contents, "annotations": annotations, "_meta": {}}),
            &["type", "resource"],
        );
    }
    shape::<ResourceContents>(json!({"uri": "a:b", "text": "t", "mimeType": "a/b", "_meta": {}}), &["uri", "text"]);
    shape::<ResourceContents>(json!({"uri": "a:b", "blob": "", "mimeType": "a/b", "_meta": {}}), &["uri", "blob"]);
    shape::<Resource>(json!({"uri": "a:b", "name": "n", "annotations": annotations}), &["uri", "name"]);
    shape::<ResourceTemplate>(
        json!({"uriTemplate": "a:{b}", "name": "n", "annotations": annotations}),
        &["uriTemplate", "name"],
    );

    for (block, kind) in [
        (ContentBlock::text("t"), "text"),
        (ContentBlock::image("aGk=", "image/png"), "image"),
        (ContentBlock::audio("aGk=", "audio/wav"), "audio"),
        (ContentBlock::resource(TextResourceContents::new("a:b", "t")), "resource"),
        (ResourceLink::new("a:b", "n").into(), "resource_link"),
    ] {
        let written = value(&encode(&block, ProtocolVersion::V2025_11_25).expect("text"));
        assert_eq!(written["type"], kind);
        assert_eq!(is::<ContentBlock>(written), block);
    }
    // As each revision encodes them.
    for version in ProtocolVersion::LEGACY {
        let written = |block: &ContentBlock| value(&encode(block, version).expect("text"));
        assert_eq!(written(&ContentBlock::text("t")), json!({"type": "text", "text": "t"}), "{version}");
        let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
        assert_eq!(written(&ContentBlock::image("aGk=", "image/png")), image, "{version}");
        for (contents, name, said) in [
            (ContentBlock::resource(TextResourceContents::new("a:b", "t")), "text", "t"),
            (ContentBlock::resource(BlobResourceContents::new("a:b", "aGk=")), "blob", "aGk="),
        ] {
            let expected = json!({"type": "resource", "resource": {"uri": "a:b", name: said}});
            assert_eq!(written(&contents), expected, "{version}");
        }
        if version >= ProtocolVersion::V2025_03_26 {
            let audio = json!({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"});
            assert_eq!(written(&ContentBlock::audio("aGk=", "audio/wav")), audio, "{version}");
        }
        if version >= ProtocolVersion::V2025_06_18 {
            let link = json!({"type": "resource_link", "uri": "a:b", "name": "n"});
            assert_eq!(written(&ResourceLink::new("a:b", "n").into()), link, "{version}");
        }
    }
    // The types of the kinds check their kind, too.
    fails::<TextContent>(json!({"type": "image", "text": "t"}));
    fails::<TextContent>(json!({"text": "t"}));
}

// req: M-SCHEMA-018
#[test]
fn each_annotation_has_one_json_type() {
    let values =
        [json!(true), json!(0.5), json!("2025-01-12T15:00:58Z"), json!([]), json!(["user"]), json!([1]), json!({})];
    let is_text = |value: &Value| value.is_string();
    for value in values {
        let read = |name: &str| is::<Annotations>(json!({name: value}));
        let roles = value.as_array().is_some_and(|roles| roles.iter().all(is_text));
        for (name, found, is_right) in [
            ("audience", read("audience").audience.is_some(), roles),
            ("priority", read("priority").priority.is_some(), value.is_number()),
            ("lastModified", read("lastModified").last_modified.is_some(), value.is_string()),
        ] {
            // A member of another type is not an annotation: it is kept unchanged among the unknown members.
            assert_eq!((found, read(name).extra.get(name).is_some()), (is_right, !is_right), "{name}: {value}");
        }
    }
}

// req: CONT-013 CONT-014 CONT-016 M-SCHEMA-018
#[test]
fn annotations_and_roles() {
    let with = |priority: Value| is::<Annotations>(json!({"priority": priority})).is_valid();
    assert!(with(json!(0)) && with(json!(1)) && with(json!(0.5)) && Annotations::default().is_valid());
    assert!(!with(json!(-0.1)) && !with(json!(1.5)) && !with(json!(2)));
    let read: Annotations = is(json!({"audience": ["user", "assistant"]}));
    assert_eq!(read.audience.as_deref(), Some(&[Role::User, Role::Assistant][..]));
    assert_eq!((Role::User.as_str(), Role::Assistant.as_str()), ("user", "assistant"));
    assert_eq!(is::<PromptMessage>(json!({"role": "user", "content": {"type": "text", "text": ""}})).role, Role::User);
    assert_eq!(
        encode(&PromptMessage::assistant("a"), None).expect("text"),
        r#"{"role":"assistant","content":{"type":"text","text":"a"}}"#
    );
}

// req: TOOL-002 TOOL-003 TOOL-005 TOOL-009 TOOL-010 TOOL-030 M-TOOL-007 M-TOOL-008
#[test]
fn tools() {
    shape::<ListToolsParams>(json!({"_meta": {}, "cursor": "c"}), &[]);
    shape::<ListToolsResult>(
        json!({"_meta": {}, "tools": [], "nextCursor": "c", "ttlMs": 5, "cacheScope": "private"}),
        &["tools"],
    );
    let schema = json!({"type": "object", "properties": {}, "required": []});
    shape::<Tool>(
        json!({"name": "n", "title": "t", "description": "d", "inputSchema": schema, "outputSchema": schema, "_meta": {},
            "annotations": {"title": "t", "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false},
            "execution": {"taskSupport": "optional"}, "icons": []}),
        &["name", "inputSchema"],
    );
    for wrong in [json!(null), json!([]), json!("object"), json!(true)] {
        fails::<Tool>(json!({"name": "n", "inputSchema": wrong}));
    }
    assert_eq!(
        encode(&Tool::without_arguments("n"), ProtocolVersion::V2024_11_05).expect("text"),
        r#"{"name":"n","inputSchema":{"type":"object","additionalProperties":false}}"#
    );
    let schema = |text: &str| is_object_schema(&mcp_proto::wire::JsonObject::parse(text).expect("an object"));
    assert!(schema(r#"{"type":"object"}"#) && schema(r#"{"properties":{"a":{"type":"string"}}, "type" : "object"}"#));
    assert!(!schema("{}") && !schema(r#"{"type":"string"}"#) && !schema(r#"{"type":["object"]}"#));
    assert!(!schema(r#"{"properties":{"type":"object"}}"#) && !schema(r#"{"type":null}"#));
    // Any name can be called, but only some are advised.
    for (name, advised) in [
        ("get_a-b.C9", true),
        ("", false),
        ("a b", false),
        ("a/b", false),
        ("ä", false),
        ("a".repeat(129).as_str(), false),
    ] {
        let tool: Tool = is(json!({"name": name, "inputSchema": {"type": "object"}}));
        assert_eq!((tool.name.as_str(), tool.has_advised_name()), (name, advised));
        for version in ProtocolVersion::ALL {
            assert_eq!(value(&encode(&CallToolParams::new(name), version).expect("text"))["name"], name);
        }
    }
}

// req: TOOL-011 TOOL-013 TOOL-019 TOOL-039 M-TOOL-017 M-TOOL-030 M-TOOL-031
#[test]
fn tool_defaults() {
    let tool = |annotations: Value, title: Option<&str>| {
        let mut tool = json!({"name": "name", "inputSchema": {}, "annotations": annotations});
        if let Some(title) = title {
            tool["title"] = json!(title);
        }
        is::<Tool>(tool)
    };
    let silent = ToolAnnotations::default();
    assert_eq!((silent.is_read_only(), silent.is_destructive()), (false, true));
    assert_eq!((silent.is_idempotent(), silent.is_open_world()), (false, true));
    let said = tool(
        json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}),
        None,
    );
    let said = said.annotations.expect("annotations");
    assert_eq!((said.is_read_only(), said.is_destructive()), (true, false));
    assert_eq!((said.is_idempotent(), said.is_open_world()), (true, false));
    assert_eq!(tool(json!({}), None).display_name(), "name");
    assert_eq!(tool(json!({"title": "annotated"}), None).display_name(), "annotated");
    assert_eq!(tool(json!({"title": "annotated"}), Some("titled")).display_name(), "titled");
    // No revision writes the defaults for the client.
    for version in [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25] {
        let silent = Tool { annotations: Some(ToolAnnotations::default()), ..Tool::without_arguments("name") };
        let sent = value(&encode(&silent, version).expect("text"));
        assert!(sent.get("annotations").is_none_or(|annotations| annotations == &json!({})), "{version}: {sent}");
        let read = is::<Tool>(sent).annotations.unwrap_or_default();
        assert_eq!((read.is_read_only(), read.is_destructive()), (false, true), "{version}");
        assert_eq!((read.is_idempotent(), read.is_open_world()), (false, true), "{version}");
        let named = |title: Option<&str>, annotated: Option<&str>| {
            let annotations = ToolAnnotations { title: annotated.map(Into::into), ..ToolAnnotations::default() };
            let tool = Tool {
                title: title.map(Into::into),
                annotations: Some(annotations),
                ..Tool::without_arguments("name")
            };
            is::<Tool>(value(&encode(&tool, version).expect("text"))).display_name().to_owned()
        };
        assert_eq!((named(None, None), named(None, Some("a"))), ("name".to_owned(), "a".to_owned()), "{version}");
        if version >= ProtocolVersion::V2025_06_18 {
            assert_eq!(named(Some("t"), Some("a")), "t", "{version}");
        }
    }

    let support = |execution: Value| {
        is::<Tool>(json!({"name": "n", "inputSchema": {}, "execution": execution})).task_support().clone()
    };
    assert_eq!(support(json!({})), TaskSupport::Forbidden);
    assert_eq!(support(json!(null)), TaskSupport::Forbidden);
    assert_eq!(support(json!({"taskSupport": "forbidden"})), TaskSupport::Forbidden);
    assert_eq!(support(json!({"taskSupport": "optional"})), TaskSupport::Optional);
    assert_eq!(support(json!({"taskSupport": "required"})), TaskSupport::Required);

    assert!(!is::<CallToolResult>(json!({"content": []})).is_error());
    assert!(!is::<CallToolResult>(json!({"content": [], "isError": false})).is_error());
    assert!(CallToolResult::error("why").is_error());
}

// req: TOOL-014 TOOL-015 M-TOOL-011 M-TOOL-012 M-TOOL-013
#[test]
fn tool_calls() {
    shape::<CallToolParams>(json!({"_meta": {}, "name": "n", "arguments": {}, "task": {"ttl": 5}}), &["name"]);
    let result = json!({"_meta": {}, "content": [], "structuredContent": {}, "isError": true});
    assert_same(&encode(&is::<CallToolResult>(result.clone()), None).expect("text"), &result.to_string());
    // The content is written in all revisions, also if it is empty.
    for version in ProtocolVersion::ALL {
        assert_eq!(encode(&CallToolResult::new([]), version).expect("text"), r#"{"content":[]}"#);
        let text = encode(&CallToolResult::text("t"), version).expect("text");
        assert_eq!(text, r#"{"content":[{"type":"text","text":"t"}]}"#);
    }
    let structured = |json: Value| is::<CallToolResult>(json).structured_content;
    assert_eq!(structured(json!({"content": []})), None);
    assert_eq!(structured(json!({"content": [], "structuredContent": null})).as_ref().map(Json::get), Some("null"));
    assert_eq!(structured(json!({"content": [], "structuredContent": [1]})).as_ref().map(Json::get), Some("[1]"));
}

// req: PROMPT-002 PROMPT-003 PROMPT-005 PROMPT-006 PROMPT-007 PROMPT-008 M-PROMPT-006 M-PROMPT-007 M-PROMPT-008 M-PROMPT-009
#[test]
fn prompts() {
    shape::<ListPromptsParams>(json!({"_meta": {}, "cursor": "c"}), &[]);
    shape::<ListPromptsResult>(
        json!({"_meta": {}, "prompts": [], "nextCursor": "c", "ttlMs": 5, "cacheScope": "private"}),
        &["prompts"],
    );
    shape::<Prompt>(
        json!({"name": "n", "title": "t", "description": "d", "arguments": [], "icons": [], "_meta": {}}),
        &["name"],
    );
    shape::<PromptArgument>(json!({"name": "n", "title": "t", "description": "d", "required": true}), &["name"]);
    shape::<GetPromptParams>(json!({"_meta": {}, "name": "n", "arguments": {"a": "b"}}), &["name"]);
    for wrong in [json!({"a": 5}), json!({"a": null}), json!({"a": ["b"]}), json!([])] {
        fails::<GetPromptParams>(json!({"name": "n", "arguments": wrong}));
    }
    shape::<GetPromptResult>(json!({"_meta": {}, "description": "d", "messages": []}), &["messages"]);
    shape::<PromptMessage>(json!({"role": "user", "content": {"type": "text", "text": ""}}), &["role", "content"]);
    fails::<PromptMessage>(json!({"role": "user", "content": [{"type": "text", "text": ""}]}));
}

// req: RES-002 RES-003 RES-004 RES-005 RES-007 RES-008 RES-011 RES-012 RES-017 M-RES-008 M-RES-009 M-RES-010 M-RES-012
#[test]
fn resources() {
    shape::<ListResourcesParams>(json!({"_meta": {}, "cursor": "c"}), &[]);
    shape::<ListResourcesResult>(
        json!({"_meta": {}, "resources": [], "nextCursor": "c", "ttlMs": 5, "cacheScope": "private"}),
        &["resources"],
    );
    shape::<Resource>(
        json!({"uri": "a:b", "name": "n", "title": "t", "description": "d", "mimeType": "a/b", "size": 5, "icons": [], "_meta": {}}),
        &["uri", "name"],
    );
    for (size, expected) in
        [(json!(5), Some(5)), (json!(5.0), Some(5)), (json!(0.5), None), (json!(-1), None), (json!("5"), None)]
    {
        assert_eq!(is::<Resource>(json!({"uri": "a:b", "name": "n", "size": size})).size, expected, "{size}");
    }
    shape::<ListResourceTemplatesParams>(json!({"_meta": {}, "cursor": "c"}), &[]);
    shape::<ListResourceTemplatesResult>(
        json!({"_meta": {}, "resourceTemplates": [], "nextCursor": "c", "ttlMs": 5, "cacheScope": "private"}),
        &["resourceTemplates"],
    );
    shape::<ResourceTemplate>(
        json!({"uriTemplate": "a:{b}", "name": "n", "title": "t", "description": "d", "mimeType": "a/b", "icons": [], "_meta": {}}),
        &["uriTemplate", "name"],
    );
    shape::<ReadResourceParams>(json!({"_meta": {}, "uri": "a:b"}), &["uri"]);
    shape::<ReadResourceResult>(
        json!({"_meta": {}, "contents": [], "ttlMs": 5, "cacheScope": "private"}),
        &["contents"],
    );
    for version in ProtocolVersion::LEGACY {
        shape::<SubscribeParams>(json!({"_meta": {}, "uri": "a:b"}), &["uri"]);
        shape::<UnsubscribeParams>(json!({"_meta": {}, "uri": "a:b"}), &["uri"]);
        assert_eq!(encode(&EmptyResult::default(), version).expect("text"), "{}");
    }
    shape::<ResourceUpdatedParams>(json!({"_meta": {}, "uri": "a:b"}), &["uri"]);
    // Either text or bytes, in any order of the members.
    for wrong in [
        json!({"uri": "a:b"}),
        json!({"text": "t"}),
        json!({"uri": "a:b", "text": null}),
        json!({"uri": "a:b", "blob": 5}),
    ] {
        fails::<ResourceContents>(wrong);
    }
    for unused in [r#"{"blob":null,"uri":"a:b","text":"t"}"#, r#"{"uri":"a:b","text":"t","blob":null}"#] {
        let read: ResourceContents = serde_json::from_str(unused).expect("text");
        assert!(matches!(&read, ResourceContents::Text(contents) if contents.text == "t"));
        assert_same(&encode(&read, None).expect("text"), unused);
    }
    for both in [r#"{"uri":"a:b","text":"t","blob":"aGk="}"#, r#"{"blob":"aGk=","uri":"a:b","text":"t"}"#] {
        let error = serde_json::from_str::<ResourceContents>(both).expect_err(both).to_string();
        assert!(error.contains("text") && error.contains("blob"), "{error}");
    }
}

// req: ROOT-003 ROOT-010 ROOT-011 M-ROOT-004
#[test]
fn roots() {
    shape::<ListRootsParams>(json!({"_meta": {}}), &[]);
    shape::<ListRootsResult>(json!({"_meta": {}, "roots": [{"uri": "file:///a"}]}), &["roots"]);
    shape::<Root>(json!({"uri": "file:///a", "name": "n", "_meta": {"a": 1}}), &["uri"]);
    assert!(is::<Root>(json!({"uri": "file:///a"})).is_valid() && !is::<Root>(json!({"uri": "https://a"})).is_valid());
    assert_eq!(is::<ListRootsResult>(json!({"roots": []})).roots, []);
}

// req: COMPL-001 COMPL-002 COMPL-003 COMPL-004 COMPL-005 COMPL-008 COMPL-009 COMPL-014 M-COMPL-002 M-COMPL-003 M-COMPL-005 M-COMPL-006
#[test]
fn completion() {
    let argument = json!({"name": "n", "value": "v"});
    shape::<CompletionArgument>(argument.clone(), &["name", "value"]);
    shape::<CompleteParams>(
        json!({"_meta": {}, "ref": {"type": "ref/prompt", "name": "n"}, "argument": argument, "context": {"arguments": {"a": "b"}}}),
        &["ref", "argument"],
    );
    shape::<CompletionReference>(json!({"type": "ref/prompt", "name": "n", "title": "t"}), &["type", "name"]);
    for uri in ["file:///a", "file:///{path}", "x:{+a}{?b,c}"] {
        shape::<CompletionReference>(json!({"type": "ref/resource", "uri": uri}), &["type", "uri"]);
    }
    shape::<CompleteResult>(json!({"_meta": {}, "completion": {"values": []}}), &["completion"]);
    shape::<Completion>(json!({"values": ["a", "b"], "total": 500, "hasMore": true}), &["values"]);
    fails::<Completion>(json!({"values": ["a", 5]}));

    let few = Completion::of(["a", "b"]);
    assert_eq!((few.values.len(), few.total, few.has_more), (2, Some(2), Some(false)));
    let many = Completion::of((0..150).map(|number| number.to_string()));
    assert_eq!((many.values.len(), many.total, many.has_more), (100, Some(150), Some(true)));
    assert_eq!((many.values[0].as_str(), many.values[99].as_str()), ("0", "99"));
}

// req: LOG-002 LOG-006 M-LOG-006
#[test]
fn log_messages() {
    let words = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    assert_eq!(LoggingLevel::ALL.map(LoggingLevel::as_str), words);
    assert!(LoggingLevel::ALL.is_sorted() && LoggingLevel::Debug < LoggingLevel::Emergency);
    for word in words {
        let params: SetLevelParams = is(json!({"level": word}));
        assert_eq!(encode(&params, ProtocolVersion::V2024_11_05).expect("text"), format!(r#"{{"level":"{word}"}}"#));
    }
    for wrong in [json!("Debug"), json!("warn"), json!("fatal"), json!(""), json!(0), json!(null)] {
        fails::<SetLevelParams>(json!({"level": wrong}));
        fails::<LogMessageParams>(json!({"level": wrong, "data": 5}));
    }
    let message = json!({"_meta": {}, "level": "info", "logger": "l", "data": {"a": 1}});
    assert_same(&encode(&is::<LogMessageParams>(message.clone()), None).expect("text"), &message.to_string());
    assert_eq!(is::<LogMessageParams>(json!({"level": "info", "data": 1})).logger, None);
    for data in [json!(null), json!("text"), json!([1]), json!(1.5), json!({"a": null}), json!(false)] {
        assert_same(is::<LogMessageParams>(json!({"level": "info", "data": data})).data.get(), &data.to_string());
    }
    fails::<LogMessageParams>(json!({"level": "info"}));
}
