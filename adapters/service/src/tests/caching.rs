//! Cached results, and the metadata that requests of a client carry (2026-07-28).

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_proto::{
    protocol::{Capability, ProtocolVersion},
    schema::{CacheScope, LogMessageParams, LoggingLevel, SubscriptionFilter, TraceContext},
};
use serde_json::Value;

use super::echo;
use super::pair::Pair;
use crate::{
    client::Host,
    inbound::context::Context,
    server::{resource::Resource, resource_template::ResourceTemplate, service::Service, tool::Tool},
    util::lock::lock,
};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const MINUTE: Duration = Duration::from_secs(60);

/// A service whose lists can be cached for a minute, and one resource for an hour.
fn steady() -> Service {
    echo()
        .page_size(1)
        .tool(Tool::new("other", || ()))
        .resource(Resource::new("test://a", "a", || "a").cache_for(60 * MINUTE, CacheScope::Public))
        .template(ResourceTemplate::new("test://t/{x}", "t", || "t").cache_for(MINUTE, CacheScope::Private))
        .subscriptions()
        .cache_lists_for(MINUTE, CacheScope::Private)
        .build()
        .expect("a good service")
}

fn modern(service: &Service) -> Pair {
    Pair::new(&Host::builder("client", "1").build(), service, ProtocolVersion::V2026_07_28)
}

/// Returns the names of the tools, and the number of requests that were sent for them.
fn tools(pair: &Pair, fresh: bool) -> (Vec<String>, usize) {
    pair.client.take_lines();
    let server = if fresh { pair.to_server().bypass_cache() } else { pair.to_server() };
    let names = pair.finish(std::thread::spawn(move || {
        server.all_tools().map(|tool| tool.expect("a good page").name).collect::<Vec<_>>()
    }));
    (names, request_count(pair, "tools/list"))
}

fn request_count(pair: &Pair, method: &str) -> usize {
    pair.client.take_lines().iter().filter(|line| line["method"] == method).count()
}

// req: M-CACHE-001 M-CACHE-002 M-CACHE-003 M-CACHE-020 M-CACHE-022 M-CACHE-023 M-CACHE-025
#[test]
fn list_pages_are_cached() {
    let pair = modern(&steady());
    let names = vec!["echo".to_owned(), "other".to_owned()];
    assert_eq!(tools(&pair, false), (names.clone(), 2));
    assert_eq!(tools(&pair, false), (names.clone(), 0));
    assert_eq!(tools(&pair, true), (names.clone(), 2));
    pair.pass(MINUTE);
    assert_eq!(tools(&pair, false), (names, 2));
    let stats = pair.client.with_conn(|conn| conn.stats());
    assert_eq!((stats.cache_hits, stats.cache_misses), (2, 4));
    pair.assert_clean();
}

// req: M-CACHE-021
#[test]
fn resource_sets_its_own_cache_time() {
    let pair = modern(&steady());
    let read = |uri: &str| {
        pair.client.take_lines();
        let pending = pair.to_server().read_resource(uri).expect("it can be sent");
        pair.wait(pending).expect("it can be read");
        request_count(&pair, "resources/read")
    };
    assert_eq!((read("test://a"), read("test://a"), read("test://t/1")), (1, 0, 1));
    pair.pass(MINUTE);
    assert_eq!((read("test://a"), read("test://t/1"), read("test://t/2")), (0, 1, 1));
}

// req: M-CACHE-019 M-CACHE-030
#[test]
fn change_notification_invalidates_cache() {
    let service = steady();
    let pair = modern(&service);
    let filter = SubscriptionFilter {
        tools_list_changed: Some(true),
        resource_subscriptions: Some(vec!["test://a".into()]),
        ..SubscriptionFilter::default()
    };
    let pending = pair.to_server().listen(filter).expect("it can be sent");
    let _listening = pair.wait(pending).expect("it is acknowledged");
    assert_eq!(tools(&pair, false).1, 2);
    service.add(Tool::new("new", || ())).expect("a good tool");
    pair.settle();
    assert_eq!(tools(&pair, false), (vec!["echo".into(), "other".into(), "new".into()], 3));
    let read = || {
        let pending = pair.to_server().read_resource("test://a").expect("it can be sent");
        pair.wait(pending).expect("it can be read");
        request_count(&pair, "resources/read")
    };
    assert_eq!((read(), read()), (1, 0));
    assert_eq!(service.resource_updated("test://a"), 1);
    pair.settle();
    assert_eq!((read(), read()), (1, 0));
}

// req: M-DUAL-028
#[test]
fn legacy_session_caches_nothing() {
    let pair = Pair::simple(&steady());
    assert_eq!((tools(&pair, false).1, tools(&pair, false).1), (2, 2));
}

// req: M-LOG-002 M-LOG-003 M-META-025
#[test]
fn call_sets_log_level_and_trace() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (received, notes) = (Arc::new(Mutex::new(Vec::new())), seen.clone());
    let log = received.clone();
    let service = Service::builder("test", "1")
        .tool(Tool::new("logs", move |context: Context| {
            for level in [LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Error] {
                context.log(level, None, "hm").wait()?;
            }
            let info = context.info();
            let trace = info.trace.as_ref().and_then(TraceContext::trace_id).map(str::to_owned);
            lock(&notes).push((info.log_level, trace));
            Ok::<_, crate::inbound::failure::Failure>("logged")
        }))
        .build()
        .expect("a good service");
    let host =
        Host::builder("client", "1").on(move |message: LogMessageParams, _| lock(&log).push(message.level)).build();
    let trace = TraceContext::within(PARENT).expect("the example of the W3C");
    let id = trace.trace_id().map(str::to_owned);
    let all = vec![LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Error];

    let pair = Pair::new(&host, &service, ProtocolVersion::V2026_07_28);
    assert!(pair.to_server().capabilities().contains(Capability::Logging));
    let call = |server: crate::outbound::peer::Peer<_>| {
        let pending = server.call_tool("logs", ()).expect("it can be sent");
        pair.wait(pending).expect("it runs");
        (std::mem::take(&mut *lock(&received)), lock(&seen).pop().expect("it ran"))
    };
    let server = pair.to_server();
    assert_eq!(call(server.clone()), (vec![], (None, None)));
    assert_eq!(call(server.logging(LoggingLevel::Debug)), (all.clone(), (Some(LoggingLevel::Debug), None)));
    let both = server.logging(LoggingLevel::Info).with_trace(trace.clone()).within(MINUTE);
    assert_eq!(call(both), (all[1..].to_vec(), (Some(LoggingLevel::Info), id.clone())));

    // In a session the level applies to the session. Before it is set, all messages are sent.
    let pair = Pair::new(&host, &service, ProtocolVersion::V2025_11_25);
    let pending =
        pair.to_server().logging(LoggingLevel::Error).with_trace(trace).call_tool("logs", ()).expect("it can be sent");
    pair.wait(pending).expect("it runs");
    assert_eq!((std::mem::take(&mut *lock(&received)), lock(&seen).pop()), (all, Some((None, id))));
    let line = pair.client.take_lines();
    let meta = |line: &Value| line["params"]["_meta"].as_object().map(|meta| meta.len());
    assert_eq!(meta(line.iter().find(|line| line["method"] == "tools/call").expect("it was sent")), Some(2));
}
