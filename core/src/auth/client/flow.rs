//! The steps from a challenge to a token.

use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};

use super::{
    AuthClient,
    action::{Action, AssertionClaims, Now, Request, RequestId, Response},
    credentials::{Credentials, Generation, StoreReply, StoredTokens},
    error::AuthError,
    hex,
    search::{Next, Search},
};
use crate::auth::{
    auth_method::AuthMethod,
    authorization::{Authorization, AuthorizationCode, AuthorizationRequest, RedirectError},
    client_identity::{ClientIdentity, IdentityChoice},
    discovery::{self, NotFound},
    metadata::{AuthorizationServer, ProtectedResource},
    pkce::CodeVerifier,
    scope::Scopes,
    secret::Secret,
    token::{Grant, TokenReply, TokenRequest, Tokens},
    url::{Url, canonical},
};

/// What the steps lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// To use what is stored.
    Use,
    /// To get a token with a refresh token.
    Refresh,
    /// To get a token with the consent of the user, or with the credentials of the client; with these scopes.
    Authorize(Option<Box<Scopes>>),
    /// To have no token.
    SignOut,
}

/// What is under way.
pub(super) enum Step {
    Idle,
    Loading,
    Resource(RequestId, Search<ProtectedResource>),
    /// The metadata of an authorization server with this issuer; or, for 2025-03-26, those of the server itself.
    Server(RequestId, Search<AuthorizationServer>, Issuer),
    Registering(RequestId),
    Browser(Box<Authorization>),
    Signing(Box<Pending>),
    Token(RequestId, Box<Pending>),
    Storing(Box<Credentials>),
    /// The tokens of which the refresh token was refused are removed.
    Dropping,
    Revoking(RequestId),
    Removing,
}

/// The issuer of an authorization server.
#[derive(Clone)]
pub(super) enum Issuer {
    Named(String),
    /// The server has no protected resource metadata: it is its own authorization server, as in 2025-03-26.
    Server,
}

/// A token request that waits for a signature, or for its response.
pub(super) struct Pending {
    kind: Kind,
    client: ClientIdentity,
    resource: String,
    scopes: Scopes,
}

enum Kind {
    Code(AuthorizationCode),
    Refresh(Secret),
    Client,
}

impl Step {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Loading => "loading",
            Self::Resource(..) => "finding the protected resource metadata",
            Self::Server(..) => "finding the authorization server metadata",
            Self::Registering(_) => "registering",
            Self::Browser(_) => "waiting for the redirect",
            Self::Signing(_) => "signing",
            Self::Token(..) => "requesting a token",
            Self::Storing(_) => "storing",
            Self::Dropping | Self::Removing => "removing",
            Self::Revoking(_) => "revoking",
        }
    }

    const fn request(&self) -> Option<RequestId> {
        match self {
            Self::Resource(id, _)
            | Self::Server(id, ..)
            | Self::Registering(id)
            | Self::Token(id, _)
            | Self::Revoking(id) => Some(*id),
            _ => None,
        }
    }
}

impl AuthClient {
    fn key(&self) -> String {
        canonical(&self.server)
    }

    pub(super) fn load(&mut self, goal: Goal) {
        self.goal = goal;
        self.step = Step::Loading;
        self.actions.push_back(Action::Load { key: self.key() });
    }

    fn fail(&mut self, error: AuthError) {
        self.error = Some(error);
        self.step = Step::Idle;
    }

    fn request(&mut self, method: &'static str, url: Url, headers: &[(&'static str, &str)], body: Secret) -> RequestId {
        self.requests += 1;
        let id = RequestId(self.requests);
        let headers = headers.iter().map(|(name, value)| (*name, Secret::new(*value))).collect();
        self.actions.push_back(Action::Request(Request { id, method, url, headers, body }));
        id
    }

    fn get(&mut self, url: Url) -> RequestId {
        // The revision of the header is the one of the rules that ask for it (2025-03-26).
        let headers = [("accept", "application/json"), ("mcp-protocol-version", "2025-03-26")];
        self.request("GET", url, &headers, Secret::new(""))
    }

    /// Handles what is stored under the key; an error if it could not be loaded.
    pub fn handle_loaded(&mut self, found: Result<Option<(Generation, Credentials)>, ()>) {
        if !matches!(self.step, Step::Loading) {
            return;
        }
        let Ok(found) = found else { return self.fail(AuthError::NotLoaded) };
        let before = self.stored.as_ref().map(|(generation, _)| *generation);
        let is_new = found.as_ref().is_some_and(|(generation, _)| Some(*generation) != before);
        if found.is_some() || !self.has_failed_to_store {
            self.stored = found;
        }
        self.step = Step::Idle;
        // Another process may have refreshed the token already.
        if self.goal == Goal::Refresh && !(is_new && self.token().is_some()) {
            if self.metadata.is_some() { self.proceed() } else { self.find_resource() }
        }
    }

    pub(super) fn find_resource(&mut self) {
        let challenged = self.challenged.as_ref().filter(|url| self.policy.check(url).is_ok());
        let mut search = Search::new(discovery::protected_resource(&self.server, challenged));
        let next = search.next(&self.policy);
        self.search_resource(search, next);
    }

    fn search_resource(&mut self, search: Search<ProtectedResource>, next: Next<ProtectedResource>) {
        match next {
            Next::Request(url) => {
                let id = self.get(url);
                self.step = Step::Resource(id, search);
            }
            Next::Over(Ok(found)) => {
                let known = |issuer: &&Url| {
                    let identities = &self.settings.identities.pre_registered;
                    identities.iter().any(|identity| identity.issuer == issuer.as_str())
                };
                let servers = &found.authorization_servers;
                let Some(issuer) = servers.iter().find(known).or_else(|| servers.first()).cloned() else {
                    return self.fail(AuthError::Discovery(NotFound::Missing([].into())));
                };
                self.resource = (found.resource, found.scopes_supported);
                if let Err(refused) = self.policy.check(&issuer) {
                    return self.fail(AuthError::Url("authorization_servers", refused));
                }
                self.find_server(discovery::authorization_server(&issuer), Issuer::Named(issuer.as_str().into()));
            }
            Next::Over(Err(NotFound::Missing(_))) => {
                self.resource = (canonical(&self.server), None);
                self.find_server(discovery::of_2025_03_26(&self.server), Issuer::Server);
            }
            Next::Over(Err(error)) => self.fail(AuthError::Discovery(error)),
        }
    }

    fn find_server(&mut self, candidates: Vec<discovery::Candidate>, issuer: Issuer) {
        let mut search = Search::new(candidates);
        let next = search.next(&self.policy);
        self.search_server(search, issuer, next);
    }

    fn search_server(&mut self, search: Search<AuthorizationServer>, issuer: Issuer, next: Next<AuthorizationServer>) {
        match (next, issuer) {
            (Next::Request(url), issuer) => {
                let id = self.get(url);
                self.step = Step::Server(id, search, issuer);
            }
            (Next::Over(Ok(found)), _) => {
                for (name, url) in found.urls() {
                    if let Err(refused) = self.policy.check(url) {
                        return self.fail(AuthError::Url(name, refused));
                    }
                }
                self.metadata = Some(found);
                self.proceed();
            }
            (Next::Over(Err(NotFound::Missing(_))), Issuer::Server) => {
                self.metadata = Some(default_server(&self.server));
                self.proceed();
            }
            (Next::Over(Err(error)), _) => self.fail(AuthError::Discovery(error)),
        }
    }

    /// Goes on when the metadata are known.
    fn proceed(&mut self) {
        let Some(server) = self.metadata.clone() else { return self.find_resource() };
        let stored = self.stored.as_ref().map(|(_, credentials)| credentials);
        if self.goal == Goal::Refresh {
            let tokens = stored.filter(|it| it.client.issuer == server.issuer).and_then(|it| it.tokens.as_ref());
            if let (Some(tokens), Some(credentials)) = (tokens, stored)
                && let Some(refresh) = &tokens.refresh
            {
                let (kind, client) = (Kind::Refresh(refresh.clone()), credentials.client.clone());
                let (resource, scopes) = (tokens.resource.clone(), tokens.scopes.clone());
                return self.sign(Pending { kind, client, resource, scopes });
            }
            // The authorization server is another one by now.
            self.goal = Goal::Authorize(None);
        }
        let choice = self.settings.identities.choose(&server, stored.map(|it| &it.client), self.unix_seconds);
        match choice {
            Ok(IdentityChoice::Known(client)) => self.ask(client),
            Ok(IdentityChoice::Register(url)) => {
                let Some(registration) = &self.settings.identities.registration else { return };
                let body = registration.body(&server, &self.scopes());
                let headers = [("accept", "application/json"), ("content-type", "application/json")];
                let id = self.request("POST", url, &headers, Secret::new(body));
                self.step = Step::Registering(id);
            }
            Err(error) => self.fail(AuthError::Identity(error)),
        }
    }

    /// Returns the scopes of the next request: those of a challenge, of the settings, or of the resource.
    fn scopes(&self) -> Scopes {
        let Self { goal, settings, resource, .. } = self;
        match goal {
            Goal::Authorize(Some(scopes)) => (**scopes).clone(),
            _ => Scopes::first(settings.scopes.as_ref(), resource.1.as_ref()),
        }
    }

    /// Asks the user, or the token endpoint if there is no user.
    fn ask(&mut self, client: ClientIdentity) {
        let (scopes, resource) = (self.scopes(), self.resource.0.clone());
        let Some(redirect_uri) = self.settings.redirect_uri.clone() else {
            if client.auth_method == Some(AuthMethod::None) {
                return self.fail(AuthError::NotInteractive);
            }
            return self.sign(Pending { kind: Kind::Client, client, resource, scopes });
        };
        let seed = self.draw_authorization();
        let Some(server) = &self.metadata else { return };
        let request = AuthorizationRequest {
            server,
            client: &client,
            redirect_uri: &redirect_uri,
            resource: &resource,
            scopes: &scopes,
        };
        match Authorization::new(&request, &seed, self.instant, Authorization::LIFETIME) {
            Ok(authorization) => {
                self.actions.push_back(Action::OpenBrowser(authorization.url().clone()));
                self.step = Step::Browser(Box::new(authorization));
                self.client = Some(client);
            }
            Err(error) => self.fail(AuthError::NotAuthorizable(error)),
        }
    }

    /// Handles the query of a redirect.
    ///
    /// # Errors
    /// Returns why the redirect is not the answer to the authorization that is under way. An authorization that is not
    /// concerned waits on.
    pub fn handle_redirect(&mut self, now: Now, query: &str) -> Result<(), RedirectError> {
        self.set_now(now);
        let Step::Browser(authorization) = &mut self.step else { return Err(RedirectError::Used) };
        match authorization.handle_redirect(now.instant, query) {
            Ok(code) => {
                let Some(client) = self.client.take() else { return Ok(()) };
                let (resource, scopes) = (code.resource.clone(), code.scopes.clone());
                self.sign(Pending { kind: Kind::Code(code), client, resource, scopes });
                Ok(())
            }
            Err(error @ (RedirectError::Denied(_) | RedirectError::NoCode)) => {
                self.fail(AuthError::Redirect(error.clone()));
                Err(error)
            }
            Err(RedirectError::Expired) => {
                self.fail(AuthError::Expired);
                Err(RedirectError::Expired)
            }
            Err(error) => Err(error),
        }
    }

    /// Ends the authorization that waits for the user. The user is not asked again.
    pub fn handle_cancelled(&mut self) {
        if matches!(self.step, Step::Browser(_)) {
            self.fail(AuthError::Cancelled);
        }
    }

    /// Ends an authorization whose redirect did not come in time.
    pub fn handle_timeout(&mut self, now: Now) {
        self.set_now(now);
        if self.poll_timeout().is_some_and(|end| end <= now.instant) {
            self.fail(AuthError::Expired);
        }
    }

    /// Requests a token, after the client has signed if it has to.
    fn sign(&mut self, pending: Pending) {
        if pending.client.auth_method != Some(AuthMethod::PrivateKeyJwt) {
            return self.request_token(Box::new(pending), None);
        }
        let id = hex(&self.draw());
        self.actions.push_back(Action::Sign(AssertionClaims {
            client_id: pending.client.client_id.clone(),
            audience: pending.client.issuer.clone(),
            id,
            issued_at: self.unix_seconds,
            expires_at: self.unix_seconds.saturating_add(60),
        }));
        self.step = Step::Signing(Box::new(pending));
    }

    /// Handles the signed assertion of the client; `None` if it cannot be signed.
    pub fn handle_signed(&mut self, assertion: Option<&Secret>) {
        match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Signing(pending) => match assertion {
                Some(assertion) => self.request_token(pending, Some(assertion)),
                None => self.fail(AuthError::NotSigned),
            },
            step => self.step = step,
        }
    }

    fn request_token(&mut self, pending: Box<Pending>, assertion: Option<&Secret>) {
        let Some(server) = &self.metadata else { return };
        let Pending { kind, client, resource, scopes } = &*pending;
        let grant = match kind {
            Kind::Code(code) => Grant::Code(code),
            Kind::Refresh(token) => Grant::Refresh { token, resource },
            Kind::Client => Grant::ClientCredentials { resource, scopes },
        };
        match TokenRequest::new(&grant, server, client, assertion) {
            Ok(request) => {
                let id = self.post(request);
                self.step = Step::Token(id, pending);
            }
            Err(error) => self.fail(AuthError::NotRequestable(error)),
        }
    }

    fn post(&mut self, request: TokenRequest) -> RequestId {
        let TokenRequest { url, authorization, body } = request;
        let mut headers =
            alloc::vec![("accept", "application/json"), ("content-type", "application/x-www-form-urlencoded")];
        headers.extend(authorization.as_ref().map(|value| ("authorization", value.expose())));
        self.request("POST", url, &headers, body)
    }

    /// Handles the response to a request; `None` if there was none.
    pub fn handle_response(&mut self, now: Now, id: RequestId, response: Option<Response<'_>>) {
        self.set_now(now);
        if self.step.request() != Some(id) {
            return;
        }
        match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Resource(_, mut search) => {
                let next = search.handle(response, &self.policy, |body| ProtectedResource::parse(body, &self.server));
                self.search_resource(search, next);
            }
            Step::Server(_, mut search, issuer) => {
                let base = discovery::authorization_base(&self.server);
                let name = match &issuer {
                    Issuer::Named(name) => name,
                    Issuer::Server => base.as_str(),
                };
                let next = search.handle(response, &self.policy, |body| AuthorizationServer::parse(body, name));
                self.search_server(search, issuer, next);
            }
            Step::Registering(_) => self.handle_registered(response),
            Step::Token(_, pending) => self.handle_token(*pending, response),
            Step::Revoking(_) => self.remove(),
            _ => {}
        }
    }

    fn handle_registered(&mut self, response: Option<Response<'_>>) {
        let Some(server) = &self.metadata else { return };
        let (status, body) = response.map_or((503, &[][..]), |response| (response.status, response.body));
        match ClientIdentity::from_registration(&server.issuer, status, body) {
            Ok(client) => self.ask(client),
            Err(error) => self.fail(AuthError::Registration(error)),
        }
    }

    fn handle_token(&mut self, pending: Pending, response: Option<Response<'_>>) {
        let Some(response) = response else { return self.fail(AuthError::Unavailable(None)) };
        let reply = TokenReply::parse(response.status, response.body);
        let is_refresh = matches!(pending.kind, Kind::Refresh(_));
        if is_refresh && (reply.is_grant_invalid() || reply.is_client_invalid()) {
            return self.drop_tokens(reply.is_client_invalid());
        }
        match reply {
            TokenReply::Granted(tokens) => self.store(pending, tokens),
            TokenReply::Rejected(error) => self.fail(AuthError::Rejected(error)),
            TokenReply::Transient(status) | TokenReply::Status(status) => {
                self.fail(AuthError::Unavailable(Some(status)));
            }
            TokenReply::Invalid(error) => self.fail(AuthError::Invalid(error)),
        }
    }

    fn store(&mut self, pending: Pending, tokens: Tokens) {
        let Pending { kind, client, resource, scopes } = pending;
        // A response without a refresh token leaves the one that was used as it is.
        let refresh = tokens.refresh.or(match kind {
            Kind::Refresh(token) => Some(token),
            Kind::Code(_) | Kind::Client => None,
        });
        let expires_at = tokens.expires_in.map(|time| self.unix_seconds.saturating_add(time.as_secs()));
        let tokens = StoredTokens {
            access: tokens.access,
            token_type: tokens.token_type,
            refresh,
            resource,
            scopes: tokens.scopes.unwrap_or(scopes),
            expires_at,
        };
        self.put(Credentials { client, tokens: Some(tokens) });
    }

    fn put(&mut self, credentials: Credentials) {
        let expected = self.stored.as_ref().map(|(generation, _)| *generation).filter(|_| !self.has_failed_to_store);
        let credentials = Box::new(credentials);
        self.actions.push_back(Action::Store { key: self.key(), expected, credentials: Some(credentials.clone()) });
        self.step = Step::Storing(credentials);
    }

    /// Removes the tokens whose refresh token was refused, and the identity too if it was that.
    fn drop_tokens(&mut self, and_client: bool) {
        let Some((generation, credentials)) = self.stored.take() else { return self.fail(AuthError::Refused) };
        let is_known =
            self.settings.identities.pre_registered.iter().any(|it| it.client_id == credentials.client.client_id);
        let left = Credentials { tokens: None, ..credentials };
        let left = (!and_client || is_known).then(|| Box::new(left));
        self.stored = left.as_deref().map(|left| (generation, left.clone()));
        self.actions.push_back(Action::Store { key: self.key(), expected: Some(generation), credentials: left });
        self.step = Step::Dropping;
    }

    /// Handles the answer of the store.
    pub fn handle_stored(&mut self, reply: StoreReply) {
        match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Storing(credentials) => self.handle_put(*credentials, reply),
            Step::Dropping => {
                match reply {
                    StoreReply::Stored(generation) => {
                        self.stored = self.stored.take().map(|(_, credentials)| (generation, credentials));
                    }
                    StoreReply::Conflict(found) => {
                        self.stored = found.map(|found| *found);
                        if self.token().is_some() {
                            // Another process has refreshed the token.
                            return;
                        }
                    }
                    StoreReply::Failed => self.has_failed_to_store = true,
                }
                self.goal = Goal::Authorize(None);
                self.proceed();
            }
            Step::Removing => {
                if let StoreReply::Conflict(Some(found)) = reply {
                    self.stored = None;
                    let key = self.key();
                    self.actions.push_back(Action::Store { key, expected: Some(found.0), credentials: None });
                    self.step = Step::Removing;
                }
            }
            step => self.step = step,
        }
    }

    fn handle_put(&mut self, credentials: Credentials, reply: StoreReply) {
        match reply {
            StoreReply::Stored(generation) => {
                self.has_failed_to_store = false;
                self.stored = Some((generation, credentials));
            }
            StoreReply::Conflict(found) => {
                self.stored = found.map(|found| *found);
                if self.goal != Goal::Refresh || self.token().is_none() {
                    // These tokens are newer: the user has just consented to them.
                    self.put(credentials);
                }
            }
            StoreReply::Failed => {
                self.has_failed_to_store = true;
                let generation = self.stored.as_ref().map_or(0, |(generation, _)| generation.0);
                self.stored = Some((Generation(generation.wrapping_add(1)), credentials));
            }
        }
    }

    /// Revokes the tokens, if the server has an endpoint for that, and removes what is stored.
    pub(super) fn revoke(&mut self, now: Now) {
        self.set_now(now);
        let request = self.stored.as_ref().zip(self.metadata.as_ref()).and_then(|((_, credentials), server)| {
            let tokens = credentials.tokens.as_ref()?;
            let (token, hint) = match &tokens.refresh {
                Some(refresh) => (refresh, "refresh_token"),
                None => (&tokens.access, "access_token"),
            };
            TokenRequest::revocation(token, hint, server, &credentials.client, None).ok()
        });
        match request {
            Some(request) => {
                let id = self.post(request);
                self.step = Step::Revoking(id);
            }
            None => self.remove(),
        }
    }

    fn remove(&mut self) {
        let Some((generation, _)) = self.stored.take() else {
            self.step = Step::Idle;
            return;
        };
        self.actions.push_back(Action::Store { key: self.key(), expected: Some(generation), credentials: None });
        self.step = Step::Removing;
    }

    pub(super) fn set_now(&mut self, now: Now) {
        self.instant = self.instant.max(now.instant);
        self.unix_seconds = now.unix_seconds;
    }
}

/// Returns what is assumed of a server of 2025-03-26 without metadata.
fn default_server(server: &Url) -> AuthorizationServer {
    let endpoints = discovery::default_endpoints(server);
    AuthorizationServer {
        issuer: discovery::authorization_base(server).as_str().to_string(),
        authorization_endpoint: Some(endpoints.authorization),
        token_endpoint: endpoints.token,
        registration_endpoint: Some(endpoints.registration),
        revocation_endpoint: None,
        scopes_supported: None,
        token_endpoint_auth_methods: ["none", "client_secret_post", "client_secret_basic"].map(String::from).into(),
        token_endpoint_auth_algorithms: [].into(),
        grant_types: ["authorization_code", "refresh_token"].map(String::from).into(),
        code_challenge_methods: Some([CodeVerifier::METHOD.into()].into()),
        has_iss: false,
        takes_metadata_documents: false,
        dpop_algorithms: [].into(),
    }
}
