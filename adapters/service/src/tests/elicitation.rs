use std::sync::{Arc, Mutex};

use mcp_proto::{
    protocol::{Capability, ProtocolVersion},
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult,
        ElicitSchema, ElicitUrlParams, ElicitationCompleteParams, IncludeContext, Map, ModelPreferences, Role, Root,
        RootsListChangedParams, SamplingContent, SamplingMessage, StringFormat, StringSchema,
    },
};
use serde_json::{Value, json};

use super::pair::{Pair, code};
use crate::{
    client::{Host, builder::HostBuilder, roots::Roots},
    inbound::{context::Context, failure::Failure},
    outbound::error::CallError,
    server::{
        builder::ServiceBuilder,
        form::{BooleanField, ChoiceField, ChoicesField, Form, IntoForm as _, NumberField, TextField},
        service::Service,
        tool::Tool,
    },
    util::lock::lock,
};

fn name_form() -> ElicitSchema {
    ElicitSchema {
        required: Some(vec!["name".into()]),
        ..ElicitSchema::new(Map::from([("name", StringSchema::default().into())]))
    }
}

/// A service with tools that send requests to the client, and return the responses as text.
fn service_with_requests() -> ServiceBuilder {
    let sample = |context: Context| {
        let result = context.sample(CreateMessageParams::new([SamplingMessage::user("2 + 2?")], 10_u64)).wait()?;
        let [SamplingContent::Text(text)] = result.content.as_slice() else { return Err(Failure::new("no text")) };
        Ok(format!("{} says {}", result.model, text.text))
    };
    let form = |context: Context| {
        let result = context.elicit("Who are you?", name_form()).wait()?;
        Ok::<_, Failure>(match result.action {
            ElicitAction::Accept => format!("{:?}", result.content.unwrap_or_default().get("name")),
            other => format!("{other}"),
        })
    };
    let page = |context: Context| {
        let visit = context.elicit_url("Sign in", "https://example.com/in").wait()?;
        let (action, id) = (visit.action.clone(), visit.id().to_owned());
        if action == ElicitAction::Accept {
            visit.complete()?;
        }
        Ok::<_, Failure>(format!("{action} {id}"))
    };
    let roots = |context: Context| {
        let roots = context.roots().wait()?;
        Ok::<_, CallError>(roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join(" "))
    };
    Service::builder("test", "1")
        .tool(Tool::new("sample", sample))
        .tool(Tool::new("form", form))
        .tool(Tool::new("page", page))
        .tool(Tool::new("roots", roots))
}

fn obliging(roots: &Roots) -> HostBuilder {
    Host::builder("client", "1")
        .roots(roots)
        .sampling(|_: CreateMessageParams, _| {
            Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("4"), "m"))
        })
        .elicitation(|_: ElicitFormParams, _| Ok::<_, Failure>(ElicitResult::accept([("name", "Ada".into())])))
        .elicitation_url(|_: ElicitUrlParams, _| Ok::<_, Failure>(ElicitAction::Accept))
}

fn call(pair: &Pair, name: &str) -> (String, bool) {
    let result = pair.send_request("tools/call", json!({"name": name})).expect("a result");
    (result["content"][0]["text"].as_str().expect("a text").to_owned(), result["isError"] == json!(true))
}

// req: SAMP-002 ELIC-002 ELIC-005 ELIC-007 ELIC-008 ELIC-010 ELIC-029 ROOT-003
#[test]
fn handlers_send_only_supported_client_requests() {
    let service = service_with_requests().build().expect("a good service");
    let roots = Roots::new([Root::new("file:///a"), Root::new("file:///b")]).expect("good roots");
    for version in ProtocolVersion::LEGACY {
        let pair = Pair::new(&obliging(&roots).build(), &service, version);
        assert_eq!(call(&pair, "sample"), ("m says 4".into(), false));
        assert_eq!(call(&pair, "roots"), ("file:///a file:///b".into(), false));
        pair.server.take_lines();
        let form = call(&pair, "form");
        if version >= ProtocolVersion::V2025_06_18 {
            assert_eq!(form, ("Some(String(\"Ada\"))".into(), false));
            let input_request = pair.server.take_lines().remove(0);
            assert_eq!(input_request["method"], "elicitation/create");
            assert_eq!(input_request["params"].get("mode").filter(|mode| **mode != json!("form")), None);
            assert_eq!(input_request["params"]["message"], "Who are you?");
            assert_eq!(input_request["params"]["requestedSchema"]["type"], "object");
        } else {
            assert!(form.1);
            assert!(pair.server.take_lines().iter().all(|line| line.get("method").is_none()), "it was not sent");
        }
        let (page, refused) = call(&pair, "page");
        assert_eq!(refused, version < ProtocolVersion::V2025_11_25);
        let page_request = pair.server.take_lines().into_iter().find(|line| line["params"]["mode"] == "url");
        assert_eq!(page_request.is_some(), !refused);
        if let Some(input_request) = page_request {
            assert_eq!(input_request["params"]["url"], "https://example.com/in");
            assert_eq!(page, format!("accept {}", input_request["params"]["elicitationId"].as_str().expect("an id")));
        }
        pair.assert_clean();

        let mute = Pair::new(&Host::builder("client", "1").build(), &service, version);
        for name in ["sample", "form", "page", "roots"] {
            assert!(call(&mute, name).1, "{name}");
        }
        assert!(mute.server.take_lines().iter().all(|line| line.get("method").is_none()));
    }
}

// req: ELIC-012 ELIC-034 ELIC-035
#[test]
fn elicitation_complete_goes_to_its_client_only() {
    let done = Arc::new(Mutex::new(Vec::new()));
    let client = |name: &'static str| {
        let done = done.clone();
        Host::builder("client", "1")
            .elicitation_url(|_: ElicitUrlParams, _| Ok::<_, Failure>(ElicitAction::Accept))
            .on(move |complete: ElicitationCompleteParams, _| lock(&done).push((name, complete.elicitation_id)))
            .build()
    };
    let service = service_with_requests().build().expect("a good service");
    let [a, b] = ["a", "b"].map(|name| Pair::new(&client(name), &service, ProtocolVersion::V2025_11_25));
    let mut expected = Vec::new();
    for _ in 0..10 {
        for (pair, name) in [(&a, "a"), (&b, "b")] {
            let (said, _) = call(pair, "page");
            expected.push((name, said.strip_prefix("accept ").expect("accepted").to_owned()));
        }
    }
    a.settle();
    b.settle();
    assert_eq!(*lock(&done), expected);
    let mut ids: Vec<_> = expected.iter().map(|(_, id)| id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 20, "ids are unique");
}

// req: ELIC-028 ELIC-031
#[test]
fn handler_gets_only_valid_elicitation_results() {
    let service = service_with_requests().build().expect("a good service");
    let answers = [
        (json!({"action": "accept", "content": {"name": "Ada"}}), Some("Some(String(\"Ada\"))")),
        (json!({"action": "decline"}), Some("decline")),
        (json!({"action": "cancel"}), Some("cancel")),
        (json!({"action": "accept", "content": {"name": 7}}), None),
        (json!({"action": "accept", "content": {}}), None),
        (json!({"action": "accept"}), None),
        (json!({"name": "Ada"}), None),
    ];
    for (answer, received) in answers {
        let reply = Mutex::new(Some(answer.clone()));
        let host =
            Host::builder("client", "1").elicitation(|_: ElicitFormParams, _| Err::<ElicitResult, _>("not reached"));
        let pair = Pair::new(&host.build(), &service, ProtocolVersion::V2025_11_25);
        let pending = pair.send("tools/call", json!({"name": "form"}));
        // The test responds for the client.
        let input_request = loop {
            let lines = pair.only_upwards();
            if let Some(input_request) = lines.into_iter().find(|line| line["method"] == "elicitation/create") {
                break input_request;
            }
        };
        let line = json!({"jsonrpc": "2.0", "id": input_request["id"], "result": lock(&reply).take()});
        pair.input_to_server(&line.to_string());
        let result: Value = serde_json::from_str(pair.wait(pending).expect("a result").get()).expect("JSON");
        let text = result["content"][0]["text"].as_str().expect("a text");
        match received {
            Some(received) => assert_eq!((text, result.get("isError")), (received, None), "{answer}"),
            None => assert_eq!(result["isError"], true, "{answer}"),
        }
    }
}

// req: SAMP-018 SAMP-024 SAMP-029 SAMP-030 ELIC-011
#[test]
fn invalid_sampling_requests_are_not_sent() {
    use mcp_proto::{
        schema::{Tool as ListedTool, ToolResultContent, ToolUseContent},
        wire::JsonObject,
    };
    let uses = || SamplingMessage::assistant(SamplingContent::from(ToolUseContent::new("1", "t", JsonObject::empty())));
    let result = || SamplingContent::from(ToolResultContent::new("1", []));
    let params = |messages: Vec<SamplingMessage>| CreateMessageParams::new(messages, 1_u64);
    let mixed = SamplingMessage::user(vec![result(), SamplingContent::text("and")]);
    let pricey = ModelPreferences { cost_priority: serde_json::Number::from_f64(1.5), ..ModelPreferences::default() };
    let bad = [
        params(vec![uses()]),
        params(vec![uses(), mixed]),
        CreateMessageParams { model_preferences: Some(pricey), ..params(vec![SamplingMessage::user("hi")]) },
        // This client supports no tools.
        CreateMessageParams {
            tools: Some(vec![ListedTool::new("t", JsonObject::empty())]),
            ..params(vec![SamplingMessage::user("hi")])
        },
    ];
    let count = bad.len();
    let service = Service::builder("test", "1")
        .tool(Tool::new("bad", move |context: Context| {
            let refused = bad
                .iter()
                .filter(|params| matches!(context.sample((*params).clone()).wait(), Err(CallError::Send(_))))
                .count();
            let page = context.elicit_url("Sign in", "not a url").wait();
            format!("{refused} {}", page.is_err())
        }))
        .build()
        .expect("a good service");
    let roots = Roots::default();
    let pair = Pair::new(&obliging(&roots).build(), &service, ProtocolVersion::V2025_11_25);
    assert_eq!(call(&pair, "bad"), (format!("{count} true"), false));
    assert!(pair.server.take_lines().iter().all(|line| line.get("method").is_none()));
    assert!(!pair.to_client().capabilities().contains(Capability::SamplingTools));
}

// req: SAMP-008
#[test]
fn include_context_requires_the_capability() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("context", |context: Context| {
            let params = CreateMessageParams::new([SamplingMessage::user("hi")], 1_u64);
            context
                .sample(CreateMessageParams { include_context: Some(IncludeContext::ThisServer), ..params })
                .wait()
                .is_ok()
                .to_string()
        }))
        .build()
        .expect("a good service");
    let roots = Roots::default();
    let pair = Pair::new(&obliging(&roots).build(), &service, ProtocolVersion::V2025_11_25);
    call(&pair, "context");
    assert!(
        pair.server.take_lines().iter().all(|line| line["params"].get("includeContext").is_none_or(|it| it == "none"))
    );
    let pair = Pair::new(&obliging(&roots).sampling_with_context().build(), &service, ProtocolVersion::V2025_11_25);
    assert_eq!(call(&pair, "context").0, "true");
}

// req: ELIC-038 ELIC-039
#[test]
fn required_url_elicitations_fit_the_client() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("files", |context: Context| {
            Err::<(), _>(context.url_elicitation_required([("Sign in", "https://example.com/in")]))
        }))
        .tool(Tool::new("wrong", |context: Context| {
            Err::<(), _>(context.url_elicitation_required([("Sign in", "nowhere")]))
        }))
        .tool(Tool::new("fails", || Err::<(), _>("disk on fire")))
        .tool(Tool::new("refuses", || Err::<(), _>(Failure::resource_not_found("a:b"))))
        .build()
        .expect("a good service");
    let roots = Roots::default();
    for version in ProtocolVersion::LEGACY.into_iter().chain([ProtocolVersion::V2026_07_28]) {
        for host in [obliging(&roots).build(), Host::builder("client", "1").build()] {
            let knows = version == ProtocolVersion::V2025_11_25 && host.config().capabilities.elicitation.is_some();
            let pair = Pair::new(&host, &service, version);
            let answer = pair.send_request("tools/call", json!({"name": "files"}));
            if knows {
                assert_eq!(code(&answer), -32042);
                let pages = &answer.expect_err("an error")["data"]["elicitations"];
                assert_eq!(pages.as_array().map(Vec::len), Some(1));
                assert_eq!((&pages[0]["mode"], &pages[0]["message"]), (&json!("url"), &json!("Sign in")));
                assert_eq!(pages[0]["url"], "https://example.com/in");
                assert!(pages[0]["elicitationId"].as_str().is_some_and(|id| id.len() >= 16));
            } else {
                let result = answer.expect("a result");
                assert!(result["isError"] == json!(true) && result.to_string().contains("https://example.com/in"));
            }
            // No other failure has that code: not of a tool, not of a request, and not of an unknown tool.
            for name in ["wrong", "fails", "refuses", "none"] {
                let answer = pair.send_request("tools/call", json!({ "name": name }));
                let failed =
                    answer.as_ref().map_or_else(|_| code(&answer) != -32042, |it| it["isError"] == json!(true));
                assert!(failed, "{name} in {version}: {answer:?}");
            }
            for method in ["tools/list", "vendor/none"] {
                let code = code(&pair.send_request(method, json!({"cursor": "none"})));
                assert!(code < 0 && code != -32042, "{method} in {version}: {code}");
            }
        }
    }
}

// req: ROOT-006
#[test]
fn server_requests_roots_after_change() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observed = seen.clone();
    let service = Service::builder("test", "1")
        .on(move |_: RootsListChangedParams, client| {
            let roots = client.list_roots().map_err(CallError::from).and_then(|requested| requested.wait());
            lock(&observed).push(roots.expect("an answer").roots.len());
        })
        .build()
        .expect("a good service");
    let roots = Roots::default();
    let pair = Pair::new(&obliging(&roots).build(), &service, ProtocolVersion::V2025_11_25);
    roots.set([Root::new("file:///a"), Root::new("file:///b")]).expect("good roots");
    pair.settle();
    assert_eq!(*lock(&seen), [2]);
}

#[test]
fn elicitation_has_a_longer_default_timeout() {
    use mcp_proto::connection::RequestOptions;
    use std::time::Duration;

    let service = Service::builder("test", "1")
        .tool(Tool::new("patient", |context: Context| context.elicit("Who are you?", name_form()).wait().map(drop)))
        .tool(Tool::new("hasty", |context: Context| {
            context.within(Duration::from_secs(5)).elicit("Who are you?", name_form()).wait().map(drop)
        }))
        .tool(Tool::new("roots", |context: Context| context.roots().wait().map(drop)))
        .build()
        .expect("a good service");
    for (name, time) in [("patient", 30 * 60), ("hasty", 5), ("roots", 60)] {
        let host = Host::builder("client", "1")
            .elicitation(|_: ElicitFormParams, _| Err::<ElicitResult, _>("not reached"))
            .roots(&Roots::default());
        let pair = Pair::new(&host.build(), &service, ProtocolVersion::V2025_11_25);
        let pending =
            pair.to_server().with_options(RequestOptions::no_timeout()).call_tool(name, ()).expect("it can be sent");
        // The client of this test never responds.
        while !pair.only_upwards().iter().any(|line| line.get("method").is_some()) {}
        pair.server.elapse(Duration::from_secs(time) - Duration::from_millis(1));
        assert_eq!(pair.server.with_conn(|conn| conn.usage().calls), 1, "{name} still waits");
        pair.server.elapse(Duration::from_millis(1));
        assert_eq!(pair.server.with_conn(|conn| conn.usage().calls), 0, "{name} has waited long enough");
        let result = pair.wait(pending).expect("a result");
        assert!(result.is_error());
    }
}

fn booking_form() -> Form {
    Form::new()
        .field("name", TextField::new().title("Name").description("As on the card").min_length(1).max_length(80))
        .field("mail", TextField::new().format(StringFormat::Email).optional())
        .field("guests", NumberField::integer().minimum(1).maximum(9).default_value(2))
        .field("price", NumberField::number().optional())
        .field("late", BooleanField::new().default_value(false))
        .field("floor", ChoiceField::new(["1", "2"]).default_value("2").title("Floor").description("Of two").optional())
        .field("room", ChoiceField::titled([("s", "Single"), ("d", "Double")]).title("Room").description("Its beds"))
        .field("view", ChoiceField::titled([("n", "North"), ("s", "South")]).default_value("s").optional())
}

/// Calls a tool that shows a form, and returns the form as it was sent, or the failure of the tool.
fn shown(form: Form, version: ProtocolVersion) -> Result<Value, String> {
    let show = move |context: Context| {
        context.elicit("?", form.clone()).wait()?;
        Ok::<_, CallError>("shown")
    };
    let service = Service::builder("test", "1").tool(Tool::new("show", show)).build().expect("a good service");
    let host = Host::builder("client", "1")
        .elicitation(|_: ElicitFormParams, _| Ok::<_, Failure>(ElicitResult::new(ElicitAction::Cancel)));
    let pair = Pair::new(&host.build(), &service, version);
    pair.server.take_lines();
    match call(&pair, "show") {
        (_, false) => Ok(pair.server.take_lines().remove(0)["params"]["requestedSchema"].take()),
        (why, true) => Err(why),
    }
}

#[test]
fn forms_of_fields_have_the_shape_of_the_revision() {
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25] {
        let old = version == ProtocolVersion::V2025_06_18;
        let sent = shown(booking_form(), version).expect("it is shown");
        assert_eq!(sent["required"], json!(["name", "guests", "late", "room"]), "{version}");
        let mut guests = json!({"type": "integer", "minimum": 1, "maximum": 9, "default": 2});
        let mut floor =
            json!({"type": "string", "title": "Floor", "description": "Of two", "enum": ["1", "2"], "default": "2"});
        let mut room = json!({"type": "string", "title": "Room", "description": "Its beds"});
        let mut view = json!({"type": "string"});
        if old {
            guests.as_object_mut().expect("an object").remove("default");
            floor.as_object_mut().expect("an object").remove("default");
            (room["enum"], room["enumNames"]) = (json!(["s", "d"]), json!(["Single", "Double"]));
            (view["enum"], view["enumNames"]) = (json!(["n", "s"]), json!(["North", "South"]));
        } else {
            room["oneOf"] = json!([{"const": "s", "title": "Single"}, {"const": "d", "title": "Double"}]);
            view["oneOf"] = json!([{"const": "n", "title": "North"}, {"const": "s", "title": "South"}]);
            view["default"] = json!("s");
        }
        let properties = json!({
            "name": {"type": "string", "title": "Name", "description": "As on the card", "minLength": 1, "maxLength": 80},
            "mail": {"type": "string", "format": "email"},
            "guests": guests,
            "price": {"type": "number"},
            "late": {"type": "boolean", "default": false},
            "floor": floor,
            "room": room,
            "view": view,
        });
        assert_eq!(sent["properties"], properties, "{version}");
    }
    let several = || {
        let titled = ChoicesField::titled([("a", "A"), ("b", "B")]).min_items(1).max_items(2).default_value(["a"]);
        let titled = titled.title("Letters").description("All that fit");
        Form::new().field("plain", ChoicesField::new(["x", "y"]).title("Axes")).field("titled", titled)
    };
    let sent = shown(several(), ProtocolVersion::V2025_11_25).expect("it is shown");
    let options = json!([{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]);
    let titled = json!({
        "type": "array", "title": "Letters", "description": "All that fit", "items": {"anyOf": options},
        "minItems": 1, "maxItems": 2, "default": ["a"],
    });
    let plain = json!({"type": "array", "title": "Axes", "items": {"type": "string", "enum": ["x", "y"]}});
    assert_eq!(sent["properties"], json!({"plain": plain, "titled": titled}));
    assert!(shown(several(), ProtocolVersion::V2025_06_18).is_err(), "it has no choices of several");
}

#[test]
fn wrong_forms_fail_before_they_are_sent() {
    let wrong = [
        (Form::new().field("a", TextField::new()).field("a", BooleanField::new()), "there are two fields `a`"),
        (Form::new().field("a", ChoiceField::new([""; 0])), "the field `a` has no choices"),
        (Form::new().field("a", ChoicesField::new([""; 0])), "the field `a` has no choices"),
        (
            Form::new().field("a", ChoiceField::new(["x"]).default_value("y")),
            "the default value of `a` is not among the choices: \"y\"",
        ),
        (
            Form::new().field("a", NumberField::integer().maximum(3).default_value(4)),
            "the default value of `a` is too large",
        ),
        (
            Form::new().field("a", TextField::new().min_length(2).default_value("x")),
            "the default value of `a` has too few characters",
        ),
    ];
    for (form, why) in wrong {
        let error = shown(form, ProtocolVersion::V2025_11_25).expect_err(why);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_peer_shows_only_pages_with_valid_urls() {
    let service = Service::builder("test", "1").build().expect("a good service");
    let pair = Pair::new(&obliging(&Roots::default()).build(), &service, ProtocolVersion::V2025_11_25);
    let page = |url: &str| {
        let id = Some("id".to_owned());
        ElicitParams::Url(ElicitUrlParams { elicitation_id: id, ..ElicitUrlParams::new("Sign in", url) })
    };
    let refused = pair.to_client().elicit(&page("nowhere")).map(drop);
    assert_eq!(refused, Err(mcp_proto::connection::SendError::Encode("not a URL".into())));
    let shown = pair.to_client().elicit(&page("https://example.com/in")).expect("it is sent");
    assert_eq!(pair.quick(shown).expect("a result").action, ElicitAction::Accept);
}

#[test]
fn a_peer_gets_only_responses_that_match_the_form() {
    let service = Service::builder("test", "1").build().expect("a good service");
    let pair = Pair::new(&obliging(&Roots::default()).build(), &service, ProtocolVersion::V2025_11_25);
    for (name, is_valid) in [(json!("Ada"), true), (json!(7), false)] {
        let schema = Form::new().field("name", TextField::new()).into_schema(ProtocolVersion::V2025_11_25);
        let form = ElicitParams::Form(ElicitFormParams::new("Who?", schema.expect("a form")));
        let pending = pair.to_client().elicit(&form).expect("it is sent");
        pair.server.flush();
        let request = pair.server.take_lines().pop().expect("a request");
        assert_eq!(request["method"], "elicitation/create");
        let result = json!({"action": "accept", "content": {"name": name}});
        pair.input_to_server(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string());
        let outcome = pair.wait(pending);
        assert_eq!(matches!(outcome, Err(CallError::Invalid(_))), !is_valid, "{outcome:?}");
        assert_eq!(outcome.is_ok(), is_valid);
    }
}

/// Texts of failures are masked only by services that say so, not by hosts.
#[test]
fn failures_of_host_handlers_keep_their_texts() {
    let service = service_with_requests().build().expect("a good service");
    let host = Host::builder("client", "1").elicitation(|_: ElicitFormParams, _| {
        Err::<ElicitResult, _>(Failure::from(std::io::Error::other("the screen is off")))
    });
    let pair = Pair::new(&host.build(), &service, ProtocolVersion::V2025_11_25);
    let (text, is_error) = call(&pair, "form");
    assert!(is_error && text.contains("the screen is off"), "{text}");
}
