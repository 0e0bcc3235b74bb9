//! Queued calls of tools without middleware, in reused memory.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerRole,
    schema::Meta,
    wire::{OwnedRawJson, RawJson},
};

use super::tool::Tool;
use crate::{
    driver_api::{
        deferred::Deferred,
        job::{Job, Start},
    },
    inbound::{request::InboundRequest, request_scope::RequestScope, responder::Responder, state::SessionState},
};

/// A queued call of a tool without middleware, and its responder. Its memory is pooled, so that it needs no allocation.
#[derive(Default)]
pub(super) struct PooledCall(Box<CallSlot>);

#[derive(Default)]
struct CallSlot {
    /// Taken when the call starts.
    queued: Option<QueuedCall>,
    /// The buffer of the last arguments, unless it was large.
    buffer: String,
}

struct QueuedCall {
    tool: Arc<Tool>,
    arguments: OwnedRawJson,
    scope: RequestScope<ServerRole>,
    responder: Responder<ServerRole>,
}

impl PooledCall {
    pub(super) fn job(
        shared: &Arc<SessionState<ServerRole>>,
        inbound: &InboundRequest<'_, ServerRole>,
        tool: Arc<Tool>,
        arguments: &RawJson<'_>,
        meta: Option<Meta>,
    ) -> Job {
        let InboundRequest { connection, key, .. } = *inbound;
        let (mut call, kind) = (pool::take(), tool.kind());
        let in_flight = shared.begin_request(inbound, meta, None, true);
        let arguments = pool::keep(arguments, &mut call.0.buffer);
        let responder = Responder::of(shared.context(connection, in_flight), key);
        call.0.queued = Some(QueuedCall { tool, arguments, scope: shared.request_scope(inbound), responder });
        Job::pooled(kind, call.0)
    }
}

impl Start for CallSlot {
    fn start(mut self: Box<Self>) -> Deferred<()> {
        let Some(QueuedCall { tool, arguments, scope, responder }) = self.queued.take() else {
            return Deferred::ready(());
        };
        responder.run_and_respond(scope, move |context| {
            let running = tool.run(&arguments.get(), context);
            pool::recycle_with_buffer(PooledCall(self), arguments);
            running
        })
    }
}

/// The pool of calls and of the buffers for their arguments. Small calls need no allocation. A large buffer is kept
/// because the system would unmap it and map it again, page by page, for the next one.
mod pool {
    use std::{cell::RefCell, mem, sync::Mutex};

    use mcp_proto::wire::{OwnedRawJson, RawJson};

    use super::PooledCall;
    use crate::util::lock::lock;

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

    fn recycle(call: PooledCall) {
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < MAX_POOLED {
                pool.push(call);
            }
        });
    }
}
