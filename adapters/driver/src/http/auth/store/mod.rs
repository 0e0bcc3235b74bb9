//! Where tokens are kept.

#[cfg(unix)]
pub(super) mod file;
pub(super) mod memory;

use std::{io, sync::Arc};

use mcp_proto::auth::client::{Credentials, Generation, StoreReply};

/// Keeps the credentials of clients.
///
/// Processes that share a store use the tokens of each other. So [`replace`](Self::replace) compares and swaps: it
/// changes an entry only if that still has the generation that the caller has seen. The store gives each version of an
/// entry a generation that the entry never had, also after it was removed.
///
/// The methods may block: they are called on threads for that.
///
/// # Keyrings
///
/// A keyring of the system keeps [`Credentials::to_json`] as the secret of the key, with the generation in front of it.
/// Most keyrings cannot compare and swap, so `replace` needs a lock that all processes take, such as a file. A random
/// number makes a generation that does not repeat.
pub trait TokenStore: Send + Sync + 'static {
    /// Loads an entry. The key is the URL of a server, which may have a secret in its query.
    ///
    /// # Errors
    /// If it cannot be read.
    fn load(&self, key: &str) -> io::Result<Option<(Generation, Credentials)>>;

    /// Replaces an entry if it still has the generation `expected`; `None` if there must be no entry. Without
    /// `credentials` the entry is removed.
    ///
    /// # Errors
    /// If it cannot be written.
    fn replace(
        &self,
        key: &str,
        expected: Option<Generation>,
        credentials: Option<&Credentials>,
    ) -> io::Result<StoreReply>;
}

impl<S: TokenStore + ?Sized> TokenStore for Arc<S> {
    fn load(&self, key: &str) -> io::Result<Option<(Generation, Credentials)>> {
        S::load(self, key)
    }

    fn replace(
        &self,
        key: &str,
        expected: Option<Generation>,
        credentials: Option<&Credentials>,
    ) -> io::Result<StoreReply> {
        S::replace(self, key, expected, credentials)
    }
}
