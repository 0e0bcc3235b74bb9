//! Requests of servers to the model (sampling) and to the user (elicitation).

use crate::schema_support::{assert_same, encode, shape, value};
use mcp_proto::{protocol::ProtocolVersion, schema::*};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn is<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_str(&json.to_string()).unwrap_or_else(|error| panic!("{error} in {json}"))
}

fn fails<T: DeserializeOwned + std::fmt::Debug>(json: Value) {
    serde_json::from_str::<T>(&json.to_string()).expect_err(&json.to_string());
}

// req: SAMP-004 SAMP-005 SAMP-009 SAMP-026 M-SCHEMA-025 M-SAMP-006 M-SAMP-009 M-SAMP-010 M-SAMP-011
#[test]
fn sampling_params() {
    let full = json!({"_meta": {}, "messages": [{"role": "user", "content": {"type": "text", "text": "t"}}], "maxTokens": 5,
        "modelPreferences": {"hints": [{"name": "a"}], "costPriority": 0.5}, "systemPrompt": "s", "includeContext": "allServers",
        "temperature": 0.7, "stopSequences": ["x", ""], "metadata": {"a": [1.50]}, "tools": [], "toolChoice": {"mode": "required"}});
    shape::<CreateMessageParams>(full.clone(), &["messages", "maxTokens"]);
    let read: CreateMessageParams = is(full);
    assert_eq!(read.system_prompt.as_deref(), Some("s"));
    assert_eq!(read.temperature.as_ref().and_then(|number| number.as_f64()), Some(0.7));
    assert_eq!(read.stop_sequences.as_deref(), Some(&["x".to_owned(), String::new()][..]));
    assert_eq!((read.context(), read.tool_mode()), (&IncludeContext::AllServers, &ToolChoiceMode::Required));
    for wrong in
        [json!([{"role": "user"}]), json!([{"content": {"type": "text", "text": ""}}]), json!({}), json!(["hi"])]
    {
        fails::<CreateMessageParams>(json!({"messages": wrong, "maxTokens": 5}));
    }

    let silent: CreateMessageParams = is(json!({"messages": [], "maxTokens": 5}));
    assert_eq!((silent.context(), silent.tool_mode()), (&IncludeContext::None, &ToolChoiceMode::Auto));
    for version in ProtocolVersion::LEGACY {
        let sent = value(&encode(&silent, version).expect("text"));
        assert_eq!(
            (sent.get("includeContext"), is::<CreateMessageParams>(sent.clone()).context()),
            (None, &IncludeContext::None),
            "{version}"
        );
    }
    let vague: CreateMessageParams = is(json!({"messages": [], "maxTokens": 5, "toolChoice": {}}));
    assert_eq!(vague.tool_mode(), &ToolChoiceMode::Auto);
    for (word, mode) in
        [("auto", ToolChoiceMode::Auto), ("required", ToolChoiceMode::Required), ("none", ToolChoiceMode::None)]
    {
        assert_eq!(is::<ToolChoice>(json!({"mode": word})).mode, Some(mode.clone()));
        assert_eq!(mode.as_str(), word);
    }
    for (word, context) in [
        ("none", IncludeContext::None),
        ("thisServer", IncludeContext::ThisServer),
        ("allServers", IncludeContext::AllServers),
    ] {
        let params: CreateMessageParams = is(json!({"messages": [], "maxTokens": 5, "includeContext": word}));
        assert_eq!(params.context(), &context);
        assert_eq!(context.as_str(), word);
    }
}

// req: SAMP-010 SAMP-011 SAMP-012 SAMP-021 SAMP-033 M-SAMP-019 M-SAMP-021
#[test]
fn sampling_results() {
    let text = json!({"type": "text", "text": "t"});
    shape::<CreateMessageResult>(
        json!({"_meta": {}, "role": "assistant", "content": text, "model": "m", "stopReason": "endTurn"}),
        &["role", "content", "model"],
    );
    let stopped = |word: &str| {
        let json = json!({"role": "assistant", "content": text, "model": "m", "stopReason": word});
        let read: CreateMessageResult = is(json.clone());
        for version in ProtocolVersion::ALL {
            assert_same(&encode(&read, version).expect("text"), &json.to_string());
        }
        read.stop_reason.expect("a reason")
    };
    assert_eq!(stopped("endTurn"), StopReason::EndTurn);
    assert_eq!(stopped("stopSequence"), StopReason::StopSequence);
    assert_eq!(stopped("maxTokens"), StopReason::MaxTokens);
    assert_eq!(stopped("toolUse"), StopReason::ToolUse);
    assert_eq!(stopped("refused by the moon"), StopReason::Other("refused by the moon".into()));
    assert_eq!(
        is::<CreateMessageResult>(json!({"role": "assistant", "content": text, "model": "m"})).stop_reason,
        None
    );

    let parallel = json!({"role": "assistant", "model": "m", "stopReason": "toolUse", "content": [
        {"type": "tool_use", "id": "1", "name": "a", "input": {}}, {"type": "tool_use", "id": "2", "name": "a", "input": {}}]});
    let read: CreateMessageResult = is(parallel.clone());
    let ids = read.content.iter().map(|content| match content {
        SamplingContent::ToolUse(used) => used.id.as_str(),
        other => panic!("{other:?}"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), ["1", "2"]);
    assert_same(&encode(&read, ProtocolVersion::V2025_11_25).expect("text"), &parallel.to_string());
}

// req: SAMP-015 SAMP-016 M-SAMP-011 M-SAMP-020
#[test]
fn single_content_equals_a_one_element_array() {
    let piece = json!({"type": "text", "text": "t"});
    let message = |content: Value| json!({"role": "user", "content": content});
    let result = |content: Value| json!({"role": "assistant", "content": content, "model": "m"});
    let one: SamplingMessage = is(message(piece.clone()));
    let many: SamplingMessage = is(message(json!([piece])));
    assert_eq!(one, many);
    assert_eq!(one.content.as_slice(), many.content.as_slice());
    assert_eq!(is::<CreateMessageResult>(result(piece.clone())), is(result(json!([piece]))));
    assert_ne!(one, is(message(json!([piece, piece]))));
    assert_ne!(one, is(message(json!([]))));
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        assert_same(&encode(&one, version).expect("text"), &message(piece.clone()).to_string());
        assert_same(&encode(&many, version).expect("text"), &message(json!([piece])).to_string());
    }
    assert_eq!(many.content.clone().into_vec(), one.content.clone().into_vec());
    for wrong in [json!("t"), json!(5), json!(null), json!(["t"]), json!([[piece]])] {
        fails::<SamplingMessage>(message(wrong));
    }
}

// req: SAMP-027 SAMP-028 M-SAMP-017 M-SAMP-018
#[test]
fn tool_use_and_tool_result_content() {
    shape::<SamplingContent>(
        json!({"type": "tool_use", "id": "1", "name": "n", "input": {"a": 1}, "_meta": {}}),
        &["type", "id", "name", "input"],
    );
    fails::<SamplingContent>(json!({"type": "tool_use", "id": "1", "name": "n", "input": "a"}));
    shape::<SamplingContent>(
        json!({"type": "tool_result", "toolUseId": "1", "content": [{"type": "resource_link", "uri": "a:b", "name": "n"}],
            "structuredContent": {"a": 1}, "isError": true, "_meta": {}}),
        &["type", "toolUseId", "content"],
    );
    let silent: ToolResultContent = is(json!({"type": "tool_result", "toolUseId": "1", "content": []}));
    assert!(!silent.is_error());
    assert!(
        is::<ToolResultContent>(json!({"type": "tool_result", "toolUseId": "1", "content": [], "isError": true}))
            .is_error()
    );
    assert_eq!(silent, ToolResultContent::new("1", []));
}

// req: SAMP-019 SAMP-020 M-SCHEMA-025 M-SAMP-022 M-SAMP-023 M-SAMP-024
#[test]
fn preferences() {
    shape::<ModelPreferences>(
        json!({"hints": [{"name": "a"}, {}], "costPriority": 0, "speedPriority": 1, "intelligencePriority": 0.5}),
        &[],
    );
    for name in ["costPriority", "speedPriority", "intelligencePriority"] {
        for (priority, valid) in
            [(json!(0), true), (json!(1), true), (json!(0.25), true), (json!(1.01), false), (json!(-1), false)]
        {
            assert_eq!(is::<ModelPreferences>(json!({name: priority})).is_valid(), valid, "{name} {priority}");
        }
    }
    let hinted =
        |hints: Value| is::<ModelPreferences>(json!({"hints": hints})).hinted(&["opus-4", "sonnet-4", "sonnet-4-5"]);
    assert_eq!(hinted(json!([{"name": "sonnet"}, {"name": "opus"}])), Some("sonnet-4"));
    assert_eq!(hinted(json!([{"name": "gpt"}, {}, {"name": "4-5"}, {"name": "opus"}])), Some("sonnet-4-5"));
    assert_eq!(hinted(json!([{"name": "gpt"}])), None);
    for version in ProtocolVersion::LEGACY {
        for (hints, expected) in [(["sonnet", "opus"], "sonnet-4"), (["opus", "sonnet"], "opus-4")] {
            let hints = hints.map(|name| json!({"name": name}));
            let preferences = is::<ModelPreferences>(json!({"hints": hints}));
            let params =
                CreateMessageParams { model_preferences: Some(preferences), ..CreateMessageParams::new([], 5_u64) };
            let read = is::<CreateMessageParams>(value(&encode(&params, version).expect("text")));
            let hinted =
                read.model_preferences.expect("preferences").hinted(&["opus-4", "sonnet-4"]).map(str::to_owned);
            assert_eq!(hinted.as_deref(), Some(expected), "{version}");
        }
    }
    assert_eq!(ModelPreferences::default().hinted(&["a"]), None);
}

// req: SAMP-029 SAMP-030 M-SAMP-013 M-SAMP-014 M-SAMP-015
#[test]
fn tool_results_must_match_tool_uses() {
    let text = json!({"type": "text", "text": "t"});
    let used = |id: &str| json!({"type": "tool_use", "id": id, "name": "n", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "toolUseId": id, "content": []});
    let check = |messages: &[(&str, Value)]| {
        let messages: Vec<_> =
            messages.iter().map(|(role, content)| json!({"role": role, "content": content})).collect();
        check_tool_results(&is::<Vec<SamplingMessage>>(json!(messages)))
    };
    use ToolResultFault::{Missing, Mixed};
    let (user, model) = ("user", "assistant");
    assert_eq!(check(&[]), Ok(()));
    assert_eq!(check(&[(user, text.clone()), (model, text.clone())]), Ok(()));
    assert_eq!(check(&[(model, used("1")), (user, result("1"))]), Ok(()));
    assert_eq!(
        check(&[
            (model, json!([text, used("1"), used("2")])),
            (user, json!([result("2"), result("1")])),
            (model, text.clone())
        ]),
        Ok(())
    );
    assert_eq!(check(&[(model, used("1"))]), Err(Missing(0)));
    assert_eq!(check(&[(user, text.clone()), (model, used("1")), (user, text.clone())]), Err(Missing(1)));
    assert_eq!(check(&[(model, used("1")), (model, result("1"))]), Err(Missing(0)));
    assert_eq!(check(&[(model, used("1")), (user, result("2"))]), Err(Missing(0)));
    assert_eq!(check(&[(model, json!([used("1"), used("2")])), (user, result("1"))]), Err(Missing(0)));
    assert_eq!(check(&[(model, used("1")), (user, text.clone()), (user, result("1"))]), Err(Missing(0)));
    assert_eq!(check(&[(user, json!([text, result("1")]))]), Err(Mixed(0)));
    assert_eq!(check(&[(model, used("1")), (user, json!([result("1"), text]))]), Err(Mixed(1)));

    // Such a conversation cannot be encoded.
    let unanswered = json!({"messages": [{"role": model, "content": used("1")}], "maxTokens": 5});
    let params: CreateMessageParams = is(unanswered);
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let error = encode(&params, version).expect_err("no result");
        assert_eq!(error, format!("CreateMessageParams.messages has a value that {version} does not allow"));
    }
}

// req: ELIC-007 ELIC-008 ELIC-009 ELIC-010 ELIC-013 ELIC-014 ELIC-035 M-ELIC-006 M-ELIC-007 M-ELIC-009 M-ELIC-012
#[test]
fn elicitation_params() {
    let schema = json!({"type": "object", "$schema": "x", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    shape::<ElicitSchema>(schema.clone(), &["type", "properties"]);
    fails::<ElicitSchema>(json!({"type": "array", "properties": {}}));
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25] {
        for required in [json!(null), json!(["a"])] {
            let mut requested = json!({"type": "object", "properties": {"a": {"type": "string"}}});
            if required.is_array() {
                requested["required"] = required;
            }
            let form = is::<ElicitFormParams>(json!({"message": "m", "requestedSchema": requested}));
            let sent = value(&encode(&form, version).expect("text"));
            assert_eq!(sent["requestedSchema"], requested, "{version}");
        }
    }
    for mode in [json!({}), json!({"mode": "form"})] {
        let mut form = json!({"_meta": {}, "message": "m", "requestedSchema": schema, "task": {}});
        form.as_object_mut().expect("an object").extend(mode.as_object().cloned().expect("an object"));
        shape::<ElicitFormParams>(form.clone(), &["message", "requestedSchema"]);
        assert!(matches!(is(form), ElicitParams::Form(_)));
    }
    let page =
        json!({"_meta": {}, "mode": "url", "message": "m", "url": "https://a/b", "elicitationId": " é\n1", "task": {}});
    shape::<ElicitUrlParams>(page.clone(), &["mode", "message", "url"]);
    match is(page) {
        ElicitParams::Url(params) => assert_eq!(params.elicitation_id.as_deref(), Some(" é\n1")),
        other => panic!("{other:?}"),
    }
    fails::<ElicitParams>(json!({"mode": "url", "message": "m"}));
    fails::<ElicitParams>(json!({"mode": "form", "message": "m", "url": "https://a/b"}));
    fails::<ElicitParams>(json!({"mode": 5, "message": "m", "requestedSchema": schema}));
    assert!(matches!(is(json!({"mode": null, "message": "m", "requestedSchema": schema})), ElicitParams::Form(_)));
    shape::<ElicitationCompleteParams>(json!({"_meta": {}, "elicitationId": " é\n1"}), &["elicitationId"]);
}

// req: ELIC-015 ELIC-016 ELIC-017 ELIC-018 ELIC-019 ELIC-020 ELIC-021 ELIC-022 ELIC-023 M-ELIC-013 M-ELIC-014 M-ELIC-015 M-ELIC-016 M-ELIC-017
#[test]
fn elicitation_form_fields() {
    let about = |mut json: Value| {
        json["title"] = json!("T");
        json["description"] = json!("d");
        json
    };
    let option = json!({"const": "a", "title": "A"});
    shape::<EnumOption>(option.clone(), &["const", "title"]);
    macro_rules! field {
        ($Variant:ident, $json:tt, $required:expr) => {
            let json = about(json!($json));
            shape::<PrimitiveSchema>(json.clone(), &$required);
            assert!(matches!(is(json), PrimitiveSchema::$Variant(_)));
        };
    }
    // A field without its type has an unknown kind, but is still a field.
    field!(String, {"type": "string", "minLength": 1, "maxLength": 5, "format": "email", "default": "x"}, []);
    field!(String, {"type": "string", "pattern": "^a$"}, []);
    field!(Number, {"type": "number", "minimum": 0.5, "maximum": 1e300, "default": 0.75}, []);
    field!(Number, {"type": "integer", "minimum": -5, "maximum": 5, "default": 0}, []);
    field!(Boolean, {"type": "boolean", "default": true}, []);
    field!(UntitledSingleSelect, {"type": "string", "enum": ["a", "b"], "default": "a"}, []);
    field!(LegacyTitledEnum, {"type": "string", "enum": ["a"], "enumNames": ["A"], "default": "a"}, ["enum"]);
    field!(TitledSingleSelect, {"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"}, []);
    field!(UntitledMultiSelect, {"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1, "maxItems": 2, "default": ["a"]}, []);
    field!(TitledMultiSelect, {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "minItems": 1, "maxItems": 2, "default": []}, []);

    let format = |word: &str| is::<StringSchema>(json!({"type": "string", "format": word})).format.expect("a format");
    for (word, known) in [
        ("email", StringFormat::Email),
        ("uri", StringFormat::Uri),
        ("date", StringFormat::Date),
        ("date-time", StringFormat::DateTime),
    ] {
        assert_eq!(format(word), known);
        assert_eq!(known.as_str(), word);
    }
    match is(json!({"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1, "maxItems": 2})) {
        PrimitiveSchema::UntitledMultiSelect(schema) => {
            assert_eq!(
                (schema.min_items, schema.max_items, schema.items.values),
                (Some(1), Some(2), vec!["a".to_owned()])
            );
        }
        other => panic!("{other:?}"),
    }

    let flat = |property: Value| {
        is::<ElicitSchema>(json!({"type": "object", "properties": {"a": property, "b": {"type": "string"}}}))
    };
    for nested in [
        json!({"type": "object", "properties": {}}),
        json!({"type": "array", "items": {"type": "object"}}),
        json!({"type": "array", "items": {"type": "array", "items": {}}}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"type": "array"}),
        json!({"type": "null"}),
        json!({}),
    ] {
        let schema = flat(nested.clone());
        assert!(!schema.is_flat(), "{nested}");
        for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
            assert!(encode(&schema, version).is_err(), "{nested}");
        }
    }
    assert!(flat(json!({"type": "string"})).is_flat());
    // An array is a multiple choice, which 2025-06-18 does not have.
    let choice = flat(json!({"type": "array", "items": {"type": "string", "enum": ["a"]}}));
    assert!(choice.is_flat() && encode(&choice, ProtocolVersion::V2025_06_18).is_err());
    assert!(encode(&choice, ProtocolVersion::V2025_11_25).is_ok());
}

// req: ELIC-024 ELIC-025 ELIC-026 ELIC-028 M-SCHEMA-026 M-ELIC-019 M-ELIC-020
#[test]
fn elicitation_results() {
    shape::<ElicitResult>(json!({"_meta": {}, "action": "accept", "content": {"a": "b"}}), &["action"]);
    for (word, action) in
        [("accept", ElicitAction::Accept), ("decline", ElicitAction::Decline), ("cancel", ElicitAction::Cancel)]
    {
        let read: ElicitResult = is(json!({"action": word}));
        assert_eq!((&read.action, read.action.as_str()), (&action, word));
        assert_eq!(read.content, None);
    }
    let june = ProtocolVersion::V2025_06_18;
    assert_eq!(encode(&ElicitResult::decline(), june).expect("text"), r#"{"action":"decline"}"#);
    assert_eq!(encode(&ElicitResult::cancel(), june).expect("text"), r#"{"action":"cancel"}"#);
    assert_eq!(
        encode(
            &ElicitResult::accept([("a", "b".into()), ("c", true.into()), ("d", ElicitValue::Number(5.into()))]),
            june
        )
        .expect("text"),
        r#"{"action":"accept","content":{"a":"b","c":true,"d":5}}"#
    );
    let read: ElicitResult =
        is(json!({"action": "accept", "content": {"a": "b", "c": true, "d": 0.5, "e": ["f", "g"], "h": [1]}}));
    let content = read.content.as_ref().expect("content");
    assert_eq!(content.get("a"), Some(&ElicitValue::String("b".into())));
    assert_eq!(content.get("c"), Some(&ElicitValue::Boolean(true)));
    assert!(matches!(content.get("d"), Some(ElicitValue::Number(number)) if number.as_f64() == Some(0.5)));
    assert_eq!(content.get("e"), Some(&ElicitValue::Strings(vec!["f".into(), "g".into()])));
    assert!(matches!(content.get("h"), Some(ElicitValue::Other(_))));
    // A value that no form can ask for is not encoded for a peer.
    assert!(encode(&read, ProtocolVersion::V2025_11_25).is_err());
    assert!(encode(&read, ProtocolVersion::V2026_07_28).is_err());
    // Some clients write `null` for an absent member.
    let odd: ElicitResult = is(json!({"action": "decline", "content": null}));
    assert_eq!((odd.content.is_none(), odd.action), (true, ElicitAction::Decline));
}

// req: ELIC-037 ELIC-039
#[test]
fn url_elicitation_required_data() {
    let data =
        json!({"elicitations": [{"mode": "url", "message": "m", "url": "https://a", "elicitationId": "e"}], "x": 1});
    let read: UrlElicitationRequired = is(data.clone());
    assert_eq!((read.elicitations[0].url.as_str(), read.elicitations[0].message.as_str()), ("https://a", "m"));
    assert_same(&encode(&read, ProtocolVersion::V2025_11_25).expect("text"), &data.to_string());
    assert!(
        encode(&UrlElicitationRequired::new([ElicitUrlParams::new("m", "https://a")]), ProtocolVersion::V2025_11_25)
            .is_err()
    );
    fails::<UrlElicitationRequired>(json!({"elicitations": [{"mode": "form", "message": "m"}]}));
    assert_eq!(value(&encode(&read, None).expect("text"))["elicitations"][0]["mode"], "url");
}

/// A peer may send as many results as a message holds, so they are not compared pairwise.
#[test]
fn many_tool_results_are_checked_in_linear_time() {
    const MANY: usize = 50_000;
    let uses = (0..MANY).map(|id| json!({"type": "tool_use", "id": id.to_string(), "name": "t", "input": {}}));
    let result = |id: usize| json!({"type": "tool_result", "toolUseId": id.to_string(), "content": []});
    let messages = |results: Vec<Value>| {
        is::<Vec<SamplingMessage>>(json!([
            {"role": "assistant", "content": uses.clone().collect::<Vec<_>>()},
            {"role": "user", "content": results},
        ]))
    };
    assert_eq!(check_tool_results(&messages((0..MANY).rev().map(result).collect())), Ok(()));
    assert_eq!(check_tool_results(&messages((1..MANY).map(result).collect())), Err(ToolResultFault::Missing(0)));
}
