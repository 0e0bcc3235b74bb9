use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use mcp_proto::{
    protocol::{Capability, ProtocolVersion, VersionSet},
    schema::{
        AudioContent, ContentBlock, PromptArgument, PromptMessage, PromptsListChangedParams, ResourceLink,
        TextResourceContents,
    },
};
use serde_json::{Value, json};

use super::body;
use super::pair::{Pair, code};
use crate::{
    client::Host,
    inbound::{completion_request::CompletionRequest, context::Context, failure::Failure},
    server::{prompt::Prompt, register_error::RegisterError, service::Service},
};

#[derive(serde::Deserialize)]
struct Greeting {
    name: String,
    times: Option<u8>,
}

fn greeting(name: &str) -> Prompt {
    let required = PromptArgument { required: Some(true), ..PromptArgument::new("name") };
    let arguments = [required, PromptArgument { title: Some("How often".into()), ..PromptArgument::new("times") }];
    Prompt::with_arguments(name, arguments, |greeting: Greeting| {
        format!("Hello, {}!", greeting.name).repeat(greeting.times.unwrap_or(1).into())
    })
    .description("Greets")
}

fn pair(service: &Service, version: ProtocolVersion) -> Pair {
    Pair::new(&Host::builder("client", "1").build(), service, version)
}

// req: PROMPT-001 PROMPT-002 PROMPT-003 PROMPT-004 PROMPT-005 PROMPT-007 PROMPT-008 PROMPT-012 PROMPT-013 PROMPT-014 PROMPT-018
// req: M-PROMPT-001 M-PROMPT-002 M-PROMPT-006 M-PROMPT-007 M-PROMPT-009
#[test]
fn lists_and_fills_prompts() {
    let service = Service::builder("test", "1")
        .prompt(greeting("greet"))
        .prompt(Prompt::new("plain", || [PromptMessage::user("a"), PromptMessage::assistant("b")]))
        .prompt(Prompt::with_arguments(
            "loose",
            [PromptArgument { required: Some(true), ..PromptArgument::new("word") }],
            |words: std::collections::BTreeMap<String, String>| words.into_values().collect::<String>(),
        ))
        .prompt(Prompt::new("fails", |_: Context| Err::<String, _>(Failure::new("out of ink"))))
        .prompt(Prompt::new("panics", || -> String { panic!("secret") }))
        .build()
        .expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        assert!(pair.to_server().capabilities().contains(Capability::Prompts));
        let listed = body(version, true, pair.send_request("prompts/list", json!({})));
        let greet = &listed["prompts"][0];
        assert_eq!((&greet["name"], &greet["description"]), (&json!("greet"), &json!("Greets")));
        assert_eq!(greet["arguments"][0], json!({"name": "name", "required": true}));
        assert_eq!(greet["arguments"][1]["title"] == "How often", version >= ProtocolVersion::V2025_06_18);
        assert_eq!(listed["prompts"][1], json!({"name": "plain"}));

        let get = |name: &str, arguments: Value| {
            pair.send_request("prompts/get", json!({"name": name, "arguments": arguments}))
        };
        assert_eq!(
            body(version, false, get("greet", json!({"name": "Ada", "times": "2"}))),
            json!({"description": "Greets", "messages":
                [{"role": "user", "content": {"type": "text", "text": "Hello, Ada!Hello, Ada!"}}]})
        );
        assert!(get("loose", json!({"word": "a", "other": "b"})).is_ok());
        let plain = get("plain", Value::Null).expect("a prompt");
        assert_eq!(
            (&plain["messages"][0]["role"], &plain["messages"][1]["role"]),
            (&json!("user"), &json!("assistant"))
        );
        assert_eq!(plain.get("description"), None);

        for (name, arguments) in [
            ("unknown", json!({})),
            ("loose", json!({"other": "a"})),
            ("greet", json!({})),
            ("greet", json!({"times": "1"})),
            ("greet", json!({"name": "Ada", "times": "many"})),
            ("greet", json!({"name": 1})),
        ] {
            assert_eq!(code(&get(name, arguments)), -32602);
        }
        assert_eq!(get("fails", json!({})).expect_err("no ink")["message"], "out of ink");
        assert_eq!(code(&get("fails", json!({}))), -32603);
        let panicked = get("panics", json!({}));
        assert!(code(&panicked) == -32603 && !panicked.expect_err("an error").to_string().contains("secret"));
        pair.assert_clean();
    }
    let twice = Service::builder("test", "1").prompt(greeting("a")).prompt(greeting("a")).build().map(drop);
    assert_eq!(twice, Err(RegisterError::Taken("a".into())));
    let nameless = Service::builder("test", "1").prompt(Prompt::new("", || "")).build().map(drop);
    assert_eq!(nameless, Err(RegisterError::Name(String::new())));
}

// req: PROMPT-009 PROMPT-010 PROMPT-011
#[test]
fn prompt_messages_fit_the_revision() {
    let embedded = ContentBlock::resource(TextResourceContents::new("a://b", "text"));
    let audio = ContentBlock::from(AudioContent::new("AAAA", "audio/wav"));
    let service = Service::builder("test", "1")
        .prompt(Prompt::new("resource", move || PromptMessage::user(embedded.clone())))
        .prompt(Prompt::new("audio", move || PromptMessage::user(audio.clone())))
        .build()
        .expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        let get = |name: &str| pair.send_request("prompts/get", json!({"name": name}));
        assert_eq!(get("resource").expect("a prompt")["messages"][0]["content"]["type"], "resource");
        match get("audio") {
            Ok(prompt) => {
                assert!(version >= ProtocolVersion::V2025_03_26 && prompt["messages"][0]["content"]["type"] == "audio")
            }
            Err(error) => assert!(version == ProtocolVersion::V2024_11_05 && error["code"] == -32603),
        }
    }
}

// req: CONT-010
#[test]
fn a_prompt_can_link_to_a_resource() {
    let service = Service::builder("test", "1")
        .prompt(Prompt::new("link", || PromptMessage::user(ContentBlock::from(ResourceLink::new("a://b", "b")))))
        .build()
        .expect("a good service");
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25] {
        let pair = pair(&service, version);
        let pending = pair.to_server().get_prompt("link", ()).expect("it can be sent");
        let prompt = pair.wait(pending).expect("a prompt");
        let ContentBlock::ResourceLink(link) = &prompt.messages[0].content else { panic!("{version}: {prompt:?}") };
        assert_eq!((&*link.uri, &*link.name), ("a://b", "b"), "{version}");
    }
}

// req: PROMPT-015 PROMPT-017 M-PROMPT-002
#[test]
fn prompt_changes_are_sent_if_declared() {
    let service = Service::builder("test", "1").enable_prompts().build().expect("a good service");
    for version in ProtocolVersion::LEGACY {
        let received = Arc::new(AtomicUsize::new(0));
        let recorder = received.clone();
        let counts = move |_: PromptsListChangedParams, _| _ = recorder.fetch_add(1, Ordering::SeqCst);
        let wide = Pair::new(&Host::builder("client", "1").on(counts).build(), &service, version);
        let narrow = Pair::with(&Host::builder("client", "1").build(), &service, |joining| {
            joining.client.settings.versions = VersionSet::only(version);
            joining.server.capabilities.prompts.as_mut().expect("prompts").list_changed = None;
        });
        assert_eq!(wide.send_request("prompts/list", json!({})), Ok(json!({"prompts": []})));
        [&wide, &narrow].iter().for_each(|pair| drop(pair.server.take_lines()));
        service.add(greeting("a")).expect("its name is free");
        assert!(service.remove_prompt("a") && !service.remove_prompt("a"));
        wide.settle();
        narrow.settle();
        let told = json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"});
        assert_eq!(wide.server.take_lines(), [told], "{version}");
        assert_eq!(received.load(Ordering::SeqCst), 1, "{version}");
        assert_eq!(narrow.server.take_lines(), [Value::Null; 0], "{version}");
    }
    let modern = pair(&service, ProtocolVersion::V2026_07_28);
    let listed = body(ProtocolVersion::V2026_07_28, true, modern.send_request("prompts/list", json!({})));
    assert_eq!(listed, json!({"prompts": []}));
}

// req: COMPL-001 COMPL-002 COMPL-003 COMPL-004 COMPL-006 COMPL-008 COMPL-009 COMPL-012 COMPL-013 COMPL-015 M-COMPL-001 M-COMPL-005
#[test]
fn arguments_are_completed() {
    let service = Service::builder("test", "1")
        .prompt(
            greeting("greet")
                .complete("name", |requested: CompletionRequest| {
                    let by = requested.known.get("times").cloned().unwrap_or_default();
                    ["Ada", "Alan", "Bob"]
                        .into_iter()
                        .filter(|name| name.starts_with(&requested.value))
                        .map(|name| format!("{name}{by}"))
                        .collect::<Vec<_>>()
                })
                .complete("times", |requested: CompletionRequest| match requested.value.as_str() {
                    "" => Ok((0..250).map(|i| i.to_string()).collect::<Vec<_>>()),
                    _ => Err(Failure::new("cannot count")),
                }),
        )
        .prompt(greeting("bare"))
        .build()
        .expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        let declared = pair.to_server().capabilities().contains(Capability::Completions);
        assert_eq!(declared, version >= ProtocolVersion::V2025_03_26);
        let complete = |name: &str, argument: &str, value: &str| {
            pair.send_request(
                "completion/complete",
                json!({
                    "ref": {"type": "ref/prompt", "name": name, "title": "whatever"},
                    "argument": {"name": argument, "value": value},
                    "context": {"arguments": {"times": "!"}}
                }),
            )
        };
        let expected = json!({"values": ["Ada!", "Alan!"], "total": 2, "hasMore": false});
        assert_eq!(complete("greet", "name", "A").expect("proposals")["completion"], expected);
        let many = body(version, false, complete("greet", "times", ""));
        assert_eq!(many["completion"]["values"].as_array().map(Vec::len), Some(100));
        assert_eq!((&many["completion"]["total"], &many["completion"]["hasMore"]), (&json!(250), &json!(true)));
        assert_eq!(complete("bare", "name", "").expect("none")["completion"]["values"], json!([]));
        assert_eq!(code(&complete("greet", "times", "x")), -32603);
        assert_eq!(code(&complete("unknown", "name", "")), -32602);
        assert_eq!(code(&complete("greet", "unknown", "")), -32602);
        for bad in [
            json!({}),
            json!({"ref": {"type": "ref/prompt", "name": "greet"}}),
            json!({"ref": {"type": "ref/prompt"}, "argument": {"name": "name", "value": ""}}),
            json!({"ref": {"type": "ref/other", "name": "greet"}, "argument": {"name": "name", "value": ""}}),
            json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": 1}}),
        ] {
            assert_eq!(code(&pair.send_request("completion/complete", bad)), -32602);
        }
        pair.assert_clean();
    }
}

// req: COMPL-007 COMPL-011
#[test]
fn completion_without_handlers_is_not_declared() {
    let service = Service::builder("test", "1").prompt(greeting("greet")).build().expect("a good service");
    let pair = pair(&service, ProtocolVersion::V2024_11_05);
    let requested = json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": ""}});
    assert_eq!(code(&pair.send_request("completion/complete", requested)), -32601);
    let pair = Pair::simple(&service);
    assert!(!pair.to_server().capabilities().contains(Capability::Completions));
}
