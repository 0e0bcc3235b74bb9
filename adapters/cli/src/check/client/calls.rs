//! Checks of the requests that a client sends in a session.

use serde_json::{Value, json};

use super::{
    answers::claim,
    definition::{Check, legacy},
    stage::{Message, Script, Stage, Wait},
};
use crate::check::outcome::{Breaks, Rules, Verdict, failed, not_reachable};

pub(super) const CHECKS: &[Check] = &[
    legacy("undeclared-features", "Only features that are declared are used", &["LIFE-022", "TOOL-029"], undeclared)
        .since("2025-06-18"),
    legacy("cursor", "Cursors are returned as they are", &["PAGE-007"], cursor),
    legacy("open-results", "Unknown members of results are accepted", &["META-001"], open_results).should(),
];

/// A cursor that is changed by all that take it for something else than a text.
pub(super) const CURSOR: &str = "007 %20+=&/\u{e4}\u{1f600}\"\\ ";

fn undeclared(stage: &mut Stage) -> Verdict {
    stage.script.alter = Some(|request, answer| {
        if request["method"] == "initialize" {
            answer["result"]["capabilities"] = json!({});
        }
    });
    stage.open()?;
    let deadline = stage.deadline(stage.quiet());
    let is_feature = |it: &Message| {
        // Another client of the program may call a server of 2026-07-28.
        claim(&it.value).is_none()
            && ["tools/", "prompts/", "resources/", "completion/", "logging/"]
                .iter()
                .any(|name| it.method().starts_with(name))
    };
    match stage.wait(deadline, is_feature)? {
        Wait::Message(message) => {
            let broken: Rules = match message.method() {
                "tools/call" | "tools/list" => &[],
                _ => &["LIFE-022"],
            };
            failed(format!("the server declares nothing, and the client calls {}", message.method())).breaks(broken)
        }
        Wait::Silence | Wait::Ended(_) => Ok(()),
    }
}

/// Adds a cursor to the first page of each list.
pub(super) fn add_cursor(request: &Value, answer: &mut Value) {
    let is_list = request["method"].as_str().is_some_and(|method| method.ends_with("/list"));
    if is_list && answer["result"].is_object() && request["params"].get("cursor").is_none() {
        answer["result"]["nextCursor"] = json!(CURSOR);
    }
}

pub(super) fn cursor(stage: &mut Stage) -> Verdict {
    stage.script = Script { alter: Some(add_cursor), ..stage.script.clone() };
    stage.hold()?;
    stage.release();
    let deadline = stage.deadline(stage.timeout);
    match stage.wait(deadline, |it| it.value["params"].get("cursor").is_some())? {
        Wait::Message(message) => {
            stage.serve(&message);
            let cursor = &message.value["params"]["cursor"];
            if cursor == CURSOR { Ok(()) } else { failed(format!("the cursor {} becomes {cursor}", json!(CURSOR))) }
        }
        Wait::Silence | Wait::Ended(_) => not_reachable("the client does not ask for another page of a list"),
    }
}

/// Adds members that no revision has to each result. Its items may be closed.
pub(super) fn add_members(request: &Value, answer: &mut Value) {
    let Some(result) = answer.get_mut("result").and_then(Value::as_object_mut) else { return };
    if request["method"] == "ping" || request["method"] == "initialize" {
        return;
    }
    result.insert("checks".to_owned(), json!({"any": [1, null]}));
    let meta = result.entry("_meta").or_insert_with(|| json!({}));
    meta["example.com/check"] = json!([1]);
}

pub(super) fn open_results(stage: &mut Stage) -> Verdict {
    stage.script.alter = Some(add_members);
    stage.hold()?;
    if stage.held.is_none() {
        return not_reachable("the client does not call a method");
    }
    stage.settle()?;
    stage.release();
    stage.goes_on_without_ping()
}
