//! The connection: opens it, and makes the requests of the user on threads.

use std::{
    collections::{HashMap, HashSet},
    future::ready,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
};

use mcp_blocking::{Client, Error, http::Connector};
use mcp_driver::{DriverOptions, connect_with_hint};
use mcp_proto::{
    protocol::{Capability, Era},
    schema::{At, Encode, LoggingLevel, SubscriptionFilter, Tool},
    wire::{JsonObject, RawJson},
};
use mcp_service::{CallError, Canceller, Host, Pending, ResultOrTask, Subscription, block_on};
use serde_json::{Value, json};

use super::{
    http::ObservedClient,
    inbox::Inbox,
    model::{About, Item, ItemKind, MAX_ITEMS, Message, Tab},
    observer::{Clock, Observer},
    program::Program,
    request::{Answer, Request},
};
use crate::{error::Failed, options::EraOption, target::Target, text::beginning};

/// The most bytes of the name and of the version of a server: one line shows both.
const MAX_NAME: usize = 1024;

/// The most bytes of the description of an item.
const MAX_DESCRIPTION: usize = 4 * 1024;

/// The most bytes of the JSON of the items of a list.
const MAX_ITEM_BYTES: usize = 8 << 20;

/// The clients for each choice of revisions.
#[derive(Clone)]
pub(crate) struct Hosts {
    pub(crate) any: Host,
    pub(crate) legacy: Host,
    pub(crate) modern: Host,
}

/// The connections, of which one is current.
#[derive(Clone)]
pub(crate) struct Sessions {
    pub(crate) inbox: Arc<Inbox>,
    clock: Clock,
    target: Arc<Target>,
    hosts: Hosts,
    live: Arc<Mutex<Live>>,
    /// Whether the error output of a program is discarded.
    is_quiet: bool,
}

/// The state of the current connection.
#[derive(Default)]
pub(crate) struct Live {
    session: u32,
    client: Option<Client>,
    program: Option<Program>,
    /// Programs that were started before it, and may still run.
    older: Vec<Program>,
    calls: HashMap<u64, Canceller>,
    /// Calls that were cancelled before they were sent.
    cancelled: HashSet<u64>,
    /// The tools, for calls that become tasks.
    tools: HashMap<String, Tool>,
    /// Dropping them ends the subscriptions.
    subscriptions: Vec<Subscription>,
    /// The questions that wait for an answer.
    pub(crate) questions: HashMap<u64, mpsc::Sender<Answer>>,
}

impl Sessions {
    pub(crate) fn new(
        inbox: Arc<Inbox>,
        clock: Clock,
        target: Target,
        hosts: Hosts,
        live: Arc<Mutex<Live>>,
        is_quiet: bool,
    ) -> Self {
        Self { inbox, clock, target: Arc::new(target), hosts, live, is_quiet }
    }

    pub(crate) fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the current connection, and opens another one.
    pub(crate) fn connect(&self, session: u32, era: EraOption) {
        let mut live = self.live();
        let older = live.programs();
        let old = mem::replace(&mut *live, Live { session, older, ..Live::default() });
        drop(live);
        let this = self.clone();
        self.start(move || {
            old.end();
            let why = match this.open(session, era) {
                Ok(client) => {
                    let peer = (*client).clone();
                    drop(client);
                    peer.closed().wait().to_string()
                }
                Err(failed) => failed.to_string(),
            };
            this.inbox.send_in_order(Message::Closed { session, why });
        });
    }

    fn open(&self, session: u32, era: EraOption) -> Result<Client, Failed> {
        let is_http = matches!(&*self.target, Target::Http { .. });
        let observer = Observer::new(self.inbox.clone(), self.clock, session, is_http);
        let Hosts { any, legacy, modern } = &self.hosts;
        let host = match era {
            EraOption::Any => any,
            EraOption::Legacy => legacy,
            EraOption::Modern => modern,
        };
        let client = match &*self.target {
            Target::Program(command) => block_on(connect_with_hint(&DriverOptions::default(), |options| {
                let opened = Program::start(command.clone(), &observer.of_program(), self.is_quiet)
                    .map_err(|error| Error::Spawn { program: command.program(), error })
                    .and_then(|(transport, program)| {
                        if !self.is_current(session, |live| live.start(program.clone())) {
                            program.kill();
                        }
                        Client::connect_with(transport, host, &options)
                    });
                ready(opened)
            })),
            Target::Http { address, credentials } => {
                let connector = Connector::with_client_options((**address).clone());
                ObservedClient::new(observer)
                    .and_then(|observed| credentials.connect(connector.http_client(observed), host))
            }
        };
        let client = client.map_err(|error| Failed::connect(&error))?;
        if !self.is_current(session, |live| live.client = Some(client.clone())) {
            client.close();
            return Err(Failed::ended("another connection was opened"));
        }
        self.inbox.send(Message::Connected { session, about: about(&client) });
        Ok(client)
    }

    /// Changes the current connection, if it is this one.
    fn is_current(&self, session: u32, change: impl FnOnce(&mut Live)) -> bool {
        let mut live = self.live();
        let is_current = live.session == session;
        if is_current {
            change(&mut live);
        }
        is_current
    }

    fn client(&self) -> Option<Client> {
        self.live().client.clone()
    }

    fn start(&self, run: impl FnOnce() + Send + 'static) {
        if let Err(error) = thread::Builder::new().name("inspect-call".into()).spawn(run) {
            let session = self.live().session;
            self.inbox.send(Message::Closed { session, why: format!("no thread can be started: {error}") });
        }
    }

    /// Loads a list.
    pub(crate) fn load(&self, session: u32, tab: Tab) {
        let this = self.clone();
        self.start(move || {
            let Some(client) = this.client() else { return };
            let items = this.items(&client, tab).map_err(|error| Failed::from(error).to_string());
            this.inbox.send(Message::Loaded { session, tab, items });
        });
    }

    fn items(&self, client: &Client, tab: Tab) -> Result<Vec<Item>, CallError> {
        let peer = client.bypass_cache();
        match tab {
            Tab::Tools => {
                let mut tools = HashMap::new();
                let items = read(peer.all_tools(), ItemKind::Tool, |tool: &Tool| {
                    tools.insert(tool.name.clone(), tool.clone());
                })?;
                self.live().tools = tools;
                Ok(items)
            }
            Tab::Resources => {
                let mut items = read(peer.all_resources(), ItemKind::Resource, |_| {})?;
                // Not all servers have templates.
                items.extend(read(peer.all_resource_templates(), ItemKind::Template, |_| {}).unwrap_or_default());
                Ok(items)
            }
            Tab::Prompts => read(peer.all_prompts(), ItemKind::Prompt, |_| {}),
            Tab::Tasks => read(peer.all_tasks(), ItemKind::Task, |_| {}),
        }
    }

    /// Makes a request.
    pub(crate) fn send(&self, call: u64, request: Request) {
        let this = self.clone();
        self.start(move || {
            let outcome = match this.client() {
                Some(client) => this.call(&client, call, request),
                None => Err(Failed::ended("there is no connection")),
            };
            let mut live = this.live();
            live.calls.remove(&call);
            live.cancelled.remove(&call);
            drop(live);
            this.ended(call, outcome.map_err(|error| error.to_string()));
        });
    }

    /// Tells the end of a call, after what was seen of it.
    fn ended(&self, call: u64, outcome: Result<Value, String>) {
        self.inbox.send_in_order(Message::Ended { call, outcome });
    }

    fn call(&self, client: &Client, call: u64, request: Request) -> Result<Value, Failed> {
        let session = self.live().session;
        let is_modern = client.version().is_some_and(|version| version.era() == Era::Modern);
        let show_task = {
            let inbox = self.inbox.clone();
            move |json: Value| {
                inbox.send(Message::Task { session, item: Item::new(ItemKind::Task, json) });
            }
        };
        match request {
            Request::Tool { name, arguments, as_task: false } => {
                let peer = client.logging(LoggingLevel::Debug);
                let pending = peer.call_tool(&name, arguments)?.on_task(move |task| {
                    show_task(serde_json::to_value(&task).unwrap_or_default());
                });
                self.wait(call, pending)
            }
            Request::Tool { name, arguments, as_task: true } => {
                let tool = self.live().tools.get(&name).cloned().unwrap_or_else(|| Tool::without_arguments(&name));
                let pending = client.call_tool_as_task(&tool, arguments, None)?;
                self.register(call, &pending);
                match pending.wait()? {
                    ResultOrTask::Result(result) => value(&result),
                    ResultOrTask::Task(handle) => {
                        let task = serde_json::to_value(handle.task())?;
                        show_task(task.clone());
                        // Dropping it would cancel the task.
                        mem::forget(handle);
                        Ok(json!({"task": task}))
                    }
                }
            }
            Request::Prompt { name, arguments } => self.wait(call, client.get_prompt(&name, arguments)?),
            Request::Read { uri } => self.wait(call, client.bypass_cache().read_resource(&uri)?),
            Request::Subscribe { uri } if is_modern => {
                let filter =
                    SubscriptionFilter { resource_subscriptions: Some(vec![uri]), ..SubscriptionFilter::default() };
                let pending = client.listen(filter)?;
                self.register(call, &pending);
                let subscription = pending.wait()?;
                let missing = subscription.missing().resource_subscriptions.unwrap_or_default();
                self.live().subscriptions.push(subscription);
                Ok(json!({"subscribed": missing.is_empty()}))
            }
            Request::Subscribe { uri } => self.wait(call, client.subscribe(&uri)?),
            Request::TaskResult { id } if is_modern => self.wait(call, client.follow_task(&id)?),
            Request::TaskResult { id } => self.raw(client, call, "tasks/result", &json!({"taskId": id})),
            Request::CancelTask { id } => {
                let result = self.raw(client, call, "tasks/cancel", &json!({"taskId": id}))?;
                if result.get("taskId").is_some() {
                    show_task(result.clone());
                }
                Ok(result)
            }
            Request::Raw { method, params } => self.raw(client, call, &method, &params),
        }
    }

    fn raw(&self, client: &Client, call: u64, method: &str, params: &Value) -> Result<Value, Failed> {
        let params = if params.is_null() { None } else { Some(JsonObject::new(params)?) };
        let pending = client.request_raw(method, params.as_ref().map(RawJson::from).as_ref())?;
        self.register(call, &pending);
        Ok(pending.wait()?.decode()?)
    }

    fn wait<T: Encode + 'static>(&self, call: u64, pending: Pending<T>) -> Result<Value, Failed> {
        self.register(call, &pending);
        value(&pending.on_progress(|_| {}).wait()?)
    }

    /// Lets the user cancel a request.
    fn register<T>(&self, call: u64, pending: &Pending<T>) {
        let mut live = self.live();
        live.calls.insert(call, pending.canceller());
        let is_cancelled = live.cancelled.contains(&call);
        drop(live);
        if is_cancelled {
            self.cancel(call);
        }
        if !pending.id().is_cached() {
            self.inbox.send(Message::Sent { call, id: pending.id().as_u64() });
        }
    }

    pub(crate) fn cancel(&self, call: u64) {
        let mut live = self.live();
        let canceller = live.calls.get(&call).cloned();
        if canceller.is_none() {
            live.cancelled.insert(call);
        }
        drop(live);
        if let Some(canceller) = canceller {
            canceller.cancel(Some("cancelled by the user"));
        }
    }

    /// Passes on the answer to a question.
    pub(crate) fn answer(&self, question: u64, answer: Answer) {
        if let Some(sender) = self.live().questions.remove(&question) {
            // The request may have been cancelled in this moment.
            let _ = sender.send(answer);
        }
    }

    /// Ends the current connection. Waits a bounded time for the server.
    pub(crate) fn end(&self) {
        let mut live = self.live();
        let old = mem::take(&mut *live);
        // A second signal kills them while the end is waited for.
        live.program.clone_from(&old.program);
        live.older.clone_from(&old.older);
        drop(live);
        let older = old.older.clone();
        old.end();
        // Their connections have ended before.
        older.iter().for_each(Program::kill);
    }

    /// Kills the programs of the server.
    pub(crate) fn kill(&self) {
        let programs = self.live().programs();
        programs.iter().for_each(Program::kill);
    }
}

impl Live {
    /// Returns the programs that may still run.
    fn programs(&self) -> Vec<Program> {
        self.older.iter().chain(&self.program).filter(|program| !program.is_gone()).cloned().collect()
    }

    fn start(&mut self, program: Program) {
        self.older = self.programs();
        self.program = Some(program);
    }

    fn end(self) {
        // Handlers that wait for an answer end.
        drop((self.questions, self.subscriptions));
        match (self.client, self.program) {
            (Some(client), _) => drop(client.close()),
            // It is in the middle of the handshake.
            (None, Some(program)) => program.kill(),
            (None, None) => {}
        }
    }
}

fn about(client: &Client) -> About {
    let info = &client.server().server_info;
    let has = |capability| client.capabilities().contains(capability);
    let version = client.version();
    About {
        name: beginning(&info.name, MAX_NAME).to_owned(),
        version: beginning(&info.version, MAX_NAME).to_owned(),
        revision: version.map(|version| version.as_str().to_owned()).unwrap_or_default(),
        is_modern: version.is_some_and(|version| version.era() == Era::Modern),
        offers: [
            has(Capability::Tools),
            has(Capability::Resources),
            has(Capability::Prompts),
            has(Capability::TasksList),
        ],
    }
}

/// Returns a value of the protocol as JSON, as its latest revision has it.
fn value<T: Encode>(value: &T) -> Result<Value, Failed> {
    Ok(At(value, None).to_json()?.decode()?)
}

/// Reads a list, up to its bounds.
fn read<T: Encode>(
    pages: impl Iterator<Item = Result<T, CallError>>,
    kind: ItemKind,
    mut keep: impl FnMut(&T),
) -> Result<Vec<Item>, CallError> {
    let (mut items, mut bytes) = (Vec::new(), 0);
    for one in pages {
        let one = one?;
        let json = At(&one, None).to_json().ok();
        bytes += json.as_ref().map_or(0, |json| json.get().len());
        if items.len() == MAX_ITEMS || bytes > MAX_ITEM_BYTES {
            break;
        }
        keep(&one);
        items.push(Item::new(kind, json.and_then(|json| json.decode().ok()).unwrap_or_default()));
    }
    Ok(items)
}

impl Item {
    pub(crate) fn new(kind: ItemKind, json: Value) -> Self {
        let text = |name: &str| json.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, description) = match kind {
            ItemKind::Tool | ItemKind::Prompt => (text("name"), text("description")),
            ItemKind::Resource => (text("uri"), format!("{}\n{}", text("name"), text("description"))),
            ItemKind::Template => (text("uriTemplate"), format!("{}\n{}", text("name"), text("description"))),
            ItemKind::Task => (text("taskId"), format!("{}\n{}", text("status"), text("statusMessage"))),
        };
        Self { kind, name, description: beginning(&description, MAX_DESCRIPTION).to_owned(), json }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use mcp_blocking::http::Listener;
    use mcp_service::{Service, Tool};
    use serde_json::Map;

    use super::*;
    use crate::{
        host,
        inspect::sighting::{Part, PartKind, Seen, Sighting},
        options::Options,
    };

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Echo {
        message: String,
    }

    /// Messages until one that is looked for, and what was seen before it.
    fn until(inbox: &Inbox, is_wanted: impl Fn(&Message) -> bool) -> Vec<Message> {
        let mut all = Vec::new();
        while !all.iter().any(&is_wanted) {
            let taken = inbox.take(Duration::from_secs(60));
            assert!(!taken.is_empty(), "{all:?}");
            all.extend(taken);
        }
        all
    }

    /// Serves over HTTP. Returns the connections to it.
    fn open(service: Service) -> (Sessions, Arc<Inbox>) {
        let listener = Listener::bind("127.0.0.1:0").expect("an address");
        let url = format!("http://{}/mcp", listener.local_addr());
        thread::spawn(move || listener.serve(&service));
        let options = Options::parse_from(["mcp", "inspect", &url]).connection;
        let host = |era: EraOption| {
            host::builder(&options, era.versions(), Duration::from_secs(60)).expect("a client").build()
        };
        let hosts =
            Hosts { any: host(EraOption::Any), legacy: host(EraOption::Legacy), modern: host(EraOption::Modern) };
        let inbox = Arc::new(Inbox::default());
        let target = Target::parse(&url, &options).expect("a target");
        let sessions = Sessions::new(inbox.clone(), Clock::start(), target, hosts, Arc::default(), false);
        (sessions, inbox)
    }

    fn is_seen(message: &Message, is_wanted: impl Fn(&Part) -> bool) -> bool {
        match message {
            Message::Seen { sighting: Sighting { what: Seen::Message(observed), .. }, .. } => {
                observed.parts.iter().any(is_wanted)
            }
            _ => false,
        }
    }

    /// Calls a tool, and returns the text of its result.
    fn call_echo(sessions: &Sessions, inbox: &Inbox, number: u64, all: &mut Vec<Message>) -> Option<Value> {
        let arguments = json!({"message": "hi"}).as_object().cloned().expect("an object");
        sessions.send(number, Request::Tool { name: "echo".into(), arguments, as_task: false });
        all.extend(until(inbox, |it| matches!(it, Message::Ended { call, .. } if *call == number)));
        let outcome = all.iter().find_map(|it| match it {
            Message::Ended { call, outcome } if *call == number => Some(outcome.clone()),
            _ => None,
        });
        outcome.and_then(Result::ok).and_then(|it| it.pointer("/content/0/text").cloned())
    }

    #[test]
    fn messages_over_http_are_seen_and_break_no_rule() {
        let service = Service::builder("shop", "1.0.0").tool(Tool::new("echo", |echo: Echo| echo.message));
        let service = service.tool(Tool::new_async("wait", std::future::pending::<()>));
        let service = service.build().expect("a service");
        let (sessions, inbox) = open(service);
        for (session, era) in [(1, EraOption::Any), (2, EraOption::Legacy), (3, EraOption::Modern)] {
            sessions.connect(session, era);
            let mut all = until(&inbox, |it| matches!(it, Message::Connected { session: it, .. } if *it == session));
            sessions.load(session, Tab::Tools);
            all.extend(until(&inbox, |it| matches!(it, Message::Loaded { items: Ok(items), .. } if items.len() == 2)));
            let text = call_echo(&sessions, &inbox, 7, &mut all);
            assert_eq!(text, Some("hi".into()));
            // A call that is cancelled before the head of its response.
            sessions.send(8, Request::Tool { name: "wait".into(), arguments: Map::new(), as_task: false });
            let mut begun = until(&inbox, |it| matches!(it, Message::Sent { call: 8, .. }));
            let is_sent = |it: &Message| is_seen(it, |part| part.subject.as_deref() == Some("wait"));
            if !begun.iter().any(is_sent) {
                begun.extend(until(&inbox, is_sent));
            }
            all.extend(begun);
            sessions.cancel(8);
            let has_ended = |it: &Message| matches!(it, Message::Ended { call: 8, outcome: Err(_) });
            let mut ending = until(&inbox, has_ended);
            let is_told = |it: &Message| is_seen(it, |part| part.method.as_deref() == Some("notifications/cancelled"));
            // Without a session, the end of the exchange tells it.
            if era == EraOption::Legacy && !ending.iter().any(is_told) {
                ending.extend(until(&inbox, is_told));
            }
            all.extend(ending);
            // After it, everything was judged.
            let text = call_echo(&sessions, &inbox, 9, &mut all);
            assert_eq!(text, Some("hi".into()));
            let seen = all.iter().filter_map(|it| match it {
                Message::Seen { session: it, sighting } if *it == session => Some(&sighting.what),
                _ => None,
            });
            let mut kinds = Vec::new();
            for seen in seen {
                match seen {
                    Seen::Message(observed) => kinds.extend(observed.parts.iter().map(|part| part.kind)),
                    Seen::Broken { findings, .. } => panic!("{findings:?}"),
                    Seen::Log(_) | Seen::Event(_) => {}
                }
            }
            let count = |kind| kinds.iter().filter(|it| **it == kind).count();
            assert_eq!((count(PartKind::Request), count(PartKind::Result)), (5, 4), "{kinds:?}");
        }
        sessions.end();
    }

    #[test]
    fn calls_end_after_what_was_seen_of_them() {
        let service = Service::builder("shop", "1.0.0").build().expect("a service");
        let (sessions, inbox) = open(service);
        let sighting = Sighting { at: 0, what: Seen::Event("the request".into()) };
        inbox.send_in_order(Message::Seen { session: 1, sighting });
        sessions.ended(1, Err("cancelled".into()));
        let taken = inbox.take(Duration::from_secs(60));
        assert!(matches!(&taken[..], [Message::Seen { .. }, Message::Ended { call: 1, .. }]), "{taken:?}");
    }

    #[test]
    fn calls_are_cancelled_before_they_are_sent() {
        let service = Service::builder("shop", "1.0.0").tool(Tool::new_async("wait", std::future::pending::<()>));
        let service = service.build().expect("a service");
        let (sessions, inbox) = open(service);
        sessions.connect(1, EraOption::Any);
        until(&inbox, |it| matches!(it, Message::Connected { .. }));
        sessions.cancel(8);
        sessions.send(8, Request::Tool { name: "wait".into(), arguments: Map::new(), as_task: false });
        let all = until(&inbox, |it| matches!(it, Message::Ended { .. }));
        let is_cancelled =
            |it: &Message| matches!(it, Message::Ended { outcome: Err(error), .. } if error == "cancelled");
        assert!(all.iter().any(is_cancelled), "{all:?}");
        sessions.end();
    }
}
