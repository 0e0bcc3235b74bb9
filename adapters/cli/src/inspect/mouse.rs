//! The actions of the mouse.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::{
    layout::{self, Panes, inside, window},
    model::{Detail, Effect, Focus, Model},
    view::{item_lines, question_lines},
};

/// The lines that a step of the wheel moves.
const WHEEL: isize = 3;

impl Model {
    pub(super) fn take_mouse(&mut self, event: MouseEvent) -> Vec<Effect> {
        let at = Position { x: event.column, y: event.row };
        let panes = Panes::of(self);
        let by = match event.kind {
            MouseEventKind::ScrollUp => -WHEEL,
            MouseEventKind::ScrollDown => WHEEL,
            MouseEventKind::Down(MouseButton::Left) => return self.click(at, panes),
            _ => return Vec::new(),
        };
        if !self.questions.is_empty() || self.shows_help {
            return Vec::new();
        }
        for (pane, focus) in [(panes.list, Focus::List), (panes.detail, Focus::Detail), (panes.traffic, Focus::Traffic)]
        {
            if pane.contains(at) {
                self.step(focus, by);
            }
        }
        Vec::new()
    }

    fn click(&mut self, at: Position, panes: Panes) -> Vec<Effect> {
        self.shows_help = false;
        if let Some(asked) = self.questions.front_mut() {
            let lines = question_lines(asked, self.size);
            let pane = inside(layout::over(self.size, lines.lines.len()));
            let Some(place) = place(at, pane, lines.selected, lines.lines.len()) else { return Vec::new() };
            let Some(field) = lines.lines.get(place).and_then(|line| line.field) else { return Vec::new() };
            asked.form.selected = field;
            return asked.form.button().map(|button| self.answer(button)).unwrap_or_default();
        }
        if panes.tabs.contains(at) {
            let tabs = layout::tabs(self);
            let hit = tabs.iter().find(|(_, x, text)| (*x..*x + text.len() as u16).contains(&at.x));
            if let Some((tab, ..)) = hit {
                self.open_tab(*tab);
            }
        } else if panes.list.contains(at) {
            self.focus = Focus::List;
            let (selected, len) = (self.list().selected, self.list().visible().count());
            if let Some(place) = place(at, inside(panes.list), selected, len) {
                self.list_mut().selected = place;
                self.show_item();
            }
        } else if panes.detail.contains(at) {
            return self.click_detail(at, inside(panes.detail));
        } else if panes.traffic.contains(at) {
            self.focus = Focus::Traffic;
            let visible = self.traffic.visible();
            let selected = self.selected_row().map_or(0, |row| visible.partition_point(|it| *it < row));
            if let Some(row) = place(at, inside(panes.traffic), selected, visible.len()).and_then(|it| visible.get(it))
            {
                (self.detail, self.scroll, self.row) = (Detail::Row(*row), 0, Some(*row));
            }
        }
        Vec::new()
    }

    fn click_detail(&mut self, at: Position, pane: Rect) -> Vec<Effect> {
        self.focus = Focus::Detail;
        let Some(description) = self.list().current().map(|item| item.description.clone()) else { return Vec::new() };
        let Detail::Item(form) = &mut self.detail else { return Vec::new() };
        let lines = item_lines(form, &description, usize::from(pane.width));
        let Some(place) = place(at, pane, lines.selected, lines.lines.len()) else { return Vec::new() };
        let Some(field) = lines.lines.get(place).and_then(|line| line.field) else { return Vec::new() };
        form.selected = field;
        form.button().map(|button| self.submit(button)).unwrap_or_default()
    }
}

/// Returns the place in a list that was clicked.
fn place(at: Position, pane: Rect, selected: usize, len: usize) -> Option<usize> {
    let line = pane.contains(at).then(|| usize::from(at.y - pane.y))?;
    Some(window(selected, len, pane.height) + line).filter(|place| *place < len)
}
