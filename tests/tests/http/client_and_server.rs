//! The client and the server of this project, connected: in each era, in chunks of any size, with cuts anywhere.

use std::{cell::Cell, collections::BTreeMap, rc::Rc, time::Duration};

use mcp_proto::{
    connection::{ClientConfig, Event, Outcome, RequestOptions, ResourceUsage, ServerConfig},
    protocol::{Method, MethodName, VersionSet},
    rpc::ReplyKey,
    schema::ToolsListChangedParams,
    wire::{Json, RawJson},
};
use mcp_tests::{
    harness::full_client_with,
    harness::full_server,
    http_pair::{App, Cut, HttpPair},
    http_server::HttpServer,
};
use serde_json::{Value, json};

fn serving(versions: VersionSet) -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = versions;
    config
}

fn respond(server: &mut HttpServer, session: usize, key: ReplyKey, result: &Value) {
    let now = server.now;
    let result = Json::new(result).expect("it is JSON");
    if let Some(session) = server.sessions.get_mut(&session) {
        session.connection(now).respond_raw(key, &RawJson::from(&result)).expect("an answer is owed");
    }
}

/// Reports progress `steps` times, and responds.
fn steps(steps: u32) -> App {
    Box::new(move |server, session, event| {
        let Event::Request { key, method, .. } = event else { return };
        let now = server.now;
        if method.known() == Some(Method::CallTool) {
            let open = server.sessions.get_mut(&session).expect("it is open");
            for step in 1..=steps {
                let _ = open.connection(now).progress(key, f64::from(step), None, Some("step"));
            }
        }
        respond(server, session, key, &json!({"content": [], "tools": [], "ttlMs": 0, "cacheScope": "private"}));
    })
}

fn joined(client: ClientConfig, server: ServerConfig, app: App) -> HttpPair {
    let mut net = HttpPair::new(client, server, app);
    net.run();
    assert_eq!(net.client.take_events(), [Event::Ready]);
    net
}

/// Returns the events of one call for the client's application: the progress as numbers, then the outcome.
fn received(net: &mut HttpPair) -> (Vec<u32>, Vec<Outcome<'static>>) {
    let (mut progress, mut outcomes) = (Vec::new(), Vec::new());
    for event in net.client.take_events() {
        match event {
            Event::Progress { progress: step, .. } => {
                assert!(outcomes.is_empty(), "nothing follows the answer");
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are small")]
                progress.push(step.progress as u32);
            }
            Event::Response { outcome, .. } => outcomes.push(outcome),
            other => panic!("{other:?}"),
        }
    }
    (progress, outcomes)
}

fn call(net: &mut HttpPair) {
    net.client.call_with("tools/call", &json!({"name": "t"}), RequestOptions::default());
}

#[test]
fn client_and_server_negotiate_every_era_pair() {
    let legacy = VersionSet::LEGACY;
    let modern = VersionSet::MODERN;
    let both = VersionSet::ALL;
    for (client, server, spoken) in [
        (legacy, legacy, Some("2025-11-25")),
        (legacy, both, Some("2025-11-25")),
        (both, legacy, Some("2025-11-25")),
        (both, both, Some("2026-07-28")),
        (both, modern, Some("2026-07-28")),
        (modern, both, Some("2026-07-28")),
        (modern, modern, Some("2026-07-28")),
        (legacy, modern, None),
        (modern, legacy, None),
    ] {
        for chunk in [1, 13, usize::MAX] {
            let mut net = HttpPair::new(full_client_with(client), serving(server), steps(3));
            net.chunk = chunk;
            net.run();
            let events = net.client.take_events();
            let Some(spoken) = spoken else {
                assert!(matches!(&events[..], [Event::Closed(_)]), "{events:?}");
                assert!(net.client.core.is_over());
                assert!(net.server.sessions.is_empty(), "nothing is left of the attempt");
                continue;
            };
            assert_eq!(events, [Event::Ready]);
            let now = net.client.now;
            let version = net.client.core.connection(now).version();
            assert_eq!(version.map(|version| version.as_str()), Some(spoken));
            // The probe, which a legacy server rejects, leaves no session.
            assert_eq!(net.server.sessions.len(), usize::from(spoken != "2026-07-28"));
            call(&mut net);
            net.run();
            let (progress, outcomes) = received(&mut net);
            assert_eq!(progress, [1, 2, 3]);
            assert!(matches!(outcomes[..], [Outcome::Result(_)]));
            net.client.core.close(now);
            net.advance(Duration::from_secs(2));
            assert!(net.client.core.is_over() && net.server.sessions.is_empty() && net.server.endpoint.is_empty());
        }
    }
}

#[test]
fn server_requests_input_in_both_eras() {
    for versions in [VersionSet::LEGACY, VersionSet::ALL] {
        let requested: Rc<Cell<Option<(usize, ReplyKey)>>> = Rc::default();
        let waiting = requested.clone();
        let app: App = Box::new(move |server, session, event| {
            let now = server.now;
            match event {
                Event::Request { key, params, .. } => {
                    let retry = params.is_some_and(|params| params.member("inputResponses").is_some());
                    let open = server.sessions.get_mut(&session).expect("it is open");
                    let modern = open.id().is_none();
                    if modern && !retry {
                        let input_request = json!({"resultType": "input_required", "inputRequests":
                            {"roots": {"method": "roots/list", "params": {}}}});
                        respond(server, session, key, &input_request);
                    } else if modern {
                        respond(server, session, key, &json!({"content": []}));
                    } else {
                        let options = RequestOptions { related_request: Some(key), ..RequestOptions::default() };
                        open.connection(now).request_raw(now, "roots/list", None, options).expect("it may ask");
                        waiting.set(Some((session, key)));
                    }
                }
                Event::Response { .. } => {
                    let (session, key) = waiting.take().expect("it was requested");
                    respond(server, session, key, &json!({"content": []}));
                }
                _ => {}
            }
        });
        let mut net = joined(full_client_with(versions), serving(versions), app);
        call(&mut net);
        net.run();
        let events = net.client.take_events();
        let [Event::Request { key, method: MethodName::Known(Method::ListRoots), .. }] = events[..] else {
            panic!("{events:?}")
        };
        let roots = Json::parse("{\"roots\":[]}").expect("JSON");
        let now = net.client.now;
        net.client.core.connection(now).respond_raw(key, &RawJson::from(&roots)).expect("it is owed");
        net.run();
        let (_, outcomes) = received(&mut net);
        assert!(matches!(outcomes[..], [Outcome::Result(_)]), "{outcomes:?}");
    }
}

#[test]
fn list_changes_reach_the_client() {
    for versions in [VersionSet::LEGACY, VersionSet::ALL] {
        let mut net = joined(full_client_with(versions), serving(versions), steps(0));
        let modern = versions == VersionSet::ALL;
        if modern {
            net.client.call("subscriptions/listen", &json!({"notifications": {"toolsListChanged": true}}));
            net.run();
            net.client.take_events();
        }
        for _ in 0..3 {
            let now = net.server.now;
            let session = net.server.last_session().connection(now);
            session.notify(&ToolsListChangedParams::default()).expect("it is declared");
            net.advance(Duration::from_secs(3600));
        }
        let events = net.client.take_events();
        assert_eq!(events.len(), 3, "{events:?}");
        assert!(events.iter().all(|event| matches!(event, Event::Notification { .. })));
    }
}

#[test]
fn timed_out_calls_cancel_the_handler() {
    for versions in [VersionSet::LEGACY, VersionSet::ALL] {
        let seen: Rc<Cell<u32>> = Rc::default();
        let cancelled = seen.clone();
        let app: App = Box::new(move |_, _, event| {
            if matches!(event, Event::Cancelled { .. }) {
                cancelled.set(cancelled.get() + 1);
            }
        });
        let mut net = joined(full_client_with(versions), serving(versions), app);
        call(&mut net);
        net.run();
        net.client.call_with("tools/call", &json!({"name": "t"}), RequestOptions::within(Duration::from_secs(9)));
        let now = net.client.now;
        net.run();
        let first = net.client.core.connection(now).usage().calls;
        assert_eq!(first, 2);
        net.advance(Duration::from_secs(10));
        assert_eq!(seen.get(), 1, "one has run out of time");
        assert_eq!(net.client.core.connection(now).usage().calls, 1);
    }
}

/// Runs one call whose streams are cut, one after the other, after these numbers of body bytes. Returns the progress,
/// the outcomes and the number of requests.
fn cut_call(version: &'static str, cuts: Vec<Cut>, chunk: usize) -> (Vec<u32>, Vec<Outcome<'static>>, usize) {
    let only = mcp_proto::protocol::ProtocolVersion::parse(version).expect("it is a revision");
    let mut client = full_client_with(VersionSet::only(only));
    client.settings.request = RequestOptions::default();
    let mut options = mcp_tests::http_client::options();
    options.listen = false;
    let mut net = HttpPair::with(client, options, serving(VersionSet::LEGACY), steps(3));
    net.run();
    assert_eq!(net.client.take_events(), [Event::Ready]);
    let mut cuts = cuts.into_iter();
    net.chunk = chunk;
    net.cut = Box::new(move |_| cuts.next());
    let before = net.requests;
    call(&mut net);
    net.advance(Duration::from_secs(120));
    let (progress, outcomes) = received(&mut net);
    let now = net.client.now;
    assert_eq!(net.client.core.connection(now).usage(), ResourceUsage::default(), "the client holds something");
    (progress, outcomes, net.requests - before)
}

/// Returns the length of the stream of one call.
fn stream_length(version: &'static str) -> usize {
    let only = mcp_proto::protocol::ProtocolVersion::parse(version).expect("it is a revision");
    let mut server = HttpServer::new(serving(VersionSet::LEGACY));
    let id = server.begin(only.as_str());
    let params = json!({"name": "t", "_meta": {"progressToken": 2}});
    let requested =
        server.send_message(&id, &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}));
    let (session, key) = server.take_request();
    steps(3)(&mut server, session, Event::Request { key, method: MethodName::Known(Method::CallTool), params: None });
    server.settle();
    server.reply(requested).body.len()
}

// req: HTTP-029 HTTP-049 HTTP-050 HTTP-051
#[test]
fn stream_cut_at_any_byte_yields_the_same_result() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let whole = stream_length(version);
        let first_id = if version == "2025-11-25" { 0 } else { 1 };
        let mut resumed = BTreeMap::new();
        for bytes in 0..=whole {
            let (progress, outcomes, requests) = cut_call(version, vec![Cut::Body(bytes)], usize::MAX);
            assert_eq!(outcomes.len(), 1, "{version}, cut at {bytes}: one answer");
            if matches!(outcomes[0], Outcome::Result(_)) {
                assert_eq!(progress, [1, 2, 3], "{version}, cut at {bytes}");
            } else {
                // No event id has arrived with which the client could resume.
                assert!(progress.len() <= first_id, "{version}, cut at {bytes}: {progress:?}");
                assert_eq!(requests, 1);
            }
            *resumed.entry((matches!(outcomes[0], Outcome::Result(_)), requests)).or_insert(0) += 1;
        }
        // Most cuts are after the first id, and the client resumes once after each of them.
        assert!(resumed[&(true, 2)] > whole / 2, "{version}: {resumed:?}");
        assert!(resumed.keys().all(|(answered, requests)| *answered || *requests == 1), "{version}: {resumed:?}");
        assert_eq!(cut_call(version, vec![Cut::Head], usize::MAX).1.len(), 1);
    }
}

#[test]
fn stream_cut_repeatedly_yields_the_same_result() {
    let version = "2025-11-25";
    let primed = "event: message".len() + 40;
    for chunk in [1, 7, usize::MAX] {
        for step in [60, 100, 150, 250] {
            // Each part contains at least one more event, or none.
            let cuts = vec![
                Cut::Body(primed),
                Cut::Head,
                Cut::Body(0),
                Cut::Body(step),
                Cut::Body(step),
                Cut::Body(step + 90),
            ];
            let (progress, outcomes, _) = cut_call(version, cuts, chunk);
            assert!(matches!(outcomes[..], [Outcome::Result(_)]), "{step}: {outcomes:?}");
            assert_eq!(progress, [1, 2, 3], "{step}");
        }
    }
}

#[test]
fn client_recovers_after_server_restarts() {
    let mut net = joined(full_client_with(VersionSet::LEGACY), serving(VersionSet::LEGACY), steps(2));
    for round in 0..3 {
        net.restart(serving(VersionSet::LEGACY));
        for _ in 0..5 {
            call(&mut net);
        }
        net.advance(Duration::from_secs(1));
        let events = net.client.take_events();
        let ended = events.iter().filter(|event| matches!(event, Event::Response { outcome: Outcome::Result(_), .. }));
        assert_eq!(ended.count(), 5, "round {round}: {events:?}");
        assert_eq!(events.iter().filter(|event| matches!(event, Event::Renewed)).count(), 1);
        assert_eq!(net.server.endpoint.len(), 1);
    }
}

#[test]
fn no_state_remains_after_many_calls() {
    for versions in [VersionSet::LEGACY, VersionSet::ALL] {
        let mut net = joined(full_client_with(versions), serving(versions), steps(5));
        net.chunk = 1;
        for _ in 0..20 {
            call(&mut net);
        }
        net.run();
        assert_eq!(net.client.take_events().len(), 20 * 6);
        net.advance(Duration::from_secs(600));
        let now = net.client.now;
        assert_eq!(net.client.core.connection(now).usage(), ResourceUsage::default());
        let usage = net.client.core.usage();
        assert_eq!((usage.queued, usage.retry_timers, usage.bytes), (0, 0, 0));
        assert_eq!(usage.exchanges, usize::from(versions == VersionSet::LEGACY));
        for session in net.server.sessions.values() {
            let usage = session.usage();
            assert_eq!((usage.replay, usage.queued_bytes, usage.waiting, usage.streams), (0, 0, 0, 1));
        }
    }
}
