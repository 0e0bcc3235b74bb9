//! Checks of lists, which are the same in both eras.

use serde_json::{Value, json};

use super::{
    outcome::{Verdict, judge_each, not_applicable},
    probe::Probe,
    shapes,
};

const UNKNOWN: &str = "mcp-check-unknown";

/// Returns the methods of the lists that the server has, with the member of their results.
pub(super) fn lists(probe: &Probe) -> Vec<(&'static str, &'static str)> {
    let has = |(capability, ..): &&(&str, &str, &str)| probe.capability(capability).is_some();
    shapes::LISTS.iter().filter(has).map(|(_, method, member)| (*method, *member)).collect()
}

/// Judges each list that the server has.
pub(super) fn each(
    probe: &mut Probe,
    mut judge: impl FnMut(&mut Probe, &'static str, &'static str) -> Verdict,
) -> Verdict {
    let lists = lists(probe);
    if lists.is_empty() {
        return not_applicable("the server has no lists");
    }
    judge_each(lists, |(method, member)| judge(probe, method, member))
}

/// Checks that a cursor which the server has not returned is refused.
pub(super) fn invalid_cursor(probe: &mut Probe) -> Verdict {
    let Some((method, _)) = lists(probe).first().copied() else { return not_applicable("the server has no lists") };
    // Whether the list is there at all is another check.
    probe.call_needed(method, Value::Null)?.result()?;
    probe.call(method, json!({"cursor": UNKNOWN}))?.expect_code(-32602)
}
