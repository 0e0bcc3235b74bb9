//! Sessions, over any transport.

use serde_json::{Value, json};

use super::{
    answers,
    definition::{Check, legacy},
    stage::{Message, Script, Stage, Wait, exit},
};
use crate::check::{
    era::Era,
    outcome::{Breaks, Outcome, Rules, Verdict, ensure, failed, not_applicable, not_reachable},
    probe::{LEGACY, brief},
};

/// A revision that no client speaks.
const NEVER: &str = "1999-12-31";

/// The progress token of the requests of the server.
const TOKEN: &str = "mcp-check-progress";

pub(super) const CHECKS: &[Check] = &[
    legacy("initialized", "notifications/initialized follows the answer", &["LIFE-006"], initialized),
    legacy("older-version", "An older revision in the answer is used, or ends the connection", &["LIFE-039"], older)
        .should(),
    legacy("unsupported-version", "An unknown revision in the answer ends the connection", &["LIFE-015"], unsupported),
    legacy("open-capabilities", "Unknown capabilities are accepted", &["LIFE-025"], open_capabilities),
    legacy("ping", "A ping is answered with an empty result", &["PING-003", "LIFE-042"], ping),
    legacy("ping-early", "A ping before the answer to initialize is answered", &["LIFE-009"], ping_early),
    legacy("id-number", "A response repeats the number of its request", &["BASE-008"], id_number),
    legacy("id-string", "A response repeats the text of its request", &["BASE-008"], id_string),
    legacy("same-id", "Both sides may use an id at once", &["BASE-007"], same_id).should(),
    legacy("unknown-method", "An unknown method is answered with -32601", &["BASE-022"], unknown_method),
    legacy("undeclared-sampling", "Sampling is refused unless it is declared", &["SAMP-003"], undeclared_sampling)
        .should(),
    legacy("undeclared-elicitation", "Elicitation is refused unless it is declared", &["BASE-022"], undeclared_forms)
        .since("2025-06-18")
        .should(),
    legacy("undeclared-roots", "Roots are refused unless they are declared", &["ROOT-007"], undeclared_roots).should(),
    legacy("roots", "roots/list is answered with roots", &["ROOT-003", "ROOT-004"], roots),
    legacy("sampling", "sampling/createMessage is answered with a message", &["SAMP-010"], sampling),
    legacy("elicitation", "elicitation/create is answered with an action", &["ELIC-024"], elicitation)
        .since("2025-06-18"),
    legacy("unknown-notification", "An unknown notification is not answered", &["BASE-020"], unknown_notification),
    legacy("bad-notification", "A notification with wrong params is not answered", &["BASE-020"], bad_notification),
    legacy("unknown-notification-end", "An unknown notification ends nothing", &["BASE-020"], unknown_survived)
        .should(),
    legacy("bad-notification-end", "A notification with wrong params ends nothing", &["BASE-020"], bad_survived)
        .should(),
    legacy("unknown-progress", "Progress without a request is ignored", &["PROG-012"], unknown_progress).should(),
    legacy("cancel-unknown", "The cancellation of an unknown id is ignored", &["CANC-013"], cancel_unknown).should(),
    legacy("list-changed", "Changes of lists are accepted", &["TOOL-028", "PROMPT-017", "RES-016"], list_changed)
        .should(),
    legacy("error-without-id", "An error without an id is accepted", &["BASE-016"], error_without_id)
        .since("2025-11-25")
        .stdio()
        .should(),
    legacy("unknown-response", "A response to no request is ignored", &["CANC-011", "CANC-012"], unknown_response)
        .stdio()
        .should(),
    legacy("late-response", "A response after its cancellation is ignored", &["CANC-011"], late_response).should(),
    legacy("parse-error", "Lines after one that is no JSON are read", &["STDIO-017"], parse_error).stdio().should(),
    legacy("batch", "2025-03-26: a batch of the server is answered", &["BATCH-001", "BATCH-005"], batch)
        .since("2025-03-26"),
    legacy("server-end", "The end of the server ends its requests", &["LIFE-041"], server_end).stdio().should(),
];

fn initialized(stage: &mut Stage) -> Verdict {
    let initialize = stage.initialize()?;
    stage.settle()?;
    let session = initialize.session;
    stage.enter(session);
    ensure(!stage.session.is_ready, || "notifications/initialized comes before the answer".into())?;
    stage.serve(&initialize);
    let deadline = stage.deadline(stage.timeout);
    let mut early = None;
    loop {
        let is_it = |it: &Message| {
            it.session == session && (it.method() == "notifications/initialized" || it.is_call(Era::Legacy))
        };
        match stage.wait(deadline, is_it)? {
            Wait::Message(message) if message.is_call(Era::Legacy) => {
                // Over HTTP two requests may overtake each other.
                if !stage.is_http() {
                    return failed(format!("{} comes before notifications/initialized", message.method()));
                }
                early = Some(message.method().to_owned());
                stage.serve(&message);
            }
            Wait::Message(message) => {
                stage.serve(&message);
                return Ok(());
            }
            Wait::Silence | Wait::Ended(_) if early.is_some() => {
                return failed(format!("{} comes without notifications/initialized", early.unwrap_or_default()));
            }
            Wait::Silence => return failed("there is no notifications/initialized"),
            Wait::Ended(code) => return not_reachable(format!("the client ends after the handshake{}", exit(code))),
        }
    }
}

/// Answers `initialize` with a revision, and waits for what the client does. Returns the method that it goes on with.
fn answer_with(stage: &mut Stage, version: &'static str) -> Result<Option<String>, Outcome> {
    stage.script = Script { version: Some(version), ..Script::default() };
    let initialize = stage.initialize()?;
    stage.settle()?;
    stage.serve(&initialize);
    let deadline = stage.deadline(stage.timeout);
    let ends = stage.ends;
    let goes_on =
        |it: &Message| matches!(it.method(), "initialize" | "notifications/initialized") || it.is_call(Era::Legacy);
    match stage.wait(deadline, goes_on)? {
        // It has closed the connection, and tries again.
        Wait::Message(message) if message.method() == "initialize" || stage.ends > ends => Ok(None),
        Wait::Message(message) => {
            stage.serve(&message);
            Ok(Some(message.method().to_owned()))
        }
        // Over HTTP there is no connection to end.
        Wait::Silence if !stage.is_http() && stage.ends == ends => {
            failed(format!("after {version} the connection stays open, and is not used"))
        }
        Wait::Silence | Wait::Ended(_) => Ok(None),
    }
}

fn older(stage: &mut Stage) -> Verdict {
    let offered = stage.facts.legacy.as_ref().and_then(|params| params["protocolVersion"].as_str()).unwrap_or_default();
    let offered = offered.to_owned();
    // Streamable HTTP begins with 2025-03-26.
    let first = usize::from(stage.is_http());
    for version in LEGACY.into_iter().skip(first).filter(|version| *version < offered.as_str()) {
        if answer_with(stage, version)?.is_some() {
            stage.facts.accepted.insert(version.to_owned());
        }
    }
    Ok(())
}

fn unsupported(stage: &mut Stage) -> Verdict {
    match answer_with(stage, NEVER)? {
        Some(method) => failed(format!("the client goes on with {method} in the revision {NEVER}")),
        None => Ok(()),
    }
}

fn open_capabilities(stage: &mut Stage) -> Verdict {
    stage.script.alter = Some(|request, answer| {
        if request["method"] == "initialize" {
            answer["result"]["capabilities"]["checks"] = json!({"any": [1, null]});
            answer["result"]["capabilities"]["experimental"] = json!({"example.com/check": {"a": {}}});
            answer["result"]["checks"] = json!(true);
            answer["result"]["_meta"] = json!({"example.com/check": [1]});
        }
    });
    let initialize = stage.initialize()?;
    stage.serve(&initialize);
    match stage.initialized() {
        Err(Outcome::NotReachable(why)) => failed(why),
        other => other,
    }
}

fn ping(stage: &mut Stage) -> Verdict {
    stage.hold()?;
    let asked = stage.ask("ping", &Value::Null);
    // A client that responds, or waits for nothing, does not show that it serves no requests while it waits.
    let is_deaf = stage.held.is_some() && stage.responses.is_empty();
    let broken: Rules = if is_deaf { &[] } else { &["PING-003"] };
    let response = asked.breaks(broken)?;
    let Some(result) = response["result"].as_object() else {
        return failed(format!("the ping is answered with {}", brief(&response))).breaks(broken);
    };
    ensure(result.keys().all(|name| name == "_meta"), || "the result is not empty".into()).breaks(broken)
}

fn ping_early(stage: &mut Stage) -> Verdict {
    let initialize = stage.initialize()?;
    if let Some(exchange) = initialize.exchange {
        stage.open_stream(exchange);
    }
    stage.held = Some(initialize);
    let response = stage.ask("ping", &Value::Null)?;
    ensure(response["result"].is_object(), || format!("the ping is answered with {}", brief(&response)))
}

fn ping_with(stage: &mut Stage, ids: &[Value]) -> Verdict {
    stage.hold()?;
    ids.iter().try_for_each(|id| stage.ask_with(id, "ping", &Value::Null).map(|_| ()))
}

fn id_number(stage: &mut Stage) -> Verdict {
    ping_with(stage, &[json!(0), json!(900_001), json!(9_007_199_254_740_991_u64)])
}

fn id_string(stage: &mut Stage) -> Verdict {
    ping_with(stage, &[json!("900002"), json!("mcp-check"), json!("ä \u{1f600} \"\\\n"), json!("007")])
}

fn same_id(stage: &mut Stage) -> Verdict {
    stage.hold()?;
    let Some(id) = stage.held.as_ref().map(|held| held.value["id"].clone()) else {
        return not_reachable("the client does not call a method");
    };
    let response = stage.ask_with(&id, "ping", &Value::Null)?;
    ensure(response["result"].is_object(), || format!("the ping is answered with {}", brief(&response)))
}

/// Fails unless a method is refused with one of some codes.
fn refused(stage: &mut Stage, method: &str, params: &Value, codes: &[i64]) -> Verdict {
    stage.hold()?;
    let response = stage.ask(method, params)?;
    let code = response["error"]["code"].as_i64();
    ensure(code.is_some_and(|code| codes.contains(&code)), || {
        format!("{method} is answered with {} instead of the error {}", brief(&response), codes[0])
    })
}

fn unknown_method(stage: &mut Stage) -> Verdict {
    refused(stage, "mcp-check/unknown", &Value::Null, &[-32601])
}

fn unless_declared(stage: &Stage, capability: &str) -> Verdict {
    if stage.capability(capability).is_some() {
        return not_applicable(format!("the client declares `{capability}`"));
    }
    Ok(())
}

fn if_declared(stage: &Stage, capability: &str) -> Verdict {
    if stage.capability(capability).is_none() {
        return not_applicable(format!("the client does not declare `{capability}`"));
    }
    Ok(())
}

fn sampling_params() -> Value {
    let content = json!({"type": "text", "text": "Say yes."});
    let meta = json!({"progressToken": TOKEN});
    json!({"messages": [{"role": "user", "content": content}], "maxTokens": 10, "_meta": meta})
}

fn form_params() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"message": "Your name?", "requestedSchema": schema, "_meta": {"progressToken": TOKEN}})
}

fn undeclared_sampling(stage: &mut Stage) -> Verdict {
    unless_declared(stage, "sampling")?;
    refused(stage, "sampling/createMessage", &sampling_params(), &[-32601])
}

fn undeclared_forms(stage: &mut Stage) -> Verdict {
    unless_declared(stage, "elicitation")?;
    // The second one is that of a mode which was not declared.
    refused(stage, "elicitation/create", &form_params(), &[-32601, -32602])
}

fn undeclared_roots(stage: &mut Stage) -> Verdict {
    unless_declared(stage, "roots")?;
    refused(stage, "roots/list", &Value::Null, &[-32601])
}

/// Asks for what a person may have to answer. `None` is an error, which is allowed.
fn ask_person(stage: &mut Stage, method: &str, params: &Value) -> Result<Option<Value>, Outcome> {
    stage.hold()?;
    match stage.ask(method, params) {
        Ok(mut response) => Ok(response.get_mut("result").map(Value::take)),
        Err(Outcome::Failed { why, .. }) if why.starts_with("the client does not respond") => {
            not_reachable(format!("{method} may wait for a person"))
        }
        Err(other) => Err(other),
    }
}

fn roots(stage: &mut Stage) -> Verdict {
    if_declared(stage, "roots")?;
    let Some(result) = ask_person(stage, "roots/list", &Value::Null).breaks(&["ROOT-003"])? else { return Ok(()) };
    let Some(roots) = result["roots"].as_array() else {
        return failed("the result has no array `roots`").breaks(&["ROOT-003"]);
    };
    let is_file = |root: &Value| root["uri"].as_str().is_some_and(|uri| uri.starts_with("file://"));
    ensure(roots.iter().all(is_file), || "the URI of a root does not begin with file://".into()).breaks(&["ROOT-004"])
}

fn sampling(stage: &mut Stage) -> Verdict {
    if_declared(stage, "sampling")?;
    let Some(result) = ask_person(stage, "sampling/createMessage", &sampling_params())? else { return Ok(()) };
    let has_content = result["content"].is_object() || result["content"].is_array();
    ensure(result["role"].is_string() && result["model"].is_string() && has_content, || {
        "the result does not have `role`, `content` and `model`".into()
    })
}

fn elicitation(stage: &mut Stage) -> Verdict {
    if_declared(stage, "elicitation")?;
    let declared = stage.capability("elicitation").cloned().unwrap_or_default();
    if declared.get("url").is_some() && declared.get("form").is_none() {
        return not_applicable("the client has pages only");
    }
    let Some(result) = ask_person(stage, "elicitation/create", &form_params())? else { return Ok(()) };
    let action = result["action"].as_str().unwrap_or_default();
    ensure(matches!(action, "accept" | "decline" | "cancel"), || format!("the action is `{action}`"))
}

/// Sends a notification, and fails unless it is ignored.
fn ignores(stage: &mut Stage, message: &Value) -> Verdict {
    unanswered(stage, message)?
}

/// Sends a notification, and fails if it is answered. Returns whether the client goes on.
fn unanswered(stage: &mut Stage, message: &Value) -> Result<Verdict, Outcome> {
    stage.hold()?;
    stage.tell(message)?;
    let goes_on = stage.goes_on();
    // The only request of the server has an id that is a number.
    match stage.responses.iter().find(|it| !it["id"].is_number()) {
        Some(response) => failed(format!("it is answered with {}", brief(response))),
        None => Ok(goes_on),
    }
}

/// Sends a notification, and fails only if it is answered: what else the client does is the matter of another check.
fn not_answered(stage: &mut Stage, message: &Value) -> Verdict {
    match unanswered(stage, message)? {
        Err(Outcome::Failed { why, .. }) => not_reachable(why),
        other => other,
    }
}

/// Sends a notification, and fails unless the client goes on.
fn survives(stage: &mut Stage, message: &Value) -> Verdict {
    match unanswered(stage, message) {
        Ok(goes_on) => goes_on,
        Err(Outcome::Failed { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

fn unknown() -> Value {
    notification("notifications/mcp-check/unknown", json!({"a": 1}))
}

fn bad() -> Value {
    notification("notifications/progress", json!({"progress": "no number"}))
}

fn unknown_notification(stage: &mut Stage) -> Verdict {
    not_answered(stage, &unknown())
}

fn unknown_survived(stage: &mut Stage) -> Verdict {
    survives(stage, &unknown())
}

fn bad_notification(stage: &mut Stage) -> Verdict {
    not_answered(stage, &bad())
}

fn bad_survived(stage: &mut Stage) -> Verdict {
    survives(stage, &bad())
}

fn unknown_progress(stage: &mut Stage) -> Verdict {
    ignores(stage, &notification("notifications/progress", json!({"progressToken": "mcp-check", "progress": 1})))
}

fn cancel_unknown(stage: &mut Stage) -> Verdict {
    ignores(stage, &notification("notifications/cancelled", json!({"requestId": "mcp-check", "reason": "check"})))
}

fn list_changed(stage: &mut Stage) -> Verdict {
    // Each one has its own connection, to tell which one is not accepted.
    for (kind, broken) in [("tools", &["TOOL-028"]), ("prompts", &["PROMPT-017"]), ("resources", &["RES-016"])] {
        stage.hold()?;
        stage.tell(&json!({"jsonrpc": "2.0", "method": format!("notifications/{kind}/list_changed")}))?;
        stage.goes_on().breaks(broken)?;
    }
    Ok(())
}

// Over HTTP, a stream belongs to a request, so that a client may take the error for its answer.
fn error_without_id(stage: &mut Stage) -> Verdict {
    stage.hold()?;
    stage.tell_text(r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}"#)?;
    stage.goes_on()
}

fn unknown_response(stage: &mut Stage) -> Verdict {
    stage.hold()?;
    stage.tell_text(r#"{"jsonrpc":"2.0","id":"mcp-check-none","result":{}}"#)?;
    stage.goes_on()
}

fn late_response(stage: &mut Stage) -> Verdict {
    stage.hold()?;
    let Some(id) = stage.held.as_ref().map(|held| held.value["id"].clone()) else {
        return not_reachable("the client does not call a method");
    };
    let deadline = stage.deadline(stage.timeout);
    let is_it = |it: &Message| it.method() == "notifications/cancelled" && it.value["params"]["requestId"] == id;
    match stage.wait(deadline, is_it)? {
        Wait::Message(message) => stage.serve(&message),
        _ => return not_reachable("the client does not cancel a request in the time of --timeout"),
    }
    if !stage.facts.answers_ping {
        return not_reachable("the client does not respond to a ping");
    }
    let held = stage.held.take();
    if let Some(held) = &held
        && let Some(answer) = stage.answer(&held.value)
    {
        match held.exchange {
            Some(exchange) => stage.stream_event(exchange, &answer.to_string()),
            None => stage.write_line(&answer.to_string()),
        }
    }
    stage.held = held;
    stage.ask("ping", &Value::Null).map(|_| ())
}

fn parse_error(stage: &mut Stage) -> Verdict {
    stage.hold()?;
    for line in ["this is no JSON", "{\"jsonrpc\":", "{\"jsonrpc\":\"2.0\"}", ""] {
        stage.tell_text(line)?;
    }
    stage.goes_on()
}

fn batch(stage: &mut Stage) -> Verdict {
    stage.script.version = Some("2025-03-26");
    let initialize = stage.initialize()?;
    stage.serve(&initialize);
    if stage.initialized().is_err() {
        return not_applicable("the client does not go on with 2025-03-26");
    }
    stage.hold_next()?;
    let ping = |id: &str| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let unknown = json!({"jsonrpc": "2.0", "method": "notifications/mcp-check/unknown"});
    stage.tell(&json!([ping("check-a"), unknown, ping("check-b")]))?;
    let deadline = stage.deadline(stage.timeout);
    let ids = |stage: &Stage| -> Vec<Value> { stage.responses.iter().map(|it| it["id"].clone()).collect() };
    loop {
        let found = ids(stage);
        if ["check-a", "check-b"].iter().all(|id| found.iter().any(|it| it == id)) {
            return ensure(found.len() == 2, || format!("two requests of a batch have {} responses", found.len()))
                .breaks(&["BATCH-005"]);
        }
        match stage.step(deadline)? {
            super::stage::Step::Message(message) => stage.serve(&message),
            super::stage::Step::Get(request) => stage.serve_get(&request),
            super::stage::Step::Other => {}
            super::stage::Step::Silence => {
                // A client that responds to no ping may have accepted them.
                let broken: Rules = if stage.facts.answers_ping { &[] } else { &["BATCH-005"] };
                return failed("the requests of a batch are not all answered").breaks(broken);
            }
            super::stage::Step::Ended(code) => return failed(format!("the client ends after a batch{}", exit(code))),
        }
    }
}

fn server_end(stage: &mut Stage) -> Verdict {
    if !stage.facts.ends.contains_key(&stage.era) {
        return not_reachable("the client does not end without it, either");
    }
    stage.hold()?;
    if stage.held.is_none() {
        return not_reachable("the client does not call a method");
    }
    stage.end_server();
    let deadline = stage.deadline(stage.timeout);
    match stage.wait(deadline, |it| it.method() == "initialize" || answers::claim(&it.value).is_some())? {
        Wait::Silence => failed("the client waits for a response of a server that has ended"),
        Wait::Message(_) | Wait::Ended(_) => Ok(()),
    }
}
