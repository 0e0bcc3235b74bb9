use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use mcp_proto::{
    connection::ClientRole,
    protocol::{Capability, ProtocolVersion, VersionSet},
    schema::{
        At, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult, ElicitUrlParams,
        ElicitationCompleteParams, Role, Root, SamplingContent,
    },
    wire::ErrorObject,
};
use serde_json::{Value, json};

use super::echo;
use super::pair::{Pair, code};
use crate::{
    client::{
        Host,
        builder::HostBuilder,
        roots::{InvalidRoot, Roots},
    },
    inbound::{context::Context, failure::Failure},
    outbound::error::CallError,
    server::{service::Service, tool::Tool},
    util::lock::lock,
};

fn host() -> HostBuilder {
    Host::builder("client", "1")
        .sampling(|params: CreateMessageParams, _| {
            let [SamplingContent::Text(text)] = params.messages[0].content.as_slice() else {
                return Err(Failure::rejected());
            };
            Ok::<_, Failure>(CreateMessageResult::new(
                Role::Assistant,
                SamplingContent::text(format!("re: {}", text.text)),
                "model-1",
            ))
        })
        .elicitation(|form: ElicitFormParams, _| match form.message.as_str() {
            "decline" => {
                Ok(ElicitResult { content: Some([("name", "leftover".into())].into()), ..ElicitResult::decline() })
            }
            "cancel" => Ok(ElicitResult::cancel()),
            "wrong" => Ok(ElicitResult::accept([("name", true.into())])),
            "fail" => Err("no screen"),
            "panic" => panic!("secret"),
            _ => Ok(ElicitResult::accept([("name", "Ada".into())])),
        })
}

fn pair(host: HostBuilder, version: ProtocolVersion) -> Pair {
    Pair::new(&host.build(), &echo().build().expect("a good service"), version)
}

fn pair_of(host: HostBuilder) -> Pair {
    pair(host, ProtocolVersion::V2025_11_25)
}

fn form(message: &str) -> Value {
    json!({"message": message, "requestedSchema": {"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "sure": {"type": "boolean", "default": true}}}})
}

fn sampling_params(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": 9})
}

/// Returns the capabilities of a host, as they are encoded in this revision.
fn declared(host: &Host, version: ProtocolVersion) -> Value {
    let declared = At(&host.config().capabilities, Some(version)).to_json().expect("JSON");
    declared.decode().expect("a value")
}

/// Returns the capabilities that a client declares in the handshake.
fn declared_by(host: HostBuilder, version: ProtocolVersion) -> Value {
    let service = Service::builder("test", "1").build().expect("an empty service");
    let pair = Pair::new(&host.build(), &service, version);
    let snapshot = pair.server.with_conn(|conn| conn.snapshot()).expect("a session");
    let declared = At(&snapshot.client.capabilities, Some(version)).to_json().expect("JSON");
    declared.decode().expect("a value")
}

// An empty object would stand for forms.
// req: ELIC-004
#[test]
fn disabled_elicitation_mode_is_not_declared() {
    let forms = || host().disable_capability(Capability::ElicitationForm);
    let pages = || host().elicitation_url(|_: ElicitUrlParams, _| Ok::<_, Failure>(ElicitAction::Decline));
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        assert!(declared(&host().build(), version)["elicitation"].is_object());
        assert_eq!(declared(&forms().build(), version).get("elicitation"), None);
        let both = pages().disable_capability(Capability::ElicitationForm).build();
        assert_eq!(declared(&both, version)["elicitation"], json!({"url": {}}));
        let all = pages().disable_capability(Capability::Elicitation).build();
        assert_eq!(declared(&all, version).get("elicitation"), None);
    }
}

/// Checks that a client refuses requests of capabilities that it did not declare.
fn refuses_undeclared_requests() {
    // Also where there is a handler.
    let pair = pair_of(host());
    pair.input_to_client(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage",
        "params": {"messages": [], "maxTokens": 1, "tools": []}})
        .to_string(),
    );
    pair.settle();
    assert_eq!(pair.client.take_lines()[0]["error"]["code"], -32602);

    // A server that sends an undeclared request gets an error. This crate does not send such requests, so the test
    // writes them.
    let methods = ["sampling/createMessage", "elicitation/create", "roots/list"];
    let all = ProtocolVersion::LEGACY.into_iter().flat_map(|version| methods.map(|method| (version, method)));
    for (version, method) in all {
        let pair = self::pair(Host::builder("client", "1"), version);
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}).to_string();
        pair.input_to_client(&line);
        let answer = pair.client.with_conn(|conn| {
            let mut out = Vec::new();
            conn.poll_transmit(&mut out);
            serde_json::from_slice::<Value>(&out).expect("an answer")
        });
        assert_eq!(answer["error"]["code"], -32601, "{version} {method}");
    }
}

// req: SAMP-001 SAMP-003 SAMP-023 ELIC-001 ELIC-003 ELIC-004 ROOT-001
#[test]
fn client_declares_capabilities_of_its_handlers() {
    let roots = Roots::default();
    let all = host()
        .sampling_with_tools()
        .sampling_with_context()
        .elicitation_url(|_: ElicitUrlParams, _| Ok::<_, Failure>(ElicitAction::Decline))
        .roots(&roots)
        .tasks(crate::inbound::task_policy::TaskPolicy::default());
    let declared = all.build().config().capabilities.set();
    let expected = [
        Capability::Roots,
        Capability::RootsListChanged,
        Capability::Sampling,
        Capability::SamplingContext,
        Capability::SamplingTools,
        Capability::Elicitation,
        Capability::ElicitationForm,
        Capability::ElicitationUrl,
        Capability::Tasks,
        Capability::TasksList,
        Capability::TasksCancel,
        Capability::TasksSampling,
        Capability::TasksElicitation,
        Capability::TasksExtension,
    ];
    assert_eq!(declared.iter().collect::<Vec<_>>(), expected);

    let narrow = host()
        .roots(&roots)
        .disable_capability(Capability::Sampling)
        .disable_capability(Capability::RootsListChanged)
        .build();
    let declared = narrow.config().capabilities.set();
    assert_eq!(
        declared.iter().collect::<Vec<_>>(),
        [Capability::Roots, Capability::Elicitation, Capability::ElicitationForm, Capability::TasksExtension]
    );
    let bare = Host::builder("client", "1")
        .sampling_with_tools()
        .tasks(crate::inbound::task_policy::TaskPolicy::default())
        .build();
    let declared = bare.config().capabilities.set();
    assert_eq!(declared.iter().collect::<Vec<_>>(), [Capability::TasksExtension], "there is nothing behind the others");

    // The handshake declares the same, as far as the revision has it.
    for version in ProtocolVersion::LEGACY {
        let all = declared_by(host().roots(&roots), version);
        let is_there = |name: &str| all.get(name).is_some_and(Value::is_object);
        let has_forms = version >= ProtocolVersion::V2025_06_18;
        assert_eq!((is_there("sampling"), is_there("elicitation")), (true, has_forms), "{version}");
        assert_eq!(all["roots"], json!({"listChanged": true}), "{version}");
        let quiet = declared_by(host().roots(&roots).disable_capability(Capability::RootsListChanged), version);
        assert_eq!(quiet["roots"].get("listChanged").filter(|it| **it != json!(false)), None, "{version}");
        let none = declared_by(Host::builder("client", "1"), version);
        for name in ["sampling", "elicitation", "roots"] {
            assert_eq!(none.get(name), None, "{version}");
        }
    }

    refuses_undeclared_requests();
}

// req: SAMP-004 SAMP-005 SAMP-010 SAMP-022 SAMP-031 SAMP-032 SAMP-035
#[test]
fn sampling_handler_sends_result() {
    for version in ProtocolVersion::LEGACY {
        let seen = Arc::new(Mutex::new(None));
        let observed = seen.clone();
        let host = Host::builder("client", "1").sampling(move |params: CreateMessageParams, _| {
            *lock(&observed) = Some(serde_json::to_value(&params).expect("JSON"));
            match params.max_tokens {
                0 => Err(Failure::rejected()),
                _ => Ok(CreateMessageResult::new(Role::Assistant, SamplingContent::text("hello"), "model-1")),
            }
        });
        let pair = pair(host, version);
        let mut params = sampling_params("hi");
        params["systemPrompt"] = "be brief".into();
        params["temperature"] = json!(0.1);
        params["stopSequences"] = json!(["."]);
        params["metadata"] = json!({"own": [1e2]});
        params["modelPreferences"] = json!({"hints": [{"name": "x"}], "costPriority": 0.5});
        params["includeContext"] = "none".into();
        assert_eq!(
            pair.send_request_to_client("sampling/createMessage", params.clone()),
            Ok(json!({"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "model-1"}))
        );
        let mut seen = lock(&seen).take().expect("it was called");
        if let Some(members) = seen.as_object_mut() {
            members.remove("_meta");
        }
        assert_eq!(seen, params);
        params["maxTokens"] = 0.into();
        assert_eq!(code(&pair.send_request_to_client("sampling/createMessage", params)), -1);
        for bad in [json!({}), json!({"messages": []}), json!({"messages": [], "maxTokens": "1"})] {
            assert_eq!(code(&pair.send_request_to_client("sampling/createMessage", bad)), -32602);
        }
        pair.assert_clean();
    }
    let pair = pair(host().sampling_with_tools(), ProtocolVersion::V2025_11_25);
    let uses = json!({"role": "assistant", "content": {"type": "tool_use", "id": "1", "name": "t", "input": {}}});
    let result = json!({"type": "tool_result", "toolUseId": "1", "content": []});
    let text = json!({"type": "text", "text": "and"});
    for bad in [
        json!([uses]),
        json!([uses, {"role": "user", "content": text}]),
        json!([uses, {"role": "user", "content": [result, text]}]),
    ] {
        assert_eq!(
            code(&pair.send_request_to_client("sampling/createMessage", json!({"messages": bad, "maxTokens": 1}))),
            -32602
        );
    }
    let good = json!({"messages": [{"role": "user", "content": text}, uses, {"role": "user", "content": [result]}], "maxTokens": 1});
    assert!(pair.send_request_to_client("sampling/createMessage", good).is_ok());
}

// req: ELIC-009 ELIC-024 ELIC-025 ELIC-026 ELIC-030 ELIC-032
#[test]
fn form_responses_must_fit_the_form() {
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25] {
        let pair = pair(host(), version);
        let send_request = |message: &str| pair.send_request_to_client("elicitation/create", form(message));
        assert_eq!(send_request("hi"), Ok(json!({"action": "accept", "content": {"name": "Ada", "sure": true}})));
        assert_eq!(send_request("decline"), Ok(json!({"action": "decline"})));
        assert_eq!(send_request("cancel"), Ok(json!({"action": "cancel"})));
        assert_eq!(code(&send_request("wrong")), -32603, "the answer does not fit the form, so it is not sent");
        assert_eq!(code(&send_request("fail")), -32603);
        let panicked = send_request("panic");
        assert!(code(&panicked) == -32603 && !panicked.expect_err("an error").to_string().contains("secret"));
        assert_eq!(code(&pair.send_request_to_client("elicitation/create", json!({"message": "x"}))), -32602);
        pair.assert_clean();
    }
    let pair = pair(host(), ProtocolVersion::V2025_11_25);
    let mut explicit = form("hi");
    explicit["mode"] = "form".into();
    assert!(pair.send_request_to_client("elicitation/create", explicit.clone()).is_ok());
    explicit["mode"] = "song".into();
    assert_eq!(code(&pair.send_request_to_client("elicitation/create", explicit)), -32602);
}

// req: ELIC-006 ELIC-013 ELIC-027 ELIC-033 ELIC-036 ELIC-040
#[test]
fn only_open_url_elicitations_complete_once() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let done = Arc::new(Mutex::new(Vec::new()));
    let (asking, ending) = (received.clone(), done.clone());
    let host = host()
        .elicitation_url(move |page: ElicitUrlParams, _| {
            lock(&asking).push(page.url);
            Ok::<_, Failure>(ElicitAction::Accept)
        })
        .on(move |complete: ElicitationCompleteParams, _| lock(&ending).push(complete.elicitation_id));
    let pair = pair(host, ProtocolVersion::V2025_11_25);
    let page =
        |id: &str| json!({"mode": "url", "message": "sign in", "url": "https://example.com/a", "elicitationId": id});
    assert_eq!(pair.send_request_to_client("elicitation/create", page("a b/\u{e4}")), Ok(json!({"action": "accept"})));
    assert_eq!(*lock(&received), ["https://example.com/a"]);
    for id in ["unknown", "a b/\u{e4}", "a b/\u{e4}", ""] {
        pair.to_client().elicitation_complete(id).expect("it can be sent");
    }
    pair.settle();
    assert_eq!(*lock(&done), ["a b/\u{e4}"], "only what is open can be completed, and once");

    let formal = self::pair(self::host(), ProtocolVersion::V2025_11_25);
    formal.input_to_client(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": page("x")}).to_string(),
    );
    formal.settle();
    assert_eq!(formal.client.take_lines()[0]["error"]["code"], -32602);
}

// req: ELIC-037
#[test]
fn error_lists_required_url_elicitations() {
    let done = Arc::new(AtomicUsize::new(0));
    let count = done.clone();
    let host = Host::builder("client", "1")
        .elicitation_url(|_: ElicitUrlParams, _| Ok::<_, Failure>(ElicitAction::Accept))
        .on(move |_: ElicitationCompleteParams, _| _ = count.fetch_add(1, Ordering::SeqCst));
    let service = Service::builder("test", "1")
        .tool(Tool::new("files", |context: Context| {
            Err::<(), _>(
                context
                    .url_elicitation_required([("Sign in", "https://example.com/1"), ("Pay", "https://example.com/2")]),
            )
        }))
        .build()
        .expect("a good service");
    let pair = Pair::new(&host.build(), &service, ProtocolVersion::V2025_11_25);
    let error = pair.wait(pair.to_server().call_tool("files", ()).expect("it can be sent")).expect_err("pages first");
    let pages = error.url_elicitations().expect("pages");
    assert_eq!(
        pages.iter().map(|page| page.url.as_str()).collect::<Vec<_>>(),
        ["https://example.com/1", "https://example.com/2"]
    );
    let id = pages[1].elicitation_id.clone().expect("an id");
    pair.to_client().elicitation_complete(&id).expect("it can be sent");
    pair.settle();
    assert_eq!(done.load(Ordering::SeqCst), 1);
    assert!(CallError::Rpc(ErrorObject::internal("other")).url_elicitations().is_none());
}

// req: ROOT-003 ROOT-004 ROOT-005 ROOT-009
#[test]
fn lists_roots_and_notifies_changes() {
    let roots = Roots::new([Root { name: Some("Home".into()), ..Root::new("file:///home/me") }]).expect("a good root");
    let narrow_host =
        Host::builder("client", "1").roots(&roots).disable_capability(Capability::RootsListChanged).build();
    let service = echo().build().expect("a good service");
    let narrow = Pair::new(&narrow_host, &service, ProtocolVersion::V2025_11_25);
    for version in ProtocolVersion::LEGACY {
        roots.set([Root { name: Some("Home".into()), ..Root::new("file:///home/me") }]).expect("a good root");
        let pair = pair(Host::builder("client", "1").roots(&roots), version);
        assert_eq!(
            pair.send_request_to_client("roots/list", json!({})),
            Ok(json!({"roots": [{"uri": "file:///home/me", "name": "Home"}]}))
        );
        pair.client.take_lines();
        for bad in ["/home", "https://a/b", "file:///a/../b", "file:///a/%2e%2e/b"] {
            assert_eq!(roots.set([Root::new("file:///ok"), Root::new(bad)]), Err(InvalidRoot { uri: bad.into() }));
            assert!(Roots::new([Root::new(bad)]).is_err());
        }
        pair.settle();
        assert!(pair.client.take_lines().is_empty(), "nothing has changed");
        roots.set([]).expect("an empty list is one");
        pair.settle();
        assert_eq!(pair.client.take_lines(), [json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})]);
        roots.set([]).expect("the same again");
        pair.settle();
        assert!(pair.client.take_lines().is_empty());
        assert_eq!(pair.send_request_to_client("roots/list", json!({})), Ok(json!({"roots": []})));
    }
    narrow.settle();
    assert!(narrow.client.take_lines().is_empty(), "it was not declared");
}

// req: TOOL-009 TOOL-014 TOOL-019 TOOL-024 TOOL-025 M-TOOL-027
#[test]
fn tool_failures_are_results_not_errors() {
    let each = ProtocolVersion::ALL.into_iter().map(VersionSet::only);
    for versions in each {
        let host = Host::builder("client", "1").versions(versions).build();
        let pair = Pair::scripted(&host, |method, params| {
            assert_eq!(method, "tools/call");
            assert!(params.get("arguments").is_none_or(Value::is_object));
            match params["name"].as_str().expect("a name") {
                "strange name \u{e4}/\n" => Ok(json!({"content": [{"type": "text", "text": "fine"}]})),
                "bare" => Ok(json!({})),
                "fails" => Ok(json!({"content": [{"type": "text", "text": "why"}], "isError": true})),
                _ => Err(ErrorObject::invalid_params("no such tool")),
            }
        });
        let server = pair.to_server();
        let call = |name: &str| pair.wait(server.call_tool(name, json!({"a": 1})).expect("it can be sent"));
        assert!(!call("strange name \u{e4}/\n").expect("any name can be called").is_error());
        assert!(call("bare").expect("content may be missing").content.is_empty());
        let failed = call("fails").expect("a failure is a result");
        assert!(failed.is_error() && failed.content[0].as_text() == Some("why"));
        assert!(matches!(call("other"), Err(CallError::Rpc(_))));
        assert!(pair.wait(server.call_tool("bare", ()).expect("no arguments")).is_ok());
        assert!(server.call_tool("bare", [1, 2]).is_err(), "arguments are an object");
    }
}

// req: RES-024
#[test]
fn missing_resource_is_recognized_in_both_eras() {
    for (code, missing) in [(-32002, true), (-32602, true), (-32603, false)] {
        let pair = Pair::scripted(&Host::builder("client", "1").build(), move |_, _| {
            Err(ErrorObject::new(mcp_proto::wire::ErrorCode(code), "no"))
        });
        let error = pair.wait(pair.to_server().read_resource("a://b").expect("it can be sent")).expect_err("no");
        assert_eq!(error.is_resource_not_found(), missing);
    }
    assert!(!CallError::Cancelled.is_resource_not_found());
}

// req: BASE-002 TOOL-029
#[test]
fn undeclared_requests_are_not_sent() {
    for version in ProtocolVersion::LEGACY {
        let service = Service::builder("test", "1").build().expect("an empty service");
        let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
        let server = pair.to_server();
        assert!(server.list_tools(None).is_err());
        assert!(server.call_tool("a", ()).is_err());
        assert!(server.list_prompts(None).is_err());
        assert!(server.get_prompt("a", ()).is_err());
        assert!(server.list_resources(None).is_err());
        assert!(server.read_resource("a://b").is_err());
        assert!(server.set_log_level(mcp_proto::schema::LoggingLevel::Info).is_err());
        assert_eq!(server.all_tools().filter(Result::is_err).count(), 1);
        assert!(pair.client.take_lines().is_empty());
        assert!(pair.wait(server.ping().expect("always")).is_ok());
    }
}

// req: COMPL-014 COMPL-016 M-COMPL-004
#[test]
fn complete_sends_known_arguments() {
    let pair = Pair::scripted(&Host::builder("client", "1").build(), |_, params| {
        assert_eq!(params["context"]["arguments"], json!({"owner": "ada"}));
        assert_eq!(params["ref"], json!({"type": "ref/prompt", "name": "p"}));
        Ok(json!({"completion": {"values": ["x"]}}))
    });
    let known = json!({"owner": "ada"});
    let pending = pair
        .to_server()
        .complete(mcp_proto::schema::PromptReference::new("p"), "repo", "", known)
        .expect("it can be sent");
    for wrong in [json!({"owner": 5}), json!({"owner": null}), json!(["ada"]), json!("ada")] {
        let refused = pair.to_server().complete(mcp_proto::schema::PromptReference::new("p"), "repo", "", wrong);
        assert!(refused.is_err(), "what is known are texts by name");
    }
    let completion = pair.wait(pending).expect("proposals").completion;
    assert_eq!((completion.values, completion.total, completion.has_more), (vec!["x".to_owned()], None, None));
}

#[test]
fn client_handler_can_call_tools() {
    let host = Host::builder("client", "1").sampling(|_: CreateMessageParams, context: Context<ClientRole>| {
        let tool = context.peer().call_tool("echo", json!({"message": "from inside"}))?.wait()?;
        let text = tool.content[0].as_text().unwrap_or_default().to_owned();
        Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text(text), "model"))
    });
    let pair = pair(host, ProtocolVersion::V2025_11_25);
    let said = pair.send_request_to_client("sampling/createMessage", sampling_params("hi")).expect("an answer");
    assert_eq!(said["content"]["text"], "from inside");
    pair.assert_clean();
}

#[test]
fn each_handler_with_tasks_declares_their_capabilities() {
    for handlers in 0..8_u8 {
        let [samples, shows, opens] = [1, 2, 4].map(|bit| handlers & bit != 0);
        let mut host = Host::builder("client", "1").tasks(crate::inbound::task_policy::TaskPolicy::default());
        if samples {
            host = host.sampling(|_: CreateMessageParams, _| Err::<CreateMessageResult, _>("no"));
        }
        if shows {
            host = host.elicitation(|_: ElicitFormParams, _| Err::<ElicitResult, _>("no"));
        }
        if opens {
            host = host.elicitation_url(|_: ElicitUrlParams, _| Err::<ElicitAction, _>("no"));
        }
        let declared = host.build().config().capabilities.set();
        for (capability, expected) in [
            (Capability::TasksList, handlers != 0),
            (Capability::TasksCancel, handlers != 0),
            (Capability::TasksSampling, samples),
            (Capability::TasksElicitation, shows || opens),
            (Capability::Sampling, samples),
            (Capability::ElicitationForm, shows),
            (Capability::ElicitationUrl, opens),
            (Capability::Roots, false),
        ] {
            assert_eq!(declared.contains(capability), expected, "{capability:?} {handlers}");
        }
    }
}
