use std::sync::{Arc, Mutex, mpsc::channel};

use mcp_proto::{
    connection::Settings,
    protocol::{Capability, ProtocolVersion},
    schema::{LogMessageParams, LoggingLevel, ResourceUpdatedParams, ToolsListChangedParams},
    wire::{JsonObject, RawJson},
};
use serde_json::{Value, json};

use super::pair::{Pair, code};
use super::{echo, object};
use crate::{
    client::Host,
    inbound::{context::Context, failure::Failure, fault::Fault},
    outbound::error::CallError,
    server::{resource::Resource, service::Service, tool::Tool},
    util::lock::lock,
};

#[test]
fn custom_methods_work_in_both_directions() {
    #[derive(serde::Deserialize, serde::Serialize)]
    struct Sum {
        numbers: Vec<i64>,
    }
    let add = |sum: Sum| json!({"sum": sum.numbers.iter().sum::<i64>()});
    let service = Service::builder("test", "1")
        .on_request("vendor/add", move |sum: Sum, _| Ok::<_, Failure>(add(sum)))
        .on_request("vendor/fail", |(): (), _| Err::<Value, _>("no"))
        .on_request("vendor/list", |_: Value, _| Ok::<_, Failure>([1]))
        .experimental("vendor", object(&json!({"add": true})))
        .build()
        .expect("a good service");
    let host =
        Host::builder("client", "1").on_request("vendor/add", move |sum: Sum, _| Ok::<_, Failure>(add(sum))).build();
    for version in ProtocolVersion::LEGACY {
        let pair = Pair::new(&host, &service, version);
        assert_eq!(pair.send_request("vendor/add", json!({"numbers": [1, 2]})), Ok(json!({"sum": 3})));
        assert_eq!(pair.send_request_to_client("vendor/add", json!({"numbers": [4]})), Ok(json!({"sum": 4})));
        assert_eq!(code(&pair.send_request("vendor/add", json!({"numbers": "x"}))), -32602);
        assert_eq!(code(&pair.send_request("vendor/list", json!({}))), -32603, "a result is an object");
        assert_eq!(code(&pair.send_request("vendor/none", json!({}))), -32601);
        assert_eq!(code(&pair.send_request_to_client("$/none", json!({}))), -32601);
        pair.to_server()
            .notify_raw("$/whatever", Some(&RawJson::from(&mcp_proto::wire::Json::parse("{\"a\":1}").expect("JSON"))))
            .expect("it can be sent");
        let server =
            pair.client.with_conn(|conn| conn.server().and_then(|server| server.capabilities.experimental.clone()));
        assert_eq!(
            server.and_then(|all| all.get("vendor").map(JsonObject::get).map(str::to_owned)),
            Some("{\"add\":true}".into())
        );
        pair.assert_clean();
    }
}

#[test]
fn notifications_are_handled_in_order_before_requests() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let (recorder, observed) = (received.clone(), received.clone());
    let (all_there, gate) = channel();
    let gate = Mutex::new(gate);
    let service = echo()
        .on_notification("vendor/note", move |note: Value, _| {
            if note["number"] == 0 {
                // Blocks until all later requests wait for it.
                lock(&gate).recv().expect("the test goes on");
            }
            lock(&recorder).push(note["number"].as_u64());
        })
        .on_notification("vendor/grow", |_: Value, client| {
            client.log(LoggingLevel::Info, None, "grown").expect("it can be sent");
        })
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    for number in 0..200 {
        let params = mcp_proto::wire::Json::new(&json!({"number": number})).expect("JSON");
        pair.to_server().notify_raw("vendor/note", Some(&RawJson::from(&params))).expect("it can be sent");
    }
    while pair.step() {}
    all_there.send(()).expect("the first one waits");
    pair.settle();
    assert_eq!(*lock(&observed), (0..200).map(Some).collect::<Vec<_>>());

    // A list request waits for the effect of the notification before it: it becomes a job of its own.
    use crate::driver_api::connection_handle::Application;
    use mcp_proto::{connection::Event, protocol::MethodName};
    let session = &pair.server_session;
    let told = Event::Notification { method: MethodName::new("vendor/grow"), params: None, related_call: None };
    let hearing = session.handle(&pair.server.connection(), told).expect("a job");
    let line = json!({"jsonrpc": "2.0", "id": "l", "method": "tools/list"}).to_string();
    let requested = pair.server.with_conn(|conn| {
        conn.handle_frame(Default::default(), mcp_proto::codec::Frame::new(line.as_bytes())).map(Event::into_owned)
    });
    let listing = session.handle(&pair.server.connection(), requested.expect("a request")).expect("a job, too");
    hearing.run();
    listing.run();
    let mut out = Vec::new();
    pair.server.with_conn(|conn| while conn.poll_transmit(&mut out).is_some() {});
    let lines: Vec<Value> =
        String::from_utf8(out).expect("JSON").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&lines[0]["params"]["data"], &lines[1]["id"]), (&json!("grown"), &json!("l")));
}

#[test]
fn notification_handler_may_send_requests_and_panic() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let recorder = received.clone();
    let host = Host::builder("client", "1")
        .on(|_: LogMessageParams, _| panic!("not again"))
        .on(move |_: ToolsListChangedParams, server| {
            let tools = server.list_tools(None).map_err(CallError::from).and_then(|list| list.wait());
            lock(&recorder).push(tools.expect("a list").tools.len());
            assert!(server.ping().map_err(CallError::from).and_then(|ping| ping.wait()).is_ok());
        })
        .build();
    let service = echo().build().expect("a good service");
    let pair = Pair::new(&host, &service, ProtocolVersion::V2025_11_25);
    pair.to_client().log(LoggingLevel::Error, None, "boom").expect("it can be sent");
    service.add(Tool::new("new", || ())).expect("its name is free");
    pair.settle();
    assert_eq!(*lock(&received), [2]);
    pair.assert_clean();
}

#[test]
fn faults_are_reported_and_survived() {
    let faults = Arc::new(Mutex::new(Vec::new()));
    let (recorder, observed) = (faults.clone(), faults.clone());
    let host = Host::builder("client", "1")
        .on(|_: ResourceUpdatedParams, _| ())
        .on_fault(move |fault| lock(&recorder).push(fault))
        .build();
    let pair = Pair::new(&host, &echo().build().expect("a good service"), ProtocolVersion::V2025_11_25);
    pair.input_to_client("hello, I am a banner");
    pair.input_to_client(r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":7}}"#);
    pair.input_to_client(r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"}}"#);
    pair.settle();
    let faults = std::mem::take(&mut *lock(&observed));
    assert!(matches!(faults.as_slice(), [Fault::Violation(_), Fault::Violation(_), Fault::PeerError(_)]), "{faults:?}");
    assert!(faults.iter().all(|fault| !fault.to_string().is_empty()));
    assert!(pair.send_request("tools/list", json!({})).is_ok());
}

// req: BASE-029
#[test]
fn responses_reach_their_own_client() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("who", |context: Context| {
            context.info().peer.as_ref().map(|peer| peer.name.clone()).ok_or("anonymous")
        }))
        .build()
        .expect("a good service");
    let clients = ProtocolVersion::LEGACY.into_iter().enumerate();
    let pairs: Vec<_> = clients
        .map(|(i, version)| Pair::new(&Host::builder(format!("client{i}"), "1").build(), &service, version))
        .collect();
    for round in 0..50 {
        let calls: Vec<_> =
            pairs.iter().map(|pair| pair.to_server().call_tool("who", ()).expect("it can be sent")).collect();
        let waiting: Vec<_> = calls.into_iter().map(|call| std::thread::spawn(move || call.wait())).collect();
        // The pairs take turns in a different order each time.
        while !waiting.iter().all(std::thread::JoinHandle::is_finished) {
            for i in 0..pairs.len() {
                pairs[(i * (round % 2 * 2 + 1) + round) % pairs.len()].step();
            }
        }
        for (i, waiting) in waiting.into_iter().enumerate() {
            let result = waiting.join().expect("no panic").expect("a result");
            assert_eq!(result.content[0].as_text(), Some(format!("client{i}").as_str()));
        }
    }
    pairs.iter().for_each(Pair::assert_clean);
}

#[test]
fn handlers_see_request_info() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("info", |context: Context| {
            let info = context.info();
            let meta = context.meta().and_then(|meta| meta.decode::<String>("com.example/trace"));
            format!(
                "{} {} {:?} {:?} {}",
                info.version,
                info.peer.as_ref().map_or("", |peer| &peer.name),
                info.log_level,
                meta,
                info.progress_token.is_some()
            )
        }))
        .build()
        .expect("a good service");
    for version in ProtocolVersion::LEGACY {
        let pair = Pair::new(&Host::builder("ada", "1").build(), &service, version);
        pair.send_request("logging/setLevel", json!({"level": "error"})).expect("it is set");
        let result = pair
            .send_request("tools/call", json!({"name": "info", "_meta": {"com.example/trace": "t1"}}))
            .expect("a result");
        assert_eq!(result["content"][0]["text"], format!("{version} ada Some(Error) Some(\"t1\") true"));
    }
}

#[test]
fn service_declares_its_capabilities() {
    let declared = |service: &Service| service.config().capabilities.set().iter().collect::<Vec<_>>();
    let empty = Service::builder("test", "1").build().expect("an empty service");
    assert_eq!(declared(&empty), []);
    let tools = [Capability::Tools, Capability::ToolsListChanged, Capability::Logging];
    assert_eq!(declared(&echo().build().expect("a good service")), tools);
    let full = echo().resource(Resource::new("a://b", "b", || "")).subscriptions().enable_prompts();
    let all = [
        Capability::Prompts,
        Capability::PromptsListChanged,
        Capability::Resources,
        Capability::ResourcesSubscribe,
        Capability::ResourcesListChanged,
        Capability::Tools,
        Capability::ToolsListChanged,
        Capability::Logging,
    ];
    assert_eq!(declared(&full.build().expect("a good service")), all);
    let narrow = echo().disable_capability(Capability::Tools).disable_capability(Capability::Logging).subscriptions();
    assert_eq!(declared(&narrow.build().expect("a good service")), []);

    let named = Service::builder("test", "1").info(|info| info.title = Some("Test".into())).instructions("Ask twice.");
    let config = named.build().expect("a good service").config();
    assert_eq!((config.info.title.as_deref(), config.instructions.as_deref()), (Some("Test"), Some("Ask twice.")));
    assert_ne!(config.hash_seed, 0);
    let fixed = Service::builder("test", "1")
        .random(|bytes| {
            bytes.fill(7);
            Ok(())
        })
        .settings(Settings::default());
    assert_eq!(fixed.build().expect("a good service").config().hash_seed, u64::from_ne_bytes([7; 8]));
    let poor = Service::builder("test", "1").random(|_| Err(std::io::Error::other("none")));
    assert_eq!(poor.build().expect("it works without").config().hash_seed, 0);
}

#[test]
fn ready_returns_on_handshake_or_end() {
    let pair = Pair::simple(&echo().build().expect("a good service"));
    assert_eq!(pair.to_server().ready().wait(), Ok(()));
    assert_eq!(pair.to_server().close_reason(), None);
    pair.to_server().close();
    pair.settle();
    assert!(pair.to_server().closed().wait().is_clean());

    let session = Host::builder("client", "1").build().session();
    let calls = session.calls().clone();
    let waiting = std::thread::spawn(move || calls.ready().wait());
    drop(session);
    assert!(waiting.join().expect("no panic").is_err(), "a driver that goes away ends all waits");
}
