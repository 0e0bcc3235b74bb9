//! Queued calls of tools, in reused memory.

use std::sync::Arc;

use mcp_proto::{connection::ServerRole, schema::Meta, wire::RawJson};

use super::{call_arguments::CallArguments, tool::Tool, tool_result::ToolAnswer};
use crate::{
    driver_api::{
        deferred::Deferred,
        job::{HandlerKind, Job, Start},
    },
    inbound::{
        catch_panic::catch_panic,
        layered_call::{LayeredCall, LayeredState, SharedRequest},
        request::InboundRequest,
        request_scope::RequestScope,
        responder::Responder,
        rpc_result::RpcResult,
        state::SessionState,
    },
};

/// A queued call of a tool and its responder. Its memory is pooled, so that it needs no allocation.
#[derive(Default)]
pub(super) struct PooledCall(Box<CallSlot>);

#[derive(Default)]
struct CallSlot {
    /// Taken when the call starts.
    queued: Option<QueuedCall>,
    /// The buffer of the last arguments, unless it was large.
    buffer: String,
    /// The call while middleware wraps it.
    layered: Option<LayeredToolCall>,
    /// The memory that a call has shared with its middleware, for the next one.
    memory: Option<SharedRequest<ServerRole>>,
}

struct QueuedCall {
    tool: Arc<Tool>,
    arguments: CallArguments,
    scope: RequestScope<ServerRole>,
    responder: Responder<ServerRole>,
}

struct LayeredToolCall {
    tool: Arc<Tool>,
    state: LayeredState<ServerRole, ToolAnswer>,
}

impl PooledCall {
    pub(super) fn new(
        shared: &Arc<SessionState<ServerRole>>,
        inbound: &InboundRequest<'_, ServerRole>,
        tool: Arc<Tool>,
        arguments: &RawJson<'_>,
        meta: Option<Meta>,
    ) -> Self {
        let InboundRequest { connection, key, .. } = *inbound;
        let mut call = pool::take();
        let in_flight = shared.begin_request(inbound, meta, Some(arguments), true);
        let arguments = if shared.has_layers() {
            CallArguments::Received
        } else {
            CallArguments::Own(pool::keep(arguments, &mut call.0.buffer))
        };
        let responder = Responder::of(shared.context(connection, in_flight), key);
        call.0.queued = Some(QueuedCall { tool, arguments, scope: shared.request_scope(inbound), responder });
        call
    }

    /// Converts it into a job.
    pub(super) fn into_job(self, kind: HandlerKind) -> Job {
        Job::pooled(kind, self.0)
    }
}

impl Start for CallSlot {
    fn start(mut self: Box<Self>) -> Deferred<()> {
        let Some(QueuedCall { tool, arguments, scope, responder }) = self.queued.take() else {
            return Deferred::ready(());
        };
        match arguments {
            CallArguments::Own(arguments) => responder.run_and_respond(scope, move |context| {
                let running = tool.run(&arguments.get(), context);
                pool::recycle_with_buffer(PooledCall(self), arguments);
                running
            }),
            CallArguments::Received => {
                let mut memory = self.memory.take();
                let sent = responder.run_call_and_respond(scope, &mut memory, |state| {
                    self.layered = Some(LayeredToolCall { tool, state });
                    self
                });
                pool::keep_memory(memory);
                sent
            }
        }
    }
}

impl LayeredCall for CallSlot {
    type Role = ServerRole;
    type Result = ToolAnswer;

    fn state(&self) -> &LayeredState<ServerRole, ToolAnswer> {
        &self.layered.as_ref().expect(IS_LAYERED).state
    }

    fn state_mut(&mut self) -> &mut LayeredState<ServerRole, ToolAnswer> {
        &mut self.layered.as_mut().expect(IS_LAYERED).state
    }

    fn start(&mut self) -> Deferred<RpcResult<ToolAnswer>> {
        let LayeredToolCall { tool, state } = self.layered.as_mut().expect(IS_LAYERED);
        let context = state.context();
        catch_panic(|| CallArguments::Received.with(context, |arguments| tool.run(arguments, context)))
    }

    fn recycle(mut self: Box<Self>) {
        self.layered = None;
        pool::recycle(PooledCall(self));
    }
}

/// Middleware gets a call only after it was set.
const IS_LAYERED: &str = "a layered call has its state";

/// The pool of calls and of the buffers for their arguments. Small calls need no allocation. A large buffer is kept
/// because the system would unmap it and map it again, page by page, for the next one.
mod pool {
    use std::{cell::RefCell, mem, sync::Mutex};

    use mcp_proto::{
        connection::ServerRole,
        wire::{OwnedRawJson, RawJson},
    };

    use super::PooledCall;
    use crate::{inbound::layered_call::SharedRequest, util::lock::lock};

    /// The size of small arguments, in bytes. Most calls have not more.
    const SMALL: usize = 1 << 10;

    /// The most calls that a thread keeps.
    const MAX_POOLED: usize = 64;

    /// The smallest large buffer that is kept, in bytes.
    const LARGE: usize = 64 << 10;

    /// The largest buffer that is kept, in bytes. The process keeps one large buffer.
    const MAX_LARGE: usize = 2 << 20;

    thread_local! {
        static POOL: RefCell<Vec<PooledCall>> = const { RefCell::new(Vec::new()) };
    }

    static LARGE_ONE: Mutex<String> = Mutex::new(String::new());

    pub(super) fn take() -> PooledCall {
        POOL.try_with(|pool| pool.borrow_mut().pop()).ok().flatten().unwrap_or_default()
    }

    pub(super) fn keep(arguments: &RawJson<'_>, small: &mut String) -> OwnedRawJson {
        let buffer = match arguments.get().len() {
            ..=SMALL => mem::take(small),
            LARGE.. => mem::take(&mut *lock(&LARGE_ONE)),
            _ => String::new(),
        };
        OwnedRawJson::in_buffer(arguments, buffer)
    }

    pub(super) fn recycle_with_buffer(mut call: PooledCall, arguments: OwnedRawJson) {
        let buffer = arguments.into_buffer();
        match buffer.capacity() {
            ..=SMALL => call.0.buffer = buffer,
            LARGE..=MAX_LARGE => *lock(&LARGE_ONE) = buffer,
            _ => {}
        }
        recycle(call);
    }

    /// Keeps memory for the next call with middleware.
    pub(super) fn keep_memory(memory: Option<SharedRequest<ServerRole>>) {
        let _ = POOL.try_with(|pool| {
            if let Some(call) = pool.borrow_mut().last_mut() {
                call.0.memory = memory;
            }
        });
    }

    pub(super) fn recycle(call: PooledCall) {
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < MAX_POOLED {
                pool.push(call);
            }
        });
    }
}
