//! Tests of the state and of what is drawn: whole screens, compared with the files in `screens`. With
//! `MCP_UPDATE_SCREENS=1` the files are written.

use std::{env, fs, path::Path};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use mcp_proto::wire;
use ratatui::{Terminal, backend::TestBackend, style::Color};
use serde_json::{Value, json};

use super::{
    layout::Panes,
    model::{About, Detail, Effect, Focus, Item, ItemKind, Message, Model, Status, Tab},
    questions::page_text,
    request::{Answer, Question, QuestionKind, Request},
    sighting::{Broken, Observed, Part, Seen, Sighting},
    view,
};
use crate::{options::EraOption, record::Origin};

fn draw(model: &Model) -> Terminal<TestBackend> {
    let (width, height) = model.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| view::draw(model, frame)).expect("it is drawn");
    terminal
}

fn text(model: &Model) -> String {
    let terminal = draw(model);
    let buffer = terminal.backend().buffer();
    let width = usize::from(buffer.area.width);
    let lines = buffer.content().chunks(width).map(|cells| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// Compares the screen with that of a file.
fn check(name: &str, model: &Model) {
    let (width, height) = model.size;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/inspect/screens/{name}-{width}x{height}.txt"));
    let drawn = text(model);
    if env::var_os("MCP_UPDATE_SCREENS").is_some() {
        fs::write(&path, &drawn).expect("it can be written");
    }
    let expected = fs::read_to_string(&path).expect("there is a screen");
    assert_eq!(drawn, expected, "{}", path.display());
}

fn key(model: &mut Model, code: KeyCode) -> Vec<Effect> {
    model.update(Message::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn keys(model: &mut Model, text: &str) -> Vec<Effect> {
    text.chars().flat_map(|letter| key(model, KeyCode::Char(letter))).collect()
}

fn message(model: &mut Model, number: u64, at: u64, from: Origin, message: &Value) {
    let text = message.to_string();
    let parts = vec![wire::Message::parse(&text, 16).map(|it| Part::of(&it)).unwrap_or_default()];
    let observed = Observed { number, from, size: text.len(), text, is_cut: false, parts };
    let session = model.session;
    model.update(Message::Seen { session, sighting: Sighting { at, what: Seen::Message(observed) } });
}

fn about(is_modern: bool) -> About {
    let revision = if is_modern { "2026-07-28" } else { "2025-11-25" }.into();
    About { name: "shop".into(), version: "1.2.3".into(), revision, is_modern, offers: [true, true, true, false] }
}

fn tool(name: &str, description: &str) -> Item {
    let schema = json!({"type": "object", "required": ["message"], "properties": {
        "message": {"type": "string", "description": "The message to return."},
        "times": {"type": "integer", "description": "How often."},
        "loud": {"type": "boolean"},
        "size": {"enum": ["small", "large"], "default": "small"},
        "tags": {"type": "array", "items": {"type": "string"}},
    }});
    Item::new(ItemKind::Tool, json!({"name": name, "description": description, "inputSchema": schema}))
}

/// Returns a connected state with lists and some traffic.
fn connected(size: (u16, u16)) -> Model {
    let (mut model, effects) = Model::new(size, EraOption::Any);
    assert_eq!(effects, [Effect::Connect { session: 1, era: EraOption::Any }]);
    let loads = model.update(Message::Connected { session: 1, about: about(false) });
    let load = |tab| Effect::Load { session: 1, tab };
    assert_eq!(loads, [load(Tab::Tools), load(Tab::Resources), load(Tab::Prompts)]);
    let items = vec![tool("echo", "Returns a message."), tool("order", "Places an order.\nIt costs money.")];
    model.update(Message::Loaded { session: 1, tab: Tab::Tools, items: Ok(items) });
    let resource = json!({"uri": "shop://terms", "name": "terms"});
    let items = vec![Item::new(ItemKind::Resource, resource)];
    model.update(Message::Loaded { session: 1, tab: Tab::Resources, items: Ok(items) });
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    message(&mut model, 0, 1_500, Origin::Client, &list);
    message(&mut model, 1, 4_000, Origin::Server, &json!({"jsonrpc": "2.0", "id": 2, "result": {"tools": []}}));
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}});
    message(&mut model, 2, 5_000, Origin::Server, &log);
    let text = "started\u{1b}[31m".to_owned();
    model.update(Message::Seen { session: 1, sighting: Sighting { at: 6_000, what: Seen::Log(text) } });
    let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "echo"}});
    message(&mut model, 3, 1_000_000, Origin::Client, &call);
    message(&mut model, 4, 2_234_000, Origin::Server, &json!({"jsonrpc": "2.0", "id": 3, "result": []}));
    let broken = Broken {
        by: Origin::Server,
        rule: Some("BASE-017"),
        text: "The `result` member of a successful response is a JSON object.",
        what: "the result of tools/call is no object".into(),
    };
    let what = Seen::Broken { number: 4, findings: vec![broken] };
    model.update(Message::Seen { session: 1, sighting: Sighting { at: 2_234_000, what } });
    let slow = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call",
        "params": {"name": "order", "_meta": {"progressToken": 4}}});
    message(&mut model, 5, 3_000_000, Origin::Client, &slow);
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": 4, "progress": 1, "total": 4, "message": "packing"}});
    message(&mut model, 6, 3_100_000, Origin::Server, &progress);
    model.update(Message::Tick(5_000_000));
    model
}

#[test]
fn long_addresses_keep_their_ends() {
    let mut model = connected((80, 24));
    let uri = |name: &str| json!({"uri": format!("demo://resource/static/document/{name}"), "name": name});
    let mut items: Vec<_> = ["features.md", "structure.md"].map(|it| Item::new(ItemKind::Resource, uri(it))).into();
    let template = json!({"uriTemplate": "demo://resource/dynamic/blob/{id}", "name": "blob"});
    items.push(Item::new(ItemKind::Template, template));
    model.update(Message::Loaded { session: 1, tab: Tab::Resources, items: Ok(items) });
    keys(&mut model, "2");
    let screen = text(&model);
    for end in ["~document/features.md", "~ocument/structure.md", "~ce/dynamic/blob/{id}"] {
        assert!(screen.contains(end), "{end}: {screen}");
    }
}

#[test]
fn the_end_of_a_call_is_not_cut() {
    let mut model = connected((80, 24));
    let effects = model.send(Request::Read { uri: format!("shop://{}", "x".repeat(100)) });
    let [Effect::Send { call, .. }] = &effects[..] else { panic!("{effects:?}") };
    model.update(Message::Ended { call: *call, outcome: Ok(json!({})) });
    let screen = text(&model);
    assert!(screen.contains(" done: resources/read"), "{screen}");
}

const SIZES: [(u16, u16); 2] = [(80, 24), (200, 60)];

#[test]
fn lists_forms_and_traffic_are_drawn() {
    for size in SIZES {
        let mut model = connected(size);
        check("tools", &model);
        key(&mut model, KeyCode::Enter);
        keys(&mut model, "hi");
        for _ in 0..4 {
            key(&mut model, KeyCode::Tab);
        }
        keys(&mut model, "x");
        key(&mut model, KeyCode::Tab);
        assert_eq!(key(&mut model, KeyCode::Enter), []);
        check("form", &model);
    }
}

#[test]
fn results_are_drawn() {
    for size in SIZES {
        let mut model = connected(size);
        key(&mut model, KeyCode::Enter);
        keys(&mut model, "hi");
        for _ in 0..5 {
            key(&mut model, KeyCode::Tab);
        }
        let effects = key(&mut model, KeyCode::Enter);
        let arguments = json!({"message": "hi", "size": "small"}).as_object().cloned().expect("an object");
        let request = Request::Tool { name: "echo".into(), arguments, as_task: false };
        assert_eq!(effects, [Effect::Send { call: 1, request: request.clone() }]);
        let result = json!({"content": [{"type": "text", "text": "hi\n\u{1b}]0;owned\u{7}"}]});
        model.update(Message::Ended { call: 1, outcome: Ok(result) });
        check("result", &model);
        // The form has its values still, and the last call can be made again.
        assert_eq!(keys(&mut model, "r"), [Effect::Send { call: 2, request }]);
        model.update(Message::Ended { call: 2, outcome: Err("timed out".into()) });
        let Detail::Page(page) = &model.detail else { panic!("{:?}", model.detail) };
        assert_eq!(page.lines[0].text, "timed out");
        key(&mut model, KeyCode::Enter);
        let Detail::Item(form) = &model.detail else { panic!("{:?}", model.detail) };
        assert_eq!(form.fields[0].line.text(), "hi");
    }
}

#[test]
fn broken_rules_are_red_and_have_their_text() {
    for size in SIZES {
        let mut model = connected(size);
        model.focus = Focus::Traffic;
        key(&mut model, KeyCode::Up);
        key(&mut model, KeyCode::Enter);
        check("broken", &model);
        let terminal = draw(&model);
        let pane = Panes::of(&model).traffic;
        let red = terminal.backend().buffer().content().iter().enumerate().filter(|(index, cell)| {
            let (x, y) = (index % usize::from(size.0), index / usize::from(size.0));
            let inside = pane.contains(ratatui::layout::Position { x: x as u16, y: y as u16 });
            inside && cell.fg == Color::Red
        });
        assert_eq!(red.count(), usize::from(pane.width) - 2, "the row is red");
    }
}

#[test]
fn questions_are_drawn_and_answered() {
    for size in SIZES {
        let mut model = connected(size);
        let about = json!({"required": ["name"], "properties": {"name": {"type": "string"}}});
        let question = |number, kind, about| Question { number, kind, message: "Who are you?".into(), about };
        for number in 0..3 {
            model.update(Message::Question(question(number, QuestionKind::Form, about.clone())));
        }
        check("question", &model);
        keys(&mut model, "qé");
        key(&mut model, KeyCode::Enter);
        let values = json!({"name": "qé"}).as_object().cloned().expect("an object");
        let answer = |question, answer| [Effect::Answer { question, answer }];
        assert_eq!(key(&mut model, KeyCode::Enter), answer(0, Answer::Accept(values)));
        assert_eq!(key(&mut model, KeyCode::Esc), answer(1, Answer::Cancel));
        key(&mut model, KeyCode::Tab);
        key(&mut model, KeyCode::Tab);
        assert_eq!(key(&mut model, KeyCode::Enter), answer(2, Answer::Decline));
        // One that was withdrawn is not answered, and too many are declined.
        model.update(Message::Question(question(3, QuestionKind::Page, Value::Null)));
        model.update(Message::Withdrawn(3));
        assert!(model.questions.is_empty());
        for number in 0..16 {
            assert_eq!(model.update(Message::Question(question(number, QuestionKind::Page, Value::Null))), []);
        }
        let effects = model.update(Message::Question(question(16, QuestionKind::Page, Value::Null)));
        assert_eq!(effects, answer(16, Answer::Decline));
    }
}

#[test]
fn help_and_zoom_are_drawn() {
    for size in SIZES {
        let mut model = connected(size);
        keys(&mut model, "?");
        check("help", &model);
        key(&mut model, KeyCode::Esc);
        model.focus = Focus::Traffic;
        keys(&mut model, "z");
        check("zoom", &model);
    }
}

#[test]
fn every_size_is_drawn() {
    let mut model = connected((80, 24));
    for (width, height) in [(1, 1), (39, 11), (40, 12), (41, 13), (79, 12), (140, 12), (300, 100)] {
        assert_eq!(model.update(Message::Resize(width, height)), [Effect::Redraw]);
        for (focus, zoomed) in [(Focus::List, false), (Focus::Detail, true), (Focus::Traffic, true)] {
            (model.focus, model.is_zoomed) = (focus, zoomed);
            let drawn = text(&model);
            assert_eq!(drawn.lines().count(), usize::from(height));
        }
    }
}

#[test]
fn nothing_of_a_server_controls_the_terminal() {
    let bad = "a\u{1b}[2J\u{9b}1m\u{7}\u{202e}\r\nb";
    let mut model = connected((200, 60));
    let mut about = about(true);
    (about.name, about.version, about.revision) = (bad.into(), bad.into(), bad.into());
    model.update(Message::Connected { session: 1, about });
    let schema = json!({"properties": {bad: {"type": bad, "description": bad, "default": bad}, "x": {"enum": [bad]}}});
    let item = json!({"name": bad, "description": bad, "inputSchema": schema});
    let items = Ok(vec![Item::new(ItemKind::Tool, item)]);
    model.update(Message::Loaded { session: 1, tab: Tab::Tools, items });
    for (number, message_text) in [
        json!({"jsonrpc": "2.0", "id": bad, "method": bad, "params": {"name": bad}}),
        json!({"jsonrpc": "2.0", "id": bad, "error": {"code": 1, "message": bad}}),
    ]
    .iter()
    .enumerate()
    {
        message(&mut model, 10 + number as u64, 0, [Origin::Client, Origin::Server][number], message_text);
    }
    for what in [Seen::Log(bad.into()), Seen::Event(bad.into())] {
        model.update(Message::Seen { session: 1, sighting: Sighting { at: 0, what } });
    }
    let is_clean = |model: &Model| {
        let terminal = draw(model);
        let cells = terminal.backend().buffer().content().iter();
        let found: Vec<_> = cells.filter(|cell| cell.symbol().chars().any(is_control)).collect();
        assert!(found.is_empty(), "{found:?}");
    };
    is_clean(&model);
    key(&mut model, KeyCode::Enter);
    is_clean(&model);
    model.focus = Focus::Traffic;
    for _ in 0..3 {
        key(&mut model, KeyCode::Up);
        key(&mut model, KeyCode::Enter);
        is_clean(&model);
    }
    model.detail = Detail::Page(super::page::Page::of_outcome(bad, &Ok(json!({"content": [{"text": bad}], bad: bad}))));
    is_clean(&model);
    let about = json!({"properties": {bad: {}}});
    model.update(Message::Question(Question { number: 0, kind: QuestionKind::Form, message: bad.into(), about }));
    is_clean(&model);
    model.update(Message::Closed { session: 1, why: bad.into() });
    is_clean(&model);
}

fn is_control(letter: char) -> bool {
    letter.is_control() || crate::text::is_break_or_direction(letter)
}

#[test]
fn calls_are_cancelled_and_retried_from_the_traffic() {
    let mut model = connected((80, 24));
    model.send(Request::Read { uri: "shop://terms".into() });
    model.update(Message::Sent { call: 1, id: 4 });
    // Elsewhere the newest call is meant, in the traffic the selected row.
    assert_eq!(keys(&mut model, "c"), [Effect::Cancel { call: 1 }]);
    model.focus = Focus::Traffic;
    assert_eq!(keys(&mut model, "c"), [Effect::Cancel { call: 1 }]);
    key(&mut model, KeyCode::Up);
    assert_eq!(keys(&mut model, "c"), [], "that one has ended");
    let request = Request::Tool { name: "echo".into(), arguments: serde_json::Map::new(), as_task: false };
    assert_eq!(keys(&mut model, "r"), [Effect::Send { call: 2, request }]);
    key(&mut model, KeyCode::Up);
    assert_eq!(keys(&mut model, "r"), [], "a line of the error output is no request");
    model.update(Message::Closed { session: 1, why: "gone".into() });
    assert!(model.calls.is_empty() && model.traffic.in_flight() == 0);
    assert_eq!(model.send(Request::Read { uri: "x".into() }), []);
}

#[test]
fn eras_are_switched_and_old_connections_ignored() {
    let mut model = connected((80, 24));
    let connect = |session, era| [Effect::Connect { session, era }];
    assert_eq!(keys(&mut model, "e"), connect(2, EraOption::Modern));
    assert_eq!((&model.status, model.traffic.in_flight()), (&Status::Connecting, 0));
    model.update(Message::Connected { session: 1, about: about(false) });
    model.update(Message::Closed { session: 1, why: "late".into() });
    assert_eq!(model.status, Status::Connecting);
    model.update(Message::Closed { session: 2, why: "no common revision".into() });
    assert_eq!(keys(&mut model, "l"), connect(3, EraOption::Modern), "it connects again");
    model.update(Message::Connected { session: 3, about: about(true) });
    assert_eq!(keys(&mut model, "e"), connect(4, EraOption::Legacy));
}

#[test]
fn ends_say_why_and_what_to_do() {
    let mut model = connected((80, 24));
    let mut first = Model::new((80, 24), EraOption::Any).0;
    for model in [&mut model, &mut first] {
        model.update(Message::Closed { session: 1, why: "it ended".into() });
        let drawn = text(model);
        assert!(drawn.contains(" not connected: it ended") && drawn.contains(" l connects again"), "{drawn}");
        assert!(!drawn.contains("connected: 20"), "{drawn}");
    }
    // The first line of the screen may be too short for the reason.
    assert!(text(&first).contains("│it ended"), "{}", text(&first));
}

#[test]
fn searches_filter_lists_and_traffic() {
    let mut model = connected((80, 24));
    keys(&mut model, "/ORD");
    assert_eq!(model.list().current().map(|item| item.name.as_str()), Some("order"));
    key(&mut model, KeyCode::Enter);
    assert_eq!((model.list().visible().count(), model.search.is_none()), (1, true));
    keys(&mut model, "/");
    key(&mut model, KeyCode::Esc);
    assert_eq!(model.list().visible().count(), 2);
    model.focus = Focus::Traffic;
    keys(&mut model, "/BASE-017");
    key(&mut model, KeyCode::Enter);
    assert_eq!(model.traffic.visible().len(), 1);
    check("search", &model);
    // A filter that was kept ends with the next Esc, and the one after it goes back.
    key(&mut model, KeyCode::Esc);
    assert_eq!((model.traffic.visible().len(), model.focus), (5, Focus::Traffic));
    key(&mut model, KeyCode::Esc);
    assert_eq!(model.focus, Focus::List);
    keys(&mut model, "/ORD");
    key(&mut model, KeyCode::Enter);
    key(&mut model, KeyCode::Esc);
    assert_eq!(model.list().visible().count(), 2);
}

#[test]
fn the_mouse_selects_and_presses() {
    for size in SIZES {
        let mut model = connected(size);
        let panes = Panes::of(&model);
        let mouse = |model: &mut Model, kind, x, y| {
            model.update(Message::Mouse(MouseEvent { kind, column: x, row: y, modifiers: KeyModifiers::NONE }))
        };
        let click = MouseEventKind::Down(MouseButton::Left);
        mouse(&mut model, click, panes.list.x + 2, panes.list.y + 2);
        assert_eq!(model.list().current().map(|item| item.name.as_str()), Some("order"));
        // The first line of the description, an empty one, and the first field.
        mouse(&mut model, click, panes.detail.x + 2, panes.detail.y + 4);
        keys(&mut model, "1");
        let Detail::Item(form) = &model.detail else { panic!("{:?}", model.detail) };
        assert_eq!((form.fields[0].line.text(), model.focus), ("1", Focus::Detail));
        let drawn = text(&model);
        let line = drawn.lines().position(|line| line.contains("[ Call ]")).expect("a button");
        let effects = mouse(&mut model, click, panes.detail.x + 3, line as u16);
        assert!(matches!(&effects[..], [Effect::Send { call: 1, .. }]), "{effects:?}");
        mouse(&mut model, click, panes.traffic.x + 3, panes.traffic.y + 1);
        assert_eq!((model.focus, model.selected_row()), (Focus::Traffic, Some(0)));
        mouse(&mut model, MouseEventKind::ScrollDown, panes.traffic.x + 3, panes.traffic.y + 1);
        assert_eq!(model.selected_row(), Some(3));
        mouse(&mut model, click, 18, 1);
        assert_eq!(model.tab, Tab::Resources);
    }
}

#[test]
fn a_second_enter_accepts_no_question() {
    for (kind, about) in [(QuestionKind::Page, Value::Null), (QuestionKind::Form, json!({"properties": {}}))] {
        let mut model = connected((80, 24));
        let question = Question { number: 0, kind, message: "Go on?".into(), about };
        model.update(Message::Question(question.clone()));
        assert_eq!(key(&mut model, KeyCode::Enter), [Effect::Answer { question: 0, answer: Answer::Decline }]);
        model.update(Message::Question(question));
        key(&mut model, KeyCode::Up);
        let answer = Answer::Accept(serde_json::Map::new());
        assert_eq!(key(&mut model, KeyCode::Enter), [Effect::Answer { question: 0, answer }]);
    }
}

#[test]
fn repeated_enters_send_no_form_that_was_not_filled_in() {
    let about = json!({"properties": {"news": {"type": "boolean"}, "name": {"type": "string"}}});
    for (kind, typed) in
        [(QuestionKind::Form, ""), (QuestionKind::Sampling, ""), (QuestionKind::Form, "x"), (QuestionKind::Form, "\n")]
    {
        let mut model = connected((80, 24));
        let question = Question { number: 0, kind, message: "Go on?".into(), about: about.clone() };
        model.update(Message::Question(question));
        match typed {
            "\n" => drop(model.update(Message::Paste("Ada".into()))),
            typed => drop(keys(&mut model, typed)),
        }
        let mut effects = Vec::new();
        for _ in 0..3 {
            effects.extend(key(&mut model, KeyCode::Enter));
        }
        let is_declined = effects == [Effect::Answer { question: 0, answer: Answer::Decline }];
        assert_eq!(is_declined, typed.is_empty(), "{kind:?} {typed:?} {effects:?}");
    }
}

#[test]
fn long_questions_are_scrolled_and_say_so() {
    for size in [(80, 24), (40, 12)] {
        let mut model = connected(size);
        let lines: String = (1..=100).map(|line| format!("line {line}.\n")).collect();
        let message = page_text("https://example.com/consent", &(lines + &"x".repeat(1_000_000)));
        model.update(Message::Question(Question { number: 0, kind: QuestionKind::Page, message, about: Value::Null }));
        let drawn = text(&model);
        for wanted in ["https://example.com/consent", "PgDn", "[ Accept ]", "[ Decline ]"] {
            assert!(drawn.contains(wanted), "{wanted} in {drawn}");
        }
        assert!(!drawn.contains("line 50."));
        let mut steps = 0;
        while !text(&model).contains("line 50.") && steps < 100 {
            key(&mut model, KeyCode::PageDown);
            steps += 1;
        }
        assert!((1..100).contains(&steps), "{steps}");
        for _ in 0..400 {
            key(&mut model, KeyCode::PageDown);
        }
        assert!(text(&model).contains("bytes in all"), "the text is cut: {}", text(&model));
        model.update(Message::Resize(200, 60));
        assert!(text(&model).contains("bytes in all"), "{}", text(&model));
        model.update(Message::Resize(size.0, size.1));
        for _ in 0..400 {
            key(&mut model, KeyCode::PageUp);
        }
        assert_eq!(text(&model), drawn);
    }
}

#[test]
fn questions_with_many_fields_show_their_text() {
    for size in [(80, 24), (40, 12), (79, 13)] {
        let mut model = connected(size);
        let fields = (0..50).map(|field| (format!("field{field}"), json!({"type": "string"})));
        let about = json!({"properties": Value::Object(fields.collect())});
        let message = "First line.\n".to_owned() + &"Another line.\n".repeat(100);
        model.update(Message::Question(Question { number: 0, kind: QuestionKind::Form, message, about }));
        let drawn = text(&model);
        for wanted in ["First line.", "PgDn", "field0"] {
            assert!(drawn.contains(wanted), "{wanted} in {drawn}");
        }
    }
}

#[test]
fn descriptions_say_that_they_are_cut() {
    let mut model = connected((80, 24));
    let items = vec![tool("long", &"a word and another one\n".repeat(100_000))];
    model.update(Message::Loaded { session: 1, tab: Tab::Tools, items: Ok(items) });
    let item = model.list().current().expect("an item");
    assert!(item.description.len() <= 16 * 1024, "{}", item.description.len());
    assert!(text(&model).contains("[... more]"), "{}", text(&model));
}

#[test]
fn fields_show_what_is_before_the_cursor() {
    let mut model = connected((80, 24));
    key(&mut model, KeyCode::Enter);
    // Wide characters: columns are not characters.
    keys(&mut model, &("漢".repeat(40) + "end"));
    assert!(text(&model).contains("end]") || text(&model).contains("end "), "{}", text(&model));
}

#[test]
fn addresses_of_templates_have_no_control_characters() {
    let mut model = connected((80, 24));
    let template = json!({"uriTemplate": "shop://\u{1b}[2J\n{name}", "name": "x"});
    let items = vec![Item::new(ItemKind::Template, template)];
    model.update(Message::Loaded { session: 1, tab: Tab::Resources, items: Ok(items) });
    keys(&mut model, "2");
    let Detail::Item(form) = &model.detail else { panic!("{:?}", model.detail) };
    assert_eq!(form.fields[0].line.text(), "shop://[2J{name}");
}
