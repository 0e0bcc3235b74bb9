//! Tests of the state and of what is drawn: whole screens, compared with the files in `screens`. With
//! `MCP_UPDATE_SCREENS=1` the files are written.

use std::{env, fs, io::BufRead, path::Path};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::{Terminal, backend::TestBackend, style::Color};
use serde_json::json;

use super::{
    go,
    model::{Effect, Mode, Model, Target},
    recording::{Open, Recording},
    view,
};
use crate::record::Reader;

/// Returns a record of a session with a broken rule.
fn record() -> String {
    let client =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let server = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"}});
    let call =
        json!({"name": "echo", "arguments": {"message": "Hello \u{202e}\u{1b}[2J"}, "_meta": {"progressToken": "p"}});
    let lines = [
        ("client", json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client})),
        ("server", json!({"jsonrpc": "2.0", "id": 0, "result": server})),
        ("client", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})),
        ("client", json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})),
        (
            "server",
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "p", "progress": 2}}),
        ),
        (
            "server",
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "p", "progress": 1}}),
        ),
        ("server", json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "Hello"}]}})),
    ];
    let mut text = format!("{}\n", json!({"mcp_record": 1, "transport": "stdio", "server": "shop", "started": "2026"}));
    for (number, (from, line)) in lines.iter().enumerate() {
        let stream = if *from == "client" { "stdin" } else { "stdout" };
        let entry = json!({"t": number * 1_500, "from": from, "stream": stream, "text": format!("{line}\n")});
        text.push_str(&format!("{entry}\n"));
    }
    text + "{\"t\":20000,\"exit\":0}\n"
}

fn open() -> (Recording, Model) {
    let open: Open = Box::new(|| Reader::new("a".into(), Box::new(std::io::Cursor::new(record())) as Box<dyn BufRead>));
    let mut recording = Recording::new(open).expect("a record");
    let mut model = Model::new((80, 24), "a.jsonl: shop over stdio".into());
    go(&mut model, &mut recording, &Target::Number(0)).expect("a step");
    (recording, model)
}

fn press(recording: &mut Recording, model: &mut Model, code: KeyCode) -> Option<Effect> {
    match model.update(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE))) {
        Some(Effect::Go(target)) => {
            go(model, recording, &target).expect("a step");
            None
        }
        other => other,
    }
}

fn draw(model: &mut Model) -> Terminal<TestBackend> {
    let (width, height) = model.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| view::draw(model, frame)).expect("it is drawn");
    terminal
}

fn check(name: &str, model: &mut Model) {
    for size in [(80, 24), (200, 60)] {
        model.size = size;
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/step/screens/{name}-{}x{}.txt", size.0, size.1));
        let terminal = draw(model);
        let lines = terminal.backend().buffer().content().chunks(size.0.into()).map(|cells| {
            let line: String = cells.iter().map(|cell| cell.symbol()).collect();
            line.trim_end().to_owned() + "\n"
        });
        let drawn: String = lines.collect();
        if env::var_os("MCP_UPDATE_SCREENS").is_some() {
            fs::write(&path, &drawn).expect("it can be written");
        }
        let expected = fs::read_to_string(&path).expect("there is a screen");
        assert_eq!(drawn, expected, "{}", path.display());
        assert!(!drawn.contains(['\u{1b}', '\u{202e}']));
    }
}

#[test]
fn steps_show_messages_and_what_both_sides_know() {
    let (mut recording, mut model) = open();
    check("first", &mut model);
    for _ in 0..3 {
        press(&mut recording, &mut model, KeyCode::Right);
    }
    check("call", &mut model);
    press(&mut recording, &mut model, KeyCode::Char('v'));
    assert_eq!(model.entry.as_ref().map(|entry| entry.number), Some(5));
    check("broken", &mut model);
    let terminal = draw(&mut model);
    let is_red = |cell: &ratatui::buffer::Cell| cell.fg == Color::Red && cell.symbol() == "P";
    assert!(terminal.backend().buffer().content().iter().any(is_red), "the rule is red");
    press(&mut recording, &mut model, KeyCode::Char('?'));
    check("help", &mut model);
}

#[test]
fn keys_move_and_search() {
    let (mut recording, mut model) = open();
    let at = |model: &Model| model.entry.as_ref().map(|entry| entry.number);
    press(&mut recording, &mut model, KeyCode::Left);
    assert_eq!(at(&model), Some(0));
    press(&mut recording, &mut model, KeyCode::End);
    assert_eq!((at(&model), model.len), (Some(7), Some(8)));
    press(&mut recording, &mut model, KeyCode::Right);
    assert_eq!((at(&model), &*model.note), (Some(7), "this is the last step"));
    press(&mut recording, &mut model, KeyCode::Char('V'));
    assert_eq!(at(&model), Some(5));
    press(&mut recording, &mut model, KeyCode::Home);
    press(&mut recording, &mut model, KeyCode::Char('n'));
    assert!(model.note.contains("nothing was searched"));
    for code in [KeyCode::Char('/'), KeyCode::Char('E'), KeyCode::Char('c'), KeyCode::Char('H'), KeyCode::Char('o')] {
        press(&mut recording, &mut model, code);
    }
    assert!(matches!(model.mode, Mode::Search(_)));
    press(&mut recording, &mut model, KeyCode::Enter);
    assert_eq!(at(&model), Some(3));
    press(&mut recording, &mut model, KeyCode::Char('n'));
    assert_eq!(at(&model), Some(6), "the response to it has its name");
    press(&mut recording, &mut model, KeyCode::Char('n'));
    assert_eq!((at(&model), &*model.note), (Some(6), "nothing was found"));
    press(&mut recording, &mut model, KeyCode::Char('N'));
    assert_eq!(at(&model), Some(3));
    model.update(&Event::Key(KeyEvent::new(KeyCode::PageDown, KeyModifiers::NONE)));
    draw(&mut model);
    assert!(model.scroll < 20, "no further than the end");
    assert_eq!(press(&mut recording, &mut model, KeyCode::Char('q')), Some(Effect::Quit));
}

#[test]
fn every_size_is_drawn() {
    let (_, mut model) = open();
    for width in (1..130).step_by(3) {
        for height in (1..40).step_by(3) {
            model.size = (width, height);
            draw(&mut model);
        }
    }
}
