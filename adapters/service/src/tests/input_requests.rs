//! Server-initiated requests in 2026-07-28 and their responses by clients: forms, URLs, sampling and roots.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use mcp_proto::{
    protocol::{ProtocolVersion, VersionSet},
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult,
        ElicitUrlParams, ElicitValue, IncludeContext, InputRequest, ListRootsParams, ModelPreferences, Role, Root,
        SamplingContent, SamplingMessage, ToolResultContent, ToolUseContent,
    },
    wire::JsonObject,
};
use serde_json::{Value, json};

use super::modern::{everything, form, modern, said, send, text};
use super::pair::Pair;
use crate::{
    client::{Host, builder::HostBuilder, roots::Roots},
    inbound::{context::Context, failure::Failure},
    outbound::error::CallError,
    server::{service::Service, tool::Tool},
    util::lock::lock,
};

/// Calls a tool, with responses to its input requests if there are any. Returns the result.
fn send_request(
    pair: &Pair,
    capabilities: Value,
    params: Value,
    answers: Option<(&Value, Value)>,
) -> Result<Value, Value> {
    let mut params = params;
    if let Some((requested, answers)) = answers {
        params["requestState"] = requested["requestState"].clone();
        params["inputResponses"] = answers;
    }
    send(pair, "tools/call", params, capabilities)
}

/// A handler without a context cannot request input, but the state of an earlier round is checked all the same.
#[test]
fn state_is_checked_for_handlers_without_a_context() {
    let tool = Tool::new("plain", || "x");
    let pair = modern(&Service::builder("test", "1").tool(tool).build().expect("a tool"));
    let result = send_request(&pair, json!({}), json!({"name": "plain", "arguments": {}}), None).expect("a result");
    assert_eq!(text(&result), "x");
    for (member, value) in [("requestState", json!("forged")), ("inputResponses", json!([]))] {
        let params = json!({"name": "plain", "arguments": {}, member: value});
        let error = send_request(&pair, json!({}), params, None).expect_err(member);
        assert_eq!(error["code"], -32602, "{error}");
    }
}

// req: M-ELIC-005 M-ELIC-006 M-ELIC-007 M-ELIC-009 M-ELIC-010 M-SAMP-005 M-SAMP-006 M-ROOT-002 M-MRTR-007
#[test]
fn input_requests_follow_the_revision() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("all", |context: Context| {
            let page = ElicitUrlParams {
                elicitation_id: Some("of another time".into()),
                ..ElicitUrlParams::new("Sign in", "https://example.com/in")
            };
            let input_requests: [(_, InputRequest); 4] = [
                ("form", ElicitParams::from(ElicitFormParams::new("Who are you?", form("name"))).into()),
                ("page", ElicitParams::from(page).into()),
                ("model", CreateMessageParams::new([SamplingMessage::user("Hi")], 10_u64).into()),
                ("roots", ListRootsParams::default().into()),
            ];
            context.request_inputs(input_requests).wait().map(|_| "all of them")
        }))
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let requested = send_request(&pair, everything(), json!({"name": "all"}), None).expect("input requests");
    assert_eq!(
        requested["inputRequests"],
        json!({
            "form": {"method": "elicitation/create", "params": {"message": "Who are you?", "requestedSchema": {
                "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}},
            "page": {"method": "elicitation/create", "params": {
                "mode": "url", "message": "Sign in", "url": "https://example.com/in"}},
            "model": {"method": "sampling/createMessage", "params": {
                "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 10}},
            "roots": {"method": "roots/list", "params": {}},
        })
    );
    let answers = json!({
        "form": {"action": "accept", "content": {"name": "Ada"}}, "page": {"action": "accept"},
        "model": {"role": "assistant", "content": [{"type": "text", "text": "fine"}], "model": "m", "stopReason": "moon"},
        "roots": {"roots": []},
    });
    let done =
        send_request(&pair, everything(), json!({"name": "all"}), Some((&requested, answers))).expect("a result");
    assert_eq!(text(&done), "all of them");
}

// req: M-META-012 M-META-013 M-SAMP-003 M-SAMP-004 M-ELIC-003 M-ELIC-004 M-ROOT-003
#[test]
fn sends_only_input_requests_the_client_declares() {
    let model = |f: fn(CreateMessageParams) -> CreateMessageParams| {
        move |context: Context| {
            let params = f(CreateMessageParams::new([SamplingMessage::user("Hi")], 10_u64));
            context.sample(params).wait().map(|_| "sampled")
        }
    };
    let service = Service::builder("test", "1")
        .tool(Tool::new("model", model(|params| params)))
        .tool(Tool::new("tools", model(|params| CreateMessageParams { tools: Some(Vec::new()), ..params })))
        .tool(Tool::new(
            "context",
            model(|params| CreateMessageParams { include_context: Some(IncludeContext::AllServers), ..params }),
        ))
        .tool(Tool::new("form", |context: Context| context.elicit("Who?", form("name")).wait().map(|_| "asked")))
        .tool(Tool::new("page", |context: Context| {
            context.elicit_url("Sign in", "https://example.com/").wait().map(|_| "asked")
        }))
        .tool(Tool::new("roots", |context: Context| context.roots().wait().map(|_| "listed")))
        .build()
        .expect("a good service");
    // A session in which everything is declared, on the same service, makes no difference.
    let host = super::modern::obliging().sampling_with_tools().sampling_with_context().build();
    let beside = Pair::new(&host, &service, ProtocolVersion::V2025_11_25);
    for pair in [modern(&service), beside] {
        let (form, url) = (json!({"elicitation": {"form": {}}}), json!({"elicitation": {"url": {}}}));
        let (any, model, tools) =
            (json!({"elicitation": {}}), json!({"sampling": {}}), json!({"sampling": {"tools": {}}}));
        let roots = json!({"roots": {}});
        let nothing = json!({});
        // The tool, the declared capabilities, and the missing capability if there is one.
        let table = [
            ("model", &nothing, Some(json!({"sampling": {}}))),
            ("model", &form, Some(json!({"sampling": {}}))),
            ("model", &model, None),
            ("tools", &model, Some(json!({"sampling": {"tools": {}}}))),
            ("tools", &tools, None),
            ("form", &nothing, Some(json!({"elicitation": {"form": {}}}))),
            ("form", &url, Some(json!({"elicitation": {"form": {}}}))),
            ("form", &form, None),
            ("form", &any, None),
            ("page", &any, Some(json!({"elicitation": {"url": {}}}))),
            ("page", &form, Some(json!({"elicitation": {"url": {}}}))),
            ("page", &url, None),
            ("roots", &nothing, Some(json!({"roots": {}}))),
            ("roots", &model, Some(json!({"roots": {}}))),
            ("roots", &roots, None),
        ];
        for (name, declared, missing) in table {
            match (send_request(&pair, declared.clone(), json!({ "name": name }), None), missing) {
                (Ok(requested), None) => assert_eq!(requested["resultType"], "input_required", "{name} {declared}"),
                (Err(error), Some(missing)) => {
                    assert_eq!((&error["code"], &error["data"]["requiredCapabilities"]), (&json!(-32021), &missing));
                }
                (answer, _) => panic!("{name} {declared}: {answer:?}"),
            }
        }
        // A context that the client cannot include is not requested.
        let requested = send_request(&pair, model, json!({"name": "context"}), None).expect("input requests");
        assert_eq!(requested["inputRequests"]["q1"]["params"].get("includeContext"), None);
        let gives = json!({"sampling": {"context": {}}});
        let requested = send_request(&pair, gives, json!({"name": "context"}), None).expect("input requests");
        assert_eq!(requested["inputRequests"]["q1"]["params"]["includeContext"], "allServers");
        let lines = pair.server.take_lines();
        assert!(lines.iter().all(|line| line.get("method").is_none()), "the server has sent no request: {lines:?}");
    }
}

// req: M-ELIC-024
#[test]
fn handler_receives_each_elicitation_action() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("form", |context: Context| {
            context.elicit("Who are you?", form("name")).wait().map(|answer| said(&answer, "name"))
        }))
        .build()
        .expect("a good service");
    let pair = modern(&service);
    for (answer, expected) in [
        (json!({"action": "accept", "content": {"name": "Ada"}}), "String(\"Ada\")"),
        (json!({"action": "decline"}), "decline"),
        (json!({"action": "cancel"}), "cancel"),
        (json!({"action": "decline", "content": null}), "decline"),
    ] {
        let requested = send_request(&pair, everything(), json!({"name": "form"}), None).expect("input requests");
        let answers = json!({ "q1": answer });
        let done =
            send_request(&pair, everything(), json!({"name": "form"}), Some((&requested, answers))).expect("a result");
        assert_eq!(text(&done), expected);
    }
    // A client that does not retry leaves no state.
    for _ in 0..100 {
        send_request(&pair, everything(), json!({"name": "form"}), None).expect("input requests");
    }
    pair.assert_clean();
}

// req: M-ELIC-009 M-ELIC-010 M-ELIC-026 M-ELIC-027
#[test]
fn accepted_url_elicitation_may_be_repeated() {
    let signed_in = Arc::new(AtomicBool::new(false));
    let door = signed_in.clone();
    let service = Service::builder("test", "1")
        .tool(Tool::new("files", move |context: Context| {
            let visit = context.elicit_url("Sign in", "https://example.com/in").wait()?;
            if visit.action != ElicitAction::Accept {
                return Err(Failure::new("not without you"));
            }
            if !door.load(Ordering::SeqCst) {
                context.elicit_url("Still not signed in", "https://example.com/in").wait()?;
            }
            visit.complete()?;
            Ok("a.txt")
        }))
        .tool(Tool::new("nowhere", |context: Context| {
            context.elicit_url("Sign in", "not a url").wait().map(|_| "asked all the same")
        }))
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let files = || json!({"name": "files"});
    let requested = send_request(&pair, everything(), files(), None).expect("input requests");
    let page = &requested["inputRequests"]["q1"]["params"];
    assert_eq!(*page, json!({"mode": "url", "message": "Sign in", "url": "https://example.com/in"}));
    // The user has consented. The server has no other information.
    let consent = json!({"q1": {"action": "accept"}});
    let again = send_request(&pair, everything(), files(), Some((&requested, consent))).expect("input requests");
    assert_eq!(again["inputRequests"]["q2"]["params"]["message"], "Still not signed in");
    signed_in.store(true, Ordering::SeqCst);
    let done = send_request(&pair, everything(), files(), Some((&again, json!({"q2": {"action": "accept"}}))));
    assert_eq!(text(&done.expect("a result")), "a.txt");
    let lines = pair.server.take_lines();
    assert!(lines.iter().all(|line| line.get("method").is_none()), "there is no word for it: {lines:?}");

    let refused = send_request(&pair, everything(), json!({"name": "nowhere"}), None).expect("a result");
    assert_eq!((&refused["isError"], refused.get("inputRequests")), (&json!(true), None));
}

/// Connects a client to a server whose first response is one input request. Returns the client's response to it.
fn answers(host: HostBuilder, input_request: &Value) -> Result<Value, CallError> {
    let received = Arc::new(Mutex::new(None));
    let (recorder, input_request) = (received.clone(), input_request.clone());
    let host = host.versions(VersionSet::only(ProtocolVersion::V2026_07_28)).build();
    let pair = Pair::scripted(&host, move |_, params| match params.get("inputResponses") {
        None => Ok(json!({"resultType": "input_required", "inputRequests": {"q": input_request}})),
        Some(answers) => {
            *lock(&recorder) = Some(answers.clone());
            Ok(json!({"content": []}))
        }
    });
    let called = pair.wait(pair.to_server().call_tool("t", ()).expect("it can be sent"));
    pair.assert_clean();
    let answers = lock(&received).take();
    called.map(|_| answers.expect("it was answered")["q"].clone())
}

// req: M-ELIC-002 M-ELIC-019 M-ELIC-020 M-ELIC-021 M-ROOT-004 M-SAMP-019 M-MRTR-027
#[test]
fn client_encodes_results_for_the_revision() {
    let host = || Host::builder("client", "1");
    let schema = json!({"type": "object", "properties": {
        "s": {"type": "string"}, "n": {"type": "number"}, "b": {"type": "boolean", "default": true},
        "m": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}}}});
    let form = json!({"method": "elicitation/create", "params": {"message": "m", "requestedSchema": schema}});
    let filled = |action: ElicitAction| {
        host().elicitation(move |_: ElicitFormParams, _| {
            let mut answer = ElicitResult::accept([("s", "x".into()), ("m", ElicitValue::Strings(vec!["x".into()]))]);
            answer.action = action.clone();
            Ok::<_, Failure>(answer)
        })
    };
    assert_eq!(
        answers(filled(ElicitAction::Accept), &form),
        Ok(json!({"action": "accept", "content": {"s": "x", "m": ["x"], "b": true}}))
    );
    assert_eq!(answers(filled(ElicitAction::Decline), &form), Ok(json!({"action": "decline"})));
    assert_eq!(answers(filled(ElicitAction::Cancel), &form), Ok(json!({"action": "cancel"})));

    let page = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a/"}});
    let opened = |action: ElicitAction| host().elicitation_url(move |_, _| Ok::<_, Failure>(action.clone()));
    for (action, word) in
        [(ElicitAction::Accept, "accept"), (ElicitAction::Decline, "decline"), (ElicitAction::Cancel, "cancel")]
    {
        assert_eq!(answers(opened(action), &page), Ok(json!({ "action": word })));
    }

    let roots = host().roots(&Roots::new([Root::new("file:///a")]).expect("good roots"));
    assert_eq!(answers(roots, &json!({"method": "roots/list"})), Ok(json!({"roots": [{"uri": "file:///a"}]})));
    let no_roots = host().roots(&Roots::default());
    assert_eq!(answers(no_roots, &json!({"method": "roots/list", "params": {}})), Ok(json!({"roots": []})));

    let sample = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}});
    let model = host().sampling(|_: CreateMessageParams, _| {
        Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("fine"), "m"))
    });
    assert_eq!(
        answers(model, &sample),
        Ok(json!({"role": "assistant", "content": {"type": "text", "text": "fine"}, "model": "m"}))
    );

    // A client with a user declares the supported modes of elicitation.
    let declared = |host: HostBuilder| {
        let host = host.disable_capability(mcp_proto::protocol::Capability::TasksExtension).build();
        serde_json::to_value(host.config().capabilities.clone()).expect("JSON")
    };
    assert_eq!(declared(filled(ElicitAction::Accept)), json!({"elicitation": {"form": {}}}));
    assert_eq!(declared(opened(ElicitAction::Accept)), json!({"elicitation": {"url": {}}}));
    assert_eq!(declared(host()), json!({}));
}

// req: M-ELIC-032
#[test]
fn only_the_handler_opens_elicitation_urls() {
    // It would accept a connection.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    listener.set_nonblocking(true).expect("it is a socket");
    let url = format!("http://{}/", listener.local_addr().expect("it has an address"));
    let page = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": url}});
    let seen = Arc::new(Mutex::new(Vec::new()));
    for action in [ElicitAction::Accept, ElicitAction::Decline] {
        let (observed, chosen) = (seen.clone(), action.clone());
        let host = Host::builder("client", "1").elicitation_url(move |page: ElicitUrlParams, _| {
            lock(&observed).push(page.url);
            Ok::<_, Failure>(chosen.clone())
        });
        assert_eq!(answers(host, &page), Ok(json!({ "action": action.as_str() })));
    }
    assert_eq!(*lock(&seen), [url.clone(), url], "only the handler has it");
    assert!(listener.accept().is_err(), "no connection was made");
}

// req: M-SAMP-016 M-SAMP-013 M-SAMP-014
#[test]
fn malformed_tool_conversations_are_rejected() {
    let uses = json!({"role": "assistant", "content": {"type": "tool_use", "id": "1", "name": "t", "input": {}}});
    let result = json!({"type": "tool_result", "toolUseId": "1", "content": []});
    let words = json!({"type": "text", "text": "and"});
    let user = |content: Value| json!({"role": "user", "content": content});
    let requested = Arc::new(AtomicBool::new(false));
    let model = || {
        let requested = requested.clone();
        Host::builder("client", "1").sampling_with_tools().sampling(move |_: CreateMessageParams, _| {
            requested.store(true, Ordering::SeqCst);
            Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("fine"), "m"))
        })
    };
    let input_request =
        |messages: Value| json!({"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 5}});
    for bad in [json!([uses]), json!([uses, user(words.clone())]), json!([uses, user(json!([result, words]))])] {
        match answers(model(), &input_request(bad.clone())) {
            Err(CallError::Rpc(error)) => assert_eq!(error.code.0, -32602, "{bad}"),
            other => panic!("{bad}: {other:?}"),
        }
        assert!(!requested.load(Ordering::SeqCst), "{bad}");
    }
    assert!(answers(model(), &input_request(json!([uses, user(result)]))).is_ok());
    assert!(requested.load(Ordering::SeqCst));

    // The server does not send such requests either.
    let service = Service::builder("test", "1")
        .tool(Tool::new("bad", |context: Context| {
            let used = ToolUseContent::new("1", "t", JsonObject::empty());
            let uses = || SamplingMessage::assistant(SamplingContent::from(used.clone()));
            let mixed = vec![SamplingContent::from(ToolResultContent::new("1", [])), SamplingContent::text("and")];
            let pricey =
                ModelPreferences { speed_priority: serde_json::Number::from_f64(1.5), ..ModelPreferences::default() };
            let bad = [
                CreateMessageParams::new([uses()], 1_u64),
                CreateMessageParams::new([uses(), SamplingMessage::user(mixed)], 1_u64),
                CreateMessageParams {
                    model_preferences: Some(pricey),
                    ..CreateMessageParams::new([SamplingMessage::user("hi")], 1_u64)
                },
            ];
            let refused = bad
                .into_iter()
                .filter(|params| matches!(context.sample(params.clone()).wait(), Err(CallError::Send(_))));
            refused.count().to_string()
        }))
        .build()
        .expect("a good service");
    let done = send_request(&modern(&service), json!({"sampling": {"tools": {}}}), json!({"name": "bad"}), None);
    assert_eq!(text(&done.expect("a result")), "3");
}

// req: M-ELIC-011
#[test]
fn unsupported_input_request_fails_the_call() {
    let page = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a/"}});
    let shown = Arc::new(AtomicBool::new(false));
    let observed = shown.clone();
    let forms = Host::builder("client", "1").elicitation(move |_: ElicitFormParams, _| {
        observed.store(true, Ordering::SeqCst);
        Ok::<_, Failure>(ElicitResult::cancel())
    });
    assert_eq!(answers(forms, &page), Err(CallError::Malformed));
    assert!(!shown.load(Ordering::SeqCst));
    let refused = Host::builder("client", "1")
        .sampling(|_: CreateMessageParams, _| Err::<CreateMessageResult, _>(Failure::rejected()));
    let input_request = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}});
    match answers(refused, &input_request) {
        Err(CallError::Rpc(error)) => assert_eq!(error.code.0, -1),
        other => panic!("{other:?}"),
    }
}
