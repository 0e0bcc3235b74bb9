//! Events of `tracing` as log messages.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

use mcp_proto::{
    connection::Settings,
    protocol::ProtocolVersion,
    schema::{LogMessageParams, LoggingLevel},
    wire::JsonObject,
};
use mcp_service::{
    Context, Host, Service, Tool,
    layers::LogLayer,
    testing::{Side, TestClient},
};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt;

/// Installs the layer for all tests of this program. Returns its counter of dropped messages.
fn install() -> Arc<AtomicU64> {
    static DROPPED: OnceLock<Arc<AtomicU64>> = OnceLock::new();
    let install = || {
        let layer = LogLayer::of_targets(["app", "mcp_service"]);
        let dropped = layer.dropped();
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).expect("it is the first");
        dropped
    };
    DROPPED.get_or_init(install).clone()
}

type Messages = Arc<Mutex<Vec<Value>>>;

/// Connects a client that keeps the log messages.
fn connect(tool: Tool, version: ProtocolVersion) -> (TestClient, Messages) {
    install();
    let messages = Messages::default();
    let kept = messages.clone();
    let host = Host::builder("client", "1")
        .on(move |log: LogMessageParams, _| {
            let data: Value = log.data.decode().expect("JSON");
            let line = json!([log.level.as_str(), log.logger, data]);
            kept.lock().expect("no panic").push(line);
        })
        .build();
    let mut settings = Settings::default();
    settings.limits.outbox_bytes = 1 << 20;
    let service = Service::builder("test", "1").settings(settings).tool(tool).build().expect("a good service");
    (TestClient::of(&service).host(&host).version(version).connect(), messages)
}

fn call(client: &TestClient, level: Option<LoggingLevel>) {
    let server = client.server();
    let server = match (level, server.version()) {
        (Some(level), Some(ProtocolVersion::V2026_07_28)) => server.logging(level),
        (Some(level), _) => {
            client.wait(server.set_log_level(level).expect("it can be sent")).expect("a result");
            server
        }
        (None, _) => server,
    };
    client.wait(server.call_tool("work", ()).expect("it can be sent")).expect("a result");
}

fn take(messages: &Messages) -> Vec<Value> {
    std::mem::take(&mut *messages.lock().expect("no panic"))
}

const ERAS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

fn emit() {
    tracing::error!(target: "app", code = 7, ratio = 0.5, ok = true, who = "ada", "broken");
    tracing::warn!(target: "app::part", "odd");
    tracing::info!(target: "app", "note");
    tracing::debug!(target: "app", "detail");
    tracing::error!(target: "application", "of another target");
    tracing::error!(target: "mcp_service", "of this library");
}

#[test]
fn clients_get_events_of_the_level_they_ask_for() {
    for version in ERAS {
        for tool in [
            Tool::new("work", || {
                emit();
                "done"
            }),
            Tool::new_async("work", async || {
                let _inner = tracing::info_span!(target: "app", "inner").entered();
                emit();
                "done"
            }),
        ] {
            let (client, messages) = connect(tool, version);
            let error =
                json!(["error", "app", {"message": "broken", "code": 7, "ratio": 0.5, "ok": true, "who": "ada"}]);
            let warning = json!(["warning", "app::part", {"message": "odd"}]);
            let info = json!(["info", "app", {"message": "note"}]);
            let debug = json!(["debug", "app", {"message": "detail"}]);
            call(&client, None);
            let expected = match version {
                ProtocolVersion::V2026_07_28 => vec![],
                _ => vec![error.clone(), warning.clone(), info.clone(), debug.clone()],
            };
            assert_eq!(take(&messages), expected, "{version}");
            call(&client, Some(LoggingLevel::Warning));
            assert_eq!(take(&messages), [error.clone(), warning.clone()], "{version}");
            call(&client, Some(LoggingLevel::Debug));
            assert_eq!(take(&messages), [error, warning, info, debug], "{version}");
        }
    }
}

#[test]
fn event_on_another_thread_belongs_to_its_request() {
    for version in ERAS {
        let tool = Tool::new("work", || {
            let span = tracing::Span::current();
            let (done, wait) = mpsc::channel();
            thread::spawn(move || {
                span.in_scope(|| tracing::info!(target: "app", "inside"));
                tracing::info!(target: "app", "outside");
                done.send(())
            });
            wait.recv().expect("the thread ends");
            "done"
        });
        let (client, messages) = connect(tool, version);
        call(&client, Some(LoggingLevel::Info));
        assert_eq!(take(&messages), [json!(["info", "app", {"message": "inside"}])], "{version}");
    }
}

#[test]
fn events_of_two_clients_are_not_mixed() {
    let tool = || {
        Tool::with_schema(
            "work",
            JsonObject::parse(r#"{"type":"object"}"#).expect("an object"),
            |_: Value, context: Context| {
                let name = context.info().peer.as_ref().map_or("-", |peer| &*peer.name).to_owned();
                tracing::info!(target: "app", name, "called");
                "done"
            },
        )
    };
    for version in ERAS {
        let ((one, first), (other, second)) = (connect(tool(), version), connect(tool(), version));
        call(&one, Some(LoggingLevel::Info));
        assert_eq!((take(&first).len(), take(&second).len()), (1, 0), "{version}");
        call(&other, Some(LoggingLevel::Info));
        assert_eq!((take(&first).len(), take(&second).len()), (0, 1), "{version}");
    }
}

/// A value that emits an event when it is formatted.
struct Loud;

impl fmt::Debug for Loud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        tracing::error!(target: "app", value = ?Self, "again");
        f.write_str("loud")
    }
}

#[test]
fn an_event_of_a_value_in_an_event_is_not_sent() {
    for version in ERAS {
        let tool = Tool::new_async("work", async || {
            tracing::error!(target: "app", value = ?Loud, "once");
            "done"
        });
        let (client, messages) = connect(tool, version);
        call(&client, Some(LoggingLevel::Info));
        let expected = [json!(["error", "app", {"message": "once", "value": "loud"}])];
        assert_eq!(take(&messages), expected, "{version}");
    }
}

/// A value that emits an event when it is serialized, for which the lock of the connection may be held.
struct Noisy;

impl serde::Serialize for Noisy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        tracing::error!(target: "app", "serialized");
        serializer.serialize_str("noisy")
    }
}

#[test]
fn an_event_under_the_lock_of_the_connection_does_not_block() {
    let tool = Tool::new_async("work", async |context: Context| {
        context.peer().connection().update(|_, _| tracing::error!(target: "app", "under the lock"));
        context.log(LoggingLevel::Error, None, Noisy).await.map(|()| "done")
    });
    let (client, messages) = connect(tool, ProtocolVersion::V2025_11_25);
    call(&client, None);
    let messages = take(&messages);
    assert!(messages.contains(&json!(["error", null, "noisy"])), "{messages:?}");
    assert!(!messages.iter().any(|message| message[2]["message"] == "under the lock"), "{messages:?}");
}

#[test]
fn messages_and_their_number_are_bounded() {
    let dropped = install();
    let tool = Tool::new_async("work", async || {
        tracing::info!(target: "app", long = "ä".repeat(1 << 20), rest = "x", "first");
        for number in 0..20_000_u32 {
            tracing::info!(target: "app", number, text = "x".repeat(1000));
        }
        "done"
    });
    let before = dropped.load(Ordering::Relaxed);
    let (client, messages) = connect(tool, ProtocolVersion::V2026_07_28);
    call(&client, Some(LoggingLevel::Info));
    // The client can lose some of so many: those that were sent are in the transcript.
    let sent = client.transcript().from(Side::Server).lines().len() - 1;
    let first = &take(&messages)[0][2];
    let length = first.to_string().len();
    assert!((8 << 10..9 << 10).contains(&length), "{length}");
    assert_eq!(sent as u64 + dropped.load(Ordering::Relaxed) - before, 20_001);
    assert!(sent < 2_000, "{sent}");
}

/// A value that counts how often it was written.
struct Costly<'a>(&'a AtomicU64);

impl fmt::Debug for Costly<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fetch_add(1, Ordering::Relaxed);
        f.write_str("costly")
    }
}

#[test]
fn values_are_not_written_for_clients_that_do_not_want_them() {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    for version in ERAS {
        let tool = Tool::new_async("work", async || {
            tracing::info!(target: "app", value = ?Costly(&WRITTEN), "done");
            "done"
        });
        let (client, messages) = connect(tool, version);
        WRITTEN.store(0, Ordering::Relaxed);
        call(&client, Some(LoggingLevel::Error));
        assert_eq!((take(&messages).len(), WRITTEN.load(Ordering::Relaxed)), (0, 0), "{version}");
        call(&client, Some(LoggingLevel::Info));
        assert_eq!((take(&messages).len(), WRITTEN.load(Ordering::Relaxed)), (1, 1), "{version}");
    }
}
