//! A cache of results that a client may use again for some time (2026-07-28).
//!
//! The hints of a server define how long a result of a list, of a resource or of `server/discover` is valid, and
//! whether it is private. A [`Cache`] returns a result only while it is valid: not after a notification that it has
//! changed, and not for another query, revision or principal. It sends nothing and has no clock. A
//! [`Client`](crate::connection::Client) has one, and checks it before it sends a request.
//!
//! Spec: [caching](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching)

mod key;

use alloc::{boxed::Box, collections::BTreeMap, string::String, sync::Arc};
use core::time::Duration;

use key::{CacheQuery, Slot};

use crate::{
    collections::StaticDefault,
    protocol::Method,
    rpc::Timestamp,
    schema::{CacheHints, ResultType},
    wire::RawJson,
};

pub use key::CacheKey;

/// A cache of results with a limit on entries and bytes. It evicts the least recently used result first.
///
/// ```
/// use std::time::Duration;
/// use mcp_proto::{cache::{Cache, CacheKey}, protocol::{Method, ProtocolVersion}, rpc::Timestamp, wire::{Json, RawJson}};
///
/// let mut cache = Cache::new(100, 1 << 20);
/// let key = CacheKey::new(Method::ListTools, ProtocolVersion::LATEST, None, None).expect("lists can be kept");
/// let result = Json::parse(r#"{"tools":[],"ttlMs":1000,"cacheScope":"private"}"#)?;
/// let generation = cache.generation(&key);
/// let now = Timestamp::ZERO;
/// cache.put(now, generation, &key, &RawJson::from(&result));
/// assert_eq!(cache.get(now + Duration::from_millis(999), &key), Some(result.get()));
/// assert_eq!(cache.get(now + Duration::from_millis(1000), &key), None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cache {
    most_entries: usize,
    most_bytes: usize,
    entries: BTreeMap<Arc<Slot>, Entry>,
    /// The keys in the order in which they were used.
    used: BTreeMap<u64, Arc<Slot>>,
    uses: u64,
    bytes: usize,
    /// The number of changes that made results stale, for each method.
    changes: [u64; CACHEABLE.len()],
}

/// The methods whose results can be cached.
const CACHEABLE: [Method; 8] = [
    Method::Discover,
    Method::ListTools,
    Method::ListPrompts,
    Method::ListResources,
    Method::ListResourceTemplates,
    Method::ReadResource,
    Method::ListSkills,
    Method::GetSkill,
];

/// The number of changes of a method's results up to a moment, from [`Cache::generation`]. If it has changed when the
/// response is received, a change may be missing in the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(u64);

impl Generation {
    /// The generation of a request whose principal has changed since it was sent: its result is not stored.
    pub(crate) const STALE: Self = Self(u64::MAX);
}

#[derive(Clone, Debug)]
struct Entry {
    result: Box<str>,
    stale_at: Timestamp,
    used: u64,
}

impl StaticDefault for Cache {
    const EMPTY: &'static Self = &Self::new(0, 0);
}

impl Cache {
    /// Creates a cache for at most `most_entries` results and `most_bytes` bytes, bookkeeping included. If one of them
    /// is 0, it stores nothing.
    #[must_use]
    pub const fn new(most_entries: usize, most_bytes: usize) -> Self {
        Self {
            most_entries,
            most_bytes,
            entries: BTreeMap::new(),
            used: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            changes: [0; CACHEABLE.len()],
        }
    }

    /// Returns a result that is still valid: the private one of the principal, or the public one.
    pub fn get(&mut self, now: Timestamp, key: &CacheKey) -> Option<&str> {
        let slot = key.slots().into_iter().find(|slot| {
            let good = self.entries.get(slot).map(|entry| now < entry.stale_at);
            if good == Some(false) {
                self.remove(slot);
            }
            good == Some(true)
        })?;
        self.touch(&slot);
        self.entries.get(&slot).map(|entry| &*entry.result)
    }

    /// Returns the current generation of the results of a request's method. Call it when the request is sent, and pass
    /// the generation to [`put`](Self::put).
    #[must_use]
    pub fn generation(&self, key: &CacheKey) -> Generation {
        Generation(index(key.method()).map_or(0, |index| self.changes[index]))
    }

    /// Stores a result that was received at `now`, if it may be stored, and returns whether it was. It removes an older
    /// result of the same request in any case.
    ///
    /// A result is not stored if it is not complete, if its time to live is 0, if a change since
    /// [`generation`](Self::generation) made it stale, or if it is larger than the cache.
    pub fn put(&mut self, now: Timestamp, generation: Generation, key: &CacheKey, result: &RawJson<'_>) -> bool {
        for slot in key.slots() {
            self.remove(&slot);
        }
        let hints = CacheHints::of(result);
        let complete = ResultType::of(result.get()) == Some(ResultType::Complete);
        if hints.ttl_ms == 0 || !complete || generation != self.generation(key) {
            return false;
        }
        let slot = Arc::new(key.slot_for(&hints.scope));
        let entry =
            Entry { result: result.get().into(), stale_at: now + Duration::from_millis(hints.ttl_ms), used: self.uses };
        let weight = weight(&slot, &entry);
        if weight > self.most_bytes || self.most_entries == 0 {
            return false;
        }
        while self.entries.len() >= self.most_entries || self.bytes + weight > self.most_bytes {
            let Some((_, oldest)) = self.used.first_key_value() else { break };
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
        self.bytes += weight;
        self.used.insert(self.uses, slot.clone());
        self.uses += 1;
        self.entries.insert(slot, entry);
        true
    }

    /// Drops the results that a change notification of the server makes stale, before their time to live has passed.
    /// `uri` is that of the changed resource, or `None` for all of them; results for resources above or below it are
    /// dropped too.
    pub fn changed(&mut self, change: Method, uri: Option<&str>) {
        for method in change.makes_stale() {
            self.remove_if(*method, |query| query.concerns(uri));
        }
    }

    /// Drops the results that changes of these resources make stale, in one pass. See [`changed`](Self::changed).
    pub(crate) fn changed_any(&mut self, uris: &[String]) {
        for method in Method::ResourceUpdated.makes_stale() {
            self.remove_if(*method, |query| query.is_affected_by(uris));
        }
    }

    /// Drops every result of a method: all pages of a list. Results of its requests in flight will not be stored.
    pub fn forget(&mut self, method: Method) {
        self.remove_if(method, |_| true);
    }

    fn remove_if(&mut self, method: Method, concerned: impl Fn(&CacheQuery) -> bool) {
        let Some(index) = index(method) else { return };
        self.changes[index] += 1;
        let concerned: alloc::vec::Vec<_> =
            self.entries.keys().filter(|slot| slot.0.method() == method && concerned(&slot.0)).cloned().collect();
        for slot in concerned {
            self.remove(&slot);
        }
    }

    /// Drops every result. Results of requests in flight will not be stored.
    pub fn clear(&mut self) {
        for method in CACHEABLE {
            self.forget(method);
        }
    }

    /// Returns the number of results, including those whose time to live has passed and that were not looked up since.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the cache holds no results.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns how many bytes the results take, including their keys and the bookkeeping.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn touch(&mut self, slot: &Slot) {
        if let Some(entry) = self.entries.get_mut(slot)
            && let Some(slot) = self.used.remove(&entry.used)
        {
            entry.used = self.uses;
            self.used.insert(self.uses, slot);
            self.uses += 1;
        }
    }

    fn remove(&mut self, slot: &Slot) {
        if let Some((slot, entry)) = self.entries.remove_entry(slot) {
            self.bytes -= weight(&slot, &entry);
            self.used.remove(&entry.used);
        }
    }
}

fn index(method: Method) -> Option<usize> {
    CACHEABLE.iter().position(|kept| *kept == method)
}

/// Returns how many bytes a result takes, with its key and its entries in two trees.
fn weight(slot: &Slot, entry: &Entry) -> usize {
    const ENTRY_BYTES: usize = size_of::<CacheQuery>() + 2 * (size_of::<Slot>() + size_of::<Entry>());
    ENTRY_BYTES + slot.0.len() + entry.result.len()
}

#[cfg(test)]
mod tests;
