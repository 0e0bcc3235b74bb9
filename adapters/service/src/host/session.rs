//! What a client answers.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use mcp_proto::{
    connection::{ClientEnd, Connection},
    protocol::{Capability, Method, MethodName, ProtocolVersion},
    rpc::ReplyKey,
    schema::{
        CreateMessageParams, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitUrlParams,
        ElicitationCompleteParams, Encode, ListRootsResult, Meta, TaskMetadata, UrlElicitationRequired,
        check_tool_results,
    },
    wire::{ErrorCode, ErrorObject, RawJson},
};

use super::Host;
use crate::{
    Context, Job, RequestInfo, Role, custom::Custom, form, reply::Answer, role::Asked, session::Shared, sync::lock,
    tasks::params,
};

/// Pages that may be open at once. The oldest is forgotten first: users leave pages without finishing them.
const OPEN_PAGES: usize = 256;

/// What a client keeps of one connection: the pages that its user was asked to open, by id.
#[derive(Default)]
pub struct State {
    pages: Mutex<VecDeque<String>>,
}

impl State {
    fn opened(&self, id: &str) {
        let mut pages = lock(&self.pages);
        if pages.len() == OPEN_PAGES {
            pages.pop_front();
        }
        pages.push_back(id.to_owned());
    }

    /// Whether the page was open.
    fn closed(&self, id: &str) -> bool {
        let mut pages = lock(&self.pages);
        let found = pages.iter().position(|page| page == id);
        found.and_then(|at| pages.remove(at)).is_some()
    }
}

impl Role for ClientEnd {
    type Home = Host;
    type State = State;

    fn begun(shared: &Arc<Shared<Self>>) {
        if let Some(roots) = &shared.home.0.roots {
            roots.join(shared);
        }
    }

    fn asked<'a>(shared: &Arc<Shared<Self>>, asked: Asked<'a, Self>) -> Result<Option<Job>, Asked<'a, Self>> {
        let host = &shared.home.0;
        Ok(match asked.method.known() {
            Some(Method::ListRoots) if host.roots.is_some() => shared.answer(asked.link, asked.key, |shared, _, _| {
                let roots = shared.home.0.roots.as_ref().map_or_else(Vec::new, |roots| roots.list());
                Ok(ListRootsResult::new(roots))
            }),
            Some(Method::CreateMessage) if host.sampling.is_some() => shared.sample(&asked),
            Some(Method::Elicit) => shared.elicit(&asked),
            Some(method @ (Method::GetTask | Method::GetTaskResult | Method::ListTasks | Method::CancelTask)) => {
                shared.asked_about_tasks(method, &asked)
            }
            _ => return Err(asked),
        })
    }

    fn is_news(shared: &Shared<Self>, method: &MethodName<'_>, params: Option<&RawJson<'_>>) -> bool {
        if method.known() != Some(Method::ElicitationComplete) {
            return true;
        }
        let done = params.and_then(|params| params.decode::<ElicitationCompleteParams>().ok());
        done.is_some_and(|done| shared.state.closed(&done.elicitation_id))
    }

    fn refused(shared: &Shared<Self>, error: &ErrorObject) {
        if error.code == ErrorCode::URL_ELICITATION_REQUIRED
            && let Some(required) = error.data.as_ref().and_then(|data| data.decode::<UrlElicitationRequired>().ok())
        {
            for id in required.elicitations.iter().filter_map(|page| page.elicitation_id.as_deref()) {
                shared.state.opened(id);
            }
        }
    }

    fn custom(home: &Host) -> &Custom<Self> {
        &home.0.custom
    }

    fn info(conn: &Connection<Self>, _: Option<ReplyKey>) -> RequestInfo {
        RequestInfo {
            version: conn.version().unwrap_or(ProtocolVersion::LATEST_LEGACY),
            peer: conn.server().map(|server| server.server_info.clone()),
            client_capabilities: Default::default(),
            log_level: None,
            progress_token: None,
        }
    }
}

/// A question with the parts of its params that every kind of question has.
struct Question<'a, P> {
    asked: &'a Asked<'a, ClientEnd>,
    params: P,
    meta: Option<Meta>,
    task: Option<TaskMetadata>,
}

impl Shared<ClientEnd> {
    fn refuse(self: &Arc<Self>, asked: &Asked<'_, ClientEnd>, error: ErrorObject) -> Option<Job> {
        self.answer(asked.link, asked.key, move |_, _, _| Answer::<ElicitResult>::Err(error))
    }

    fn sample(self: &Arc<Self>, asked: &Asked<'_, ClientEnd>) -> Option<Job> {
        let mut params: CreateMessageParams = match params(asked.params.as_ref()) {
            Ok(params) => params,
            Err(error) => return self.refuse(asked, error),
        };
        if let Err(fault) = check_tool_results(&params.messages) {
            return self.refuse(asked, ErrorObject::invalid_params(format!("Invalid params: {fault}")));
        }
        let (meta, task) = (params.meta.clone(), params.task.take());
        Some(self.ask_user(Question { asked, params, meta, task }, Capability::TasksSampling, |params, context| {
            let host = context.shared.home.clone();
            match &host.0.sampling {
                Some(sample) => {
                    sample(params, context.clone()).map_err(|failure| failure.into_error(context.version()))
                }
                None => Err(ErrorObject::method_not_found(Method::CreateMessage.as_str())),
            }
        }))
    }

    fn elicit(self: &Arc<Self>, asked: &Asked<'_, ClientEnd>) -> Option<Job> {
        match params(asked.params.as_ref()) {
            Ok(ElicitParams::Form(mut params)) => {
                let (meta, task) = (params.meta.clone(), params.task.take());
                Some(self.ask_user(Question { asked, params, meta, task }, Capability::TasksElicitation, fill_in_form))
            }
            Ok(ElicitParams::Url(mut params)) => {
                let (meta, task) = (params.meta.clone(), params.task.take());
                Some(self.ask_user(Question { asked, params, meta, task }, Capability::TasksElicitation, open_page))
            }
            Ok(ElicitParams::Other(_)) => {
                self.refuse(asked, ErrorObject::invalid_params("Invalid params: no such mode of elicitation"))
            }
            Err(error) => self.refuse(asked, error),
        }
    }

    /// A job that asks the user or the model, as a task if the server wants one and this client offers that.
    fn ask_user<P: Send + 'static, R: Encode + 'static>(
        self: &Arc<Self>,
        question: Question<'_, P>,
        capability: Capability,
        f: fn(P, Context<ClientEnd>) -> Answer<R>,
    ) -> Job {
        let Question { asked: Asked { link, key, .. }, params, meta, task } = question;
        match task.filter(|task| self.becomes_task(link, *key, Some(task), capability)) {
            Some(task) => self.work_as_task(link, *key, meta, task, |_| None, move |context| f(params, context)),
            None => self.work(link, *key, meta, move |context| f(params, context)),
        }
    }
}

fn fill_in_form(params: ElicitFormParams, context: Context<ClientEnd>) -> Answer<ElicitResult> {
    let host = context.shared.home.clone();
    let Some(fill_in) = &host.0.form else {
        return Err(ErrorObject::invalid_params("This client does not show forms"));
    };
    let schema = params.requested_schema.clone();
    let mut result = fill_in(params, context.clone()).map_err(|failure| failure.into_error(context.version()))?;
    if result.action == ElicitAction::Accept {
        let content = result.content.get_or_insert_default();
        form::fill_in(&schema, content);
        form::check(&schema, content)
            .map_err(|why| ErrorObject::internal(format!("The answer does not fit: {why}")))?;
    } else {
        result.content = None;
    }
    Ok(result)
}

fn open_page(params: ElicitUrlParams, context: Context<ClientEnd>) -> Answer<ElicitResult> {
    let host = context.shared.home.clone();
    let Some(open) = &host.0.url else {
        return Err(ErrorObject::invalid_params("This client does not open pages"));
    };
    if let Some(id) = &params.elicitation_id {
        context.shared.state.opened(id);
    }
    let action = open(params, context.clone()).map_err(|failure| failure.into_error(context.version()))?;
    Ok(ElicitResult::new(action))
}
