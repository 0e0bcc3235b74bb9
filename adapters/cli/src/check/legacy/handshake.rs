//! The handshake of sessions.

use serde_json::{Value, json};

use crate::check::{
    definition::{Check, legacy},
    outcome::{Breaks, Outcome, Rules, Verdict, ensure, failed, judge_each, not_applicable, not_reachable},
    probe::{LEGACY, Mode, NEWEST, Probe, Wire, initialize_params},
    shapes::{self, CapabilityRules},
};

pub(in crate::check) const CHECKS: &[Check] = &[
    legacy(
        "initialize-result",
        "The result of initialize has protocolVersion, capabilities and serverInfo",
        &["LIFE-004", "LIFE-003", "LIFE-017"],
        initialize_result,
    )
    .alone(),
    legacy("initialize-version", "A supported version is repeated", &["LIFE-012"], initialize_version).alone(),
    legacy("unknown-version", "An unknown version is answered with another one", &["LIFE-013"], unknown_version)
        .alone(),
    legacy("malformed-version", "A malformed version is answered with another one", &["LIFE-013"], malformed_version)
        .alone(),
    legacy("newest-version", "The counter-offer is the newest version of the server", &["LIFE-014"], newest_version)
        .alone()
        .should(),
    legacy(
        "capabilities",
        "Capabilities are objects, their switches booleans",
        &["LIFE-024", "LIFE-026", "LIFE-029"],
        capabilities,
    )
    .alone(),
    legacy(
        "unknown-capabilities",
        "Unknown capabilities of the client are tolerated",
        &["LIFE-025"],
        unknown_capabilities,
    )
    .alone(),
    legacy("ping-in-handshake", "A ping before initialized is answered", &["LIFE-009"], ping_in_handshake).alone(),
    legacy(
        "request-before-initialize",
        "A request before initialize is answered with an error",
        &["LIFE-043"],
        request_before_initialize,
    )
    .alone()
    .stdio()
    .should(),
    legacy("icons", "Icons have a source, and a theme that exists", &["ICON-002", "ICON-003"], icons).since(NEWEST),
    legacy(
        "undeclared-features",
        "Features that are there are declared",
        &["LIFE-023", "TOOL-001", "PROMPT-001", "RES-001"],
        undeclared_features,
    ),
    legacy("stdin-end", "The server ends when its input ends", &["STDIO-015"], stdin_end).alone().stdio().should(),
];

fn initialize_result(probe: &mut Probe) -> Verdict {
    probe.fresh()?;
    let reply = probe.initialize(NEWEST)?;
    let result = reply.result()?;
    let version = result.get("protocolVersion").unwrap_or(&Value::Null);
    let server = result.get("serverInfo").unwrap_or(&Value::Null);
    let has_members = ensure(version.is_string(), || "`protocolVersion` is not a string".into())
        .and_then(|()| {
            let is_object = result.get("capabilities").is_some_and(Value::is_object);
            ensure(is_object, || "`capabilities` is not an object".into())
        })
        .and_then(|()| ensure(server.is_object(), || "`serverInfo` is not an object".into()));
    has_members.breaks(&["LIFE-004"])?;
    // It may be one that this program does not know.
    let is_date = version.as_str().is_some_and(is_date);
    ensure(is_date, || format!("the version {version} is no date")).breaks(&["LIFE-017"])?;
    shapes::texts(server, "serverInfo", &["name", "version"]).breaks(&["LIFE-003"])
}

/// Returns whether a text has the form YYYY-MM-DD.
fn is_date(text: &str) -> bool {
    let has_form = |(at, byte): (usize, u8)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(has_form)
}

/// Opens a connection and offers a version. Returns the one of the result.
fn offer(probe: &mut Probe, version: &str) -> Result<Option<String>, Outcome> {
    probe.fresh()?;
    let reply = probe.initialize(version)?;
    Ok(reply.message["result"]["protocolVersion"].as_str().map(str::to_owned))
}

/// Checks that the server does not agree to a version. It may refuse the request, too (LIFE-018).
fn must_not_repeat(probe: &mut Probe, version: &str) -> Verdict {
    match offer(probe, version)? {
        Some(offered) if offered == version => failed(format!("the server agrees to the version {version}")),
        _ => Ok(()),
    }
}

fn initialize_version(probe: &mut Probe) -> Verdict {
    let Some(supported) = offer(probe, "1999-01-01")? else {
        return not_applicable("the server refuses unknown versions and names none in a result");
    };
    match offer(probe, &supported)? {
        Some(version) if version == supported => Ok(()),
        Some(version) => failed(format!("{supported}, which the server has offered, is answered with {version}")),
        None => failed(format!("{supported}, which the server has offered, is refused")),
    }
}

fn unknown_version(probe: &mut Probe) -> Verdict {
    must_not_repeat(probe, "1999-01-01")
}

fn malformed_version(probe: &mut Probe) -> Verdict {
    must_not_repeat(probe, "no version")
}

fn newest_version(probe: &mut Probe) -> Verdict {
    let Some(offered) = offer(probe, "1999-01-01")? else {
        return not_applicable("the server refuses unknown versions");
    };
    for version in LEGACY.iter().rev() {
        if offer(probe, version)?.as_deref() == Some(*version) {
            return ensure(offered.as_str() >= *version, || format!("{offered} is offered, but {version} supported"));
        }
    }
    not_reachable("no version is supported")
}

fn capabilities(probe: &mut Probe) -> Verdict {
    probe.fresh()?;
    let reply = probe.initialize(NEWEST)?;
    let result = reply.result()?;
    let declared = result.get("capabilities").cloned().unwrap_or_default();
    let has_completions = result.get("protocolVersion").is_some_and(|version| version != "2024-11-05");
    let rules = CapabilityRules {
        names: if has_completions {
            &["tools", "prompts", "resources", "logging", "completions"]
        } else {
            &["tools", "prompts", "resources", "logging"]
        },
        objects: &["LIFE-024"],
        switches: &["LIFE-029"],
        // Extensions came with the revision without sessions.
        map_names: &["experimental"],
        maps: &["LIFE-026"],
    };
    shapes::capabilities(&declared, &rules)
}

fn unknown_capabilities(probe: &mut Probe) -> Verdict {
    probe.fresh()?;
    let mut params = initialize_params(NEWEST);
    params["capabilities"] = json!({"mcpCheckUnknown": {"a": [1]}, "experimental": {"mcpCheck": {}}});
    let reply = probe.call("initialize", params)?;
    probe.take_session(&reply);
    ensure(reply.message["result"].is_object(), || "`initialize` with an unknown capability fails".into())
}

fn ping_in_handshake(probe: &mut Probe) -> Verdict {
    probe.fresh()?;
    let version = probe.initialize(NEWEST)?.result()?.get("protocolVersion").and_then(Value::as_str).map(str::to_owned);
    probe.mode = Mode::Session(version.unwrap_or_else(|| NEWEST.to_owned()));
    let reply = probe.call("ping", Value::Null)?;
    // The next check needs a session that is initialized.
    probe.mode = Mode::Fresh;
    ensure(reply.message["result"].is_object(), || "the ping is not answered with a result".into())
}

fn request_before_initialize(probe: &mut Probe) -> Verdict {
    probe.fresh()?;
    let method = ["tools", "prompts", "resources"].into_iter().find(|it| probe.capability(it).is_some());
    let reply = probe.call(&format!("{}/list", method.unwrap_or("tools")), Value::Null)?;
    reply.expect_error()
}

fn icons(probe: &mut Probe) -> Verdict {
    let mut all = vec![probe.facts.legacy.clone().unwrap_or_default()["serverInfo"].clone()];
    for (capability, method, member) in shapes::LISTS {
        if probe.capability(capability).is_some() {
            all.extend(probe.list(method, member).unwrap_or_default());
        }
    }
    if all.iter().all(|item| item.get("icons").is_none()) {
        return not_applicable("there are no icons");
    }
    all.iter().try_for_each(|item| shapes::icons(item, &["ICON-002"], &["ICON-003"]))
}

fn undeclared_features(probe: &mut Probe) -> Verdict {
    let mut tried = 0;
    let verdict = judge_each(shapes::LISTS, |(capability, method, member)| {
        if probe.capability(capability).is_some() || method.contains("templates") {
            return Ok(());
        }
        tried += 1;
        let reply = probe.call_needed(method, Value::Null)?;
        let offered = reply.message["result"][member].as_array().map_or(0, Vec::len);
        let broken: Rules = match capability {
            "tools" => &["LIFE-023", "TOOL-001"],
            "prompts" => &["LIFE-023", "PROMPT-001"],
            _ => &["LIFE-023", "RES-001"],
        };
        ensure(offered == 0, || format!("{method} returns {offered} items, but `{capability}` is not declared"))
            .breaks(broken)
    });
    if tried == 0 { not_applicable("the server declares tools, prompts and resources") } else { verdict }
}

fn stdin_end(probe: &mut Probe) -> Verdict {
    probe.fresh()?;
    probe.initialize(NEWEST)?;
    let timeout = probe.timeout;
    let ends = match &mut probe.wire {
        Wire::Program(program) => program.ends_after_input(timeout),
        Wire::Site(_) => return not_applicable("there is no standard input"),
    };
    ensure(ends, || format!("the server still runs {} seconds after the end of its input", timeout.as_secs_f32()))?;
    probe.fresh()
}
