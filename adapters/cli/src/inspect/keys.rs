//! The actions of the keys.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{
    layout::{Panes, inside},
    line::Line,
    model::{Detail, Effect, Focus, Model, Status, Tab},
    request::{Answer, Request},
    traffic::State,
    view::question_scroll,
};
use crate::{options::EraOption, record::Origin};

/// The keys, for the help.
pub(crate) const HELP: &[(&str, &str)] = &[
    ("1 2 3 4", "tools, resources, prompts, tasks"),
    ("Tab Shift-Tab", "next and previous pane or field"),
    ("arrows PgUp PgDn", "move; Left, Right and Space change a choice"),
    ("Home End", "first, last; End in the traffic follows the newest row"),
    ("Enter", "open the form, press a button, open a row"),
    ("Esc", "back"),
    ("/", "search in the pane; Enter keeps the filter, Esc ends it"),
    ("c", "cancel the newest call; in the traffic, that of the row"),
    ("r", "retry the selected request, or the last call"),
    ("l", "load the list again; without a connection, connect again"),
    ("e", "switch the era: connect again with the other revisions"),
    ("z", "one pane on the whole screen, and back"),
    ("m", "leave the mouse to the terminal, and back"),
    ("Ctrl-L", "draw the screen again"),
    ("q Ctrl-C", "quit"),
];

impl Model {
    pub(super) fn take_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => vec![Effect::Quit],
                KeyCode::Char('l') => vec![Effect::Redraw],
                _ => Vec::new(),
            };
        }
        if key.modifiers.contains(KeyModifiers::ALT) {
            return Vec::new();
        }
        if self.shows_help {
            self.shows_help = false;
            return Vec::new();
        }
        if !self.questions.is_empty() {
            return self.answer_key(key.code);
        }
        if self.search.is_some() {
            self.search_key(key.code);
            return Vec::new();
        }
        if self.focus == Focus::Detail
            && let Some(effects) = self.form_key(key.code)
        {
            return effects;
        }
        match key.code {
            KeyCode::Char(letter) => self.letter(letter),
            KeyCode::Tab => self.step_focus(1),
            KeyCode::BackTab => self.step_focus(2),
            KeyCode::Enter => self.enter(),
            KeyCode::Esc => self.back(),
            KeyCode::Right if self.focus == Focus::List => self.enter(),
            KeyCode::Left if self.focus == Focus::Detail => self.back(),
            code => self.navigate(code),
        }
    }

    fn letter(&mut self, letter: char) -> Vec<Effect> {
        match letter {
            'q' => return vec![Effect::Quit],
            '?' => self.shows_help = true,
            '1'..='4' => self.open_tab(Tab::ALL[letter as usize - '1' as usize]),
            '/' => {
                let filter = if self.focus == Focus::Traffic { self.traffic.filter() } else { &self.list().filter };
                self.search = Some(Line::new(filter));
            }
            'z' => self.is_zoomed = !self.is_zoomed,
            'm' => {
                self.has_mouse = !self.has_mouse;
                self.note =
                    if self.has_mouse { "the mouse selects panes" } else { "the mouse is the terminal's" }.into();
                return vec![Effect::CaptureMouse(self.has_mouse)];
            }
            'c' => return self.cancel(),
            'r' => return self.retry(),
            'l' => return self.load(),
            'e' => {
                let is_modern = matches!(&self.status, Status::Connected(about) if about.is_modern);
                let era = match (&self.status, self.era) {
                    (Status::Connected(_), _) if is_modern => EraOption::Legacy,
                    (Status::Connected(_), _) | (_, EraOption::Legacy) => EraOption::Modern,
                    _ => EraOption::Legacy,
                };
                return self.reconnect(era);
            }
            'j' => return self.navigate(KeyCode::Down),
            'k' => return self.navigate(KeyCode::Up),
            _ => {}
        }
        Vec::new()
    }

    /// Shows a list.
    pub(super) fn open_tab(&mut self, tab: Tab) {
        (self.tab, self.focus) = (tab, Focus::List);
        self.show_item();
    }

    fn step_focus(&mut self, by: usize) -> Vec<Effect> {
        let all = [Focus::List, Focus::Detail, Focus::Traffic];
        self.focus = all[(self.focus as usize + by) % 3];
        Vec::new()
    }

    fn enter(&mut self) -> Vec<Effect> {
        match self.focus {
            Focus::List => {
                self.show_item();
                self.focus = Focus::Detail;
            }
            Focus::Detail => {}
            Focus::Traffic => {
                if let Some(row) = self.selected_row() {
                    (self.detail, self.scroll, self.row) = (Detail::Row(row), 0, Some(row));
                    if self.is_zoomed {
                        self.focus = Focus::Detail;
                    }
                }
            }
        }
        Vec::new()
    }

    fn back(&mut self) -> Vec<Effect> {
        let has_filter = match self.focus {
            Focus::List => !self.list().filter.is_empty(),
            Focus::Detail => false,
            Focus::Traffic => !self.traffic.filter().is_empty(),
        };
        if has_filter {
            self.end_search();
            return Vec::new();
        }
        match (self.focus, &self.detail) {
            (Focus::Detail, Detail::Row(_)) => self.focus = Focus::Traffic,
            (Focus::Detail, _) | (Focus::Traffic, _) => self.focus = Focus::List,
            (Focus::List, _) => {}
        }
        if self.focus == Focus::List {
            self.show_item();
        }
        Vec::new()
    }

    fn cancel(&mut self) -> Vec<Effect> {
        let call = match self.selected_row().filter(|_| self.focus == Focus::Traffic) {
            Some(row) => {
                let row = self.traffic.get(row).filter(|row| row.from == Origin::Client);
                let id = row.filter(|row| row.state == State::InFlight).and_then(|row| row.id.clone());
                self.calls.iter().find(|(_, call)| call.id.map(|id| id.to_string()) == id && id.is_some())
            }
            None => self.calls.iter().next_back(),
        };
        match call.map(|(call, _)| *call) {
            Some(call) => {
                self.note = "cancelled".into();
                if let Some(call) = self.calls.get_mut(&call) {
                    call.is_cancelled = true;
                }
                vec![Effect::Cancel { call }]
            }
            None => {
                self.note = "no call to cancel".into();
                Vec::new()
            }
        }
    }

    fn retry(&mut self) -> Vec<Effect> {
        let request = match self.selected_row().filter(|_| self.focus == Focus::Traffic) {
            Some(row) => {
                let row = self.traffic.get(row).filter(|row| row.from == Origin::Client && row.id.is_some());
                let text = row.and_then(|row| row.request.as_ref()).filter(|text| !text.is_cut);
                text.and_then(|text| Request::of_message(&text.text))
            }
            None => self.last.clone(),
        };
        match request {
            Some(request) => self.send(request),
            None => {
                self.note = "no request to retry".into();
                Vec::new()
            }
        }
    }

    fn load(&mut self) -> Vec<Effect> {
        if let Status::Closed(_) = self.status {
            return self.reconnect(self.era);
        }
        let Status::Connected(about) = &self.status else { return Vec::new() };
        let tab = self.tab;
        if !about.offers[tab as usize] || self.list().is_loading {
            return Vec::new();
        }
        self.list_mut().is_loading = true;
        if let Some(changed) = self.traffic.changed.get_mut(tab as usize) {
            *changed = false;
        }
        vec![Effect::Load { session: self.session, tab }]
    }

    /// Moves in the pane that has the keys.
    pub(super) fn navigate(&mut self, code: KeyCode) -> Vec<Effect> {
        let panes = Panes::of(self);
        let page = |pane| isize::try_from(inside(pane).height.max(2) - 1).unwrap_or(1);
        let (pane, end) = match self.focus {
            Focus::List => (panes.list, isize::MAX),
            Focus::Detail => (panes.detail, isize::MAX),
            Focus::Traffic => (panes.traffic, isize::MAX),
        };
        let by = match code {
            KeyCode::Up => -1,
            KeyCode::Down => 1,
            KeyCode::PageUp => -page(pane),
            KeyCode::PageDown => page(pane),
            KeyCode::Home => -end,
            KeyCode::End => end,
            _ => return Vec::new(),
        };
        self.step(self.focus, by);
        Vec::new()
    }

    /// Moves by some lines in a pane.
    pub(super) fn step(&mut self, pane: Focus, by: isize) {
        match pane {
            Focus::List => {
                let list = self.list_mut();
                let last = list.visible().count().saturating_sub(1);
                list.selected = list.selected.saturating_add_signed(by).min(last);
                self.show_item();
            }
            Focus::Detail => match &mut self.detail {
                Detail::Item(form) => form.step(by.clamp(-1000, 1000)),
                _ => self.scroll = self.scroll.saturating_add_signed(by).min(self.last_scroll()),
            },
            Focus::Traffic => {
                let visible = self.traffic.visible();
                let Some(selected) = self.selected_row() else { return };
                let place = visible.partition_point(|it| *it < selected).saturating_add_signed(by);
                // The last row follows the newest one.
                self.row = visible.get(place).filter(|_| place + 1 < visible.len()).copied();
                if let (Detail::Row(_), Some(row)) = (&self.detail, self.selected_row()) {
                    (self.detail, self.scroll) = (Detail::Row(row), 0);
                }
            }
        }
    }

    fn last_scroll(&self) -> usize {
        let pane = inside(Panes::of(self).detail);
        let lines = self.detail_lines(usize::from(pane.width)).map_or(0, |lines| lines.len());
        lines.saturating_sub(usize::from(pane.height))
    }

    fn search_key(&mut self, code: KeyCode) {
        let Some(line) = &mut self.search else { return };
        match code {
            KeyCode::Enter => self.search = None,
            KeyCode::Esc => self.end_search(),
            code if line.take(code) => self.search_changed(),
            _ => {}
        }
    }

    /// Ends the filter of the pane that has the keys.
    fn end_search(&mut self) {
        self.search = Some(Line::default());
        self.search_changed();
        self.search = None;
    }

    /// Takes a key of the form of an item. `None`: it is another one.
    fn form_key(&mut self, code: KeyCode) -> Option<Vec<Effect>> {
        let Detail::Item(form) = &mut self.detail else { return None };
        let button = form.button();
        match (code, button) {
            (KeyCode::Tab, Some(last)) if last + 1 == form.buttons.len() => return None,
            (KeyCode::BackTab, _) if form.selected == 0 => return None,
            (KeyCode::Tab | KeyCode::Down, _) => form.step(1),
            (KeyCode::BackTab | KeyCode::Up, _) => form.step(-1),
            (KeyCode::Enter, None) => form.step(1),
            (KeyCode::Enter, Some(button)) => return Some(self.submit(button)),
            (KeyCode::Left, Some(0)) | (KeyCode::Esc, _) => return None,
            (KeyCode::Char(_) | KeyCode::PageUp | KeyCode::PageDown, Some(_)) => return None,
            (code, _) => form.take(code),
        }
        Some(Vec::new())
    }

    /// Takes a key of the answer to a question.
    fn answer_key(&mut self, code: KeyCode) -> Vec<Effect> {
        let size = self.size;
        let Some(asked) = self.questions.front_mut() else { return Vec::new() };
        let form = &mut asked.form;
        match (code, form.button()) {
            (KeyCode::Tab | KeyCode::Down, _) => form.step(1),
            (KeyCode::BackTab | KeyCode::Up, _) => form.step(-1),
            (KeyCode::Enter, None) => {
                form.step(1);
                // Keys that were pressed for something else accept nothing.
                let is_untouched = form.button() == Some(0) && !asked.is_touched;
                form.step(isize::from(is_untouched));
            }
            (KeyCode::Enter, Some(button)) => return self.answer(button),
            (KeyCode::Esc, _) => return self.finish_question(Answer::Cancel),
            (KeyCode::PageDown, _) => asked.scroll = question_scroll(asked, size, 1),
            (KeyCode::PageUp, _) => asked.scroll = question_scroll(asked, size, -1),
            (code, button) => {
                asked.is_touched |= button.is_none();
                form.take(code);
            }
        }
        Vec::new()
    }

    /// Presses a button of a question.
    pub(super) fn answer(&mut self, button: usize) -> Vec<Effect> {
        let Some(asked) = self.questions.front_mut() else { return Vec::new() };
        if button > 0 {
            return self.finish_question(Answer::Decline);
        }
        match asked.form.values() {
            Some(values) => self.finish_question(Answer::Accept(values)),
            None => Vec::new(),
        }
    }

    fn finish_question(&mut self, answer: Answer) -> Vec<Effect> {
        let Some(asked) = self.questions.pop_front() else { return Vec::new() };
        vec![Effect::Answer { question: asked.question.number, answer }]
    }
}
