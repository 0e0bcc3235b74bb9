//! The fields that a request of the modern era (2026-07-28) carries in `_meta`, as a server stores them.

use alloc::{sync::Arc, vec::Vec};

#[cfg(feature = "http")]
use crate::protocol::VersionSet;
use crate::{
    connection::{json_splice, types::SendError},
    protocol::{Capability, CapabilitySet, Method, ProtocolVersion},
    schema::{At, ClientCapabilities, Icon, Implementation, LoggingLevel, keys},
    wire::{RawJson, encode::Encoder, name_search::may_have_result_members},
};

/// Up to this [weight](RawJson::weight), all of `_meta` is counted without looking at its members.
pub(crate) const SMALL_META: usize = 4 << 10;

/// Returns an estimate of the bytes that the decoded `_meta` takes while the request is in flight.
#[cfg(feature = "http")]
fn described(meta: Option<&RawJson<'_>>) -> usize {
    meta.map_or(0, |meta| described_of(meta, meta.weight()))
}

/// Returns the same estimate for a `_meta` of this [weight](RawJson::weight).
pub(crate) fn described_of(meta: &RawJson<'_>, weight: usize) -> usize {
    const DECODED_KEYS: [&str; 6] = [
        keys::CLIENT_CAPABILITIES,
        keys::CLIENT_INFO,
        keys::PROGRESS_TOKEN,
        keys::TRACEPARENT,
        keys::TRACESTATE,
        keys::BAGGAGE,
    ];
    if weight <= SMALL_META {
        return weight;
    }
    let kept = meta.pick(DECODED_KEYS).into_iter().flatten();
    kept.map(|text| RawJson::trusted(text).weight()).sum::<usize>().min(weight)
}

/// Returns the bytes that a request of the modern era may take in addition to its own length while it is in flight.
#[cfg(feature = "http")]
pub(crate) fn request_weight(message: &crate::wire::Message<'_>) -> usize {
    use crate::wire::Message;

    let Message::Request { method, params, meta, .. } = message else { return 0 };
    let is_listen = Method::parse(method) == Some(Method::Listen);
    let filter = params.as_ref().filter(|_| is_listen).and_then(|params| params.member("notifications"));
    described(meta.as_ref()).saturating_add(filter.map_or(0, |filter| filter.weight()))
}

/// A client, as a request describes it.
#[derive(Clone, Debug)]
pub(crate) struct ClientDescription {
    /// The revision of the request.
    pub(crate) version: ProtocolVersion,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) info: Option<Implementation>,
    /// The same capabilities as a set.
    pub(crate) declared: CapabilitySet,
}

impl ClientDescription {
    /// Creates the description of a client that has declared these capabilities. The rest of it is in `meta`.
    pub(crate) fn new(version: ProtocolVersion, capabilities: ClientCapabilities, meta: &RawJson<'_>) -> Self {
        let info = meta.member(keys::CLIENT_INFO).and_then(|info| info.decode().ok());
        let declared = capabilities.set();
        Self { version, capabilities, info, declared }
    }

    /// Reads the description of a client in `_meta`. Returns `None` if it is invalid, or of none of these revisions.
    #[cfg(feature = "http")]
    pub(crate) fn read(meta: &RawJson<'_>, served: VersionSet) -> Option<Self> {
        let version = meta.member(keys::PROTOCOL_VERSION)?;
        let version = ProtocolVersion::parse(&RawJson::trusted(version.get()).into_text()?)?;
        let capabilities = meta.member(keys::CLIENT_CAPABILITIES)?.decode().ok()?;
        let is_served = served.intersection(VersionSet::MODERN).contains(version);
        is_served.then(|| Self::new(version, capabilities, meta))
    }

    /// Returns the bytes of the list of icons. It takes more memory than the [weight](RawJson::weight) of its text.
    pub(crate) fn icon_bytes(&self) -> usize {
        let icons = self.info.as_ref().and_then(|info| info.icons.as_ref());
        icons.map_or(0, |icons| icons.capacity() * size_of::<Icon>())
    }
}

/// The `_meta` of a request.
#[derive(Clone, Debug)]
pub(crate) struct StatelessRequest {
    /// The client. Requests that describe it in the same way share the description.
    pub(crate) client: Arc<ClientDescription>,
    /// The minimum severity of log messages. `None`: the request gets no log messages.
    pub(crate) log_level: Option<LoggingLevel>,
}

/// The requirements for the result of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultRules {
    pub(crate) method: Option<Method>,
    /// Whether both sides have the capability of tasks.
    pub(crate) has_tasks: bool,
}

impl ResultRules {
    /// Appends the result that `result` writes, with the members that every result has. `head` is the beginning of a
    /// complete result with these members. Fails if the request cannot have a result of this type.
    pub(crate) fn append(&self, out: &mut Vec<u8>, head: &ResultHead, result: Encoder<'_>) -> Result<(), SendError> {
        let start = out.len();
        // These members are written first, so that the result, which may be large, need not be moved.
        out.extend_from_slice(head.text());
        let object = out.len();
        result(out)?;
        let is_cacheable = self.method.is_some_and(Method::is_cacheable);
        let may_have_these = is_cacheable || may_have_result_members(&out[object..]);
        match json_splice::has_members(&out[object..]) {
            // The opening brace of the result becomes the comma between the two.
            Some(true) if !may_have_these => out[object] = b',',
            Some(false) if !may_have_these => {
                out.truncate(object);
                out.push(b'}');
            }
            _ => {
                out.drain(start..object);
                return self.finish(out, start, head, is_cacheable);
            }
        }
        Ok(())
    }

    /// Adds the members that every result has to the result that begins at `start`, which may contain some of them.
    fn finish(&self, out: &mut Vec<u8>, start: usize, head: &ResultHead, is_cacheable: bool) -> Result<(), SendError> {
        json_splice::set_meta(out, start, keys::SERVER_INFO, head.server());
        json_splice::default(out, start, "resultType", "\"complete\"");
        let result = RawJson::trusted(core::str::from_utf8(&out[start..]).unwrap_or_default());
        let kind = result.member("resultType").and_then(RawJson::into_text);
        let may = |is_allowed: fn(Method) -> bool| self.method.is_some_and(is_allowed);
        match kind.as_deref() {
            Some("input_required") if !may(Method::may_require_input) => return Err(SendError::WrongResult),
            Some("task") if !may(Method::may_become_task) => return Err(SendError::WrongResult),
            Some("task") if !self.has_tasks => return Err(SendError::Undeclared(Capability::TasksExtension)),
            Some("complete") if is_cacheable => {
                json_splice::default(out, start, "cacheScope", "\"private\"");
                json_splice::default(out, start, "ttlMs", "0");
            }
            _ => {}
        }
        Ok(())
    }
}

/// The beginning of the results of a server, with the members that every result has.
#[derive(Clone, Debug)]
pub(crate) struct ResultHead(Arc<str>);

impl ResultHead {
    const BEFORE: &'static str = "{\"resultType\":\"complete\",\"_meta\":{\"";
    const MIDDLE: &'static str = "\":";

    pub(crate) fn new(server: &Implementation) -> Result<Self, serde_json::Error> {
        let server = At(server, None).to_json()?;
        Ok(Self([Self::BEFORE, keys::SERVER_INFO, Self::MIDDLE, server.get(), "}"].concat().into()))
    }

    /// Returns the beginning of a result, up to the comma before the other members.
    fn text(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns the JSON of the description of the server.
    fn server(&self) -> &str {
        let before = Self::BEFORE.len() + keys::SERVER_INFO.len() + Self::MIDDLE.len();
        self.0.get(before..self.0.len() - 1).unwrap_or("null")
    }
}
