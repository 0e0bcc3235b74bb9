//! The sign-out of a client: the stored credentials are removed, and the tokens are revoked.

use alloc::vec::Vec;
use core::mem;

use super::{
    AuthClient, TokenId,
    action::{Action, Now},
    credentials::{Credentials, StoreReply},
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
    /// Removes the tokens, and revokes them if the authorization server has a revocation endpoint. From this call on,
    /// [`token`](Self::token) returns none, and requests that were refused before fail. If the stored credentials
    /// cannot be removed, [`error`](Self::error) returns that error afterwards.
    ///
    /// The stored credentials are removed first, so that the next process finds no tokens if this one ends too early.
    /// The tokens are revoked after that, also if the store has failed.
    pub fn sign_out(&mut self, now: Now) {
        self.set_now(now);
        self.signed_out = Some((self.flow, TokenId(self.token_id)));
        self.context += 1;
        // Tokens that were requested are revoked after they arrive, and credentials that are being stored, or are about
        // to be, are removed after that: only they have the newest tokens.
        let is_storing = matches!(self.step, Step::Storing(..));
        let is_requesting = !is_storing && self.action.take().is_none() && matches!(self.step, Step::Token(..));
        if is_storing || is_requesting {
            self.goal = Goal::SignOut;
        } else {
            self.start(Goal::SignOut, None);
        }
    }

    /// Returns whether a sign-out is in progress.
    #[must_use]
    pub fn is_signing_out(&self) -> bool {
        self.is_busy() && self.goal == Goal::SignOut
    }

    /// Removes the stored credentials.
    pub(super) fn remove(&mut self) {
        if self.base.is_none() {
            // An entry that could not be loaded may still exist.
            return self.revoke();
        }
        let (id, key, expected) = (self.next_id(), Secret::new(self.key()), self.base);
        self.action = Some(Action::Store { id, key, expected, credentials: None });
        self.step = Step::Removing(id);
    }

    pub(super) fn handle_removed(&mut self, reply: StoreReply) {
        match reply {
            StoreReply::Stored(_) | StoreReply::Conflict(None) => {
                self.base = None;
                self.error = None;
            }
            StoreReply::Conflict(Some(found)) if self.overwrites < MAX_OVERWRITES => {
                self.overwrites += 1;
                self.base = Some(found.0);
                self.revoke_instead(found.1);
                return self.remove();
            }
            StoreReply::Conflict(_) | StoreReply::Failed => self.error = Some(AuthError::NotRemoved),
        }
        self.revoke();
    }

    /// Replaces tokens by those that another process has stored for the same issuers.
    fn revoke_instead(&mut self, found: Credentials) {
        let known: Vec<_> = self.credentials.take().into_iter().chain(mem::take(&mut self.others)).collect();
        self.others = found.into_each().filter(|it| it.tokens.is_some()).collect();
        for it in known {
            if self.others.iter().all(|other| other.client.issuer != it.client.issuer) {
                self.others.push(it);
            }
        }
    }

    /// Revokes the tokens, if the server has an endpoint for that, and then those of other issuers.
    pub(super) fn revoke(&mut self) {
        let Some(credentials) = self.credentials.clone().filter(|it| it.tokens.is_some()) else {
            return self.revoke_next();
        };
        let issuer = credentials.client.issuer.clone();
        let Some(server) = self.metadata.as_ref().filter(|server| server.issuer == issuer) else {
            // Only the server that has issued the tokens can revoke them.
            let Ok(url) = Url::parse(&issuer) else { return self.revoke_next() };
            return self.find_named_server(&url, Vec::new(), None);
        };
        let client = self.settings.identities.current(&credentials.client);
        match client.auth_method {
            _ if server.revocation_endpoint.is_none() => self.revoke_next(),
            Some(AuthMethod::PrivateKeyJwt) => {
                let id = self.request_client_assertion(&client);
                self.step = Step::SigningRevocation(id);
            }
            _ => self.request_revocation(None),
        }
    }

    /// Drops the tokens, and continues with those of another issuer.
    pub(super) fn revoke_next(&mut self) {
        self.set_credentials(None);
        match self.others.iter().position(|other| other.tokens.is_some()) {
            Some(index) => {
                let other = self.others.swap_remove(index);
                self.set_credentials(Some(other));
                self.revoke();
            }
            None => self.end_sign_out(),
        }
    }

    /// Drops all tokens, and ends the sign-out.
    pub(super) fn end_sign_out(&mut self) {
        self.set_credentials(None);
        self.others.clear();
        self.unsaved.clear();
        self.action = None;
        self.step = Step::Idle;
    }

    pub(super) fn request_revocation(&mut self, assertion: Option<&Secret>) {
        match self.revocation(assertion) {
            Some(Ok(request)) => {
                let id = self.post(request, None, false);
                self.step = Step::Revoking(id);
            }
            Some(Err(_)) | None => self.revoke_next(),
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
}
