//! Keys of the cache: the parts of a request that determine its result.

use alloc::{boxed::Box, string::String, sync::Arc};

use crate::{
    protocol::{Era, Method, ProtocolVersion},
    schema::{CacheScope, is_at_or_below, keys},
    wire::{
        RawJson,
        scan::{MAX_DEPTH, Scanner},
    },
};

/// A cache key: method, params, revision and principal. Requests with equal keys have the same result.
///
/// The members of `_meta` count, except for those that describe only the one request: revision, sender, capabilities,
/// log level, progress token and trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheKey {
    query: Arc<CacheQuery>,
    principal: Option<Arc<str>>,
}

/// The part of a key that does not depend on the principal.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CacheQuery {
    method: Method,
    version: ProtocolVersion,
    params: Box<str>,
}

/// The principals that a result is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Audience {
    Private(Option<Arc<str>>),
    Public,
}

/// The position of a result. A query can have one public result, and one private result for each principal.
pub(super) type Slot = (Arc<CacheQuery>, Audience);

/// Members of params that make a request a part of a longer exchange. Its result is not cached.
const OF_ROUNDS: [&str; 2] = ["inputResponses", "requestState"];

/// Members of `_meta` that are about the one request.
const OF_REQUEST: [&str; 8] = [
    keys::PROTOCOL_VERSION,
    keys::CLIENT_INFO,
    keys::CLIENT_CAPABILITIES,
    keys::LOG_LEVEL,
    keys::PROGRESS_TOKEN,
    keys::TRACEPARENT,
    keys::TRACESTATE,
    keys::BAGGAGE,
];

impl CacheKey {
    /// Creates the key of a request. `principal` is the identity under which the request is made, if that is known.
    ///
    /// Returns `None` if the result must not be cached: the revision or the method has no caching hints, or the request
    /// continues an exchange of several requests (`inputResponses`, `requestState`).
    #[must_use]
    pub fn new(
        method: Method,
        version: ProtocolVersion,
        params: Option<&RawJson<'_>>,
        principal: Option<Arc<str>>,
    ) -> Option<Self> {
        if version.era() != Era::Modern || !method.is_cacheable() {
            return None;
        }
        let params = params.map_or(Some(String::new()), |params| significant(params))?;
        Some(Self { query: Arc::new(CacheQuery { method, version, params: params.into() }), principal })
    }

    /// Returns the method of the request.
    #[must_use]
    pub fn method(&self) -> Method {
        self.query.method
    }

    /// Returns whether the request is for a page of a list other than the first one.
    #[must_use]
    pub fn has_cursor(&self) -> bool {
        self.query.member("cursor").is_some()
    }

    /// Returns the number of bytes that the params and the principal take.
    pub(crate) fn len(&self) -> usize {
        self.query.len() + self.principal.as_ref().map_or(0, |principal| principal.len())
    }

    /// Returns the slots that are valid for this key: the private one of its principal, and the public one.
    pub(super) fn slots(&self) -> [Slot; 2] {
        [Audience::Private(self.principal.clone()), Audience::Public].map(|audience| self.slot(audience))
    }

    /// Returns the slot for a result of this scope.
    pub(super) fn slot_for(&self, scope: &CacheScope) -> Slot {
        self.slot(match scope {
            CacheScope::Public => Audience::Public,
            CacheScope::Private | CacheScope::Other(_) => Audience::Private(self.principal.clone()),
        })
    }

    fn slot(&self, audience: Audience) -> Slot {
        (self.query.clone(), audience)
    }
}

impl CacheQuery {
    pub(super) const fn method(&self) -> Method {
        self.method
    }

    /// Returns whether a change of the resource `changed` can affect the result. `None` stands for all resources.
    pub(super) fn concerns(&self, changed: Option<&str>) -> bool {
        match (changed, self.member("uri")) {
            (Some(changed), Some(uri)) => is_at_or_below(changed, &uri) || is_at_or_below(&uri, changed),
            _ => true,
        }
    }

    /// Returns whether a change of one of these resources can show in the result.
    pub(super) fn is_affected_by(&self, changed: &[String]) -> bool {
        match self.member("uri") {
            Some(uri) => changed.iter().any(|it| is_at_or_below(it, &uri) || is_at_or_below(&uri, it)),
            None => !changed.is_empty(),
        }
    }

    fn member(&self, name: &str) -> Option<String> {
        RawJson::trusted(&self.params).member(name)?.decode().ok()
    }

    pub(super) const fn len(&self) -> usize {
        self.params.len()
    }
}

/// Returns the text of the params without members that make no difference; `None` if they belong to an exchange of
/// several requests.
fn significant(params: &RawJson<'_>) -> Option<String> {
    let mut text = String::new();
    let mut scanner = Scanner::new(params.get(), MAX_DEPTH);
    scanner.expect(b'{').ok()?;
    let mut first = true;
    while let Some(name) = scanner.next_member(first).ok()? {
        first = false;
        let value = scanner.value(1).ok()?;
        if OF_ROUNDS.iter().any(|round| name.is(round)) {
            return None;
        }
        if name.is("_meta") {
            add(&mut text, "_meta", &significant_meta(value)?);
        } else {
            add(&mut text, name.written(), value);
        }
    }
    if !text.is_empty() {
        text.push('}');
    }
    Some(text)
}

fn significant_meta(meta: &str) -> Option<String> {
    let mut text = String::new();
    let mut scanner = Scanner::new(meta, MAX_DEPTH);
    if !scanner.eat(b'{') {
        return Some(meta.into());
    }
    let mut first = true;
    while let Some(name) = scanner.next_member(first).ok()? {
        first = false;
        let value = scanner.value(1).ok()?;
        if !OF_REQUEST.iter().any(|request| name.is(request)) {
            add(&mut text, name.written(), value);
        }
    }
    if !text.is_empty() {
        text.push('}');
    }
    Some(text)
}

/// Adds a member to the text of an object that is not closed yet. An empty `value` adds nothing.
fn add(text: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        text.push(if text.is_empty() { '{' } else { ',' });
        for part in ["\"", name, "\":", value] {
            text.push_str(part);
        }
    }
}
