//! Requests to the token endpoint, and their results.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::mem;

use super::{
    AuthClient,
    action::{Action, ActionId, AssertionClaims, Claims, Now, Request, Response},
    credentials::{Credentials, StoredTokens},
    dpop::{self, DpopKey, ProofClaims},
    error::AuthError,
    flow::own_server,
    hex,
    settings::GrantType,
    step::{After, Goal, Issuer, Kind, Pending, Step},
};
use crate::auth::{
    auth_method::AuthMethod,
    client_identity::{ClientIdentity, RegistrationError},
    document::DocumentError,
    metadata::{AuthorizationServer, ProtectedResource},
    oauth_error::OAuthError,
    policy::UrlRefused,
    scope::Scopes,
    secret::Secret,
    token::{Grant, ID_JAG, RefreshToken, TokenReply, TokenRequest, TokenType, Tokens},
    url::Url,
};

impl AuthClient {
    /// Returns the key to which tokens of this server are bound.
    pub(super) fn dpop_key(&self, server: &AuthorizationServer) -> Option<&DpopKey> {
        let is_used = |key: &&DpopKey| {
            key.is_required || self.resource.needs_dpop || server.dpop_algorithms.contains(&key.algorithm)
        };
        self.settings.dpop.as_ref().filter(is_used)
    }

    /// Requests a token, after the parts of the request are signed.
    pub(super) fn request_grant(
        &mut self,
        kind: Kind,
        client: ClientIdentity,
        resource: Url,
        scopes: Scopes,
        is_bound: bool,
    ) {
        let is_used = self.metadata.as_ref().is_some_and(|server| self.dpop_key(server).is_some());
        // The assertions of an identity provider are not bound to a key.
        let has_proof = !matches!(kind, Kind::Exchange(_)) && (is_bound || is_used);
        let (assertion, proof) = (None, None);
        self.sign(Pending { kind, client, resource, scopes, has_proof, is_repeated: false, assertion, proof });
    }

    /// Requests the next signature of a token request, or sends the request.
    fn sign(&mut self, pending: Pending) {
        let needs_assertion = pending.client.auth_method == Some(AuthMethod::PrivateKeyJwt);
        let id = if needs_assertion && pending.assertion.is_none() {
            self.request_client_assertion(&pending.client)
        } else if pending.has_proof && pending.proof.is_none() {
            match &self.metadata {
                Some(server) => self.request_proof(server.issuer.clone(), server.token_endpoint.clone()),
                None => return,
            }
        } else {
            return self.request_token(Box::new(pending));
        };
        self.step = Step::Signing(id, Box::new(pending));
    }

    pub(super) fn request_client_assertion(&mut self, client: &ClientIdentity) -> ActionId {
        let (id, claim) = (self.next_id(), hex(&self.draw()));
        let claims = Claims::Client(AssertionClaims {
            client_id: client.client_id.clone(),
            audience: client.issuer.clone(),
            id: claim,
            issued_at: self.unix_seconds,
            expires_at: self.unix_seconds.saturating_add(60),
        });
        self.action = Some(Action::Sign { id, claims });
        id
    }

    fn request_proof(&mut self, issuer: String, url: Url) -> ActionId {
        let (id, claim) = (self.next_id(), hex(&self.draw()));
        let nonce = self.issuer_nonce.as_ref().filter(|(known, _)| *known == issuer).map(|(_, nonce)| &**nonce);
        let claims = Claims::Proof(ProofClaims::new(claim, "POST", &url, self.unix_seconds, None, nonce));
        self.action = Some(Action::Sign { id, claims });
        id
    }

    /// Handles a signed JWT; `None` if it cannot be signed.
    pub fn handle_signed(&mut self, id: ActionId, jwt: Option<&Secret>) {
        match mem::replace(&mut self.step, Step::Idle) {
            Step::Signing(known, mut pending) if known == id => {
                let Some(jwt) = jwt else { return self.fail(AuthError::NotSigned) };
                let is_assertion =
                    pending.client.auth_method == Some(AuthMethod::PrivateKeyJwt) && pending.assertion.is_none();
                let signed = if is_assertion { &mut pending.assertion } else { &mut pending.proof };
                *signed = Some(jwt.clone());
                self.sign(*pending);
            }
            Step::SigningRevocation(known) if known == id => self.request_revocation(jwt),
            step => self.step = step,
        }
    }

    /// Handles the JWT that the application supplies; `None` if it has none.
    pub fn handle_assertion(&mut self, id: ActionId, jwt: Option<&Secret>) {
        if !matches!(self.step, Step::Asserting(known) if known == id) {
            return;
        }
        self.step = Step::Idle;
        let (Some(jwt), Some(client)) = (jwt, &self.client) else { return self.fail(AuthError::NoAssertion) };
        let (kind, client) = match &self.settings.grant_type {
            GrantType::IdentityAssertion(provider) => (Kind::Exchange(jwt.clone()), provider.client.clone()),
            _ => (Kind::Jwt(jwt.clone()), client.clone()),
        };
        let (resource, scopes) = (self.resource.id.clone(), self.scopes());
        self.request_grant(kind, client, resource, scopes, false);
    }

    fn request_token(&mut self, pending: Box<Pending>) {
        let Some(server) = &self.metadata else { return };
        let Pending { kind, client, resource, scopes, assertion, proof, .. } = &*pending;
        let is_exchange = matches!(kind, Kind::Exchange(_));
        let request = match (kind, &self.settings.grant_type) {
            (Kind::Exchange(subject), GrantType::IdentityAssertion(provider)) => {
                let (subject_type, audience) = (&*provider.subject_type, &*server.issuer);
                let grant = Grant::IdentityAssertion { subject, subject_type, audience, resource, scopes };
                let issuer = provider.client.issuer.clone();
                let provider = AuthorizationServer::with_token_endpoint(issuer, provider.token_endpoint.clone());
                TokenRequest::new(&grant, &provider, client, assertion.as_ref())
            }
            (Kind::Exchange(_), _) => return self.fail(AuthError::NoAssertion),
            (Kind::Code(code), _) => TokenRequest::new(&Grant::Code(code), server, client, assertion.as_ref()),
            (Kind::Refresh(token, _), _) => {
                TokenRequest::new(&Grant::Refresh { token, resource }, server, client, assertion.as_ref())
            }
            (Kind::Client, _) => {
                TokenRequest::new(&Grant::ClientCredentials { resource, scopes }, server, client, assertion.as_ref())
            }
            (Kind::Jwt(jwt), _) => {
                let grant = Grant::Assertion { assertion: jwt, resource, scopes };
                TokenRequest::new(&grant, server, client, assertion.as_ref())
            }
        };
        match request {
            Ok(request) => {
                let id = self.post(request, proof.as_ref(), is_exchange);
                self.step = Step::Token(id, pending);
            }
            Err(error) => self.fail(AuthError::NotRequestable(error)),
        }
    }

    pub(super) fn post(&mut self, request: TokenRequest, proof: Option<&Secret>, is_configured: bool) -> ActionId {
        let TokenRequest { url, authorization, body } = request;
        let mut headers =
            Vec::from([("accept", "application/json"), ("content-type", "application/x-www-form-urlencoded")]);
        headers.extend(authorization.as_ref().map(|value| ("authorization", value.expose())));
        headers.extend(proof.map(|value| ("dpop", value.expose())));
        let id = self.request("POST", url, &headers, body);
        if let Some(Action::Request(Request { is_configured: known, .. })) = &mut self.action {
            *known = is_configured;
        }
        id
    }

    /// Handles the response to a request; `None` if there was none.
    pub fn handle_response(&mut self, now: Now, id: ActionId, response: Option<Response<'_>>) {
        self.set_now(now);
        if self.step.request() != Some(id) {
            return;
        }
        match mem::replace(&mut self.step, Step::Idle) {
            Step::Resource(_, mut search) => {
                let next = search.handle(response, &self.policy, |body| ProtectedResource::parse(body, &self.server));
                self.search_resource(search, next);
            }
            Step::Server(_, mut search, issuer) => {
                let next = search.handle(response, &self.policy, |body| match &issuer {
                    Issuer::Named { name, .. } => AuthorizationServer::parse(body, name),
                    Issuer::Server => own_server(body, &self.server),
                });
                self.search_server(search, issuer, next);
            }
            Step::Registering(_) => self.handle_registered(response),
            Step::Token(_, pending) => self.handle_token(*pending, response),
            Step::Revoking(_) => self.revoke_next(),
            _ => {}
        }
    }

    /// Handles that the policy lets the client connect to no address of the host of a request.
    pub fn handle_refused_address(&mut self, now: Now, id: ActionId, refused: UrlRefused) {
        self.set_now(now);
        if self.step.request() != Some(id) {
            return;
        }
        match mem::replace(&mut self.step, Step::Idle) {
            Step::Resource(_, mut search) => {
                let next = search.handle_refused_address(refused, &self.policy);
                self.search_resource(search, next);
            }
            Step::Server(_, mut search, issuer) => {
                let next = search.handle_refused_address(refused, &self.policy);
                self.search_server(search, issuer, next);
            }
            Step::Registering(_) => self.fail(AuthError::Url("registration_endpoint", refused)),
            // The rest is as if there was no response: a sign-out goes on, and tokens stay.
            step => {
                let is_token = matches!(step, Step::Token(..));
                self.step = step;
                self.handle_response(now, id, None);
                if is_token && self.error == Some(AuthError::Unavailable(None)) {
                    self.fail(AuthError::Url("token_endpoint", refused));
                }
            }
        }
    }

    fn handle_registered(&mut self, response: Option<Response<'_>>) {
        let Some(server) = &self.metadata else { return };
        let client = response
            .ok_or(RegistrationError::NoResponse)
            .and_then(|response| ClientIdentity::from_registration(&server.issuer, response.status, response.body));
        match client {
            Ok(client) => {
                self.has_registered = true;
                let registration = self.settings.identities.registration.as_ref();
                let redirect_uris = registration.map(|it| it.redirect_uris.clone()).unwrap_or_default();
                let client = ClientIdentity { redirect_uris, ..client };
                if self.credentials.as_ref().is_some_and(|known| known.tokens.is_some()) {
                    // The tokens in use belong to the client that was registered before.
                    return self.ask(client);
                }
                // Stored at once, so that an authorization that is not completed causes no further registration.
                let credentials = Credentials::new(client.clone(), None);
                self.store(Some(credentials), After::Ask(Box::new(client)));
            }
            Err(error) => self.fail(AuthError::Registration(error)),
        }
    }

    fn handle_token(&mut self, mut pending: Pending, response: Option<Response<'_>>) {
        let Some(response) = response else { return self.fail_rediscovered(AuthError::Unavailable(None)) };
        let is_exchange = matches!(pending.kind, Kind::Exchange(_));
        let nonce = response.dpop_nonce.and_then(dpop::nonce).filter(|_| !is_exchange);
        let has_nonce = nonce.is_some();
        if let (Some(nonce), Some(server)) = (nonce, &self.metadata) {
            self.issuer_nonce = Some((server.issuer.clone(), nonce));
        }
        match TokenReply::parse(response.status, response.body) {
            TokenReply::Granted(tokens) => self.handle_granted(pending, tokens),
            TokenReply::Rejected(error) if error.code == dpop::USE_NONCE && pending.has_proof && has_nonce => {
                if pending.is_repeated || self.goal == Goal::SignOut {
                    return self.fail_or_sign_out(AuthError::Rejected(error));
                }
                pending.is_repeated = true;
                // Both are used once.
                (pending.assertion, pending.proof) = (None, None);
                self.sign(pending);
            }
            TokenReply::Rejected(error) => self.handle_rejected(&pending, error),
            TokenReply::Transient(status) => self.fail_rediscovered(AuthError::Unavailable(Some(status))),
            // The statuses of errors (RFC 6749, section 5.2): the refresh token is refused, for any reason.
            TokenReply::Status(400 | 401)
                if matches!(pending.kind, Kind::Refresh(..)) && self.goal == (Goal::Refresh { may_ask: true }) =>
            {
                self.goal = Goal::Authorize;
                self.find_resource();
            }
            TokenReply::Status(status) => self.fail_rediscovered(AuthError::Status(status)),
            TokenReply::Invalid(error) => self.fail_or_sign_out(AuthError::Invalid(error)),
        }
    }

    /// Fails a token request. If the client has signed out since it was sent, the sign-out continues.
    fn fail_or_sign_out(&mut self, error: AuthError) {
        if self.goal == Goal::SignOut { self.start(Goal::SignOut, None) } else { self.fail(error) }
    }

    /// Fails a token request without a response of a token endpoint. The endpoint may have moved.
    fn fail_rediscovered(&mut self, error: AuthError) {
        self.metadata = None;
        self.fail_or_sign_out(error);
    }

    fn handle_rejected(&mut self, pending: &Pending, error: OAuthError) {
        if self.goal == Goal::SignOut {
            return self.start(Goal::SignOut, None);
        }
        let drops_client = error.is_client_invalid() && pending.client.is_dynamic(&self.settings.identities);
        match &pending.kind {
            Kind::Exchange(_) => self.fail(AuthError::NotExchanged(error)),
            // Another grant or another key would fail in the same way.
            Kind::Refresh(..) if matches!(&*error.code, dpop::USE_NONCE | "invalid_dpop_proof") => {
                self.fail(AuthError::Rejected(error));
            }
            Kind::Refresh(..) => self.handle_refused_refresh(error, drops_client),
            // The tokens of another client stay.
            _ if drops_client && self.is_stored_client(&pending.client) => {
                self.store(None, After::FailForgotten(AuthError::Rejected(error)));
            }
            _ => self.fail(AuthError::Rejected(error)),
        }
    }

    fn is_stored_client(&self, client: &ClientIdentity) -> bool {
        let is_it = |known: &ClientIdentity| known.issuer == client.issuer && known.client_id == client.client_id;
        self.credentials.as_ref().is_some_and(|credentials| is_it(&credentials.client))
    }

    /// Continues with an authorization. Tokens are removed only if the refresh token or the client is not valid any
    /// more.
    fn handle_refused_refresh(&mut self, error: OAuthError, drops_client: bool) {
        if error.code == "invalid_scope" {
            self.before = Scopes::default();
        }
        if error.is_client_invalid() || error.is_grant_invalid() {
            let client = self.credentials.as_ref().filter(|_| !drops_client).map(|it| it.client.clone());
            self.store(client.map(|client| Credentials::new(client, None)), After::Find(error));
        } else if self.goal == (Goal::Refresh { may_ask: true }) {
            self.goal = Goal::Authorize;
            self.find_resource();
        } else {
            self.fail(AuthError::Rejected(error));
        }
    }

    fn handle_granted(&mut self, pending: Pending, tokens: Tokens) {
        let is_bound = pending.has_proof;
        let needs_binding = self.resource.needs_dpop || self.settings.dpop.as_ref().is_some_and(|key| key.is_required);
        let is_expected = match tokens.token_type {
            TokenType::NotApplicable => matches!(pending.kind, Kind::Exchange(_)),
            _ if matches!(pending.kind, Kind::Exchange(_)) => false,
            TokenType::Bearer => !needs_binding,
            TokenType::Dpop => is_bound,
        };
        if !is_expected {
            return self.fail_or_sign_out(AuthError::Invalid(DocumentError::Invalid("token_type")));
        }
        if let Kind::Exchange(_) = pending.kind {
            return self.redeem(pending, tokens);
        }
        let key = self.settings.dpop.as_ref().filter(|_| is_bound).map(|key| key.thumbprint.clone());
        let Pending { kind, client, resource, scopes, .. } = pending;
        // Without a refresh token in the response, the previous one stays valid. Without scopes, the previous scopes
        // apply.
        let (known, granted) = match kind {
            Kind::Refresh(token, granted) => (Some(token), granted),
            _ => (None, scopes.clone()),
        };
        let refresh = match tokens.refresh {
            RefreshToken::New(token) => Some(token),
            RefreshToken::Absent => known,
            // If the server has replaced it, another use would revoke all tokens of the grant.
            RefreshToken::Malformed => None,
        };
        let tokens = StoredTokens {
            access: tokens.access,
            token_type: tokens.token_type,
            refresh,
            resource,
            scopes: tokens.scopes.unwrap_or(granted),
            requested: scopes,
            issued_at: self.unix_seconds,
            expires_at: tokens.expires_in.map(|time| self.unix_seconds.saturating_add(time.as_secs())),
            key_thumbprint: key,
        };
        let credentials = Credentials::new(client, Some(tokens));
        if self.goal == Goal::SignOut {
            // They are revoked at once.
            self.set_credentials(Some(credentials));
            return self.start(Goal::SignOut, None);
        }
        self.store(Some(credentials), After::Finish);
    }

    /// Redeems the assertion of an identity provider.
    fn redeem(&mut self, pending: Pending, tokens: Tokens) {
        if self.goal == Goal::SignOut {
            return self.start(Goal::SignOut, None);
        }
        if tokens.issued_type.as_deref() != Some(ID_JAG) {
            return self.fail(AuthError::Invalid(DocumentError::Invalid("issued_token_type")));
        }
        let Some(client) = self.client.clone() else { return };
        self.request_grant(Kind::Jwt(tokens.access), client, pending.resource, pending.scopes, false);
    }
}
