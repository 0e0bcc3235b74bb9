//! The ready-made layers.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    connection::{Backoff, Principal},
    protocol::{Era, ProtocolVersion},
    schema::{ElicitResult, ElicitSchema, Map, Tool as ListedTool, ToolAnnotations},
    wire::{ErrorCode, ErrorObject, Json, JsonObject},
};
use mcp_service::{
    CallError, CatalogItem, Context, Failure, Host, IncomingRequest, Next, Prompt, Service, ServiceBuilder, Tool,
    layers::{
        Audit, AuditRecord, HandlerTimeout, Labels, MaskTexts, Metrics, MetricsRecorder, RATE_LIMITED, RateLimit,
        ResultCache, Retry,
    },
    testing::{Side, TestClient},
};
use serde_json::{Value, json};

fn tool<T: mcp_service::IntoToolResult + 'static>(
    name: &str,
    f: impl Fn(Value, Context) -> T + Send + Sync + 'static,
) -> Tool {
    Tool::with_schema(name, JsonObject::parse(r#"{"type":"object"}"#).expect("an object"), f)
}

/// A tool that counts its calls.
fn counter(name: &str) -> (Tool, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    (tool(name, move |_, _| (counted.fetch_add(1, Ordering::SeqCst) + 1).to_string()), calls)
}

fn build(builder: ServiceBuilder) -> Service {
    builder.build().expect("a good service")
}

fn builder() -> ServiceBuilder {
    Service::builder("test", "1")
}

fn of(service: &Service, who: &str, version: ProtocolVersion) -> TestClient {
    TestClient::of(service).principal(Principal::new(who)).version(version).connect()
}

fn text(client: &TestClient, name: &str, arguments: Value) -> String {
    let result = client.call_tool(name, arguments).expect("a result");
    result.content[0].as_text().expect("a text").to_owned()
}

const LATEST: ProtocolVersion = ProtocolVersion::V2026_07_28;

#[test]
fn each_principal_has_a_limit_in_both_eras() {
    let (count, calls) = counter("count");
    let limit = RateLimit::new(2, Duration::from_secs(10)).only(|request| request.method() == "tools/call");
    let service = build(builder().tool(count).with_layer(limit));
    for (number, version) in [ProtocolVersion::V2025_11_25, LATEST].into_iter().enumerate() {
        let (ada, eve) = (format!("ada {number}"), format!("eve {number}"));
        let client = of(&service, &ada, version);
        assert!(client.call_tool("count", ()).is_ok() && client.call_tool("count", ()).is_ok());
        let ran = calls.load(Ordering::SeqCst);
        let error = client.call_tool("count", ()).expect_err("the limit");
        let error = error.rpc().expect("an error of the protocol");
        assert_eq!(error.code, RATE_LIMITED);
        let data: Value = error.data.as_ref().expect("data").decode().expect("JSON");
        assert_eq!(data, json!({"retryAfterMs": 5000}));
        assert_eq!(calls.load(Ordering::SeqCst), ran, "the handler has run");
        // Other requests, another connection of the principal, and another principal.
        assert!(client.wait(client.server().list_tools(None).expect("it can be sent")).is_ok());
        assert!(of(&service, &ada, version).call_tool("count", ()).is_err());
        assert!(of(&service, &eve, version).call_tool("count", ()).is_ok());
        client.advance(Duration::from_secs(5));
        assert!(client.call_tool("count", ()).is_ok());
        assert!(client.call_tool("count", ()).is_err());
    }
}

#[test]
fn a_timeout_cancels_the_handler_at_its_time() {
    let ended = Arc::new(Mutex::new(Vec::new()));
    let (sleeps, ends) = (ended.clone(), ended.clone());
    let sleep = Tool::new_async("future", move |context: Context| {
        let ended = sleeps.clone();
        async move {
            let slept = context.sleep(Duration::from_secs(100)).await;
            ended.lock().expect("no panic").push(context.cancel_cause().is_some());
            slept.map(|()| "slept")
        }
    });
    let thread = Tool::new("function", move |context: Context| {
        let slept = context.sleep(Duration::from_secs(20)).wait();
        ends.lock().expect("no panic").push(context.cancel_cause().is_some());
        slept.map(|()| "slept")
    });
    let timeout = HandlerTimeout::new(Duration::from_secs(5)).of("function", Duration::from_secs(30));
    let service = build(builder().tool(sleep).tool(thread).with_layer(timeout));
    for version in [ProtocolVersion::V2025_11_25, LATEST] {
        let client = TestClient::of(&service).version(version).connect();
        let error = client.call_tool("future", ()).expect_err("a timeout");
        assert_eq!(error.rpc().expect("an error of the server").code, ErrorCode::INTERNAL_ERROR);
        assert_eq!(client.elapsed(), Duration::from_secs(5));
        assert_eq!(text(&client, "function", json!({})), "slept");
        client.assert_idle();
        assert_eq!(std::mem::take(&mut *ended.lock().expect("no panic")), [true, false]);
    }
}

#[test]
fn a_timeout_does_not_extend_that_of_the_service() {
    let sleep = Tool::new_async("sleep", async |context: Context| context.sleep(Duration::from_secs(100)).await);
    let builder = builder().tool(sleep).reply_timeout(Duration::from_secs(3));
    let client = TestClient::new(&build(builder.with_layer(HandlerTimeout::new(Duration::from_secs(50)))));
    assert!(client.call_tool("sleep", ()).is_err());
    assert_eq!(client.elapsed(), Duration::from_secs(3));
}

#[test]
fn the_earliest_end_of_a_handler_counts() {
    let seconds = Duration::from_secs;
    // The time of the service, of an outer layer, and of an inner one that begins after two seconds.
    for (service, outer, inner, expected) in
        [(Some(3), 50, 2, 3), (Some(9), 50, 2, 4), (None, 3, 2, 3), (None, 3, 50, 3), (None, 50, 3, 5)]
    {
        let sleep = Tool::new_async("sleep", async |context: Context| context.sleep(Duration::from_secs(100)).await);
        let mut builder = builder().tool(sleep).with_layer(HandlerTimeout::new(seconds(outer)));
        builder = builder.layer(async |request: IncomingRequest, next: Next| {
            request.context().sleep(Duration::from_secs(2)).await?;
            Ok(next.run().await)
        });
        builder = builder.with_layer(HandlerTimeout::new(seconds(inner)));
        let builder = if let Some(time) = service { builder.reply_timeout(seconds(time)) } else { builder };
        let client = TestClient::new(&build(builder));
        assert!(client.call_tool("sleep", ()).is_err());
        assert_eq!(client.elapsed(), seconds(expected), "{service:?} {outer} {inner}");
    }
}

#[test]
fn equal_calls_get_the_kept_result() {
    let (count, calls) = counter("count");
    let (other, _) = counter("other");
    let cache = ResultCache::new(Duration::from_secs(60)).per_caller("count");
    let service = build(builder().tool(count).tool(other).with_layer(cache.clone()));
    let client = of(&service, "ada", LATEST);
    let call = |client: &TestClient, arguments: Value| text(client, "count", arguments);
    assert_eq!(call(&client, json!({"a": 1, "b": ["x"]})), "1");
    client.send_line(
        r#"{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"count","arguments":{"b":["\u0078"], "a":1},
        "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":
        {"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#
            .replace('\n', "")
            .as_str(),
    );
    assert_eq!(calls.load(Ordering::SeqCst), 1, "the notation of arguments does not matter");
    assert_eq!(call(&client, json!({"a": 2, "b": ["x"]})), "2");
    assert_eq!(call(&client, json!({})), "3");
    assert_eq!(text(&client, "count", json!(null)), "3");
    assert_eq!(text(&client, "other", json!({})), "1");
    assert_eq!(text(&client, "other", json!({})), "2", "a tool that is not named is not kept");
    // Neither another principal nor another revision gets it.
    assert_eq!(call(&of(&service, "eve", LATEST), json!({})), "4");
    assert_eq!(call(&of(&service, "ada", ProtocolVersion::V2025_11_25), json!({})), "5");
    assert_eq!(call(&of(&service, "ada", LATEST), json!({})), "3");
    client.advance(Duration::from_secs(61));
    assert_eq!(call(&client, json!({})), "6");
    assert_eq!(call(&client, json!({})), "6");
    cache.clear();
    assert!(cache.is_empty());
    assert_eq!(call(&client, json!({})), "7");
}

#[test]
fn results_are_not_shared_by_unrecognized_callers() {
    let (count, _) = counter("count");
    let cache = ResultCache::new(Duration::from_secs(60)).per_caller("count");
    let service = build(builder().tool(count).with_layer(cache));
    let scoped = |scopes: &[&str], client: Option<&str>| {
        let mut who = Principal::new("ada");
        who.scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        who.client_id = client.map(str::to_owned);
        TestClient::of(&service).principal(who).connect()
    };
    let (one, other) = (TestClient::new(&service), TestClient::new(&service));
    let callers = [one, other, scoped(&[], None), scoped(&["a", "b"], None), scoped(&["ab"], None)];
    let callers = callers.into_iter().chain([scoped(&[], Some("a")), scoped(&["a", "b"], Some("c"))]);
    for (number, client) in callers.enumerate() {
        let expected = (number + 1).to_string();
        assert_eq!(text(&client, "count", json!({})), expected);
        assert_eq!(text(&client, "count", json!({})), expected);
    }
    assert_eq!(text(&scoped(&["b", "a"], None), "count", json!({})), "4", "the order of scopes does not matter");
}

#[test]
fn clones_of_a_cache_do_not_mix_the_results_of_services() {
    let cache = ResultCache::new(Duration::from_secs(60)).shared("who").per_caller("own");
    let service = |answer: &'static str| {
        let tools = builder().tool(tool("who", move |_, _| answer)).tool(tool("own", move |_, _| answer));
        build(tools.with_layer(cache.clone()))
    };
    let services = ["one", "other"].map(|answer| (service(answer), answer));
    for _ in 0..2 {
        for (service, answer) in &services {
            let client = of(service, "ada", LATEST);
            assert_eq!([text(&client, "who", json!({})), text(&client, "own", json!({}))], [*answer, answer]);
        }
    }
    assert_eq!(cache.len(), 4);
    // Nor those of a service that has ended.
    drop(services);
    let client = of(&service("third"), "ada", LATEST);
    assert_eq!([text(&client, "who", json!({})), text(&client, "own", json!({}))], ["third", "third"]);
}

#[test]
fn a_shared_result_is_only_for_callers_that_may_use_the_tool() {
    let (count, _) = counter("count");
    let cache = ResultCache::new(Duration::from_secs(60)).shared("count");
    let visible = |item: CatalogItem<'_>, caller: &mcp_service::RequestInfo| {
        !matches!(item, CatalogItem::Tool(_)) || caller.principal.as_ref().is_some_and(|who| who.id != "eve")
    };
    let service = build(builder().tool(count).visible(visible).with_layer(cache));
    for version in [ProtocolVersion::V2025_11_25, LATEST] {
        let first = text(&of(&service, "ada", version), "count", json!({}));
        assert_eq!(text(&of(&service, "bob", version), "count", json!({})), first);
        let error = of(&service, "eve", version).call_tool("count", json!({})).expect_err("it is hidden");
        assert_eq!(error.rpc().map(|error| error.code), Some(ErrorCode::INVALID_PARAMS), "{version}");
    }
}

#[test]
fn failures_and_results_with_input_are_not_kept() {
    let calls = Arc::new(AtomicU32::new(0));
    let (failing, asking) = (calls.clone(), calls.clone());
    let fails = tool("fails", move |_, _| {
        failing.fetch_add(1, Ordering::SeqCst);
        Err::<&str, _>(Failure::new("no luck"))
    });
    let asks = tool("asks", move |_, context: Context| {
        let answer = context.elicit("Well?", ElicitSchema::new(Map::new())).wait()?;
        asking.fetch_add(1, Ordering::SeqCst);
        Ok::<_, CallError>(format!("{:?}", answer.action))
    });
    let cache = ResultCache::new(Duration::from_secs(60)).per_caller("fails").per_caller("asks");
    let service = build(builder().tool(fails).tool(asks).with_layer(cache));
    let host = Host::builder("client", "1").elicitation(|_, _| Ok::<_, Failure>(ElicitResult::decline())).build();
    let client = TestClient::of(&service).host(&host).version(LATEST).connect();
    for name in ["fails", "asks"] {
        calls.store(0, Ordering::SeqCst);
        (0..2).for_each(|_| _ = client.call_tool(name, json!({})).expect("a result"));
        assert_eq!(calls.load(Ordering::SeqCst), 2, "{name}");
    }
}

#[test]
fn results_of_calls_in_flight_are_not_kept_after_a_clear() {
    let cache = ResultCache::new(Duration::from_secs(60)).per_caller("slow");
    let slow = Tool::new_async("slow", async |context: Context| context.sleep(Duration::from_secs(1)).await);
    let service = build(builder().tool(slow).with_layer(cache.clone()));
    let client = TestClient::new(&service);
    let pending = client.server().call_tool("slow", ()).expect("it can be sent");
    client.settle();
    cache.clear();
    assert!(client.wait(pending).is_ok());
    assert!(cache.is_empty());
    assert!(client.call_tool("slow", ()).is_ok());
    assert_eq!(cache.len(), 1);
}

#[test]
fn texts_of_results_and_errors_are_masked() {
    let says = tool("says", |_, _| "the key is hunter2");
    let fails = tool("fails", |_, _| Err::<&str, _>(Failure::new("no hunter2")));
    let errs = tool("errs", |_, _| {
        let data = Json::new(&json!({"key": "hunter2"})).expect("JSON");
        Err::<&str, _>(Failure::rpc(ErrorObject::internal("bad hunter2").with_data(data)))
    });
    let mask = MaskTexts::new(|text| text.replace("hunter2", "***").into());
    let service = builder().tool(says).tool(fails).tool(errs).prompt(Prompt::new("ask", || "use hunter2"));
    let service = build(service.with_layer(mask));
    for version in [ProtocolVersion::V2025_11_25, LATEST] {
        let client = TestClient::of(&service).version(version).connect();
        assert_eq!(text(&client, "says", json!({})), "the key is ***");
        let failed = client.call_tool("fails", json!({})).expect("a result");
        assert_eq!((failed.is_error(), failed.content[0].as_text()), (true, Some("no ***")));
        let error = client.call_tool("errs", json!({})).expect_err("an error");
        let error = error.rpc().expect("an error of the protocol");
        assert_eq!((&*error.message, error.data.as_ref().map(Json::get)), ("bad ***", Some(r#"{"key":"***"}"#)));
        assert!(client.get_prompt("ask", ()).is_ok());
        assert!(!client.transcript().to_string().contains("hunter2"), "{}", client.transcript());
    }
}

#[test]
fn every_request_is_recorded_once() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let written = lines.clone();
    let audit = Audit::new(move |record: &AuditRecord<'_>| {
        let who = record.principal.map_or("-", |who| &*who.id);
        let (name, arguments) = (record.name.unwrap_or("-"), record.arguments.unwrap_or("-"));
        let line = format!(
            "{who} {} {name} {arguments} {} {:?}",
            record.method,
            record.outcome.as_str(),
            record.elapsed.as_secs()
        );
        written.lock().expect("no panic").push(line);
    });
    let sleep = Tool::new_async("sleep", async |context: Context| context.sleep(Duration::from_secs(7)).await);
    let fails = tool("fails", |_, _| Err::<&str, _>(Failure::new("no luck")));
    let audit = audit.redact(["Password"]).max_argument_bytes(60);
    let service =
        build(builder().tool(sleep).tool(fails).with_layer(audit).layer(async |call: IncomingRequest, next: Next| {
            if call.name() == Some("refused") { Err("no".into()) } else { Ok(next.run().await) }
        }));
    for version in [ProtocolVersion::V2025_11_25, LATEST] {
        let client = of(&service, "ada", version);
        lines.lock().expect("no panic").clear();
        let _ = client.call_tool("fails", json!({"a": 1, "in": {"PASSWORD": {"x": ["secret"]}}}));
        let _ = client.call_tool("fails", json!({"a": "x".repeat(60)}));
        let _ = client.call_tool("sleep", ());
        let _ = client.call_tool("refused", ());
        let _ = client.wait(client.server().list_tools(None).expect("it can be sent"));
        let pending = client.server().call_tool("sleep", ()).expect("it can be sent");
        client.advance(Duration::from_secs(2));
        pending.cancel(None);
        let _ = client.wait(pending);
        let expected = [
            r#"ada tools/call fails {"a":1,"in":{"PASSWORD":"[redacted]"}} failed 0"#,
            "ada tools/call fails - failed 0",
            "ada tools/call sleep - result 7",
            "ada tools/call refused - error 0",
            "ada tools/list - - result 0",
            "ada tools/call sleep - cancelled 2",
        ];
        assert_eq!(*lines.lock().expect("no panic"), expected, "{version}");
    }
}

#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Vec<String>>>);

impl Recorded {
    fn push(&self, name: &str, labels: &Labels<'_>, value: f64) {
        let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.0.lock().expect("no panic").push(format!("{name} {} {value}", labels.join(" ")));
    }
}

impl MetricsRecorder for Recorded {
    fn count(&self, name: &'static str, labels: &Labels<'_>, by: u64) {
        self.push(name, labels, f64::from(u32::try_from(by).expect("small")));
    }

    fn observe(&self, name: &'static str, labels: &Labels<'_>, value: f64) {
        self.push(name, labels, value);
    }

    fn adjust(&self, name: &'static str, labels: &Labels<'_>, by: f64) {
        self.push(name, labels, by);
    }
}

#[test]
fn requests_are_measured_with_bounded_labels() {
    let recorded = Recorded::default();
    let sleep = Tool::new_async("sleep", async |context: Context| context.sleep(Duration::from_secs(7)).await);
    let service = build(builder().tool(sleep).with_layer(Metrics::new(recorded.clone())));
    let client = TestClient::of(&service).version(LATEST).connect();
    let take = || std::mem::take(&mut *recorded.0.lock().expect("no panic"));
    take();
    let _ = client.call_tool("sleep", ());
    let expected = [
        "mcp_requests_in_flight method=tools/call 1",
        "mcp_requests_in_flight method=tools/call -1",
        "mcp_requests_total method=tools/call name=sleep outcome=result 1",
        "mcp_request_duration_seconds method=tools/call name=sleep outcome=result 7",
    ];
    assert_eq!(take(), expected);
    let _ = client.call_tool("unknown", ());
    let pending = client.server().request_raw("own/unknown", None).expect("it can be sent");
    let _ = client.wait(pending);
    let taken = take();
    assert!(taken.iter().any(|line| line == "mcp_requests_total method=tools/call name= outcome=error 1"), "{taken:?}");
    assert!(taken.iter().any(|line| line == "mcp_requests_total method=other name= outcome=error 1"), "{taken:?}");
    assert!(taken.iter().all(|line| !line.contains("unknown")), "{taken:?}");
    let pending = client.server().call_tool("sleep", ()).expect("it can be sent");
    client.settle();
    drop(pending);
    client.settle();
    let taken = take();
    assert!(taken.iter().any(|line| line.contains("name=sleep outcome=cancelled 1")), "{taken:?}");
}

/// A service that refuses the first requests of each tool.
fn refusing(times: u32, error: impl Fn() -> ErrorObject + Send + Sync + 'static) -> (Service, Arc<AtomicU32>) {
    let (count, calls) = counter("count");
    let (other, _) = counter("other");
    let (seen, error) = (Arc::new(AtomicU32::new(0)), Arc::new(error));
    let service = builder().tool(count).tool(other).layer(move |call: IncomingRequest, next: Next| {
        let refused = call.method() != "server/discover" && seen.fetch_add(1, Ordering::SeqCst) < times;
        let error = error.clone();
        async move { if refused { Err(Failure::rpc(error())) } else { Ok(next.run().await) } }
    });
    (build(service), calls)
}

fn limited(millis: u64) -> ErrorObject {
    let data = Json::new(&json!({"retryAfterMs": millis})).expect("JSON");
    ErrorObject::new(RATE_LIMITED, "Rate limit exceeded").with_data(data)
}

fn retry() -> Retry {
    let backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(4) };
    let zeros = |bytes: &mut [u8]| {
        bytes.fill(0);
        Ok(())
    };
    Retry::new().backoff(backoff).random(zeros).attempts(4)
}

#[test]
fn a_client_waits_as_long_as_a_rate_limit_says() {
    for version in [ProtocolVersion::V2025_11_25, LATEST] {
        let (service, calls) = refusing(2, || limited(7_000));
        let client = TestClient::of(&service).version(version).connect();
        let server = client.server().retrying(&retry().tools(["count"]));
        let result = client.run(server.call_tool("count", ())).expect("a result");
        assert_eq!(result.content[0].as_text(), Some("1"));
        assert_eq!((client.elapsed(), calls.load(Ordering::SeqCst)), (Duration::from_secs(14), 1), "{version}");
        client.assert_idle();
    }
}

#[test]
fn attempts_and_requested_delays_are_bounded() {
    let (service, calls) = refusing(u32::MAX, || limited(1_000));
    let client = TestClient::new(&service);
    let server = client.server().retrying(&retry().tools(["count"]));
    assert!(client.run(server.call_tool("count", ())).is_err());
    assert_eq!((client.transcript().from(Side::Client).lines().len(), client.elapsed().as_secs()), (4, 3));
    let (service, _) = refusing(u32::MAX, || limited(61_000));
    let client = TestClient::new(&service);
    let server = client.server().retrying(&retry().tools(["count"]));
    assert!(client.run(server.call_tool("count", ())).is_err());
    assert_eq!((client.elapsed(), calls.load(Ordering::SeqCst)), (Duration::ZERO, 0));
}

#[test]
fn tools_that_are_not_idempotent_are_not_called_twice() {
    let (service, _) = refusing(1, || limited(1_000));
    let client = TestClient::new(&service);
    let annotated = |name: &str, annotations: ToolAnnotations| ListedTool {
        annotations: Some(annotations),
        ..ListedTool::new(name, JsonObject::parse(r#"{"type":"object"}"#).expect("an object"))
    };
    let listed = [
        annotated("count", ToolAnnotations { destructive_hint: Some(false), ..ToolAnnotations::default() }),
        annotated("other", ToolAnnotations { idempotent_hint: Some(true), ..ToolAnnotations::default() }),
    ];
    let server = client.server().retrying(&retry().annotated(&listed));
    assert!(client.run(server.call_tool("count", ())).is_err());
    let (service, _) = refusing(1, || limited(1_000));
    let client = TestClient::new(&service);
    assert!(client.run(client.server().retrying(&retry().annotated(&listed)).call_tool("other", ())).is_ok());
}

#[test]
fn responses_of_handlers_are_final() {
    let calls = Arc::new(AtomicU32::new(0));
    let (failing, erring) = (calls.clone(), calls.clone());
    let fails = tool("fails", move |_, _| {
        failing.fetch_add(1, Ordering::SeqCst);
        Err::<&str, _>(Failure::new("no luck"))
    });
    let errs = tool("errs", move |_, _| {
        erring.fetch_add(1, Ordering::SeqCst);
        Err::<&str, _>(Failure::rpc(ErrorObject::internal("bad")))
    });
    let client = TestClient::new(&build(builder().tool(fails).tool(errs)));
    let server = client.server().retrying(&retry().tools(["fails", "errs"]));
    assert!(client.run(server.call_tool("fails", ())).expect("a result").is_error());
    assert!(client.run(server.call_tool("errs", ())).is_err());
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[test]
fn idempotent_requests_are_repeated_with_growing_delays() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let late = Tool::new_async("late", move |context: Context| {
        let call = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            let time = if call < 2 { 1_000 } else { 0 };
            context.sleep(Duration::from_secs(time)).await.map(|()| "done")
        }
    });
    let service = build(builder().tool(late));
    for version in [ProtocolVersion::V2025_11_25, LATEST] {
        calls.store(0, Ordering::SeqCst);
        let client = TestClient::of(&service).version(version).connect();
        let mut options = mcp_proto::connection::RequestOptions::default();
        (options.idle_timeout, options.total_timeout) = (Some(Duration::from_secs(10)), None);
        let server = client.server().with_options(options).retrying(&retry().tools(["late"]));
        assert!(client.run(server.call_tool("late", ())).is_ok());
        // Two timeouts, and half of the delays of one and two seconds.
        assert_eq!(client.elapsed(), Duration::from_millis(20_000 + 500 + 1_000), "{version}");
        assert_eq!(version.era() == Era::Modern, version == LATEST);
    }
}

#[test]
fn prompts_that_may_be_requested_again_get_their_arguments() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Topic {
        topic: String,
    }
    let ask = Prompt::new("ask", |topic: Topic| format!("About {}?", topic.topic));
    let client = TestClient::new(&build(builder().prompt(ask)));
    let server = client.server().retrying(&retry());
    let prompt = client.run(server.get_prompt("ask", json!({"topic": "roses"}))).expect("a prompt");
    assert_eq!(prompt.messages[0].content.as_text(), Some("About roses?"));
}
