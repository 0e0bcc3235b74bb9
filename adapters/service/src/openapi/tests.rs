use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use allocation_counter::measure;
use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{CallToolResult, ContentBlock},
    wire::JsonObject,
};
use serde_json::{Map, Value, json};

use super::*;
use crate::{
    server::{builder::ServiceBuilder, service::Service},
    testing::TestClient,
};

/// The requests that were sent.
type Sent = Arc<Mutex<Vec<HttpRequest>>>;

/// Returns a document with these paths and components.
fn document(version: &str, paths: Value, components: Value) -> String {
    json!({"openapi": version, "info": {"title": "Pets", "version": "1"}, "paths": paths, "components": components})
        .to_string()
}

/// Returns a document with one operation, `call`, with these parameters.
fn with_parameters(path: &str, parameters: Value) -> String {
    document("3.1.0", json!({path: {"get": {"operationId": "call", "parameters": parameters}}}), json!({}))
}

/// Returns a client of the tools of a document, and the requests that they send. Each response is `respond(request)`.
fn connect(
    document: &str,
    version: ProtocolVersion,
    respond: impl Fn(&HttpRequest) -> HttpResponse + Send + Sync + 'static,
) -> (TestClient, Sent) {
    let api = OpenApi::parse(document).expect("a document");
    assert_eq!(api.refused(), []);
    let sent = Sent::default();
    let requests = sent.clone();
    let send = move |request: HttpRequest, _: Context| {
        let response = respond(&request);
        requests.lock().expect("no panic").push(request);
        async move { Ok::<_, Failure>(response) }
    };
    let tools = api.tools_async("https://api.example/v1/", send).expect("a base URL");
    let service =
        tools.into_iter().fold(Service::builder("api", "1"), ServiceBuilder::tool).build().expect("a service");
    (TestClient::of(&service).version(version).connect(), sent)
}

/// Calls the tool `call` of a document with parameters. Returns the URL and the headers of the request, or the error.
fn request(path: &str, parameters: Value, arguments: Value) -> Result<(String, Vec<(String, String)>), String> {
    let (client, sent) =
        connect(&with_parameters(path, parameters), ProtocolVersion::V2026_07_28, |_| HttpResponse::new(204));
    let result = client.call_tool("call", arguments).expect("a result");
    let sent = sent.lock().expect("no panic").pop();
    match sent {
        Some(sent) => Ok((sent.url, sent.headers)),
        None => Err(text(&result)),
    }
}

fn text(result: &CallToolResult) -> String {
    assert!(result.is_error(), "{result:?}");
    result.content[0].as_text().expect("a text").to_owned()
}

fn pets() -> String {
    document(
        "3.0.3",
        json!({"/pets/{id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": {
                "operationId": "get pet", "summary": "Returns a pet", "description": "With its owner.",
                "parameters": [{"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}}],
                "responses": {
                    "200": {"$ref": "#/components/responses/Pet"},
                    "404": {"description": "There is no such pet"},
                },
            },
            "put": {
                "operationId": "setPet",
                "requestBody": {"required": true, "content": {"application/json; charset=utf-8": {"schema": {"$ref": "#/components/schemas/Pet"}}}},
                "parameters": [
                    {"name": "If-Match", "in": "header", "required": true, "schema": {"type": "string"}},
                    {"name": "key", "in": "query", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                ],
                "responses": {"204": {"description": "Done"}},
            },
        }}),
        json!({
            "parameters": {"Id": {"name": "id", "in": "path", "required": true, "description": "The id", "schema": {"type": "integer"}}},
            "responses": {"Pet": {"description": "A pet", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
            "schemas": {"Pet": {
                "type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "parent": {"$ref": "#/components/schemas/Pet"}, "tag": {"type": "string", "nullable": true}},
            }},
            "securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "key"}},
        }),
    )
}

#[test]
fn operations_are_tools_in_both_eras() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let (client, sent) = connect(&pets(), version, |request| match (request.method, request.url.ends_with("/7")) {
            ("GET", true) => HttpResponse::new(200)
                .header("Content-Type", "application/json; charset=utf-8")
                .body(r#"{"name":"Rex","parent":{"name":"Max","tag":null}}"#),
            ("GET", false) => HttpResponse::new(404).body("no such pet"),
            _ => HttpResponse::new(204),
        });
        let tools = client.wait(client.server().list_tools(None).expect("a request")).expect("a list").tools;
        let tool = |name: &str| tools.iter().find(|tool| tool.name == name).expect("a tool");
        let get = tool("get_pet");
        assert_eq!(get.description.as_deref(), Some("Returns a pet\n\nWith its owner."));
        assert!(get.annotations.as_ref().expect("hints").is_read_only());
        let put = tool("setPet").annotations.as_ref().expect("hints");
        assert_eq!((put.is_read_only(), put.idempotent_hint, put.open_world_hint), (false, Some(true), Some(true)));
        let schema: Value = get.input_schema.decode().expect("a schema");
        assert_eq!(
            schema,
            json!({
                "type": "object", "additionalProperties": false, "required": ["id"],
                "properties": {
                    "fields": {"type": "array", "items": {"type": "string"}},
                    "id": {"type": "integer", "description": "The id"},
                },
            })
        );
        let output: Value = get.output_schema.as_ref().expect("a schema").decode().expect("a schema");
        assert_eq!(output["$defs"]["Pet"]["properties"]["tag"]["type"], json!(["string", "null"]));
        assert_eq!(output["type"], "object");
        let schema: Value = tool("setPet").input_schema.decode().expect("a schema");
        let names: Vec<_> = schema["properties"].as_object().expect("arguments").keys().collect();
        assert_eq!(names, ["If-Match", "body", "id"], "credentials are none of them");

        let result = client.call_tool("get_pet", json!({"id": 7})).expect("a result");
        let structured = result.structured_content.as_ref().expect("an object");
        assert_eq!(structured.get(), r#"{"name":"Rex","parent":{"name":"Max","tag":null}}"#);
        let result = client.call_tool("get_pet", json!({"id": 8, "fields": ["a", "b&c"]})).expect("a result");
        assert_eq!(text(&result), "HTTP status 404: no such pet");
        let body = json!({"name": "Rex", "parent": {"name": "Max"}});
        let result = client.call_tool("setPet", json!({"id": 9, "If-Match": "\"3\"", "body": body})).expect("a result");
        assert!(!result.is_error() && result.content.is_empty(), "{result:?}");
        let requests = std::mem::take(&mut *sent.lock().expect("no panic"));
        assert_eq!(requests[0].url, "https://api.example/v1/pets/7");
        assert_eq!((requests[0].body.as_ref(), &*requests[0].headers), (None, &[][..]));
        assert_eq!(requests[1].url, "https://api.example/v1/pets/8?fields=a&fields=b%26c");
        assert_eq!((requests[2].method, &*requests[2].url), ("PUT", "https://api.example/v1/pets/9"));
        let headers = [("if-match", "\"3\""), ("content-type", "application/json")];
        assert_eq!(requests[2].headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let sent_body: Value = serde_json::from_slice(requests[2].body.as_ref().expect("a body")).expect("JSON");
        assert_eq!(sent_body, body);
        // Arguments are checked before anything is sent.
        for arguments in [json!({}), json!({"id": "7/.."}), json!({"id": 7, "key": "mine"})] {
            let _ = client.call_tool("get_pet", arguments);
        }
        assert!(sent.lock().expect("no panic").is_empty());
    }
}

#[test]
fn arguments_stay_in_their_segment() {
    let any = |name: &str| json!([{"name": name, "in": "path", "required": true, "schema": {}}]);
    let url = |argument: Value| request("/a/{id}/b", any("id"), json!({"id": argument})).map(|(url, _)| url);
    for (argument, segment) in [
        (json!("x/../../admin"), "x%2F..%2F..%2Fadmin"),
        (json!("..%2f"), "..%252f"),
        (json!("%2e%2e"), "%252e%252e"),
        (json!("a?b#c\r\nHost: x\\"), "a%3Fb%23c%0D%0AHost%3A%20x%5C"),
        (json!("..."), "..."),
        (json!(1.5), "1.5"),
        (json!(true), "true"),
        (json!(["a,b", "/"]), "a%2Cb,%2F"),
        (json!({"k": "v/"}), "k,v%2F"),
    ] {
        assert_eq!(url(argument), Ok(format!("https://api.example/v1/a/{segment}/b")));
    }
    for argument in [json!(".."), json!("."), json!(""), json!([]), json!([[1]]), json!({"a": {}}), json!(null)] {
        let refused = url(argument.clone());
        assert!(refused.is_err(), "{argument} is sent as {refused:?}");
    }
    // Two arguments in one segment.
    let two = json!([
        {"name": "a", "in": "path", "required": true, "schema": {}},
        {"name": "b", "in": "path", "required": true, "schema": {}},
    ]);
    assert!(request("/x/{a}{b}", two.clone(), json!({"a": ".", "b": "."})).is_err());
    assert!(request("/x/%2e{a}{b}", two.clone(), json!({"a": ".", "b": ""})).is_err());
    assert_eq!(
        request("/x/{a}-{b}", two, json!({"a": ".", "b": "."})).map(|(url, _)| url),
        Ok("https://api.example/v1/x/.-.".into())
    );
}

#[test]
fn queries_and_headers_are_encoded() {
    let query = |more: Value, argument: Value| {
        let mut parameter = json!({"name": "q[x]", "in": "query"});
        parameter.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        request("/a", json!([parameter]), json!({"q_x": argument}))
            .map(|(url, _)| url["https://api.example/v1/a".len()..].to_owned())
    };
    for (more, argument, expected) in [
        (json!({}), json!("a b&c=d#"), "?q%5Bx%5D=a%20b%26c%3Dd%23"),
        (json!({}), json!([1, "b"]), "?q%5Bx%5D=1&q%5Bx%5D=b"),
        (json!({}), json!([]), ""),
        (json!({}), json!(null), ""),
        (json!({"explode": false}), json!(["a", "b,c"]), "?q%5Bx%5D=a,b%2Cc"),
        (json!({"explode": false}), json!({"k": 1, "l": "&"}), "?q%5Bx%5D=k,1,l,%26"),
        (json!({"allowReserved": true}), json!("/?&"), "?q%5Bx%5D=%2F%3F%26"),
        (json!({"content": {"application/json": {}}}), json!({"a": [1]}), "?q%5Bx%5D=%7B%22a%22%3A%5B1%5D%7D"),
    ] {
        assert_eq!(query(more, argument), Ok(expected.to_owned()));
    }
    // The members of an object would be parameters with any names.
    assert!(query(json!({}), json!({"key": "mine"})).is_err());
    assert!(query(json!({}), json!([{"a": 1}])).is_err());

    let header = json!([{"name": "X-Trace", "in": "header", "schema": {}}]);
    let header =
        |argument: &str| request("/a", header.clone(), json!({"X-Trace": argument})).map(|(_, headers)| headers);
    assert_eq!(header("a, \"b\""), Ok(vec![("x-trace".into(), "a, \"b\"".into())]));
    for argument in ["a\r\nX-Admin: 1", "a\nb", "a\0", "é", "\u{7f}"] {
        assert!(header(argument).is_err(), "{argument:?}");
    }
}

#[test]
fn responses_are_results_and_failures() {
    let (document, responses) = (with_parameters("/a", json!([])), AtomicUsize::new(0));
    let (client, _) = connect(&document, ProtocolVersion::V2026_07_28, move |_| {
        match responses.fetch_add(1, Ordering::Relaxed) + 1 {
            1 => HttpResponse::new(200).header("content-type", "application/json").body(r#"{"a":1}"#),
            2 => HttpResponse::new(200).header("content-type", "Image/PNG").body(*b"\x89PNG"),
            3 => HttpResponse::new(200).header("content-type", "audio/wav").body(*b"RIFF"),
            4 => HttpResponse::new(200).header("content-type", "image/svg+xml").body("<svg/>"),
            5 => HttpResponse::new(200).header("content-type", "application/pdf").body(*b"\xff"),
            6 => HttpResponse::new(302).header("location", "http://169.254.169.254/"),
            7 => HttpResponse::new(500).body("x".repeat(100_000)),
            8 => HttpResponse::new(500).body("x".repeat(4096)),
            9 => HttpResponse::new(200).body("x".repeat((1 << 20) + 1)),
            _ => HttpResponse::new(200).body("x".repeat(1 << 20)),
        }
    });
    let call = || client.call_tool("call", json!({})).expect("a result");
    let result = call();
    assert_eq!(result.content[0].as_text(), Some(r#"{"a":1}"#));
    assert!(result.structured_content.is_none(), "the document does not describe it");
    assert!(matches!(&call().content[0], ContentBlock::Image(image) if image.mime_type == "image/png"));
    assert!(matches!(&call().content[0], ContentBlock::Audio(audio) if audio.mime_type == "audio/wav"));
    // An image that is a text, which a model can read.
    assert_eq!(call().content[0].as_text(), Some("<svg/>"));
    assert_eq!(text(&call()), "the response is not a text but \"application/pdf\"");
    assert_eq!(text(&call()), "HTTP status 302");
    assert_eq!(text(&call()), format!("HTTP status 500: {}…", "x".repeat(4096)));
    assert_eq!(text(&call()), format!("HTTP status 500: {}", "x".repeat(4096)));
    assert_eq!(text(&call()), "the response has more than 1048576 bytes");
    assert!(!call().is_error());
    // A response that is not what the document says.
    let (client, _) = connect(&pets(), ProtocolVersion::V2026_07_28, |_| HttpResponse::new(200).body("{}"));
    let result = client.call_tool("get_pet", json!({"id": 7})).expect("a result");
    assert_eq!(text(&result), "the response is not the JSON object that the API describes");
}

#[test]
fn functions_that_block_send_requests_too() {
    let api =
        OpenApi::parse(&pets()).expect("a document").filter(|method, path| method == "PUT" && path == "/pets/{id}");
    let tools = api
        .tools("http://localhost:80", |request, _| Err::<HttpResponse, _>(format!("{} is not reached", request.url)));
    let mut tools = tools.expect("a base URL");
    assert_eq!(tools.len(), 1);
    let service = Service::builder("api", "1").tool(tools.remove(0)).build().expect("a service");
    let arguments = json!({"id": 1, "If-Match": "x", "body": {"name": "Rex"}});
    let result = TestClient::new(&service).call_tool("setPet", arguments).expect("a result");
    assert_eq!(text(&result), "http://localhost:80/pets/1 is not reached");
    assert!(api.tools("/relative", |_, _| Ok::<_, Failure>(HttpResponse::new(200))).is_err());
}

#[test]
fn operations_that_cannot_be_tools_are_refused_with_a_reason() {
    let parameter = |more: Value| {
        let mut parameter = json!({"name": "p", "in": "query"});
        parameter.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"parameters": [parameter]})
    };
    let style = |style: &str| Refusal::Style { parameter: "p".into(), style: style.into() };
    let body = |media_type: &str| json!({"requestBody": {"content": {media_type: {}}}});
    for (path, operation, why) in [
        ("/a", parameter(json!({"style": "deepObject"})), style("deepObject")),
        ("/a", parameter(json!({"style": "pipeDelimited"})), style("pipeDelimited")),
        ("/a", parameter(json!({"schema": {"type": "object"}})), style("form, of an object that explodes")),
        ("/{p}", parameter(json!({"in": "path", "style": "matrix"})), style("matrix")),
        ("/a", parameter(json!({"in": "cookie"})), Refusal::Cookie("p".into())),
        ("/a", parameter(json!({"in": "header", "name": "Host"})), Refusal::Header("Host".into())),
        ("/a", parameter(json!({"in": "header", "name": "X\r\nY"})), Refusal::Header("X\r\nY".into())),
        ("/a", parameter(json!({"in": "body"})), Refusal::Invalid("the place of \"p\"".into())),
        ("/a", parameter(json!({"content": {"text/plain": {}}})), Refusal::MediaType("text/plain".into())),
        ("/a", parameter(json!({"schema": {"$ref": "other.json"}})), Refusal::Reference("other.json".into())),
        ("/a", parameter(json!({"schema": {"$ref": "#/none"}})), Refusal::Reference("#/none".into())),
        ("/a", json!({"parameters": {}}), Refusal::Invalid("\"parameters\"".into())),
        ("/a", json!({"parameters": vec![json!({"$ref": "#/x"}); 101]}), Refusal::Parameters(100)),
        ("/a", body("multipart/form-data"), Refusal::MediaType("multipart/form-data".into())),
        (
            "/a",
            body("application/a\r\nx-admin: 1\r\nx: +json"),
            Refusal::MediaType("application/a\r\nx-admin: 1\r\nx: +json".into()),
        ),
        ("/a", body("application/a b+json"), Refusal::MediaType("application/a b+json".into())),
        ("/a", body("application/ä+json"), Refusal::MediaType("application/ä+json".into())),
        ("/a", json!([]), Refusal::Invalid("the operation".into())),
        ("/{p}{p}", parameter(json!({"in": "path"})), Refusal::Path),
        ("/{p}", json!({}), Refusal::Path),
        ("/{p", parameter(json!({"in": "path"})), Refusal::Path),
        ("/p}", json!({}), Refusal::Path),
        ("/a", parameter(json!({"in": "path"})), Refusal::Path),
        ("/a/../b", json!({}), Refusal::Path),
        ("/a/%2E%2e", json!({}), Refusal::Path),
        ("/a?b", json!({}), Refusal::Path),
        ("/a%2", json!({}), Refusal::Path),
        ("/a%g0", json!({}), Refusal::Path),
        ("/%2{p}", parameter(json!({"in": "path"})), Refusal::Path),
        ("a", json!({}), Refusal::Path),
        ("//{p}@evil", json!({}), Refusal::Path),
    ] {
        let api = OpenApi::parse(&document("3.1.1", json!({path: {"get": operation}}), json!({}))).expect("a document");
        let refused: Vec<_> = api.refused().iter().map(|refused| (&*refused.path, &refused.why)).collect();
        assert_eq!(refused, [(path, &why)]);
        assert!(api.tools("http://a", |_, _| Ok::<_, Failure>(HttpResponse::new(200))).expect("tools").is_empty());
    }
    for (text, error) in [
        ("[", OpenApiError::Invalid("EOF while parsing a list at line 1 column 1".into())),
        ("{}", OpenApiError::Invalid("it does not say \"openapi\"".into())),
        (r#"{"openapi": "2.0"}"#, OpenApiError::Version("2.0".into())),
        (r#"{"openapi": "3.10.0"}"#, OpenApiError::Version("3.10.0".into())),
        (r#"{"openapi": "3.1.0", "paths": []}"#, OpenApiError::Invalid("\"paths\" is not an object".into())),
    ] {
        assert_eq!(OpenApi::parse(text).expect_err(text), error);
    }
}

#[test]
fn hostile_documents_are_bounded() {
    let operation = |schema: &str| json!({"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": schema}}}}}});
    let one = |schemas: Value| {
        document("3.1.0", json!({"/a": operation("#/components/schemas/s0")}), json!({"schemas": schemas}))
    };
    let link = |n: usize| json!({"$ref": format!("#/components/schemas/s{n}")});
    let chain = |count: usize, each: &dyn Fn(usize) -> Value| -> Value {
        (0..count).map(|n| (format!("s{n}"), each(n))).collect::<Map<_, _>>().into()
    };
    let refused = |document: &str, what: &str| {
        let mut why = None;
        let used = measure(|| {
            why = OpenApi::parse(document).expect("a document").refused().first().map(|refused| refused.why.clone());
        });
        assert!(used.bytes_max < 64 << 20, "{what}: {} bytes", used.bytes_max);
        // What takes long allocates often.
        assert!(used.count_total < 1 << 20, "{what}: {} allocations", used.count_total);
        why
    };
    // Each refers twice to the next: it is converted, compiled and checked once.
    let twice = one(chain(60, &|n| {
        if n < 59 { json!({"properties": {"a": link(n + 1), "b": link(n + 1)}}) } else { json!({}) }
    }));
    assert_eq!(refused(&twice, "twice"), None);
    // A list that ends nowhere, and one whose objects contain it.
    assert!(matches!(refused(&one(chain(3, &|n| link((n + 1) % 3))), "a circle"), Some(Refusal::Reference(_))));
    assert_eq!(refused(&one(chain(3, &|n| json!({"properties": {"next": link((n + 1) % 3)}}))), "a tree"), None);
    // What applies to the same value without an end.
    let same = one(chain(2, &|n| json!({"allOf": [link((n + 1) % 2)]})));
    assert!(matches!(refused(&same, "the same value"), Some(Refusal::Schema(_))));
    let doubling = one(chain(41, &|n| if n < 40 { json!({"allOf": [link(n + 1), link(n + 1)]}) } else { json!({}) }));
    assert_eq!(refused(&doubling, "doubling"), None);
    let pattern = one(chain(1, &|_| json!({"type": "string", "pattern": "^(\\w{4000}){10}$"})));
    assert!(matches!(refused(&pattern, "a pattern"), Some(Refusal::Schema(_))));
    let wide = one(chain(10_000, &|n| if n < 9_999 { json!({"items": link(n + 1)}) } else { json!({}) }));
    assert_eq!(refused(&wide, "a long chain"), Some(Refusal::SchemaNodes(5_000)));
    // Deeper than the parser reads.
    let deep = format!(r#"{{"openapi": "3.1.0", "x": {}{}}}"#, "[".repeat(1_000), "]".repeat(1_000));
    assert!(matches!(OpenApi::parse(&deep), Err(OpenApiError::Invalid(_))));
    // 10,000 operations, also behind references.
    let get = json!({"get": {"operationId": "same"}});
    let many =
        |item: &Value| -> Value { (0..10_000).map(|n| (format!("/{n}"), item.clone())).collect::<Map<_, _>>().into() };
    for item in [get.clone(), json!({"$ref": "#/components/pathItems/p"}), json!({"$ref": "#/none"})] {
        let document = document("3.1.0", many(&item), json!({"pathItems": {"p": get}}));
        assert_eq!(OpenApi::parse(&document).expect_err("too many"), OpenApiError::Operations(1_000));
    }
    let limits = OpenApiLimits { operations: 10_000, ..OpenApiLimits::default() };
    let api = OpenApi::parse_with(&document("3.1.0", many(&get), json!({})), limits).expect("a document");
    let names: std::collections::HashSet<_> = api.operations.iter().map(|operation| operation.name.clone()).collect();
    assert_eq!((names.len(), api.refused().len()), (10_000, 0));
    // Many operations that share a large schema.
    let large: Map<_, _> = (0..1_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let sharing: Map<_, _> = (0..900).map(|n| (format!("/{n}"), operation("#/components/schemas/s0"))).collect();
    let document = document("3.1.0", sharing.into(), json!({"schemas": {"s0": {"properties": large}}}));
    let used = measure(|| assert_eq!(OpenApi::parse(&document).expect_err("too much"), OpenApiError::Schemas(500_000)));
    assert!(used.bytes_max < 64 << 20, "{} bytes", used.bytes_max);
    let limits = OpenApiLimits { document_bytes: 100, ..OpenApiLimits::default() };
    assert_eq!(OpenApi::parse_with(&document, limits).expect_err("too long"), OpenApiError::DocumentBytes(100));
}

#[test]
fn properties_of_the_other_direction_are_not_required() {
    for version in ["3.0.3", "3.1.0"] {
        let schema = json!({
            "type": "object", "required": ["id", "secret", "name", "made"],
            "properties": {
                "id": {"type": "integer", "readOnly": true}, "secret": {"$ref": "#/components/secret"}, "name": {},
                "made": {"$ref": "#/components/date", "readOnly": true},
            },
        });
        let content = json!({"content": {"application/json": {"schema": schema}}});
        let post = json!({"operationId": "call", "requestBody": content, "responses": {"200": content}});
        let components = json!({"secret": {"type": "string", "writeOnly": true}, "date": {"type": "string"}});
        let api = OpenApi::parse(&document(version, json!({"/a": {"post": post}}), components)).expect("a document");
        let schema = |schema: &JsonObject| schema.decode::<Value>().expect("a schema");
        let operation = &api.operations[0];
        // In 3.0, what stands beside a reference means nothing.
        let required = if version == "3.0.3" { json!(["secret", "name", "made"]) } else { json!(["secret", "name"]) };
        assert_eq!(schema(&operation.input_schema)["properties"]["body"]["required"], required);
        let output = schema(operation.output_schema.as_ref().expect("a schema"));
        assert_eq!(output["required"], json!(["id", "name", "made"]));
    }
}

#[test]
fn a_response_whose_schema_cannot_be_used_has_none() {
    for schema in [
        json!({"type": "object", "pattern": "("}),
        json!({"$ref": "#/none"}),
        json!({"type": "string"}),
        json!({"type": "object", "nullable": true}),
    ] {
        let responses = json!({"200": {"content": {"application/json": {"schema": schema}}}});
        let get = json!({"get": {"operationId": "call", "responses": responses}});
        let api = OpenApi::parse(&document("3.1.0", json!({"/a": get}), json!({}))).expect("a document");
        assert_eq!((api.refused(), api.operations.len()), (&[][..], 1));
        assert!(api.operations[0].output_schema.is_none());
    }
}

#[test]
fn texts_that_operations_share_are_bounded() {
    let share = |item: Value| {
        let paths: Map<_, _> = (0..900).map(|n| (format!("/{n}"), json!({"$ref": "#/components/item"}))).collect();
        document("3.1.0", paths.into(), json!({"item": {"get": item}}))
    };
    let (long, short) = ("x".repeat(1 << 20), "x".repeat(300_000));
    let parameter = |more: Value| {
        let mut parameter = json!({"name": "a", "in": "query"});
        parameter.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"parameters": [parameter]})
    };
    for (what, item) in [
        ("a description", json!({"description": long})),
        ("white space", json!({"summary": " ".repeat(1 << 20)})),
        ("a name", parameter(json!({"name": long}))),
        ("a place", parameter(json!({"in": long}))),
        ("a style", parameter(json!({"style": short}))),
        ("a description of a parameter", parameter(json!({"description": long}))),
        ("a media type of a parameter", parameter(json!({"content": {&*short: {}}}))),
        ("a media type of a body", json!({"requestBody": {"content": {&*short: {}}}})),
        ("a reference", parameter(json!({"$ref": format!("#/{long}")}))),
        ("a schema", parameter(json!({"schema": {"description": long}}))),
        ("a key of a schema", parameter(json!({"schema": {&*long: 1}}))),
    ] {
        let (document, mut api) = (share(item), None);
        let used = measure(|| api = Some(OpenApi::parse(&document)));
        match api.expect("it was read") {
            Ok(api) => assert_eq!(api.refused().len(), 900, "{what}"),
            Err(error) => assert_eq!(error, OpenApiError::Schemas(500_000), "{what}"),
        }
        assert!(used.bytes_current < 2 << 20, "{what}: {} bytes are kept", used.bytes_current);
    }
    let path = format!("/{}", "x".repeat(9_000));
    let api = OpenApi::parse(&document("3.1.0", json!({path: {"get": {}}}), json!({}))).expect("a document");
    assert_eq!((api.refused()[0].path.len(), &api.refused()[0].why), (200, &Refusal::Path));
}

#[test]
fn patterns_are_counted_over_the_document() {
    let names = json!({"patternProperties": {"^a": {}, "^b": {}}, "dependencies": {"a": {"pattern": "^c"}}});
    let schema = json!({"properties": {"one": {"pattern": "^d"}, "pattern": {}}, "items": names});
    let post =
        json!({"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/s"}}}}}});
    let other = json!({"get": {}});
    let document =
        document("3.1.0", json!({"/1": post, "/2": post, "/3": post, "/4": post, "/5": other}), json!({"s": schema}));
    let refused = |limit: usize| {
        let limits = OpenApiLimits { total_patterns: limit, ..OpenApiLimits::default() };
        let api = OpenApi::parse_with(&document, limits).expect("a document");
        api.refused().iter().map(|refused| (refused.path.clone(), refused.why.clone())).collect::<Vec<_>>()
    };
    assert_eq!(refused(16), []);
    assert_eq!(refused(15), [("/4".to_owned(), Refusal::Patterns(15))]);
    assert_eq!(refused(8).len(), 2);
    // Before they are compiled: this one would be refused for its size.
    let large =
        with_parameters("/a", json!([{"name": "a", "in": "query", "schema": {"pattern": "^(\\w{4000}){10}$"}}]));
    let limits = OpenApiLimits { total_patterns: 0, ..OpenApiLimits::default() };
    assert_eq!(OpenApi::parse_with(&large, limits).expect("a document").refused()[0].why, Refusal::Patterns(0));
}

#[test]
fn checks_with_imported_schemas_have_limits() {
    let schema = json!({"type": "array", "items": {"allOf": vec![json!({"minLength": 0}); 1_500]}});
    let post =
        json!({"post": {"operationId": "call", "requestBody": {"content": {"application/json": {"schema": schema}}}}});
    let (client, sent) =
        connect(&document("3.1.0", json!({"/a": post}), json!({})), ProtocolVersion::V2026_07_28, |_| {
            HttpResponse::new(204)
        });
    let result = client.call_tool("call", json!({"body": vec!["x"; 200_000]})).expect("a result");
    assert!(text(&result).contains("takes too long to check"), "{result:?}");
    assert!(sent.lock().expect("no panic").is_empty());
    client.call_tool("call", json!({"body": ["x"]})).expect("a result");
    assert_eq!(sent.lock().expect("no panic").len(), 1);
}

#[test]
fn parameters_with_json_content_are_written_as_json() {
    let parameter =
        |location: &str, content: Value| json!([{"name": "id", "in": location, "required": true, "content": content}]);
    let is_json = json!({"application/json": {}});
    let path = |argument: Value| {
        request("/a/{id}", parameter("path", is_json.clone()), json!({"id": argument})).map(|(url, _)| url)
    };
    for (argument, segment) in [
        (json!({"k": [1]}), "%7B%22k%22%3A%5B1%5D%7D"),
        (json!("x"), "%22x%22"),
        (json!(["a", 1]), "%5B%22a%22%2C1%5D"),
    ] {
        assert_eq!(path(argument), Ok(format!("https://api.example/v1/a/{segment}")));
    }
    let headers = |argument: Value| {
        request("/a", parameter("header", is_json.clone()), json!({"id": argument})).map(|(_, headers)| headers)
    };
    for argument in [json!({"k": [1]}), json!("x"), json!([{"a": null}])] {
        assert_eq!(headers(argument.clone()), Ok(vec![("id".into(), argument.to_string())]));
    }
}

#[test]
fn objects_in_paths_are_written_as_they_explode() {
    let path = |explode: bool, argument: Value| {
        let parameters = json!([{"name": "id", "in": "path", "required": true, "explode": explode, "schema": {}}]);
        request("/a/{id}", parameters, json!({"id": argument})).map(|(url, _)| url)
    };
    for (explode, argument, segment) in [
        (true, json!({"k": 1, "l": "m"}), "k=1,l=m"),
        (false, json!({"k": 1, "l": "m"}), "k,1,l,m"),
        (true, json!(["k", "l"]), "k,l"),
        (false, json!(["k"]), "k"),
    ] {
        assert_eq!(path(explode, argument), Ok(format!("https://api.example/v1/a/{segment}")));
    }
    let why = path(false, json!([[1]])).expect_err("it cannot be written");
    assert_eq!(why, "the argument \"id\" has values that cannot be written there");
}
