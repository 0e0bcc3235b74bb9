//! The authorization of a client at one protected server, as a state machine.
//!
//! # How it is driven
//!
//! 1. Each HTTP request to the server carries [`token`](AuthClient::token), if there is one, and remembers its id and
//!    its [`Attempts`].
//! 2. A response with status 401 or 403 goes to [`handle_challenge`](AuthClient::handle_challenge), whatever the method
//!    of the request is. The [`Verdict`] says whether the request is sent again, waits or fails.
//! 3. The application performs each [`Action`] and reports the result, until [`is_busy`](AuthClient::is_busy) is false.
//! 4. Requests that wait call `handle_challenge` again then, with the same response and attempts.
//!
//! A token of type [`TokenType::Dpop`] is presented with a [`proof`](AuthClient::proof), a new one for each request.
//! The `DPoP-Nonce` header of each response of the server goes to [`handle_nonce`](AuthClient::handle_nonce).
//!
//! An action begins after the result of the one before was reported, so there is one at a time.
//! [`sign_out`](AuthClient::sign_out) alone may begin one at once: the result of the earlier one is ignored then. There
//! is one refresh and one authorization at a time, however many requests are refused, and no token is refreshed while
//! the user is asked. What is stored is read before each of them, and replaced by compare-and-swap on its
//! [`Generation`]. So processes that share a store use the tokens of each other and do not overwrite them.
//!
//! # When the user is not asked
//!
//! - A request leads to at most one authorization, and to [`Settings::step_ups`] more for scopes.
//! - After the user has cancelled, or the authorization server has answered `access_denied`, no request leads to one
//!   before [`allow_authorization`](AuthClient::allow_authorization).
//! - After another answer of the authorization server from which no token comes, in the redirect or to the code, no
//!   request leads to one for an hour; for a minute if that server could not answer for the moment. Requests that need
//!   an authorization fail with the same error until then.
//! - A server may refuse the new token of an authorization with 401, to a request that has waited for it, or within an
//!   hour before [another request](AuthClient::handle_accepted) was successful. Then no request leads to one for an
//!   hour, unless the server takes a token. Requests that need an authorization fail with [`AuthError::Refused`].
//!
//! What is stored is read in these times as well, so the tokens of another process in which the user has signed in are
//! used. `allow_authorization` ends each of these times. There are two exceptions. A stored client that the
//! authorization server has forgotten is registered again by the next request, and the user is asked again. An
//! authorization that has expired, or whose URL could not be shown to the user, does not delay the next one.
//!
//! Grants without a user have only the first of these limits.
//!
//! # When no token is refreshed
//!
//! After a refresh that brought neither a token nor the end of the refresh token, the next one waits: a second, then
//! twice as long after each failure, up to five minutes. So a token endpoint that answers with 403, 404 or 5xx, or not
//! at all, is asked rarely, however many requests are refused. Requests that need a refresh fail with the same error
//! until then, after what is stored was read. A new token, of this process or of another, ends the pause, and so does
//! `allow_authorization`.
//!
//! # When a server changes its authorization server
//!
//! Credentials belong to the issuer that has given them out, and are sent to no other one. Those of the last
//! [few](Credentials::MAX_OTHERS) issuers of a server are kept. If the server names one of them again, its tokens and
//! its registration are used again, also while the user is not asked. No issuer makes the user be asked in that time,
//! since the server chooses which one it names.

mod action;
mod credentials;
mod dpop;
mod error;
mod exchange;
mod flow;
mod pause;
mod search;
mod settings;
mod sign_out;
mod step;
mod storage;

use alloc::{string::String, vec::Vec};
use core::fmt;

use hmac_sha256::HMAC;

pub use action::{Action, ActionId, AssertionClaims, AssertionKind, Claims, Now, Request, Response};
pub use credentials::{Credentials, Generation, StoreReply, StoredTokens};
pub use dpop::{DpopKey, ProofClaims};
pub use error::AuthError;
pub use settings::{GrantType, IdentityProvider, Settings};

use self::{
    pause::{AuthorizationPause, RefreshPause},
    step::{Goal, Step},
};
use super::{
    authorization::AuthorizationSeed,
    bearer::BearerError,
    challenge::Challenge,
    client_identity::ClientIdentity,
    metadata::AuthorizationServer,
    policy::UrlPolicy,
    scope::Scopes,
    secret::Secret,
    token::TokenType,
    url::{Url, canonical, canonical_url},
};
use crate::rpc::Timestamp;

/// What one HTTP request to the server has led to so far: at most one refresh and one authorization, and some more for
/// scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// The flow that the request waits for.
    flow: Option<u64>,
    /// What had happened when the request was refused first.
    since: Option<Counts>,
    step_ups: u32,
    /// The token with which it was repeated because of a nonce.
    repeated: Option<TokenId>,
}

/// How often tokens were refreshed, and authorizations requested and completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    refreshes: u64,
    authorizations: u64,
    completed: u64,
    /// How often tokens of another issuer were taken into use.
    switches: u64,
}

/// What becomes of a request that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent again, with the current token.
    Retry,
    /// It waits until [`AuthClient::is_busy`] is false, and calls [`AuthClient::handle_challenge`] again then.
    Wait,
    /// It fails.
    Fail(AuthError),
}

/// Identifies an access token within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(u64);

/// An access token for a request.
#[derive(Clone, Copy, Debug)]
pub struct AccessToken<'a> {
    /// The token.
    pub token: &'a Secret,
    /// How it is presented. A token of type [`TokenType::Dpop`] needs a [proof](AuthClient::proof) with each request.
    pub token_type: TokenType,
    /// Which one it is.
    pub id: TokenId,
}

/// The protected resource that the server is.
#[cfg_attr(test, derive(Clone))]
struct Resource {
    /// Its identifier, byte for byte.
    id: Url,
    scopes: Option<Scopes>,
    needs_dpop: bool,
}

/// The authorization of a client at one protected server.
#[cfg_attr(test, derive(Clone))]
pub struct AuthClient {
    settings: Settings,
    server: Url,
    policy: UrlPolicy,
    seed: Secret,
    /// How often something was drawn from the seed.
    draws: u64,
    /// How many actions had an id.
    ids: u64,
    action: Option<Action>,
    step: Step,
    goal: Goal,
    /// Counts flows, from the first load on.
    flow: u64,
    counts: Counts,
    /// What they were when the flow began.
    counts_before: Counts,
    /// The scopes that the flow asks for, and those that were asked for before.
    wanted: Option<Scopes>,
    before: Scopes,
    /// How the last flow has failed.
    error: Option<AuthError>,
    /// The user, or the authorization server, has refused an authorization. The user is not asked again.
    refusal: Option<AuthError>,
    /// The user is not asked for a time, since an authorization has failed or the server has refused its token.
    authorization_pause: Option<AuthorizationPause>,
    /// No refresh begins for a time, since refreshes have failed.
    refresh_pause: Option<RefreshPause>,
    /// Until when the tokens of the last authorization are new. The server has taken none of them.
    new_until: Option<Timestamp>,
    /// Whether the flow has registered the client.
    has_registered: bool,
    /// The flow and the token of the last sign-out.
    signed_out: Option<(u64, TokenId)>,
    /// The generation that the store is known to have.
    base: Option<Generation>,
    /// What is in use.
    credentials: Option<Credentials>,
    /// The issuers whose credentials could not be stored.
    unsaved: Vec<String>,
    /// The issuers of the credentials that the store had when it was last read or written.
    stored: Vec<String>,
    /// The credentials at other issuers.
    others: Vec<Credentials>,
    /// Whether the flow may take tokens of another issuer into use, and whether it has.
    may_switch: bool,
    has_switched: bool,
    /// Which access token is in use.
    token_id: u64,
    /// How often the flow has overwritten what is stored.
    overwrites: u32,
    metadata: Option<AuthorizationServer>,
    resource: Resource,
    /// Where the last challenge says that the metadata are.
    challenged: Option<Url>,
    /// The identity for which the user, or the application, is asked.
    client: Option<ClientIdentity>,
    /// The nonces of the server, and of the authorization server with this issuer.
    nonce: Option<String>,
    issuer_nonce: Option<(String, String)>,
    /// The time that was told last.
    instant: Timestamp,
    unix_seconds: u64,
}

impl fmt::Debug for AuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, step, goal, error, .. } = self;
        f.debug_struct("AuthClient")
            .field("server", server)
            .field("step", &step.name())
            .field("goal", goal)
            .field("error", error)
            .finish_non_exhaustive()
    }
}

impl AuthClient {
    /// Creates the authorization at a server and asks for what is stored.
    ///
    /// All secrets that the client makes up are derived from `seed`, which must be unpredictable and is used once.
    #[must_use]
    pub fn new(server: Url, settings: Settings, seed: [u8; 32]) -> Self {
        let mut client = Self {
            policy: UrlPolicy::new(&server),
            resource: Resource { id: canonical_url(&server), scopes: None, needs_dpop: false },
            server,
            settings,
            seed: Secret::new(hex(&seed)),
            draws: 0,
            ids: 0,
            action: None,
            step: Step::Idle,
            goal: Goal::Use,
            flow: 0,
            counts: Counts::default(),
            counts_before: Counts::default(),
            wanted: None,
            before: Scopes::default(),
            error: None,
            refusal: None,
            authorization_pause: None,
            refresh_pause: None,
            new_until: None,
            has_registered: false,
            signed_out: None,
            base: None,
            credentials: None,
            unsaved: Vec::new(),
            stored: Vec::new(),
            others: Vec::new(),
            may_switch: true,
            has_switched: false,
            token_id: 0,
            overwrites: 0,
            metadata: None,
            challenged: None,
            client: None,
            nonce: None,
            issuer_nonce: None,
            instant: Timestamp::ZERO,
            unix_seconds: 0,
        };
        client.start(Goal::Use, None);
        client
    }

    /// Returns the policy for URLs, which the application asks for resolved addresses.
    #[must_use]
    pub const fn policy(&self) -> &UrlPolicy {
        &self.policy
    }

    /// Replaces the policy, for example by one that knows the address of the server.
    pub fn set_policy(&mut self, policy: UrlPolicy) {
        self.policy = policy;
    }

    /// Returns the access token, if there is one.
    #[must_use]
    pub fn token(&self) -> Option<AccessToken<'_>> {
        let tokens = self.credentials.as_ref().filter(|_| self.goal != Goal::SignOut)?.tokens.as_ref()?;
        Some(AccessToken { token: &tokens.access, token_type: tokens.token_type, id: TokenId(self.token_id) })
    }

    /// Returns whether the access token expires soon and can be refreshed: in a minute, or in half of its life if that
    /// is less.
    #[must_use]
    pub fn is_about_to_expire(&self, now: Now) -> bool {
        let tokens = self.credentials.as_ref().and_then(|credentials| credentials.tokens.as_ref());
        tokens.filter(|tokens| tokens.refresh.is_some()).is_some_and(|tokens| {
            tokens.expires_at.is_some_and(|end| {
                let margin = 60.min(end.saturating_sub(tokens.issued_at) / 2);
                end <= now.unix_seconds.saturating_add(margin)
            })
        })
    }

    /// Returns whether the access token has expired, as far as the authorization server has said when it does.
    #[must_use]
    pub fn is_expired(&self, now: Now) -> bool {
        let tokens = self.credentials.as_ref().and_then(|credentials| credentials.tokens.as_ref());
        tokens.and_then(|tokens| tokens.expires_at).is_some_and(|end| end <= now.unix_seconds)
    }

    /// Returns whether something is under way: tokens are loaded, requested or stored, or the user is asked.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        !matches!(self.step, Step::Idle)
    }

    /// Returns whether the tokens in use are stored. Those that could not be stored are used as long as the process
    /// runs.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.credentials.as_ref().is_none_or(|credentials| !self.unsaved.contains(&credentials.client.issuer))
    }

    /// Returns how the last flow has failed: a load, a refresh, an authorization or a sign-out.
    #[must_use]
    pub const fn error(&self) -> Option<&AuthError> {
        self.error.as_ref()
    }

    /// Returns what the application does next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.action.take()
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        match &self.step {
            Step::Browser(authorization) => Some(authorization.expires_at()),
            _ => None,
        }
    }

    /// Refreshes the token, if there is a refresh token, nothing else is under way and no pause after a failure. The
    /// user is not asked, unless a request that was refused waits for it.
    pub fn refresh(&mut self, now: Now) {
        self.set_now(now);
        if !self.is_busy() && self.has_refresh_token() && self.paused_for().is_none() {
            self.start(Goal::Refresh { may_ask: false }, None);
        }
    }

    /// Handles the value of the `DPoP-Nonce` header of a response of the server: of each response that has one, and
    /// before [`handle_challenge`](Self::handle_challenge).
    pub fn handle_nonce(&mut self, value: &str) {
        self.nonce = dpop::nonce(value).or(self.nonce.take());
    }

    /// Returns the claims of the proof for a request with the current token; `None` if it is presented without a proof.
    pub fn proof(&mut self, now: Now, method: &str, url: &Url) -> Option<ProofClaims> {
        let is_bound = |token: &AccessToken<'_>| token.token_type == TokenType::Dpop;
        let token = self.token().filter(is_bound)?.token.clone();
        let id = hex(&self.draw());
        Some(ProofClaims::new(id, method, url, now.unix_seconds, Some(&token), self.nonce.as_deref()))
    }

    /// Handles a response with status 401 or 403 to a request that had the token `used`, or none.
    ///
    /// `challenges` are those of its `WWW-Authenticate` headers.
    pub fn handle_challenge(
        &mut self,
        now: Now,
        status: u16,
        challenges: &[Challenge],
        used: Option<TokenId>,
        attempts: &mut Attempts,
    ) -> Verdict {
        self.set_now(now);
        let flow = attempts.flow.take();
        // What was refused before the client has signed out does not sign it in again.
        let is_before = |(last, token)| flow.is_some_and(|flow| flow <= last) || used.is_some_and(|used| used <= token);
        if self.signed_out.is_some_and(is_before) {
            return Verdict::Fail(AuthError::SignedOut);
        }
        let is_known = |challenge: &&Challenge| challenge.is("bearer") || challenge.is("dpop");
        let known = || challenges.iter().filter(is_known);
        let is_current = self.token().is_some_and(|token| Some(token.id) == used);
        if is_current && known().any(|challenge| challenge.error() == Some(dpop::USE_NONCE)) {
            let is_new = self.nonce.is_some() && core::mem::replace(&mut attempts.repeated, used) != used;
            return if is_new { Verdict::Retry } else { Verdict::Fail(AuthError::Refused) };
        }
        let wanted = known().find_map(Challenge::scopes);
        let since = *attempts.since.get_or_insert(if self.is_busy() { self.counts_before } else { self.counts });
        let has_authorized = self.counts.authorizations > since.authorizations;
        // The old token is the current one while the user is asked for another.
        let has_new_token = self.counts.completed > since.completed;
        let is_refused = self.settings.redirect_uri().is_some() && (has_new_token || self.is_token_new(now));
        if status == 401 && is_current && is_refused {
            self.pause_after_refusal();
        }
        if let (401, true, Some(used)) = (status, is_current, used) {
            self.handle_refused(used);
        }
        let has_other = self.token().is_some_and(|token| Some(token.id) != used);
        if has_other && self.is_busy() && self.goal == Goal::Authorize && !self.is_expired(now) {
            // The server has not refused this token to the request, and the user may take minutes.
            return Verdict::Retry;
        }
        if self.is_busy() {
            if let (401, Goal::Refresh { may_ask: may_ask @ false }) = (status, &mut self.goal) {
                *may_ask = !has_authorized;
                self.wanted = wanted;
            }
            attempts.flow = Some(self.flow);
            return Verdict::Wait;
        }
        if let (true, Some(error)) = (flow == Some(self.flow), &self.error) {
            return Verdict::Fail(error.clone());
        }
        if has_other {
            return Verdict::Retry;
        }
        self.challenged = known().find_map(|challenge| challenge.resource_metadata()?.ok());
        if status == 403 {
            let is_about_scopes =
                known().any(|challenge| challenge.error() == Some(BearerError::InsufficientScope.code()));
            if is_about_scopes && is_current {
                // The server has looked at the token, and would take it for less.
                self.end_pause_after_refusal(None);
            }
            return self.step_up(wanted.filter(|_| is_about_scopes), attempts);
        }
        if self.has_refresh_token() && self.counts.refreshes == since.refreshes {
            return self.wait(Goal::Refresh { may_ask: !has_authorized }, wanted, attempts);
        }
        if has_authorized {
            return Verdict::Fail(AuthError::Refused);
        }
        // Another process may have signed in, also while the user of this one is not asked.
        self.wait(Goal::Authorize, wanted, attempts)
    }

    /// Asks for more scopes: those that were asked for and granted before, and those that are wanted.
    fn step_up(&mut self, wanted: Option<Scopes>, attempts: &mut Attempts) -> Verdict {
        let Some(wanted) = wanted else { return Verdict::Fail(AuthError::Refused) };
        let tokens = self.credentials.as_ref().and_then(|credentials| credentials.tokens.as_ref());
        let before = tokens.map_or_else(|| Some(Scopes::default()), |it| it.requested.union(&it.scopes));
        // Scopes that were asked for before and are still missing will not be granted now.
        let all = before.filter(|before| !before.has_all(&wanted)).and_then(|before| before.union(&wanted));
        let Some(all) = all.filter(|_| attempts.step_ups < self.settings.step_ups) else {
            return Verdict::Fail(AuthError::Scopes);
        };
        attempts.step_ups += 1;
        self.wait(Goal::Authorize, Some(all), attempts)
    }

    fn wait(&mut self, goal: Goal, wanted: Option<Scopes>, attempts: &mut Attempts) -> Verdict {
        let is_first = attempts.since.is_none_or(|since| since.switches == self.counts.switches);
        self.start(goal, wanted);
        self.may_switch = is_first;
        attempts.flow = Some(self.flow);
        Verdict::Wait
    }

    fn has_refresh_token(&self) -> bool {
        let tokens = self.credentials.as_ref().and_then(|credentials| credentials.tokens.as_ref());
        tokens.is_some_and(|tokens| tokens.refresh.is_some())
    }

    /// Begins a flow: what is stored is read first.
    fn start(&mut self, goal: Goal, wanted: Option<Scopes>) {
        self.goal = goal;
        self.wanted = wanted;
        self.flow += 1;
        self.counts_before = self.counts;
        self.error = None;
        self.has_registered = false;
        self.overwrites = 0;
        (self.may_switch, self.has_switched) = (true, false);
        self.load();
    }

    fn next_id(&mut self) -> ActionId {
        self.ids += 1;
        ActionId(self.ids)
    }

    fn key(&self) -> String {
        canonical(&self.server)
    }

    fn set_now(&mut self, now: Now) {
        self.instant = self.instant.max(now.instant);
        self.unix_seconds = now.unix_seconds;
    }

    /// Draws unpredictable bytes that were not drawn before.
    fn draw(&mut self) -> [u8; 32] {
        self.draws += 1;
        HMAC::mac(self.draws.to_be_bytes(), self.seed.expose().as_bytes())
    }

    fn draw_authorization(&mut self) -> AuthorizationSeed {
        AuthorizationSeed { state: self.draw(), verifier: self.draw() }
    }
}

/// Returns bytes as text.
fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |four: u8| char::from(DIGITS[usize::from(four)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests;
