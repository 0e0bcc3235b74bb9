//! The stops of a tour, one after the other.

use std::{
    future::Future,
    path::PathBuf,
    pin::Pin,
    time::{Duration, Instant},
};

use mcp_proto::{
    connection::{ClientRole, SendError},
    protocol::{Capability, Era, ProtocolVersion},
    schema::{
        DiscoverParams, InitializeResult, LoggingLevel, Map, PingParams, Prompt, PromptReference,
        ResourceTemplateReference, SubscriptionFilter,
    },
};
use mcp_service::{CallError, Pages, Peer, Pending, Subscription};
use serde_json::json;

use super::{
    host::Heard,
    known::{self, Watched},
    report::Report,
    show, tools,
};

/// How many resources of a list are read, and how many prompts are filled in.
const SOME: usize = 20;

/// How long to wait for the acknowledgement of a subscription.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests that are in flight at once.
const MANY: usize = 100;

/// How long a call is in flight before it is cancelled.
const SOON: Duration = Duration::from_millis(20);

/// One tour of one server.
pub(crate) struct Visit {
    pub(crate) client: Peer<ClientRole>,
    pub(crate) server: InitializeResult,
    pub(crate) heard: Heard,
    pub(crate) report: Report,
    /// The folder that the server may read.
    pub(crate) folder: PathBuf,
    era: Era,
    /// The subscription to changes, in the era that needs one.
    subscription: Option<Subscription>,
}

/// The function of a stop.
type Stop = for<'a> fn(&'a mut Visit) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A filter for the changes of all lists.
fn lists() -> SubscriptionFilter {
    let wanted = Some(true);
    SubscriptionFilter {
        tools_list_changed: wanted,
        prompts_list_changed: wanted,
        resources_list_changed: wanted,
        ..SubscriptionFilter::default()
    }
}

/// Waits for the response to a request.
pub(crate) async fn wait<T>(pending: Result<Pending<T>, SendError>) -> Result<T, CallError> {
    pending?.await
}

impl Visit {
    pub(crate) fn new(
        client: Peer<ClientRole>,
        server: InitializeResult,
        heard: Heard,
        report: Report,
        folder: PathBuf,
    ) -> Self {
        let era = client.version().map_or(Era::Legacy, ProtocolVersion::era);
        Self { client, server, heard, report, folder, era, subscription: None }
    }

    /// Returns whether there is a session, with its features: pings, a log level, requests of the server at any time,
    /// tasks.
    pub(crate) fn has_session(&self) -> bool {
        self.era == Era::Legacy
    }

    pub(crate) async fn run(&mut self) {
        let session = self.has_session();
        let subscribes = self.has(Capability::ResourcesSubscribe) || !session && self.watched().is_some();
        let stops: [(bool, Stop); 13] = [
            (true, |visit| Box::pin(visit.who())),
            (session, |visit| Box::pin(visit.pings())),
            (session, |visit| Box::pin(visit.log_level())),
            (!session, |visit| Box::pin(visit.changes())),
            (self.has(Capability::Tools), |visit| Box::pin(tools::call_them(visit))),
            (self.has(Capability::Resources), |visit| Box::pin(visit.resources())),
            (self.has(Capability::Resources), |visit| Box::pin(visit.templates())),
            (self.has(Capability::SkillsExtension), |visit| Box::pin(visit.skills())),
            (subscribes, |visit| Box::pin(visit.subscriptions())),
            (self.has(Capability::Prompts), |visit| Box::pin(visit.prompts())),
            (session && self.has(Capability::TasksList), |visit| Box::pin(visit.tasks())),
            (true, |visit| Box::pin(visit.unknown())),
            (true, |visit| Box::pin(visit.cancellation())),
        ];
        for (has_something, stop) in stops {
            if has_something && !self.is_over() {
                stop(self).await;
            }
        }
    }

    /// Returns whether the connection has ended. The summary shows the reason.
    pub(crate) fn is_over(&self) -> bool {
        self.client.close_reason().is_some()
    }

    fn has(&self, capability: Capability) -> bool {
        self.client.capabilities().contains(capability)
    }

    async fn who(&mut self) {
        let server = self.server.clone();
        let info = &server.server_info;
        let title = info.title.as_deref().map(|title| format!(" ({title})")).unwrap_or_default();
        self.report.line("server", &format!("{} {}{title}", info.name, info.version));
        let era = if self.has_session() { "legacy: a session" } else { "modern: requests stand alone" };
        self.report.line("revision", &format!("{} ({era})", server.protocol_version));
        let offers: Vec<&str> = self.client.capabilities().iter().map(Capability::path).collect();
        self.report.line("offers", &offers.join(", "));
        if let Some(instructions) = &server.instructions {
            self.report.line("instructions", instructions);
        }
    }

    async fn pings(&mut self) {
        let start = Instant::now();
        let ping = wait(self.client.request(&PingParams::default())).await;
        self.report.call("ping", ping, |_| format!("{:?}", start.elapsed()));
        let start = Instant::now();
        let pings: Vec<_> = (0..MANY).map(|_| self.client.request(&PingParams::default())).collect();
        let mut lost = Vec::new();
        for ping in pings {
            lost.extend(wait(ping).await.err());
        }
        let name = format!("ping, {MANY} at once");
        self.report.line(&name, &format!("{:?}", start.elapsed()));
        self.report.check(&name, lost.first().map_or(Ok(()), |error| Err(format!("{} lost: {error}", lost.len()))));
    }

    async fn log_level(&mut self) {
        if self.has(Capability::Logging) {
            let set = wait(self.client.set_log_level(LoggingLevel::Debug)).await;
            self.report.call("log level", set, |_| LoggingLevel::Debug.as_str().to_owned());
        }
    }

    /// Reads all pages of a list.
    pub(crate) async fn list<T>(&mut self, what: &str, pages: Pages<T>) -> Vec<T> {
        let items = pages.try_collect().await;
        let items = self.report.call(&format!("list of {what}"), items, |items| items.len().to_string());
        items.unwrap_or_default()
    }

    async fn read(&mut self, uri: &str) {
        let read = wait(self.client.read_resource(uri)).await;
        let read = self
            .report
            .call(uri, read, |read| read.contents.iter().map(show::contents).collect::<Vec<_>>().join(" | "));
        let is_there = read.is_some_and(|read| !read.contents.is_empty());
        self.report.check(uri, if is_there { Ok(()) } else { Err("it should be there".to_owned()) });
    }

    async fn resources(&mut self) {
        self.report.heading("resources");
        for resource in self.list("resources", self.client.all_resources()).await.iter().take(SOME) {
            self.read(&resource.uri).await;
        }
    }

    /// Lists the skills and reads their files, or only the main file if no files are listed.
    async fn skills(&mut self) {
        self.report.heading("skills");
        for skill in self.list("skills", self.client.all_skills()).await.iter().take(SOME) {
            let uris: Vec<_> = match skill.resources.listed() {
                Some(files) => files.iter().map(|file| &file.uri).collect(),
                None => vec![&skill.uri],
            };
            for uri in uris.into_iter().take(SOME) {
                let file = match self.client.read_skill_file(skill, uri) {
                    Ok(file) => file.await,
                    Err(error) => Err(error),
                };
                self.report.call(uri, file, |file| format!("{} bytes, as they were listed", file.bytes.len()));
            }
        }
    }

    async fn templates(&mut self) {
        for template in self.list("templates", self.client.all_resource_templates()).await {
            let template = template.uri_template;
            let Some((before, (variable, after))) =
                template.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
            else {
                continue;
            };
            let proposals =
                self.complete(&template, ResourceTemplateReference::new(template.as_str()), variable, &[]).await;
            let value = proposals.first().map_or("1", String::as_str);
            if !after.contains('{') {
                self.read(&format!("{before}{value}{after}")).await;
            }
        }
    }

    /// Returns the proposals of the server for an argument.
    async fn complete(
        &mut self,
        owner: &str,
        reference: impl Into<mcp_proto::schema::CompletionReference>,
        argument: &str,
        known: &[(String, String)],
    ) -> Vec<String> {
        if !self.has(Capability::Completions) {
            return Vec::new();
        }
        let known: Map<String> = known.iter().cloned().collect();
        let completed = wait(self.client.complete(reference, argument, "", known)).await;
        let name = format!("{owner} {{{argument}}}");
        let completed = self.report.call(&name, completed, |it| format!("[{}]", it.completion.values.join(", ")));
        completed.map(|completed| completed.completion.values).unwrap_or_default()
    }

    fn watched(&self) -> Option<Watched> {
        known::watched(&self.server.server_info.name)
    }

    async fn changes(&mut self) {
        self.subscription = self.listen("changes of lists", lists()).await;
    }

    /// Subscribes to changes. The subscription lasts until the returned value is dropped.
    async fn listen(&mut self, name: &str, filter: SubscriptionFilter) -> Option<Subscription> {
        match wait(self.client.within(PATIENCE).listen(filter)).await {
            Ok(subscription) => {
                self.report.line(name, "listening");
                Some(subscription)
            }
            Err(CallError::Send(error)) => {
                self.report.fail(name, &error.to_string());
                None
            }
            // Not every server without sessions supports subscriptions.
            Err(_) => {
                self.report.line(name, "subscriptions are not supported");
                None
            }
        }
    }

    /// Subscribes to a resource, triggers a change of it if a script has a tool for that, and unsubscribes.
    async fn subscriptions(&mut self) {
        let watched = self.watched();
        let first = self.client.all_resources().try_next().await.ok().flatten().map(|resource| resource.uri);
        let Some(uri) = watched.map(|watched| watched.uri.to_owned()).or(first) else { return };
        let name = format!("subscription to {uri}");
        let mut subscription = None;
        if self.has_session() {
            let subscribed = wait(self.client.subscribe(&uri)).await;
            if self.report.call(&name, subscribed, |_| "subscribed".to_owned()).is_none() {
                return;
            }
        } else {
            let uris = Some(vec![uri.clone()]);
            let filter = SubscriptionFilter { resource_subscriptions: uris, ..SubscriptionFilter::default() };
            subscription = self.listen(&name, filter).await;
        }
        if let Some(watched) = watched {
            let touched = wait(self.client.call_tool(watched.tool, ())).await;
            self.report.call(watched.tool, touched, show::result);
            let heard = self.heard.wait(&self.client, watched.patience, |counts| counts.updated.contains(&uri)).await;
            self.report.check(&name, if heard { Ok(()) } else { Err("no update came".to_owned()) });
            if watched.toggles {
                let stopped = wait(self.client.call_tool(watched.tool, ())).await;
                self.report.call(watched.tool, stopped, show::result);
            }
        }
        match subscription {
            Some(subscription) => subscription.close(),
            None => {
                let left = wait(self.client.unsubscribe(&uri)).await;
                self.report.call(&name, left, |_| "left".to_owned());
            }
        }
    }

    async fn prompts(&mut self) {
        self.report.heading("prompts");
        for prompt in self.list("prompts", self.client.all_prompts()).await.into_iter().take(SOME) {
            let arguments = self.prompt_arguments(&prompt).await;
            let filled_in =
                wait(self.client.get_prompt(&prompt.name, arguments.iter().cloned().collect::<Map<_>>())).await;
            self.report.call(&prompt.name, filled_in, |filled_in| {
                filled_in.messages.iter().map(|message| show::block(&message.content)).collect::<Vec<_>>().join(" | ")
            });
        }
    }

    /// Returns the required arguments of a prompt, as the server proposes them.
    async fn prompt_arguments(&mut self, prompt: &Prompt) -> Vec<(String, String)> {
        let mut known = Vec::new();
        for argument in prompt.arguments.iter().flatten().filter(|argument| argument.required == Some(true)) {
            let proposals =
                self.complete(&prompt.name, PromptReference::new(prompt.name.as_str()), &argument.name, &known).await;
            let value = proposals.into_iter().next().unwrap_or_else(|| known::text(&argument.name).to_owned());
            known.push((argument.name.clone(), value));
        }
        known
    }

    /// Lists the tasks that the tools have created. They are complete, so none is cancelled.
    async fn tasks(&mut self) {
        self.report.heading("tasks");
        for task in self.list("tasks", self.client.all_tasks()).await {
            self.report.line(&task.task_id, &task.status.to_string());
            let name = format!("cancelling {}", task.task_id);
            let cancelled = wait(self.client.task::<mcp_proto::schema::CallToolResult>(task.clone()).cancel()).await;
            let is_refused = task.status.is_terminal() == matches!(cancelled, Err(CallError::Rpc(_)));
            self.report.check(&name, if is_refused { Ok(()) } else { Err(format!("{cancelled:?}")) });
        }
    }

    /// Checks that an unknown method and an unknown notification have no effect.
    async fn unknown(&mut self) {
        self.report.heading("manners");
        let refused = wait(self.client.request_raw("tour/no-such-method", None)).await;
        let right = matches!(&refused, Err(CallError::Rpc(error)) if error.code.0 == -32601);
        self.report.line("unknown method", &refused.map_or_else(|error| error.to_string(), |_| "answered".to_owned()));
        self.report.check("unknown method", if right { Ok(()) } else { Err("it is not refused with -32601".into()) });
        let told = self.client.notify_raw("notifications/tour/no-such-thing", None);
        self.report.check("unknown notification", told.map_err(|error| error.to_string()));
        if self.has_session() {
            let ping = wait(self.client.request(&PingParams::default())).await;
            self.report.call("ping after that", ping, |_| "answered".to_owned());
        } else {
            let discovered = wait(self.client.request(&DiscoverParams::default())).await;
            self.report.call("server/discover after that", discovered, |found| found.supported_versions.join(", "));
        }
    }

    /// Calls a slow tool, if there is one, and cancels the call.
    async fn cancellation(&mut self) {
        let Some(tool) = known::slow(&self.server.server_info.name) else { return };
        // If the server ignores the cancellation, its exit must not take long.
        let arguments = json!({"ms": 3_600_000, "duration": 1, "steps": 1});
        let Ok(call) = self.client.call_tool(tool, arguments) else { return };
        if self.client.sleep(SOON).await.is_err() {
            return;
        }
        let start = Instant::now();
        call.cancel(Some("the tour is almost over"));
        let result = call.await;
        let took = start.elapsed();
        self.report.line(&format!("{tool}, cancelled"), &format!("{took:?}"));
        let right = matches!(result, Err(CallError::Cancelled)) && took < Duration::from_secs(1);
        self.report.check(tool, if right { Ok(()) } else { Err(format!("{result:?} after {took:?}")) });
    }
}
