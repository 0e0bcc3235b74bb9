//! Draws the state.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::Line,
    widgets::{Block, Clear, Paragraph},
};

use super::{
    model::{Mode, Model},
    pretty::pretty,
    recording::Entry,
};
use crate::{
    inspect::{fit, wrap},
    record::Origin,
    replay::place_text,
    text::{one_line, rows},
};

/// The smallest screen.
const SMALLEST: (u16, u16) = (40, 12);

/// From this width on, what both sides know is beside the message.
const WIDE: u16 = 120;

/// The most lines of a message.
const MAX_LINES: usize = 4_000;

const RED: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().fg(Color::DarkGray);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

const HELP: &[(&str, &str)] = &[
    ("right, space", "next step"),
    ("left", "previous step"),
    ("Home, End", "first and last step"),
    ("up, down, Page Up, Page Down", "scroll the message"),
    ("/ n N", "search, next match, previous match"),
    ("v V", "next and previous broken rule"),
    ("Ctrl-L", "draw the screen again"),
    ("q", "quit"),
];

/// Draws the whole screen.
pub(crate) fn draw(model: &mut Model, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        frame.render_widget(format!("needs {}x{}", SMALLEST.0, SMALLEST.1), area);
        return;
    }
    let row = |y| Rect { y, height: 1, ..area };
    title(model, row(0), frame);
    let body = Rect { y: 1, height: area.height - 2, ..area };
    let (message_area, known_area) = if area.width >= WIDE {
        let width = area.width * 3 / 5;
        (Rect { width, ..body }, Rect { x: width, width: area.width - width, ..body })
    } else {
        let height = (body.height / 3).max(6);
        let top = body.height - height;
        (Rect { height: top, ..body }, Rect { y: body.y + top, height, ..body })
    };
    message(model, message_area, frame);
    known(model, known_area, frame);
    status(model, row(area.height - 1), frame);
    if model.mode == Mode::Help {
        help(frame);
    }
}

fn title(model: &Model, area: Rect, frame: &mut Frame<'_>) {
    let of = model.len.map(|len| format!(" of {len}")).unwrap_or_default();
    let step = match &model.entry {
        Some(entry) => format!("step {}{of}  {} s", entry.number + 1, seconds(entry.at)),
        None => "no step".into(),
    };
    let columns = usize::from(area.width);
    let name = fit(&one_line(&model.name), columns.saturating_sub(step.len() + 3));
    let line = format!(" {name}  {step}");
    frame.render_widget(Paragraph::new(Line::styled(line, BOLD)), area);
}

fn seconds(at: u64) -> String {
    format!("{}.{:06}", at / 1_000_000, at % 1_000_000)
}

fn side(from: Option<Origin>) -> &'static str {
    match from {
        Some(Origin::Client) => "client ->",
        Some(Origin::Server) => "<- server",
        None => "record",
    }
}

/// Adds a text as lines that fit.
fn add(lines: &mut Vec<Line<'static>>, text: &str, columns: usize, style: Style) {
    for row in rows(text, MAX_LINES) {
        for line in wrap(&row, columns) {
            if lines.len() < MAX_LINES {
                lines.push(Line::styled(line, style));
            }
        }
    }
}

/// Returns the lines of a step.
fn lines_of(entry: &Entry, columns: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for broken in &entry.broken {
        let rule = if broken.rule.is_empty() { String::new() } else { format!(" {}", broken.rule) };
        let text = format!("broken by the {}:{rule} {}", broken.by.name(), one_line(&broken.what));
        add(&mut lines, &text, columns, RED);
        if !broken.text.is_empty() {
            add(&mut lines, broken.text, columns, DIM);
        }
    }
    add(&mut lines, &pretty(&entry.text), columns, Style::new());
    if entry.text.len() < entry.size {
        let text = format!("[... {} bytes in all]", entry.size);
        add(&mut lines, &text, columns, DIM);
    }
    lines
}

fn message(model: &mut Model, area: Rect, frame: &mut Frame<'_>) {
    let Some(entry) = &model.entry else {
        frame.render_widget(Block::bordered().title(" no step "), area);
        return;
    };
    let style = if entry.broken.is_empty() { Style::new() } else { RED };
    let columns = usize::from(area.width.saturating_sub(2));
    let place = place_text(entry.session, entry.exchange).map(|text| format!(" ({text})")).unwrap_or_default();
    let title = format!(" {} {}{place} ", side(entry.from), one_line(&entry.title));
    let block = Block::bordered().border_style(style).title(fit(&title, columns));
    let lines = lines_of(entry, columns);
    let height = usize::from(area.height.saturating_sub(2));
    model.scroll = model.scroll.min(lines.len().saturating_sub(height));
    let shown: Vec<_> = lines.into_iter().skip(model.scroll).take(height).collect();
    frame.render_widget(Paragraph::new(shown).block(block), area);
}

fn known(model: &Model, area: Rect, frame: &mut Frame<'_>) {
    let columns = usize::from(area.width.saturating_sub(2));
    let mut lines = Vec::new();
    if let Some(entry) = &model.entry {
        if let Some([client, server]) = &entry.known {
            add(&mut lines, &format!("client: {}", one_line(client)), columns, Style::new());
            add(&mut lines, &format!("server: {}", one_line(server)), columns, Style::new());
        }
        let (named, count) = &entry.flying;
        add(&mut lines, &format!("requests in flight: {count}"), columns, BOLD);
        for name in named {
            lines.push(Line::raw(fit(&format!("  {}", one_line(name)), columns)));
        }
        if named.len() < *count {
            lines.push(Line::styled(format!("  and {} more", count - named.len()), DIM));
        }
    }
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" known after it ")), area);
}

fn status(model: &Model, area: Rect, frame: &mut Frame<'_>) {
    let columns = usize::from(area.width);
    let line = match &model.mode {
        Mode::Search(line) => Line::raw(fit(&format!("/{}", one_line(line.text())), columns)),
        _ if !model.note.is_empty() => Line::styled(fit(&one_line(&model.note), columns), BOLD),
        _ => Line::styled(fit(" left/right step  / search  v broken rule  ? keys  q quit", columns), DIM),
    };
    frame.render_widget(Paragraph::new(line), area);
}

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let height = u16::try_from(HELP.len()).unwrap_or(u16::MAX).saturating_add(2).min(area.height);
    let width = area.width.min(70);
    let area = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    let lines: Vec<_> = HELP.iter().map(|(key, what)| Line::raw(format!("{key:<30}{what}"))).collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), area);
}
