//! Limits of this process.

use rustix::process::{Resource, getrlimit};

/// Returns how many connections this process should have at once if each takes so many descriptors: as many as fit in
/// three quarters of the descriptor limit, and at least one. The rest is left to handlers.
#[must_use]
pub fn most_connections(descriptors_each: usize) -> usize {
    most_within(getrlimit(Resource::Nofile).current, descriptors_each)
}

/// Returns the same for a process with this descriptor limit, if it has one.
fn most_within(limit: Option<u64>, descriptors_each: usize) -> usize {
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    (limit / 4 * 3 / descriptors_each.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use std::{env, process::Command};

    use super::*;

    #[test]
    fn connections_leave_a_quarter_of_the_descriptors() {
        for (limit, each, most) in [
            (1024, 1, 768),
            (1024, 3, 256),
            (64, 3, 16),
            (256, 0, 192),
            (4, 3, 1),
            (4, 4, 1),
            (3, 1, 1),
            (0, 1, 1),
            (1024, usize::MAX, 1),
        ] {
            assert_eq!(most_within(Some(limit), each), most, "{limit} and {each}");
        }
        assert!(most_within(None, 3) > 1 << 24, "no limit");
    }

    /// The limit concerns the whole process, so this runs in a process of its own, whose hard limit is not lowered.
    #[test]
    fn connections_fit_into_the_limit_of_the_process() {
        const IN_CHILD: &str = "MCP_TEST_DESCRIPTORS";
        if env::var_os(IN_CHILD).is_some() {
            assert_eq!((most_connections(1), most_connections(3)), (72, 24));
            return;
        }
        let name = std::thread::current().name().map(str::to_owned).expect("the name of the test");
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -S -n 96 && exec \"$0\" --exact \"$1\""]);
        shell.arg(env::current_exe().expect("this program")).arg(name);
        let output = shell.env(IN_CHILD, "1").output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
}
