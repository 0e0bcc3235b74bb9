//! Limits of this process.

use rustix::process::{Resource, getrlimit};

/// Returns how many connections this process should have at once if each takes so many descriptors: as many as fit in
/// three quarters of the descriptor limit, and at least one. The rest is left to handlers.
#[must_use]
pub fn most_connections(descriptors_each: usize) -> usize {
    let most = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    (most / 4 * 3 / descriptors_each.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_limit_reserves_file_descriptors() {
        let most =
            getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).expect("it fits"));
        assert_eq!(most_connections(1), most / 4 * 3);
        assert_eq!(most_connections(3), most / 4 * 3 / 3);
        assert_eq!(most_connections(usize::MAX), 1);
    }
}
