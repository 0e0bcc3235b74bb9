//! The exchange of credentials with the store.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::mem;

use super::{
    AuthClient,
    action::{Action, ActionId},
    credentials::{Credentials, Generation, StoreReply},
    error::AuthError,
    settings::GrantType,
    step::{After, Goal, Step},
};
use crate::auth::{document::MAX_LEN, secret::Secret, token::TokenType};

/// The most times that a flow overwrites an entry that another process has stored in between.
pub(super) const MAX_OVERWRITES: u32 = 3;

type Found = Option<(Generation, Credentials)>;

/// Returns whether credentials continue the authorization context of others: neither have tokens, or both have tokens
/// of one grant with the same scopes. `is_renewed` says that the new tokens are for the same subject as the old ones.
fn is_same_context(old: Option<&Credentials>, new: Option<&Credentials>, is_renewed: bool) -> bool {
    let tokens = |credentials: Option<&Credentials>| credentials.and_then(|credentials| credentials.tokens.clone());
    let (Some(before), Some(after)) = (tokens(old), tokens(new)) else {
        return tokens(old).is_none() && tokens(new).is_none();
    };
    let client = |it: &Credentials| (it.client.issuer.clone(), it.client.client_id.clone());
    // Another process may have refreshed the tokens of an authorization server that does not replace refresh tokens.
    let is_one_grant =
        is_renewed || after.access == before.access || after.refresh.is_some() && after.refresh == before.refresh;
    is_one_grant
        && old.map(client) == new.map(client)
        && after.resource == before.resource
        && after.scopes.has_all(&before.scopes)
        && before.scopes.has_all(&after.scopes)
}

impl AuthClient {
    /// Replaces the credentials in use.
    pub(super) fn set_credentials(&mut self, credentials: Option<Credentials>) {
        self.replace_credentials(credentials, false);
    }

    /// Replaces the credentials in use. `is_renewed` says whether new tokens are for the same subject as the old ones:
    /// the authorization context then stays, unless the scopes have changed.
    fn replace_credentials(&mut self, credentials: Option<Credentials>, is_renewed: bool) {
        if credentials.as_ref().is_some_and(|credentials| credentials.tokens.is_some()) {
            self.refresh_pause = None;
        }
        if !is_same_context(self.credentials.as_ref(), credentials.as_ref(), is_renewed) {
            self.context += 1;
        }
        self.credentials = credentials;
        self.token_id += 1;
    }

    /// Uses the credentials of this issuer. Tokens of another authorization server are kept, but not presented any
    /// more.
    pub(super) fn switch_to(&mut self, issuer: &str) {
        let current = self.credentials.as_ref().map(|credentials| &*credentials.client.issuer);
        let index = self.others.iter().position(|other| other.client.issuer == issuer);
        if current == Some(issuer) || (current.is_none() && index.is_none()) {
            return;
        }
        let found = index.map(|index| self.others.remove(index));
        let found = found.filter(|it| self.settings.identities.has(&it.client)).map(|it| self.with_usable_tokens(it));
        if let Some(current) = self.credentials.take() {
            self.others.insert(0, current);
            self.others.truncate(Credentials::MAX_OTHERS);
        }
        let tokens = found.as_ref().and_then(|found| found.tokens.as_ref());
        self.before = tokens.map(|tokens| tokens.requested.clone()).unwrap_or_default();
        self.has_switched = tokens.is_some() && self.may_switch;
        self.counts.switches += u64::from(self.has_switched);
        self.new_until = None;
        self.set_credentials(found);
    }

    pub(super) fn load(&mut self) {
        let id = self.next_id();
        self.step = Step::Loading(id);
        self.action = Some(Action::Load { id, key: Secret::new(self.key()) });
    }

    /// Handles the entry of the store; an error if it could not be loaded.
    pub fn handle_loaded(&mut self, id: ActionId, found: Result<Found, ()>) {
        if !matches!(self.step, Step::Loading(known) if known == id) {
            return;
        }
        let Ok(found) = found else {
            self.fail(AuthError::NotLoaded);
            // The credentials in use are removed and revoked nevertheless. The error stays if there may be others.
            return if self.goal == Goal::SignOut {
                self.remove()
            };
        };
        let is_new = self.adopt(found);
        self.step = Step::Idle;
        let tokens = self.credentials.as_ref().and_then(|credentials| credentials.tokens.as_ref());
        self.before = tokens.map(|tokens| tokens.requested.clone()).unwrap_or_default();
        match self.goal {
            Goal::Use => {}
            Goal::SignOut => self.remove(),
            // Another process has refreshed the tokens, or has been authorized.
            Goal::Refresh { .. } | Goal::Authorize if is_new && self.token().is_some() => {}
            Goal::Refresh { .. } if self.paused_for().is_some() => {
                if let Some(error) = self.paused_for() {
                    self.fail(error);
                }
            }
            Goal::Refresh { .. } if self.is_refreshable() => self.proceed(),
            // The server may have gone back to another issuer, whose tokens need no user.
            Goal::Authorize if self.others.iter().all(|other| other.tokens.is_none()) => match self.refusal() {
                Some(refusal) => self.fail(refusal),
                None => self.find_resource(),
            },
            Goal::Refresh { .. } | Goal::Authorize => self.find_resource(),
        }
    }

    /// Handles an entry that was read during an interactive authorization. If another process has stored sufficient
    /// tokens, they are used, and the authorization ends. Without such an authorization nothing changes.
    ///
    /// The application may read the store for this at any time while [`waits_for_user`](Self::waits_for_user) returns
    /// true.
    pub fn handle_stored_meanwhile(&mut self, found: Found) {
        if !matches!(self.step, Step::Browser(_)) || !self.adopt(found) {
            return;
        }
        let tokens = self.credentials.as_ref().and_then(|credentials| credentials.tokens.as_ref());
        let is_enough = tokens.is_some_and(|it| self.wanted.as_ref().is_none_or(|wanted| it.scopes.has_all(wanted)));
        if is_enough {
            self.step = Step::Idle;
            self.action = None;
        }
    }

    /// Returns whether the metadata of the server that refreshes the tokens are known.
    fn is_refreshable(&self) -> bool {
        let issuer = self.credentials.as_ref().map(|credentials| &credentials.client.issuer);
        self.has_refresh_token() && self.metadata.as_ref().is_some_and(|server| Some(&server.issuer) == issuer)
    }

    /// Uses the entry that another process has stored, and returns whether it is new. Tokens that could not be stored
    /// are kept as long as the entry has not changed, or has no tokens.
    fn adopt(&mut self, found: Found) -> bool {
        let generation = found.as_ref().map(|(generation, _)| *generation);
        if generation == self.base {
            return false;
        }
        self.base = generation;
        let all: Vec<_> = found.into_iter().flat_map(|(_, found)| found.into_each()).collect();
        let found = all.first().filter(|it| self.settings.identities.has(&it.client)).cloned();
        let found = found.map(|it| self.with_usable_tokens(it));
        let own = self.credentials.as_ref();
        let is_new = !found.as_ref().is_some_and(|it| own.is_some_and(|own| self.outlives(own, it)));
        let unsaved = if all.is_empty() { Vec::new() } else { self.unsaved_credentials() };
        if is_new {
            self.set_credentials(found);
            self.new_until = None;
        }
        let stored = all.iter().map(|it| it.client.issuer.clone()).collect();
        self.keep_others(all, unsaved, is_new);
        self.stored = stored;
        is_new
    }

    /// Returns whether credentials could not be stored, and the stored ones have no tokens. Another process has removed
    /// credentials that the store had earlier.
    fn outlives(&self, own: &Credentials, stored: &Credentials) -> bool {
        let issuer = &own.client.issuer;
        let is_removed = stored.client.issuer != *issuer && self.stored.contains(issuer);
        self.unsaved.contains(issuer) && own.tokens.is_some() && stored.tokens.is_none() && !is_removed
    }

    /// Returns the credentials with tokens that could not be stored.
    fn unsaved_credentials(&self) -> Vec<Credentials> {
        let all = self.credentials.iter().chain(&self.others);
        all.filter(|it| it.tokens.is_some() && self.unsaved.contains(&it.client.issuer)).cloned().collect()
    }

    /// Sets the credentials at other issuers: those of the entry, and those that could not be stored, unless another
    /// process has tokens of their issuers. `is_stored` says whether the credentials in use are stored as well.
    fn keep_others(&mut self, all: Vec<Credentials>, unsaved: Vec<Credentials>, is_stored: bool) {
        let issuer = self.credentials.as_ref().map(|credentials| credentials.client.issuer.clone());
        self.unsaved = issuer.clone().into_iter().filter(|_| !is_stored).collect();
        let is_other = |it: &Credentials| Some(&it.client.issuer) != issuer.as_ref();
        self.others = all.into_iter().filter(is_other).collect();
        self.add_unsaved(unsaved.into_iter().filter(is_other).collect());
    }

    /// Adds credentials that could not be stored to those at other issuers.
    fn add_unsaved(&mut self, unsaved: Vec<Credentials>) {
        for own in unsaved {
            let index = self.others.iter().position(|other| other.client.issuer == own.client.issuer);
            match index.map(|index| &mut self.others[index]) {
                Some(other) if other.tokens.is_some() => continue,
                Some(other) => *other = own.clone(),
                // Another process has removed them.
                None if self.stored.contains(&own.client.issuer) => continue,
                // Before those that are stored.
                None => self.others.insert(0, own.clone()),
            }
            if !self.unsaved.contains(&own.client.issuer) {
                self.unsaved.push(own.client.issuer);
            }
        }
        self.others.truncate(Credentials::MAX_OTHERS);
        let (others, credentials) = (&self.others, &self.credentials);
        let is_kept = |issuer: &String| credentials.iter().chain(others).any(|known| known.client.issuer == *issuer);
        self.unsaved.retain(is_kept);
    }

    /// Leaves out tokens that are bound to another key.
    fn with_usable_tokens(&self, mut credentials: Credentials) -> Credentials {
        let key = self.settings.dpop.as_ref().map(|key| &*key.thumbprint);
        credentials.tokens = credentials.tokens.filter(|tokens| {
            let is_bound = tokens.key_thumbprint.is_some() || tokens.token_type == TokenType::Dpop;
            let needs_binding = self.settings.dpop.as_ref().is_some_and(|key| key.is_required);
            if is_bound { tokens.key_thumbprint.as_deref() == key } else { !needs_binding }
        });
        credentials
    }

    /// Stores credentials, and continues with `after`.
    pub(super) fn store(&mut self, credentials: Option<Credentials>, after: After) {
        let (id, key, expected) = (self.next_id(), Secret::new(self.key()), self.base);
        let stored = self.to_store(credentials.as_ref()).map(Box::new);
        self.action = Some(Action::Store { id, key, expected, credentials: stored });
        self.step = Step::Storing(id, credentials.map(Box::new), after);
    }

    /// Handles the result of the store.
    pub fn handle_stored(&mut self, id: ActionId, reply: StoreReply) {
        match mem::replace(&mut self.step, Step::Idle) {
            Step::Storing(known, credentials, after) if known == id => {
                self.handle_store(credentials.map(|it| *it), after, reply);
            }
            Step::Removing(known) if known == id => self.handle_removed(reply),
            step => self.step = step,
        }
    }

    fn handle_store(&mut self, credentials: Option<Credentials>, after: After, reply: StoreReply) {
        let is_stored = match reply {
            StoreReply::Stored(generation) => {
                self.base = (credentials.is_some() || !self.others.is_empty()).then_some(generation);
                let all = credentials.iter().chain(&self.others);
                self.stored = all.map(|it| it.client.issuer.clone()).collect();
                true
            }
            StoreReply::Failed => false,
            StoreReply::Conflict(_) if self.goal == Goal::SignOut => false,
            StoreReply::Conflict(found) => {
                let found = found.map(|found| *found);
                if !self.may_overwrite(found.as_ref(), credentials.as_ref(), &after) {
                    return self.yield_to(found, after);
                }
                if self.overwrites < MAX_OVERWRITES {
                    return self.overwrite(found, credentials, after);
                }
                false
            }
        };
        let is_renewed = match self.goal {
            Goal::Refresh { .. } => matches!(after, After::Finish),
            _ => self.settings.grant_type == GrantType::ClientCredentials,
        };
        self.replace_credentials(credentials, is_renewed);
        self.note_stored(is_stored);
        if self.goal == Goal::SignOut {
            return self.start(Goal::SignOut, None);
        }
        match after {
            After::Finish if self.goal == Goal::Authorize => {
                self.counts.completed += 1;
                self.handle_new_token();
            }
            After::Finish => {}
            After::Ask(client) => self.ask(*client),
            After::Find(error) if self.goal == (Goal::Refresh { may_ask: false }) => {
                self.fail(AuthError::Rejected(error))
            }
            After::Find(_) => {
                self.goal = Goal::Authorize;
                self.find_resource();
            }
            After::FailForgotten(error) => self.fail_forgotten(error),
        }
    }

    /// Returns whether `credentials` replace the credentials that another process has stored.
    fn may_overwrite(
        &self,
        found: Option<&(Generation, Credentials)>,
        credentials: Option<&Credentials>,
        after: &After,
    ) -> bool {
        let theirs = self.part_of(found, credentials);
        let has_tokens = theirs.as_ref().is_some_and(|theirs| theirs.tokens.is_some());
        // The tokens of an authorization are newer than all others. Those of a refresh are newer if the other process
        // has only removed its used refresh token.
        let is_newer = match after {
            After::Finish if self.goal == Goal::Authorize => true,
            After::Ask(_) => !has_tokens,
            After::Finish | After::Find(_) | After::FailForgotten(_) => theirs.is_some() && !has_tokens,
        };
        // Otherwise, another process may have changed only the credentials at other issuers.
        let ours = self.credentials.as_ref().filter(|ours| ours.tokens.is_some());
        is_newer || ours.is_some_and(|ours| theirs.is_some_and(|theirs| theirs.tokens == ours.tokens))
    }

    /// Stores credentials again, together with what another process has stored for other issuers.
    fn overwrite(&mut self, found: Found, credentials: Option<Credentials>, after: After) {
        self.overwrites += 1;
        self.base = found.as_ref().map(|(generation, _)| *generation);
        let issuer = credentials.as_ref().or(self.credentials.as_ref()).map(|it| it.client.issuer.clone());
        let all = found.into_iter().flat_map(|(_, found)| found.into_each());
        let is_other = |it: &Credentials| Some(&it.client.issuer) != issuer.as_ref();
        let unsaved = self.unsaved_credentials().into_iter().filter(is_other).collect();
        self.others = all.filter(is_other).collect();
        let stored = self.others.iter().map(|it| it.client.issuer.clone()).chain(issuer).collect();
        self.add_unsaved(unsaved);
        self.stored = stored;
        self.store(credentials, after);
    }

    /// Records whether the credentials in use are stored. A stored entry has the credentials at other issuers as well.
    fn note_stored(&mut self, is_stored: bool) {
        let issuer = self.credentials.as_ref().map(|credentials| credentials.client.issuer.clone());
        if is_stored {
            self.unsaved.clear();
        } else if let Some(issuer) = issuer {
            self.unsaved.retain(|known| self.others.iter().any(|other| other.client.issuer == *known));
            self.unsaved.push(issuer);
        }
    }

    /// Continues with the entry that another process has stored.
    fn yield_to(&mut self, found: Found, after: After) {
        self.adopt(found);
        if self.token().is_none() {
            match after {
                After::FailForgotten(error) => self.fail_forgotten(error),
                _ => self.fail(AuthError::SignedOut),
            }
        }
    }

    /// Returns the part of an entry for the issuer whose credentials are written.
    fn part_of(&self, found: Option<&(Generation, Credentials)>, written: Option<&Credentials>) -> Option<Credentials> {
        let issuer = written.or(self.credentials.as_ref()).map(|credentials| &*credentials.client.issuer);
        let is_it = |part: &Credentials| issuer.is_none_or(|issuer| part.client.issuer == issuer);
        found.and_then(|(_, found)| found.clone().into_each().find(is_it))
    }

    /// Returns the entry to store: credentials, and those of other issuers as far as there is space. The secret of a
    /// pre-registered client is not stored.
    fn to_store(&self, credentials: Option<&Credentials>) -> Option<Credentials> {
        let issuer = credentials.map(|credentials| &*credentials.client.issuer);
        let others = self.others.iter().filter(|other| Some(&*other.client.issuer) != issuer);
        let mut all = credentials.into_iter().chain(others).map(|credentials| {
            let mut credentials = credentials.clone();
            if !credentials.client.is_dynamic(&self.settings.identities) {
                credentials.client.secret = None;
            }
            credentials
        });
        let mut entry = all.next()?;
        entry.others = all.take(Credentials::MAX_OTHERS).collect();
        while entry.to_json().expose().len() > MAX_LEN && entry.others.pop().is_some() {}
        Some(entry)
    }
}
