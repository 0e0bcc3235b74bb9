//! Streamable HTTP with sessions.

use std::time::Duration;

use serde_json::{Value, json};

use crate::check::{
    definition::{Check, legacy},
    outcome::{Outcome, Verdict, ensure, failed, not_applicable, not_reachable},
    probe::{Mode, NEWEST, Probe, Provoked, Wire},
    wire::{Request, is_event_stream},
};

/// An origin that no server allows by accident.
pub(in crate::check) const FOREIGN: &str = "http://mcp-check.invalid";

pub(in crate::check) const CHECKS: &[Check] = &[
    legacy("http-content-type", "Requests are answered with JSON or a stream", &["HTTP-017"], content_type)
        .http()
        .since("2025-06-18"),
    legacy("http-notification", "A notification is answered with 202 without a body", &["HTTP-013"], notification)
        .http()
        .since("2025-06-18"),
    legacy("http-origin", "A foreign origin is answered with 403", &["HTTP-004"], origin).http().since(NEWEST),
    legacy("http-origin-processed", "Requests of a foreign origin are not processed", &["HTTP-003"], origin_processed)
        .http()
        .since("2025-03-26"),
    legacy("http-get", "GET is answered with a stream or 405", &["HTTP-037"], get).http().since("2025-03-26"),
    legacy("session-id", "Session ids have visible ASCII characters", &["HTTP-056"], session_id)
        .http()
        .since("2025-03-26"),
    legacy("session-id-unique", "Session ids cannot be guessed", &["SEC-002"], session_id_unique)
        .http()
        .since("2025-06-18"),
    legacy("session-missing", "A request without the session is answered with 400", &["HTTP-059"], session_missing)
        .http()
        .since("2025-03-26")
        .should(),
    legacy("session-deleted", "After DELETE a session is answered with 404", &["HTTP-060"], session_deleted)
        .http()
        .since("2025-03-26"),
    legacy("header-case", "Names of headers are matched without case", &["HTTP-054"], header_case)
        .http()
        .since("2025-03-26")
        .should(),
    legacy(
        "version-header-unknown",
        "An unknown version in the header is answered with 400",
        &["HTTP-068"],
        bad_version,
    )
    .http()
    .since("2025-06-18"),
    legacy("version-header-missing", "2025-03-26 needs no version header", &["HTTP-069"], version_missing)
        .http()
        .should(),
    legacy("stream-ends", "A stream ends after the response", &["HTTP-024"], stream_ends).http().since(NEWEST).should(),
    legacy("stream-priming", "A stream begins with an id and empty data", &["HTTP-026"], priming)
        .http()
        .since(NEWEST)
        .should(),
];

/// Returns a ping of the session.
fn ping(probe: &mut Probe) -> (Value, Request) {
    let message = probe.request("ping", Value::Null);
    let request = probe.http_request(&message);
    (message, request)
}

/// Fails unless a type is one of those of responses.
pub(in crate::check) fn response_type(content_type: Option<&str>) -> Verdict {
    let bare = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_good = bare == "application/json" || bare == "text/event-stream";
    ensure(is_good, || format!("the content type is {content_type:?}"))
}

fn content_type(probe: &mut Probe) -> Verdict {
    let reply = probe.call("ping", Value::Null)?;
    reply.result()?;
    response_type(reply.header("content-type"))
}

/// Fails unless a notification was accepted.
pub(in crate::check) fn accepted(status: Option<u16>, body: &str) -> Verdict {
    ensure(status == Some(202), || format!("the status is {} instead of 202", status.unwrap_or_default()))?;
    ensure(body.is_empty(), || "the response has a body".into())
}

fn notification(probe: &mut Probe) -> Verdict {
    probe.fresh()?;
    let reply = probe.initialize(NEWEST)?;
    let version = reply.message["result"]["protocolVersion"].as_str().unwrap_or(NEWEST).to_owned();
    probe.mode = Mode::Session(version);
    let found = probe.notify(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    accepted(found.status, &found.body)
}

/// Returns whether a foreign origin can be judged: a public server may allow all.
pub(in crate::check) fn needs_loopback(probe: &Probe) -> Verdict {
    match &probe.wire {
        Wire::Site(site) if site.is_loopback() => Ok(()),
        _ => not_applicable("which origins a server allows is only known of one on this machine"),
    }
}

fn from_foreign(probe: &mut Probe) -> Result<Provoked, Outcome> {
    needs_loopback(probe)?;
    let (_, mut request) = ping(probe);
    request.set("Origin", Some(FOREIGN));
    probe.post(&request)
}

fn origin(probe: &mut Probe) -> Verdict {
    let found = from_foreign(probe)?;
    ensure(found.status == Some(403), || format!("the status is {} instead of 403", found.status.unwrap_or_default()))
}

fn origin_processed(probe: &mut Probe) -> Verdict {
    let found = from_foreign(probe)?;
    ensure(!found.has_result(), || format!("a request of the origin {FOREIGN} is processed"))
}

fn get(probe: &mut Probe) -> Verdict {
    let mut request = Request { method: "GET", ..probe.http_request(&Value::Null) };
    request.body.clear();
    request.set("Content-Type", None);
    request.set("Accept", Some("text/event-stream"));
    let timeout = probe.timeout;
    let response = match probe.open(&request, timeout) {
        // Some servers send the head with the first event: the rule is about the head.
        Err(Outcome::NoResponse(why)) => return not_reachable(why),
        other => other?,
    };
    let kind = response.header("content-type").unwrap_or_default();
    match response.status {
        405 => Ok(()),
        200 if is_event_stream(kind) => Ok(()),
        // A session has ended, credentials are missing, or the server is busy.
        401 | 403 | 404 | 409 | 429 | 503 => not_reachable(format!("the status is {}", response.status)),
        status => failed(format!("GET is answered with {status} and the type `{kind}`")),
    }
}

/// Returns the id of the session.
fn session(probe: &Probe) -> Result<String, Outcome> {
    probe.session.clone().map_or_else(|| not_applicable("the server has no session ids"), Ok)
}

fn session_id(probe: &mut Probe) -> Verdict {
    probe.fresh()?;
    probe.initialize(NEWEST)?;
    let id = session(probe)?;
    let is_visible = !id.is_empty() && id.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    ensure(is_visible, || format!("the session id is {id:?}"))
}

fn session_id_unique(probe: &mut Probe) -> Verdict {
    let first = session(probe)?;
    probe.fresh()?;
    probe.initialize(NEWEST)?;
    let second = session(probe)?;
    ensure(first != second, || format!("two sessions have the id {first}"))?;
    let numbers = (first.parse::<u64>(), second.parse::<u64>());
    let is_counted = matches!(numbers, (Ok(first), Ok(second)) if first.abs_diff(second) < 1000);
    ensure(!is_counted, || format!("the session ids {first} and {second} are counted"))
}

fn session_missing(probe: &mut Probe) -> Verdict {
    session(probe)?;
    let (_, mut request) = ping(probe);
    request.set("Mcp-Session-Id", None);
    let found = probe.post(&request)?;
    ensure(found.status == Some(400), || format!("the status is {} instead of 400", found.status.unwrap_or_default()))
}

fn session_deleted(probe: &mut Probe) -> Verdict {
    session(probe)?;
    let mut request = Request { method: "DELETE", ..probe.http_request(&Value::Null) };
    request.body.clear();
    request.set("Content-Type", None);
    let found = probe.post(&request)?;
    let status = found.status.unwrap_or_default();
    if !(200..300).contains(&status) {
        return not_applicable(format!("DELETE is answered with {status}"));
    }
    let (_, request) = ping(probe);
    let found = probe.post(&request)?;
    (probe.mode, probe.session) = (Mode::Unknown, None);
    ensure(found.status == Some(404), || {
        format!("a request of the deleted session is answered with {}", found.status.unwrap_or_default())
    })
}

fn header_case(probe: &mut Probe) -> Verdict {
    for upper in [false, true] {
        let (message, mut request) = ping(probe);
        for (name, _) in &mut request.headers {
            *name = if upper { name.to_ascii_uppercase() } else { name.to_ascii_lowercase() };
        }
        let reply = probe.transact("", &message["id"], &request)?;
        ensure(reply.message["result"].is_object(), || "a ping with other cases of its headers fails".into())?;
    }
    Ok(())
}

fn bad_version(probe: &mut Probe) -> Verdict {
    let (_, mut request) = ping(probe);
    request.set("MCP-Protocol-Version", Some("1999-01-01"));
    let found = probe.post(&request)?;
    ensure(found.status == Some(400), || format!("the status is {} instead of 400", found.status.unwrap_or_default()))
}

fn version_missing(probe: &mut Probe) -> Verdict {
    probe.session_at("2025-03-26")?;
    let (message, mut request) = ping(probe);
    request.set("MCP-Protocol-Version", None);
    let reply = probe.transact("", &message["id"], &request)?;
    ensure(reply.message["result"].is_object(), || format!("the status is {:?}", reply.status))
}

/// Sends requests until one is answered with a stream, and returns what was read of it.
fn stream(probe: &mut Probe) -> Result<Provoked, Outcome> {
    let (_, request) = ping(probe);
    let response = probe.open(&request, probe.timeout)?;
    let is_stream = response.header("content-type").is_some_and(is_event_stream);
    if !is_stream {
        return not_applicable("the server answers with JSON, not with a stream");
    }
    probe.read_response(response, probe.timeout.min(Duration::from_secs(5)), &|it| it.get("result").is_some())
}

/// Fails unless a stream has ended, and was not cut.
pub(in crate::check) fn ended(found: &Provoked) -> Verdict {
    ensure(!found.is_cut, || "the stream is cut off, without the end of its body".into())?;
    ensure(found.has_ended, || "the stream is open after the response".into())
}

fn stream_ends(probe: &mut Probe) -> Verdict {
    ended(&stream(probe)?)
}

fn priming(probe: &mut Probe) -> Verdict {
    let found = stream(probe)?;
    let first = found.events.first();
    let is_priming = first.is_some_and(|it| it.id.is_some() && it.data.as_deref().is_none_or(str::is_empty));
    ensure(is_priming, || "the first event of the stream has data, or no id".into())
}
