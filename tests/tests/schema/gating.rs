//! Messages, types and values that a revision does not have cannot be encoded for it.

use mcp_proto::{
    protocol::{Method, ProtocolVersion, VersionSet},
    schema::*,
};
use serde_json::{Value, json};

use ProtocolVersion::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};

use super::revisions::{
    JUNE, LEGACY, MARCH, MODERN, NOVEMBER,
    Otherwise::{Left, Refused},
    TASKS, check_rows, row,
};
use crate::schema_support::encode;

/// Returns minimal params of a method.
fn params(method: Method) -> Value {
    match method {
        Method::Initialize => {
            json!({"protocolVersion": "v", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}})
        }
        Method::CallTool | Method::GetPrompt => json!({"name": "n"}),
        Method::ReadResource | Method::Subscribe | Method::Unsubscribe | Method::ResourceUpdated => {
            json!({"uri": "a:b"})
        }
        Method::Listen | Method::SubscriptionsAcknowledged => json!({"notifications": {}}),
        Method::Complete => json!({"ref": {"type": "ref/prompt", "name": "n"}, "argument": {"name": "a", "value": ""}}),
        Method::SetLevel => json!({"level": "info"}),
        Method::LogMessage => json!({"level": "info", "data": null}),
        Method::CreateMessage => json!({"messages": [], "maxTokens": 5}),
        Method::Elicit => json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}}),
        Method::GetTask | Method::GetTaskResult | Method::CancelTask | Method::ExtGetTask | Method::ExtCancelTask => {
            json!({"taskId": "t"})
        }
        Method::GetSkill | Method::ReadDirectory => json!({"uri": "a:b"}),
        Method::ExtUpdateTask => json!({"taskId": "t", "inputResponses": {}}),
        Method::ExtTaskChanged => {
            json!({"taskId": "t", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttlMs": null})
        }
        Method::TaskStatus => {
            json!({"taskId": "t", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": null})
        }
        Method::Cancelled => json!({"requestId": 1}),
        Method::Progress => json!({"progressToken": 1, "progress": 1}),
        Method::ElicitationComplete => json!({"elicitationId": "e"}),
        _ => json!({}),
    }
}

// req: PROG-001 META-001
#[test]
fn messages_of_other_revisions_are_refused() {
    for method in Method::ALL.iter().copied() {
        let mut params = params(method);
        params["_meta"] = json!({"progressToken": "t"});
        let text = params.to_string();
        for version in ProtocolVersion::ALL {
            let written = [
                ClientRequest::decode(method, Some(&text)).ok().map(|message| encode(&message, version)),
                ServerRequest::decode(method, Some(&text)).ok().map(|message| encode(&message, version)),
                ClientNotification::decode(method, Some(&text)).ok().map(|message| encode(&message, version)),
                ServerNotification::decode(method, Some(&text)).ok().map(|message| encode(&message, version)),
            ];
            assert!(written.iter().any(Option::is_some), "{method} has params {text}");
            for written in written.into_iter().flatten() {
                if method.versions().contains(version) {
                    let written = written.unwrap_or_else(|error| panic!("{method} at {version}: {error}"));
                    // The engine adds its own keys after this one.
                    assert!(written.starts_with(r#"{"_meta":{"progressToken":"t"}"#), "{written}");
                } else {
                    let error = written.expect_err(method.as_str());
                    assert_eq!(error, format!("{method} is not part of {version}"));
                }
            }
        }
    }
    // The types themselves refuse, too, except those inside of a result.
    assert!(encode(&PingParams::default(), V2026_07_28).is_err());
    assert!(encode(&SetLevelParams::new(LoggingLevel::Info), V2026_07_28).is_err());
    assert!(encode(&ListTasksParams::default(), V2025_06_18).is_err());
    assert!(encode(&ListRootsParams::default(), V2026_07_28).is_ok());
    assert!(encode(&ListToolsParams::default(), V2024_11_05).is_ok());
}

/// Each type checks its revisions itself, wherever it is used.
#[test]
fn types_of_other_revisions_are_refused() {
    let task = json!({"taskId": "t", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": null});
    let mut extended = task.clone();
    extended["ttlMs"] = json!(null);
    let option = json!({"const": "a", "title": "A"});
    let skill = json!({"uri": "a:b", "frontmatter": {"name": "", "description": ""}, "resources": "dynamic"});
    macro_rules! exist {
        ($($versions:ident: $($Type:ty = $json:expr),+;)+) => {
            $($(
                let read: $Type = serde_json::from_value($json.clone()).expect(stringify!($Type));
                for version in ProtocolVersion::ALL {
                    let written = encode(&read, version);
                    assert_eq!(written.is_ok(), $versions.contains(version), "{} at {version}", stringify!($Type));
                    if let Err(error) = written {
                        assert!(error.ends_with(&format!(" is not part of {version}")), "{error}");
                    }
                }
            )+)+
        };
    }
    exist! {
        MARCH: AudioContent = json!({"type": "audio", "data": "", "mimeType": "a/b"}), ToolAnnotations = json!({});
        JUNE: ResourceLink = json!({"type": "resource_link", "uri": "a:b", "name": "n"}),
            CompletionContext = json!({}),
            ElicitFormParams = json!({"message": "", "requestedSchema": {"type": "object", "properties": {}}}),
            ElicitResult = json!({"action": "accept"}),
            ElicitSchema = json!({"type": "object", "properties": {}}),
            StringSchema = json!({"type": "string"}), NumberSchema = json!({"type": "number"}),
            BooleanSchema = json!({"type": "boolean"}),
            UntitledSingleSelectEnumSchema = json!({"type": "string", "enum": []}),
            LegacyTitledEnumSchema = json!({"type": "string", "enum": [], "enumNames": []});
        NOVEMBER: Icon = json!({"src": "data:,"}), ToolChoice = json!({}), EnumOption = option,
            ListSkillsResult = json!({"skills": []}), ReadDirectoryResult = json!({"resources": []}),
            Skill = skill, GetSkillResult = json!({"skill": skill}),
            SkillFrontmatter = json!({"name": "", "description": ""}),
            SkillResource = json!({"uri": "a:b", "digest": "", "size": 0}),
            ToolUseContent = json!({"type": "tool_use", "id": "", "name": "", "input": {}}),
            ToolResultContent = json!({"type": "tool_result", "toolUseId": "", "content": []}),
            ElicitUrlParams = json!({"mode": "url", "message": "", "url": "a:b", "elicitationId": ""}),
            TitledSingleSelectEnumSchema = json!({"type": "string", "oneOf": [option]}),
            UntitledItems = json!({"type": "string", "enum": []}), TitledItems = json!({"anyOf": [option]}),
            UntitledMultiSelectEnumSchema = json!({"type": "array", "items": {"type": "string", "enum": []}}),
            TitledMultiSelectEnumSchema = json!({"type": "array", "items": {"anyOf": []}});
        TASKS: Task = task, GetTaskResult = task, CancelTaskResult = task, TaskStatusParams = task,
            CreateTaskResult = json!({"task": task}), ListTasksResult = json!({"tasks": []}),
            GetTaskPayloadResult = json!({}), TaskMetadata = json!({}), ToolExecution = json!({}),
            ClientTasksCapability = json!({}), ClientTaskRequests = json!({}), SamplingTasks = json!({}),
            ElicitationTasks = json!({}), ServerTasksCapability = json!({}), ServerTaskRequests = json!({}),
            ToolTasks = json!({}), UrlElicitationRequired = json!({"elicitations": []});
        LEGACY: InitializeResult = json!({"protocolVersion": "", "capabilities": {}, "serverInfo": {"name": "", "version": ""}});
        MODERN: DiscoverResult = json!({"supportedVersions": [], "capabilities": {}}),
            InputRequiredResult = json!({"requestState": ""}),
            CreateMessageRequest = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}),
            ElicitRequest = json!({"method": "elicitation/create", "params": {
                "message": "", "requestedSchema": {"type": "object", "properties": {}}
            }}),
            ListRootsRequest = json!({"method": "roots/list"}),
            SubscriptionFilter = json!({}), SubscriptionsListenResult = json!({}),
            SubscriptionsListenParams = json!({"notifications": {}}),
            SubscriptionsAcknowledgedParams = json!({"notifications": {}}),
            MissingRequiredClientCapability = json!({"requiredCapabilities": {}}),
            tasks_extension::CreateTaskResult = extended, tasks_extension::GetTaskResult = extended,
            tasks_extension::TaskParams = extended, tasks_extension::GetTaskParams = extended,
            tasks_extension::CancelTaskParams = extended, tasks_extension::Task = extended,
            tasks_extension::UpdateTaskParams = json!({"taskId": "t", "inputResponses": {}});
    }
}

/// Checks that base64 data and media types that are none are not sent.
fn check_binary_contents() {
    let none = VersionSet::NONE;
    for (data, kind, versions) in [
        ("aGk=", "image/png", VersionSet::ALL),
        ("not base64", "image/png", none),
        ("aGk", "image/png", none),
        ("aGk=", "", none),
        ("aGk=", "png", none),
    ] {
        let image = json!({"type": "image", "data": data, "mimeType": kind});
        let audio = json!({"type": "audio", "data": data, "mimeType": kind});
        check_rows(vec![
            row::<ContentBlock>(image.clone(), "/data", versions, Refused),
            row::<PromptMessage>(json!({"role": "user", "content": image}), "/content", versions, Refused),
            row::<ContentBlock>(audio.clone(), "/data", versions.intersection(MARCH), Refused),
            row::<SamplingMessage>(
                json!({"role": "user", "content": audio}),
                "/content",
                versions.intersection(MARCH),
                Refused,
            ),
        ]);
    }
    for (blob, versions) in [("aGk=", VersionSet::ALL), ("", VersionSet::ALL), ("a", none), ("****", none)] {
        check_rows(vec![row::<ReadResourceResult>(
            json!({"contents": [{"uri": "a:b", "blob": blob}]}),
            "/contents",
            versions,
            Refused,
        )]);
    }
}

// req: CONT-013 CONT-014 CONT-016 ICON-002 ICON-003 ROOT-004 SAMP-006 SAMP-018 ELIC-021 ELIC-024 TASK-022 TOOL-039 M-SCHEMA-012 M-ROOT-005 M-SAMP-009 M-SAMP-010 M-SAMP-011 M-SAMP-022 M-ELIC-019
// req: M-SCHEMA-015 M-PROMPT-016 M-RES-024
#[test]
fn unknown_enum_values_are_not_sent() {
    let message = |role: &str| json!({"role": role, "content": {"type": "text", "text": ""}});
    let none = VersionSet::NONE;
    check_rows(vec![
        row::<PromptMessage>(message("system"), "/role", none, Refused),
        row::<SamplingMessage>(message("system"), "/role", none, Refused),
        row::<CreateMessageResult>(
            json!({"role": "system", "content": {"type": "text", "text": ""}, "model": "m"}),
            "/role",
            none,
            Refused,
        ),
        row::<Root>(json!({"uri": "https://a/b"}), "/uri", none, Refused),
        row::<Root>(json!({"uri": "file:///a"}), "/uri", VersionSet::ALL, Refused),
        row::<ElicitResult>(json!({"action": "maybe"}), "/action", none, Refused),
        row::<Task>(
            json!({"taskId": "t", "status": "tired", "createdAt": "", "lastUpdatedAt": "", "ttl": null}),
            "/status",
            none,
            Refused,
        ),
        row::<CreateMessageParams>(
            json!({"messages": [], "maxTokens": 5, "includeContext": "everything"}),
            "/includeContext",
            none,
            Left,
        ),
        row::<CreateMessageParams>(
            json!({"messages": [], "maxTokens": 5, "toolChoice": {"mode": "sometimes"}}),
            "/toolChoice/mode",
            none,
            Refused,
        ),
        row::<ListToolsResult>(
            json!({"tools": [{"name": "n", "inputSchema": {}, "execution": {"taskSupport": "perhaps"}}]}),
            "/tools/0/execution/taskSupport",
            none,
            Left,
        ),
        row::<Implementation>(
            json!({"name": "n", "version": "1", "icons": [{"src": "data:,", "theme": "red"}]}),
            "/icons/0/theme",
            none,
            Left,
        ),
    ]);
    check_binary_contents();
    let annotated = |annotations: Value| json!({"type": "text", "text": "", "annotations": annotations});
    for (annotations, pointer) in [
        (json!({"priority": 1.5}), "/annotations/priority"),
        (json!({"audience": ["user", "moon"]}), "/annotations/audience"),
    ] {
        check_rows(vec![row::<ContentBlock>(annotated(annotations), pointer, none, Left)]);
    }
    for name in ["/costPriority", "/speedPriority", "/intelligencePriority"] {
        check_rows(vec![
            row::<ModelPreferences>(json!({&name[1..]: -0.5}), name, none, Left),
            row::<ModelPreferences>(json!({&name[1..]: 0.5}), name, VersionSet::ALL, Left),
        ]);
    }
    for src in ["javascript:alert(1)", "file:///a", "a.png"] {
        let icons = json!([{"src": src}]);
        check_rows(vec![
            row::<Implementation>(json!({"name": "n", "version": "1", "icons": icons}), "/icons", none, Left),
            row::<Tool>(json!({"name": "n", "inputSchema": {}, "icons": icons}), "/icons", none, Left),
            row::<Prompt>(json!({"name": "n", "icons": icons}), "/icons", none, Left),
            row::<Resource>(json!({"uri": "a:b", "name": "n", "icons": icons}), "/icons", none, Left),
            row::<ResourceTemplate>(json!({"uriTemplate": "a:b", "name": "n", "icons": icons}), "/icons", none, Left),
        ]);
    }
    let form = json!({"type": "object", "properties": {"a": {"type": "string", "format": "phone"}}});
    let schema: ElicitSchema = serde_json::from_value(form).expect("a form");
    assert!(!encode(&schema, V2025_11_25).expect("text").contains("phone"));
}
