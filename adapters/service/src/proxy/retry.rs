//! Attempts that follow a failed one, after pauses that grow.

use std::{future::pending, time::Duration};

use mcp_proto::{connection::ClientRole, rpc::Timestamp};

use crate::outbound::peer::Peer;

/// The first pause before another attempt. Each further one is twice as long, up to a maximum.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The time of the next attempt, after one that has failed.
pub(super) struct Retry {
    at: Option<Timestamp>,
    pause: Duration,
    /// The time since which no attempt is needed.
    since: Option<Timestamp>,
}

impl Retry {
    pub(super) const fn new() -> Self {
        Self { at: None, pause: FIRST_PAUSE, since: None }
    }

    /// Plans an attempt, unless one is planned. The pauses begin again with the first one when no attempt was needed
    /// for the time of the longest one. So a server that accepts each attempt, and ends it at once, gets few of them.
    pub(super) fn plan(&mut self, is_needed: bool, peer: &Peer<ClientRole>, max: Duration) {
        let now = || peer.connection().update(|_, now| now);
        if !is_needed {
            self.at = None;
            self.since.get_or_insert_with(now);
        } else if self.at.is_none() {
            let now = now();
            if self.since.take().is_some_and(|since| now.saturating_since(since) >= max) {
                self.pause = FIRST_PAUSE;
            }
            self.at = Some(now + self.pause);
            self.pause = self.pause.saturating_mul(2).min(max).max(FIRST_PAUSE);
        }
    }

    /// Waits until the time of the planned attempt. Without one it never returns.
    pub(super) async fn wait(&mut self, peer: &Peer<ClientRole>) {
        match self.at {
            Some(at) => peer.connection().sleep_until(at).await,
            None => pending().await,
        }
        self.at = None;
    }
}
