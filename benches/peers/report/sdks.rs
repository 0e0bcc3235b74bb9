//! The smallest servers of other SDKs, by the script `benches/sdks/run`.

use std::{path::Path, process::Command};

/// Returns its table and the line above it, or the reason for which there is none.
pub(crate) fn measure() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdks/run");
    match Command::new(script).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("**Not measured**: {}\n", errors.lines().next_back().unwrap_or("the script has failed"))
        }
        Err(error) => format!("**Not measured**: {error}\n"),
    }
}
