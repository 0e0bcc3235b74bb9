//! The authorization of a client at one protected server, as a state machine.
//!
//! # How it is driven
//!
//! 1. Each HTTP request to the server carries [`token`](AuthClient::token), if there is one, and remembers its id and
//!    its [`Attempts`].
//! 2. A response with status 401 or 403 is passed to [`handle_challenge`](AuthClient::handle_challenge), for any method
//!    of the request. The [`Verdict`] says whether the request is sent again, waits or fails.
//! 3. The application performs each [`Action`] and reports the result, until [`is_busy`](AuthClient::is_busy) is false.
//! 4. For requests that wait, `handle_challenge` is then called again, with the same response and attempts.
//!
//! A token of type [`TokenType::Dpop`] is presented with a [`proof`](AuthClient::proof), a new one for each request.
//! The `DPoP-Nonce` header of each response of the server is passed to [`handle_nonce`](AuthClient::handle_nonce).
//!
//! There is one action at a time: the next one begins after the result of the last one was reported. Only
//! [`sign_out`](AuthClient::sign_out) may begin an action at once, and the result of the earlier action is then
//! ignored. There is one refresh or authorization at a time, for any number of refused requests. The stored credentials
//! are read before each of them, and replaced by compare-and-swap on their [`Generation`]. So processes that share a
//! store use the tokens of each other and do not overwrite them.
//!
//! # When the user is not asked
//!
//! - A request causes at most one authorization, and at most [`Settings::step_ups`] more for scopes.
//! - After the user has cancelled, or the authorization server has responded with `access_denied`, no request causes an
//!   authorization before [`allow_authorization`](AuthClient::allow_authorization).
//! - After another error of the authorization server, in the redirect or in the response to the code, no request causes
//!   an authorization for an hour. After a temporary error the time is a minute. Requests that need an authorization
//!   fail with the same error in this time.
//! - A server may refuse the new token of an authorization with 401, to a request that has waited for it, or within an
//!   hour before [another request](AuthClient::handle_accepted) was successful. Then no request causes an authorization
//!   for an hour, unless the server accepts a token. Requests that need an authorization fail with
//!   [`AuthError::Refused`].
//!
//! The stored credentials are read in these times as well, so the client uses tokens of another process in which the
//! user has signed in. `allow_authorization` ends each of these times. There are two exceptions. If the authorization
//! server has forgotten a stored client, the next request registers it again and begins an authorization. An
//! authorization that has expired, or whose URL could not be opened, does not delay the next one.
//!
//! Only the first of these limits applies to grants without a user.
//!
//! # How long a flow takes
//!
//! A refresh, an authorization or a sign-out takes at most [ten minutes](AuthClient::MAX_TIME), however slowly the
//! servers answer and the user acts, and the time of the store in addition. Then
//! [`handle_timeout`](AuthClient::handle_timeout) ends it. If the user consents in the last minute of them, there is a
//! minute for the token request.
//!
//! # When no token is refreshed
//!
//! After a refresh that failed, and left the refresh token valid, there is a pause before the next one: a second, then
//! twice as long after each failure, up to five minutes. So a token endpoint that responds with 403, 404 or 5xx, or not
//! at all, gets few requests. Requests that need a refresh in the pause read the stored credentials, and use a newer
//! token in them. Otherwise they fail with the same error. A new token of this process or of another one ends the
//! pause, and so does `allow_authorization`.
//!
//! # When a server changes its authorization server
//!
//! Credentials belong to the issuer that issued them, and are sent to no other one. Those of the last
//! [few](Credentials::MAX_OTHERS) issuers of a server are kept. If the server names one of them again, its tokens and
//! its registration are used again, also in the times above. A change of the issuer does not end these times, because
//! the server chooses which issuer it names.

mod action;
mod credentials;
mod deadline;
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

/// The refreshes and authorizations that one HTTP request to the server has caused: at most one of each, and some more
/// authorizations for scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// The flow that the request waits for.
    flow: Option<u64>,
    /// The counts when the request was refused first.
    since: Option<Counts>,
    step_ups: u32,
    /// The token with which the request was repeated because of a nonce.
    repeated: Option<TokenId>,
}

/// The numbers of refreshes, and of authorizations that were requested and completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    refreshes: u64,
    authorizations: u64,
    completed: u64,
    /// The number of changes to tokens of another issuer.
    switches: u64,
}

/// The decision about a refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request is sent again, with the current token.
    Retry,
    /// The request waits until [`AuthClient::is_busy`] is false. Then [`AuthClient::handle_challenge`] is called again.
    Wait,
    /// The request fails.
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
    /// The type of the token. A token of type [`TokenType::Dpop`] needs a [proof](AuthClient::proof) with each request.
    pub token_type: TokenType,
    /// The id of the token.
    pub id: TokenId,
}

/// The server as a protected resource.
#[cfg_attr(test, derive(Clone))]
struct Resource {
    /// The identifier, byte for byte.
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
    /// The number of values that were derived from the seed.
    draws: u64,
    /// The number of ids of actions.
    ids: u64,
    action: Option<Action>,
    step: Step,
    goal: Goal,
    /// The number of flows, including the first load.
    flow: u64,
    /// When the servers must have answered all requests of the flow, and the user as well.
    until: Timestamp,
    counts: Counts,
    /// The counts when the flow began.
    counts_before: Counts,
    /// The scopes that the flow requests, and those that were requested before.
    wanted: Option<Scopes>,
    before: Scopes,
    /// The error of the last flow, if it failed.
    error: Option<AuthError>,
    /// The refusal of an authorization by the user or the authorization server. No interactive authorization begins.
    refusal: Option<AuthError>,
    /// The time in which no interactive authorization begins, after one has failed or the server has refused its token.
    authorization_pause: Option<AuthorizationPause>,
    /// The time in which no refresh begins, after refreshes have failed.
    refresh_pause: Option<RefreshPause>,
    /// The end of the time in which the tokens of the last authorization are new. The server has accepted none of them.
    new_until: Option<Timestamp>,
    /// Whether the flow has registered the client.
    has_registered: bool,
    /// The flow and the token of the last sign-out.
    signed_out: Option<(u64, TokenId)>,
    /// The last known generation of the store.
    base: Option<Generation>,
    /// The credentials in use.
    credentials: Option<Credentials>,
    /// The issuers whose credentials could not be stored.
    unsaved: Vec<String>,
    /// The issuers of the credentials that the store had when it was last read or written.
    stored: Vec<String>,
    /// The credentials at other issuers.
    others: Vec<Credentials>,
    /// Whether the flow may change to tokens of another issuer, and whether it has.
    may_switch: bool,
    has_switched: bool,
    /// The id of the access token in use.
    token_id: u64,
    /// The number of the authorization context.
    context: u64,
    /// The number of times that the flow has overwritten the stored credentials.
    overwrites: u32,
    metadata: Option<AuthorizationServer>,
    resource: Resource,
    /// The URL of the metadata in the last challenge.
    challenged: Option<Url>,
    /// The identity for which an authorization or an assertion was requested.
    client: Option<ClientIdentity>,
    /// The nonces of the server, and of the authorization server with this issuer.
    nonce: Option<String>,
    issuer_nonce: Option<(String, String)>,
    /// The last time that was passed in.
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
    /// Creates the authorization at a server, and requests the stored credentials as the first action.
    ///
    /// All secrets that the client generates are derived from `seed`, which must be unpredictable and is used once.
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
            until: Timestamp::ZERO,
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
            context: 0,
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

    /// Returns the policy for URLs, with which the application checks resolved addresses.
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

    /// Returns the number of the authorization context. Private results that were received in one context must not be
    /// used in another one.
    ///
    /// It is 0 until there are tokens or a sign-out, and changes with each sign-in and sign-out, with more scopes, and
    /// with tokens of another process. It does not change if this client refreshes its tokens, unless their scopes
    /// change, or if it gets them again with [its own credentials](GrantType::ClientCredentials). No number is used
    /// twice.
    #[must_use]
    pub const fn context(&self) -> u64 {
        self.context
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

    /// Returns whether the access token has expired, if the authorization server has named its lifetime.
    #[must_use]
    pub fn is_expired(&self, now: Now) -> bool {
        let tokens = self.credentials.as_ref().and_then(|credentials| credentials.tokens.as_ref());
        tokens.and_then(|tokens| tokens.expires_at).is_some_and(|end| end <= now.unix_seconds)
    }

    /// Returns whether a flow is in progress: tokens are loaded, requested or stored, or an authorization waits for the
    /// user.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        !matches!(self.step, Step::Idle)
    }

    /// Returns whether the tokens in use are stored. Tokens that could not be stored are used until the process ends.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.credentials.as_ref().is_none_or(|credentials| !self.unsaved.contains(&credentials.client.issuer))
    }

    /// Returns the error of the last flow, if it failed: of a load, a refresh, an authorization or a sign-out.
    #[must_use]
    pub const fn error(&self) -> Option<&AuthError> {
        self.error.as_ref()
    }

    /// Returns the next action of the application.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.action.take()
    }

    /// Refreshes the token, if there is a refresh token, no flow in progress and no pause after a failure. An
    /// interactive authorization follows only if a refused request waits for it.
    pub fn refresh(&mut self, now: Now) {
        self.set_now(now);
        if !self.is_busy() && self.has_refresh_token() && self.paused_for().is_none() {
            self.start(Goal::Refresh { may_ask: false }, None);
        }
    }

    /// Handles the value of the `DPoP-Nonce` header of a response of the server. It is called for each response that
    /// has one, before [`handle_challenge`](Self::handle_challenge).
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
        // Requests that were refused before the sign-out cause no new authorization.
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
        // The old token is the current one during an authorization.
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
            // The server has not refused this token for this request, and the user may take minutes.
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
                // The server has read the token, and would accept it for fewer scopes.
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
        // Another process may have signed in, also while no authorization begins in this one.
        self.wait(Goal::Authorize, wanted, attempts)
    }

    /// Requests more scopes: those that were requested and granted before, and those of the challenge.
    fn step_up(&mut self, wanted: Option<Scopes>, attempts: &mut Attempts) -> Verdict {
        let Some(wanted) = wanted else { return Verdict::Fail(AuthError::Refused) };
        let tokens = self.credentials.as_ref().and_then(|credentials| credentials.tokens.as_ref());
        let before = tokens.map_or_else(|| Some(Scopes::default()), |it| it.requested.union(&it.scopes));
        // Scopes that were requested before and are still missing will not be granted now.
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

    /// Begins a flow, which first loads the stored credentials.
    fn start(&mut self, goal: Goal, wanted: Option<Scopes>) {
        self.goal = goal;
        self.wanted = wanted;
        self.flow += 1;
        self.until = self.instant + Self::MAX_TIME;
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

    /// Derives new unpredictable bytes from the seed.
    fn draw(&mut self) -> [u8; 32] {
        self.draws += 1;
        HMAC::mac(self.draws.to_be_bytes(), self.seed.expose().as_bytes())
    }

    fn draw_authorization(&mut self) -> AuthorizationSeed {
        AuthorizationSeed { state: self.draw(), verifier: self.draw() }
    }
}

/// Returns bytes in hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |four: u8| char::from(DIGITS[usize::from(four)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests;
