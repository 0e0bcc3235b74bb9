//! A cache of the results of tools.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use hmac_sha256::Hash;
use mcp_proto::{
    protocol::Method,
    rpc::Timestamp,
    wire::{JsonObject, RawJson},
};

use super::caller::CallerKey;
use crate::{
    driver_api::deferred::Deferred,
    inbound::{
        failure::Failure,
        middleware::{Completed, IncomingRequest, Middleware, Next},
        rpc_result::ResponseKind,
    },
    server::input_required::digest::value_digest,
    util::lock::lock,
};

/// A layer that keeps the results of some tools, and returns them for equal calls without running the handler.
///
/// Calls are equal if they have the same service, the same tool, the same revision of the protocol, the same caller,
/// and arguments with the same values: the order of members and the notation of texts and numbers do not matter. For
/// tools whose results are the same for every caller, [`shared`](Self::shared) leaves out the caller.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_service::{Service, Tool, layers::ResultCache};
///
/// let cache = ResultCache::new(Duration::from_secs(60)).per_caller("inbox").shared("weather");
/// let service = Service::builder("office", "1.0.0")
///     .tool(Tool::new("inbox", || "2 letters"))
///     .tool(Tool::new("weather", || "rain"))
///     .with_layer(cache.clone())
///     .build()?;
/// cache.clear(); // when the data has changed
/// # Ok::<(), mcp_service::RegisterError>(())
/// ```
///
/// - Only complete results of the named tools are kept: no failures, no errors, no results of tasks, and no results for
///   which the client has given input in another round (2026-07-28).
/// - A tool must not be named if its results depend on anything else than its arguments and its caller, such as input
///   of the user, or headers and capabilities of the client.
/// - The checks of a service come first. So a caller that may not see a tool, or lacks its scopes, gets no result of
///   it.
/// - A caller is a principal with its OAuth client and its scopes, or else a connection. Over HTTP without a session
///   (2026-07-28), callers without a principal cannot be distinguished, and only shared results are kept for them.
/// - Several equal calls at the same time run the handler several times.
///
/// It is cheap to clone, and all clones are one cache.
///
/// # Limits
/// The default limits are 10,000 results, 16 MiB in total, and 1 MiB for each result. If there is no room for a result,
/// the oldest result of the caller with most bytes is removed, so that one caller cannot displace the results of
/// others. Shared results count as those of one caller.
#[derive(Clone)]
pub struct ResultCache {
    /// The tools, and whether their results are shared by all callers.
    tools: Arc<HashMap<String, bool>>,
    ttl: Duration,
    limits: Limits,
    store: Arc<Mutex<Store>>,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    entries: usize,
    bytes: usize,
    entry_bytes: usize,
}

/// The digest of everything on which a result depends.
type Key = [u8; 32];

#[derive(Default)]
struct Store {
    entries: HashMap<Key, Entry>,
    holders: HashMap<CallerKey, CallerResults>,
    /// The callers, by the bytes of their results.
    by_bytes: BTreeSet<(usize, CallerKey)>,
    bytes: usize,
    /// The number of the next entry.
    next: u64,
    /// The number of times that the cache was cleared.
    generation: u64,
}

struct Entry {
    result: Arc<JsonObject>,
    expires: Timestamp,
    holder: CallerKey,
    number: u64,
}

/// The results of one caller.
#[derive(Default)]
struct CallerResults {
    bytes: usize,
    /// The keys in the order in which they were added.
    keys: BTreeMap<u64, Key>,
}

/// The bytes that an entry takes beside its result.
const OVERHEAD: usize = 256;

impl ResultCache {
    /// Creates a cache for no tool, which keeps results for `ttl`.
    #[must_use]
    pub fn new(ttl: Duration) -> Self {
        let limits = Limits { entries: 10_000, bytes: 16 << 20, entry_bytes: 1 << 20 };
        Self { tools: Arc::default(), ttl, limits, store: Arc::default() }
    }

    /// Keeps the results of a tool, for each caller separately.
    #[must_use]
    pub fn per_caller(mut self, tool: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.tools).insert(tool.into(), false);
        self
    }

    /// Keeps the results of a tool, for all callers that may use the tool. Each of them gets results that the tool has
    /// returned to others.
    #[must_use]
    pub fn shared(mut self, tool: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.tools).insert(tool.into(), true);
        self
    }

    /// Sets the most results. Default 10,000.
    #[must_use]
    pub const fn max_entries(mut self, max: usize) -> Self {
        self.limits.entries = max;
        self
    }

    /// Sets the most bytes of all results. Default 16 MiB.
    #[must_use]
    pub const fn max_bytes(mut self, max: usize) -> Self {
        self.limits.bytes = max;
        self
    }

    /// Sets the most bytes of a result that is kept. Default 1 MiB.
    #[must_use]
    pub const fn max_entry_bytes(mut self, max: usize) -> Self {
        self.limits.entry_bytes = max;
        self
    }

    /// Removes all results. Results of calls in flight are not kept either.
    pub fn clear(&self) {
        let mut store = lock(&self.store);
        let generation = store.generation + 1;
        let before = std::mem::replace(&mut *store, Store { generation, ..Store::default() });
        drop(store);
        drop(before);
    }

    /// Returns the number of results.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.store).entries.len()
    }

    /// Returns whether there are no results.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the key and the caller of a call, if its result may be kept.
    fn key(&self, request: &IncomingRequest) -> Option<(Key, CallerKey)> {
        /// With these members, a call is one of several rounds, or may become a task.
        const EXCLUDED: [&str; 3] = ["inputResponses", "requestState", "task"];

        if request.method() != Method::CallTool.as_str() || !request.has_handler() {
            return None;
        }
        let name = request.name()?;
        let is_shared = *self.tools.get(name)?;
        let context = request.context();
        let excluded = |params: RawJson<'_>| EXCLUDED.iter().any(|name| params.member(name).is_some());
        if context.task_id().is_some() || request.params().is_some_and(excluded) {
            return None;
        }
        let (owner, holder) = match is_shared {
            true => (CallerKey::all(), CallerKey::all()),
            false => (CallerKey::exclusive(context)?, CallerKey::of(context)),
        };
        let arguments = match request.arguments().filter(|arguments| !arguments.is_null()) {
            Some(arguments) => value_digest(&arguments),
            None => value_digest(&RawJson::from(&JsonObject::empty())),
        };
        let mut hash = Hash::new();
        // Clones of the cache may be layers of several services.
        hash.update(context.service().0.number.to_be_bytes());
        hash.update(owner.as_bytes());
        hash.update(arguments);
        hash.update(context.version().as_str().as_bytes());
        // The last part needs no separator: the others have a known length, or no such text is the start of another.
        hash.update([0]);
        hash.update(name.as_bytes());
        Some((hash.finalize(), holder))
    }
}

impl Store {
    fn get(&mut self, key: &Key, now: Timestamp) -> Option<Arc<JsonObject>> {
        let entry = self.entries.get(key)?;
        if entry.expires > now {
            return Some(entry.result.clone());
        }
        self.remove(key);
        None
    }

    fn insert(&mut self, key: Key, holder: CallerKey, result: JsonObject, expires: Timestamp, limits: Limits) {
        let bytes = result.get().len() + OVERHEAD;
        if result.get().len() > limits.entry_bytes || bytes > limits.bytes || limits.entries == 0 {
            return;
        }
        self.remove(&key);
        let number = self.next;
        self.next += 1;
        self.count(holder, |held| {
            held.bytes += bytes;
            held.keys.insert(number, key);
        });
        self.bytes += bytes;
        self.entries.insert(key, Entry { result: Arc::new(result), expires, holder, number });
        while self.bytes > limits.bytes || self.entries.len() > limits.entries {
            let largest = self.by_bytes.last().and_then(|(_, holder)| self.holders.get(holder));
            let Some(oldest) = largest.and_then(|held| held.keys.values().next().copied()) else { return };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(entry) = self.entries.remove(key) else { return };
        let bytes = entry.result.get().len() + OVERHEAD;
        self.bytes -= bytes;
        self.count(entry.holder, |held| {
            held.bytes -= bytes;
            held.keys.remove(&entry.number);
        });
    }

    /// Changes the results of a caller.
    fn count(&mut self, holder: CallerKey, change: impl FnOnce(&mut CallerResults)) {
        let held = self.holders.entry(holder).or_default();
        self.by_bytes.remove(&(held.bytes, holder));
        change(held);
        if held.keys.is_empty() {
            self.holders.remove(&holder);
        } else {
            self.by_bytes.insert((held.bytes, holder));
        }
    }
}

impl Middleware for ResultCache {
    fn handle(&self, request: IncomingRequest, next: Next) -> Deferred<Result<Completed, Failure>> {
        let Some((key, holder)) = self.key(&request) else { return next.run().map(Ok) };
        let now = request.context().service_time();
        let (found, generation) = {
            let mut store = lock(&self.store);
            (store.get(&key, now), store.generation)
        };
        if let Some(found) = found {
            return Deferred::ready(Ok(next.respond((*found).clone())));
        }
        let cache = self.clone();
        next.run().map(move |completed| {
            let context = request.context();
            let is_kept = *completed.kind() == ResponseKind::Result && context.task_id().is_none();
            if let Some(result) = completed.result().filter(|_| is_kept) {
                let (result, expires) = (result.clone(), context.service_time() + cache.ttl);
                let mut store = lock(&cache.store);
                if store.generation == generation {
                    store.insert(key, holder, result, expires, cache.limits);
                }
            }
            Ok(completed)
        })
    }
}

impl fmt::Debug for ResultCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultCache").field("ttl", &self.ttl).field("results", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(store: &mut Store, holder: &str, key: u8, length: usize, limits: Limits) {
        let result = JsonObject::parse(format!("{{\"a\":\"{}\"}}", "x".repeat(length))).expect("an object");
        let mut id = [key; 32];
        id[..holder.len()].copy_from_slice(holder.as_bytes());
        store.insert(id, CallerKey::named(holder), result, Timestamp::from_nanos(u64::MAX), limits);
    }

    fn check(store: &Store, limits: Limits) {
        let bytes: usize = store.entries.values().map(|entry| entry.result.get().len() + OVERHEAD).sum();
        assert_eq!(store.bytes, bytes);
        assert!(bytes <= limits.bytes && store.entries.len() <= limits.entries);
        assert_eq!(store.holders.values().map(|held| held.bytes).sum::<usize>(), bytes);
        assert_eq!(store.holders.values().map(|held| held.keys.len()).sum::<usize>(), store.entries.len());
        assert_eq!(store.by_bytes.len(), store.holders.len());
    }

    #[test]
    fn one_caller_cannot_displace_the_results_of_others() {
        let limits = Limits { entries: 20, bytes: 1 << 20, entry_bytes: 1 << 20 };
        let mut store = Store::default();
        (0..3).for_each(|key| insert(&mut store, "ada", key, 100, limits));
        for key in 0..200 {
            insert(&mut store, "eve", key, 100, limits);
            check(&store, limits);
        }
        assert_eq!(store.holders[&CallerKey::named("ada")].keys.len(), 3);
        assert_eq!(store.entries.len(), 20);
    }

    #[test]
    fn the_bytes_of_all_results_are_bounded() {
        let limits = Limits { entries: 1000, bytes: 10_000, entry_bytes: 5_000 };
        let mut store = Store::default();
        for key in 0..200 {
            insert(&mut store, "eve", key, usize::from(key) * 40, limits);
            check(&store, limits);
        }
        assert!(store.entries.values().all(|entry| entry.result.get().len() <= 5_000));
        (0..200).for_each(|key| insert(&mut store, "eve", key, 1, Limits { entries: 0, ..limits }));
        check(&store, limits);
        let keys: Vec<_> = store.entries.keys().copied().collect();
        keys.iter().for_each(|key| store.remove(key));
        assert!(store.bytes == 0 && store.holders.is_empty() && store.by_bytes.is_empty());
    }

    #[test]
    fn expired_results_are_removed() {
        let mut store = Store::default();
        let limits = Limits { entries: 10, bytes: 10_000, entry_bytes: 5_000 };
        let result = JsonObject::empty();
        store.insert([1; 32], CallerKey::all(), result, Timestamp::from_nanos(10), limits);
        assert!(store.get(&[1; 32], Timestamp::from_nanos(9)).is_some());
        assert!(store.get(&[1; 32], Timestamp::from_nanos(10)).is_none());
        assert!(store.entries.is_empty() && store.holders.is_empty());
    }

    #[test]
    fn length_is_the_number_of_results() {
        let cache = ResultCache::new(Duration::from_secs(7)).max_entries(2).max_bytes(2_000).max_entry_bytes(1_000);
        assert_eq!((cache.limits.entries, cache.limits.bytes, cache.limits.entry_bytes), (2, 2_000, 1_000));
        assert_eq!((cache.len(), cache.is_empty()), (0, true));
        for (key, length) in [(0, 1), (1, 2), (2, 2)] {
            insert(&mut lock(&cache.store), "ada", key, 10, cache.limits);
            assert_eq!((cache.len(), cache.is_empty()), (length, false));
        }
        assert_eq!(format!("{cache:?}"), "ResultCache { ttl: 7s, results: 2, .. }");
        cache.clear();
        assert_eq!((cache.len(), lock(&cache.store).generation), (0, 1));
        cache.clear();
        assert_eq!(lock(&cache.store).generation, 2);
        let Limits { entries, bytes, entry_bytes } = ResultCache::new(Duration::ZERO).limits;
        assert_eq!((entries, bytes, entry_bytes), (10_000, 16_777_216, 1_048_576));
    }

    #[test]
    fn results_of_exactly_the_limits_are_kept() {
        // `{"a":""}` has 8 bytes beside the text.
        let kept = |length, limits: Limits| {
            let mut store = Store::default();
            insert(&mut store, "ada", 0, length, limits);
            (store.entries.len(), store.bytes)
        };
        let limits = Limits { entries: 1, bytes: 10_000, entry_bytes: 108 };
        assert_eq!((kept(100, limits), kept(101, limits)), ((1, 364), (0, 0)));
        let limits = Limits { entries: 1, bytes: 364, entry_bytes: 10_000 };
        assert_eq!((kept(100, limits), kept(101, limits)), ((1, 364), (0, 0)));
        // Two results fill the cache, and a third one displaces the oldest.
        let limits = Limits { entries: 10, bytes: 728, entry_bytes: 10_000 };
        let mut store = Store::default();
        for (key, keys) in [(0, &[0][..]), (1, &[0, 1]), (2, &[1, 2]), (1, &[1, 2])] {
            insert(&mut store, "", key, 100, limits);
            let mut held: Vec<_> = store.entries.keys().map(|id| id[0]).collect();
            held.sort_unstable();
            assert_eq!(held, keys);
            check(&store, limits);
        }
        // The last one was added again, so the other is older.
        insert(&mut store, "", 3, 100, limits);
        let mut held: Vec<_> = store.entries.keys().map(|id| id[0]).collect();
        held.sort_unstable();
        assert_eq!(held, [1, 3]);
    }

    #[test]
    fn sizes_numbers_and_times_of_results_have_exact_limits() {
        // Each result has 8 bytes and its text.
        for (entries, bytes, entry_bytes, kept) in [
            (1, 8 + 10 + OVERHEAD, 8 + 10, 1),
            (2, 2 * (8 + 10 + OVERHEAD), 8 + 10, 2),
            (2, 2 * (8 + 10 + OVERHEAD) - 1, 8 + 10, 1),
            (9, 1 << 20, 8 + 9, 0),
            (9, 8 + 10 + OVERHEAD - 1, 1 << 20, 0),
            (0, 1 << 20, 1 << 20, 0),
        ] {
            let limits = Limits { entries, bytes, entry_bytes };
            let mut store = Store::default();
            for key in 0..5 {
                insert(&mut store, "ada", key, 10, limits);
                check(&store, limits);
            }
            assert_eq!(store.entries.len(), kept, "{limits:?}");
            // The latest results are kept.
            assert!(store.entries.keys().all(|key| usize::from(key[31]) >= 5 - kept));
        }
        let limits = Limits { entries: 9, bytes: 1 << 20, entry_bytes: 1 << 20 };
        let mut store = Store::default();
        store.insert([1; 32], CallerKey::named("ada"), JsonObject::empty(), Timestamp::from_nanos(10), limits);
        assert!(store.get(&[1; 32], Timestamp::from_nanos(9)).is_some());
        assert!(store.get(&[2; 32], Timestamp::from_nanos(9)).is_none());
        assert_eq!((store.get(&[1; 32], Timestamp::from_nanos(10)), store.entries.len(), store.bytes), (None, 0, 0));
    }

    #[test]
    fn a_cache_counts_its_results() {
        let cache = ResultCache::new(Duration::from_secs(1));
        assert_eq!((cache.len(), cache.is_empty()), (0, true));
        let limits = Limits { entries: 9, bytes: 1 << 20, entry_bytes: 1 << 20 };
        insert(&mut lock(&cache.store), "ada", 1, 10, limits);
        assert_eq!((cache.len(), cache.is_empty()), (1, false));
        cache.clear();
        assert!(cache.is_empty());
    }
}
