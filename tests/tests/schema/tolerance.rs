//! How the decoder handles unexpected messages: it loses nothing and guesses nothing.

use crate::schema_support::{assert_same, encode, noise, same, value};
use arbitrary::Unstructured;
use mcp_proto::{
    protocol::{Method, ProtocolVersion},
    schema::{
        ArbitraryAt, CallToolParams, CallToolResult, ClientNotification, ClientRequest, ClientResult, ContentBlock,
        CreateMessageResult, ElicitResult, Encode, GetTaskPayloadResult, JsonLine, ServerNotification, ServerRequest,
        ServerResult, Tool,
    },
    wire::{Json, JsonObject},
};
use serde_json::{Value, json};

/// Returns random messages of every revision, as JSON with their decoders.
fn messages(rounds: u64) -> impl Iterator<Item = Message> {
    (0..rounds).flat_map(|round| {
        ProtocolVersion::ALL.into_iter().flat_map(move |version| {
            let bytes = noise(round.wrapping_mul(31), 3072);
            let mut found = Vec::new();
            macro_rules! add {
                ($($Type:ident: $decode:expr;)*) => {
                    $(if let Ok(message) = $Type::arbitrary_at(&mut Unstructured::new(&bytes), Some(version)) {
                        let decode: fn(Method, &str) -> Result<String, String> = $decode;
                        let text = encode(&message, version).expect("what a revision has can be written for it");
                        found.push(Message { method: message.method(), kind: stringify!($Type), json: value(&text), decode });
                    })*
                };
            }
            add! {
                ClientRequest: |method, text| back(ClientRequest::decode(method, Some(text)));
                ServerRequest: |method, text| back(ServerRequest::decode(method, Some(text)));
                ClientNotification: |method, text| back(ClientNotification::decode(method, Some(text)));
                ServerNotification: |method, text| back(ServerNotification::decode(method, Some(text)));
                ClientResult: |method, text| back(ClientResult::decode(method, text));
                ServerResult: |method, text| back(ServerResult::decode(method, text));
            }
            found
        })
    })
}

/// The encoding of a value, or its error, does not depend on the writer: see [`encode`].
#[test]
fn both_writers_produce_the_same_text() {
    let (mut written, mut refused) = (0, 0);
    let mut compare = |text: Result<String, String>| if text.is_ok() { written += 1 } else { refused += 1 };
    for round in 0..300_u64 {
        let bytes = noise(round.wrapping_mul(37), 3072);
        macro_rules! write {
            ($($Type:ident),*) => {
                $(if let Ok(message) = $Type::arbitrary_at(&mut Unstructured::new(&bytes), None) {
                    compare(encode(&message, None));
                    ProtocolVersion::ALL.into_iter().for_each(|version| compare(encode(&message, version)));
                })*
            };
        }
        write!(ClientRequest, ServerRequest, ClientNotification, ServerNotification, ClientResult, ServerResult);
    }
    assert!(written > 1000 && refused > 1000, "{written} were written and {refused} refused");
}

struct Message {
    method: Method,
    kind: &'static str,
    json: Value,
    decode: fn(Method, &str) -> Result<String, String>,
}

impl Message {
    /// Returns the message after decoding and encoding.
    fn pass(&self, json: &Value) -> Result<Value, String> {
        (self.decode)(self.method, &json.to_string()).map(|text| value(&text))
    }

    #[track_caller]
    fn passes(&self, json: &Value) {
        match self.pass(json) {
            Ok(written) => {
                assert!(same(&written, json), "{} {}\nread:    {json}\nwritten: {written}", self.kind, self.method);
            }
            Err(error) => panic!("{} {}: {error} in {json}", self.kind, self.method),
        }
    }

    fn is_result(&self) -> bool {
        self.kind.ends_with("Result")
    }

    /// Returns whether it is an input-required result or a task.
    fn is_marked(&self) -> bool {
        self.json["resultType"] == "input_required" || self.json["resultType"] == "task"
    }
}

fn back<T: Encode>(read: Result<T, serde_json::Error>) -> Result<String, String> {
    encode(&read.map_err(|error| error.to_string())?, None)
}

/// Calls `change` for each object below `json`, with the name of the member that holds it.
fn each_object(json: &mut Value, parent: &str, change: &mut impl FnMut(&str, &mut serde_json::Map<String, Value>)) {
    match json {
        Value::Object(members) => {
            members.iter_mut().for_each(|(name, member)| each_object(member, name, change));
            change(parent, members);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_object(item, parent, change)),
        _ => {}
    }
}

// req: BASE-018 LIFE-025 LIFE-030 META-001 META-002 META-003 CONT-017 M-BASE-015 M-META-026 M-META-029 M-SCHEMA-027
#[test]
fn unknown_members_survive_everywhere() {
    // The members of these objects are not members of the protocol, and have to be of one type.
    const MAPS: [&str; 4] = ["arguments", "properties", "inputRequests", "inputResponses"];
    let additions = [json!(null), json!(-1.5), json!("x"), json!([{"a": null}]), json!({"type": "text", "b": [1]})];
    let mut objects = 0;
    for (round, message) in messages(60).enumerate() {
        let mut json = message.json.clone();
        each_object(&mut json, "", &mut |parent, members| {
            if !MAPS.contains(&parent) {
                objects += 1;
                members.insert(format!("unknown{round}"), additions[round % additions.len()].clone());
            }
        });
        message.passes(&json);
    }
    assert!(objects > 2000, "{objects}");
}

// req: SAMP-011 SAMP-012
#[test]
fn unknown_enum_values_survive() {
    const WORDS: [&str; 12] = [
        "role",
        "audience",
        "theme",
        "taskSupport",
        "status",
        "stopReason",
        "includeContext",
        "action",
        "format",
        "cacheScope",
        "mode",
        "resultType",
    ];
    let mut seen = [0; WORDS.len()];
    for message in messages(300) {
        let mut json = message.json.clone();
        each_object(&mut json, "", &mut |_, members| {
            for (name, member) in members {
                let Some(at) = WORDS.iter().position(|word| word == name) else { continue };
                match member {
                    Value::String(word) => *word = "x-other".to_owned(),
                    Value::Array(words) => words.push(json!("x-other")),
                    _ => continue,
                }
                seen[at] += 1;
            }
        });
        // Input-required results and tasks are recognised by their `resultType`.
        if !message.is_marked() {
            message.passes(&json);
        }
    }
    assert!(seen.iter().all(|count| *count > 3), "{seen:?}");
}

#[test]
fn unknown_kinds_survive_in_every_union() {
    let block = json!({"future": {"a": 1.50}, "type": "hologram", "text": 5, "uri": null});
    for (method, result) in [
        (Method::CallTool, json!({"content": [block, {"type": "resource_link", "uri": "a:b", "name": "n"}, block]})),
        (
            Method::GetPrompt,
            json!({"messages": [
                {"role": "user", "content": block},
                {"role": "user", "content": {"type": "resource_link", "uri": "a:b", "name": "n"}},
            ]}),
        ),
    ] {
        let read = ServerResult::decode(method, &result.to_string()).expect("a result");
        assert_same(&encode(&read, None).expect("text"), &result.to_string());
    }
    let sampled = json!({"role": "assistant", "content": [block, {"text": "a", "type": "text"}], "model": "m"});
    let read = ClientResult::decode(Method::CreateMessage, &sampled.to_string()).expect("a result");
    assert_same(&encode(&read, None).expect("text"), &sampled.to_string());

    for params in [
        json!({"mode": "hologram", "message": "m", "beam": true}),
        json!({"message": "m", "requestedSchema": {"type": "object", "properties": {
            "a": {"type": "object", "properties": {}}, "b": {"type": ["string", "null"]}, "c": {"$ref": "#"},
            "d": {"type": "array", "items": {"type": "object"}}, "e": {"enum": ["x"]},
        }}}),
    ] {
        let read = ServerRequest::decode(Method::Elicit, Some(&params.to_string())).expect("params");
        assert_same(&encode(&read, None).expect("text"), &params.to_string());
    }
    let params = json!({"ref": {"type": "ref/other", "x": 1}, "argument": {"name": "a", "value": ""}});
    let read = ClientRequest::decode(Method::Complete, Some(&params.to_string())).expect("params");
    assert_same(&encode(&read, None).expect("text"), &params.to_string());
}

/// Reads params. Returns their debug text and whether they are empty.
type Reader = fn(Method, Option<&str>) -> Option<(String, bool)>;

/// The members that are required in every object that has them.
const REQUIRED: [&str; 45] = [
    "action",
    "argument",
    "capabilities",
    "clientInfo",
    "completion",
    "const",
    "content",
    "contents",
    "createdAt",
    "enum",
    "enumNames",
    "items",
    "anyOf",
    "oneOf",
    "input",
    "inputSchema",
    "lastUpdatedAt",
    "maxTokens",
    "message",
    "messages",
    "mimeType",
    "model",
    "name",
    "prompts",
    "properties",
    "protocolVersion",
    "ref",
    "requestedSchema",
    "resource",
    "resourceTemplates",
    "resources",
    "role",
    "roots",
    "serverInfo",
    "status",
    "supportedVersions",
    "taskId",
    "tasks",
    "tools",
    "type",
    "uri",
    "uriTemplate",
    "url",
    "values",
    "version",
];

// req: LIFE-031 LIFE-032 ICON-001
#[test]
fn invalid_optional_members_do_not_fail_a_result() {
    let mut odd = 0;
    let mut refused = std::collections::BTreeSet::new();
    for message in messages(25).filter(Message::is_result) {
        for substitute in [json!(null), json!(5), json!([]), json!({}), json!("")] {
            for at in 0.. {
                let mut json = message.json.clone();
                let mut names = Vec::new();
                each_object(&mut json, "", &mut |_, members| {
                    for (name, member) in members {
                        if names.len() == at {
                            *member = substitute.clone();
                        }
                        names.push(name.clone());
                    }
                });
                let Some(name) = names.get(at) else { break };
                // The input requests have params, in which null means absent.
                if substitute.is_null() && message.json.get("inputRequests").is_some() {
                    continue;
                }
                // Without the marker, an input-required result or a task is decoded as an ordinary result.
                if name == "resultType" && message.is_marked() {
                    continue;
                }
                match message.pass(&json) {
                    Ok(written) => {
                        odd += 1;
                        assert!(same(&written, &json), "{}\nread:    {json}\nwritten: {written}", message.method);
                    }
                    // The error names the member, and the member is a required one.
                    Err(error) => {
                        assert!(error.contains(name.as_str()), "{name}: {error}");
                        refused.insert(name.clone());
                    }
                }
            }
        }
    }
    assert!(odd > 5000, "{odd}");
    // These are required in some objects only.
    let others = [
        "blob",
        "id",
        "src",
        "task",
        "text",
        "title",
        "toolUseId",
        "ttl",
        "ttlMs",
        "code",
        "data",
        "skill",
        "skills",
        "frontmatter",
        "description",
        "digest",
        "size",
    ];
    for name in &refused {
        assert!(REQUIRED.contains(&name.as_str()) || others.contains(&name.as_str()), "{name} in {refused:?}");
    }
}

#[test]
fn params_are_strict_but_null_means_absent() {
    let mut nulls = 0;
    let mut errors = 0;
    for message in messages(40).filter(|message| !message.is_result()) {
        let Value::Object(params) = &message.json else { panic!("params are an object") };
        for name in params.keys().filter(|name| !name.starts_with("x-")) {
            let mut absent = message.json.clone();
            absent.as_object_mut().expect("an object").remove(name);
            let mut null = message.json.clone();
            null[name] = json!(null);
            match message.pass(&absent) {
                Ok(without) => {
                    assert_eq!(message.pass(&null), Ok(without), "{} {name}", message.method);
                    nulls += 1;
                }
                Err(error) => {
                    assert!(error.contains(name.as_str()), "{name}: {error}");
                    // The data of a log message and the lifetime of a task may be null.
                    let nullable = matches!(name.as_str(), "data" | "ttl" | "ttlMs");
                    assert_eq!(message.pass(&null).is_ok(), nullable, "{} {name}", message.method);
                }
            }
            if name != "data" {
                let mut wrong = message.json.clone();
                wrong[name] = if message.json[name].is_boolean() { json!(5) } else { json!(true) };
                let error = message.pass(&wrong).expect_err(name);
                assert!(error.contains(name.as_str()), "{name}: {error}");
                errors += 1;
            }
        }
    }
    assert!(nulls > 300 && errors > 500, "{nulls} {errors}");
}

// req: PAGE-001 PAGE-002 TOOL-014 M-TOOL-011
#[test]
fn empty_params_may_be_absent_or_null() {
    let mut optional = Vec::new();
    for method in Method::ALL.iter().copied() {
        let decoders: [Reader; 4] = [
            |m, p| ClientRequest::decode(m, p).ok().map(|read| (format!("{read:?}"), read.is_empty())),
            |m, p| ServerRequest::decode(m, p).ok().map(|read| (format!("{read:?}"), read.is_empty())),
            |m, p| ClientNotification::decode(m, p).ok().map(|read| (format!("{read:?}"), read.is_empty())),
            |m, p| ServerNotification::decode(m, p).ok().map(|read| (format!("{read:?}"), read.is_empty())),
        ];
        for decode in decoders {
            let [absent, null, empty] = [None, Some("null"), Some("{}")].map(|params| decode(method, params));
            assert_eq!(absent, empty, "{method}");
            assert_eq!(null, empty, "{method}");
            if let Some((_, is_empty)) = absent {
                assert!(is_empty, "{method}");
                optional.push(method);
            }
            assert_eq!(decode(method, Some("[]")), None, "{method}");
            assert_eq!(decode(method, Some("5")), None, "{method}");
        }
    }
    for method in [
        Method::Ping,
        Method::ListTools,
        Method::ListPrompts,
        Method::ListResources,
        Method::ListResourceTemplates,
        Method::ListRoots,
        Method::ListTasks,
        Method::Discover,
        Method::Initialized,
        Method::ToolsListChanged,
        Method::PromptsListChanged,
        Method::ResourcesListChanged,
        Method::RootsListChanged,
        Method::Cancelled,
    ] {
        assert!(optional.contains(&method), "{method}");
    }

    for arguments in ["", r#","arguments":null"#] {
        let params: CallToolParams = serde_json::from_str(&format!(r#"{{"name":"a"{arguments}}}"#)).expect("params");
        assert_eq!(params, CallToolParams::new("a"));
        assert!(!ClientRequest::from(params).is_empty());
    }
    for wrong in ["[]", "\"\"", "0", "true"] {
        assert!(serde_json::from_str::<CallToolParams>(&format!(r#"{{"name":"a","arguments":{wrong}}}"#)).is_err());
    }
}

// req: SCHEMA-003 SCHEMA-007 M-TOOL-009
#[test]
fn user_json_is_preserved_verbatim() {
    let odd = r#"{ "b":9223372036854775808, "a":[1e-320,1.0,-0,0.10,1E+2], "b":123456789012345678901234567890 , "\u0061":"\u00e4\/"}"#;
    let spelled = |text: &str| assert!(text.contains(odd), "{text}");
    let result = format!(r#"{{"content":[],"structuredContent":{odd},"_meta":{{"x":{odd}}},"y":{odd}}}"#);
    let read: CallToolResult = serde_json::from_str(&result).expect("a result");
    assert_eq!(read.structured_content.as_ref().map(Json::get), Some(odd));
    assert_eq!(encode(&read, None).expect("text").matches(odd).count(), 3);

    let params = format!(r#"{{"name":"n","arguments":{odd}}}"#);
    let read: CallToolParams = serde_json::from_str(&params).expect("params");
    assert_eq!(read.arguments.as_ref().map(JsonObject::get), Some(odd));
    spelled(&encode(&read, ProtocolVersion::V2024_11_05).expect("text"));

    let schema = r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","$defs":{"x":{"oneOf":[ true ]}},"additionalProperties":false,"maximum":1e400}"#;
    let tool = format!(r#"{{"name":"n","inputSchema":{schema},"outputSchema":{schema}}}"#);
    let read: Tool = serde_json::from_str(&tool).expect("a tool");
    for version in ProtocolVersion::ALL {
        let expected = if version >= ProtocolVersion::V2025_06_18 { 2 } else { 1 };
        assert_eq!(encode(&read, version).expect("text").matches(schema).count(), expected, "{version}");
    }
    let log = format!(r#"{{"level":"info","data":{odd}}}"#);
    let read = ServerNotification::decode(Method::LogMessage, Some(&log)).expect("a message");
    spelled(&encode(&read, None).expect("text"));
    let sampled = format!(
        r#"{{"role":"assistant","content":{{"type":"tool_use","id":"1","name":"n","input":{odd}}},"model":"m"}}"#
    );
    let read: CreateMessageResult = serde_json::from_str(&sampled).expect("a result");
    spelled(&encode(&read, ProtocolVersion::V2025_11_25).expect("text"));
    let payload: GetTaskPayloadResult = serde_json::from_str(&format!(r#"{{"content":{odd}}}"#)).expect("a result");
    spelled(&encode(&payload, ProtocolVersion::V2025_11_25).expect("text"));
}

// req: PROG-008 M-SCHEMA-025 M-PROG-007
#[test]
fn numbers_are_decoded_exactly() {
    let progress = |number: &str| {
        let text = format!(r#"{{"progressToken":1,"progress":{number},"total":{number}}}"#);
        let read = ServerNotification::decode(Method::Progress, Some(&text)).expect("a notification");
        assert_same(&encode(&read, None).expect("text"), &text);
    };
    ["0", "-1", "0.5", "1e-320", "9223372036854775808", "18446744073709551615", "1e300", "0.1", "5e-324"]
        .into_iter()
        .for_each(progress);
    // The last digit is kept.
    let text = r#"{"progressToken":1,"progress":0.30000000000000004}"#;
    let read = ServerNotification::decode(Method::Progress, Some(text)).expect("a notification");
    assert_eq!(encode(&read, None).expect("text"), text);

    let tokens = |number: &str| {
        let text = format!(r#"{{"messages":[],"maxTokens":{number}}}"#);
        match ServerRequest::decode(Method::CreateMessage, Some(&text)) {
            Ok(ServerRequest::CreateMessage(params)) => Some(params.max_tokens),
            _ => None,
        }
    };
    assert_eq!(tokens("100"), Some(100));
    assert_eq!(tokens("100.0"), Some(100));
    assert_eq!(tokens("1e2"), Some(100));
    assert_eq!(tokens("18446744073709551615"), Some(u64::MAX));
    for wrong in ["100.5", "-1", "-1.0", "1e30", "18446744073709551616", "\"100\"", "true", "[]"] {
        assert_eq!(tokens(wrong), None, "{wrong}");
    }

    let value = json!({"action": "accept", "content": {"a": 0.5, "b": 9007199254740993_u64, "c": -3, "d": 1e-320}});
    let read: ElicitResult = serde_json::from_value(value.clone()).expect("a result");
    assert_same(&encode(&read, ProtocolVersion::V2025_06_18).expect("text"), &value.to_string());
}

#[test]
fn duplicate_members_are_refused() {
    for text in [
        r#"{"content":[],"content":[]}"#,
        r#"{"content":[],"isError":true,"isError":true}"#,
        r#"{"content":[],"isError":5,"isError":true}"#,
        r#"{"content":[{"type":"text","text":"","text":""}]}"#,
        r#"{"content":[{"type":"text","text":"","type":"text"}]}"#,
        r#"{"content":[{"type":"resource","resource":{"uri":"","uri":"","text":""}}]}"#,
    ] {
        let error = serde_json::from_str::<CallToolResult>(text).expect_err(text).to_string();
        assert!(error.contains("duplicate member"), "{error}");
    }
}

#[test]
fn members_are_accepted_in_any_order() {
    let ordered = r#"{"type":"image","data":"aGk=","mimeType":"image/png","annotations":{"priority":0.5},"x":[1]}"#;
    let shuffled = r#"{"x":[1],"annotations":{"priority":0.5},"mimeType":"image/png","data":"aGk=","type":"image"}"#;
    let escaped = r#"{"\u0078":[1],"d\u0061ta":"aGk\u003d","mimeType":"image\/png","annotations":{"priority":0.5},"t\u0079pe":"im\u0061ge"}"#;
    let read = |text: &str| {
        let result: CallToolResult = serde_json::from_str(&format!(r#"{{"content":[{text}]}}"#)).expect(text);
        result.content.into_iter().next().expect("a block")
    };
    let expected = read(ordered);
    assert_eq!(encode(&expected, None).expect("text"), ordered);
    assert_eq!(read(shuffled), expected);
    assert_eq!(encode(&read(escaped), None).expect("text").len(), ordered.len());
    assert!(same(&value(&encode(&read(escaped), None).expect("text")), &value(ordered)));
    // Also from a `Value`, where members are sorted and cannot be borrowed.
    let from_value: ContentBlock = serde_json::from_value(value(shuffled)).expect("a block");
    assert_same(&encode(&from_value, None).expect("text"), ordered);
    let from_reader: ContentBlock = serde_json::from_reader(shuffled.as_bytes()).expect("a block");
    assert_same(&encode(&from_reader, None).expect("text"), ordered);
}

#[test]
fn deep_and_truncated_input_never_panics() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = format!(r#"{{"content":[],"structuredContent":{deep},"x":{deep},"_meta":{{"a":{deep}}}}}"#);
    let result: CallToolResult = serde_json::from_str(&text).expect("raw values are not entered");
    assert_eq!(encode(&result, None).expect("text").len(), text.len());
    for method in Method::ALL.iter().copied() {
        for text in [&deep, &format!(r#"{{"_meta":{deep},"content":{deep},"messages":{deep},"task":{deep}}}"#)] {
            _ = ClientRequest::decode(method, Some(text));
            _ = ServerRequest::decode(method, Some(text));
            _ = ClientNotification::decode(method, Some(text));
            _ = ServerNotification::decode(method, Some(text));
            _ = ServerResult::decode(method, text);
            _ = ClientResult::decode(method, text);
        }
    }
    for message in messages(4) {
        let text = message.json.to_string();
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            assert!((message.decode)(message.method, &text[..end]).is_err(), "{}", &text[..end]);
        }
    }
}

/// JSON can contain half of a surrogate pair, and a string cannot. Raw JSON is kept and written unchanged. Where a type
/// requires a string, it is refused.
#[test]
fn lone_surrogates_are_kept_in_raw_json() {
    // Unknown members of all kinds of objects: results, content blocks, capabilities, `_meta`.
    let kept = [
        r#"{"content":[],"\ud800":1}"#,
        r#"{"\ud800":{"\udc00":2},"content":[]}"#,
        r#"{"content":[],"x":"\ud800","a\n\udfff":[]}"#,
        r#"{"content":[{"type":"text","text":"t","\ud800":1}]}"#,
        r#"{"content":[{"\ud800":1,"type":"text","text":"t"}]}"#,
        r#"{"content":[{"type":"other","\ud800":1}]}"#,
        r#"{"_meta":{"\ud800":1,"a/\udc00":"\ud800"},"content":[]}"#,
        r#"{"content":[],"structuredContent":{"\ud800":"\udc00"}}"#,
        r#"{"content":[],"\ud800":1,"\ud800":2,"\udc00":3}"#,
    ];
    for text in kept {
        let read: CallToolResult = Json::parse(text).expect("JSON").decode().expect(text);
        let mut written = Vec::new();
        read.append_at(None, &mut JsonLine::new(&mut written)).expect(text);
        let written = String::from_utf8(written).expect("text");
        let again: CallToolResult = Json::parse(written.as_str()).expect("JSON").decode().expect(text);
        assert_eq!(read, again, "{written}");
        for half in ["\\ud800", "\\udc00", "\\udfff"] {
            assert_eq!(written.matches(half).count(), text.matches(half).count(), "{written}");
        }
    }
    for text in [r#"{"content":[{"type":"text","text":"\ud800"}]}"#, r#"{"content":[{"type":"\ud800"}]}"#] {
        assert!(Json::parse(text).expect("JSON").decode::<CallToolResult>().is_err(), "{text}");
    }
    let names = r#"{"action":"accept","content":{"\ud800":"x"}}"#;
    let read = Json::parse(names).expect("JSON").decode::<ElicitResult>();
    assert!(read.is_err() || read.is_ok_and(|read| read.content.is_none()), "the keys of a map are texts");
}

/// A member is recognised by its decoded name.
#[test]
fn escaped_member_names_are_decoded() {
    let read = |text: &str| Json::parse(text).expect("JSON").decode::<CallToolResult>();
    let plain = read(r#"{"content":[],"isError":true,"x\ny":1}"#).expect("a result");
    for text in [
        r#"{"c\u006fntent":[],"\u0069sError":true,"x\u000ay":1}"#,
        r#"{"\u0063\u006F\u006e\u0074\u0065\u006e\u0074":[],"isErro\u0072":true,"\u0078\n\u0079":1}"#,
        "{ \"c\\u006fntent\" :\n[] , \"isError\" : true , \"x\\ny\"\t:\n1 }",
    ] {
        assert_eq!(read(text).expect(text), plain, "{text}");
    }
    for twice in [r#"{"content":[],"c\u006fntent":[]}"#, r#"{"c\u006fntent":[],"content":[]}"#] {
        assert!(read(twice).is_err(), "{twice}");
    }
    // These are other names.
    for text in [r#"{"content":[],"\"isError\"":true}"#, r#"{"content":[],"isErro\\u0072":true}"#] {
        let other = read(text).expect(text);
        assert_eq!((other.is_error, other.extra.len()), (None, 1), "{text}");
        assert_same(&encode(&other, ProtocolVersion::V2025_11_25).expect(text), text);
    }
}
