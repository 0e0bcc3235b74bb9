//! Who answers what clients ask. What is offered brings along the code that answers for it: so a program that offers nothing but
//! tools has none in it that knows of prompts, resources or tasks.

pub(crate) mod completion;
pub(crate) mod prompts;
pub(crate) mod resources;
#[cfg(feature = "skills")]
pub(crate) mod skills;
pub(crate) mod tasks;
pub(crate) mod tools;

use std::sync::{Arc, OnceLock};

use mcp_proto::{
    connection::ServerEnd,
    protocol::Method,
    schema::{CacheHints, Encode, Meta},
    wire::ErrorObject,
};

use super::{
    catalog::Catalog,
    input_required::{Asker, Finished, Rounds},
    visibility::Registered,
};
use crate::{
    driver_api::{
        deferred::Later,
        job::{Job, Kind},
    },
    inbound::{answer::Answer, context::Context, request::Asked, state::Shared},
    util::{paged_list::Registry, uri::is_uri},
};
use tasks::TaskDesk;

/// A request of a client.
pub(super) type Request<'a> = Asked<'a, ServerEnd>;

/// Answers what clients ask about a topic.
pub(super) type Desk = fn(&Arc<Shared<ServerEnd>>, Method, &Request<'_>) -> Answer<Option<Job>>;

/// What clients ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    Tools,
    Prompts,
    Resources,
    Completion,
    Tasks,
    #[cfg(feature = "skills")]
    Skills,
}

impl Topic {
    /// How many there are.
    const ALL: usize = if cfg!(feature = "skills") { 6 } else { 5 };

    const fn of(method: Method) -> Option<Self> {
        Some(match method {
            Method::CallTool | Method::ListTools => Self::Tools,
            Method::GetPrompt | Method::ListPrompts => Self::Prompts,
            Method::ReadResource
            | Method::ListResources
            | Method::ListResourceTemplates
            | Method::Subscribe
            | Method::Unsubscribe => Self::Resources,
            Method::Complete => Self::Completion,
            Method::GetTask
            | Method::GetTaskResult
            | Method::ListTasks
            | Method::CancelTask
            | Method::ExtGetTask
            | Method::ExtUpdateTask
            | Method::ExtCancelTask
            | Method::Listen => Self::Tasks,
            #[cfg(feature = "skills")]
            Method::ListSkills | Method::GetSkill | Method::ReadDirectory => Self::Skills,
            _ => return None,
        })
    }
}

/// The desks that are open. None is ever closed: what was offered once may come back.
#[derive(Default)]
pub(super) struct Desks([OnceLock<Desk>; Topic::ALL]);

impl Desks {
    /// Answers a request. `None` if it is about nothing that services have.
    pub(super) fn ask(
        &self,
        shared: &Arc<Shared<ServerEnd>>,
        method: Method,
        asked: &Request<'_>,
    ) -> Option<Answer<Option<Job>>> {
        let desk = self.0[Topic::of(method)? as usize].get();
        Some(
            desk.map_or_else(
                || Err(ErrorObject::method_not_found(method.as_str())),
                |desk| desk(shared, method, asked),
            ),
        )
    }

    fn open(&self, topic: Topic, desk: Desk) {
        self.0[topic as usize].get_or_init(|| desk);
    }

    /// There are tools, or may be.
    pub(super) fn open_tools(&self) {
        self.open(Topic::Tools, tools::answer);
    }

    /// There are tools that run as tasks.
    pub(super) fn open_tasks(&self, desk: &TaskDesk) {
        self.open(Topic::Tasks, desk.answer);
    }

    /// There are prompts, or may be.
    pub(super) fn open_prompts(&self) {
        self.open(Topic::Prompts, prompts::answer);
        self.open(Topic::Completion, completion::answer);
    }

    /// There are resources, or may be.
    pub(super) fn open_resources(&self) {
        self.open(Topic::Resources, resources::answer);
    }

    /// There are templates of resources.
    pub(super) fn open_templates(&self) {
        self.open_resources();
        self.open(Topic::Completion, completion::answer);
    }

    /// There are skills.
    #[cfg(feature = "skills")]
    pub(super) fn open_skills(&self) {
        self.open_resources();
        self.open(Topic::Skills, skills::answer);
    }
}

/// A page of a list.
struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
    /// For how long the list may be used again, and by whom.
    hints: CacheHints,
}

impl Shared<ServerEnd> {
    /// Answers with a page of one of the lists, made into its kind of result.
    fn list<T: Registered<About: Send + Sync> + Send + Sync + 'static, R: Encode + Send + Sync + 'static>(
        self: &Arc<Self>,
        asked: &Request<'_>,
        cursor: Option<String>,
        list: fn(&Catalog) -> &Registry<T>,
        result: fn(Page<T::About>) -> R,
    ) -> Option<Job> {
        let view = self.home.0.view(asked);
        self.answer(asked, move |shared| {
            let service = &*shared.home.0;
            let (page, next_cursor) = view.page(service, list, cursor.as_deref())?;
            let items = page.iter().map(|entry| entry.listed().clone()).collect();
            Ok(result(Page { items, next_cursor, hints: service.list_hints() }))
        })
    }

    /// Runs a handler that may ask back. In the modern era its questions are the answer, for now.
    fn in_rounds<T: Encode + Send + Sync + 'static>(
        self: &Arc<Self>,
        asked: &Request<'_>,
        asker: Option<Asker>,
        meta: Option<Meta>,
        kind: Kind,
        failed: fn(&T) -> bool,
        run: impl FnOnce(&Context) -> Later<Answer<T>> + Send + 'static,
    ) -> Answer<Option<Job>> {
        let (Some(asker), Some(method)) = (asker, asked.method.known()) else {
            return Ok(Some(self.work(asked, meta, kind, run)));
        };
        let rounds = Rounds::begin(&self.home.0.seal, method, asked.params.as_ref(), asker)?;
        Ok(Some(self.work(asked, meta, kind, move |context| {
            let request = context.clone();
            let _ = request.work.role.rounds.set(Box::new(rounds));
            run(context).map(move |answer| match request.work.role.rounds.get() {
                Some(rounds) => rounds.finish(&request.service().0.seal, answer, failed),
                None => answer.map(Finished::Complete),
            })
        })))
    }
}

/// Who has sent a request of the modern era.
fn asker(asked: &Request<'_>) -> Option<Asker> {
    asked.link.look(|conn| Asker::of(conn, asked.key))
}

/// A URI that a client has sent.
fn valid(uri: String) -> Answer<String> {
    if is_uri(&uri) { Ok(uri) } else { Err(ErrorObject::invalid_params("Invalid params: not a URI")) }
}
