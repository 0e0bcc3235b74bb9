//! Spans, and the propagation of trace contexts.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    connection::Principal,
    protocol::ProtocolVersion,
    schema::{CreateMessageParams, CreateMessageResult, Role, SamplingContent, SamplingMessage, TraceContext},
};
use mcp_service::{
    CallError, Context, Failure, Host, IncomingRequest, Next, Service, Tool,
    testing::{Side, TestClient},
};
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

    fn try_close(&self, span: Id) -> bool {
        self.seen().closed.push(span.into_u64());
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
            let question = CreateMessageParams::new([SamplingMessage::user("Who?")], 10_u64);
            context.sample(question).await.map(|_| "asked")
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
    let asked = |host: &Host, service: &Service, trace: Option<TraceContext>| {
        let client = TestClient::of(service).host(host).version(ProtocolVersion::V2025_11_25).connect();
        let server = trace.map_or_else(|| client.server(), |trace| client.server().with_trace(trace));
        client.wait(server.call_tool("asks", ()).expect("it can be sent")).expect("a result");
        let lines = client.transcript();
        let meta = |side: Side| {
            let from = lines.from(side);
            let line: serde_json::Value = serde_json::from_str(from.lines()[0].text()).expect("JSON");
            let meta = &line["params"]["_meta"];
            ["traceparent", "tracestate", "baggage"].map(|name| meta[name].as_str().unwrap_or("-").to_owned())
        };
        (meta(Side::Client), meta(Side::Server))
    };
    let all = || [PARENT, "a=b", "c=d"].map(str::to_owned);
    let none = || ["-"; 3].map(str::to_owned);
    assert_eq!(asked(&host(), &service(), Some(trace())), (all(), all()));
    assert_eq!(asked(&host(), &service(), None), (none(), none()));

    // A trace context of the application replaces the received one.
    let own = "00-11111111111111111111111111111111-2222222222222222-01";
    let own_trace = move || TraceContext::within(own).ok();
    let of_own = || [own, "-", "-"].map(str::to_owned);
    let tracing_service = Service::builder("test", "1")
        .tool(Tool::new_async("asks", async |context: Context| {
            let question = CreateMessageParams::new([SamplingMessage::user("Who?")], 10_u64);
            context.sample(question).await.map(|_| "asked")
        }))
        .trace_with(own_trace)
        .build()
        .expect("a good service");
    assert_eq!(asked(&host(), &tracing_service, Some(trace())), (all(), of_own()));
    let tracing_host = Host::builder("client", "1")
        .sampling(|_, _| Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("Me"), "m")))
        .trace_with(own_trace)
        .build();
    assert_eq!(asked(&tracing_host, &service(), None), (of_own(), of_own()));
    // An explicit trace context has priority.
    assert_eq!(asked(&tracing_host, &service(), Some(trace())), (all(), all()));
}
