//! Subscriptions of 2026-07-28.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::check::{
    definition::{Check, modern},
    outcome::{Breaks, Outcome, Rules, Verdict, ensure, failed, not_applicable},
    probe::{Probe, brief},
    wire::is_event_stream,
};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

pub(in crate::check) const CHECKS: &[Check] = &[
    modern(
        "listen-acknowledged",
        "The first message of a subscription acknowledges it, with its id",
        &["M-SUBS-005", "M-SUBS-008", "M-SUBS-010"],
        acknowledged,
    ),
    modern("listen-subset", "Types that are not declared are not acknowledged", &["M-SUBS-008"], subset),
    modern("listen-empty", "An empty filter is acknowledged", &["M-SUBS-031"], empty).should(),
    modern("listen-without-filter", "A request without a filter is answered with -32602", &["M-SUBS-003"], no_filter)
        .should(),
    modern("listen-cancelled", "Nothing follows the cancellation of a subscription", &["M-SUBS-015"], cancelled)
        .stdio(),
    modern("listen-stream", "Over HTTP a subscription is a stream", &["M-SUBS-026"], stream).http(),
];

/// The beginning of a subscription.
struct Listening {
    id: Value,
    first: Value,
    content_type: Option<String>,
}

/// Sends `subscriptions/listen`, and reads its first message.
fn listen(probe: &mut Probe, filter: &Value) -> Result<Listening, Outcome> {
    let message = probe.request("subscriptions/listen", json!({"notifications": filter}));
    let id = message["id"].clone();
    if probe.is_http() {
        let request = probe.http_request(&message);
        let response = probe.open(&request, probe.timeout)?;
        let content_type = response.header("content-type").map(str::to_owned);
        let timeout = probe.timeout.min(Duration::from_secs(5));
        let found = probe.read_response(response, timeout, &|_| true)?;
        let Some(first) = found.messages.first() else { return failed("the subscription has no first message") };
        return Ok(Listening { id, first: first.clone(), content_type });
    }
    probe.expect_line(&message)?;
    let deadline = Instant::now() + probe.patience();
    // What comes late for an earlier request is not part of it.
    while let Some(first) = probe.next_message(deadline)? {
        if first.get("method").is_some() || first["id"] == id {
            return Ok(Listening { id, first, content_type: None });
        }
    }
    failed("the subscription has no first message")
}

/// Excludes servers that declare no notifications of changes. Whether they have to know the method is another check.
fn needs_changes(probe: &Probe) -> Verdict {
    let switches = [("tools", "listChanged"), ("prompts", "listChanged"), ("resources", "listChanged")];
    let all = switches.into_iter().chain([("resources", "subscribe")]);
    let has_some = all.into_iter().any(|(name, switch)| probe.capability(name).is_some_and(|it| it[switch] == true));
    if has_some { Ok(()) } else { not_applicable("the server declares no changes") }
}

/// Ends a subscription over standard input and output. Over HTTP its stream has ended with the exchange.
fn cancel(probe: &mut Probe, id: &Value) -> Verdict {
    if probe.is_http() {
        return Ok(());
    }
    let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    probe.write_line(message.to_string().as_bytes())
}

fn all_types() -> Value {
    json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true})
}

fn acknowledged(probe: &mut Probe) -> Verdict {
    needs_changes(probe)?;
    let Listening { id, first, .. } = listen(probe, &all_types()).breaks(&["M-SUBS-005"])?;
    ensure(first["method"] == "notifications/subscriptions/acknowledged", || {
        format!("the first message is {}", brief(&first))
    })
    .breaks(&["M-SUBS-005"])?;
    let subscription = &first["params"]["_meta"][SUBSCRIPTION];
    let broken: Rules = if subscription.is_null() { &["M-SUBS-005", "M-SUBS-010"] } else { &["M-SUBS-010"] };
    ensure(*subscription == id, || format!("the id of the subscription is {subscription} instead of {id}"))
        .breaks(broken)?;
    ensure(first["params"]["notifications"].is_object(), || "`notifications` is not an object".into())
        .breaks(&["M-SUBS-008"])?;
    cancel(probe, &id)
}

fn subset(probe: &mut Probe) -> Verdict {
    const TYPES: [(&str, &str); 3] =
        [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];
    let is_declared = |probe: &Probe, name| probe.capability(name).is_some_and(|it| it["listChanged"] == true);
    if TYPES.iter().all(|(capability, _)| is_declared(probe, capability)) {
        return not_applicable("the server declares all changes");
    }
    needs_changes(probe)?;
    let Listening { id, first, .. } = listen(probe, &all_types())?;
    for (capability, kind) in TYPES {
        let is_honoured = first["params"]["notifications"][kind] == true;
        ensure(!is_honoured || is_declared(probe, capability), || {
            format!("`{kind}` is acknowledged, but `{capability}.listChanged` is not declared")
        })?;
    }
    cancel(probe, &id)
}

fn empty(probe: &mut Probe) -> Verdict {
    let Listening { id, first, .. } = listen(probe, &json!({}))?;
    ensure(first["method"] == "notifications/subscriptions/acknowledged", || {
        format!("the first message is {}", brief(&first))
    })?;
    cancel(probe, &id)
}

fn no_filter(probe: &mut Probe) -> Verdict {
    let reply = probe.call("subscriptions/listen", Value::Null)?;
    // Whether it has to know the method is another check.
    if reply.code() == Some(-32601) {
        let known = listen(probe, &json!({})).ok();
        let known = known.filter(|it| it.first["method"] == "notifications/subscriptions/acknowledged");
        let Some(Listening { id, .. }) = known else {
            return not_applicable("the server does not know subscriptions/listen");
        };
        cancel(probe, &id)?;
    }
    reply.expect_code(-32602)
}

fn cancelled(probe: &mut Probe) -> Verdict {
    needs_changes(probe)?;
    let Listening { id, .. } = listen(probe, &all_types())?;
    cancel(probe, &id)?;
    let before = probe.settle()?;
    let after = probe.settle()?;
    match before.iter().chain(&after).find(|message| message["id"] == id) {
        Some(message) => failed(format!("the cancelled subscription is answered with {}", brief(message))),
        None => Ok(()),
    }
}

fn stream(probe: &mut Probe) -> Verdict {
    needs_changes(probe)?;
    let Listening { content_type, .. } = listen(probe, &all_types())?;
    let is_stream = content_type.as_deref().is_some_and(is_event_stream);
    ensure(is_stream, || format!("the content type is {content_type:?}"))
}
