//! The policy by which a server that has ended is started again.

use std::{collections::VecDeque, time::Duration};

use mcp_proto::connection::Backoff;
use mcp_service::driver_api::Instant;

/// How often a server that has ended is started again, and how soon.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestartPolicy {
    /// The delays before a start: none before the first one, and growing ones before the next. Default a quarter of a
    /// second, up to 8 seconds.
    pub backoff: Backoff,
    /// The number of starts within [`window`](Self::window), not counting the initial one. When it is reached, the
    /// server is not started again. Default 5.
    pub budget: usize,
    /// How long a start counts. A server that has run for so long has its full budget again. Default 5 minutes.
    pub window: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self { backoff: Backoff::default(), budget: 5, window: Duration::from_secs(300) }
    }
}

/// The recent starts of one server.
#[derive(Clone, Debug, Default)]
pub struct RestartState {
    policy: RestartPolicy,
    /// The starts within the window of the policy.
    starts: VecDeque<Instant>,
}

impl RestartState {
    /// Creates the state of a policy without any starts so far.
    #[must_use]
    pub const fn new(policy: RestartPolicy) -> Self {
        Self { policy, starts: VecDeque::new() }
    }

    /// Returns when to start the server again after it has ended, or could not be started. Returns `None` if the budget
    /// of starts is spent for now.
    pub fn next(&mut self, now: Instant) -> Option<Instant> {
        let RestartPolicy { backoff, budget, window } = self.policy;
        while self.starts.front().is_some_and(|start| now.saturating_duration_since(*start) > window) {
            self.starts.pop_front();
        }
        if self.starts.len() >= budget {
            return None;
        }
        let pause = backoff.delay(u32::try_from(self.starts.len()).unwrap_or(u32::MAX));
        let start = now + pause;
        self.starts.push_back(start);
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_the_budget_is_spent() {
        let ms = Duration::from_millis;
        let policy = RestartPolicy {
            backoff: Backoff { initial: ms(100), max: ms(300) },
            budget: 4,
            window: Duration::from_secs(10),
        };
        let mut restarts = RestartState::new(policy);
        let mut now = Instant::now();
        for pause in [ms(0), ms(100), ms(200), ms(300)] {
            let start = restarts.next(now).expect("there is some budget left");
            assert_eq!(start - now, pause);
            now = start + ms(1);
        }
        assert_eq!(restarts.next(now), None);
        assert_eq!(restarts.next(now + Duration::from_secs(5)), None, "what was refused costs nothing");
        // As old starts leave the window, budget is free again. The remaining starts determine the delay.
        now += Duration::from_secs(9);
        assert_eq!(restarts.next(now), None);
        now += Duration::from_secs(1);
        assert!(restarts.next(now).is_some());
        assert_eq!(restarts.next(now + Duration::from_secs(60)), Some(now + Duration::from_secs(60)), "a clean slate");
    }
}
