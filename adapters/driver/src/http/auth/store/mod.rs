//! The stores of tokens.

#[cfg(unix)]
pub(super) mod file;
pub(super) mod memory;

use std::{io, sync::Arc};

use mcp_proto::auth::client::{Credentials, Generation, StoreReply};

/// A store of the credentials of clients.
///
/// Processes that share a store use the tokens of each other. So [`replace`](Self::replace) is a compare-and-swap: it
/// changes an entry only if the entry still has the generation that the caller has read. Each version of an entry has a
/// generation that its key never had, also after the entry was removed.
///
/// The methods may block: they are called on threads for blocking functions.
///
/// # Keyrings
///
/// A keyring of the system stores the generation and [`Credentials::to_json`] as the secret of a key. Most keyrings
/// have no compare-and-swap, so `replace` needs a lock that all processes take, such as a lock file. A random number is
/// a generation that does not repeat.
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
