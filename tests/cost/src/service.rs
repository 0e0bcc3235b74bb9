//! What typed handlers read of a peer: arguments, templates, skills, schemas, states.

use mcp_proto::{
    schema::{
        CallToolParams, CallToolResult, ElicitFormParams, ElicitResult, ElicitSchema, ElicitValue, Map, encode_base64,
    },
    wire::JsonObject,
};
use mcp_service::{CallError, Context, Failure, Host, Service, Skill, Tool, UriTemplate, is_uri, testing::TestClient};

use super::{Case, Work, descending, list};

pub(super) const CASES: &[Case] = &[
    Case { name: "service/arguments in descending order", make: |size| call(&descending(size, "1")) },
    Case {
        name: "service/arguments in nested arrays",
        make: |size| call(&format!("{{\"a\":{}\"{}\"{}}}", "[".repeat(100), "x".repeat(size), "]".repeat(100))),
    },
    Case {
        name: "service/arguments in nested objects",
        make: |size| call(&format!("{}\"{}\"{}", "{\"a\":".repeat(100), "x".repeat(size), "}".repeat(100))),
    },
    Case { name: "service/an array of unique items", make: unique },
    Case { name: "service/a digest of members in descending order", make: |size| digested(&descending(size, "1")) },
    Case {
        name: "service/a digest of nested arrays",
        make: |size| digested(&format!("{{\"a\":{}\"{}\"{}}}", "[".repeat(100), "x".repeat(size), "]".repeat(100))),
    },
    Case {
        name: "service/a digest of nested objects",
        make: |size| digested(&format!("{}\"{}\"{}", "{\"a\":".repeat(100), "x".repeat(size), "}".repeat(100))),
    },
    Case { name: "service/a digest of members of one name", make: |size| digested(&same(size)) },
    Case { name: "service/a state of another round", make: opened },
    Case {
        name: "service/a form of many fields",
        make: |size| form(&list(size / 2, |index| format!("\"f{index}\":{{\"type\":\"string\",\"default\":\"\"}}"))),
    },
    Case {
        name: "service/a form of many choices",
        make: |size| {
            let choices = list(size / 2, |index| format!("\"c{index}\""));
            form(&format!(
                r#""f":{{"type":"array","items":{{"type":"string","enum":[{choices}]}},"default":[{choices}]}}"#
            ))
        },
    },
    Case { name: "service/a state that is not sealed here", make: |size| state(encode_base64(&vec![b'x'; size])) },
    Case { name: "service/a state with many answers", make: sealed },
    Case { name: "template/parsed", make: |size| template(format!("mem://{}", "{a}".repeat(size / 3))) },
    Case {
        name: "template/matched against a long URI",
        make: |size| matched("mem://{a}/{b}/{c}/end", format!("mem://{}", "a/".repeat(size / 2))),
    },
    Case { name: "uri/a long one", make: |size| uri(format!("mem://{}", "%41".repeat(size / 3))) },
    Case {
        name: "skill/frontmatter of many members",
        make: |size| skill(&list(size, |index| format!("k{index}: v")).replace(',', "\n")),
    },
    Case { name: "client/a SKILL.md with frontmatter of many members", make: loaded },
    Case { name: "skill/frontmatter of nested lists", make: |size| skill(&format!("a: {}", "[x],".repeat(size / 4))) },
];

fn echo() -> Service {
    Service::builder("cost", "1").tool(Tool::new("echo", |_: serde_json::Value| "ok")).build().expect("a service")
}

/// A call of 2026-07-28 with these arguments, through a client and a server.
fn call(arguments: &str) -> Work {
    let client = TestClient::new(&echo());
    let mut params = CallToolParams::new("echo");
    params.arguments = Some(JsonObject::parse(arguments.to_owned()).expect("an object"));
    Work::new(arguments.len(), move || {
        let pending = client.server().request(&params).expect("it is ready");
        client.wait(pending).expect("it is answered");
    })
}

fn unique(size: usize) -> Work {
    let schema = r#"{"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}}"#;
    let schema = JsonObject::parse(schema.to_owned()).expect("an object");
    let tool = Tool::with_schema("echo", schema, |_: serde_json::Value| "ok");
    let service = Service::builder("cost", "1").tool(tool).build().expect("a service");
    let client = TestClient::new(&service);
    let arguments = format!("{{\"a\":[{}]}}", list(size, |index| format!("{{\"k\":{index}}}")));
    let mut params = CallToolParams::new("echo");
    params.arguments = Some(JsonObject::parse(arguments.clone()).expect("an object"));
    Work::new(arguments.len(), move || {
        let pending = client.server().request(&params).expect("it is ready");
        client.wait(pending).expect("it is answered");
    })
}

/// A tool of the server asks its user to fill in a form with these fields, of which all are required, and the client
/// accepts it as it is.
fn form(properties: &str) -> Work {
    let text = format!("{{\"type\":\"object\",\"properties\":{{{properties}}}}}");
    let mut schema: ElicitSchema = serde_json::from_str(&text).expect("a form");
    schema.required = Some(schema.properties.iter().map(|(name, _)| name.to_owned()).collect());
    let send_request = move |context: Context| context.elicit("?", schema.clone()).wait().map(|_| "ok");
    let service = Service::builder("cost", "1").tool(Tool::new("ask", send_request)).build().expect("a service");
    let host = Host::builder("cost", "1")
        .elicitation(|_: ElicitFormParams, _| Ok::<_, Failure>(ElicitResult::accept(Map::new())))
        .build();
    let client = TestClient::of(&service).host(&host).connect();
    Work::new(text.len(), move || {
        let result = client.call_tool("ask", ()).expect("it is answered");
        assert_ne!(result.is_error, Some(true), "the form is filled in: {result:?}");
    })
}

fn state(state: String) -> Work {
    let client = TestClient::new(&echo());
    let mut params = CallToolParams::new("echo");
    let input = state.len();
    params.request_state = Some(state);
    Work::new(input, move || {
        let pending = client.server().request(&params).expect("it is ready");
        assert!(client.wait(pending).is_err(), "it is refused");
    })
}

/// A client responds to many input requests that it did not get, so that the server seals all of that into its next
/// state.
fn sealed(size: usize) -> Work {
    let send_request = |context: Context| {
        let form = ElicitSchema::new(Map::new());
        context.elicit("?", form).wait().map(|_| "ok")
    };
    let service = Service::builder("cost", "1").tool(Tool::new("ask", send_request)).build().expect("a service");
    let host = Host::builder("cost", "1")
        .elicitation(|_: ElicitFormParams, _| Ok::<_, Failure>(ElicitResult::accept(Map::new())))
        .build();
    let client = TestClient::of(&service).host(&host).connect();
    let mut params = CallToolParams::new("ask");
    let answers = format!("{{{}}}", list(size, |index| format!("\"a{index}\":{{\"action\":\"accept\"}}")));
    params.input_responses = Some(serde_json::from_str(&answers).expect("answers"));
    Work::new(answers.len(), move || {
        let pending = client.server().request(&params).expect("it is ready");
        let _: Result<CallToolResult, CallError> = client.wait(pending);
    })
}

fn same(size: usize) -> String {
    format!("{{\"b\":{{{}}}}}", list(size, |_| "\"a\":0".to_owned()))
}

/// A tool that sends an elicitation for each of these messages, one after the other, and a client that responds to each
/// with this content.
fn client_of_tool(messages: &'static [&'static str], content: Map<ElicitValue>) -> TestClient {
    let send_request = move |_: serde_json::Value, context: Context| async move {
        for message in messages {
            context.elicit(*message, ElicitSchema::new(Map::new())).await?;
        }
        Ok::<_, Failure>("ok")
    };
    let service = Service::builder("cost", "1").tool(Tool::new_async("ask", send_request)).build().expect("a service");
    let host = Host::builder("cost", "1")
        .elicitation(move |_: ElicitFormParams, _| Ok::<_, Failure>(ElicitResult::accept(content.clone())))
        .build();
    TestClient::of(&service).host(&host).connect()
}

/// A call of a tool that asks: a digest of its arguments is in the state that it is answered with, and compared when it
/// comes again.
fn digested(arguments: &str) -> Work {
    let client = client_of_tool(&["a"], Map::new());
    let mut params = CallToolParams::new("ask");
    params.arguments = Some(JsonObject::parse(arguments.to_owned()).expect("an object"));
    Work::new(arguments.len(), move || {
        let pending = client.server().request(&params).expect("it is ready");
        let result: CallToolResult = client.wait(pending).expect("it is answered");
        assert!(!result.is_error(), "{result:?}");
    })
}

/// A large answer, which the server seals into the state of the rounds after it, and opens in each.
fn opened(size: usize) -> Work {
    let content = format!("{{{}}}", list(size, |index| format!("\"a{index}\":\"x\"")));
    let client = client_of_tool(&["a", "b", "c"], serde_json::from_str(&content).expect("a map"));
    let params = CallToolParams::new("ask");
    Work::new(content.len(), move || {
        let pending = client.server().request(&params).expect("it is ready");
        let result: CallToolResult = client.wait(pending).expect("it is answered");
        assert!(!result.is_error(), "{result:?}");
    })
}

/// A client reads the file of a skill and compares its beginning with what was announced.
fn loaded(size: usize) -> Work {
    let metadata = list(size, |index| format!("k{index}: v")).replace(',', "\n");
    let text = format!("---\nname: a\ndescription: b\n{metadata}\n---\n");
    let input = text.len();
    let service = Service::builder("cost", "1").skill(Skill::new("a", text)).build().expect("a service");
    let client = TestClient::new(&service);
    let skills = client.wait(client.server().list_skills(None).expect("it is ready")).expect("skills");
    Work::new(input, move || {
        let pending = client.server().load_skill(&skills.skills[0]).expect("it is ready");
        client.wait(pending).expect("it is what was announced");
    })
}

fn template(text: String) -> Work {
    Work::new(text.len(), move || drop(UriTemplate::parse(&text)))
}

fn matched(template: &str, uri: String) -> Work {
    let template = UriTemplate::parse(template).expect("a template");
    Work::new(uri.len(), move || drop(template.matches(&uri)))
}

fn uri(text: String) -> Work {
    Work::new(text.len(), move || {
        std::hint::black_box(is_uri(&text));
    })
}

fn skill(metadata: &str) -> Work {
    let text = format!("---\nname: a\ndescription: b\n{metadata}\n---\n");
    Work::new(text.len(), move || {
        drop(Service::builder("cost", "1").skill(Skill::new("a", text)).build());
    })
}
