//! Queued calls of tools with middleware, in reused memory.

use std::{sync::Arc, thread::LocalKey};

use mcp_proto::{
    connection::ServerRole,
    wire::{ErrorObject, RawJson},
};

use super::{
    call_arguments::CallArguments,
    pool::{Pool, Pooled},
    tool::Tool,
    tool_result::ToolAnswer,
};
use crate::{
    driver_api::{
        deferred::Deferred,
        job::{Job, Start},
    },
    inbound::{
        catch_panic::catch_panic,
        context::Context,
        layered_call::{LayeredCall, LayeredState, SharedRequest},
        request::InboundRequest,
        responder::Responder,
        rpc_result::RpcResult,
        span::Span,
        state::SessionState,
    },
};

thread_local! {
    static CALLS: Pool<LayeredToolCall> = const { Pool::new() };
}

/// A queued call of a tool that middleware wraps, and its responder. Its memory is pooled, so that it needs no
/// allocation.
#[derive(Default)]
pub(super) struct LayeredToolCall {
    /// Taken when the call starts.
    queued: Option<(Responder<ServerRole, SharedRequest<ServerRole>>, Span)>,
    tool: Option<Arc<Tool>>,
    state: LayeredState<ServerRole, ToolAnswer>,
}

impl Pooled for LayeredToolCall {
    const POOL: &'static LocalKey<Pool<Self>> = &CALLS;
}

impl LayeredToolCall {
    pub(super) fn job(
        shared: &Arc<SessionState<ServerRole>>,
        inbound: &InboundRequest<'_, ServerRole>,
        tool: Arc<Tool>,
        arguments: &RawJson<'_>,
        meta: Option<&RawJson<'_>>,
    ) -> Job {
        let InboundRequest { connection, key, .. } = *inbound;
        let (mut call, kind) = (Self::take(), tool.kind());
        let in_flight = shared.begin_layered_request(call.state.take_entry(), inbound, meta, arguments);
        let request = call.state.begin(shared.context(connection, in_flight));
        call.queued = Some((Responder::of_shared(request, key), Span::of(inbound)));
        call.tool = Some(tool);
        Job::pooled(kind, call)
    }
}

impl Start for LayeredToolCall {
    fn start(mut self: Box<Self>) -> Deferred<()> {
        match self.queued.take() {
            Some((responder, span)) => responder.run_call_and_respond(span, self),
            None => Deferred::ready(()),
        }
    }
}

impl LayeredCall for LayeredToolCall {
    type Role = ServerRole;
    type Result = ToolAnswer;

    fn state(&self) -> &LayeredState<ServerRole, ToolAnswer> {
        &self.state
    }

    fn state_mut(&mut self) -> &mut LayeredState<ServerRole, ToolAnswer> {
        &mut self.state
    }

    fn start(&mut self) -> Deferred<RpcResult<ToolAnswer>> {
        let Some(tool) = &self.tool else {
            return Deferred::ready(Err(ErrorObject::internal("Internal error")));
        };
        let context = self.state.context();
        catch_panic(|| match context.in_flight.received.get().and_then(|received| received.placed_arguments()) {
            Some(arguments) => tool.run(&arguments, context),
            None => run_with_found_arguments(tool, context),
        })
    }

    fn recycle(mut self: Box<Self>) {
        self.tool = None;
        if self.state.end() {
            self.put_back();
        }
    }
}

/// Runs a tool whose arguments have to be found in the params.
#[cold]
fn run_with_found_arguments(tool: &Arc<Tool>, context: &Context) -> Deferred<RpcResult<ToolAnswer>> {
    CallArguments::Received.with(context, |arguments| tool.run(arguments, context))
}
