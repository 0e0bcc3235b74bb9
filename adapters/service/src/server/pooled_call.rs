//! Calls of tools that wait to run, in memory that is used again.

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
        job::{HandlerKind, Job, Start},
    },
    inbound::{middleware::RequestScope, request::InboundRequest, responder::Responder, state::SessionState},
};

/// A tool that is to be called, and the answer that is owed for that. It is in a place where others were before, so that it takes
/// no memory anew.
#[derive(Default)]
pub(super) struct PooledCall(Box<CallSlot>);

#[derive(Default)]
struct CallSlot {
    /// Taken when it begins.
    calling: Option<Calling>,
    /// The room of the last arguments, unless it was large.
    room: String,
}

struct Calling {
    tool: Arc<Tool>,
    arguments: OwnedRawJson,
    scope: RequestScope<ServerRole>,
    responder: Responder<ServerRole>,
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
        let arguments = pool::keep(arguments, &mut call.0.room);
        let responder = Responder::of(shared.context(connection, shared.in_flight.begin(key, meta)), key);
        call.0.calling = Some(Calling { tool, arguments, scope: shared.request_scope(inbound), responder });
        call
    }

    /// Makes a job of it.
    pub(super) fn into_job(self, kind: HandlerKind) -> Job {
        Job::pooled(kind, self.0)
    }
}

impl Start for CallSlot {
    fn start(mut self: Box<Self>) -> Deferred<()> {
        let Some(Calling { tool, arguments, scope, responder }) = self.calling.take() else {
            return Deferred::ready(());
        };
        responder.run_and_respond(scope, move |context| {
            let running = tool.run(&arguments.get(), context);
            pool::give_back(PooledCall(self), arguments);
            running
        })
    }
}

/// Where calls and their arguments are kept until their tools run. What ones before them have left is used again: small calls
/// take nothing anew, and what large arguments give back to the system would be handed out anew, page by page, with the next.
mod pool {
    use std::{cell::RefCell, mem, sync::Mutex};

    use mcp_proto::wire::{OwnedRawJson, RawJson};

    use super::PooledCall;
    use crate::util::lock::lock;

    /// How many bytes of arguments most calls have.
    const SMALL: usize = 1 << 10;

    /// How many places a thread keeps.
    const MAX_POOLED: usize = 64;

    /// What room is worth keeping beyond that, in bytes.
    const LARGE: usize = 64 << 10;

    /// The most of it that is kept, in bytes. There is one for the whole process.
    const MAX_LARGE: usize = 2 << 20;

    thread_local! {
        static POOL: RefCell<Vec<PooledCall>> = const { RefCell::new(Vec::new()) };
    }

    static LARGE_ONE: Mutex<String> = Mutex::new(String::new());

    pub(super) fn take() -> PooledCall {
        POOL.try_with(|pool| pool.borrow_mut().pop()).ok().flatten().unwrap_or_default()
    }

    pub(super) fn keep(arguments: &RawJson<'_>, small: &mut String) -> OwnedRawJson {
        let room = match arguments.get().len() {
            ..=SMALL => mem::take(small),
            LARGE.. => mem::take(&mut *lock(&LARGE_ONE)),
            _ => String::new(),
        };
        OwnedRawJson::in_buffer(arguments, room)
    }

    pub(super) fn give_back(mut call: PooledCall, arguments: OwnedRawJson) {
        let room = arguments.into_buffer();
        match room.capacity() {
            ..=SMALL => call.0.room = room,
            LARGE..=MAX_LARGE => *lock(&LARGE_ONE) = room,
            _ => {}
        }
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < MAX_POOLED {
                pool.push(call);
            }
        });
    }
}
