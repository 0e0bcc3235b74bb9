//! Rules that hold for each message of a server: they are judged as messages arrive, for all checks.

use super::{
    outcome::{Verdict, failed},
    probe::Probe,
};

/// Fails if a message has broken the rule of the check that runs.
pub(super) fn passive(probe: &mut Probe) -> Verdict {
    match probe.noticed() {
        Some(bytes) => failed(format!("the server sent: {bytes}")),
        None => Ok(()),
    }
}
