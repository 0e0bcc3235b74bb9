//! A client and a server of ours, joined: in every era, however the bytes come, and wherever they are cut.

use std::{cell::Cell, collections::BTreeMap, rc::Rc, time::Duration};

use mcp_proto::{
    connection::{ClientConfig, Event, Outcome, RequestOptions, ResourceUsage, ServerConfig},
    protocol::{Method, MethodName, VersionSet},
    rpc::ReplyKey,
    schema::ToolsListChangedParams,
    wire::{Json, RawJson},
};
use mcp_tests::{
    caller::speaking,
    net::{App, Cut, Net},
    solo::full_server,
    web::Web,
};
use serde_json::{Value, json};

fn serving(versions: VersionSet) -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = versions;
    config
}

fn respond(web: &mut Web, session: usize, key: ReplyKey, result: &Value) {
    let now = web.now;
    let result = Json::new(result).expect("it is JSON");
    if let Some(session) = web.sessions.get_mut(&session) {
        session.connection(now).respond_raw(key, &RawJson::from(&result)).expect("an answer is owed");
    }
}

/// Reports progress `steps` times, and answers.
fn steps(steps: u32) -> App {
    Box::new(move |web, session, event| {
        let Event::Request { key, method, .. } = event else { return };
        let now = web.now;
        if method.known() == Some(Method::CallTool) {
            let open = web.sessions.get_mut(&session).expect("it is open");
            for step in 1..=steps {
                let _ = open.connection(now).progress(key, f64::from(step), None, Some("step"));
            }
        }
        respond(web, session, key, &json!({"content": [], "tools": [], "ttlMs": 0, "cacheScope": "private"}));
    })
}

fn joined(client: ClientConfig, server: ServerConfig, app: App) -> Net {
    let mut net = Net::new(client, server, app);
    net.run();
    assert_eq!(net.caller.take_events(), [Event::Ready]);
    net
}

/// What the application of the client hears of one call: progress as numbers, then how it ended.
fn heard(net: &mut Net) -> (Vec<u32>, Vec<Outcome<'static>>) {
    let (mut progress, mut outcomes) = (Vec::new(), Vec::new());
    for event in net.caller.take_events() {
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

fn call(net: &mut Net) {
    net.caller.call_with("tools/call", &json!({"name": "t"}), RequestOptions::default());
}

#[test]
fn every_era_comes_to_terms_with_every_other() {
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
            let mut net = Net::new(speaking(client), serving(server), steps(3));
            net.chunk = chunk;
            net.run();
            let events = net.caller.take_events();
            let Some(spoken) = spoken else {
                assert!(matches!(&events[..], [Event::Closed(_)]), "{events:?}");
                assert!(net.caller.client.is_over());
                assert!(net.web.sessions.is_empty(), "nothing is left of the attempt");
                continue;
            };
            assert_eq!(events, [Event::Ready]);
            let now = net.caller.now;
            let version = net.caller.client.connection(now).version();
            assert_eq!(version.map(|version| version.as_str()), Some(spoken));
            // Of a question that the server did not know, nothing is left.
            assert_eq!(net.web.sessions.len(), usize::from(spoken != "2026-07-28"));
            call(&mut net);
            net.run();
            let (progress, outcomes) = heard(&mut net);
            assert_eq!(progress, [1, 2, 3]);
            assert!(matches!(outcomes[..], [Outcome::Result(_)]));
            net.caller.client.close(now);
            net.advance(Duration::from_secs(2));
            assert!(net.caller.client.is_over() && net.web.sessions.is_empty() && net.web.endpoint.is_empty());
        }
    }
}

#[test]
fn questions_travel_both_ways() {
    for versions in [VersionSet::LEGACY, VersionSet::ALL] {
        let asked: Rc<Cell<Option<(usize, ReplyKey)>>> = Rc::default();
        let waiting = asked.clone();
        let app: App = Box::new(move |web, session, event| {
            let now = web.now;
            match event {
                Event::Request { key, params, .. } => {
                    let retry = params.is_some_and(|params| params.member("inputResponses").is_some());
                    let open = web.sessions.get_mut(&session).expect("it is open");
                    let modern = open.id().is_none();
                    if modern && !retry {
                        let question = json!({"resultType": "input_required", "inputRequests":
                            {"roots": {"method": "roots/list", "params": {}}}});
                        respond(web, session, key, &question);
                    } else if modern {
                        respond(web, session, key, &json!({"content": []}));
                    } else {
                        let options = RequestOptions { related_request: Some(key), ..RequestOptions::default() };
                        open.connection(now).request_raw(now, "roots/list", None, options).expect("it may ask");
                        waiting.set(Some((session, key)));
                    }
                }
                Event::Response { .. } => {
                    let (session, key) = waiting.take().expect("it was asked");
                    respond(web, session, key, &json!({"content": []}));
                }
                _ => {}
            }
        });
        let mut net = joined(speaking(versions), serving(versions), app);
        call(&mut net);
        net.run();
        let events = net.caller.take_events();
        let [Event::Request { key, method: MethodName::Known(Method::ListRoots), .. }] = events[..] else {
            panic!("{events:?}")
        };
        let roots = Json::parse("{\"roots\":[]}").expect("JSON");
        let now = net.caller.now;
        net.caller.client.connection(now).respond_raw(key, &RawJson::from(&roots)).expect("it is owed");
        net.run();
        let (_, outcomes) = heard(&mut net);
        assert!(matches!(outcomes[..], [Outcome::Result(_)]), "{outcomes:?}");
    }
}

#[test]
fn changes_reach_whoever_listens() {
    for versions in [VersionSet::LEGACY, VersionSet::ALL] {
        let mut net = joined(speaking(versions), serving(versions), steps(0));
        let modern = versions == VersionSet::ALL;
        if modern {
            net.caller.call("subscriptions/listen", &json!({"notifications": {"toolsListChanged": true}}));
            net.run();
            net.caller.take_events();
        }
        for _ in 0..3 {
            let now = net.web.now;
            let session = net.web.last_session().connection(now);
            session.notify(&ToolsListChangedParams::default()).expect("it is declared");
            net.advance(Duration::from_secs(3600));
        }
        let events = net.caller.take_events();
        assert_eq!(events.len(), 3, "{events:?}");
        assert!(events.iter().all(|event| matches!(event, Event::Notification { .. })));
    }
}

#[test]
fn hanging_up_reaches_the_handler_where_it_means_something() {
    for versions in [VersionSet::LEGACY, VersionSet::ALL] {
        let seen: Rc<Cell<u32>> = Rc::default();
        let cancelled = seen.clone();
        let app: App = Box::new(move |_, _, event| {
            if matches!(event, Event::Cancelled { .. }) {
                cancelled.set(cancelled.get() + 1);
            }
        });
        let mut net = joined(speaking(versions), serving(versions), app);
        call(&mut net);
        net.run();
        net.caller.call_with("tools/call", &json!({"name": "t"}), RequestOptions::within(Duration::from_secs(9)));
        let now = net.caller.now;
        net.run();
        let first = net.caller.client.connection(now).usage().calls;
        assert_eq!(first, 2);
        net.advance(Duration::from_secs(10));
        assert_eq!(seen.get(), 1, "one has run out of time");
        assert_eq!(net.caller.client.connection(now).usage().calls, 1);
    }
}

/// Runs one call whose streams are cut, one after the other, behind so many bytes of their bodies. What the client
/// heard, and how many requests it made for it.
fn cut_call(version: &'static str, cuts: Vec<Cut>, chunk: usize) -> (Vec<u32>, Vec<Outcome<'static>>, usize) {
    let only = mcp_proto::protocol::ProtocolVersion::parse(version).expect("it is a revision");
    let mut client = speaking(VersionSet::only(only));
    client.settings.request = RequestOptions::default();
    let mut options = mcp_tests::caller::options();
    options.listen = false;
    let mut net = Net::with(client, options, serving(VersionSet::LEGACY), steps(3));
    net.run();
    assert_eq!(net.caller.take_events(), [Event::Ready]);
    let mut cuts = cuts.into_iter();
    net.chunk = chunk;
    net.cut = Box::new(move |_| cuts.next());
    let before = net.requests;
    call(&mut net);
    net.advance(Duration::from_secs(120));
    let (progress, outcomes) = heard(&mut net);
    let now = net.caller.now;
    assert_eq!(net.caller.client.connection(now).usage(), ResourceUsage::default(), "the client holds something");
    (progress, outcomes, net.requests - before)
}

/// The bytes of the stream that a call is answered with.
fn stream_length(version: &'static str) -> usize {
    let only = mcp_proto::protocol::ProtocolVersion::parse(version).expect("it is a revision");
    let mut web = Web::new(serving(VersionSet::LEGACY));
    let id = web.begin(only.as_str());
    let params = json!({"name": "t", "_meta": {"progressToken": 2}});
    let asked = web.say(&id, &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}));
    let (session, key) = web.asked();
    steps(3)(&mut web, session, Event::Request { key, method: MethodName::Known(Method::CallTool), params: None });
    web.settle();
    web.reply(asked).body.len()
}

// req: HTTP-029 HTTP-049 HTTP-050 HTTP-051
#[test]
fn a_stream_that_is_cut_anywhere_comes_to_the_same() {
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
                // Nothing had come that one could come back with.
                assert!(progress.len() <= first_id, "{version}, cut at {bytes}: {progress:?}");
                assert_eq!(requests, 1);
            }
            *resumed.entry((matches!(outcomes[0], Outcome::Result(_)), requests)).or_insert(0) += 1;
        }
        // Most cuts are behind the first id, and all of these come back once.
        assert!(resumed[&(true, 2)] > whole / 2, "{version}: {resumed:?}");
        assert!(resumed.keys().all(|(answered, requests)| *answered || *requests == 1), "{version}: {resumed:?}");
        assert_eq!(cut_call(version, vec![Cut::Head], usize::MAX).1.len(), 1);
    }
}

#[test]
fn a_stream_that_is_cut_again_and_again_comes_to_the_same() {
    let version = "2025-11-25";
    let primed = "event: message".len() + 40;
    for chunk in [1, 7, usize::MAX] {
        for step in [60, 100, 150, 250] {
            // Each part brings at least one event more, or none at all for a while.
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
fn a_server_that_starts_again_is_come_back_to() {
    let mut net = joined(speaking(VersionSet::LEGACY), serving(VersionSet::LEGACY), steps(2));
    for round in 0..3 {
        net.restart(serving(VersionSet::LEGACY));
        for _ in 0..5 {
            call(&mut net);
        }
        net.advance(Duration::from_secs(1));
        let events = net.caller.take_events();
        let ended = events.iter().filter(|event| matches!(event, Event::Response { outcome: Outcome::Result(_), .. }));
        assert_eq!(ended.count(), 5, "round {round}: {events:?}");
        assert_eq!(events.iter().filter(|event| matches!(event, Event::Renewed)).count(), 1);
        assert_eq!(net.web.endpoint.len(), 1);
    }
}

#[test]
fn two_ends_come_to_rest() {
    for versions in [VersionSet::LEGACY, VersionSet::ALL] {
        let mut net = joined(speaking(versions), serving(versions), steps(5));
        net.chunk = 1;
        for _ in 0..20 {
            call(&mut net);
        }
        net.run();
        assert_eq!(net.caller.take_events().len(), 20 * 6);
        net.advance(Duration::from_secs(600));
        let now = net.caller.now;
        assert_eq!(net.caller.client.connection(now).usage(), ResourceUsage::default());
        let usage = net.caller.client.usage();
        assert_eq!((usage.held, usage.pauses, usage.bytes), (0, 0, 0));
        assert_eq!(usage.exchanges, usize::from(versions == VersionSet::LEGACY));
        for session in net.web.sessions.values() {
            let usage = session.usage();
            assert_eq!((usage.replay, usage.queued_bytes, usage.waiting, usage.streams), (0, 0, 0, 1));
        }
    }
}
