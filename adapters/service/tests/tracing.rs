//! Spans, and the propagation of trace contexts.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    connection::{Principal, Server, ServerRole},
    protocol::ProtocolVersion,
    rpc::Timestamp,
    schema::{
        CallToolResult, CreateMessageParams, CreateMessageResult, PromptArgument, PromptReference, Role,
        SamplingContent, SamplingMessage, TaskSupport, TraceContext,
    },
    wire::{ErrorObject, Json, RawJson},
};
use mcp_service::{
    CallError, CompletionRequest, Context, Failure, Host, IncomingRequest, Next, Prompt, Resource, ResourceTemplate,
    ResultOrTask, Service, ServiceBuilder, Tool,
    driver_api::{Application, ConnectionHandle, Waiters},
    testing::{Side, TestClient},
};
use serde_json::{Value, json};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Collects spans with their fields, and events with the span that they happen in.
#[derive(Clone, Default)]
struct Collector(Arc<Inner>);

#[derive(Default)]
struct Inner {
    next: AtomicU64,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    spans: BTreeMap<u64, Fields>,
    entered: Vec<u64>,
    events: Vec<(Option<u64>, String, Fields)>,
    closed: Vec<u64>,
    /// How many handles there are of each span, in addition to the first one.
    clones: BTreeMap<u64, usize>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Collector {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().expect("no panic")
    }

    /// Returns the fields of the spans that have ended, in the order in which they began.
    fn completed(&self) -> Vec<Fields> {
        let seen = self.seen();
        seen.spans.iter().filter(|(id, _)| seen.closed.contains(id)).map(|(_, fields)| fields.clone()).collect()
    }

    /// Returns the only span with this name.
    fn about(&self, name: &str) -> Fields {
        let spans: Vec<_> = self.completed().into_iter().filter(|fields| fields.has("name", name)).collect();
        assert_eq!(spans.len(), 1, "{name}: {spans:?}");
        spans[0].clone()
    }
}

impl Fields {
    fn has(&self, name: &str, value: &str) -> bool {
        self.0.get(name).is_some_and(|it| it == value)
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("-", String::as_str)
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "mcp_service" || metadata.target() == "handler"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.0.next.fetch_add(1, Ordering::SeqCst) + 1;
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        self.seen().spans.insert(id, fields);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(self.seen().spans.get_mut(&span.into_u64()).expect("a span"));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut seen = self.seen();
        let span = event.parent().map(Id::into_u64).or(seen.entered.last().copied());
        seen.events.push((span, event.metadata().level().to_string(), fields));
    }

    fn enter(&self, span: &Id) {
        self.seen().entered.push(span.into_u64());
    }

    fn exit(&self, span: &Id) {
        let mut seen = self.seen();
        assert_eq!(seen.entered.pop(), Some(span.into_u64()), "spans are left in order");
    }

    fn clone_span(&self, span: &Id) -> Id {
        *self.seen().clones.entry(span.into_u64()).or_default() += 1;
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        let mut seen = self.seen();
        if let Some(clones) = seen.clones.get_mut(&span.into_u64()).filter(|clones| **clones > 0) {
            *clones -= 1;
            return false;
        }
        seen.closed.push(span.into_u64());
        true
    }
}

/// Runs a test with a collector of its own. Handlers are async, and run on the thread of the test.
fn collect(f: impl FnOnce(&Collector)) {
    // `tracing` caches the interest of call sites for all threads together.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let collector = Collector::default();
    tracing::subscriber::with_default(collector.clone(), || f(&collector));
}

fn service() -> Service {
    Service::builder("test", "1")
        .tool(Tool::new_async("works", async |context: Context| {
            context.sleep(Duration::from_secs(1)).await?;
            tracing::info!(target: "handler", "half way");
            context.sleep(Duration::from_secs(1)).await?;
            Ok::<_, CallError>("done")
        }))
        .tool(Tool::new_async("fails", async || Err::<(), _>("no luck")))
        .tool(Tool::new_async("panics", async || -> &'static str { panic!("secret") }))
        .tool(Tool::new_async("asks", async |context: Context| {
            let params = CreateMessageParams::new([SamplingMessage::user("Who?")], 10_u64);
            context.sample(params).await.map(|_| "asked")
        }))
        .build()
        .expect("a good service")
}

fn host() -> Host {
    Host::builder("client", "1")
        .sampling_async(async |_, _: Context<mcp_proto::connection::ClientRole>| {
            Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("Me"), "m"))
        })
        .build()
}

fn trace() -> TraceContext {
    let trace = TraceContext::within(PARENT).expect("a parent").with_state("a=b").expect("a state");
    trace.with_baggage("c=d").expect("a baggage")
}

#[test]
fn each_request_has_a_span_with_its_outcome() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        collect(|collector| {
            let client = TestClient::of(&service()).version(version).principal(Principal::new("me")).connect();
            let call = client.server().with_trace(trace()).call_tool("works", ()).expect("it can be sent");
            client.wait(call).expect("a result");
            client.call_tool("fails", ()).expect("a result");
            client.call_tool("panics", ()).expect_err("an error");
            client.call_tool("missing", ()).expect_err("an error");
            client.wait(client.server().list_tools(None).expect("it can be sent")).expect("a list");
            let call = client.server().within(Duration::from_millis(1)).call_tool("works", ()).expect("it can be sent");
            client.wait(call).expect_err("it takes too long");

            let is_modern = version == ProtocolVersion::V2026_07_28;
            let spans = collector.completed();
            let [works, .., cancelled] = &*spans else { panic!("{spans:?}") };
            for (name, value) in [
                ("method", "tools/call"),
                ("name", "works"),
                ("era", if is_modern { "modern" } else { "legacy" }),
                ("version", version.as_str()),
                ("principal", "me"),
                ("traceparent", PARENT),
                ("tracestate", "a=b"),
                ("baggage", "c=d"),
                ("outcome", "result"),
                ("code", "-"),
            ] {
                assert_eq!(works.get(name), value, "{name} of {works:?}");
            }
            assert!(works.get("id").parse::<u64>().is_ok(), "{works:?}");
            assert_eq!((cancelled.get("name"), cancelled.get("outcome")), ("works", "cancelled"));
            assert_eq!(cancelled.get("traceparent"), "-");
            assert_eq!(collector.about("fails").get("outcome"), "failed");
            let panicked = collector.about("panics");
            assert_eq!((panicked.get("outcome"), panicked.get("code")), ("error", "-32603"));
            let missing = collector.about("missing");
            assert_eq!((missing.get("outcome"), missing.get("code")), ("error", "-32602"));
            let list = spans.iter().find(|span| span.has("method", "tools/list")).expect("a span");
            assert_eq!((list.get("name"), list.get("outcome")), ("-", "result"));

            let seen = collector.seen();
            let of_handler =
                seen.events.iter().find(|(_, _, fields)| fields.has("message", "half way")).expect("an event");
            assert_eq!(of_handler.0, seen.spans.keys().next().copied(), "the handler runs in the span of its request");
            let panics: Vec<_> = seen.events.iter().filter(|(_, level, _)| level == "ERROR").collect();
            assert!(matches!(&*panics, [(Some(_), ..)]), "{panics:?}");
            assert!(
                seen.events.iter().any(|(_, _, fields)| fields.has("message", "the connection is ready")) || is_modern
            );
            assert!(seen.entered.is_empty());
        });
    }
}

/// An error with a cause, which must not leave the server.
#[derive(Debug)]
struct Leak;

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if f.alternate() { "outer\nline: secret cause" } else { "outer secret" })
    }
}

#[derive(serde::Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[allow(dead_code, reason = "only its schema counts")]
struct Named {
    name: String,
}

fn leaks() -> ServiceBuilder {
    Service::builder("test", "1")
        .tool(Tool::new_async("tool", async || Err::<String, _>(Leak)))
        .tool(Tool::new_async("io", async || Err::<String, _>(std::io::Error::other("secret cause"))))
        .tool(Tool::new_async("boxed", async || Err::<String, _>(Box::<dyn Error>::from("secret cause"))))
        .tool(Tool::new_async("text", async || Err::<String, _>(String::from("secret cause"))))
        .tool(Tool::new_async("causes", async || {
            Err::<String, _>(Failure::with_causes(&std::io::Error::other("secret cause")))
        }))
        .tool(Tool::new_async("literal", async || Err::<String, _>("for the model")))
        .tool(Tool::new_async("failure", async || Err::<String, _>(Failure::new("for the model"))))
        .tool(Tool::new_async("result", async || CallToolResult::error("for the model")))
        .tool(Tool::new_async("rpc", async || Err::<String, _>(ErrorObject::invalid_params("for the client"))))
        .tool(Tool::new_async("task", async || Err::<String, _>(Leak)).task_support(TaskSupport::Required))
        .prompt(Prompt::new_async("prompt", async |_: Context| Err::<String, _>(Leak)))
        .prompt(
            Prompt::with_arguments("complete", [PromptArgument::new("name")], || "text")
                .complete_async("name", async |_: CompletionRequest| Err::<Vec<String>, _>(Leak)),
        )
        .resource(Resource::new_async("a://resource", "resource", async || Err::<String, _>(Leak)))
        .template(ResourceTemplate::new_async("b://{name}", "template", async || Err::<String, _>(Leak)))
        .on_request_async("custom", async |_: Value, _: Context| Err::<Value, _>(Leak))
}

/// Sends all requests for items that fail, and returns the texts that the client gets by the names of the items.
fn texts(client: &TestClient) -> BTreeMap<&'static str, String> {
    let server = client.server();
    let mut texts = BTreeMap::new();
    for tool in ["tool", "io", "boxed", "text", "causes", "literal", "failure", "result", "rpc"] {
        let text = match client.call_tool(tool, ()) {
            Ok(result) => result.content[0].as_text().expect("a text").to_owned(),
            Err(error) => error.to_string(),
        };
        texts.insert(tool, text);
    }
    let tools = client.wait(server.list_tools(None).expect("a request")).expect("a list").tools;
    let tool = tools.iter().find(|tool| tool.name == "task").expect("it is listed");
    let ResultOrTask::Task(task) = client.wait(server.run_tool(tool, ()).expect("a request")).expect("a task") else {
        panic!("it is a task")
    };
    let result = client.wait(task.result().expect("a request")).expect("a result");
    texts.insert("task", result.content[0].as_text().expect("a text").to_owned());
    let shown = client.wait(task.get().expect("a request")).expect("a task");
    texts.insert("status", shown.status_message.unwrap_or_default());
    texts.insert("prompt", client.get_prompt("prompt", ()).expect_err("it fails").to_string());
    texts.insert("resource", client.read_resource("a://resource").expect_err("it fails").to_string());
    texts.insert("template", client.read_resource("b://x").expect_err("it fails").to_string());
    let pending = server.complete(PromptReference::new("complete"), "name", "x", ()).expect("a request");
    texts.insert("completion", client.wait(pending).expect_err("it fails").to_string());
    texts
}

#[test]
fn masked_failures_are_logged_and_not_sent() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        collect(|collector| {
            let open = TestClient::of(&leaks().build().expect("a good service")).version(version).connect();
            for (name, text) in texts(&open) {
                let is_own = matches!(name, "literal" | "failure" | "result" | "rpc");
                assert_eq!(text.contains("secret cause"), !is_own && !text.is_empty(), "{version:?} {name}: {text}");
            }
            assert!(
                !collector.seen().events.iter().any(|(_, _, fields)| fields.has("message", "a handler has failed"))
            );

            let masked = leaks().mask_failures().build().expect("a good service");
            let client = TestClient::of(&masked).version(version).connect();
            let texts = texts(&client);
            for (name, text) in &texts {
                let expected = match *name {
                    "literal" | "failure" | "result" => "for the model",
                    "rpc" => "for the client",
                    "tool" | "io" | "boxed" | "text" | "causes" | "task" => "The tool failed",
                    "status" if text.is_empty() => "",
                    "status" => "The tool failed",
                    _ => "Internal error",
                };
                assert!(text.contains(expected) && !text.contains("secret"), "{version:?} {name}: {text}");
            }
            client.send_line(r#"{"jsonrpc":"2.0","id":"c","method":"custom","params":{}}"#);
            assert!(!client.transcript().to_string().contains("secret"), "{}", client.transcript());
            let seen = collector.seen();
            let logged: Vec<_> =
                seen.events.iter().filter(|(_, _, fields)| fields.has("message", "a handler has failed")).collect();
            let custom = usize::from(version == ProtocolVersion::V2025_11_25);
            assert_eq!(logged.len(), 10 + custom, "{logged:?}");
            for (span, level, fields) in logged {
                assert!(span.is_some() && level == "ERROR" && fields.get("why").contains("secret cause"), "{fields:?}");
                assert!(!fields.get("why").contains('\n'), "{fields:?}");
            }
        });
    }
}

#[test]
fn every_request_has_one_span() {
    const HIDDEN: &str = "hidden";
    let service = || {
        Service::builder("test", "1")
            .tool(Tool::new_async("works", async || "done").task_support(TaskSupport::Optional))
            .tool(Tool::new_async("scoped", async || "done").scope("write"))
            .tool(Tool::new_async(HIDDEN, async || "done"))
            .tool(Tool::new_async("named", async |_: Named| "done"))
            .prompt(
                Prompt::with_arguments("prompt", [PromptArgument::new("name")], || "text")
                    .complete_async("name", async |_: CompletionRequest| vec!["text"]),
            )
            .resource(Resource::new_async("a://b", "b", async || "text"))
            .subscriptions()
            .visible(|item, _| item.name() != HIDDEN)
            .build()
            .expect("a good service")
    };
    let of_both = [
        ("tools/call", json!({"name": "works"}), "result"),
        ("tools/call", json!({"name": "unknown"}), "error"),
        ("tools/call", json!({"name": HIDDEN}), "error"),
        ("tools/call", json!({"name": "scoped"}), "error"),
        ("tools/call", json!({"name": "named", "arguments": {"name": 1}}), "failed"),
        ("tools/call", json!({"name": ["works"]}), "error"),
        ("tools/list", json!({"cursor": "wrong"}), "error"),
        ("prompts/get", json!({"name": "unknown"}), "error"),
        ("resources/read", json!({"uri": "a://unknown"}), "error"),
        ("resources/read", json!({"uri": "no URI"}), "error"),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "unknown"},
            "argument": {"name": "a", "value": ""}}),
            "error",
        ),
        ("custom/unknown", json!({}), "error"),
        ("tasks/get", json!({"taskId": "unknown"}), "error"),
        ("tasks/cancel", json!({"taskId": "unknown"}), "error"),
    ];
    let of_sessions = [
        ("resources/subscribe", json!({"uri": "a://unknown"}), "error"),
        ("logging/setLevel", json!({"level": "info"}), "result"),
        ("tasks/result", json!({"taskId": "unknown"}), "error"),
        ("tasks/list", json!({}), "result"),
        ("tasks/list", json!({"cursor": "wrong"}), "error"),
    ];
    for (version, own) in [(ProtocolVersion::V2025_11_25, &of_sessions[..]), (ProtocolVersion::V2026_07_28, &[])] {
        for (method, params, outcome) in of_both.iter().chain(own) {
            collect(|collector| {
                let client = TestClient::of(&service()).version(version).principal(Principal::new("me")).connect();
                let mut params = params.clone();
                if version == ProtocolVersion::V2026_07_28 {
                    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                        "io.modelcontextprotocol/clientCapabilities":
                            {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
                }
                let line = json!({"jsonrpc": "2.0", "id": "mine", "method": method, "params": params});
                client.send_line(&line.to_string());
                let spans = collector.completed();
                let outcomes: Vec<_> = spans.iter().map(|span| (span.get("method"), span.get("outcome"))).collect();
                assert_eq!(outcomes, [(*method, *outcome)], "{version:?} {line}: {spans:?}\n{}", client.transcript());
                assert_eq!(spans[0].get("code") == "-", *outcome != "error", "{spans:?}");
            });
        }
    }
}

/// A connection that receives nothing.
struct Handle(Mutex<Server>, Waiters);

impl ConnectionHandle<ServerRole> for Handle {
    fn with_mut(&self, f: &mut dyn FnMut(&mut Server, Timestamp)) {
        f(&mut self.0.lock().expect("no panic"), Timestamp::ZERO);
    }

    fn with_ref(&self, f: &mut dyn FnMut(&Server)) {
        f(&self.0.lock().expect("no panic"));
    }

    fn waiters(&self) -> &Waiters {
        &self.1
    }
}

/// A driver asks before it passes on a batch, and refuses the batch.
#[test]
fn each_request_of_a_refused_batch_has_a_span() {
    let tool = |name: &str| Tool::new_async(name, async || "done");
    let service = Service::builder("test", "1").tool(tool("open")).tool(tool("write").scope("write"));
    let service = service.build().expect("a good service");
    let server = Server::new(service.config(), Timestamp::ZERO);
    let connection: Arc<dyn ConnectionHandle<ServerRole>> = Arc::new(Handle(Mutex::new(server), Waiters::new()));
    let (session, params) = (service.session(), ["open", "write"].map(|name| Json::new(&json!({"name": name}))));
    for (scopes, spans) in [(&[][..], 2), (&["write"], 0)] {
        collect(|collector| {
            let mut principal = Principal::new("me");
            principal.scopes = scopes.iter().map(ToString::to_string).collect();
            let mut requests =
                params.iter().map(|params| ("tools/call".into(), params.as_ref().ok().map(RawJson::from)));
            let required = session.required_scopes(&connection, Some(&principal), &mut requests);
            assert_eq!(required, [["write"]]);
            let seen = collector.completed();
            assert_eq!(seen.len(), spans, "{seen:?}");
            for (span, name) in seen.iter().zip(["open", "write"]) {
                assert_eq!(
                    ["name", "principal", "outcome", "code"].map(|it| span.get(it)),
                    [name, "me", "error", "-32600"]
                );
            }
        });
    }
}

#[test]
fn the_span_of_a_request_ends_with_the_task_for_which_it_waits() {
    collect(|collector| {
        let slow = Tool::new_async("slow", async |context: Context| {
            context.sleep(Duration::from_secs(10)).await.map(|()| "done")
        });
        let service = Service::builder("test", "1").tool(slow.task_support(TaskSupport::Optional)).build();
        let client = TestClient::of(&service.expect("a good service")).version(ProtocolVersion::V2025_11_25).connect();
        let server = client.server();
        let tools = client.wait(server.list_tools(None).expect("a request")).expect("a list").tools;
        let pending = server.call_tool_as_task(&tools[0], (), None).expect("a request");
        let ResultOrTask::Task(task) = client.wait(pending).expect("a task") else { panic!("it is a task") };
        let send_request = |id: &str| {
            client.send_line(
                &json!({"jsonrpc": "2.0", "id": id, "method": "tasks/result", "params": {"taskId": task.id()}})
                    .to_string(),
            );
        };
        let outcomes = || {
            let spans = collector.completed();
            let waiting = spans.iter().filter(|span| span.has("method", "tasks/result"));
            waiting.map(|span| (span.get("id").to_owned(), span.get("outcome").to_owned())).collect::<Vec<_>>()
        };
        send_request("first");
        send_request("second");
        assert_eq!(outcomes(), [], "they wait");
        client.send_line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"first"}}"#);
        let cancelled = ("\"first\"".to_owned(), "cancelled".to_owned());
        assert_eq!(outcomes(), vec![cancelled.clone()]);
        client.advance(Duration::from_secs(20));
        assert_eq!(outcomes(), [cancelled, ("\"second\"".to_owned(), "result".to_owned())]);
    });
}

#[test]
fn peer_faults_are_logged_as_warnings() {
    collect(|collector| {
        let client = TestClient::of(&service()).version(ProtocolVersion::V2025_11_25).connect();
        client.send_line("{ this is no JSON");
        let seen = collector.seen();
        assert!(seen.events.iter().any(|(_, level, fields)| level == "WARN" && fields.get("fault") != "-"));
    });
}

#[test]
fn middleware_runs_in_the_span() {
    collect(|collector| {
        let service = Service::builder("test", "1").tool(Tool::new_async("works", async || "done")).layer(
            async |_: IncomingRequest, next: Next| {
                tracing::info!(target: "handler", "around");
                Ok(next.run().await)
            },
        );
        let client = TestClient::new(&service.build().expect("a good service"));
        client.call_tool("works", ()).expect("a result");
        assert_eq!(collector.about("works").get("outcome"), "result");
        let seen = collector.seen();
        assert!(seen.events.iter().any(|(span, _, fields)| span.is_some() && fields.has("message", "around")));
    });
}

// Requests of a handler belong to the trace of its request.
#[test]
fn nested_requests_continue_the_trace() {
    collect(|_| trace_goes_on());
}

fn trace_goes_on() {
    let requested = |host: &Host, service: &Service, trace: Option<TraceContext>| {
        let client = TestClient::of(service).host(host).version(ProtocolVersion::V2025_11_25).connect();
        let server = trace.map_or_else(|| client.server(), |trace| client.server().with_trace(trace));
        client.wait(server.call_tool("asks", ()).expect("it can be sent")).expect("a result");
        let lines = client.transcript();
        let meta = |side: Side| {
            let from = lines.from(side);
            let line: Value = serde_json::from_str(from.lines()[0].text()).expect("JSON");
            let meta = &line["params"]["_meta"];
            ["traceparent", "tracestate", "baggage"].map(|name| meta[name].as_str().unwrap_or("-").to_owned())
        };
        (meta(Side::Client), meta(Side::Server))
    };
    let all = || [PARENT, "a=b", "c=d"].map(str::to_owned);
    let none = || ["-"; 3].map(str::to_owned);
    assert_eq!(requested(&host(), &service(), Some(trace())), (all(), all()));
    assert_eq!(requested(&host(), &service(), None), (none(), none()));

    // A trace context of the application replaces the received one.
    let own = "00-11111111111111111111111111111111-2222222222222222-01";
    let own_trace = move || TraceContext::within(own).ok();
    let of_own = || [own, "-", "-"].map(str::to_owned);
    let tracing_service = Service::builder("test", "1")
        .tool(Tool::new_async("asks", async |context: Context| {
            let params = CreateMessageParams::new([SamplingMessage::user("Who?")], 10_u64);
            context.sample(params).await.map(|_| "asked")
        }))
        .trace_with(own_trace)
        .build()
        .expect("a good service");
    assert_eq!(requested(&host(), &tracing_service, Some(trace())), (all(), of_own()));
    let tracing_host = Host::builder("client", "1")
        .sampling(|_, _| Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("Me"), "m")))
        .trace_with(own_trace)
        .build();
    assert_eq!(requested(&tracing_host, &service(), None), (of_own(), of_own()));
    // An explicit trace context has priority.
    assert_eq!(requested(&tracing_host, &service(), Some(trace())), (all(), all()));
}
