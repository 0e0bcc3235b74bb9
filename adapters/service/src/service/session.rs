//! What a server answers.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use mcp_proto::{
    connection::{Connection, RequestOptions, SendError, ServerEnd},
    protocol::{Capability, CapabilitySet, Era, Method, MethodName, ProtocolVersion},
    rpc::{CallId, ReplyKey, Timestamp},
    schema::{
        CacheHints, CallToolResult, CompleteParams, CompleteResult, Completion, CompletionArgument,
        CompletionReference, EmptyResult, Encode, GetPromptParams, ListPromptsParams, ListPromptsResult,
        ListResourceTemplatesParams, ListResourceTemplatesResult, ListResourcesParams, ListResourcesResult,
        ListToolsParams, ListToolsResult, Meta, MissingRequiredClientCapability, PromptReference, ReadResourceParams,
        ResourceTemplateReference, SetLevelParams, SubscribeParams, TaskSupport, UnsubscribeParams,
    },
    wire::{ErrorCode, ErrorObject, RawJson},
};

#[cfg(feature = "skills")]
use mcp_proto::schema::{GetSkillParams, GetSkillResult, ListSkillsParams, ListSkillsResult, ReadDirectoryParams};

use super::{
    Completing, Finished, Inner, Rounds, Service, ToolAnswer,
    called::{Called, Calling},
    catalog::Found,
    completion::Completable,
    rounds::Asker,
    tasks::TaskTime,
    visibility::{Registered, View},
};
use crate::{
    Context, Job, Later, RequestInfo, Role,
    custom::Custom,
    failure::resource_not_found,
    is_uri,
    link::Kind,
    reply::{Answer, of_any_result},
    role::Asked,
    session::Shared,
    sync::lock,
    tasks::params,
    work::Errand,
};

/// What a server keeps of one connection: the resources that its client has subscribed to, and the time of tasks.
#[derive(Debug, Default)]
pub struct State {
    subscriptions: Mutex<BTreeSet<String>>,
    pub(super) task_time: TaskTime,
}

impl State {
    pub(super) fn is_subscribed(&self, uri: &str) -> bool {
        lock(&self.subscriptions).contains(uri)
    }

    fn subscribe(&self, uri: String, max: usize) -> Answer<()> {
        let mut subscriptions = lock(&self.subscriptions);
        if subscriptions.len() >= max && !subscriptions.contains(&uri) {
            return Err(ErrorObject::internal("Too many subscriptions"));
        }
        subscriptions.insert(uri);
        Ok(())
    }

    fn unsubscribe(&self, uri: &str) {
        lock(&self.subscriptions).remove(uri);
    }
}

/// Answers with a page of one of the lists.
macro_rules! page {
    ($shared:ident, $asked:ident, $list:ident, $Params:ident => $Result:ident) => {
        params($asked.params.as_ref()).map(|$Params { cursor, .. }| {
            let view = $shared.home.0.view(&$asked);
            $shared.answer(&$asked, move |shared| {
                let service = &*shared.home.0;
                let (page, next_cursor) = view.page(service, |catalog| &catalog.$list, cursor.as_deref())?;
                let page: Vec<_> = page.iter().map(|entry| entry.listed().clone()).collect();
                let CacheHints { ttl_ms, scope } = service.list_hints();
                Ok($Result { next_cursor, ttl_ms: Some(ttl_ms), cache_scope: Some(scope), ..$Result::new(page) })
            })
        })
    };
}

impl Role for ServerEnd {
    type Home = Service;
    type State = State;

    fn begun(shared: &Arc<Shared<Self>>) {
        shared.home.0.clients.join(shared);
    }

    fn ended(shared: &Shared<Self>) {
        shared.home.0.clients.leave(shared);
    }

    fn asked<'a>(shared: &Arc<Shared<Self>>, asked: Asked<'a, Self>) -> Result<Option<Job>, Asked<'a, Self>> {
        let Some(method) = asked.method.known() else { return Err(asked) };
        let answer = match method {
            Method::CallTool => shared.call_tool(&asked),
            Method::GetPrompt => shared.get_prompt(&asked),
            Method::ReadResource => shared.read_resource(&asked),
            Method::Complete => shared.complete(&asked),
            Method::GetTask | Method::GetTaskResult | Method::ListTasks | Method::CancelTask => {
                Ok(shared.asked_about_tasks(method, &asked))
            }
            Method::ExtGetTask | Method::ExtUpdateTask | Method::ExtCancelTask => {
                shared.asked_about_task(method, &asked)
            }
            Method::Listen => shared.listen_to_tasks(&asked),
            Method::ListTools => page!(shared, asked, tools, ListToolsParams => ListToolsResult),
            Method::ListPrompts => page!(shared, asked, prompts, ListPromptsParams => ListPromptsResult),
            Method::ListResources => page!(shared, asked, resources, ListResourcesParams => ListResourcesResult),
            Method::ListResourceTemplates => {
                page!(shared, asked, templates, ListResourceTemplatesParams => ListResourceTemplatesResult)
            }
            #[cfg(feature = "skills")]
            Method::ListSkills => page!(shared, asked, skills, ListSkillsParams => ListSkillsResult),
            #[cfg(feature = "skills")]
            Method::GetSkill => shared.get_skill(&asked),
            #[cfg(feature = "skills")]
            Method::ReadDirectory => shared.read_directory(&asked),
            Method::Subscribe => shared.subscribe(&asked),
            Method::Unsubscribe => shared.unsubscribe(&asked),
            // The connection notes the level as soon as this is answered.
            Method::SetLevel => params(asked.params.as_ref())
                .map(|_: SetLevelParams| shared.answer(&asked, |_| Ok(EmptyResult::default()))),
            _ => return Err(asked),
        };
        Ok(answer.unwrap_or_else(|error| shared.refuse(&asked, error)))
    }

    fn is_news(_: &Shared<Self>, _: &MethodName<'_>, _: Option<&RawJson<'_>>) -> bool {
        true
    }

    fn custom(home: &Service) -> &Custom<Self> {
        &home.0.common.custom
    }

    fn said_of_task(context: &Context<Self>, message: &str) {
        let (tasks, Some(task)) = (context.service().tasks(), context.work.task.get()) else { return };
        tasks.say(context.shared.task_time(&context.link), task, message);
        tasks.tell(task);
    }

    fn follow_task(conn: &mut Connection<Self>, _: Timestamp, _: &str, _: RequestOptions) -> Result<CallId, SendError> {
        let version = conn.version().unwrap_or(ProtocolVersion::LATEST);
        Err(SendError::NotInRevision { method: Method::ExtGetTask, version })
    }

    fn info(conn: &Connection<Self>, key: Option<ReplyKey>) -> RequestInfo {
        if let Some(context) = key.and_then(|key| conn.context(key)) {
            return RequestInfo {
                version: context.version,
                peer: context.client_info.cloned(),
                client_capabilities: context.client_capabilities.clone(),
                log_level: context.log_level,
                progress_token: context.progress_token.cloned(),
                trace: context.trace.cloned(),
                principal: context.principal.cloned(),
            };
        }
        let client = conn.client();
        RequestInfo {
            version: conn.version().unwrap_or(ProtocolVersion::LATEST_LEGACY),
            peer: client.map(|client| client.client_info.clone()),
            client_capabilities: client.map(|client| client.capabilities.clone()).unwrap_or_default(),
            log_level: conn.log_level(),
            progress_token: None,
            trace: None,
            principal: None,
        }
    }
}

/// A request of a client.
type Request<'a> = Asked<'a, ServerEnd>;

impl Shared<ServerEnd> {
    fn call_tool(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let Called { name, arguments, task, meta } = Called::of(asked)?;
        // A request of the modern era says so in its metadata. Of a session there is nothing to be known here.
        let modern = meta.as_ref().and_then(|_| {
            asked.link.look(|conn| Some((Asker::of(conn, asked.key)?, Self::may_become_task(conn, asked.key))))
        });
        let (extension, asker) = modern.map_or((None, None), |(asker, extension)| (extension, Some(asker)));
        let service = &*self.home.0;
        let tool = service.view(asked).get(service, |catalog| &catalog.tools, &name);
        let tool = tool.ok_or_else(|| ErrorObject::invalid_params(format!("Unknown tool: {name}")))?;
        let Asked { link, key, .. } = *asked;
        if !tool.headers.is_empty() {
            link.look(|conn| conn.verify_headers(key, &tool.headers, Some(&arguments.get())))?;
        }
        if let Some(lacking) = self.lacks(asked, tool.requires) {
            return lacking.map(|result| self.answer(asked, |_| Ok(result)));
        }
        let support = tool.about.task_support();
        match (extension, support) {
            (Some(false), TaskSupport::Required) => {
                let missing = [Capability::TasksExtension].into_iter().collect();
                return Err(MissingRequiredClientCapability::error(missing));
            }
            (Some(true), TaskSupport::Optional | TaskSupport::Required) => {
                let how = (tool.kind(), tool.beginning);
                let run = move |context: &Context| {
                    tool.run(&arguments.get(), context).map(|answer| answer.map(ToolAnswer::into_result))
                };
                return self.work_on_task(asked, meta, how, run);
            }
            _ => {}
        }
        let has_tasks = || self.has_tasks(link, key, Capability::TasksToolsCall);
        let refused = |why: &str| Err(ErrorObject::new(ErrorCode::METHOD_NOT_FOUND, format!("{name} {why}")));
        match (task.filter(|_| has_tasks()), support) {
            (Some(_), TaskSupport::Forbidden | TaskSupport::Other(_)) => refused("cannot be run as a task"),
            (Some(task), TaskSupport::Optional | TaskSupport::Required) => {
                let (kind, run) = (tool.kind(), move |context: &Context| tool.run(&arguments.get(), context));
                Ok(Some(self.work_as_task(asked, meta, task, kind, what_failed, run)))
            }
            (None, TaskSupport::Required) if has_tasks() => refused("has to be run as a task"),
            (None, _) if asker.is_none() => {
                let (kind, calling) = (tool.kind(), Calling::new(self, asked, tool, arguments));
                Ok(Some(Job::errand(kind, self.works.begin(key, meta, Errand::Call(calling)))))
            }
            (None, _) => {
                let (kind, run) = (tool.kind(), move |context: &Context| tool.run(&arguments.get(), context));
                self.in_rounds(asked, asker, meta, kind, ToolAnswer::is_error, run)
            }
        }
    }

    /// What a client hears that cannot do what a tool requires.
    fn lacks(&self, asked: &Request<'_>, required: CapabilitySet) -> Option<Answer<CallToolResult>> {
        if required == CapabilitySet::EMPTY {
            return None;
        }
        let info = asked.link.look(|conn| ServerEnd::info(conn, Some(asked.key)));
        let declared = info.client_capabilities.set();
        let missing: CapabilitySet = required.iter().filter(|required| !declared.contains(*required)).collect();
        if missing == CapabilitySet::EMPTY {
            return None;
        }
        let error = MissingRequiredClientCapability::error(missing);
        Some(match info.version.era() {
            Era::Modern => Err(error),
            Era::Legacy => Ok(CallToolResult::error(error.message)),
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
            let _ = request.work.rounds.set(Box::new(rounds));
            run(context).map(move |answer| match request.work.rounds.get() {
                Some(rounds) => rounds.finish(&request.service().0.seal, answer, failed),
                None => answer.map(Finished::Complete),
            })
        })))
    }

    fn get_prompt(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let GetPromptParams { name, arguments, meta, .. } = params(asked.params.as_ref())?;
        let service = &*self.home.0;
        let prompt = service.view(asked).get(service, |catalog| &catalog.prompts, &name);
        let prompt = prompt.ok_or_else(|| ErrorObject::invalid_params(format!("Unknown prompt: {name}")))?;
        let arguments = arguments.unwrap_or_default();
        let (kind, run) = (prompt.kind(), move |context: &Context| prompt.run(&arguments, context));
        self.in_rounds(asked, asker(asked), meta, kind, |_| false, of_any_result(run))
    }

    fn read_resource(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let ReadResourceParams { uri, meta, .. } = params(asked.params.as_ref())?;
        let uri = valid(uri)?;
        let home = self.home.clone();
        match home.0.view(asked).find(&home.0, &uri) {
            Some(Found::Resource(resource)) => {
                let kind = resource.kind();
                let run = move |context: &Context| resource.run(context).map(move |read| Ok(home.0.confined(read?)));
                self.in_rounds(asked, asker(asked), meta, kind, |_| false, of_any_result(run))
            }
            Some(Found::Template(template, variables)) => {
                let kind = template.kind();
                let run = move |context: &Context| {
                    template.run(uri, &variables, context).map(move |read| Ok(home.0.confined(read?)))
                };
                self.in_rounds(asked, asker(asked), meta, kind, |_| false, of_any_result(run))
            }
            None => Err(not_found(asked, &uri)),
        }
    }

    #[cfg(feature = "skills")]
    fn get_skill(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let GetSkillParams { uri, .. } = params(asked.params.as_ref())?;
        let uri = valid(uri)?;
        let service = &*self.home.0;
        let skill = service.view(asked).get(service, |catalog| &catalog.skills, &uri);
        let skill = skill.ok_or_else(|| ErrorObject::invalid_params(format!("Unknown skill: {uri}")))?;
        let CacheHints { ttl_ms, scope } = service.skill_hints(&skill);
        let result = GetSkillResult::new((*skill.about).clone());
        Ok(self.answer(asked, move |_| Ok(GetSkillResult { ttl_ms: Some(ttl_ms), cache_scope: Some(scope), ..result })))
    }

    #[cfg(feature = "skills")]
    fn read_directory(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let asked_for: ReadDirectoryParams = params(asked.params.as_ref())?;
        let service = &*self.home.0;
        let result = service.directory(&service.view(asked), &asked_for)?;
        Ok(self.answer(asked, move |_| Ok(result)))
    }

    fn subscribe(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let SubscribeParams { uri, .. } = params(asked.params.as_ref())?;
        let uri = valid(uri)?;
        let service = &*self.home.0;
        if service.view(asked).find(service, &uri).is_none() {
            return Err(not_found(asked, &uri));
        }
        Ok(self.answer(asked, move |shared| {
            shared.state.subscribe(uri, shared.home.0.max_subscriptions).map(|()| EmptyResult::default())
        }))
    }

    fn unsubscribe(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let UnsubscribeParams { uri, .. } = params(asked.params.as_ref())?;
        let uri = valid(uri)?;
        Ok(self.answer(asked, move |shared| {
            shared.state.unsubscribe(&uri);
            Ok(EmptyResult::default())
        }))
    }

    fn complete(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let Asked { link, .. } = *asked;
        // In 2024-11-05 anybody may ask.
        if !link.look(|conn| conn.capabilities().contains(Capability::Completions)) {
            return Err(ErrorObject::method_not_found(Method::Complete.as_str()));
        }
        let CompleteParams { reference, argument, context, meta, .. } = params(asked.params.as_ref())?;
        let CompletionArgument { name, value, .. } = argument;
        let known = context.and_then(|context| context.arguments).unwrap_or_default();
        let Some(subject) = self.home.0.subject(&self.home.0.view(asked), &reference)? else {
            return Ok(self.answer(asked, |_| Ok(CompleteResult::new(Completion::of([""; 0])))));
        };
        if !subject.has(&name) {
            return Err(ErrorObject::invalid_params(format!("Unknown argument: {name}")));
        }
        let kind = subject.completers().kind(&name);
        Ok(Some(self.work(asked, meta, kind, move |context| {
            let completing = Completing { value, known, context: context.clone() };
            let completion = subject.completers().complete(&name, completing);
            let request = context.clone();
            completion
                .map(move |completion| completion.map(CompleteResult::new).map_err(|failure| request.explain(failure)))
        })))
    }
}

// The lock of the catalog is never held while something waits for that of a connection.
impl Inner {
    /// What an argument belongs to; `None` if it belongs to something without arguments.
    fn subject(&self, view: &View, reference: &CompletionReference) -> Answer<Option<Arc<dyn Completable>>> {
        let unknown = |what: &str, name: &str| ErrorObject::invalid_params(format!("Unknown {what}: {name}"));
        match reference {
            CompletionReference::Prompt(PromptReference { name, .. }) => {
                match view.get(self, |catalog| &catalog.prompts, name) {
                    Some(prompt) => Ok(Some(prompt)),
                    None => Err(unknown("prompt", name)),
                }
            }
            CompletionReference::Resource(ResourceTemplateReference { uri, .. }) => {
                if let Some(template) = view.get(self, |catalog| &catalog.templates, uri) {
                    return Ok(Some(template));
                }
                match view.find(self, uri) {
                    Some(Found::Template(template, _)) => Ok(Some(template)),
                    Some(Found::Resource(_)) => Ok(None),
                    None => Err(unknown("resource", uri)),
                }
            }
            CompletionReference::Other(_) => {
                Err(ErrorObject::invalid_params("Invalid params: no such kind of reference"))
            }
        }
    }
}

/// Who has sent a request of the modern era.
fn asker(asked: &Request<'_>) -> Option<Asker> {
    asked.link.look(|conn| Asker::of(conn, asked.key))
}

fn not_found(asked: &Request<'_>, uri: &str) -> ErrorObject {
    let info = asked.link.look(|conn| ServerEnd::info(conn, Some(asked.key)));
    resource_not_found(uri, info.version)
}

/// A URI that a client has sent.
fn valid(uri: String) -> Answer<String> {
    if is_uri(&uri) { Ok(uri) } else { Err(ErrorObject::invalid_params("Invalid params: not a URI")) }
}

/// What a task has to say that has a result and has failed all the same.
fn what_failed(answer: &ToolAnswer) -> Option<String> {
    let ToolAnswer::Result(result) = answer else { return None };
    let text = || result.content.iter().find_map(|content| content.as_text()).unwrap_or("The tool failed");
    result.is_error().then(|| text().to_owned())
}
