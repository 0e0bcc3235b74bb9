//! The fields that a request of the modern era (2026-07-28) carries in `_meta`, as a server keeps them.

use alloc::vec::Vec;

use crate::{
    connection::{json_splice, types::SendError},
    protocol::{Capability, ProtocolVersion},
    schema::{At, ClientCapabilities, Encode, Implementation, JsonLine, LoggingLevel, keys},
    wire::{RawJson, encode::Encoded, scan::may_have},
};

/// What is kept of `_meta` as long as the request is, in bytes, decoded.
pub(crate) fn described(meta: Option<&RawJson<'_>>) -> usize {
    /// So much is not worth a closer look.
    const LITTLE: usize = 4 << 10;
    const KEPT: [&str; 6] = [
        keys::CLIENT_CAPABILITIES,
        keys::CLIENT_INFO,
        keys::PROGRESS_TOKEN,
        keys::TRACEPARENT,
        keys::TRACESTATE,
        keys::BAGGAGE,
    ];
    let Some(meta) = meta else { return 0 };
    let all = meta.weight();
    if all <= LITTLE {
        return all;
    }
    let kept = meta.pick(KEPT).into_iter().flatten();
    kept.map(|text| RawJson::trusted(text).weight()).sum::<usize>().min(all)
}

/// What a request of the modern era may take beside its own length while it is worked on, in bytes.
#[cfg(feature = "http")]
pub(crate) fn request_weight(message: &crate::wire::Message<'_>) -> usize {
    use crate::{protocol::Method, wire::Message};

    let Message::Request { method, params, meta, .. } = message else { return 0 };
    let is_listen = Method::parse(method) == Some(Method::Listen);
    let filter = params.as_ref().filter(|_| is_listen).and_then(|params| params.member("notifications"));
    described(meta.as_ref()).saturating_add(filter.map_or(0, |filter| filter.weight()))
}

/// What a request says of itself in `_meta`, and what its answer has to say.
#[derive(Clone, Debug)]
pub(crate) struct StatelessRequest {
    pub(crate) version: ProtocolVersion,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) info: Option<Implementation>,
    /// The least severe log messages that it wants; none at all if it does not say.
    pub(crate) log_level: Option<LoggingLevel>,
    /// Its result can be reused by the client, and has to say for how long.
    pub(crate) cacheable: bool,
    /// Its result can be questions.
    pub(crate) may_ask: bool,
    /// Its result can be a task of the extension; `None` if there is no way that it could.
    pub(crate) may_become_task: Option<bool>,
}

impl StatelessRequest {
    /// Appends what `result` appends with what every result says in it, if it is of a kind that the request can have.
    pub(crate) fn append(
        &self,
        out: &mut Vec<u8>,
        server: Option<&Implementation>,
        result: impl FnOnce(&mut Vec<u8>) -> Encoded,
    ) -> Result<(), SendError> {
        let start = out.len();
        // It is written first, so that the result, which may be large, need not be moved for it.
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
        let says_it_all = self.cacheable || ["_meta", "resultType"].iter().any(|name| may_have(&out[object..], name));
        match out[object..].strip_prefix(b"{").map(|inside| inside.trim_ascii_start().first()) {
            Some(first) if !says_it_all => match first {
                Some(b'}') => {
                    out.truncate(object);
                    out.push(b'}');
                }
                // Its brace becomes the comma between the two.
                _ => out[object] = b',',
            },
            _ => {
                out.drain(start..object);
                return self.finish(out, start, server);
            }
        }
        Ok(())
    }

    /// Adds what every result says to the one that begins at `start` and may say some of it.
    fn finish(&self, out: &mut Vec<u8>, start: usize, server: Option<&Implementation>) -> Result<(), SendError> {
        if let Some(server) = server {
            json_splice::set_meta(out, start, keys::SERVER_INFO, At(server, None).to_json()?.get());
        }
        json_splice::default(out, start, "resultType", "\"complete\"");
        let result = RawJson::trusted(core::str::from_utf8(&out[start..]).unwrap_or_default());
        let kind = result.member("resultType").and_then(RawJson::into_text);
        match kind.as_deref() {
            Some("input_required") if !self.may_ask => return Err(SendError::WrongResult),
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
