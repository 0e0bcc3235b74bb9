//! One of several processes behind a proxy that share their sessions in Redis.
//!
//! Requests of 2026-07-28 need no session; the processes share the key of what they sign, and their tasks. `/ready` and
//! `/metrics` are at an address of their own, which is not for the public. On SIGTERM or Ctrl-C the process is no
//! longer ready, takes no more requests, and ends when those in flight have their responses and its tasks have ended.
//!
//! ```sh
//! cluster-tokio ADDRESS INTERNAL-ADDRESS REDIS-URL KEY
//! cluster-tokio 127.0.0.1:8001 127.0.0.1:9001 redis://127.0.0.1/0 "$(openssl rand -hex 32)"
//! curl http://127.0.0.1:9001/ready
//! ```
//!
//! `tests/cluster/run` kills such processes while clients use them.

use std::{env, error::Error, io::Write, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use mcp_proto::schema::TaskSupport;
use mcp_service::{
    Context, Failure, RegisterError, Service, Tool,
    layers::{Labels, Metrics, MetricsRecorder},
};
use mcp_tokio::http::{EndpointOptions, Listener, Policy, RedisStore, Store};
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tokio::{net::TcpListener, sync::watch, time::timeout};

/// The bounds of the histogram, in seconds.
const BUCKETS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// How long the last tasks may take to end.
const ENDING: Duration = Duration::from_secs(10);

/// How long their states may take to be written.
const WRITING: Duration = Duration::from_secs(5);

/// The labels of a measurement. The layer bounds their values.
type Owned = Vec<(&'static str, String)>;

/// The metrics of the requests of this process.
#[derive(Clone)]
struct Recorder {
    requests: Family<Owned, Counter>,
    durations: Family<Owned, Histogram>,
    in_flight: Family<Owned, Gauge>,
}

impl Recorder {
    fn new(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let durations = Family::new_with_constructor(histogram);
        let recorder = Self { requests: Family::default(), durations, in_flight: Family::default() };
        let Self { requests, durations, in_flight } = recorder.clone();
        registry.register("mcp_requests", "Requests of MCP that have ended", requests);
        registry.register("mcp_request_duration_seconds", "How long requests of MCP take", durations);
        registry.register("mcp_requests_in_flight", "Requests of MCP in flight", in_flight);
        recorder
    }
}

fn owned(labels: &Labels<'_>) -> Owned {
    labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

impl MetricsRecorder for Recorder {
    fn count(&self, _name: &'static str, labels: &Labels<'_>, by: u64) {
        self.requests.get_or_create(&owned(labels)).inc_by(by);
    }

    fn observe(&self, _name: &'static str, labels: &Labels<'_>, value: f64) {
        self.durations.get_or_create(&owned(labels)).observe(value);
    }

    #[expect(clippy::cast_possible_truncation, reason = "it counts requests")]
    fn adjust(&self, _name: &'static str, labels: &Labels<'_>, by: f64) {
        self.in_flight.get_or_create(&owned(labels)).inc_by(by as i64);
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Count {
    /// The number of steps.
    steps: u32,
    /// The time of a step in milliseconds.
    millis: u64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

/// Builds a service with a tool that responds at once, and those that report their progress for a while.
fn service(recorder: Recorder, key: [u8; 32], store: RedisStore) -> Result<Service, RegisterError> {
    let count = async |Count { steps, millis }: Count, context: Context| {
        for step in 1..=steps {
            context.sleep(Duration::from_millis(millis)).await?;
            context.progress(step.into(), Some(steps.into()), None).await?;
        }
        Ok::<_, Failure>(steps.to_string())
    };
    Service::builder("cluster", "1.0.0")
        .tool(Tool::new_async("count", count).description("Counts to a number"))
        .tool(
            Tool::new_async("count_as_task", count).description("Counts in a task").task_support(TaskSupport::Optional),
        )
        .tool(Tool::new("add", |Add { a, b }: Add| a.wrapping_add(b).to_string()).description("Adds two numbers"))
        .with_layer(Metrics::new(recorder))
        .state_key(key)
        .task_store(store)
        .build()
}

/// What the internal routes know.
#[derive(Clone)]
struct Internal {
    registry: &'static Registry,
    store: RedisStore,
    /// Whether the process is about to end.
    ending: watch::Receiver<bool>,
}

/// Responds with 200 if the process can serve clients: Redis answers, and the process is not about to end.
async fn ready(State(internal): State<Internal>) -> Response {
    if *internal.ending.borrow() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the process is about to end\n").into_response();
    }
    match internal.store.usage().await {
        Ok(usage) => format!("{} sessions, {} bytes in Redis\n", usage.sessions, usage.bytes).into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("Redis: {error}\n")).into_response(),
    }
}

/// Writes the metrics in the text format that Prometheus reads.
async fn metrics(State(internal): State<Internal>) -> Response {
    let mut text = String::new();
    match encode(&mut text, internal.registry) {
        Ok(()) => {
            ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Waits for SIGTERM or Ctrl-C.
async fn signal() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            _ = terminate.recv() => Ok(()),
            interrupted = tokio::signal::ctrl_c() => interrupted,
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// Parses a key of 64 hexadecimal digits.
fn key_of(digits: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(key)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = env::args().skip(1).collect();
    let Ok([address, internal_address, redis, key]) = <[String; 4]>::try_from(args) else {
        return Err("arguments: ADDRESS INTERNAL-ADDRESS REDIS-URL KEY".into());
    };
    let key = key_of(&key).ok_or("a key has 64 hexadecimal digits")?;
    let mut registry = Registry::default();
    let recorder = Recorder::new(&mut registry);
    let store = RedisStore::connect(&redis).await?;

    // The proxy decides under which names it is reached. Requests of web pages are refused.
    let options = EndpointOptions::new(Policy::any_host());
    let listener = Listener::bind(address).await?.endpoint(options).store(Store::new(store.clone()));
    let stop = listener.stop_handle();
    let (end, ending) = watch::channel(false);
    let internal = Internal { registry: Box::leak(Box::new(registry)), store: store.clone(), ending };
    let routes = Router::new().route("/ready", get(ready)).route("/metrics", get(metrics)).with_state(internal);
    let internal_listener = TcpListener::bind(internal_address).await?;
    writeln!(
        std::io::stdout(),
        "http://{}/mcp http://{}/ready",
        listener.local_addr(),
        internal_listener.local_addr()?
    )?;
    tokio::spawn(async move { axum::serve(internal_listener, routes).await });
    tokio::spawn(async move {
        let signalled = signal().await;
        end.send_replace(true);
        stop();
        signalled
    });
    let service = service(recorder, key, store.clone())?;
    listener.serve(&service).await?;
    // Tasks that run for longer have failed.
    let _ = timeout(ENDING, service.tasks_ended()).await;
    // Other processes read the results of the last tasks there.
    timeout(WRITING, async {
        store.tasks_written().await;
        store.leave().await
    })
    .await??;
    Ok(())
}
