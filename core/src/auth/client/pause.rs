//! The pauses in which no authorization or no refresh begins.

use core::time::Duration;

use super::{
    AuthClient, TokenId,
    action::Now,
    error::AuthError,
    step::{Goal, Step},
};
use crate::{auth::authorization::RedirectError, rpc::Timestamp};

/// The pause before the next interactive authorization after one has failed, or after the server has refused its token.
const AUTHORIZATION_PAUSE: Duration = Duration::from_secs(60 * 60);

/// The pause after a temporary error of the authorization server.
const SHORT_AUTHORIZATION_PAUSE: Duration = Duration::from_secs(60);

/// A pause in which no interactive authorization begins, and its reason.
#[cfg_attr(test, derive(Clone))]
pub(super) struct AuthorizationPause {
    until: Timestamp,
    error: AuthError,
    /// The last token that the server has refused since the pause began. For requests that need no authorization, a
    /// server may accept any token.
    refused: Option<TokenId>,
}

/// The pause after the first refresh that has failed, and the longest pause after several.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// A pause in which no refresh begins, and its reason.
#[cfg_attr(test, derive(Clone))]
pub(super) struct RefreshPause {
    until: Timestamp,
    length: Duration,
    error: AuthError,
}

impl AuthClient {
    /// Returns the reason of the current pause of refreshes, if there is one.
    pub(super) fn paused_for(&self) -> Option<AuthError> {
        let pause = self.refresh_pause.as_ref().filter(|pause| self.instant < pause.until)?;
        Some(pause.error.clone())
    }

    /// Returns how long the last pause was, if it has not ended.
    #[cfg(test)]
    pub(super) fn pause_length(&self) -> Option<Duration> {
        self.refresh_pause.as_ref().filter(|pause| self.instant < pause.until).map(|pause| pause.length)
    }

    /// Handles the failure of a refresh.
    fn pause_refresh(&mut self, error: &AuthError) {
        let length = self.refresh_pause.as_ref().map_or(FIRST_PAUSE, |last| (last.length * 2).min(LAST_PAUSE));
        self.refresh_pause = Some(RefreshPause { until: self.instant + length, length, error: error.clone() });
    }

    /// Returns the reason why no interactive authorization begins now, if there is one.
    pub(super) fn refusal(&self) -> Option<AuthError> {
        let pause = self.authorization_pause.as_ref().filter(|pause| self.instant < pause.until);
        self.refusal.clone().or_else(|| pause.map(|pause| pause.error.clone()))
    }

    /// Permits interactive authorizations again, after one was refused or cancelled or has failed, or the server has
    /// refused its token.
    pub fn allow_authorization(&mut self) {
        self.refusal = None;
        self.authorization_pause = None;
        self.refresh_pause = None;
    }

    /// Handles the acceptance of the token `used` by the server: a response with a status from 200 to 299 to a request
    /// with this token.
    pub fn handle_accepted(&mut self, used: TokenId) {
        if self.token().is_some_and(|token| token.id == used) {
            self.end_pause_after_refusal(Some(used));
        }
    }

    /// Handles the acceptance of the current token by the server. This ends a pause because of a refusal, unless `used`
    /// is the refused token.
    pub(super) fn end_pause_after_refusal(&mut self, used: Option<TokenId>) {
        self.new_until = None;
        self.authorization_pause = self
            .authorization_pause
            .take()
            .filter(|pause| pause.error != AuthError::Refused || used.is_some() && pause.refused == used);
    }

    /// Handles the refusal of the current token by the server.
    pub(super) fn handle_refused(&mut self, used: TokenId) {
        if let Some(pause) = self.authorization_pause.as_mut().filter(|pause| pause.error == AuthError::Refused) {
            pause.refused = Some(used);
        }
    }

    /// Handles the arrival of tokens of an authorization.
    pub(super) fn handle_new_token(&mut self) {
        self.new_until = Some(self.instant + AUTHORIZATION_PAUSE);
    }

    /// Returns whether the current token comes from the last authorization, and the server has not accepted it yet.
    pub(super) fn is_token_new(&self, now: Now) -> bool {
        self.new_until.is_some_and(|end| self.instant < end) && !self.is_expired(now)
    }

    /// Begins a pause because the server has refused the token of an authorization.
    pub(super) fn pause_after_refusal(&mut self) {
        self.new_until = None;
        self.authorization_pause = Some(AuthorizationPause {
            until: self.instant + AUTHORIZATION_PAUSE,
            error: AuthError::Refused,
            refused: None,
        });
    }

    /// Ends the flow with an error. If the flow requested an authorization of the user, a pause of `time(&error)`
    /// begins, unless that is `None`. After a failed refresh a pause of refreshes begins, unless one has not ended or
    /// the client has signed out.
    pub(super) fn fail(&mut self, error: AuthError) {
        if error.is_refusal() {
            self.refusal = Some(error.clone());
        }
        let is_refresh = matches!(self.goal, Goal::Refresh { .. }) && self.paused_for().is_none();
        if is_refresh && error != AuthError::SignedOut {
            self.pause_refresh(&error);
        }
        let has_asked = self.counts.authorizations > self.counts_before.authorizations;
        if let (true, Some(time)) = (has_asked && self.settings.redirect_uri().is_some(), time(&error)) {
            self.authorization_pause =
                Some(AuthorizationPause { until: self.instant + time, error: error.clone(), refused: None });
        }
        self.error = Some(error);
        self.action = None;
        self.step = Step::Idle;
    }

    /// Ends a flow whose client the authorization server has forgotten. The next authorization registers another one,
    /// and is only delayed if this one is new.
    pub(super) fn fail_forgotten(&mut self, error: AuthError) {
        self.fail(error);
        if !self.has_registered {
            self.authorization_pause = None;
        }
    }
}

/// Returns the length of the pause after a failed authorization.
fn time(error: &AuthError) -> Option<Duration> {
    match error {
        // The URL was not opened, or no redirect has arrived.
        AuthError::NotAuthorizable(_) | AuthError::NotOpened(_) | AuthError::Expired | AuthError::SignedOut => None,
        AuthError::Redirect(RedirectError::Denied(error)) if error.is_temporary() => Some(SHORT_AUTHORIZATION_PAUSE),
        // The host of the token endpoint may be resolved to another address the next time.
        AuthError::Unavailable(_) | AuthError::Url(..) | AuthError::TimedOut => Some(SHORT_AUTHORIZATION_PAUSE),
        _ => Some(AUTHORIZATION_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{
        authorization::NotAuthorizable, document::DocumentError, oauth_error::OAuthError, policy::UrlRefused,
    };

    #[test]
    fn pause_after_each_failure_has_a_length() {
        let denied = |code: &str| {
            AuthError::Redirect(RedirectError::Denied(OAuthError { code: code.into(), description: None }))
        };
        let (minute, hour) = (Some(Duration::from_secs(60)), Some(Duration::from_secs(3600)));
        for (error, expected) in [
            (AuthError::NotAuthorizable(NotAuthorizable::NoPkce), None),
            (AuthError::NotOpened("x".into()), None),
            (AuthError::Expired, None),
            (AuthError::SignedOut, None),
            (denied("temporarily_unavailable"), minute),
            (denied("server_error"), minute),
            (denied("invalid_scope"), hour),
            (AuthError::Redirect(RedirectError::NoCode), hour),
            (AuthError::Unavailable(None), minute),
            (AuthError::TimedOut, minute),
            (AuthError::Unavailable(Some(503)), minute),
            (AuthError::Url("token_endpoint", UrlRefused::NotEncrypted), minute),
            (AuthError::Status(404), hour),
            (AuthError::Invalid(DocumentError::TooLong), hour),
        ] {
            assert_eq!(time(&error), expected, "{error}");
        }
        for (error, expected) in [
            (AuthError::Cancelled, true),
            (denied("access_denied"), true),
            (denied("server_error"), false),
            (AuthError::Expired, false),
        ] {
            assert_eq!(error.is_refusal(), expected, "{error}");
        }
    }
}
