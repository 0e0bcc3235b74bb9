//! Draws the state.

use std::borrow::Cow;

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph},
};

use super::{
    form::{Form, Kind},
    keys::HELP,
    layout::{self, Panes, inside, window},
    model::{Asked, Detail, Focus, ItemKind, Model, Status, Tab},
    page::{LineKind, Page, PageLine, arrow, fit, head, tail, width, wrap},
    request::QuestionKind,
    traffic::{Row, State},
};
use crate::text::{is_clean, one_line, rows};

/// The most lines of a description above the form of an item.
const MAX_DESCRIPTION: usize = 6;

/// The fewest lines of the text of a question.
const MIN_QUESTION: usize = 3;

const DIM: Style = Style::new().fg(Color::DarkGray);
const RED: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws the whole screen.
pub(crate) fn draw(model: &Model, frame: &mut Frame<'_>) {
    let panes = Panes::of(model);
    if panes == Panes::default() {
        let (width, height) = layout::SMALLEST;
        frame.render_widget(format!("needs {width}x{height}"), frame.area());
        return;
    }
    header(model, panes.header, frame);
    tabs(model, panes.tabs, frame);
    if !panes.list.is_empty() {
        list(model, panes.list, frame);
    }
    if !panes.detail.is_empty() {
        detail(model, panes.detail, frame);
    }
    if !panes.traffic.is_empty() {
        traffic(model, panes.traffic, frame);
    }
    status(model, panes.status, frame);
    if let Some(asked) = model.questions.front() {
        question(model, asked, frame);
    }
    if model.shows_help {
        help(model, frame);
    }
}

fn header(model: &Model, area: Rect, frame: &mut Frame<'_>) {
    let (text, style) = match &model.status {
        Status::Connecting => (" connecting".to_owned(), BOLD),
        Status::Connected(about) => {
            let era = if about.is_modern { "modern" } else { "legacy" };
            let name = one_line(&format!("{} {}", about.name, about.version));
            let counts = format!("in flight {}  violations {}", model.traffic.in_flight(), model.traffic.violations);
            let right = format!("{} {era}  {counts} ", one_line(&about.revision));
            let left = usize::from(area.width).saturating_sub(right.len() + 1);
            (format!(" {}{right}", fit(&name, left)), BOLD)
        }
        Status::Closed(why) => (format!(" not connected: {}", one_line(why)), RED),
    };
    let text = fit(&text, usize::from(area.width));
    frame.render_widget(line(text, style.add_modifier(Modifier::REVERSED)), area);
}

fn tabs(model: &Model, area: Rect, frame: &mut Frame<'_>) {
    let mut spans = vec![Span::raw(" ")];
    for (tab, _, text) in layout::tabs(model) {
        spans.push(Span::styled(text, if tab == model.tab { SELECTED } else { Style::new() }));
        spans.push(Span::raw(" "));
    }
    frame.render_widget(Line::from(spans), area);
}

/// Returns a line of a text that was cleaned, if it is one of the server. The terminal library leaves out control
/// characters as well, but not those that change the direction.
fn line<'a>(text: impl Into<Cow<'a, str>>, style: Style) -> Line<'a> {
    let text = text.into();
    debug_assert!(is_clean(&text), "a text that was not cleaned: {text:?}");
    Line::styled(text, style)
}

fn block<'a>(title: String, has_keys: bool) -> Block<'a> {
    let style = if has_keys { Style::new().fg(Color::Cyan) } else { DIM };
    Block::bordered().title(line(format!(" {title} "), BOLD)).border_style(style)
}

fn list(model: &Model, area: Rect, frame: &mut Frame<'_>) {
    let list = model.list();
    let filter = if list.filter.is_empty() { String::new() } else { format!(" /{}", one_line(&list.filter)) };
    let changed = match model.traffic.changed.get(model.tab as usize) {
        Some(true) => " changed: l loads",
        _ => "",
    };
    let title = format!("{}{filter}{changed}", model.tab.name());
    let pane = inside(area);
    frame.render_widget(block(fit_short(&title, pane.width), model.focus == Focus::List), area);
    let visible: Vec<_> = list.visible().collect();
    if visible.is_empty() {
        let why = match (&list.error, list.is_loading) {
            (Some(error), _) => one_line(error),
            (None, true) => "loading".into(),
            (None, false) => match &model.status {
                Status::Connected(_) => "none".into(),
                Status::Connecting => String::new(),
                // The first line of the screen may be too short for it.
                Status::Closed(why) => one_line(why),
            },
        };
        let lines = wrap(&why, usize::from(pane.width)).into_iter().map(|text| line(text, DIM));
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), pane);
        return;
    }
    let first = window(list.selected, visible.len(), pane.height);
    let lines = visible.iter().enumerate().skip(first).take(usize::from(pane.height)).map(|(index, item)| {
        let state = item.json.get("status").and_then(|it| it.as_str()).filter(|_| item.kind == ItemKind::Task);
        let name = match state {
            Some(state) => format!("{} {}", one_line(state), one_line(&item.name)),
            None => one_line(&item.name),
        };
        let columns = usize::from(pane.width);
        // Addresses of one server differ at their end.
        let text = match item.kind {
            ItemKind::Resource | ItemKind::Template if width(&name) >= columns => {
                fit(&format!(" ~{}", tail(&name, columns.saturating_sub(2))), columns)
            }
            _ => fit(&format!(" {name}"), columns),
        };
        line(text, if index == list.selected { SELECTED } else { Style::new() })
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), pane);
}

/// Cuts a title, without blanks after it.
fn fit_short(text: &str, columns: u16) -> String {
    fit(text, usize::from(columns).saturating_sub(2)).trim_end().to_owned()
}

impl Model {
    /// Returns the lines of the middle pane, unless it has a form.
    pub(super) fn detail_lines(&self, width: usize) -> Option<Vec<PageLine>> {
        match &self.detail {
            Detail::Item(_) => None,
            Detail::Page(page) => Some(page.wrapped(width)),
            Detail::Row(row) => {
                let gone = || Page::new("removed: it was the oldest row");
                Some(self.traffic.get(*row).map_or_else(gone, Page::of_row).wrapped(width))
            }
        }
    }
}

fn detail(model: &Model, area: Rect, frame: &mut Frame<'_>) {
    let pane = inside(area);
    let columns = usize::from(pane.width);
    let has_keys = model.focus == Focus::Detail;
    let title = match &model.detail {
        Detail::Item(_) => model.list().current().map(|item| one_line(&item.name)).unwrap_or_default(),
        Detail::Page(page) => page.title.clone(),
        Detail::Row(row) => model.traffic.get(*row).map(|row| Page::of_row(row).title).unwrap_or_default(),
    };
    frame.render_widget(block(fit_short(&title, pane.width), has_keys), area);
    if let Detail::Item(form) = &model.detail {
        let description = model.list().current().map(|item| item.description.as_str()).unwrap_or_default();
        return draw_form(&item_lines(form, description, columns), pane, has_keys, frame);
    }
    let lines = model.detail_lines(columns).unwrap_or_default();
    let shown = lines.into_iter().skip(model.scroll).take(usize::from(pane.height)).map(|shown| {
        let style = match shown.kind {
            LineKind::Plain => Style::new(),
            LineKind::Heading => DIM,
            LineKind::Error => RED,
        };
        line(shown.text, style)
    });
    frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), pane);
}

/// A form as lines.
#[derive(Debug)]
pub(super) struct FormLines {
    pub(super) lines: Vec<FormLine>,
    /// The line with the cursor.
    pub(super) selected: usize,
}

/// A line of a form.
#[derive(Debug)]
pub(super) struct FormLine {
    text: String,
    style: Style,
    /// The field or button.
    pub(super) field: Option<usize>,
    /// The column of the cursor.
    cursor: Option<usize>,
}

/// Returns the lines of the form of an item.
pub(super) fn item_lines(form: &Form, description: &str, columns: usize) -> FormLines {
    let mut lines = text_lines(description, columns);
    if lines.iter().skip(MAX_DESCRIPTION).any(|line| !line.is_empty()) {
        lines.truncate(MAX_DESCRIPTION - 1);
        lines.push("[... more]".into());
    }
    lines.truncate(MAX_DESCRIPTION);
    form_lines(form, lines, columns)
}

/// Returns all lines of a text.
fn text_lines(text: &str, columns: usize) -> Vec<String> {
    rows(text, usize::MAX).iter().flat_map(|row| wrap(row, columns)).collect()
}

/// Returns the lines of a form of some columns, below those of a text.
fn form_lines(form: &Form, text: Vec<String>, columns: usize) -> FormLines {
    let line = |text: String, style| FormLine { text, style, field: None, cursor: None };
    let mut lines: Vec<FormLine> = text.into_iter().map(|row| line(row, Style::new())).collect();
    if lines.iter().all(|line| line.text.is_empty()) {
        lines.clear();
    } else {
        lines.push(line(String::new(), Style::new()));
    }
    let mut selected = 0;
    let label = form.fields.iter().map(|it| width(&one_line(&it.name)) + 1).max().unwrap_or_default();
    let label = label.min(columns / 3);
    let inner = columns.saturating_sub(label + 3);
    for (index, field) in form.fields.iter().enumerate() {
        let is_selected = form.selected == index;
        let name = format!("{}{}", one_line(&field.name), if field.is_required { "*" } else { "" });
        let (value, style, cursor) = match &field.kind {
            Kind::Choice { values, chosen } => {
                let name = chosen.and_then(|it| values.get(it)).map_or("-", |(_, name)| name);
                (format!("< {name} >"), Style::new(), None)
            }
            Kind::Json(kind) if field.line.text().is_empty() => (kind.clone(), DIM, Some(0)),
            _ => {
                // The end of what is before the cursor is always shown.
                let before = tail(field.line.before(), inner.saturating_sub(1));
                let shown = format!("{before}{}", head(field.line.after(), inner));
                let shown = rows(&shown, 1).into_iter().next().unwrap_or_default();
                (shown, Style::new(), Some(width(before)))
            }
        };
        if is_selected {
            selected = lines.len();
        }
        lines.push(FormLine {
            text: format!("{} [{}]", fit(&name, label), fit(&value, inner)),
            style: if is_selected { BOLD } else { style },
            field: Some(index),
            cursor: cursor.filter(|_| is_selected).map(|it| label + 2 + it),
        });
        if is_selected && !field.description.is_empty() {
            lines.push(line(fit(&format!("{}{}", " ".repeat(label + 2), field.description), columns), DIM));
        }
    }
    if let Some(error) = &form.error {
        lines.push(line(fit(error, columns), RED));
    }
    for (index, button) in form.buttons.iter().enumerate() {
        let index = form.fields.len() + index;
        if form.selected == index {
            selected = lines.len();
        }
        lines.push(FormLine {
            text: format!("[ {button} ]"),
            style: if form.selected == index { SELECTED } else { Style::new() },
            field: Some(index),
            cursor: None,
        });
    }
    FormLines { lines, selected }
}

fn draw_form(form: &FormLines, pane: Rect, has_keys: bool, frame: &mut Frame<'_>) {
    let first = window(form.selected, form.lines.len(), pane.height);
    for (shown, y) in form.lines.iter().skip(first).zip(pane.y..pane.bottom()) {
        // Without the keys, nothing is selected.
        let style = if has_keys || shown.style == RED || shown.style == DIM { shown.style } else { Style::new() };
        frame.render_widget(line(shown.text.as_str(), style), Rect { y, height: 1, ..pane });
        if let (true, Some(cursor)) = (has_keys, shown.cursor) {
            frame.set_cursor_position((pane.x + u16::try_from(cursor).unwrap_or_default().min(pane.width - 1), y));
        }
    }
}

fn traffic(model: &Model, area: Rect, frame: &mut Frame<'_>) {
    let pane = inside(area);
    let it = &model.traffic;
    let filter = if it.filter().is_empty() { String::new() } else { format!(" /{}", one_line(it.filter())) };
    let follows = if model.row.is_none() { "" } else { " (End follows)" };
    let title = format!("Traffic {}{filter}{follows}", it.total());
    frame.render_widget(block(fit_short(&title, pane.width), model.focus == Focus::Traffic), area);
    let visible = it.visible();
    let selected = model.selected_row();
    let place = selected.map_or(0, |row| visible.partition_point(|it| *it < row));
    let first = window(place, visible.len(), pane.height);
    let shown = visible.iter().skip(first).take(usize::from(pane.height)).filter_map(|number| it.get(*number));
    let lines = shown.map(|row| {
        let is_selected = selected == Some(row.number) && (model.focus == Focus::Traffic || model.row.is_some());
        let style = row_style(row);
        let text = row_text(row, model.now, usize::from(pane.width));
        line(text, if is_selected { style.patch(SELECTED) } else { style })
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), pane);
}

fn row_style(row: &Row) -> Style {
    match row.state {
        _ if !row.findings.is_empty() => RED,
        State::Failed | State::Error(_) => Style::new().fg(Color::Yellow),
        State::InFlight => BOLD,
        State::Cancelled | State::Closed | State::Log | State::Event => DIM,
        State::Done | State::Notification | State::Stray => Style::new(),
    }
}

/// Returns a row: time, direction, id, method and subject, latency, size, state.
fn row_text(row: &Row, now: u64, columns: usize) -> String {
    let time = format!("{:>8.3}", row.at as f64 / 1e6);
    if matches!(row.state, State::Log | State::Event) {
        let text = if row.state == State::Log { format!("stderr {}", row.title) } else { row.title.clone() };
        return fit(&format!("{time}   {}", one_line(&text)), columns);
    }
    let id = row.id.as_deref().unwrap_or_default();
    let subject = row.subject.as_ref().map(|it| format!(" {it}")).unwrap_or_default();
    let progress = row.progress.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    let title = one_line(&format!("{}{subject}{progress}", row.title));
    let took = match (row.took, &row.state) {
        (Some(took), _) => duration(took),
        (None, State::InFlight) => duration(now.saturating_sub(row.at)),
        (None, _) => String::new(),
    };
    let state = match row.findings.first() {
        Some(finding) => format!("! {}", finding.rule.unwrap_or("broken")),
        None => row.state.name(),
    };
    let rest = columns.saturating_sub(49);
    let (id, title, state) = (fit(&one_line(id), 6), fit(&title, rest), fit(&one_line(&state), 13));
    let text = format!("{time} {} {id} {title} {took:>8} {:>7} {state}", arrow(row.from), size(row.size));
    fit(&text, columns)
}

fn duration(micros: u64) -> String {
    match micros as f64 / 1e3 {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1_000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

fn size(bytes: usize) -> String {
    match bytes as f64 {
        _ if bytes < 1_000 => format!("{bytes} B"),
        it if it < 1e6 => format!("{:.1} kB", it / 1e3),
        it => format!("{:.1} MB", it / 1e6),
    }
}

fn status(model: &Model, area: Rect, frame: &mut Frame<'_>) {
    let columns = usize::from(area.width);
    if let Some(search) = &model.search {
        let before = tail(search.before(), columns.saturating_sub(2));
        let text = format!("/{}{}", one_line(before), one_line(&head(search.after(), columns)));
        frame.render_widget(line(fit(&text, columns), Style::new()), area);
        let x = 1 + u16::try_from(width(before)).unwrap_or(u16::MAX);
        frame.set_cursor_position((x.min(area.width - 1), area.y));
        return;
    }
    let keys = match (model.focus, model.tab) {
        _ if !model.questions.is_empty() => "Tab next  Enter press  Esc close without a choice",
        _ if model.is_typing() => "Tab next  Enter press  Esc back",
        (Focus::Traffic, _) => "Enter open  c cancel  r retry  / search  ? help  q quit",
        (Focus::Detail, _) if matches!(model.detail, Detail::Item(_)) => {
            "Enter press  Esc back  r retry  ? help  q quit"
        }
        (Focus::Detail, _) => "Esc back  r retry  z zoom  ? help  q quit",
        (Focus::List, Tab::Tools | Tab::Prompts) => "Enter form  Tab pane  / search  ? help  q quit",
        (Focus::List, _) => "Enter open  Tab pane  / search  ? help  q quit",
    };
    let note = fit(&one_line(&model.note), columns.saturating_sub(keys.len() + 3));
    let mut text = line(format!(" {note} "), Style::new());
    text.push_span(Span::styled(keys, DIM));
    frame.render_widget(text, area);
}

fn question(model: &Model, asked: &Asked, frame: &mut Frame<'_>) {
    let lines = question_lines(asked, model.size);
    let area = layout::over(model.size, lines.lines.len()).intersection(frame.area());
    let title = match asked.question.kind {
        QuestionKind::Form => "The server asks",
        QuestionKind::Page => "The server asks to open a page",
        QuestionKind::Sampling => "The server asks for a text of a model",
    };
    let more = model.questions.len() - 1;
    let title = if more > 0 { format!("{title} ({more} more)") } else { title.to_owned() };
    frame.render_widget(Clear, area);
    frame.render_widget(block(title, true), area);
    draw_form(&lines, inside(area), true, frame);
}

/// Returns the lines of a question.
pub(super) fn question_lines(asked: &Asked, size: (u16, u16)) -> FormLines {
    let (mut lines, room) = question_text(asked, size);
    if lines.len() > room {
        let len = lines.len();
        // The size may have changed since.
        let first = asked.scroll.min(len - (room - 1));
        lines = lines.into_iter().skip(first).take(room - 1).collect();
        lines.push(format!("[{}-{} of {len}: PgUp PgDn]", first + 1, first + lines.len()));
    }
    form_lines(&asked.form, lines, question_columns(size))
}

fn question_columns(size: (u16, u16)) -> usize {
    usize::from(layout::box_width(size)).saturating_sub(2)
}

/// Returns all lines of the text of a question, and how many there is room for.
fn question_text(asked: &Asked, size: (u16, u16)) -> (Vec<String>, usize) {
    let lines = text_lines(&asked.question.message, question_columns(size));
    let inside = usize::from(size.1).saturating_sub(4);
    // An empty line, the fields, and the lines for a description and an error.
    let fields = if asked.form.fields.is_empty() { 1 } else { 3 + asked.form.fields.len() };
    // Half of the box, so that the text is shown as long as the first field is selected.
    let room = inside.saturating_sub(fields + asked.form.buttons.len()).max((inside / 2).saturating_sub(1));
    (lines, room.max(MIN_QUESTION))
}

/// Returns the first line of a question that is shown, after pages down or up.
pub(super) fn question_scroll(asked: &Asked, size: (u16, u16), pages: isize) -> usize {
    let (lines, room) = question_text(asked, size);
    let page = room - 1;
    let last = if lines.len() > room { lines.len() - page } else { 0 };
    asked.scroll.saturating_add_signed(pages * page as isize).min(last)
}

fn help(model: &Model, frame: &mut Frame<'_>) {
    let columns = usize::from(layout::box_width(model.size)).saturating_sub(2);
    let short = 17.min(columns / 3);
    let mut lines = Vec::new();
    for (keys, what) in HELP {
        for (index, what) in wrap(what, columns.saturating_sub(short)).into_iter().enumerate() {
            lines.push(Line::raw(format!("{}{what}", fit(if index == 0 { keys } else { "" }, short))));
        }
    }
    let area = layout::over(model.size, lines.len()).intersection(frame.area());
    frame.render_widget(Clear, area);
    frame.render_widget(block("Keys".into(), true), area);
    frame.render_widget(Paragraph::new(lines), inside(area));
}
