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
}

impl Retry {
    pub(super) const fn new() -> Self {
        Self { at: None, pause: FIRST_PAUSE }
    }

    /// Plans an attempt, unless one is planned. If none is needed, the pauses begin again with the first one.
    pub(super) fn plan(&mut self, is_needed: bool, peer: &Peer<ClientRole>, max: Duration) {
        if !is_needed {
            *self = Self::new();
        } else if self.at.is_none() {
            self.at = Some(peer.connection().update(|_, now| now) + self.pause);
            self.pause = self.pause.saturating_mul(2).min(max).max(FIRST_PAUSE);
        }
    }

    /// Cancels the planned attempt, because another one begins now.
    pub(super) fn begin(&mut self) {
        self.at = None;
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
