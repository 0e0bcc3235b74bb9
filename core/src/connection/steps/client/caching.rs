//! The use of the client's cache (2026-07-28): a request with a fresh cached result is not sent. The application gets
//! the result as an ordinary response.

use alloc::string::String;

use crate::{
    cache::{Cache, CacheKey},
    connection::{
        engine::Engine,
        types::{Event, Limits, Outcome, SendError},
    },
    protocol::{Method, ProtocolVersion},
    rpc::{CallId, Timestamp},
    schema::SubscriptionFilter,
    wire::{ErrorCode, ErrorObject, RawJson},
};

impl Engine {
    /// Returns the cache, and creates it if necessary.
    pub(crate) fn cache(&mut self) -> &mut Cache {
        let Limits { cache_entries, cache_bytes, .. } = self.role_state.settings().limits;
        self.cache.or_make(|| Cache::new(cache_entries, cache_bytes))
    }

    /// Returns the method if its results may be cached on this connection.
    pub(crate) fn cacheable(&self, method: Option<Method>) -> Option<Method> {
        method.filter(|method| method.is_cacheable() && self.is_modern_client() && self.limits().cache_entries > 0)
    }

    /// Completes a cacheable request from the cache, or sends it with `send` and retains its cache key.
    pub(crate) fn start_or_use_cache(
        &mut self,
        now: Timestamp,
        method: Method,
        bypass_cache: bool,
        params: &[u8],
        send: impl FnOnce(&mut Self) -> Result<CallId, SendError>,
    ) -> Result<CallId, SendError> {
        let key = self.cache_key(method, params);
        if let Some(key) = key.as_ref().filter(|_| !bypass_cache)
            && let Some(call) = self.respond_from_cache(now, key)
        {
            return Ok(call);
        }
        let call = send(self)?;
        if let Some(key) = key {
            self.stats.cache_misses += u64::from(!bypass_cache);
            let generation = self.cache.generation(&key);
            self.retries.change(call, |retry| retry.state.cacheable = Some((generation, key)));
        }
        Ok(call)
    }

    fn cache_key(&self, method: Method, params: &[u8]) -> Option<CacheKey> {
        let text = core::str::from_utf8(params).ok()?;
        let params = (!text.is_empty()).then(|| RawJson::trusted(text));
        CacheKey::new(method, self.version?, params.as_ref(), self.role_state.principal())
    }

    /// Returns a call that is completed from the cache, if the cache has a fresh result.
    fn respond_from_cache(&mut self, now: Timestamp, key: &CacheKey) -> Option<CallId> {
        let now = self.clock.max(now);
        let result = self.cache.allocated_mut()?.get(now, key)?;
        let result = RawJson::trusted(result).into_owned();
        self.stats.cache_hits += 1;
        let call = self.calls.next_cached();
        self.events.push_back(Event::Response { call, outcome: Outcome::Result(result) });
        Some(call)
    }

    /// Caches the result of the probe, so that a later `server/discover` of the application is completed from the
    /// cache.
    pub(crate) fn note_discovery(&mut self, version: ProtocolVersion, result: &RawJson<'_>) {
        if self.start_state().is_some_and(|start_state| start_state.principal_changed) {
            return;
        }
        if let Some(key) = CacheKey::new(Method::Discover, version, None, self.role_state.principal()) {
            let generation = self.cache.generation(&key);
            let now = self.clock;
            self.cache().put(now, generation, &key, result);
        }
    }

    /// Caches a final result if its request was cacheable.
    pub(crate) fn keep_result(&mut self, call: CallId, result: &RawJson<'_>) {
        // The result of several input rounds is valid for this call only.
        let retries = self.retries.allocated_mut();
        let cacheable =
            retries.filter(|retries| retries.get(call).is_some_and(|retry| retry.state.cacheable.is_some()));
        let cacheable = cacheable.and_then(|retries| {
            retries.change(call, |retry| {
                let state = retry.state.allocated_mut()?;
                state.cacheable.take().filter(|_| !state.round.has_begun())
            })
        });
        if let Some((generation, key)) = cacheable.flatten() {
            let now = self.clock;
            self.cache().put(now, generation, &key, result);
        }
    }

    /// Drops the cached pages of a list if the server refused a cursor: the list has changed since those pages were
    /// fetched.
    pub(crate) fn note_refusal(&mut self, call: CallId, error: &ErrorObject) {
        let cacheable = self.retries.get(call).and_then(|retry| retry.state.cacheable.as_ref());
        if let Some((_, key)) = cacheable.filter(|(_, key)| error.code == ErrorCode::INVALID_PARAMS && key.has_cursor())
        {
            let method = key.method();
            self.cache().forget(method);
        }
    }

    /// Invalidates the cached results that a change notification of the server makes stale.
    pub(crate) fn handle_change(&mut self, change: Method, params: Option<&RawJson<'_>>) {
        if self.is_modern_client() && !change.makes_stale().is_empty() {
            let uri: Option<String> = params.and_then(|params| params.member("uri")?.decode().ok());
            self.cache().changed(change, uri.as_deref());
        }
    }

    /// Invalidates all results that changes within this filter make stale, because such a change may have been missed.
    pub(crate) fn may_have_missed(&mut self, filter: &SubscriptionFilter) {
        for change in Method::SUBSCRIBED {
            if filter.wants(change, None) {
                self.cache().changed(change, None);
            }
        }
        if let Some(uris) = &filter.resource_subscriptions {
            self.cache().changed_any(uris);
        }
    }
}
