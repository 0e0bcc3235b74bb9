//! Credentials in memory.

use std::{collections::BTreeMap, fmt, io, sync::Mutex};

use mcp_proto::auth::client::{Credentials, Generation, StoreReply};

use crate::{http::auth::store::TokenStore, sync::lock};

/// A store in memory, which keeps credentials until the process ends.
#[derive(Default)]
pub struct MemoryTokenStore(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// The last generation of any key.
    last: u64,
    entries: BTreeMap<String, (Generation, Credentials)>,
}

impl TokenStore for MemoryTokenStore {
    fn load(&self, key: &str) -> io::Result<Option<(Generation, Credentials)>> {
        Ok(lock(&self.0).entries.get(key).cloned())
    }

    fn replace(
        &self,
        key: &str,
        expected: Option<Generation>,
        credentials: Option<&Credentials>,
    ) -> io::Result<StoreReply> {
        let Entries { last, entries } = &mut *lock(&self.0);
        let found = entries.get(key);
        if found.map(|(generation, _)| *generation) != expected {
            return Ok(StoreReply::Conflict(found.cloned().map(Box::new)));
        }
        *last += 1;
        let generation = Generation(*last);
        match credentials {
            Some(credentials) => drop(entries.insert(key.to_owned(), (generation, credentials.clone()))),
            None => drop(entries.remove(key)),
        }
        Ok(StoreReply::Stored(generation))
    }
}

impl fmt::Debug for MemoryTokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTokenStore").field("entries", &lock(&self.0).entries.len()).finish_non_exhaustive()
    }
}
