//! What two requests must have in common to have the same result.

use alloc::{boxed::Box, string::String, sync::Arc};

use crate::{
    protocol::{Era, Method, ProtocolVersion},
    schema::{CacheScope, is_at_or_below, keys},
    wire::{
        RawJson,
        scan::{MAX_DEPTH, Scanner},
    },
};

/// What two requests must have in common to have the same result: method, params, revision, and who asks.
///
/// Of `_meta` everything counts but what is about the one request: its revision, its sender, its progress token, its
/// log level and its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheKey {
    question: Arc<Question>,
    principal: Option<Arc<str>>,
}

/// The part of a key that does not depend on the principal.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
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
pub(super) type Slot = (Arc<Question>, Audience);

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
    /// The key of a request; `principal` is the one as whom it is made, where that is known.
    ///
    /// `None` if its result must not be used again: the revision has no such results, the method is another one, the
    /// request belongs to an exchange of several.
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
        Some(Self { question: Arc::new(Question { method, version, params: params.into() }), principal })
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        self.question.method
    }

    /// Whether it asks for a page of a list that is not the first one.
    #[must_use]
    pub fn has_cursor(&self) -> bool {
        self.question.member("cursor").is_some()
    }

    /// The length of what has any.
    pub(crate) fn len(&self) -> usize {
        self.question.len() + self.principal.as_ref().map_or(0, |principal| principal.len())
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
        (self.question.clone(), audience)
    }
}

impl Question {
    pub(super) const fn method(&self) -> Method {
        self.method
    }

    /// Whether a change of this resource can show in the result; of all of them, if it is not said of which.
    pub(super) fn concerns(&self, changed: Option<&str>) -> bool {
        match (changed, self.member("uri")) {
            (Some(changed), Some(uri)) => is_at_or_below(changed, &uri) || is_at_or_below(&uri, changed),
            _ => true,
        }
    }

    /// Whether a change of one of these resources can show in the result.
    pub(super) fn concerns_any(&self, changed: &[String]) -> bool {
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

/// The text of params without what makes no difference; `None` if they belong to an exchange of several requests.
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

/// Adds a member to the text of an object that is not closed yet. A value without text is none.
fn add(text: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        text.push(if text.is_empty() { '{' } else { ',' });
        for part in ["\"", name, "\":", value] {
            text.push_str(part);
        }
    }
}
