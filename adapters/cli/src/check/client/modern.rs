//! 2026-07-28.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::{Value, json};

use super::{
    answers::{META, claim, error, unsupported},
    calls,
    definition::{Check, modern},
    judge::PROVOKED,
    stage::{Message, Stage, Step, Wait, exit},
    web::answer_unusually,
};
use crate::check::{
    era::Era,
    outcome::{Breaks, Outcome, Rules, Verdict, ensure, failed, not_applicable, not_reachable},
    probe::MODERN,
};

/// A state that is changed by all that take it for something else than a text.
const STATE: &str = "007 %20+=&/\u{e4}\u{1f600}\"\\ {\"a\": 1.0} ";

/// A revision that no client speaks.
const NEVER: &str = "2099-12-31";

/// The most attempts of one call with a revision that is not supported.
const ATTEMPTS: usize = 4;

pub(super) const CHECKS: &[Check] = &[
    modern("unsupported-revisions", "Without a common revision there is no handshake", &["M-DUAL-004"], no_common),
    modern("unsupported-attempts", "An unsupported revision is not tried again and again", &["M-VERS-015"], attempts)
        .should(),
    modern("discovered-revision", "A revision of the server is chosen", &["M-DISC-009"], discovered).should(),
    modern("fallback", "An unknown server/discover leads to initialize", &["M-DUAL-005", "M-DUAL-007"], fallback)
        .stdio(),
    modern("http-fallback", "400 without an error of 2026-07-28 leads to initialize", &["M-DUAL-013"], http_fallback)
        .http(),
    modern("modern-cursor", "Cursors are returned as they are", &["M-PAGE-003"], calls::cursor),
    modern("modern-empty-cursor", "An empty cursor is no end", &["M-PAGE-004"], empty_cursor),
    modern("modern-open-results", "Unknown members of results are accepted", &["M-BASE-015"], calls::open_results),
    modern("modern-unknown-notification", "An unknown notification is ignored", &["M-BASE-056"], unknown_notification)
        .should(),
    modern("modern-unknown-progress", "Progress without a request is ignored", &["M-PROG-012"], unknown_progress)
        .should(),
    modern("server-request", "A request of the server is not answered", &["M-BASE-024", "M-BASE-057"], server_request)
        .should(),
    modern("state-echo", "requestState is returned as it is", &["M-MRTR-021"], state_echo),
    modern("state-dropped", "A state of an earlier round is not returned", &["M-MRTR-023"], state_dropped),
    modern("retry-id", "A retry has another id", &["M-MRTR-024"], retry_id),
    modern("retry-params", "A retry has the params of its request", &["M-MRTR-025"], retry_params),
    modern("input-responses", "Each input has its response", &["M-MRTR-026", "M-MRTR-027"], input_responses),
    modern("modern-http-stream", "Answers may be event streams", &["M-HTTP-016", "M-HTTP-023"], stream_answers).http(),
    modern("modern-sse-parsing", "Event streams are read by their standard", &["M-HTTP-098"], sse_parsing)
        .http()
        .should(),
    modern("http-error-status", "404 with an error is an answer", &["M-DUAL-014", "M-HTTP-089"], error_status).http(),
    modern("http-bad-tool", "Tools with wrong headers are left out", &["M-HTTP-062"], bad_tool).http(),
];

/// Answers each request with the error for an unsupported revision. Returns how often the most frequent request comes
/// that is tried too often, and whether one of them is `initialize`.
fn refuse_all(stage: &mut Stage) -> Result<(usize, bool), Outcome> {
    if stage.facts.tries_sessions {
        return not_reachable("the client sends initialize also if all is answered");
    }
    stage.script.alter = Some(|request, answer| {
        if let Some(version) = claim(request) {
            *answer = unsupported(&request["id"], &[NEVER], version);
        }
    });
    stage.start()?;
    let (mut requests, mut most, mut has_handshake) = (0, 0, false);
    let mut counts: HashMap<u64, usize> = HashMap::new();
    // A client that goes on without an end does not extend the time.
    let last = stage.deadline(stage.timeout.saturating_mul(5));
    loop {
        let deadline = last.min(stage.deadline(stage.quiet()));
        match stage.step(deadline)? {
            Step::Message(message) => {
                if message.is_request() {
                    if claim(&message.value).is_some() {
                        requests += 1;
                        // Another call is no attempt of this one, and a program may make the same call several times.
                        let digest = digest(&message);
                        let count = counts.entry(digest).or_default();
                        *count += 1;
                        let calls = stage.facts.repeats.get(&digest).copied().unwrap_or(1);
                        if *count > ATTEMPTS * calls {
                            most = most.max(*count);
                        }
                    }
                    has_handshake |= message.method() == "initialize" && requests > 0;
                }
                if requests > 100 {
                    return Ok((most, has_handshake));
                }
                stage.serve(&message);
            }
            Step::Get(request) => stage.serve_get(&request),
            Step::Other => {}
            Step::Silence | Step::Ended(_) if requests == 0 => {
                return not_reachable("the client sends no request of 2026-07-28");
            }
            Step::Silence | Step::Ended(_) => return Ok((most, has_handshake)),
        }
    }
}

fn no_common(stage: &mut Stage) -> Verdict {
    let (_, has_handshake) = refuse_all(stage)?;
    ensure(!has_handshake, || format!("the server supports {NEVER} only, and the client sends initialize"))
}

fn attempts(stage: &mut Stage) -> Verdict {
    let (requests, _) = refuse_all(stage)?;
    ensure(requests == 0, || format!("a request of a revision that is not supported is sent {requests} times"))
}

fn discovered(stage: &mut Stage) -> Verdict {
    stage.script.alter = Some(|request, answer| {
        if request["method"] == "server/discover" && answer["result"].is_object() {
            answer["result"]["supportedVersions"] = json!([NEVER, MODERN, "2025-11-25"]);
        }
    });
    stage.start()?;
    let deadline = stage.deadline(stage.patience());
    match stage.wait(deadline, |it| it.method() == "server/discover")? {
        Wait::Message(message) => stage.serve(&message),
        Wait::Silence | Wait::Ended(_) => return not_reachable("the client does not send server/discover"),
    }
    let has_calls = stage.facts.calls.get(&stage.era).is_some_and(|calls| !calls.is_empty());
    let deadline = stage.deadline(if has_calls { stage.timeout } else { stage.quiet() });
    match stage.wait(deadline, |it| it.is_request() && it.method() != "server/discover")? {
        // The session of an older revision is a choice, too.
        Wait::Message(message) if message.method() == "initialize" => Ok(()),
        Wait::Message(message) => {
            let version = claim(&message.value).cloned().unwrap_or_default();
            ensure(version == MODERN, || format!("{} is sent with the revision {version}", message.method()))
        }
        Wait::Ended(code) if has_calls => failed(format!("the client ends after the discovery{}", exit(code))),
        Wait::Silence if has_calls => failed("the client does not go on after the discovery"),
        Wait::Silence | Wait::Ended(_) => not_reachable("the client does not call a method"),
    }
}

fn needs_both_eras(stage: &Stage) -> Verdict {
    if stage.facts.legacy.is_none() {
        return not_applicable("the client has no sessions");
    }
    Ok(())
}

/// Answers the first request of 2026-07-28, and fails unless `initialize` follows.
fn falls_back(stage: &mut Stage, method: Option<&str>, answer: impl Fn(&mut Stage, &Message)) -> Verdict {
    stage.script.is_modern = false;
    stage.start()?;
    let deadline = stage.deadline(stage.patience());
    let first = match stage.wait(deadline, |it| it.is_request())? {
        Wait::Message(message)
            if claim(&message.value).is_some() && method.is_none_or(|method| message.method() == method) =>
        {
            message
        }
        _ => return not_reachable("the client does not begin with what may lead to initialize"),
    };
    answer(stage, &first);
    let deadline = stage.deadline(stage.timeout);
    match stage.wait(deadline, |it| it.method() == "initialize")? {
        Wait::Message(_) => Ok(()),
        Wait::Silence => failed("there is no initialize afterwards"),
        Wait::Ended(code) => failed(format!("the client ends instead of sending initialize{}", exit(code))),
    }
}

fn fallback(stage: &mut Stage) -> Verdict {
    needs_both_eras(stage)?;
    for code in [-32601, -32602, -32600, -32000, -1] {
        let refuse = |stage: &mut Stage, message: &Message| {
            let answer = error(&message.value["id"], code, "Not initialized");
            stage.write_line(&answer.to_string());
        };
        // That another error is not enough shows only after the first one was.
        let broken: Rules = if code == -32601 { &["M-DUAL-005"] } else { &[] };
        falls_back(stage, Some("server/discover"), refuse)
            .map_err(|outcome| outcome.map(|why| format!("after the error {code}: {why}")))
            .breaks(broken)?;
    }
    Ok(())
}

fn http_fallback(stage: &mut Stage) -> Verdict {
    needs_both_eras(stage)?;
    falls_back(stage, None, |stage, message| {
        if let Some(exchange) = message.exchange {
            stage.refuse(exchange, 400);
        }
    })
}

fn empty_cursor(stage: &mut Stage) -> Verdict {
    // A client may ask for two pages only, whatever the cursor is.
    let (method, has_third) = third_page(stage, "third", |request, answer| add_third(request, answer, "third"))?;
    if !has_third {
        return not_reachable(format!("the client asks for no third page of {method}"));
    }
    let (again, has_third) = third_page(stage, "", |request, answer| add_third(request, answer, ""))?;
    if again != method {
        return not_reachable("the client lists something else than before");
    }
    ensure(has_third, || format!("{method} is not called with the empty cursor"))
}

/// Adds cursors to the first two pages of each list.
fn add_third(request: &Value, answer: &mut Value, cursor: &str) {
    calls::add_cursor(request, answer);
    if answer["result"].is_object() && request["params"]["cursor"] == calls::CURSOR {
        answer["result"]["nextCursor"] = json!(cursor);
    }
}

/// Returns the method of which the client asks for a second page, and whether it asks for a third one.
fn third_page(stage: &mut Stage, cursor: &str, alter: fn(&Value, &mut Value)) -> Result<(String, bool), Outcome> {
    stage.script.alter = Some(alter);
    stage.hold()?;
    stage.release();
    let deadline = stage.deadline(stage.timeout);
    let method = match stage.wait(deadline, |it| it.value["params"]["cursor"] == calls::CURSOR)? {
        Wait::Message(message) => {
            stage.serve(&message);
            message.method().to_owned()
        }
        Wait::Silence | Wait::Ended(_) => return not_reachable("the client does not ask for another page of a list"),
    };
    let deadline = stage.deadline(stage.timeout);
    let is_next = |it: &Message| it.method() == method && it.value["params"]["cursor"] == cursor;
    let has_third = matches!(stage.wait(deadline, is_next)?, Wait::Message(_));
    Ok((method, has_third))
}

fn unknown_notification(stage: &mut Stage) -> Verdict {
    stage.hold()?;
    stage.tell_text(r#"{"jsonrpc":"2.0","method":"notifications/mcp-check/unknown","params":{"a":1}}"#)?;
    stage.goes_on()
}

fn unknown_progress(stage: &mut Stage) -> Verdict {
    stage.hold()?;
    let params = json!({"progressToken": "mcp-check", "progress": 1});
    stage.tell_text(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string())?;
    stage.goes_on()
}

fn server_request(stage: &mut Stage) -> Verdict {
    stage.hold()?;
    stage.tell_text(r#"{"jsonrpc":"2.0","id":"mcp-check-request","method":"roots/list"}"#)?;
    stage.release();
    let deadline = stage.deadline(stage.quiet());
    match stage.wait(deadline, |it| it.is_response() && it.value["id"] == PROVOKED)? {
        Wait::Message(message) => {
            // With an error, it was not executed.
            let broken: Rules = if message.value.get("result").is_some() { &[] } else { &["M-BASE-024"] };
            failed("the request of the server is answered").breaks(broken)
        }
        Wait::Silence | Wait::Ended(_) => Ok(()),
    }
}

/// Returns whether a method may be answered with a request for input.
fn may_ask(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

fn is_form(capabilities: &Value) -> bool {
    let declared = &capabilities["elicitation"];
    declared.is_object() && (declared.get("form").is_some() || declared.get("url").is_none())
}

/// Returns a number for a method and its params without metadata.
pub(super) fn digest(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    (message.method(), bare(&message.value["params"]).to_string()).hash(&mut hasher);
    hasher.finish()
}

/// Returns params without what differs between a request and its retry.
fn bare(params: &Value) -> Value {
    let mut params = params.clone();
    if let Some(params) = params.as_object_mut() {
        for name in ["requestState", "inputResponses", "_meta"] {
            params.remove(name);
        }
    }
    params
}

/// Returns the name of the request with a number that was answered with a request for input. Its retries have the name,
/// so that they can be told from those of other requests.
fn name(number: usize) -> String {
    format!("check-{number:05}")
}

fn state_of(name: &str) -> String {
    format!("{STATE}{name}\n")
}

/// Returns whether a request is a retry of the one with a name.
fn is_retry_of(request: &Value, name: &str) -> bool {
    let params = &request["params"];
    params["requestState"].as_str().is_some_and(|state| state.contains(name))
        || params["inputResponses"].as_object().is_some_and(|all| all.keys().any(|key| key.contains(name)))
}

/// Asks for what the client has declared, and for nothing after the second round.
fn ask(request: &Value, answer: &mut Value, number: usize) {
    let params = &request["params"];
    if answer["result"].is_null() {
        return;
    }
    let (round, name) = match (params.get("requestState"), params.get("inputResponses")) {
        (None, None) => (0, name(number)),
        (Some(state), _) => match state.as_str().and_then(|state| state.strip_prefix(STATE)) {
            Some(name) => (1, name.trim_end().to_owned()),
            None => return,
        },
        _ => return,
    };
    let capabilities = &params["_meta"][format!("{META}clientCapabilities")];
    let mut result = json!({"resultType": "input_required"});
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let form = json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Your name?",
        "requestedSchema": schema}});
    match (round, is_form(capabilities)) {
        (0, true) => {
            result["requestState"] = json!(state_of(&name));
            result["inputRequests"] = keys(&name).into_iter().map(|key| (key, form.clone())).collect();
        }
        (0, false) => result["requestState"] = json!(state_of(&name)),
        // The second round has no state.
        (_, true) => result["inputRequests"] = json!({format!("third {name}"): form}),
        _ => return,
    }
    answer["result"] = result;
}

/// Returns the names of the inputs of the first round.
fn keys(name: &str) -> [String; 2] {
    [format!("first {name}"), format!("2nd \u{e4} {name}")]
}

/// Returns the first request that is answered with a request for input, and its retries.
fn retries(stage: &mut Stage, count: usize) -> Result<Vec<Message>, Outcome> {
    stage.start()?;
    let (mut found, mut asked): (Vec<Message>, usize) = (Vec::new(), 0);
    let mut deadline = stage.deadline(stage.patience().saturating_add(stage.timeout));
    while found.len() <= count {
        let message = match stage.wait(deadline, |it| it.is_request() && may_ask(it.method()))? {
            Wait::Message(message) => message,
            Wait::Silence | Wait::Ended(_) if found.is_empty() => {
                return not_reachable("the client calls no method that may ask for input");
            }
            Wait::Silence | Wait::Ended(_) => break,
        };
        let params = &message.value["params"];
        let has_input = params.get("requestState").or(params.get("inputResponses")).is_some();
        asked += usize::from(!has_input);
        if let Some(mut answer) = stage.answer(&message.value) {
            ask(&message.value, &mut answer, asked);
            stage.send_answer(&message, &answer);
        }
        let is_found = match found.first() {
            None => !has_input,
            // With one request only, its retry is known also if it has lost its state.
            Some(first) => {
                is_retry_of(&message.value, &name(1)) || asked == 1 && has_input && message.method() == first.method()
            }
        };
        if is_found {
            found.push(*message);
            deadline = stage.deadline(stage.timeout);
        }
    }
    if found.len() == 1 {
        // It may wait for a person, or may not support this.
        return not_reachable("the client does not send a request again with its input");
    }
    Ok(found)
}

fn state_echo(stage: &mut Stage) -> Verdict {
    let found = retries(stage, 1)?;
    let state = &found[1].value["params"]["requestState"];
    let expected = state_of(&name(1));
    ensure(*state == expected, || format!("the state {} becomes {state}", json!(expected)))
}

/// Returns whether a request declares forms: each one has its capabilities.
fn declares_forms(request: &Message) -> Verdict {
    if !is_form(&request.value["params"]["_meta"][format!("{META}clientCapabilities")]) {
        return not_applicable("the client does not declare forms");
    }
    Ok(())
}

fn state_dropped(stage: &mut Stage) -> Verdict {
    let found = retries(stage, 2)?;
    declares_forms(&found[0])?;
    let Some(second) = found.get(2) else { return not_reachable("the client does not send a request a third time") };
    let state = &second.value["params"]["requestState"];
    ensure(state.is_null(), || "the third request has the state of the first answer".into())
}

fn retry_id(stage: &mut Stage) -> Verdict {
    let found = retries(stage, 1)?;
    let id = &found[0].value["id"];
    ensure(found[1].value["id"] != *id, || format!("the retry has the id {id}, too"))
}

fn retry_params(stage: &mut Stage) -> Verdict {
    let found = retries(stage, 1)?;
    let (first, again) = (bare(&found[0].value["params"]), bare(&found[1].value["params"]));
    ensure(first == again, || format!("the params {first} become {again}"))
}

fn input_responses(stage: &mut Stage) -> Verdict {
    let found = retries(stage, 1)?;
    declares_forms(&found[0])?;
    let name = name(1);
    let Some(responses) = found[1].value["params"]["inputResponses"].as_object() else {
        return failed("the retry has no object `inputResponses`").breaks(&["M-MRTR-026"]);
    };
    let names: Vec<_> = responses.keys().map(String::as_str).collect();
    let is_whole = names.len() == 2 && keys(&name).iter().all(|key| names.contains(&key.as_str()));
    ensure(is_whole, || format!("the responses are {names:?}")).breaks(&["M-MRTR-026"])?;
    for (name, response) in responses {
        let action = response["action"].as_str().unwrap_or_default();
        let is_bare = response.get("jsonrpc").or(response.get("result")).or(response.get("resultType")).is_none();
        ensure(is_bare, || format!("the response `{name}` is no bare result")).breaks(&["M-MRTR-027"])?;
        let is_action = matches!(action, "accept" | "decline" | "cancel");
        ensure(is_action, || format!("the action of the response `{name}` is `{action}`")).breaks(&["M-MRTR-027"])?;
    }
    Ok(())
}

fn stream_answers(stage: &mut Stage) -> Verdict {
    // Only after a stream without a comment has been read, the comment is what fails.
    for (has_comment, broken) in [(false, &["M-HTTP-016"]), (true, &["M-HTTP-023"])] {
        stage.hold()?;
        if has_comment {
            let exchange = stage.held.as_ref().and_then(|held| held.exchange).unwrap_or_default();
            stage.stream_bytes(exchange, ": a comment\n\n");
        }
        stage.settle()?;
        stage.release();
        stage.goes_on_without_ping().breaks(broken)?;
    }
    Ok(())
}

fn sse_parsing(stage: &mut Stage) -> Verdict {
    stage.hold()?;
    answer_unusually(stage)?;
    stage.goes_on_without_ping()
}

fn error_status(stage: &mut Stage) -> Verdict {
    stage.script.alter = Some(|request, answer| {
        if claim(request).is_some() && request["method"] != "server/discover" {
            *answer = error(&request["id"], -32601, "Method not found");
        }
    });
    if stage.facts.tries_sessions {
        return not_reachable("the client sends initialize also if all is answered");
    }
    stage.start()?;
    let deadline = stage.deadline(stage.patience());
    match stage.wait(deadline, |it| it.is_call(Era::Modern))? {
        Wait::Message(message) => stage.serve(&message),
        Wait::Silence | Wait::Ended(_) => return not_reachable("the client does not call a method"),
    }
    let refusals = stage.refusals;
    let deadline = stage.deadline(stage.quiet());
    match stage.wait(deadline, |it| it.method() == "initialize")? {
        // 400 leads to initialize.
        Wait::Message(_) if stage.refusals > refusals => not_reachable("the client has sent what is refused with 400"),
        // It may have decoded the error.
        Wait::Message(_) => {
            failed("the client sends initialize after 404 with the error -32601").breaks(&["M-DUAL-014"])
        }
        Wait::Silence | Wait::Ended(_) => Ok(()),
    }
}

/// Adds a tool that a client over HTTP leaves out, as the first one.
fn add_bad_tool(request: &Value, answer: &mut Value) {
    if request["method"] == "tools/list"
        && let Some(tools) = answer["result"]["tools"].as_array_mut()
    {
        let property = json!({"type": "object", "x-mcp-header": "Not Allowed"});
        let schema = json!({"type": "object", "properties": {"wrong": property}});
        tools.insert(0, json!({"name": "left-out", "description": "Wrong", "inputSchema": schema}));
    }
}

fn bad_tool(stage: &mut Stage) -> Verdict {
    stage.script.alter = Some(add_bad_tool);
    let calls = stage.facts.calls.get(&stage.era).cloned().unwrap_or_default();
    if !calls.iter().any(|it| it == "tools/list") || !calls.iter().any(|it| it == "tools/call") {
        return not_reachable("the client does not call a tool of a list");
    }
    stage.start()?;
    let deadline = stage.deadline(stage.patience().saturating_add(stage.timeout));
    match stage.wait(deadline, |it| it.method() == "tools/call")? {
        Wait::Message(message) => ensure(message.value["params"]["name"] != "left-out", || "the tool is called".into()),
        Wait::Silence | Wait::Ended(_) => not_reachable("the client does not call a tool"),
    }
}
