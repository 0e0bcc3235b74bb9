//! The times in which no authorization and no refresh begins.

use core::time::Duration;

use super::{
    AuthClient, TokenId,
    action::Now,
    error::AuthError,
    step::{Goal, Step},
};
use crate::{auth::authorization::RedirectError, rpc::Timestamp};

/// How long no authorization with a user begins by itself after one has failed, or after the server has refused its
/// token.
const AUTHORIZATION_PAUSE: Duration = Duration::from_secs(60 * 60);

/// How long it is if the authorization server could not answer for the moment.
const SHORT_AUTHORIZATION_PAUSE: Duration = Duration::from_secs(60);

/// A time in which no authorization with a user begins, and its reason.
#[cfg_attr(test, derive(Clone))]
pub(super) struct AuthorizationPause {
    until: Timestamp,
    error: AuthError,
    /// The last token that the server has refused since then. A server that serves a part of the requests to everybody
    /// does not look at it there.
    refused: Option<TokenId>,
}

/// How long no refresh begins after the first one has failed, and at most after several.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// A time in which no refresh begins, and its reason.
#[cfg_attr(test, derive(Clone))]
pub(super) struct RefreshPause {
    until: Timestamp,
    length: Duration,
    error: AuthError,
}

impl AuthClient {
    /// Returns why no refresh begins now.
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

    /// Returns why no authorization with a user begins now.
    pub(super) fn refusal(&self) -> Option<AuthError> {
        let pause = self.authorization_pause.as_ref().filter(|pause| self.instant < pause.until);
        self.refusal.clone().or_else(|| pause.map(|pause| pause.error.clone()))
    }

    /// Lets the user be asked again, after an authorization was refused or cancelled or has failed, or the server has
    /// refused its token.
    pub fn allow_authorization(&mut self) {
        self.refusal = None;
        self.authorization_pause = None;
        self.refresh_pause = None;
    }

    /// Handles that the server has taken the token `used`: a response with a status from 200 to 299 to a request that
    /// had it.
    pub fn handle_accepted(&mut self, used: TokenId) {
        if self.token().is_some_and(|token| token.id == used) {
            self.end_pause_after_refusal(Some(used));
        }
    }

    /// Handles the acceptance of the current token by the server. It ends a pause because of a refusal, unless `used`
    /// is the token that was refused.
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

    /// Takes that there are tokens of an authorization.
    pub(super) fn handle_new_token(&mut self) {
        self.new_until = Some(self.instant + AUTHORIZATION_PAUSE);
    }

    /// Returns whether the current token is one of the last authorization, and the server should take it but has not
    /// yet.
    pub(super) fn is_token_new(&self, now: Now) -> bool {
        self.new_until.is_some_and(|end| self.instant < end) && !self.is_expired(now)
    }

    /// Takes that the server has refused the token of an authorization.
    pub(super) fn pause_after_refusal(&mut self) {
        self.new_until = None;
        self.authorization_pause = Some(AuthorizationPause {
            until: self.instant + AUTHORIZATION_PAUSE,
            error: AuthError::Refused,
            refused: None,
        });
    }

    /// Ends the flow with an error. If the user was asked, no authorization begins for a time.
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

/// Returns how long the pause after a failed authorization is.
fn time(error: &AuthError) -> Option<Duration> {
    match error {
        // Nothing was shown to the user, or the user and the authorization server have not answered.
        AuthError::NotAuthorizable(_) | AuthError::NotOpened(_) | AuthError::Expired | AuthError::SignedOut => None,
        AuthError::Redirect(RedirectError::Denied(error)) if error.is_temporary() => Some(SHORT_AUTHORIZATION_PAUSE),
        // The name of the token endpoint may have another address the next time.
        AuthError::Unavailable(_) | AuthError::Url(..) => Some(SHORT_AUTHORIZATION_PAUSE),
        _ => Some(AUTHORIZATION_PAUSE),
    }
}
