//! Checks of completions, which are the same in both eras.

use serde_json::{Value, json};

use super::{
    outcome::{Verdict, not_applicable, not_reachable},
    probe::Probe,
    shapes,
};

const UNKNOWN: &str = "mcp-check-unknown";

/// Checks the shape of the first completion of an argument of a prompt.
pub(super) fn shape(probe: &mut Probe) -> Verdict {
    if probe.capability("prompts").is_none() {
        return not_applicable("the server has no prompts");
    }
    for prompt in probe.list("prompts/list", "prompts")? {
        let Some(argument) = prompt["arguments"].get(0) else { continue };
        let params = json!({
            "ref": {"type": "ref/prompt", "name": prompt["name"]},
            "argument": {"name": argument["name"], "value": ""},
        });
        let reply = probe.call("completion/complete", params)?;
        if reply.code().is_some() {
            continue;
        }
        return shapes::completion(&reply.message["result"]);
    }
    not_reachable("no argument of a prompt is completed")
}

fn of_unknown_prompt() -> Value {
    json!({"ref": {"type": "ref/prompt", "name": UNKNOWN}, "argument": {"name": "a", "value": ""}})
}

/// Checks the error for a prompt that does not exist.
pub(super) fn unknown(probe: &mut Probe) -> Verdict {
    probe.call("completion/complete", of_unknown_prompt())?.expect_code(-32602)
}

/// Checks the error of a server that does not declare `completions`.
pub(super) fn undeclared(probe: &mut Probe) -> Verdict {
    if probe.capability("completions").is_some() {
        return not_applicable("the server declares `completions`");
    }
    probe.call("completion/complete", of_unknown_prompt())?.expect_code(-32601)
}
