//! Streamable HTTP of 2026-07-28.

use serde_json::{Value, json};

use crate::check::{
    definition::{Check, modern},
    legacy::http::{FOREIGN, accepted, ended, needs_loopback, response_type},
    outcome::{Outcome, Verdict, ensure, failed, not_applicable},
    probe::{MODERN, Probe, Provoked, Reply, modern_meta},
    wire::{Request, is_event_stream},
};

pub(in crate::check) const CHECKS: &[Check] = &[
    modern("modern-content-type", "Requests are answered with JSON or a stream", &["M-HTTP-015"], content_type).http(),
    modern(
        "modern-http-notification",
        "A notification is answered with 202 without a body",
        &["M-HTTP-012"],
        notification,
    )
    .http()
    .should(),
    modern("modern-origin", "A foreign origin is answered with 403", &["M-HTTP-003"], origin).http(),
    modern("modern-http-batch", "A batch is answered with an error", &["M-HTTP-011"], batch).http().should(),
    modern("modern-unknown-method-status", "An unknown method has the status 404", &["M-HTTP-033"], unknown_method)
        .http(),
    modern("modern-meta-status", "Missing metadata has the status 400", &["M-META-008"], meta_status).http(),
    modern("modern-version-status", "An unknown version has the status 400", &["M-HTTP-032"], version_status).http(),
    modern("version-mismatch", "Another version in the header is -32020", &["M-HTTP-031"], version_mismatch)
        .http()
        .should(),
    modern("method-header-missing", "A request without Mcp-Method is -32020", &["M-HTTP-040"], method_missing).http(),
    modern("method-header-other", "Another method in the header is -32020", &["M-HTTP-042"], method_other).http(),
    modern("method-header-case", "Methods in the header are compared with case", &["M-HTTP-042"], method_case).http(),
    modern("name-header-missing", "A call without Mcp-Name is -32020", &["M-HTTP-041"], name_missing)
        .http()
        .needs("tools"),
    modern("name-header-other", "Another name in the header is -32020", &["M-HTTP-043"], name_other)
        .http()
        .needs("tools"),
    modern("name-header-encoded", "A name in base64 is decoded", &["M-HTTP-068"], name_encoded).http().needs("tools"),
    modern("name-header-bad-base64", "A name in wrong base64 is -32020", &["M-HTTP-069"], name_bad)
        .http()
        .needs("tools"),
    modern("mismatch-id", "A refused header has an error with the id", &["M-HTTP-045"], mismatch_id).http(),
    modern("header-spaces", "Spaces around the value of a header are removed", &["M-HTTP-048"], spaces).http(),
    modern("modern-header-case", "Names of headers are compared without case", &["M-HTTP-046"], header_case).http(),
    modern("unknown-param-header", "Unknown Mcp-Param headers are ignored", &["M-HTTP-080"], unknown_param)
        .http()
        .should(),
    modern("modern-stream-ends", "A stream ends after the response", &["M-HTTP-019"], stream_ends).http().should(),
    modern("modern-get", "GET and DELETE are answered with 405", &["M-HTTP-086"], get).http().should(),
    modern("no-session-id", "There is no session id", &["M-HTTP-087"], no_session).http().should(),
];

/// Returns a discovery, and its request.
fn discovery(probe: &mut Probe) -> (Value, Request) {
    let message = probe.request("server/discover", Value::Null);
    let request = probe.http_request(&message);
    (message, request)
}

/// Sends a discovery whose headers are changed.
fn with_headers(probe: &mut Probe, change: impl FnOnce(&mut Request)) -> Result<Reply, Outcome> {
    let (message, mut request) = discovery(probe);
    change(&mut request);
    probe.transact("", &message["id"], &request)
}

/// Sends a call of an unknown tool whose headers are changed: it must not run a tool.
fn call_with(probe: &mut Probe, name: Option<&str>) -> Result<Reply, Outcome> {
    let message = probe.request("tools/call", json!({"name": "mcp-check-unknown", "arguments": {}}));
    let mut request = probe.http_request(&message);
    request.set("Mcp-Name", name);
    probe.transact("", &message["id"], &request)
}

/// Fails unless a request was refused for its headers.
fn mismatch(reply: &Reply) -> Verdict {
    reply.expect_status(400)?;
    reply.expect_code(-32020)
}

fn is_result(reply: &Reply) -> Verdict {
    ensure(reply.message["result"].is_object(), || format!("the request fails with the status {:?}", reply.status))
}

fn content_type(probe: &mut Probe) -> Verdict {
    let reply = probe.call("server/discover", Value::Null)?;
    reply.result()?;
    response_type(reply.header("content-type"))
}

/// Checks the response to a notification of a cancellation that has no request. A server may accept or refuse it.
fn notification(probe: &mut Probe) -> Verdict {
    let params = json!({"requestId": 4_000_000_001_u32, "_meta": modern_meta()});
    let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let found = probe.notify(&message)?;
    match found.status {
        Some(status) if status >= 400 => not_applicable(format!("the server refuses it with {status}")),
        status => accepted(status, &found.body),
    }
}

fn origin(probe: &mut Probe) -> Verdict {
    needs_loopback(probe)?;
    let (_, mut request) = discovery(probe);
    request.set("Origin", Some(FOREIGN));
    let found = probe.post(&request)?;
    ensure(found.status == Some(403), || format!("the status is {} instead of 403", found.status.unwrap_or_default()))
}

fn batch(probe: &mut Probe) -> Verdict {
    let (message, mut request) = discovery(probe);
    request.body = json!([message]).to_string().into_bytes();
    let found = probe.post(&request)?;
    ensure(!found.has_result(), || "the batch is executed".into())?;
    found.expect_refusal()
}

fn unknown_method(probe: &mut Probe) -> Verdict {
    let reply = probe.call("mcp-check/unknown", Value::Null)?;
    reply.expect_status(404)
}

fn meta_status(probe: &mut Probe) -> Verdict {
    let mut meta = modern_meta();
    if let Some(meta) = meta.as_object_mut() {
        meta.remove("io.modelcontextprotocol/clientCapabilities");
    }
    probe.call("server/discover", json!({"_meta": meta}))?.expect_status(400)
}

fn version_status(probe: &mut Probe) -> Verdict {
    let mut meta = modern_meta();
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2999-01-01");
    let message = probe.request("server/discover", json!({"_meta": meta}));
    let mut request = probe.http_request(&message);
    request.set("MCP-Protocol-Version", Some("2999-01-01"));
    let reply = probe.transact("", &message["id"], &request)?;
    reply.expect_status(400)
}

fn version_mismatch(probe: &mut Probe) -> Verdict {
    let reply = with_headers(probe, |request| request.set("MCP-Protocol-Version", Some("2999-01-01")))?;
    mismatch(&reply)
}

fn method_missing(probe: &mut Probe) -> Verdict {
    mismatch(&with_headers(probe, |request| request.set("Mcp-Method", None))?)
}

fn method_other(probe: &mut Probe) -> Verdict {
    mismatch(&with_headers(probe, |request| request.set("Mcp-Method", Some("tools/list")))?)
}

fn method_case(probe: &mut Probe) -> Verdict {
    mismatch(&with_headers(probe, |request| request.set("Mcp-Method", Some("SERVER/DISCOVER")))?)
}

fn name_missing(probe: &mut Probe) -> Verdict {
    mismatch(&call_with(probe, None)?)
}

fn name_other(probe: &mut Probe) -> Verdict {
    mismatch(&call_with(probe, Some("mcp-check-other"))?)
}

fn name_encoded(probe: &mut Probe) -> Verdict {
    let encoded = mcp_proto::schema::encode_base64(b"mcp-check-unknown");
    let reply = call_with(probe, Some(&format!("=?base64?{encoded}?=")))?;
    // The tool is unknown, so an error it is: another one than for its header.
    match reply.code() {
        Some(-32020) => failed("the encoded name is taken for another one"),
        _ => Ok(()),
    }
}

fn name_bad(probe: &mut Probe) -> Verdict {
    mismatch(&call_with(probe, Some("=?base64?bWNw*Y2hlY2s?="))?)
}

fn mismatch_id(probe: &mut Probe) -> Verdict {
    let (message, mut request) = discovery(probe);
    request.set("Mcp-Method", Some("tools/list"));
    let reply = probe.transact("", &message["id"], &request)?;
    let id = &reply.message["id"];
    ensure(*id == message["id"], || format!("the id of the error is {id} instead of {}", message["id"]))
}

fn spaces(probe: &mut Probe) -> Verdict {
    is_result(&with_headers(probe, |request| request.set("Mcp-Method", Some("  server/discover \t")))?)
}

fn header_case(probe: &mut Probe) -> Verdict {
    let reply = with_headers(probe, |request| {
        for (name, _) in &mut request.headers {
            *name = name.to_ascii_uppercase();
        }
    })?;
    is_result(&reply)
}

fn unknown_param(probe: &mut Probe) -> Verdict {
    is_result(&with_headers(probe, |request| request.set("Mcp-Param-Mcp-Check", Some("1")))?)
}

fn stream_ends(probe: &mut Probe) -> Verdict {
    let (_, request) = discovery(probe);
    let found: Provoked = probe.post(&request)?;
    if !found.header("content-type").is_some_and(is_event_stream) {
        return not_applicable("the server answers with JSON, not with a stream");
    }
    ended(&found)
}

fn get(probe: &mut Probe) -> Verdict {
    if probe.facts.legacy.is_some() {
        return not_applicable("the server has sessions, which have a use for them");
    }
    for method in ["GET", "DELETE"] {
        let mut request = Request { method, ..Request::default() };
        request.set("Accept", Some("text/event-stream"));
        request.set("MCP-Protocol-Version", Some(MODERN));
        let response = probe.open(&request, probe.timeout)?;
        ensure(response.status == 405, || format!("{method} is answered with {}", response.status))?;
    }
    Ok(())
}

fn no_session(probe: &mut Probe) -> Verdict {
    let reply = probe.call("server/discover", Value::Null)?;
    ensure(reply.header("mcp-session-id").is_none(), || "the response has a session id".into())
}
