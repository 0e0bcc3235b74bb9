//! Sessions over Streamable HTTP.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    definition::{Check, legacy},
    link::HttpRequest,
    stage::{Script, Stage, Step, exit},
};
use crate::check::{
    outcome::{Breaks, Outcome, Verdict, ensure, failed, not_reachable},
    probe::brief,
    wire::header,
};

/// How long a client has to wait before it opens a stream again.
const RETRY: Duration = Duration::from_millis(1000);

/// The tolerance for clocks that differ.
const SLACK: Duration = Duration::from_millis(200);

const LAST_EVENT: &str = "check-event-1";

pub(super) const CHECKS: &[Check] = &[
    legacy("http-stream-answers", "Answers may be event streams", &["HTTP-018"], stream_answers)
        .http()
        .since("2025-03-26"),
    legacy("http-no-get", "A refused GET does not end the session", &["HTTP-038"], no_get)
        .http()
        .since("2025-03-26")
        .should()
        .needs("GET"),
    legacy("http-session-gone", "404 leads to a new session", &["HTTP-061"], session_gone).http().since("2025-03-26"),
    legacy("http-delete", "A session that is not needed is deleted", &["HTTP-062"], delete)
        .http()
        .since("2025-03-26")
        .should(),
    legacy("sse-parsing", "Event streams are read by their standard", &["HTTP-074"], sse_parsing)
        .http()
        .since("2025-03-26")
        .should(),
    legacy("sse-empty-data", "Events with empty data are no messages", &["HTTP-027"], empty_data)
        .http()
        .since("2025-11-25")
        .should(),
    legacy("sse-resumption", "A stream that was closed is resumed", &["HTTP-029", "HTTP-049"], resumption)
        .http()
        .since("2025-11-25")
        .should(),
    legacy("sse-retry", "The time of retry is waited for", &["HTTP-031"], retry).http().since("2025-11-25"),
];

/// Turns the absence of a handshake into a failure.
fn opens(stage: &mut Stage) -> Verdict {
    let initialize = stage.initialize()?;
    stage.serve(&initialize);
    match stage.initialized() {
        Err(Outcome::NotReachable(why)) => failed(why),
        other => other,
    }
}

fn stream_answers(stage: &mut Stage) -> Verdict {
    stage.script = Script { is_stream: true, ..Script::default() };
    opens(stage)?;
    let calls = stage.facts.calls.get(&stage.era).map_or(0, Vec::len);
    if calls == 0 {
        return Ok(());
    }
    stage.hold_next()?;
    stage.settle()?;
    stage.release();
    if calls == 1 { Ok(()) } else { stage.goes_on_without_ping() }
}

fn no_get(stage: &mut Stage) -> Verdict {
    stage.script = Script { refuses_get: true, ..Script::default() };
    stage.hold()?;
    stage.goes_on()
}

fn session_gone(stage: &mut Stage) -> Verdict {
    stage.open()?;
    let has_calls = stage.facts.calls.get(&stage.era).is_some_and(|calls| !calls.is_empty());
    if !has_calls {
        return not_reachable("the client does not call a method");
    }
    let gone = stage.session.id.clone();
    let mut deadline = stage.deadline(stage.patience());
    let mut refused = None;
    loop {
        match stage.step(deadline)? {
            Step::Message(message) if message.method() == "initialize" && refused.is_some() => {
                let given = header(&message.headers, "mcp-session-id");
                ensure(given.is_none(), || "the new initialize has a header Mcp-Session-Id".into())?;
                stage.serve(&message);
                return Ok(());
            }
            Step::Message(message) => {
                let is_gone = header(&message.headers, "mcp-session-id") == gone.as_deref();
                match message.exchange.filter(|_| message.is_request() && is_gone) {
                    Some(exchange) => {
                        stage.refuse(exchange, 404);
                        (stage.session.is_gone, stage.session.has_lost) = (true, true);
                        if refused.is_none() {
                            refused = Some(message.method().to_owned());
                            deadline = stage.deadline(stage.timeout);
                        }
                    }
                    None => stage.serve(&message),
                }
            }
            Step::Get(request) => stage.serve_get(&request),
            Step::Other => {}
            Step::Silence | Step::Ended(_) if refused.is_none() => {
                return not_reachable("the client does not call a method");
            }
            Step::Silence => return failed("there is no new initialize after 404 for the session"),
            Step::Ended(code) => return failed(format!("the client ends after 404 for its session{}", exit(code))),
        }
    }
}

fn delete(stage: &mut Stage) -> Verdict {
    match stage.facts.ends.get(&stage.era) {
        Some(Some(0)) => ensure(stage.facts.deletes, || "the client ends without DELETE".into()),
        _ => not_reachable("the client does not end by itself"),
    }
}

/// Returns the exchange of the call that is kept.
fn held_exchange(stage: &Stage) -> Result<u64, Outcome> {
    match stage.held.as_ref().and_then(|held| held.exchange) {
        Some(exchange) => Ok(exchange),
        None => not_reachable("the client does not call a method"),
    }
}

/// Writes a message as several lines of data, among what a reader ignores.
pub(super) fn unusual_event(message: &Value) -> String {
    let text = message.to_string();
    let (first, rest) = text.split_at(1);
    format!(": a comment\r\n\r\nunknown: field\r\nevent: message\r\nid\r\ndata: {first}\r\ndata:{rest}\r\n\r\n")
}

fn sse_parsing(stage: &mut Stage) -> Verdict {
    stage.hold()?;
    let exchange = held_exchange(stage)?;
    if stage.facts.answers_ping {
        let id = stage.next_id();
        let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        stage.judge_own(&ping.to_string());
        stage.stream_bytes(exchange, &unusual_event(&ping));
        let response = stage.response(&id, "ping")?;
        return ensure(response["result"].is_object(), || format!("the ping is answered with {}", brief(&response)));
    }
    answer_unusually(stage)?;
    stage.goes_on_without_ping()
}

/// Answers the call that is kept, as no server would write it.
pub(super) fn answer_unusually(stage: &mut Stage) -> Verdict {
    let exchange = held_exchange(stage)?;
    stage.settle()?;
    let Some(held) = stage.held.take() else { return Ok(()) };
    if let Some(answer) = stage.answer(&held.value) {
        stage.note_answer(&held, &answer);
        stage.stream_bytes(exchange, &unusual_event(&answer));
        stage.link.finish(exchange);
    }
    Ok(())
}

fn empty_data(stage: &mut Stage) -> Verdict {
    stage.hold()?;
    let exchange = held_exchange(stage)?;
    stage.stream_bytes(exchange, &format!("id: {LAST_EVENT}\ndata: \n\n"));
    stage.goes_on()
}

/// Closes the stream of a call before its answer, and waits for the stream that resumes it. Returns the time between.
fn resume(stage: &mut Stage) -> Result<Option<(HttpRequest, Duration)>, Outcome> {
    stage.hold()?;
    let exchange = held_exchange(stage)?;
    stage.stream_bytes(exchange, &format!("id: {LAST_EVENT}\nretry: {}\ndata: \n\n", RETRY.as_millis()));
    let start: Instant = stage.link.now();
    stage.link.finish(exchange);
    stage.session.has_lost = true;
    let deadline = stage.deadline(stage.timeout.max(RETRY * 3));
    loop {
        match stage.step(deadline)? {
            Step::Message(message) => stage.serve(&message),
            Step::Get(request) if header(&request.headers, "last-event-id") == Some(LAST_EVENT) => {
                let took = stage.link.now().saturating_duration_since(start);
                return Ok(Some((request, took)));
            }
            Step::Get(request) => stage.serve_get(&request),
            Step::Other => {}
            Step::Silence | Step::Ended(_) => return Ok(None),
        }
    }
}

fn resumption(stage: &mut Stage) -> Verdict {
    let Some((request, _)) = resume(stage)? else {
        return failed(format!("there is no GET with Last-Event-ID: {LAST_EVENT}"));
    };
    stage.open_stream(request.exchange);
    stage.settle()?;
    // The answer comes on the stream that resumes the first one.
    if let Some(held) = &mut stage.held {
        held.exchange = Some(request.exchange);
    }
    stage.release();
    let calls = stage.facts.calls.get(&stage.era).map_or(0, Vec::len);
    if calls > 1 { stage.goes_on_without_ping().breaks(&["HTTP-049"]) } else { Ok(()) }
}

fn retry(stage: &mut Stage) -> Verdict {
    let Some((_, took)) = resume(stage)? else { return not_reachable("the client does not resume a stream") };
    ensure(took + SLACK >= RETRY, || {
        format!("the stream is resumed after {} ms instead of {}", took.as_millis(), RETRY.as_millis())
    })
}
