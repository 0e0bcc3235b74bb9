//! Rules about HTTP: headers, status codes and media types. Only what a record shows without doubt is a finding.

use std::borrow::Cow;

use mcp_proto::{
    protocol::{Method, ProtocolVersion},
    schema::decode_base64,
    wire::{Message, RawJson},
};

use super::finding::Finding;
use crate::{
    messages::{RequestHead, ResponseHead},
    record::Origin,
};

/// The kind of message in a request over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A request of JSON-RPC.
    Request,
    /// A notification or a response.
    OneWay,
    /// Anything else, such as a batch or no body.
    Other,
}

impl Content {
    pub(super) const fn of(message: Option<&Message<'_>>) -> Self {
        match message {
            Some(Message::Request { .. }) => Self::Request,
            Some(Message::Notification { .. } | Message::Response { .. } | Message::Error { .. }) => Self::OneWay,
            None => Self::Other,
        }
    }
}

/// Returns whether a list of media types has one of these. Ranges match all types within them.
fn accepts(accept: &str, media: &str) -> bool {
    let range = media.split('/').next().unwrap_or_default();
    accept.split(',').any(|part| {
        let part = part.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        part == media || part == "*/*" || part.strip_suffix("/*") == Some(range)
    })
}

/// Returns whether a value in a head may have been masked.
fn is_masked(value: &str) -> bool {
    value.contains("***") || value.contains("id-")
}

fn by_client(rule: &'static str, what: impl Into<String>) -> Finding {
    Finding::http(Origin::Client, rule, what)
}

fn by_server(rule: &'static str, what: impl Into<String>) -> Finding {
    Finding::http(Origin::Server, rule, what)
}

/// Judges a request within a session. `version` is that of the session. `opens`: the request opens it.
pub(super) fn of_session(head: &RequestHead, version: Option<ProtocolVersion>, opens: bool) -> Vec<Finding> {
    let (mut findings, fields) = (Vec::new(), &head.fields);
    let accept = fields.list("accept").unwrap_or_default();
    match &*head.method {
        "POST" if !(accepts(&accept, "application/json") && accepts(&accept, "text/event-stream")) => {
            findings.push(by_client("HTTP-009", format!("the header Accept is {accept:?}")));
        }
        "GET" if !accepts(&accept, "text/event-stream") => {
            findings.push(by_client("HTTP-036", format!("the header Accept is {accept:?}")));
        }
        _ => {}
    }
    let has_header = matches!(version, Some(ProtocolVersion::V2025_06_18 | ProtocolVersion::V2025_11_25));
    // The request that opens the session knows no revision yet. It may have the id of a session that has ended.
    if has_header && !opens && fields.get("mcp-session-id").is_some() && fields.get("mcp-protocol-version").is_none() {
        findings.push(by_client("HTTP-065", format!("{} has no header MCP-Protocol-Version", head.name())));
    }
    findings
}

/// Judges a request of 2026-07-28.
pub(super) fn of_2026(head: &RequestHead, message: &Message<'_>, masked: bool) -> Vec<Finding> {
    let (mut findings, fields) = (Vec::new(), &head.fields);
    let accept = fields.list("accept").unwrap_or_default();
    if !(accepts(&accept, "application/json") && accepts(&accept, "text/event-stream")) {
        findings.push(by_client("M-HTTP-008", format!("the header Accept is {accept:?}")));
    }
    if fields.get("last-event-id").is_some() {
        findings.push(by_client("M-HTTP-024", "the request has the header Last-Event-ID"));
    }
    let Message::Request { method, params, meta, .. } = message else { return findings };
    let in_body: Option<String> =
        meta.as_ref().and_then(|meta| meta.member("io.modelcontextprotocol/protocolVersion")?.decode().ok());
    match (fields.get("mcp-protocol-version"), &in_body) {
        (None, _) => findings.push(by_client("M-HTTP-029", "the request has no header MCP-Protocol-Version")),
        (Some(header), Some(body)) if header != body => {
            let what = format!("the header MCP-Protocol-Version is {header:?}, and the body has {body:?}");
            findings.push(by_client("M-HTTP-030", what));
        }
        _ => {}
    }
    match fields.get("mcp-method") {
        Some(header) if header == &**method => {}
        header => {
            let what = format!("the header Mcp-Method is {header:?}, and the method {method:?}");
            findings.push(by_client("M-HTTP-036", what));
        }
    }
    let (rule, member) = match &**method {
        "tools/call" | "prompts/get" => ("M-HTTP-037", "name"),
        "resources/read" => ("M-HTTP-038", "uri"),
        _ => return findings,
    };
    let expected = params.as_ref().and_then(|params: &RawJson<'_>| params.member(member)?.decode::<String>().ok());
    let Some(expected) = expected else { return findings };
    let header = fields.get("mcp-name");
    let is_same = header.is_some_and(|header| decoded(header).is_none_or(|header| header == expected));
    let is_hidden = masked && (is_masked(&expected) || header.is_some_and(is_masked));
    if !is_same && !is_hidden {
        findings.push(by_client(rule, format!("the header Mcp-Name is {header:?}, and the {member} {expected:?}")));
    }
    findings
}

/// Returns the value of a header that may be encoded. `None` is one that cannot be decoded: no comparison is certain.
fn decoded(header: &str) -> Option<Cow<'_, str>> {
    match header.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        None => Some(header.into()),
        Some(encoded) => String::from_utf8(decode_base64(encoded)?).ok().map(Cow::Owned),
    }
}

/// Judges the head of a response. `version` is `None` for a session whose revision is not known.
pub(super) fn of_response(
    head: &RequestHead,
    content: Content,
    response: &ResponseHead,
    version: Option<ProtocolVersion>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_success = (200..300).contains(&response.status);
    let media = response.fields.media_type();
    let is_known = matches!(&*media, "application/json" | "text/event-stream");
    let modern = version == Some(ProtocolVersion::V2026_07_28);
    let old = version == Some(ProtocolVersion::V2025_03_26);
    let what = || format!("{} was answered with {} and the media type {media:?}", head.name(), response.status);
    match (&*head.method, content) {
        _ if !is_success || version == Some(ProtocolVersion::V2024_11_05) => {}
        ("POST", Content::OneWay) if response.status != 202 => {
            let rule = if modern {
                "M-HTTP-012"
            } else if old {
                "HTTP-012"
            } else {
                "HTTP-013"
            };
            findings.push(by_server(rule, what()));
        }
        ("POST", Content::Request) if !is_known => {
            let rule = if modern {
                "M-HTTP-015"
            } else if old {
                "HTTP-016"
            } else {
                "HTTP-017"
            };
            findings.push(by_server(rule, what()));
        }
        ("GET", _) if media != "text/event-stream" => findings.push(by_server("HTTP-037", what())),
        _ => {}
    }
    if let Some(id) = response.fields.get("mcp-session-id")
        && !id.bytes().all(|byte| (0x21..=0x7e).contains(&byte))
    {
        findings.push(by_server("HTTP-056", "the id of the session has other characters"));
    }
    findings
}

/// Judges a response of JSON-RPC of 2026-07-28 by the status of its body.
pub(super) fn of_status(message: &Message<'_>, method: &str, status: u16, is_stream: bool) -> Option<Finding> {
    let Message::Error { error, .. } = message else { return None };
    let what = || format!("the error {} has the status {status}", error.code);
    match error.code.0 {
        -32022 if status != 400 && !is_stream => Some(by_server("M-HTTP-032", what())),
        // An error of a handler is not about the method of the request.
        -32601 if status != 404 && !is_stream && Method::parse(method).is_none() => {
            Some(by_server("M-HTTP-033", what()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_accept_their_types() {
        for accept in ["application/json, text/event-stream", "*/*", "application/*;q=0.5,TEXT/*"] {
            assert!(accepts(accept, "application/json") && accepts(accept, "text/event-stream"), "{accept}");
        }
        assert!(!accepts("application/json", "text/event-stream") && !accepts("", "text/event-stream"));
    }

    #[test]
    fn encoded_names_are_decoded() {
        assert_eq!(decoded("=?base64?w6Q=?=").as_deref(), Some("ä"));
        assert_eq!((decoded("=?base64?*?="), decoded("a").as_deref()), (None, Some("a")));
    }
}
