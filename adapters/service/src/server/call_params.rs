//! The params of `tools/call`.

use std::borrow::Cow;

use mcp_proto::{
    connection::ServerRole,
    protocol::Era,
    schema::{At, CallToolParams, Map, TaskMetadata},
    wire::{ErrorObject, Json, JsonObject, RawJson},
};

use crate::inbound::{
    request::{InboundRequest, params},
    rpc_result::RpcResult,
};

/// The params of `tools/call` that concern the execution of the tool.
pub(super) struct CallParams<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) arguments: RawJson<'a>,
    /// The request for a task, if the call has one (2025-11-25).
    pub(super) task: Option<TaskMetadata>,
    pub(super) meta: Option<RawJson<'a>>,
    /// Whether there is nothing else, so that the call does not repeat one that required input (2026-07-28).
    pub(super) is_plain: bool,
}

impl<'a> CallParams<'a> {
    pub(super) fn of(inbound: &'a InboundRequest<'_, ServerRole>) -> RpcResult<Self> {
        if let Some(called) = inbound.params.as_ref().and_then(Self::plain) {
            return Ok(called);
        }
        let CallToolParams { name, arguments, task, .. } = read(inbound)?;
        let arguments = arguments.unwrap_or_else(JsonObject::empty);
        let (arguments, meta) = (RawJson::from(&arguments).into_owned(), inbound.meta());
        Ok(Self { name: name.into(), arguments, task, meta, is_plain: false })
    }

    /// Reads params that are no more than a name, arguments and `_meta`, as most are. It does not parse the arguments,
    /// which may be large. Returns `None` if there is more, or anything is wrong.
    fn plain(raw: &'a RawJson<'_>) -> Option<Self> {
        let [name, arguments, meta] = raw.only(["name", "arguments", "_meta"])?;
        let (name, arguments) = (name?.into_text()?, arguments.filter(RawJson::is_object)?);
        let is_plain = meta.as_ref().is_none_or(RawJson::is_object);
        is_plain.then_some(Self { name, arguments, task: None, meta, is_plain })
    }
}

/// Reads all params. Ignores `task` in the modern era, where requests do not request tasks.
fn read(inbound: &InboundRequest<'_, ServerRole>) -> RpcResult<CallToolParams> {
    let raw = inbound.params.as_ref();
    let read: RpcResult<CallToolParams> = params(raw);
    let asks =
        read.as_ref().map_or_else(|_| raw.is_some_and(|raw| raw.member("task").is_some()), |it| it.task.is_some());
    let is_modern =
        || inbound.connection.read(|conn| conn.context(inbound.key).is_some_and(|it| it.era() == Era::Modern));
    if !asks || !is_modern() {
        return read;
    }
    let members: Map<Json> = params(raw)?;
    let members: Map<Json> = members.into_iter().filter(|(name, _)| name != "task").collect();
    let raw = At(&members, None).to_json().map_err(|error| ErrorObject::internal(error.to_string()))?;
    params(Some(&RawJson::from(&raw)))
}
