//! Discovery, metadata and JSON-RPC of 2026-07-28.

use serde_json::{Value, json};

use crate::check::{
    definition::{Check, modern},
    outcome::{Breaks, Outcome, Rules, Verdict, ensure, failed, not_applicable},
    probe::{MODERN, Mode, NEWEST, Probe, Reply, Wire, brief, initialize_params, modern_meta},
    shapes::{self, CapabilityRules},
};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The error of headers that do not agree with the body, or are missing.
const HEADER_MISMATCH: i64 = -32020;

pub(in crate::check) const CHECKS: &[Check] = &[
    modern(
        "discover",
        "server/discover returns versions and capabilities",
        &["M-DISC-001", "M-DISC-003", "M-DISC-004"],
        discover,
    ),
    modern("discover-hints", "The discovery has caching hints", &["M-DISC-005"], discover_hints),
    modern(
        "modern-capabilities",
        "Capabilities are objects, their switches booleans",
        &["M-DISC-004", "M-META-031", "M-META-032"],
        capabilities,
    ),
    modern("server-info", "serverInfo has name and version", &["M-META-017"], server_info),
    modern("server-info-present", "Results have serverInfo", &["M-META-016"], server_info_present).should(),
    modern(
        "no-capabilities-of-client",
        "A request without clientCapabilities is -32602",
        &["M-META-007"],
        without_capabilities,
    ),
    modern(
        "wrong-capabilities-of-client",
        "Wrong clientCapabilities are answered with -32602",
        &["M-META-009"],
        wrong_capabilities,
    )
    .should(),
    modern("no-version", "A request without protocolVersion is -32602", &["M-META-006"], without_version),
    modern("no-meta", "A request without _meta is -32602", &["M-META-005"], without_meta),
    modern("client-info-optional", "A request needs no clientInfo", &["M-META-010"], without_client_info),
    modern("unknown-members", "Unknown metadata and capabilities are accepted", &["M-META-029"], unknown_members),
    modern("modern-unknown-version", "An unknown version is answered with -32022", &["M-DISC-012"], unknown_version),
    modern(
        "supported-versions",
        "The versions of -32022 are those of the discovery",
        &["M-DISC-013"],
        supported_versions,
    )
    .should(),
    modern("modern-id-number", "A response repeats the number of its request", &["M-BASE-007"], id_number),
    modern("modern-id-string", "A response repeats the text of its request", &["M-BASE-007"], id_string),
    modern("modern-unknown-method", "An unknown method is answered with -32601", &["M-BASE-028"], unknown_method),
    modern("removed-methods", "Methods of sessions are answered with -32601", &["M-BASE-051"], removed_methods),
    modern(
        "initialize-with-metadata",
        "initialize with metadata is answered with -32601",
        &["M-DUAL-023"],
        initialize_with_metadata,
    )
    .should(),
    modern("modern-undeclared", "Methods without a capability are -32601", &["M-DISC-011"], undeclared),
    modern("modern-null-id", "A request with the id null is not executed", &["M-BASE-006"], null_id).should(),
    modern("modern-parse-error", "Bytes that are no JSON are answered with -32700", &["M-BASE-026"], parse_error)
        .should(),
    modern("modern-invalid-request", "Objects that are no request are -32600", &["M-BASE-027"], invalid_request)
        .should(),
    modern("modern-batch", "Batches are not executed", &["M-STDIO-002"], batch).stdio(),
    modern("modern-notification", "An unknown notification has no response", &["M-BASE-021"], notification).stdio(),
    modern(
        "modern-notification-end",
        "An unknown notification does not end the server",
        &["M-BASE-056"],
        Probe::outlive_notification,
    )
    .should(),
    modern("modern-cancel-unknown", "The cancellation of an unknown id is ignored", &["M-CANC-013"], cancel_unknown)
        .stdio()
        .should(),
    modern(
        "legacy-beside-modern",
        "initialize without metadata opens a session",
        &["M-DUAL-020", "M-DUAL-021"],
        legacy_beside,
    )
    .stdio()
    .should(),
    modern(
        "modern-beside-legacy",
        "A session does not change modern requests",
        &["M-DUAL-019", "M-DUAL-021"],
        modern_beside,
    )
    .stdio()
    .should(),
    modern("modern-only-initialize", "Without sessions initialize is an error", &["M-DUAL-025"], initialize_refused)
        .stdio(),
    modern("modern-stdin-end", "The server ends when its input ends", &["M-STDIO-016"], stdin_end).stdio().should(),
];

fn discover(probe: &mut Probe) -> Verdict {
    let reply = probe.call("server/discover", Value::Null)?;
    let Some(result) = reply.message["result"].as_object() else {
        return failed(format!("`server/discover` is answered with {}", brief(&reply.message))).breaks(&["M-DISC-001"]);
    };
    let versions = result.get("supportedVersions").and_then(Value::as_array);
    let is_list = versions.is_some_and(|all| all.iter().all(Value::is_string));
    ensure(is_list, || "`supportedVersions` is not an array of strings".into()).breaks(&["M-DISC-003"])?;
    ensure(result.get("capabilities").is_some_and(Value::is_object), || "`capabilities` is not an object".into())
        .breaks(&["M-DISC-004"])
}

fn discover_hints(probe: &mut Probe) -> Verdict {
    let reply = probe.call("server/discover", Value::Null)?;
    let result = Value::Object(reply.result()?.clone());
    ensure(result["resultType"] == "complete", || "`resultType` is not `complete`".into())?;
    hints(&result, &HintRules::default())
}

/// The rules about caching hints. Those of a check with one rule are empty.
#[derive(Debug, Default)]
pub(in crate::check) struct HintRules {
    /// Both hints are there.
    pub(in crate::check) members: Rules,
    pub(in crate::check) times: Rules,
    pub(in crate::check) scopes: Rules,
}

/// Judges the caching hints of a result.
pub(in crate::check) fn hints(result: &Value, rules: &HintRules) -> Verdict {
    let has_hints = result.get("ttlMs").is_some() && result.get("cacheScope").is_some();
    ensure(has_hints, || "`ttlMs` or `cacheScope` is missing".into()).breaks(rules.members)?;
    ensure(result["ttlMs"].as_f64().is_some_and(|it| it >= 0.0), || "`ttlMs` is not a number from 0 on".into())
        .breaks(rules.times)?;
    let scope = &result["cacheScope"];
    ensure(*scope == "public" || *scope == "private", || format!("`cacheScope` is {scope}")).breaks(rules.scopes)
}

fn capabilities(probe: &mut Probe) -> Verdict {
    let reply = probe.call("server/discover", Value::Null)?;
    let rules = CapabilityRules {
        names: &["tools", "prompts", "resources", "logging", "completions"],
        objects: &["M-DISC-004"],
        switches: &["M-META-032"],
        map_names: &["experimental", "extensions"],
        maps: &["M-META-031"],
    };
    shapes::capabilities(&reply.message["result"]["capabilities"], &rules)
}

fn server_info(probe: &mut Probe) -> Verdict {
    let reply = probe.call("server/discover", Value::Null)?;
    let info = &reply.message["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    if info.is_null() {
        return not_applicable("the result has no serverInfo");
    }
    shapes::texts(info, "serverInfo", &["name", "version"])
}

fn server_info_present(probe: &mut Probe) -> Verdict {
    let reply = probe.call("server/discover", Value::Null)?;
    let meta = &reply.result()?.get("_meta").cloned().unwrap_or_default();
    ensure(meta["io.modelcontextprotocol/serverInfo"].is_object(), || "there is no serverInfo".into())
}

/// Returns a discovery whose metadata is changed.
fn changed(probe: &mut Probe, change: impl FnOnce(&mut Value)) -> Value {
    let mut meta = modern_meta();
    change(&mut meta);
    probe.request("server/discover", json!({"_meta": meta}))
}

fn remove(meta: &mut Value, name: &str) {
    if let Some(meta) = meta.as_object_mut() {
        meta.remove(name);
    }
}

fn without_capabilities(probe: &mut Probe) -> Verdict {
    let message = changed(probe, |meta| remove(meta, CAPABILITIES));
    probe.ask(&message)?.expect_code(-32602)
}

fn wrong_capabilities(probe: &mut Probe) -> Verdict {
    let message = changed(probe, |meta| meta[CAPABILITIES] = json!("none"));
    probe.ask(&message)?.expect_code(-32602)
}

/// Excludes servers with sessions over standard input and output, where a request without a version may belong to one.
fn needs_no_sessions(probe: &Probe) -> Verdict {
    if probe.facts.legacy.is_some() && !probe.is_http() {
        return not_applicable("the server has sessions, which have such requests");
    }
    Ok(())
}

fn without_version(probe: &mut Probe) -> Verdict {
    needs_no_sessions(probe)?;
    let message = changed(probe, |meta| remove(meta, VERSION));
    probe.ask(&message)?.expect_code(-32602)
}

fn without_meta(probe: &mut Probe) -> Verdict {
    needs_no_sessions(probe)?;
    let id = probe.next_id();
    probe.ask(&json!({"jsonrpc": "2.0", "id": id, "method": "server/discover", "params": {}}))?.expect_code(-32602)
}

fn without_client_info(probe: &mut Probe) -> Verdict {
    let message = changed(probe, |meta| remove(meta, "io.modelcontextprotocol/clientInfo"));
    let reply = probe.ask(&message)?;
    ensure(reply.message["result"].is_object(), || format!("the answer is {}", brief(&reply.message)))
}

fn unknown_members(probe: &mut Probe) -> Verdict {
    let message = changed(probe, |meta| {
        meta["example.com/mcp-check"] = json!([1, null]);
        meta[CAPABILITIES] = json!({"mcpCheckUnknown": {"a": 1}});
    });
    let reply = probe.ask(&message)?;
    ensure(reply.message["result"].is_object(), || format!("the answer is {}", brief(&reply.message)))
}

/// Sends a discovery of a version that no server has. The header agrees.
fn of_unknown_version(probe: &mut Probe) -> Result<Reply, Outcome> {
    let message = changed(probe, |meta| meta[VERSION] = json!("2999-01-01"));
    let mut request = probe.http_request(&message);
    request.set("MCP-Protocol-Version", Some("2999-01-01"));
    probe.transact(&message.to_string(), &message["id"], &request)
}

fn unknown_version(probe: &mut Probe) -> Verdict {
    of_unknown_version(probe)?.expect_code(-32022)
}

fn supported_versions(probe: &mut Probe) -> Verdict {
    let reply = of_unknown_version(probe)?;
    reply.expect_code(-32022)?;
    let data = &reply.message["error"]["data"];
    let Some(supported) = data["supported"].as_array() else { return failed("`data.supported` is not an array") };
    let discovered = probe.call("server/discover", Value::Null)?;
    let all = discovered.message["result"]["supportedVersions"].as_array().cloned().unwrap_or_default();
    ensure(supported.iter().all(|version| all.contains(version)), || {
        format!("`data.supported` is {}, the discovery has {}", json!(supported), json!(all))
    })
}

fn ids(probe: &mut Probe, ids: &[Value]) -> Verdict {
    for id in ids {
        let message = probe.request_with_id(id.clone(), "server/discover", Value::Null);
        let found = probe.provoke(&message.to_string(), true)?;
        match found.messages.first() {
            Some(response) if response["id"] == *id => {}
            Some(response) => return failed(format!("the id {id} becomes {}", response["id"])),
            None => return failed(format!("a request with the id {id} has no response")),
        }
    }
    Ok(())
}

fn id_number(probe: &mut Probe) -> Verdict {
    ids(probe, &[json!(0), json!(900_001), json!(9_007_199_254_740_991_u64)])
}

fn id_string(probe: &mut Probe) -> Verdict {
    ids(probe, &[json!("900002"), json!("mcp-check"), json!("ä \u{1f600} \"\\")])
}

fn unknown_method(probe: &mut Probe) -> Verdict {
    let reply = probe.call("mcp-check/unknown", Value::Null)?;
    reply.expect_code(-32601)
}

fn removed_methods(probe: &mut Probe) -> Verdict {
    let calls = [
        ("ping", Value::Null),
        ("logging/setLevel", json!({"level": "info"})),
        ("resources/subscribe", json!({"uri": "mcp-check://unknown"})),
    ];
    for (method, params) in calls {
        let reply = probe.call(method, params)?;
        reply
            .expect_code(-32601)
            .or_else(|_| failed(format!("{method} is answered with {}", brief(&reply.message))))?;
    }
    Ok(())
}

fn initialize_with_metadata(probe: &mut Probe) -> Verdict {
    probe.call("initialize", initialize_params(MODERN))?.expect_code(-32601)
}

fn undeclared(probe: &mut Probe) -> Verdict {
    let mut tried = 0;
    for (capability, method, _) in shapes::LISTS {
        if probe.capability(capability).is_none() {
            tried += 1;
            probe.call(method, Value::Null)?.expect_code(-32601)?;
        }
    }
    if tried == 0 { not_applicable("the server declares tools, prompts and resources") } else { Ok(()) }
}

/// Sends bytes in place of a message. Without an error code, they only must not be executed. Over HTTP, no header can
/// name a method that the bytes do not have, and the headers may be judged first.
fn refused(probe: &mut Probe, body: &str, code: Option<i64>) -> Verdict {
    let found = probe.provoke(body, code.is_some())?;
    ensure(!found.has_result(), || "the message is answered with a result".into())?;
    found.expect_refusal()?;
    match code {
        Some(code) => match found.code() {
            Some(actual) if actual == code || probe.is_http() && actual == HEADER_MISMATCH => Ok(()),
            Some(actual) => failed(format!("the error code is {actual} instead of {code}")),
            None => failed(format!("there is no error {code}")),
        },
        None => Ok(()),
    }
}

fn null_id(probe: &mut Probe) -> Verdict {
    let message = probe.request_with_id(Value::Null, "server/discover", Value::Null);
    refused(probe, &message.to_string(), None)
}

fn parse_error(probe: &mut Probe) -> Verdict {
    // A server may find the id in what it has read.
    probe.forget_ids();
    refused(probe, r#"{"jsonrpc":"2.0","id":910003,"method":"server/discover""#, Some(-32700))
}

fn invalid_request(probe: &mut Probe) -> Verdict {
    let message = json!({"jsonrpc": "2.0", "id": 910_002, "method": 5, "params": {"_meta": modern_meta()}});
    refused(probe, &message.to_string(), Some(-32600))
}

fn batch(probe: &mut Probe) -> Verdict {
    let message = probe.request("server/discover", Value::Null);
    refused(probe, &json!([message]).to_string(), None)
}

fn notification(probe: &mut Probe) -> Verdict {
    let found = probe.provoke_nothing(r#"{"jsonrpc":"2.0","method":"notifications/mcp-check/unknown"}"#)?;
    ensure(found.messages.is_empty(), || format!("it is answered with {}", brief(&found.messages[0])))
}

fn cancel_unknown(probe: &mut Probe) -> Verdict {
    let params = json!({"requestId": 4_000_000_001_u32});
    let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let found = probe.provoke(&message.to_string(), false)?;
    ensure(found.messages.is_empty(), || format!("it is answered with {}", brief(&found.messages[0])))
}

fn needs_both_eras(probe: &Probe) -> Verdict {
    if probe.is_dual() { Ok(()) } else { not_applicable("the server has no sessions") }
}

/// Excludes servers that refuse a message of the other era: the first message may decide which era a process serves.
fn needs_acceptance(reply: &Reply) -> Verdict {
    match reply.code() {
        Some(code) => not_applicable(format!("the process serves one era: the error of the other one is {code}")),
        None => Ok(()),
    }
}

/// Sends `initialize` without metadata.
fn plain_initialize(probe: &mut Probe) -> Result<Reply, Outcome> {
    let id = probe.next_id();
    probe.mode = Mode::Mixed;
    let params = initialize_params(NEWEST);
    probe.ask(&json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}))
}

fn legacy_beside(probe: &mut Probe) -> Verdict {
    needs_both_eras(probe)?;
    probe.fresh()?;
    probe.call("server/discover", Value::Null).or_unreachable()?.result()?;
    let reply = plain_initialize(probe)?;
    needs_acceptance(&reply)?;
    let version = &reply.message["result"]["protocolVersion"];
    ensure(version.is_string(), || {
        format!("`initialize` after a modern request is answered with {}", brief(&reply.message))
    })
    .breaks(&["M-DUAL-020"])?;
    ensure(version != MODERN, || format!("`initialize` is answered with {MODERN}, which has no sessions"))
        .breaks(&["M-DUAL-020"])
}

fn modern_beside(probe: &mut Probe) -> Verdict {
    needs_both_eras(probe)?;
    probe.fresh()?;
    plain_initialize(probe).or_unreachable()?.result()?;
    probe.write_line(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
    let reply = probe.call("server/discover", Value::Null)?;
    needs_acceptance(&reply)?;
    ensure(reply.message["result"]["supportedVersions"].is_array(), || {
        format!("a modern request in a session is answered with {}", brief(&reply.message))
    })
}

fn initialize_refused(probe: &mut Probe) -> Verdict {
    if probe.is_dual() {
        return not_applicable("the server has sessions");
    }
    probe.fresh()?;
    plain_initialize(probe)?.expect_error()
}

fn stdin_end(probe: &mut Probe) -> Verdict {
    probe.fresh()?;
    probe.call("server/discover", Value::Null)?;
    let timeout = probe.timeout;
    if let Wire::Program(program) = &mut probe.wire {
        let ends = program.ends_after_input(timeout);
        ensure(ends, || format!("the server still runs {} seconds after the end of its input", timeout.as_secs_f32()))?;
    }
    probe.fresh()
}
