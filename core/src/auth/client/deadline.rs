//! The deadline of a flow.

use core::time::Duration;

use super::{
    AuthClient,
    action::Now,
    error::AuthError,
    step::{Goal, Step},
};
use crate::rpc::Timestamp;

/// The time for the token request after a redirect.
const TOKEN_TIME: Duration = Duration::from_secs(60);

impl AuthClient {
    /// The most time that the servers and the user have in one refresh, authorization or sign-out. An authorization has
    /// a minute more for the token request after a redirect.
    pub const MAX_TIME: Duration = Duration::from_secs(600);

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) has to be called. There is none while the
    /// store is read or written, and the caller bounds the time of that.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        match &self.step {
            // Tokens that are being stored are not lost: the server may have replaced the earlier ones.
            Step::Idle | Step::Loading(_) | Step::Storing(..) | Step::Removing(_) => None,
            Step::Browser(authorization) => Some(authorization.expires_at()),
            Step::Resource(..)
            | Step::Server(..)
            | Step::Registering(_)
            | Step::Asserting(_)
            | Step::Signing(..)
            | Step::Token(..)
            | Step::SigningRevocation(_)
            | Step::Revoking(_) => Some(self.until),
        }
    }

    /// Returns whether an authorization waits for the user.
    #[must_use]
    pub const fn waits_for_user(&self) -> bool {
        matches!(self.step, Step::Browser(_))
    }

    /// Ends a flow whose time is over. Later results of its actions are ignored. A sign-out leaves the remaining tokens
    /// unrevoked.
    pub fn handle_timeout(&mut self, now: Now) {
        self.set_now(now);
        if self.poll_timeout().is_none_or(|end| now.instant < end) {
            return;
        }
        match (&self.step, self.goal) {
            (Step::Browser(_), _) => self.fail(AuthError::Expired),
            // The stored tokens have not been removed yet.
            (Step::Token(..), Goal::SignOut) => self.start(Goal::SignOut, None),
            (_, Goal::SignOut) => self.end_sign_out(),
            _ => self.fail(AuthError::TimedOut),
        }
    }

    /// Returns how much time the flow has left.
    pub(super) fn time_left(&self) -> Duration {
        self.until.saturating_since(self.instant)
    }

    /// Leaves enough time for the token request after a redirect.
    pub(super) fn extend_for_token(&mut self) {
        self.until = self.until.max(self.instant + TOKEN_TIME);
    }
}
