//! The folders that servers may work in.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use mcp_proto::{
    connection::ClientRole,
    schema::{Root, RootsListChangedParams},
};

use crate::{
    inbound::{session_registry::SessionRegistry, state::SessionState},
    util::lock::lock,
};

/// The folders that servers may work in. Clones share the list: a change of any clone notifies the servers.
#[derive(Clone, Default)]
pub struct Roots(Arc<Inner>);

#[derive(Default)]
struct Inner {
    list: Mutex<Vec<Root>>,
    servers: SessionRegistry<ClientRole>,
}

/// The error of an invalid root: its URI does not start with `file://`, or leaves a folder with `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidRoot {
    /// The URI.
    pub uri: String,
}

impl fmt::Display for InvalidRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a root: {:?}", self.uri)
    }
}

impl std::error::Error for InvalidRoot {}

impl Roots {
    /// Creates a list of roots.
    ///
    /// # Errors
    /// If a root is invalid; see [`Root::is_valid`].
    pub fn new(roots: impl IntoIterator<Item = Root>) -> Result<Self, InvalidRoot> {
        let this = Self::default();
        *lock(&this.0.list) = check(roots)?;
        Ok(this)
    }

    /// Returns a copy of the current roots.
    #[must_use]
    pub fn list(&self) -> Vec<Root> {
        lock(&self.0.list).clone()
    }

    /// Replaces the list. Servers are notified if it has changed.
    ///
    /// # Errors
    /// If a root is invalid. The list is unchanged then.
    pub fn set(&self, roots: impl IntoIterator<Item = Root>) -> Result<(), InvalidRoot> {
        let roots = check(roots)?;
        {
            let mut list = lock(&self.0.list);
            if *list == roots {
                return Ok(());
            }
            *list = roots;
        }
        self.0.servers.each(|_, connection| {
            // It fails for servers to which these notifications were not declared.
            let _ = connection.update(|conn, _| conn.notify(&RootsListChangedParams::default()));
        });
        Ok(())
    }

    pub(super) fn insert(&self, shared: &Arc<SessionState<ClientRole>>) {
        self.0.servers.insert(shared);
    }

    pub(super) fn remove(&self, shared: &SessionState<ClientRole>) {
        self.0.servers.remove(shared);
    }
}

fn check(roots: impl IntoIterator<Item = Root>) -> Result<Vec<Root>, InvalidRoot> {
    let check = |root: Root| if root.is_valid() { Ok(root) } else { Err(InvalidRoot { uri: root.uri }) };
    roots.into_iter().map(check).collect()
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Roots").field(&*lock(&self.0.list)).finish()
    }
}
