//! Results are decoded as the type of their request.

use crate::schema_support::{assert_same, encode, same, value};
use mcp_proto::{
    protocol::{Method, ProtocolVersion},
    schema::*,
};
use serde_json::json;

// req: TOOL-002 TOOL-015 PROMPT-002 PROMPT-008 RES-002 RES-008 RES-011 ROOT-003 ROOT-010 COMPL-008 TASK-048
#[test]
fn lists_are_written_as_arrays_and_never_null() {
    fn check<T: Encode + serde::de::DeserializeOwned + std::fmt::Debug>(
        empty: &T,
        name: &str,
        version: ProtocolVersion,
    ) {
        let text = encode(empty, version).expect("an empty list");
        let written = value(&text);
        let list = if name == "values" { &written["completion"][name] } else { &written[name] };
        assert_eq!(list, &json!([]), "{text}");
        for wrong in [r#""NAME":null"#, r#""NAME":{}"#, r#""NAME":"""#, r#""NAME":0"#, r#""x":[]"#] {
            // `content` of a tool result is often absent, which means an empty list.
            if name == "content" && wrong == r#""x":[]"# {
                continue;
            }
            let list = wrong.replace("NAME", name);
            let text = if name == "values" { format!(r#"{{"completion":{{{list}}}}}"#) } else { format!("{{{list}}}") };
            let error = serde_json::from_str::<T>(&text).expect_err(&text).to_string();
            assert!(error.contains(name), "{error}");
        }
    }
    for version in ProtocolVersion::ALL {
        check(&ListToolsResult::new([]), "tools", version);
        check(&ListPromptsResult::new([]), "prompts", version);
        check(&GetPromptResult::new([]), "messages", version);
        check(&ListResourcesResult::new([]), "resources", version);
        check(&ListResourceTemplatesResult::new([]), "resourceTemplates", version);
        check(&ReadResourceResult::new([]), "contents", version);
        check(&ListRootsResult::new([]), "roots", version);
        check(&CallToolResult::new([]), "content", version);
        check(&CompleteResult::new(Completion::new([])), "values", version);
    }
    check(&ListTasksResult::new([]), "tasks", ProtocolVersion::V2025_11_25);

    let result: CallToolResult =
        serde_json::from_str(r#"{"structuredContent":{}}"#).expect("content is often left out");
    assert_eq!(result.content, []);
}

#[test]
fn results_are_typed_by_their_method() {
    // Each of these would be ambiguous if results were distinguished by their members.
    let lookalikes = [
        r#"{}"#,
        r#"{"content":[],"tools":[],"prompts":[],"resources":[],"contents":[],"messages":[],"roots":[],"tasks":[]}"#,
        r#"{"task":{"taskId":"t","status":"working","createdAt":"","lastUpdatedAt":"","ttl":null},"content":[]}"#,
        r#"{"role":"assistant","content":{"type":"text","text":""},"model":"m"}"#,
        r#"{"action":"accept","content":{"a":"b"}}"#,
        r#"{"resultType":"input_required","inputRequests":{},"content":[]}"#,
        r#"{"taskId":"t","status":"working","createdAt":"","lastUpdatedAt":"","ttl":5}"#,
        r#"{"completion":{"values":[]},"protocolVersion":"x","capabilities":{},"serverInfo":{"name":"","version":""}}"#,
    ];
    for text in lookalikes {
        for method in ClientRequest::METHODS {
            let requires_input = text.contains("input_required")
                && [Method::CallTool, Method::GetPrompt, Method::ReadResource].contains(method);
            match ServerResult::decode(*method, text) {
                Ok(result) => {
                    assert_eq!(result.method(), *method);
                    assert_eq!(matches!(result, ServerResult::InputRequired(..)), requires_input, "{method} {text}");
                    let added = if matches!(result, ServerResult::CallTool(_)) { &["content"][..] } else { &[] };
                    let mut written = value(&encode(&result, None).expect("text"));
                    for name in added {
                        if value(text).get(name).is_none() {
                            written.as_object_mut().expect("an object").remove(*name);
                        }
                    }
                    assert!(same(&written, &value(text)), "{method}: {written}");
                }
                Err(error) => {
                    assert!(error.to_string().contains("member `") || error.to_string().contains('.'), "{error}")
                }
            }
        }
        for method in ServerRequest::METHODS {
            if let Ok(result) = ClientResult::decode(*method, text) {
                assert_eq!(result.method(), *method);
                assert_same(&encode(&result, None).expect("text"), text);
            }
        }
    }
    assert!(ServerResult::decode(Method::ListRoots, "{\"roots\":[]}").is_err(), "servers do not answer this");
    assert!(ClientResult::decode(Method::CallTool, "{\"content\":[]}").is_err(), "clients do not answer this");
    assert!(ServerResult::decode(Method::Progress, "{}").is_err(), "a notification has no result");
    let empty: ServerResult = ServerResult::decode(Method::Ping, lookalikes[1]).expect("an empty result");
    assert!(matches!(empty, ServerResult::Ping(EmptyResult { .. })));
}

// req: TASK-016
#[test]
fn task_results_need_a_task_request() {
    let text =
        r#"{"task":{"taskId":"t","status":"working","createdAt":"","lastUpdatedAt":"","ttl":null},"content":[]}"#;
    let task = TaskOr::<CallToolResult>::decode(text, true).expect("a task");
    assert!(matches!(&task, TaskOr::Task(created) if created.task.task_id == "t"));
    assert_same(&encode(&task, ProtocolVersion::V2025_11_25).expect("text"), text);
    let result = TaskOr::<CallToolResult>::decode(text, false).expect("a result");
    assert!(matches!(&result, TaskOr::Result(result) if result.extra.get("task").is_some()));
    let result = TaskOr::<CallToolResult>::decode(r#"{"content":[]}"#, true).expect("a result");
    assert_eq!(result, TaskOr::Result(CallToolResult::new([])));
    assert!(TaskOr::<CallToolResult>::decode(r#"{"task":{"taskId":"t"},"content":[]}"#, true).is_err(), "half a task");
}

// req: M-MRTR-004 M-MRTR-005 M-MRTR-006 M-MRTR-007 M-BASE-011 M-BASE-014
#[test]
fn result_type_distinguishes_input_required() {
    use mcp_proto::schema::{
        CreateMessageParams, ElicitFormParams, ElicitParams, ElicitSchema, InputRequests, InputResponses,
        ListRootsParams, SamplingMessage, answer,
    };
    let send_request = ElicitParams::from(ElicitFormParams::new("why?", ElicitSchema::new([] as [(&str, _); 0])));
    let input_requests: InputRequests = [
        ("a", send_request.into()),
        ("b", CreateMessageParams::new([SamplingMessage::user("hi")], 5_u64).into()),
        ("c", ListRootsParams::default().into()),
    ]
    .into();
    let result = InputRequiredResult::new(input_requests);
    assert!(result.is_valid());
    assert!(!InputRequiredResult::default().is_valid());
    let text = encode(&result, ProtocolVersion::V2026_07_28).expect("text");
    assert_eq!(
        text,
        concat!(
            r#"{"resultType":"input_required","inputRequests":{"#,
            r#""a":{"method":"elicitation/create","params":{"message":"why?","requestedSchema":{"type":"object","properties":{}}}},"#,
            r#""b":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}},"#,
            r#""c":{"method":"roots/list","params":{}}}}"#
        )
    );
    for method in [Method::CallTool, Method::GetPrompt, Method::ReadResource] {
        let read = ServerResult::decode(method, &text).expect("an input request");
        assert_eq!(read, ServerResult::InputRequired(method, result.clone()));
    }
    // A result without the marker is complete, in every revision.
    let complete = ServerResult::decode(Method::CallTool, r#"{"content":[],"inputRequests":{}}"#).expect("a result");
    assert!(matches!(complete, ServerResult::CallTool(_)));
    // The marker is always written.
    let forgetful = InputRequiredResult { request_state: Some("s".into()), ..InputRequiredResult::default() };
    assert!(encode(&forgetful, ProtocolVersion::V2026_07_28).expect("text").contains("input_required"));
    // An input-required result needs a request or a state.
    assert!(encode(&InputRequiredResult::default(), ProtocolVersion::V2026_07_28).is_err());
    assert!(encode(&result, ProtocolVersion::V2025_11_25).is_err());

    let responses: InputResponses =
        serde_json::from_str(r#"{"c":{"roots":[]},"a":{"action":"decline"}}"#).expect("answers");
    assert!(matches!(answer::<ListRootsParams>(&responses, "c"), Some(Ok(result)) if result.roots.is_empty()));
    assert!(matches!(answer::<ElicitParams>(&responses, "a"), Some(Ok(result)) if result == ElicitResult::decline()));
    assert!(matches!(answer::<ElicitParams>(&responses, "c"), Some(Err(_))));
    assert!(answer::<ElicitParams>(&responses, "b").is_none());
}

// req: TASK-035
#[test]
fn task_payload_equals_the_request_result() {
    let result = CallToolResult::error("broken");
    let payload = GetTaskPayloadResult::of(&result, "t1").expect("an object");
    assert_eq!(payload.meta.as_ref().and_then(|meta| meta.related_task()).as_deref(), Some("t1"));
    let text = encode(&payload, ProtocolVersion::V2025_11_25).expect("text");
    assert!(text.starts_with(r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}"#), "{text}");
    let read: GetTaskPayloadResult = serde_json::from_str(&text).expect("a result");
    let mut back: CallToolResult = read.decode().expect("a tool result");
    back.meta = None;
    assert_eq!(back, result);
    assert!(GetTaskPayloadResult::of(&"no object".to_owned(), "t1").is_err());
}

// req: LIFE-004
#[test]
fn missing_required_members_are_named() {
    // The error names each missing required member.
    let full = json!({"protocolVersion": "v", "capabilities": {}, "serverInfo": {"name": "n", "version": "1"}});
    for name in ["protocolVersion", "capabilities", "serverInfo"] {
        let mut json = full.clone();
        json.as_object_mut().expect("an object").remove(name);
        let error = serde_json::from_value::<InitializeResult>(json).expect_err(name).to_string();
        assert_eq!(error, format!("InitializeResult: missing member `{name}`"));
    }
    let task: Task = serde_json::from_value(json!({
        "taskId": "t", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": null, "pollInterval": "soon"
    }))
    .expect("a task");
    assert_eq!(task.poll_interval, None);
    assert_eq!(serde_json::to_value(At(&task, None)).expect("a value")["pollInterval"], json!("soon"));
}
