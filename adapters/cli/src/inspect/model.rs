//! The state of the interface. It changes by messages, which yield effects; it performs no I/O.

use std::collections::{BTreeMap, VecDeque};

use crossterm::event::{KeyEvent, MouseEvent};
use serde_json::Value;

use super::{
    form::{Field, Form},
    line::Line,
    page::Page,
    request::{Answer, Question, QuestionKind, Request},
    sighting::{Seen, Sighting},
    traffic::{Traffic, contains},
};
use crate::{options::EraOption, text::beginning};

/// The most questions that wait for the user. Others are declined.
const MAX_QUESTIONS: usize = 16;

/// The most bytes of the text of a question.
const MAX_QUESTION: usize = 16 * 1024;

/// The most items of a list that are kept.
pub(crate) const MAX_ITEMS: usize = 5_000;

/// The most calls that are in flight at once.
pub(crate) const MAX_CALLS: usize = 32;

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Message {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Paste(String),
    Resize(u16, u16),
    /// Time has passed: microseconds since the start.
    Tick(u64),
    Connected {
        session: u32,
        about: About,
    },
    /// The connection has ended, or there is none.
    Closed {
        session: u32,
        why: String,
    },
    Loaded {
        session: u32,
        tab: Tab,
        items: Result<Vec<Item>, String>,
    },
    Seen {
        session: u32,
        sighting: Sighting,
    },
    /// A request was sent with this id.
    Sent {
        call: u64,
        id: u64,
    },
    Ended {
        call: u64,
        outcome: Result<Value, String>,
    },
    /// The state of a task.
    Task {
        session: u32,
        item: Item,
    },
    Question(Question),
    /// A question needs no answer any more.
    Withdrawn(u64),
}

/// An action of the runner.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    Connect { session: u32, era: EraOption },
    Load { session: u32, tab: Tab },
    Send { call: u64, request: Request },
    Cancel { call: u64 },
    Answer { question: u64, answer: Answer },
    CaptureMouse(bool),
    Redraw,
    Quit,
}

/// A connected server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) revision: String,
    pub(crate) is_modern: bool,
    /// Whether it has each list.
    pub(crate) offers: [bool; 4],
}

/// The state of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Connecting,
    Connected(About),
    Closed(String),
}

/// A list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tab {
    Tools,
    Resources,
    Prompts,
    Tasks,
}

impl Tab {
    pub(crate) const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Prompts, Self::Tasks];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tools => "Tools",
            Self::Resources => "Resources",
            Self::Prompts => "Prompts",
            Self::Tasks => "Tasks",
        }
    }
}

/// A tool, a resource, a template, a prompt or a task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) kind: ItemKind,
    /// The name, the URI or the id.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) json: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    Tool,
    Resource,
    Template,
    Prompt,
    Task,
}

/// The items of a tab.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) items: Vec<Item>,
    /// The place of the selected item among those that match the filter.
    pub(crate) selected: usize,
    pub(crate) filter: String,
    pub(crate) is_loading: bool,
    pub(crate) error: Option<String>,
}

impl List {
    /// Returns the items that match the filter.
    pub(crate) fn visible(&self) -> impl DoubleEndedIterator<Item = &Item> {
        self.items.iter().filter(|item| contains(&item.name, &self.filter) || contains(&item.description, &self.filter))
    }

    pub(crate) fn current(&self) -> Option<&Item> {
        self.visible().nth(self.selected)
    }
}

/// The pane that has the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Focus {
    List,
    Detail,
    Traffic,
}

/// The content of the middle pane.
#[derive(Debug)]
pub(crate) enum Detail {
    /// The selected item, with a form.
    Item(Form),
    /// A result.
    Page(Page),
    /// A row of the traffic, by its number.
    Row(u64),
}

/// A call in flight.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) request: Request,
    /// The id of its request.
    pub(crate) id: Option<u64>,
    pub(crate) is_cancelled: bool,
}

/// A question with the form for its answer.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) form: Form,
    /// The first line of the text that is shown.
    pub(crate) scroll: usize,
    /// Whether the user has edited a field.
    pub(crate) is_touched: bool,
}

/// The state.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) size: (u16, u16),
    pub(crate) status: Status,
    pub(crate) era: EraOption,
    /// The number of the connection: messages of earlier ones are ignored.
    pub(crate) session: u32,
    pub(crate) lists: [List; 4],
    pub(crate) tab: Tab,
    pub(crate) focus: Focus,
    pub(crate) detail: Detail,
    /// The first line of the middle pane that is shown.
    pub(crate) scroll: usize,
    pub(crate) traffic: Traffic,
    /// The selected row. `None` follows the newest one.
    pub(crate) row: Option<u64>,
    /// The text that is searched for, while it is typed.
    pub(crate) search: Option<Line>,
    pub(crate) calls: BTreeMap<u64, Call>,
    pub(crate) last: Option<Request>,
    /// The form that was sent last, with the name of its item: it is shown again with its values.
    sent: Option<(Tab, String, Form)>,
    next_call: u64,
    pub(crate) questions: VecDeque<Asked>,
    pub(crate) is_zoomed: bool,
    pub(crate) shows_help: bool,
    pub(crate) has_mouse: bool,
    /// The result of the last action.
    pub(crate) note: String,
    pub(crate) now: u64,
}

impl Model {
    /// Creates the state, and connects.
    pub(crate) fn new(size: (u16, u16), era: EraOption) -> (Self, Vec<Effect>) {
        let model = Self {
            size,
            status: Status::Connecting,
            era,
            session: 1,
            lists: Default::default(),
            tab: Tab::Tools,
            focus: Focus::List,
            detail: Detail::Page(Page::default()),
            scroll: 0,
            traffic: Traffic::default(),
            row: None,
            search: None,
            calls: BTreeMap::new(),
            last: None,
            sent: None,
            next_call: 1,
            questions: VecDeque::new(),
            is_zoomed: false,
            shows_help: false,
            has_mouse: true,
            note: String::new(),
            now: 0,
        };
        (model, vec![Effect::Connect { session: 1, era }])
    }

    /// Takes a message.
    pub(crate) fn update(&mut self, message: Message) -> Vec<Effect> {
        match message {
            Message::Key(key) => return self.take_key(key),
            Message::Mouse(event) => return self.take_mouse(event),
            Message::Paste(text) => self.paste(&text),
            Message::Resize(width, height) => {
                self.size = (width, height);
                return vec![Effect::Redraw];
            }
            Message::Tick(now) => self.now = self.now.max(now),
            Message::Connected { session, about } if session == self.session => return self.connected(about),
            Message::Closed { session, why } if session == self.session => self.closed(why),
            Message::Loaded { session, tab, items } if session == self.session => self.loaded(tab, items),
            Message::Seen { session, sighting } if session == self.session => {
                self.now = self.now.max(sighting.at);
                self.traffic.take(sighting);
            }
            Message::Task { session, item } if session == self.session => self.take_task(item),
            Message::Connected { .. }
            | Message::Closed { .. }
            | Message::Loaded { .. }
            | Message::Seen { .. }
            | Message::Task { .. } => {}
            Message::Sent { call, id } => {
                if let Some(call) = self.calls.get_mut(&call) {
                    call.id = Some(id);
                }
            }
            Message::Ended { call, outcome } => self.ended(call, outcome),
            Message::Question(question) => return self.ask(question),
            Message::Withdrawn(number) => self.questions.retain(|asked| asked.question.number != number),
        }
        Vec::new()
    }

    pub(crate) const fn list(&self) -> &List {
        &self.lists[self.tab as usize]
    }

    pub(crate) const fn list_mut(&mut self) -> &mut List {
        &mut self.lists[self.tab as usize]
    }

    fn connected(&mut self, about: About) -> Vec<Effect> {
        let mut effects = Vec::new();
        for tab in Tab::ALL {
            let list = &mut self.lists[tab as usize];
            list.items.clear();
            list.error = None;
            list.is_loading = about.offers[tab as usize];
            if list.is_loading {
                effects.push(Effect::Load { session: self.session, tab });
            }
        }
        self.note = format!("connected: {}", about.revision);
        self.status = Status::Connected(about);
        self.show_item();
        effects
    }

    fn closed(&mut self, why: String) {
        self.traffic.take(Sighting { at: self.now, what: Seen::Event(format!("closed: {why}")) });
        self.traffic.close();
        self.note = "l connects again".into();
        self.status = Status::Closed(why);
        self.calls.clear();
        self.questions.clear();
        self.lists.iter_mut().for_each(|list| list.is_loading = false);
    }

    fn loaded(&mut self, tab: Tab, items: Result<Vec<Item>, String>) {
        let list = &mut self.lists[tab as usize];
        list.is_loading = false;
        match items {
            Ok(items) => (list.items, list.error) = (items, None),
            Err(error) => list.error = Some(error),
        }
        let last = list.visible().count().saturating_sub(1);
        list.selected = list.selected.min(last);
        let is_empty = matches!(&self.detail, Detail::Page(page) if page.lines.is_empty());
        if tab == self.tab && (is_empty || self.focus == Focus::List && matches!(self.detail, Detail::Item(_))) {
            self.show_item();
        }
    }

    fn take_task(&mut self, item: Item) {
        let list = &mut self.lists[Tab::Tasks as usize];
        match list.items.iter_mut().find(|it| it.name == item.name) {
            Some(known) => *known = item,
            None => list.items.insert(0, item),
        }
        list.items.truncate(MAX_ITEMS);
    }

    fn ended(&mut self, number: u64, outcome: Result<Value, String>) {
        let Some(call) = self.calls.remove(&number) else { return };
        if let (Err(_), Some(id)) = (&outcome, call.id) {
            self.traffic.give_up(id, call.is_cancelled);
        }
        let title = call.request.title();
        // The end of a note is cut first.
        self.note = format!("{}: {title}", if outcome.is_ok() { "done" } else { "failed" });
        // Only the newest call takes the pane, and not from under the keys of another form.
        if number + 1 == self.next_call && !(self.focus == Focus::Detail && self.is_typing()) {
            self.detail = Detail::Page(Page::of_outcome(&title, &outcome));
            self.scroll = 0;
        }
    }

    fn ask(&mut self, mut question: Question) -> Vec<Effect> {
        if self.questions.len() == MAX_QUESTIONS {
            return vec![Effect::Answer { question: question.number, answer: Answer::Decline }];
        }
        let mut form = match question.kind {
            QuestionKind::Form => Form::of_schema(&question.about, &["Send", "Decline"]),
            QuestionKind::Page => Form::of_fields(Vec::new(), &["Accept", "Decline"]),
            QuestionKind::Sampling => {
                let field = Field::text("text", "the text of the assistant", true);
                Form::of_fields(vec![field], &["Send", "Decline"])
            }
        };
        if form.fields.is_empty() {
            // A key that was pressed for something else accepts nothing.
            form.selected = 1;
        }
        let cut = beginning(&question.message, MAX_QUESTION).len();
        if cut < question.message.len() {
            let mark = format!("\n[... {} bytes in all]", question.message.len());
            question.message.truncate(cut);
            question.message += &mark;
        }
        self.questions.push_back(Asked { question, form, scroll: 0, is_touched: false });
        Vec::new()
    }

    /// Returns whether keys are text for a form or for the search.
    pub(crate) fn is_typing(&self) -> bool {
        let in_form = match &self.detail {
            Detail::Item(form) => self.focus == Focus::Detail && form.button().is_none(),
            _ => false,
        };
        in_form || self.search.is_some() || !self.questions.is_empty()
    }

    fn paste(&mut self, text: &str) {
        if let Some(asked) = self.questions.front_mut() {
            asked.is_touched = true;
            asked.form.paste(text);
        } else if let Some(line) = &mut self.search {
            line.insert(text);
            self.search_changed();
        } else if let (Focus::Detail, Detail::Item(form)) = (self.focus, &mut self.detail) {
            form.paste(text);
        }
    }

    /// Shows the selected item with its form.
    pub(crate) fn show_item(&mut self) {
        self.scroll = 0;
        self.detail = match self.list().current() {
            Some(item) => Detail::Item(match &self.sent {
                Some((tab, name, form)) if *tab == self.tab && *name == item.name => form.clone(),
                _ => self.form_of(item),
            }),
            None => Detail::Page(Page::default()),
        };
    }

    fn form_of(&self, item: &Item) -> Form {
        match item.kind {
            ItemKind::Tool => {
                let schema = item.json.get("inputSchema").unwrap_or(&Value::Null);
                let support = item.json.pointer("/execution/taskSupport").and_then(Value::as_str);
                let buttons: &[&str] = match support {
                    Some("optional" | "required") => &["Call", "Call as a task"],
                    _ => &["Call"],
                };
                Form::of_schema(schema, buttons)
            }
            ItemKind::Prompt => Form::of_prompt(&item.json, &["Get"]),
            ItemKind::Resource => Form::of_fields(Vec::new(), &["Read", "Subscribe"]),
            ItemKind::Template => {
                let mut field = Field::text("uri", "replace the variables in braces", true);
                field.line = Line::new(&item.name);
                Form::of_fields(vec![field], &["Read", "Subscribe"])
            }
            ItemKind::Task => Form::of_fields(Vec::new(), &["Result", "Cancel the task"]),
        }
    }

    /// Sends the form of the selected item.
    pub(crate) fn submit(&mut self, button: usize) -> Vec<Effect> {
        let Detail::Item(form) = &mut self.detail else { return Vec::new() };
        let Some(values) = form.values() else { return Vec::new() };
        let mut form = form.clone();
        form.selected = 0;
        let Some(item) = self.list().current() else { return Vec::new() };
        let (name, kind) = (item.name.clone(), item.kind);
        self.sent = Some((self.tab, name.clone(), form));
        let uri = |values: &serde_json::Map<String, Value>| {
            values.get("uri").and_then(Value::as_str).unwrap_or(&name).to_owned()
        };
        let request = match (kind, button) {
            (ItemKind::Tool, _) => Request::Tool { name, arguments: values, as_task: button == 1 },
            (ItemKind::Prompt, _) => Request::Prompt { name, arguments: values },
            (ItemKind::Resource | ItemKind::Template, 0) => Request::Read { uri: uri(&values) },
            (ItemKind::Resource | ItemKind::Template, _) => Request::Subscribe { uri: uri(&values) },
            (ItemKind::Task, 0) => Request::TaskResult { id: name },
            (ItemKind::Task, _) => Request::CancelTask { id: name },
        };
        self.send(request)
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, request: Request) -> Vec<Effect> {
        if !matches!(self.status, Status::Connected(_)) {
            self.note = "there is no connection".into();
            return Vec::new();
        }
        if self.calls.len() == MAX_CALLS {
            self.note = format!("{MAX_CALLS} calls are in flight already");
            return Vec::new();
        }
        let call = self.next_call;
        self.next_call += 1;
        self.note = format!("sent: {}", request.title());
        self.last = Some(request.clone());
        self.calls.insert(call, Call { request: request.clone(), id: None, is_cancelled: false });
        self.focus = if self.focus == Focus::Detail { Focus::List } else { self.focus };
        vec![Effect::Send { call, request }]
    }

    /// Connects again, with the revisions of an era.
    pub(crate) fn reconnect(&mut self, era: EraOption) -> Vec<Effect> {
        self.closed("for another connection".into());
        self.sent = None;
        self.session += 1;
        (self.era, self.status, self.row) = (era, Status::Connecting, None);
        vec![Effect::Connect { session: self.session, era }]
    }

    /// Filters by the text that is typed.
    pub(crate) fn search_changed(&mut self) {
        let text = self.search.as_ref().map(|line| line.text().to_owned()).unwrap_or_default();
        if self.focus == Focus::Traffic {
            self.traffic.set_filter(&text);
            self.row = None;
        } else {
            let list = self.list_mut();
            (list.filter, list.selected) = (text, 0);
            self.show_item();
        }
    }

    /// Returns the number of the selected row of the traffic.
    pub(crate) fn selected_row(&self) -> Option<u64> {
        let visible = self.traffic.visible();
        match self.row {
            Some(row) => {
                // It may have been removed.
                let place = visible.partition_point(|it| *it < row);
                visible.get(place).or_else(|| visible.back()).copied()
            }
            None => visible.back().copied(),
        }
    }
}
