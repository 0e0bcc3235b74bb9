//! What a client says when it calls a tool, and what is kept of it until the tool runs.

use std::{borrow::Cow, sync::Arc};

use mcp_proto::{
    connection::ServerEnd,
    protocol::Era,
    schema::{At, CallToolParams, Map, Meta, TaskMetadata},
    wire::{ErrorObject, Json, JsonObject, OwnedRawJson, RawJson},
};

use super::tool::Tool;
use crate::{
    driver_api::{
        deferred::Later,
        job::{Begin, Job, Kind},
    },
    inbound::{
        answer::Answer,
        middleware::Around,
        request::{Asked, params},
        responder::Reply,
        state::Shared,
    },
};

/// The params of `tools/call`, as far as they are for whoever runs the tool.
pub(super) struct Called<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) arguments: RawJson<'a>,
    /// It is to be a task (2025-11-25).
    pub(super) task: Option<TaskMetadata>,
    pub(super) meta: Option<Meta>,
}

impl<'a> Called<'a> {
    pub(super) fn of(asked: &'a Asked<'_, ServerEnd>) -> Answer<Self> {
        if let Some(called) = asked.params.as_ref().and_then(Self::plain) {
            return Ok(called);
        }
        let CallToolParams { name, arguments, task, meta, .. } = read(asked)?;
        let arguments = arguments.unwrap_or_else(JsonObject::empty);
        Ok(Self { name: name.into(), arguments: RawJson::from(&arguments).into_owned(), task, meta })
    }

    /// Most calls say no more than this, and their arguments, which may be large, are not looked at again. `None` if there
    /// is more, or anything wrong.
    fn plain(raw: &'a RawJson<'_>) -> Option<Self> {
        let [name, arguments, meta] = raw.only(["name", "arguments", "_meta"])?;
        let meta = meta.map(|meta| meta.decode()).transpose().ok()?;
        Some(Self { name: name?.into_text()?, arguments: arguments.filter(RawJson::is_object)?, task: None, meta })
    }
}

/// A tool that is to be called, and the answer that is owed for that. It is in a place where others were before, so that it takes
/// no memory anew.
#[derive(Default)]
pub(super) struct Errand(Box<Place>);

#[derive(Default)]
struct Place {
    /// Taken when it begins.
    calling: Option<Calling>,
    /// The room of the last arguments, unless it was large.
    room: String,
}

struct Calling {
    tool: Arc<Tool>,
    arguments: OwnedRawJson,
    around: Around<ServerEnd>,
    reply: Reply<ServerEnd>,
}

impl Errand {
    pub(super) fn new(
        shared: &Arc<Shared<ServerEnd>>,
        asked: &Asked<'_, ServerEnd>,
        tool: Arc<Tool>,
        arguments: &RawJson<'_>,
        meta: Option<Meta>,
    ) -> Self {
        let Asked { link, key, .. } = *asked;
        let mut errand = places::take();
        let arguments = places::keep(arguments, &mut errand.0.room);
        let reply = Reply::of(shared.context(link, shared.works.begin(key, meta)), key);
        errand.0.calling = Some(Calling { tool, arguments, around: shared.around(asked), reply });
        errand
    }

    /// Makes a job of it.
    pub(super) fn into_job(self, kind: Kind) -> Job {
        Job::reusable(kind, self.0)
    }
}

impl Begin for Place {
    fn begin(mut self: Box<Self>) -> Later<()> {
        let Some(Calling { tool, arguments, around, reply }) = self.calling.take() else { return Later::ready(()) };
        reply.earn(around, move |context| {
            let running = tool.run(&arguments.get(), context);
            places::give_back(Errand(self), arguments);
            running
        })
    }
}

/// Where calls and their arguments are kept until their tools run. What ones before them have left is used again: small calls
/// take nothing anew, and what large arguments give back to the system would be handed out anew, page by page, with the next.
mod places {
    use std::{cell::RefCell, mem, sync::Mutex};

    use mcp_proto::wire::{OwnedRawJson, RawJson};

    use super::Errand;
    use crate::util::lock::lock;

    /// How many bytes of arguments most calls have.
    const SMALL: usize = 1 << 10;

    /// How many places a thread keeps.
    const MOST_PLACES: usize = 64;

    /// What room is worth keeping beyond that, in bytes.
    const LARGE: usize = 64 << 10;

    /// The most of it that is kept, in bytes. There is one for the whole process.
    const MOST: usize = 2 << 20;

    thread_local! {
        static PLACES: RefCell<Vec<Errand>> = const { RefCell::new(Vec::new()) };
    }

    static LARGE_ONE: Mutex<String> = Mutex::new(String::new());

    pub(super) fn take() -> Errand {
        PLACES.try_with(|places| places.borrow_mut().pop()).ok().flatten().unwrap_or_default()
    }

    pub(super) fn keep(arguments: &RawJson<'_>, small: &mut String) -> OwnedRawJson {
        let room = match arguments.get().len() {
            ..=SMALL => mem::take(small),
            LARGE.. => mem::take(&mut *lock(&LARGE_ONE)),
            _ => String::new(),
        };
        OwnedRawJson::in_buffer(arguments, room)
    }

    pub(super) fn give_back(mut errand: Errand, arguments: OwnedRawJson) {
        let room = arguments.into_buffer();
        match room.capacity() {
            ..=SMALL => errand.0.room = room,
            LARGE..=MOST => *lock(&LARGE_ONE) = room,
            _ => {}
        }
        let _ = PLACES.try_with(|places| {
            let mut places = places.borrow_mut();
            if places.len() < MOST_PLACES {
                places.push(errand);
            }
        });
    }
}

/// All params. In the modern era nobody asks for a task, and whoever seems to is not heard.
fn read(asked: &Asked<'_, ServerEnd>) -> Answer<CallToolParams> {
    let raw = asked.params.as_ref();
    let read: Answer<CallToolParams> = params(raw);
    let asks =
        read.as_ref().map_or_else(|_| raw.is_some_and(|raw| raw.member("task").is_some()), |it| it.task.is_some());
    let is_modern = || asked.link.look(|conn| conn.context(asked.key).is_some_and(|it| it.era() == Era::Modern));
    if !asks || !is_modern() {
        return read;
    }
    let members: Map<Json> = params(raw)?;
    let members: Map<Json> = members.into_iter().filter(|(name, _)| name != "task").collect();
    let raw = At(&members, None).to_json().map_err(|error| ErrorObject::internal(error.to_string()))?;
    params(Some(&RawJson::from(&raw)))
}
