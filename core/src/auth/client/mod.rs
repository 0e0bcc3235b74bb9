//! The authorization of a client at one protected server, as a state machine.
//!
//! # How it is driven
//!
//! 1. Each HTTP request to the server carries [`token`](AuthClient::token), if there is one, and remembers its generation and
//!    its [`Attempts`].
//! 2. A response with status 401 or 403 goes to [`handle_challenge`](AuthClient::handle_challenge), whatever the method of
//!    the request is. The [`Verdict`] says whether the request is sent again, waits or fails.
//! 3. The application performs each [`Action`] and reports the result, until [`is_busy`](AuthClient::is_busy) is false.
//! 4. Requests that wait ask [`verdict`](AuthClient::verdict) then.
//!
//! There is one refresh and one authorization at a time, however many requests are refused. What is stored is replaced by
//! compare-and-swap on its [`Generation`], so processes that share a store do not overwrite the tokens of each other.

mod action;
mod credentials;
mod error;
mod flow;
mod search;

use alloc::{boxed::Box, collections::VecDeque, string::String};
use core::fmt;

use hmac_sha256::HMAC;

pub use action::{Action, AssertionClaims, Now, Request, RequestId, Response};
pub use credentials::{Credentials, Generation, StoreReply, StoredTokens};
pub use error::AuthError;

use self::flow::{Goal, Step};
use super::{
    authorization::AuthorizationSeed,
    challenge::Challenge,
    client_identity::{ClientIdentity, ClientOptions},
    metadata::AuthorizationServer,
    policy::UrlPolicy,
    scope::Scopes,
    secret::Secret,
    token::TokenType,
    url::{Url, canonical},
};
use crate::rpc::Timestamp;

/// How a client gets tokens.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which identities the client has.
    pub identities: ClientOptions,
    /// Where the browser of the user is sent back to; `None` if there is no user: the client then uses its own credentials.
    pub redirect_uri: Option<Url>,
    /// The scopes that are asked for first; `None` for those of the challenge or of the metadata.
    pub scopes: Option<Scopes>,
    /// How often the client asks for more scopes.
    pub step_ups: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { identities: ClientOptions::default(), redirect_uri: None, scopes: None, step_ups: 3 }
    }
}

/// What one HTTP request to the server has led to so far: at most one refresh and one authorization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    has_refreshed: bool,
    has_authorized: bool,
}

/// What becomes of a request that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent again, with the current token.
    Retry,
    /// It waits until [`AuthClient::is_busy`] is false, and asks [`AuthClient::verdict`] then.
    Wait,
    /// It fails.
    Fail(AuthError),
}

/// An access token for a request.
#[derive(Clone, Copy, Debug)]
pub struct AccessToken<'a> {
    /// The token.
    pub token: &'a Secret,
    /// How it is presented.
    pub token_type: TokenType,
    /// Which one it is.
    pub generation: Generation,
}

/// The authorization of a client at one protected server.
pub struct AuthClient {
    settings: Settings,
    server: Url,
    policy: UrlPolicy,
    seed: Secret,
    /// How often something was drawn from the seed.
    draws: u64,
    actions: VecDeque<Action>,
    step: Step,
    goal: Goal,
    /// What is stored, and its generation.
    stored: Option<(Generation, Credentials)>,
    metadata: Option<AuthorizationServer>,
    /// The identifier of the resource, byte for byte, and the scopes that it supports.
    resource: (String, Option<Scopes>),
    /// Where the last challenge says that the metadata are.
    challenged: Option<Url>,
    error: Option<AuthError>,
    step_ups: u32,
    requests: u64,
    has_failed_to_store: bool,
    /// Who the user is asked for.
    client: Option<ClientIdentity>,
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
        let resource = (canonical(&server), None);
        let mut client = Self {
            policy: UrlPolicy::new(&server),
            server,
            settings,
            seed: Secret::new(hex(&seed)),
            draws: 0,
            actions: VecDeque::new(),
            step: Step::Idle,
            goal: Goal::Use,
            stored: None,
            metadata: None,
            resource,
            challenged: None,
            error: None,
            step_ups: 0,
            requests: 0,
            has_failed_to_store: false,
            client: None,
            instant: Timestamp::ZERO,
            unix_seconds: 0,
        };
        client.load(Goal::Use);
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
        let (generation, credentials) = self.stored.as_ref()?;
        let tokens = credentials.tokens.as_ref()?;
        Some(AccessToken { token: &tokens.access, token_type: tokens.token_type, generation: *generation })
    }

    /// Returns whether the access token expires within a minute and can be refreshed.
    #[must_use]
    pub fn is_about_to_expire(&self, now: Now) -> bool {
        let tokens = self.stored.as_ref().and_then(|(_, credentials)| credentials.tokens.as_ref());
        let expires_at = tokens.filter(|tokens| tokens.refresh.is_some()).and_then(|tokens| tokens.expires_at);
        expires_at.is_some_and(|end| end <= now.unix_seconds.saturating_add(60))
    }

    /// Returns whether something is under way: tokens are loaded, requested or stored, or the user is asked.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        !matches!(self.step, Step::Idle)
    }

    /// Returns whether the last tokens could not be stored. They are used as long as the process runs.
    #[must_use]
    pub const fn has_failed_to_store(&self) -> bool {
        self.has_failed_to_store
    }

    /// Returns what the application does next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        match &self.step {
            Step::Browser(authorization) => Some(authorization.expires_at()),
            _ => None,
        }
    }

    /// Refreshes the token, if nothing else is under way.
    pub fn refresh(&mut self, now: Now) {
        self.set_now(now);
        if !self.is_busy() && self.has_refresh_token() {
            self.error = None;
            self.load(Goal::Refresh);
        }
    }

    /// Handles a response with status 401 or 403 to a request that had the token of the generation `used`, or none.
    ///
    /// `challenges` are those of its `WWW-Authenticate` headers.
    pub fn handle_challenge(
        &mut self,
        now: Now,
        status: u16,
        challenges: &[Challenge],
        used: Option<Generation>,
        attempts: &mut Attempts,
    ) -> Verdict {
        self.set_now(now);
        if let Some(error) = self.error.as_ref().filter(|error| error.is_final()) {
            return Verdict::Fail(error.clone());
        }
        if self.is_busy() {
            attempts.has_refreshed |= self.goal == Goal::Refresh;
            attempts.has_authorized |= matches!(self.goal, Goal::Authorize(_));
            return Verdict::Wait;
        }
        if self.token().is_some_and(|token| Some(token.generation) != used) {
            return Verdict::Retry;
        }
        let bearer = challenges.iter().find(|challenge| challenge.is("bearer"));
        let dpop = || challenges.iter().find(|challenge| challenge.is("dpop"));
        let challenge = bearer.or_else(dpop);
        let wanted = challenge.and_then(Challenge::scopes);
        self.challenged = challenge.and_then(Challenge::resource_metadata).and_then(Result::ok);
        if status == 403 {
            return self.step_up(challenge, wanted);
        }
        if self.has_refresh_token() && !attempts.has_refreshed {
            attempts.has_refreshed = true;
            self.error = None;
            self.load(Goal::Refresh);
            return Verdict::Wait;
        }
        if attempts.has_authorized {
            return Verdict::Fail(AuthError::Refused);
        }
        attempts.has_authorized = true;
        self.authorize(wanted);
        Verdict::Wait
    }

    /// Asks for more scopes: those that were granted and those that are wanted.
    fn step_up(&mut self, challenge: Option<&Challenge>, wanted: Option<Scopes>) -> Verdict {
        let is_about_scopes = challenge.and_then(Challenge::error) == Some("insufficient_scope");
        let (Some(wanted), true) = (wanted, is_about_scopes) else { return Verdict::Fail(AuthError::Refused) };
        let granted = self.stored.as_ref().and_then(|(_, credentials)| credentials.tokens.as_ref());
        let granted = granted.map(|tokens| tokens.scopes.clone()).unwrap_or_default();
        let all = granted.union(&wanted).filter(|all| *all != granted && self.step_ups < self.settings.step_ups);
        let Some(all) = all else { return Verdict::Fail(AuthError::Scopes) };
        self.step_ups += 1;
        self.authorize(Some(all));
        Verdict::Wait
    }

    /// Returns what becomes of a request that has waited, and had the token of the generation `used`, or none.
    #[must_use]
    pub fn verdict(&self, used: Option<Generation>) -> Verdict {
        match (&self.error, self.token()) {
            _ if self.is_busy() => Verdict::Wait,
            (_, Some(token)) if Some(token.generation) != used => Verdict::Retry,
            (error, _) => Verdict::Fail(error.clone().unwrap_or(AuthError::Refused)),
        }
    }

    /// Forgets the tokens, at the authorization server as well if it has a revocation endpoint that is known.
    pub fn sign_out(&mut self, now: Now) {
        self.actions.clear();
        self.error = None;
        self.goal = Goal::SignOut;
        self.revoke(now);
    }

    fn has_refresh_token(&self) -> bool {
        let tokens = self.stored.as_ref().and_then(|(_, credentials)| credentials.tokens.as_ref());
        tokens.is_some_and(|tokens| tokens.refresh.is_some())
    }

    fn authorize(&mut self, scopes: Option<Scopes>) {
        self.error = None;
        self.goal = Goal::Authorize(scopes.map(Box::new));
        self.find_resource();
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
