//! The provider of credentials.

use std::{
    fmt,
    future::Future,
    io, mem,
    sync::{Arc, Mutex},
    time::{Instant, SystemTime},
};

use http::{Extensions, HeaderName, HeaderValue, Request, Uri, header, response::Parts};
use mcp_proto::{
    auth::{
        AuthClient, Challenge, Secret, TokenType, Url, UrlPolicy,
        client::{Attempts, AuthError, GrantType, Now, ProofClaims, Settings, TokenId, Verdict},
        covers,
    },
    rpc::Timestamp,
};

use crate::{
    http::{
        auth::{
            drive::{self, DriveGuard},
            signer::{AssertionRequest, AssertionSigner, ProofSigner},
            store::{TokenStore, memory::MemoryTokenStore},
            transport::{AuthRuntime, AuthTransport},
            user_agent::UserAgent,
        },
        client::{AuthProvider, BoxFuture, Refusal},
    },
    sync::lock,
    watched::Watched,
};

/// The most tasks that a request starts, one after the other, if their runtimes end. A runtime that ends drops new
/// tasks at once.
const MAX_TASKS: usize = 3;

/// A provider of the credentials of a client with OAuth 2.1.
///
/// All requests of a client share the tokens, and so do clients that have clones of the same value. There is one
/// refresh and one authorization at a time, and it continues if the request that has caused it is dropped. A token that
/// is about to expire is refreshed before it is sent.
///
/// It is for one server: the address of the connector is that of the server, or below it. Requests to other origins
/// fail.
pub struct OAuth<R>(pub(super) Arc<Shared<R>>);

/// The state that the clones of a provider share.
pub(super) struct Shared<R> {
    pub(super) state: Watched<State>,
    epoch: Instant,
    /// The time by which the clock of a test is ahead.
    #[cfg(test)]
    pub(super) ahead: Mutex<std::time::Duration>,
    pub(super) server: Url,
    pub(super) transport: Arc<dyn AuthTransport<R>>,
    pub(super) store: Arc<dyn TokenStore>,
    pub(super) user_agent: Option<Arc<dyn UserAgent>>,
    pub(super) signer: Option<Arc<dyn AssertionSigner>>,
    pub(super) proofs: Option<Arc<dyn ProofSigner>>,
    pub(super) assertions: Option<Arc<Assertions>>,
    /// The runtime of the last task that has performed actions.
    runtime: Mutex<Option<R>>,
}

/// A function that supplies a JWT.
pub(super) type Assertions = dyn Fn(AssertionRequest) -> BoxFuture<'static, io::Result<Secret>> + Send + Sync;

/// The state machine, and whether a task performs its actions.
pub(super) struct State {
    pub(super) client: AuthClient,
    /// Whether a task performs the actions.
    pub(super) is_driven: bool,
    /// The number of changes from outside, which may have caused actions.
    pub(super) changes: u64,
    /// The error of the last sign-out, if it failed.
    pub(super) sign_out_error: Option<AuthError>,
    /// The last authorization context that was asked for, and its name.
    principal: Option<(u64, Arc<str>)>,
}

impl State {
    fn is_busy(&self) -> bool {
        self.client.is_busy()
    }

    /// Returns the name of the authorization context; `None` before the first one.
    fn principal(&mut self) -> Option<Arc<str>> {
        let context = self.client.context();
        if context != 0 && self.principal.as_ref().is_none_or(|(known, _)| *known != context) {
            self.principal = Some((context, Arc::from(context.to_string())));
        }
        self.principal.as_ref().map(|(_, name)| name.clone())
    }

    /// Returns whether an authorization waits for the user while there is a token that is newer than this one. A
    /// refused request is then sent again with it.
    fn asks_for_more(&self, used: Option<TokenId>, now: Now) -> bool {
        let has_other = self.client.token().is_some_and(|token| Some(token.id) != used);
        has_other && self.client.waits_for_user() && !self.client.is_expired(now)
    }

    /// Reports the result of an action.
    pub(super) fn report(&mut self, report: impl FnOnce(&mut AuthClient)) {
        let was_signing_out = self.client.is_signing_out();
        report(&mut self.client);
        if was_signing_out && !self.client.is_signing_out() {
            self.sign_out_error = self.client.error().cloned();
        }
    }
}

/// The header of proofs of possession (RFC 9449).
const DPOP: HeaderName = HeaderName::from_static("dpop");

/// The header with the nonce that a server requires in proofs.
pub(super) const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// The token with which a request was sent, and its attempts.
#[derive(Clone, Default)]
struct SentAuth {
    token: Option<TokenId>,
    attempts: Attempts,
}

/// A builder of an [`OAuth`].
pub struct OAuthBuilder<R> {
    server: Url,
    settings: Settings,
    policy: Option<UrlPolicy>,
    transport: Arc<dyn AuthTransport<R>>,
    store: Arc<dyn TokenStore>,
    user_agent: Option<Arc<dyn UserAgent>>,
    signer: Option<Arc<dyn AssertionSigner>>,
    proofs: Option<Arc<dyn ProofSigner>>,
    assertions: Option<Arc<Assertions>>,
}

impl<R: AuthRuntime> OAuth<R> {
    /// Creates a builder for the server at an address, which is that of the connector.
    ///
    /// # Errors
    /// If the address is no `http` or `https` URL.
    pub fn builder(server: &str) -> io::Result<OAuthBuilder<R>> {
        let server = Url::parse(server).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(OAuthBuilder {
            server,
            settings: Settings::default(),
            policy: None,
            transport: R::transport(),
            store: Arc::new(MemoryTokenStore::default()),
            user_agent: None,
            signer: None,
            proofs: None,
            assertions: None,
        })
    }

    /// Returns the error of the last load, refresh, authorization or sign-out, if it failed.
    #[must_use]
    pub fn error(&self) -> Option<AuthError> {
        self.0.state.read(|state| state.client.error().cloned())
    }

    /// Returns whether the tokens in use are stored. Tokens that could not be stored are used until the process ends.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.0.state.read(|state| state.client.is_stored())
    }

    /// Permits interactive authorizations again, after one was refused or cancelled or has failed, or the server has
    /// refused its token.
    pub fn allow_authorization(&self) {
        self.0.state.update(|state| state.client.allow_authorization());
    }

    /// Ends an authorization that waits for the user.
    pub fn cancel(&self) {
        self.0.state.update(|state| state.client.handle_cancelled());
    }

    /// Removes the tokens from the store, and then revokes them if the authorization server has a revocation endpoint.
    /// The future is ready after both. Dropping it stops neither.
    ///
    /// # Errors
    /// If there is no runtime, or the stored credentials could not be removed.
    pub async fn sign_out(&self) -> io::Result<()> {
        let now = self.0.now();
        self.0.state.update(|state| {
            state.client.sign_out(now);
            state.changes += 1;
        });
        // This does not wait for another flow that a request may begin afterwards.
        self.0.settle(|state| state.client.is_signing_out()).await?;
        let error = self.0.state.read(|state| state.sign_out_error.clone());
        error.map_or(Ok(()), |error| Err(io::Error::other(error)))
    }
}

impl<R: AuthRuntime> OAuthBuilder<R> {
    /// Sets the identities, scopes and limits of the client.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the store of the tokens. Default: in memory.
    #[must_use]
    pub fn store(mut self, store: impl TokenStore) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Sets the user agent, and the grant to [`GrantType::AuthorizationCode`] with its redirect URI. A registration
    /// without redirect URIs gets it as well.
    #[must_use]
    pub fn user_agent(mut self, user_agent: impl UserAgent) -> Self {
        self.user_agent = Some(Arc::new(user_agent));
        self
    }

    /// Sets the signer of the assertions of the client.
    #[must_use]
    pub fn signer(mut self, signer: impl AssertionSigner) -> Self {
        self.signer = Some(Arc::new(signer));
        self
    }

    /// Binds tokens to the key of a signer (DPoP). Its description of the key becomes a part of the settings.
    #[must_use]
    pub fn proofs(mut self, signer: impl ProofSigner) -> Self {
        self.proofs = Some(Arc::new(signer));
        self
    }

    /// Sets a function that supplies the JWT for [`GrantType::JwtBearer`] or [`GrantType::IdentityAssertion`].
    #[must_use]
    pub fn assertions<F, Fut>(mut self, assertions: F) -> Self
    where
        F: Fn(AssertionRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<Secret>> + Send + 'static,
    {
        self.assertions = Some(Arc::new(move |request| Box::pin(assertions(request))));
        self
    }

    /// Sets the HTTP client for the requests of the authorization.
    #[must_use]
    pub fn transport(mut self, transport: impl AuthTransport<R>) -> Self {
        self.transport = Arc::new(transport);
        self
    }

    /// Sets the policy for URLs and addresses. Default: the policy for the URL of the server. A server with another
    /// name than `localhost` counts as public.
    #[must_use]
    pub fn policy(mut self, policy: UrlPolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Builds the provider. It loads the stored credentials with the first request.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn build(self) -> io::Result<OAuth<R>> {
        let Self { server, mut settings, policy, transport, store, user_agent, signer, proofs, assertions } = self;
        if let Some(user_agent) = &user_agent {
            let redirect_uri = user_agent.redirect_uri().clone();
            if let Some(registration) = &mut settings.identities.registration
                && registration.redirect_uris.is_empty()
            {
                registration.redirect_uris.push(redirect_uri.clone());
            }
            settings.grant_type = GrantType::AuthorizationCode { redirect_uri };
        }
        if let Some(proofs) = &proofs {
            settings.dpop = Some(proofs.key());
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let mut client = AuthClient::new(server.clone(), settings, seed);
        if let Some(policy) = policy {
            client.set_policy(policy);
        }
        let state = Watched::new(State { client, is_driven: false, changes: 0, sign_out_error: None, principal: None });
        let epoch = Instant::now();
        let runtime = Mutex::default();
        Ok(OAuth(Arc::new(Shared {
            state,
            epoch,
            #[cfg(test)]
            ahead: Mutex::default(),
            server,
            transport,
            store,
            user_agent,
            signer,
            proofs,
            assertions,
            runtime,
        })))
    }
}

impl<R: AuthRuntime> Shared<R> {
    pub(super) fn now(&self) -> Now {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let elapsed = self.epoch.elapsed();
        #[cfg(test)]
        let elapsed = elapsed + *lock(&self.ahead);
        Now { instant: Timestamp::after_zero(elapsed), unix_seconds: unix.map_or(0, |since| since.as_secs()) }
    }

    /// Converts a time of the state machine.
    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        self.epoch + at.saturating_since(Timestamp::ZERO)
    }

    /// Waits until a flow has ended.
    async fn settle(self: &Arc<Self>, is_under_way: impl Fn(&State) -> bool) -> io::Result<()> {
        for _ in 0..MAX_TASKS {
            self.ensure_driven()?;
            let is_over = self.state.wait_for(|state| match (is_under_way(state), state.is_driven) {
                (false, _) => Some(true),
                (true, true) => None,
                // The runtime of the task has ended. The next task runs on the runtime of this request.
                (true, false) => Some(false),
            });
            if is_over.await {
                return Ok(());
            }
        }
        Err(io::Error::other("the runtime has ended"))
    }

    /// Starts a task that performs the actions, unless there is one.
    fn ensure_driven(self: &Arc<Self>) -> io::Result<()> {
        let is_needed = self.state.update(|state| state.client.is_busy() && !mem::replace(&mut state.is_driven, true));
        if is_needed {
            let guard = DriveGuard::new(self.clone());
            let runtime = {
                let mut last = lock(&self.runtime);
                let runtime = R::for_flow(last.take())?;
                *last = Some(runtime.clone());
                runtime
            };
            R::detach(runtime.spawn(drive::run(runtime.clone(), guard)));
        }
        Ok(())
    }

    async fn authorize(self: &Arc<Self>, request: &mut Request<Arc<[u8]>>) -> io::Result<()> {
        if !self.is_for_server(request.uri()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the request is not for the server of the tokens"));
        }
        self.renew().await?;
        let proof = self.state.update(|state| self.add_token(&mut state.client, request))?;
        if let (Some(claims), Some(signer)) = (proof, &self.proofs) {
            let value = secret_value(signer.sign(&claims)?.expose())?;
            request.headers_mut().insert(DPOP, value);
        }
        Ok(())
    }

    /// Waits for a token if there is none yet, and refreshes one that is about to expire. While an authorization waits
    /// for the user, a token is sent until it has expired.
    async fn renew(self: &Arc<Self>) -> io::Result<()> {
        // A token that has just been loaded may be about to expire as well.
        for _ in 0..2 {
            let now = self.now();
            let (is_refresh, waits) = self.state.update(|State { client, .. }| {
                let was_busy = client.is_busy();
                let asks_user = client.waits_for_user();
                let is_late = if asks_user { client.is_expired(now) } else { client.is_about_to_expire(now) };
                if is_late {
                    client.refresh(now);
                }
                (client.is_busy() && !was_busy, client.is_busy() && (is_late || client.token().is_none()))
            });
            if !waits {
                break;
            }
            self.settle(State::is_busy).await?;
            if is_refresh {
                break;
            }
        }
        Ok(())
    }

    /// Adds the token to a request. Returns the claims of its proof, if it needs one.
    fn add_token(&self, client: &mut AuthClient, request: &mut Request<Arc<[u8]>>) -> io::Result<Option<ProofClaims>> {
        let mut sent = request.extensions().get::<SentAuth>().cloned().unwrap_or_default();
        let token = client.token();
        sent.token = token.as_ref().map(|token| token.id);
        if let Some(token) = token {
            let scheme = if token.token_type == TokenType::Dpop { "DPoP" } else { "Bearer" };
            let value = secret_value(&format!("{scheme} {}", token.token.expose()))?;
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        request.extensions_mut().insert(sent);
        let url = Url::parse(&request.uri().to_string()).map_err(io::Error::other)?;
        Ok(client.proof(self.now(), request.method().as_str(), &url))
    }

    /// Returns whether a request is sent to the origin of the tokens.
    fn is_for_server(&self, uri: &Uri) -> bool {
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return false };
        Url::parse(&format!("{scheme}://{authority}/")).is_ok_and(|url| url.is_same_origin(&self.server))
    }

    async fn challenged(self: &Arc<Self>, refusal: &mut Refusal) -> bool {
        let challenges = Challenge::parse_all(refusal.challenges.iter().map(String::as_bytes));
        let mut sent = refusal.extensions.get::<SentAuth>().cloned().unwrap_or_default();
        let is_authorized = loop {
            let now = self.now();
            let verdict = self.state.update(|state| {
                state.client.handle_challenge(now, refusal.status, &challenges, sent.token, &mut sent.attempts)
            });
            match verdict {
                Verdict::Retry => break true,
                Verdict::Fail(_) => break false,
                Verdict::Wait => {
                    let waits = |state: &State| state.is_busy() && !state.asks_for_more(sent.token, self.now());
                    if self.settle(waits).await.is_err() {
                        break false;
                    }
                }
            }
        };
        refusal.extensions.insert(sent);
        is_authorized
    }
}

/// Returns a header value that is marked as sensitive.
fn secret_value(text: &str) -> io::Result<HeaderValue> {
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "the token is no header value");
    let mut value = HeaderValue::try_from(text).map_err(invalid)?;
    value.set_sensitive(true);
    Ok(value)
}

impl<R: AuthRuntime> AuthProvider for OAuth<R> {
    fn check_server(&self, url: &Uri) -> io::Result<()> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let url = Url::parse(&url.to_string()).map_err(invalid)?;
        if covers(&self.0.server, &url) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "the tokens are for another server"))
    }

    fn handle_response(&self, head: &Parts, extensions: &Extensions) {
        if head.status.is_success()
            && let Some(token) = extensions.get::<SentAuth>().and_then(|sent| sent.token)
        {
            self.0.state.update(|state| state.client.handle_accepted(token));
        }
        if let Some(nonce) = head.headers.get(DPOP_NONCE).and_then(|value| value.to_str().ok())
            && self.0.proofs.is_some()
        {
            self.0.state.update(|state| state.client.handle_nonce(nonce));
        }
    }

    fn authorize<'a>(&'a self, request: &'a mut Request<Arc<[u8]>>) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(self.0.authorize(request))
    }

    fn challenged<'a>(&'a self, refusal: &'a mut Refusal) -> BoxFuture<'a, bool> {
        Box::pin(self.0.challenged(refusal))
    }

    fn principal(&self) -> Option<Arc<str>> {
        self.0.state.update_quietly(State::principal)
    }
}

impl<R> Clone for OAuth<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R> fmt::Debug for OAuth<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.state.read(|state| f.debug_tuple("OAuth").field(&state.client).finish())
    }
}

impl<R> fmt::Debug for OAuthBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthBuilder").field("server", &self.server).finish_non_exhaustive()
    }
}
