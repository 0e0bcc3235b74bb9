//! Queued calls of tools without middleware, in reused memory.

use std::{sync::Arc, thread::LocalKey};

use mcp_proto::{
    connection::ServerRole,
    wire::{OwnedRawJson, RawJson},
};

use super::{
    input_required::{InputRounds, run_in_rounds},
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
        context::Context, request::InboundRequest, request_scope::RequestScope, responder::Responder,
        state::SessionState,
    },
};

thread_local! {
    static CALLS: Pool<PooledCall> = const { Pool::new() };
}

/// A queued call of a tool without middleware, and its responder. Its memory is pooled, so that it needs no allocation.
#[derive(Default)]
pub(super) struct PooledCall {
    /// Taken when the call starts.
    queued: Option<QueuedCall>,
    /// The buffer of the last arguments, unless it was large.
    buffer: String,
}

struct QueuedCall {
    tool: Arc<Tool>,
    arguments: OwnedRawJson,
    scope: RequestScope,
    responder: Responder<ServerRole>,
    /// The rounds of input, if the handler can request input in this way (2026-07-28).
    rounds: Option<Box<InputRounds>>,
}

impl Pooled for PooledCall {
    const POOL: &'static LocalKey<Pool<Self>> = &CALLS;
}

impl PooledCall {
    pub(super) fn job(
        shared: &Arc<SessionState<ServerRole>>,
        inbound: &InboundRequest<'_, ServerRole>,
        tool: Arc<Tool>,
        arguments: &RawJson<'_>,
        meta: Option<&RawJson<'_>>,
        rounds: Option<Box<InputRounds>>,
    ) -> Job {
        let InboundRequest { connection, key, .. } = *inbound;
        let (mut call, kind) = (Self::take(), tool.kind());
        let in_flight = shared.begin_request(inbound, meta, true);
        let arguments = buffers::keep(arguments, &mut call.buffer);
        let responder = Responder::of(shared.context(connection, in_flight), key);
        call.queued = Some(QueuedCall { tool, arguments, scope: shared.request_scope(inbound), responder, rounds });
        Job::pooled(kind, call)
    }
}

impl Start for PooledCall {
    fn start(mut self: Box<Self>) -> Deferred<()> {
        let Some(QueuedCall { tool, arguments, scope, responder, rounds }) = self.queued.take() else {
            return Deferred::ready(());
        };
        let run = move |context: &Context| {
            let running = tool.run(&arguments.get(), context);
            buffers::give_back(arguments, &mut self.buffer);
            self.put_back();
            running
        };
        match rounds {
            None => responder.run_and_respond(scope, run),
            Some(rounds) => {
                responder.run_and_respond(scope, |context| run_in_rounds(context, rounds, ToolAnswer::is_error, run))
            }
        }
    }
}

/// The buffers for arguments. A large buffer is kept because the system would unmap it and map it again, page by page,
/// for the next one.
mod buffers {
    use std::{mem, sync::Mutex};

    use mcp_proto::wire::{OwnedRawJson, RawJson};

    use crate::util::lock::lock;

    /// The size of small arguments, in bytes. Most calls have not more.
    const SMALL: usize = 1 << 10;

    /// The smallest large buffer that is kept, in bytes.
    const LARGE: usize = 64 << 10;

    /// The largest buffer that is kept, in bytes. The process keeps one large buffer.
    const MAX_LARGE: usize = 2 << 20;

    static LARGE_ONE: Mutex<String> = Mutex::new(String::new());

    pub(super) fn keep(arguments: &RawJson<'_>, small: &mut String) -> OwnedRawJson {
        let buffer = match arguments.get().len() {
            ..=SMALL => mem::take(small),
            LARGE.. => mem::take(&mut *lock(&LARGE_ONE)),
            _ => String::new(),
        };
        OwnedRawJson::in_buffer(arguments, buffer)
    }

    pub(super) fn give_back(arguments: OwnedRawJson, small: &mut String) {
        let buffer = arguments.into_buffer();
        match buffer.capacity() {
            ..=SMALL => *small = buffer,
            LARGE..=MAX_LARGE => *lock(&LARGE_ONE) = buffer,
            _ => {}
        }
    }
}
