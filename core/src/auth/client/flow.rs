//! The steps from a challenge to the request for a token.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::mem;

use super::{
    AuthClient, Resource,
    action::{Action, ActionId, AssertionKind, Now, Request},
    error::AuthError,
    search::{Next, Search},
    settings::GrantType,
    step::{Goal, Issuer, Kind, Step},
};
use crate::auth::{
    auth_method::AuthMethod,
    authorization::{Authorization, AuthorizationRequest, RedirectError},
    client_identity::{ClientIdentity, IdentityChoice},
    discovery::{self, Candidate, NotFound},
    document::DocumentError,
    metadata::{AuthorizationServer, ProtectedResource},
    pkce::CodeVerifier,
    policy::{UrlRefused, is_loopback},
    scope::Scopes,
    secret::Secret,
    url::{Url, canonical_url},
};

/// The most authorization servers of a resource that are tried after the first one.
const MAX_OTHERS: usize = 3;

impl AuthClient {
    pub(super) fn request(
        &mut self,
        method: &'static str,
        url: Url,
        headers: &[(&'static str, &str)],
        body: Secret,
    ) -> ActionId {
        let id = self.next_id();
        let headers = headers.iter().map(|(name, value)| (*name, Secret::new(*value))).collect();
        self.action = Some(Action::Request(Request { id, method, url, headers, body, is_configured: false }));
        id
    }

    fn get(&mut self, url: Url) -> ActionId {
        // The header is required in the revision 2025-03-26.
        let headers = [("accept", "application/json"), ("mcp-protocol-version", "2025-03-26")];
        self.request("GET", url, &headers, Secret::new(""))
    }

    /// Fails a flow without metadata. A sign-out continues without them.
    fn fail_discovery(&mut self, error: AuthError) {
        if self.goal == Goal::SignOut { self.revoke_next() } else { self.fail(error) }
    }

    pub(super) fn find_resource(&mut self) {
        let challenged = self.challenged.as_ref().filter(|url| self.policy.check(url).is_ok());
        let mut search = Search::new(discovery::protected_resource(&self.server, challenged));
        let next = search.next(&self.policy);
        self.search_resource(search, next);
    }

    pub(super) fn search_resource(&mut self, search: Search<ProtectedResource>, next: Next<ProtectedResource>) {
        match next {
            Next::Request(url) => {
                let id = self.get(url);
                self.step = Step::Resource(id, search);
            }
            Next::Over(Ok(found)) => self.choose_server(found),
            Next::Over(Err(NotFound::Missing(_))) => {
                self.resource = Resource { id: canonical_url(&self.server), scopes: None, needs_dpop: false };
                self.find_server(discovery::of_2025_03_26(&self.server), Issuer::Server);
            }
            Next::Over(Err(error)) => self.fail_discovery(AuthError::Discovery(error)),
        }
    }

    /// Chooses the authorization server of a resource (RFC 9728, section 7.6): the server whose tokens the client has,
    /// a server at which it is pre-registered, or the first server whose URL is followed. In the last case, the next
    /// ones are tried if that server cannot be reached or has no metadata.
    fn choose_server(&mut self, found: ProtectedResource) {
        let ProtectedResource { resource, authorization_servers, scopes_supported, dpop_required } = found;
        self.resource = Resource { id: resource, scopes: scopes_supported, needs_dpop: dpop_required };
        let mut refused = None;
        let is_followed = |url: &&Url| match self.policy.check(url) {
            Ok(()) => true,
            Err(why) => {
                refused = refused.or(Some(why));
                false
            }
        };
        let servers: Vec<_> = authorization_servers.iter().filter(is_followed).collect();
        let stored = self.credentials.as_ref().map(|credentials| &*credentials.client.issuer);
        let is_stored = |url: &&&Url| Some(url.as_str()) == stored;
        let is_registered = |url: &&&Url| {
            let identities = &self.settings.identities.pre_registered;
            identities.iter().any(|identity| identity.issuer == url.as_str())
        };
        let is_kept = |url: &&&Url| self.others.iter().any(|other| other.client.issuer == url.as_str());
        let chosen = servers.iter().find(is_stored).or_else(|| servers.iter().find(is_registered));
        let chosen = chosen.or_else(|| servers.iter().find(is_kept));
        let others = servers.iter().skip(1).take(if chosen.is_some() { 0 } else { MAX_OTHERS });
        let others = others.map(|url| (*url).clone()).collect();
        let Some(issuer) = chosen.or_else(|| servers.first()).map(|url| (*url).clone()) else {
            let error = refused.map(|why| AuthError::Url("authorization_servers", why));
            let missing = || AuthError::Discovery(NotFound::Missing(Vec::new()));
            return self.fail_discovery(error.unwrap_or_else(missing));
        };
        self.switch_to(issuer.as_str());
        self.find_named_server(&issuer, others, None);
    }

    pub(super) fn find_named_server(&mut self, issuer: &Url, others: Vec<Url>, failed: Option<NotFound<String>>) {
        let name = issuer.as_str().into();
        self.find_server(discovery::authorization_server(issuer), Issuer::Named { name, others, failed });
    }

    /// Continues with the next authorization server of the resource, except after metadata that must not be used.
    fn find_next_server(&mut self, issuer: Issuer, error: NotFound<String>) {
        let (others, failed) = match issuer {
            Issuer::Named { others, failed, .. } => (others, failed),
            Issuer::Server => (Vec::new(), None),
        };
        let may_go_on = self.goal != Goal::SignOut && !matches!(error, NotFound::Refused(_));
        let failed = failed.unwrap_or(error);
        let mut others = others.into_iter().filter(|_| may_go_on);
        match others.next() {
            Some(next) => self.find_named_server(&next, others.collect(), Some(failed)),
            None => self.fail_discovery(AuthError::Discovery(failed)),
        }
    }

    fn find_server(&mut self, candidates: Vec<Candidate>, issuer: Issuer) {
        let mut search = Search::new(candidates);
        let next = search.next(&self.policy);
        self.search_server(search, issuer, next);
    }

    pub(super) fn search_server(
        &mut self,
        search: Search<AuthorizationServer>,
        issuer: Issuer,
        next: Next<AuthorizationServer>,
    ) {
        let found = match (next, &issuer) {
            (Next::Request(url), _) => {
                let id = self.get(url);
                self.step = Step::Server(id, search, issuer);
                return;
            }
            (Next::Over(Ok(found)), _) => found,
            (Next::Over(Err(NotFound::Missing(_))), Issuer::Server) => default_server(&self.server),
            (Next::Over(Err(error)), _) => return self.find_next_server(issuer, error),
        };
        let refused = found.urls().find_map(|(name, url)| Some((name, self.policy.check(url).err()?)));
        if let Some((name, why)) = refused {
            return self.fail_discovery(AuthError::Url(name, why));
        }
        if matches!(issuer, Issuer::Server) {
            self.switch_to(&found.issuer);
        }
        self.metadata = Some(found);
        self.proceed();
    }

    /// Continues a flow after its metadata were found.
    pub(super) fn proceed(&mut self) {
        let Some(server) = self.metadata.clone() else { return self.find_resource() };
        if mem::take(&mut self.has_switched) {
            // Only once in a flow, because the server chooses which issuer it names.
            self.may_switch = false;
            if !self.has_refresh_token() {
                // The server has not refused this token.
                self.step = Step::Idle;
                return;
            }
            if self.goal == Goal::Authorize {
                self.goal = Goal::Refresh { may_ask: true };
            }
        }
        let stored = self.credentials.as_ref().filter(|it| it.client.issuer == server.issuer);
        match self.goal {
            Goal::SignOut => return self.revoke(),
            Goal::Refresh { may_ask } => {
                if let Some((client, tokens)) = stored.and_then(|it| Some((&it.client, it.tokens.as_ref()?)))
                    && let Some(refresh) = tokens.refresh.clone()
                {
                    let client = self.settings.identities.current(client);
                    let (resource, scopes) = (tokens.resource.clone(), tokens.requested.clone());
                    let is_bound = tokens.key_thumbprint.is_some();
                    let kind = Kind::Refresh(refresh, tokens.scopes.clone());
                    self.counts.refreshes += 1;
                    return self.request_grant(kind, client, resource, scopes, is_bound);
                }
                if !may_ask {
                    return self.fail(AuthError::Refused);
                }
                self.goal = Goal::Authorize;
            }
            Goal::Use | Goal::Authorize => {}
        }
        if let Some(refusal) = self.refusal() {
            return self.fail(refusal);
        }
        if !self.is_bindable(&server) {
            return self.fail(AuthError::NotBound);
        }
        let (stored, redirect_uri) = (stored.map(|it| &it.client), self.settings.redirect_uri());
        match self.settings.identities.choose(&server, stored, redirect_uri, self.unix_seconds) {
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

    /// Returns whether tokens are bound to a key if they have to be.
    fn is_bindable(&self, server: &AuthorizationServer) -> bool {
        match &self.settings.dpop {
            None => !self.resource.needs_dpop,
            Some(key) if key.is_required || self.resource.needs_dpop => {
                server.dpop_algorithms.is_empty() || server.dpop_algorithms.contains(&key.algorithm)
            }
            Some(_) => true,
        }
    }

    /// Returns the scopes of the next request: those that were requested before, with those of the challenge, the
    /// settings or the resource.
    pub(super) fn scopes(&self) -> Scopes {
        let Self { wanted, settings, resource, metadata, .. } = self;
        let scopes =
            wanted.clone().unwrap_or_else(|| Scopes::first(settings.scopes.as_ref(), resource.scopes.as_ref()));
        let scopes = self.before.union(&scopes).unwrap_or(scopes);
        let known = metadata.as_ref().and_then(|server| server.scopes_supported.as_ref());
        let is_offered = settings.offline_access && known.is_some_and(|known| known.has("offline_access"));
        let more = if is_offered { Scopes::of(["offline_access"]) } else { None };
        more.and_then(|more| scopes.union(&more)).unwrap_or(scopes)
    }

    /// Begins the grant: with the browser, an assertion of the application, or a token request.
    pub(super) fn ask(&mut self, client: ClientIdentity) {
        if let GrantType::IdentityAssertion(provider) = &self.settings.grant_type
            && !provider.token_endpoint.is_https()
            && !is_loopback(&provider.token_endpoint)
        {
            return self.fail(AuthError::Url("token_endpoint", UrlRefused::NotEncrypted));
        }
        self.counts.authorizations += 1;
        let resource = self.resource.id.clone();
        let kind = match &self.settings.grant_type {
            GrantType::AuthorizationCode { redirect_uri } => {
                let redirect_uri = redirect_uri.clone();
                return self.open_browser(client, &redirect_uri);
            }
            GrantType::ClientCredentials if client.auth_method == Some(AuthMethod::None) => {
                return self.fail(AuthError::NotInteractive);
            }
            GrantType::ClientCredentials => {
                let scopes = self.scopes();
                return self.request_grant(Kind::Client, client, resource, scopes, false);
            }
            GrantType::JwtBearer => AssertionKind::Workload,
            GrantType::IdentityAssertion(_) => AssertionKind::Identity,
        };
        let (id, audience) = (self.next_id(), client.issuer.clone());
        self.action = Some(Action::Assertion { id, kind, audience, resource });
        self.step = Step::Asserting(id);
        self.client = Some(client);
    }

    fn open_browser(&mut self, client: ClientIdentity, redirect_uri: &Url) {
        let (scopes, seed) = (self.scopes(), self.draw_authorization());
        let Some(server) = &self.metadata else { return };
        let request = AuthorizationRequest {
            server,
            client: &client,
            redirect_uri,
            resource: &self.resource.id,
            scopes: &scopes,
            key_thumbprint: self.dpop_key(server).map(|key| &*key.thumbprint),
        };
        match Authorization::new(&request, &seed, self.instant, self.time_left()) {
            Ok(authorization) => {
                self.action = Some(Action::OpenBrowser(authorization.url().clone()));
                self.step = Step::Browser(Box::new(authorization));
                self.client = Some(client);
            }
            Err(error) => self.fail(AuthError::NotAuthorizable(error)),
        }
    }

    /// Handles the query of a redirect.
    ///
    /// # Errors
    /// Returns the reason if the redirect has no code or is not accepted. A redirect of another authorization does not
    /// end this one.
    pub fn handle_redirect(&mut self, now: Now, query: &str) -> Result<(), RedirectError> {
        self.set_now(now);
        let Step::Browser(authorization) = &mut self.step else { return Err(RedirectError::Used) };
        match authorization.handle_redirect(now.instant, query) {
            Ok(code) => {
                self.extend_for_token();
                let Some(client) = self.client.take() else { return Ok(()) };
                let (resource, scopes) = (code.resource.clone(), code.scopes.clone());
                self.request_grant(Kind::Code(code), client, resource, scopes, false);
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

    /// Ends the authorization that waits for the user. No interactive authorization begins before
    /// [`allow_authorization`](Self::allow_authorization).
    pub fn handle_cancelled(&mut self) {
        if matches!(self.step, Step::Browser(_)) {
            self.fail(AuthError::Cancelled);
        }
    }

    /// Ends the authorization that waits for the user, because its URL could not be opened. A later request begins
    /// another one.
    pub fn handle_not_opened(&mut self, reason: String) {
        if matches!(self.step, Step::Browser(_)) {
            self.fail(AuthError::NotOpened(reason));
        }
    }
}

/// Reads the metadata of a server of 2025-03-26, whose issuer is its base URL, with or without a slash.
pub(super) fn own_server(body: &[u8], server: &Url) -> Result<AuthorizationServer, DocumentError> {
    let base = discovery::authorization_base(server);
    AuthorizationServer::parse_any(body, &[base.as_str(), &alloc::format!("{}/", base.as_str())])
}

/// Returns the metadata that are assumed for a server of 2025-03-26 without metadata.
fn default_server(server: &Url) -> AuthorizationServer {
    let endpoints = discovery::default_endpoints(server);
    let issuer = discovery::authorization_base(server).as_str().into();
    AuthorizationServer {
        authorization_endpoint: Some(endpoints.authorization),
        registration_endpoint: Some(endpoints.registration),
        token_endpoint_auth_methods: ["none", "client_secret_post", "client_secret_basic"].map(String::from).into(),
        grant_types: ["authorization_code", "refresh_token"].map(String::from).into(),
        code_challenge_methods: Some([CodeVerifier::METHOD.into()].into()),
        ..AuthorizationServer::with_token_endpoint(issuer, endpoints.token)
    }
}
