//! The end of an authorization: tokens are revoked, and what is stored is removed.

use alloc::vec::Vec;

use super::{
    AuthClient, TokenId,
    action::{Action, Now},
    credentials::StoreReply,
    error::AuthError,
    step::{Goal, Step},
    storage::MAX_OVERWRITES,
};
use crate::auth::{
    auth_method::AuthMethod,
    secret::Secret,
    token::{NotRequestable, TokenRequest},
    url::Url,
};

impl AuthClient {
    /// Forgets the tokens, at the authorization server as well if it has a revocation endpoint. No token is handed out from
    /// now on, and requests that were refused before fail. [`error`](Self::error) says afterwards if what is stored could not
    /// be removed.
    pub fn sign_out(&mut self, now: Now) {
        self.set_now(now);
        self.signed_out = Some((self.flow, TokenId(self.token_id)));
        // Tokens that are being requested are revoked after they are there, and what is being stored is removed then.
        let is_sent = self.action.take().is_none();
        if is_sent && matches!(self.step, Step::Token(..) | Step::Storing(..)) {
            self.goal = Goal::SignOut;
        } else {
            self.start(Goal::SignOut, None);
        }
    }

    /// Returns whether a sign-out is under way.
    #[must_use]
    pub fn is_signing_out(&self) -> bool {
        self.is_busy() && self.goal == Goal::SignOut
    }

    /// Revokes the tokens, if the server has an endpoint for that, and removes what is stored.
    pub(super) fn revoke(&mut self) {
        let Some(credentials) = self.credentials.clone().filter(|it| it.tokens.is_some()) else { return self.remove() };
        let issuer = credentials.client.issuer.clone();
        let Some(server) = self.metadata.as_ref().filter(|server| server.issuer == issuer) else {
            // Only the server that has given out the tokens revokes them.
            let Ok(url) = Url::parse(&issuer) else { return self.remove() };
            return self.find_named_server(&url, Vec::new(), None);
        };
        let client = self.settings.identities.current(&credentials.client);
        match client.auth_method {
            _ if server.revocation_endpoint.is_none() => self.remove(),
            Some(AuthMethod::PrivateKeyJwt) => {
                let id = self.request_client_assertion(&client);
                self.step = Step::SigningRevocation(id);
            }
            _ => self.request_revocation(None),
        }
    }

    pub(super) fn request_revocation(&mut self, assertion: Option<&Secret>) {
        match self.revocation(assertion) {
            Some(Ok(request)) => {
                let id = self.post(request, None, false);
                self.step = Step::Revoking(id);
            }
            Some(Err(_)) | None => self.remove(),
        }
    }

    /// Returns the request that revokes the refresh token, or the access token if there is no other.
    fn revocation(&self, assertion: Option<&Secret>) -> Option<Result<TokenRequest, NotRequestable>> {
        let (credentials, server) = (self.credentials.as_ref()?, self.metadata.as_ref()?);
        let tokens = credentials.tokens.as_ref()?;
        let (token, hint) = match &tokens.refresh {
            Some(refresh) => (refresh, "refresh_token"),
            None => (&tokens.access, "access_token"),
        };
        let client = self.settings.identities.current(&credentials.client);
        Some(TokenRequest::revocation(token, hint, server, &client, assertion))
    }

    /// Removes what is stored, after the tokens of other issuers are revoked as well.
    pub(super) fn remove(&mut self) {
        self.set_credentials(None);
        if let Some(index) = self.others.iter().position(|other| other.tokens.is_some()) {
            let other = self.others.swap_remove(index);
            self.set_credentials(Some(other));
            return self.revoke();
        }
        self.others.clear();
        if self.base.is_none() {
            // What could not be loaded may still be there.
            self.step = Step::Idle;
            return;
        }
        let (id, key, expected) = (self.next_id(), Secret::new(self.key()), self.base);
        self.action = Some(Action::Store { id, key, expected, credentials: None });
        self.step = Step::Removing(id);
    }

    pub(super) fn handle_removed(&mut self, reply: StoreReply) {
        match reply {
            StoreReply::Stored(_) => {
                self.base = None;
                self.error = None;
            }
            StoreReply::Conflict(found) if self.overwrites < MAX_OVERWRITES => {
                self.overwrites += 1;
                self.base = found.map(|found| found.0);
                if self.base.is_none() {
                    self.error = None;
                }
                self.remove();
            }
            StoreReply::Conflict(_) | StoreReply::Failed => self.fail(AuthError::NotRemoved),
        }
    }
}
