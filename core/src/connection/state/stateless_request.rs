//! The fields that a request of the modern era (2026-07-28) carries in `_meta`, as a server stores them.

use alloc::vec::Vec;

use crate::{
    connection::{json_splice, types::SendError},
    protocol::{Capability, ProtocolVersion},
    schema::{At, ClientCapabilities, Encode, Implementation, JsonLine, LoggingLevel, keys},
    wire::{RawJson, encode::Encoded, scan::may_have},
};

/// Returns an estimate of the bytes that the decoded `_meta` takes while the request is in flight.
pub(crate) fn described(meta: Option<&RawJson<'_>>) -> usize {
    /// Up to this weight, all of `_meta` is counted without looking at its members.
    const SMALL_META: usize = 4 << 10;
    const DECODED_KEYS: [&str; 6] = [
        keys::CLIENT_CAPABILITIES,
        keys::CLIENT_INFO,
        keys::PROGRESS_TOKEN,
        keys::TRACEPARENT,
        keys::TRACESTATE,
        keys::BAGGAGE,
    ];
    let Some(meta) = meta else { return 0 };
    let all = meta.weight();
    if all <= SMALL_META {
        return all;
    }
    let kept = meta.pick(DECODED_KEYS).into_iter().flatten();
    kept.map(|text| RawJson::trusted(text).weight()).sum::<usize>().min(all)
}

/// Returns the bytes that a request of the modern era may take in addition to its own length while it is in flight.
#[cfg(feature = "http")]
pub(crate) fn request_weight(message: &crate::wire::Message<'_>) -> usize {
    use crate::{protocol::Method, wire::Message};

    let Message::Request { method, params, meta, .. } = message else { return 0 };
    let is_listen = Method::parse(method) == Some(Method::Listen);
    let filter = params.as_ref().filter(|_| is_listen).and_then(|params| params.member("notifications"));
    described(meta.as_ref()).saturating_add(filter.map_or(0, |filter| filter.weight()))
}

/// The `_meta` of a request, and the requirements for its result.
#[derive(Clone, Debug)]
pub(crate) struct StatelessRequest {
    pub(crate) version: ProtocolVersion,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) info: Option<Implementation>,
    /// The minimum severity of log messages. `None`: the request gets no log messages.
    pub(crate) log_level: Option<LoggingLevel>,
    /// Whether the client may cache the result, which then must carry `cacheScope` and `ttlMs`.
    pub(crate) cacheable: bool,
    /// Whether the result may be `input_required`.
    pub(crate) may_require_input: bool,
    /// Whether the result may be a task. `None` if the method never has one; `Some(false)` if a side lacks the
    /// capability.
    pub(crate) may_become_task: Option<bool>,
}

impl StatelessRequest {
    /// Appends the result that `result` writes, with the members that every result has. Fails if the request cannot
    /// have a result of this type.
    pub(crate) fn append(
        &self,
        out: &mut Vec<u8>,
        server: Option<&Implementation>,
        result: impl FnOnce(&mut Vec<u8>) -> Encoded,
    ) -> Result<(), SendError> {
        let start = out.len();
        // These members are written first, so that the result, which may be large, need not be moved.
        out.extend_from_slice(b"{\"resultType\":\"complete\"");
        if let Some(server) = server {
            out.extend_from_slice(b",\"_meta\":{\"");
            out.extend_from_slice(keys::SERVER_INFO.as_bytes());
            out.extend_from_slice(b"\":");
            server.append_at(None, &mut JsonLine::new(out))?;
            out.push(b'}');
        }
        let object = out.len();
        result(out)?;
        let may_have_members =
            self.cacheable || ["_meta", "resultType"].iter().any(|name| may_have(&out[object..], name));
        match out[object..].strip_prefix(b"{").map(|inside| inside.trim_ascii_start().first()) {
            Some(first) if !may_have_members => match first {
                Some(b'}') => {
                    out.truncate(object);
                    out.push(b'}');
                }
                // The opening brace of the result becomes the comma between the two.
                _ => out[object] = b',',
            },
            _ => {
                out.drain(start..object);
                return self.finish(out, start, server);
            }
        }
        Ok(())
    }

    /// Adds the members that every result has to the result that begins at `start`, which may contain some of them.
    fn finish(&self, out: &mut Vec<u8>, start: usize, server: Option<&Implementation>) -> Result<(), SendError> {
        if let Some(server) = server {
            json_splice::set_meta(out, start, keys::SERVER_INFO, At(server, None).to_json()?.get());
        }
        json_splice::default(out, start, "resultType", "\"complete\"");
        let result = RawJson::trusted(core::str::from_utf8(&out[start..]).unwrap_or_default());
        let kind = result.member("resultType").and_then(RawJson::into_text);
        match kind.as_deref() {
            Some("input_required") if !self.may_require_input => return Err(SendError::WrongResult),
            Some("task") => match self.may_become_task {
                Some(true) => {}
                Some(false) => return Err(SendError::Undeclared(Capability::TasksExtension)),
                None => return Err(SendError::WrongResult),
            },
            Some("complete") if self.cacheable => {
                json_splice::default(out, start, "cacheScope", "\"private\"");
                json_splice::default(out, start, "ttlMs", "0");
            }
            _ => {}
        }
        Ok(())
    }
}
