//! The parts of a peer's messages of the modern era (2026-07-28) that are the same in each message.

use alloc::sync::Arc;

use crate::{
    connection::state::stateless_request::ClientDescription,
    schema::keys,
    wire::{RawJson, Repeated, RepeatedMembers, RunPlace},
};
#[cfg(feature = "http")]
use crate::{connection::state::stateless_request::SMALL_META, protocol::VersionSet};

/// The parts that messages of the peer have in common with earlier ones. They take a few KiB at most, and are freed
/// with the connection, or before that if it shrinks.
#[derive(Clone, Debug, Default)]
pub(crate) struct RepeatedParts {
    /// The description that the client has sent last (servers).
    client: Option<Arc<KnownClient>>,
    /// A reference to it that an ended request has left. The next request takes it, so that the reference count, which
    /// is atomic, does not change.
    spare: Option<Arc<ClientDescription>>,
    /// The beginning of the result that the server has sent last (clients).
    result: Option<RepeatedMembers>,
}

/// A description of a client with the text that it was decoded from.
#[derive(Debug)]
pub(crate) struct KnownClient {
    members: RepeatedMembers,
    description: Arc<ClientDescription>,
    /// The number of commas in the text.
    commas: usize,
}

/// The members of `_meta` that a client is described by.
const DESCRIPTION: [&str; 3] = [keys::PROTOCOL_VERSION, keys::CLIENT_INFO, keys::CLIENT_CAPABILITIES];

impl KnownClient {
    /// Returns the description of the client in this `_meta`, if it can be found again.
    fn of(meta: &RawJson<'_>, description: Arc<ClientDescription>) -> Option<Arc<Self>> {
        let members = RepeatedMembers::of(meta.get(), &DESCRIPTION, RunPlace::Together)?;
        let commas = memchr::memchr_iter(b',', members.text()).count();
        Some(Arc::new(Self { members, description, commas }))
    }

    /// Reads the description of a client in a `_meta` that is not large, if it is valid in one of these revisions and
    /// can be found again.
    #[cfg(feature = "http")]
    pub(crate) fn read(meta: &RawJson<'_>, served: VersionSet) -> Option<Arc<Self>> {
        if meta.weight() > SMALL_META {
            return None;
        }
        Self::of(meta, Arc::new(ClientDescription::read(meta, served)?))
    }

    /// Returns the members to look for in the messages of the client.
    #[cfg(feature = "http")]
    pub(crate) fn members(&self) -> Repeated<'_> {
        Repeated { meta: Some(&self.members), result: None }
    }
}

impl RepeatedParts {
    pub(crate) const fn new() -> Self {
        Self { client: None, spare: None, result: None }
    }

    /// Returns the members to look for in the messages of the peer.
    pub(crate) fn members(&self) -> Repeated<'_> {
        Repeated { meta: self.client.as_ref().map(|client| &client.members), result: self.result.as_ref() }
    }

    /// Returns the description of the client whose members were found in a `_meta`, and the [weight](RawJson::weight)
    /// of that `_meta` if it has no other members besides this progress token.
    pub(crate) fn client(
        &mut self,
        meta: &RawJson<'_>,
        token: Option<&RawJson<'_>>,
    ) -> Option<(Arc<ClientDescription>, usize)> {
        let KnownClient { description, commas, .. } = &**self.client.as_ref()?;
        let others = token.map_or(0, |token| 1 + token.commas());
        let description = self.spare.take().unwrap_or_else(|| description.clone());
        Some((description, meta.weight_with(commas + others)))
    }

    /// Keeps the description of the client in this `_meta`, if it can be found again.
    pub(crate) fn note_client(&mut self, meta: &RawJson<'_>, description: &Arc<ClientDescription>) {
        self.set(KnownClient::of(meta, description.clone()));
    }

    fn set(&mut self, client: Option<Arc<KnownClient>>) {
        (self.client, self.spare) = (client, None);
    }

    /// Keeps the reference of a request that has ended, if it is to the current description.
    pub(crate) fn take_back(&mut self, description: Arc<ClientDescription>) {
        if self.client.as_ref().is_some_and(|client| Arc::ptr_eq(&client.description, &description)) {
            self.spare = Some(description);
        }
    }

    /// Keeps a description that was read before.
    #[cfg(feature = "http")]
    pub(crate) fn set_client(&mut self, client: Arc<KnownClient>) {
        self.set(Some(client));
    }

    /// Keeps the beginning of a result whose `resultType` is `complete`, if it can be found again.
    pub(crate) fn note_result(&mut self, result: &RawJson<'_>) {
        self.result = RepeatedMembers::of(result.get(), &["resultType", "_meta"], RunPlace::Beginning);
    }
}
