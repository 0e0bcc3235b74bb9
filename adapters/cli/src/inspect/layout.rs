//! The places of the panes on the screen, for the view and for the mouse.

use ratatui::layout::Rect;

use super::model::{Focus, Model, Tab};

/// From this width on, the traffic is beside the other panes and not below them.
const WIDE: u16 = 140;

/// The smallest screen that is drawn.
pub(crate) const SMALLEST: (u16, u16) = (40, 12);

/// The panes. One that is not shown is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Panes {
    /// The server and its state.
    pub(crate) header: Rect,
    /// The names of the lists.
    pub(crate) tabs: Rect,
    pub(crate) list: Rect,
    pub(crate) detail: Rect,
    pub(crate) traffic: Rect,
    /// The last line.
    pub(crate) status: Rect,
}

impl Panes {
    pub(crate) fn of(model: &Model) -> Self {
        let (width, height) = model.size;
        let mut panes = Self::default();
        if width < SMALLEST.0 || height < SMALLEST.1 {
            return panes;
        }
        let body = Rect::new(0, 2, width, height - 3);
        panes.header = Rect::new(0, 0, width, 1);
        panes.tabs = Rect::new(0, 1, width, 1);
        panes.status = Rect::new(0, height - 1, width, 1);
        if model.is_zoomed {
            match model.focus {
                Focus::List => panes.list = body,
                Focus::Detail => panes.detail = body,
                Focus::Traffic => panes.traffic = body,
            }
        } else if width >= WIDE {
            let (list, traffic) = (width / 5, width * 2 / 5);
            panes.list = Rect { width: list, ..body };
            panes.detail = Rect { x: list, width: width - list - traffic, ..body };
            panes.traffic = Rect { x: width - traffic, width: traffic, ..body };
        } else {
            let (list, upper) = (width * 3 / 10, body.height * 3 / 5);
            panes.list = Rect { width: list, height: upper, ..body };
            panes.detail = Rect { x: list, width: width - list, height: upper, ..body };
            panes.traffic = Rect { y: body.y + upper, height: body.height - upper, ..body };
        }
        panes
    }
}

/// Returns the columns of a box over the panes.
pub(crate) fn box_width(size: (u16, u16)) -> u16 {
    (size.0 * 19 / 20).min(100)
}

/// Returns the place of a box with some lines over the panes.
pub(crate) fn over(size: (u16, u16), lines: usize) -> Rect {
    let (width, height) = size;
    let across = box_width(size);
    let down = u16::try_from(lines).unwrap_or(u16::MAX).saturating_add(2).min(height.saturating_sub(2));
    Rect::new((width - across) / 2, (height - down) / 2, across, down)
}

/// Returns the inside of a pane with a border.
pub(crate) fn inside(pane: Rect) -> Rect {
    Rect { x: pane.x + 1, y: pane.y + 1, width: pane.width.saturating_sub(2), height: pane.height.saturating_sub(2) }
}

/// Returns the first line that is shown, so that the selected one is in the middle where possible.
pub(crate) fn window(selected: usize, len: usize, height: u16) -> usize {
    let height = usize::from(height);
    selected.saturating_sub(height / 2).min(len.saturating_sub(height))
}

/// Returns the columns of the names of the lists.
pub(crate) fn tabs(model: &Model) -> Vec<(Tab, u16, String)> {
    let mut x = 1;
    let place = |tab: Tab| {
        let list = &model.lists[tab as usize];
        let text = format!(" {} {} ({}) ", tab as usize + 1, tab.name(), list.items.len());
        let at = x;
        x += text.len() as u16 + 1;
        (tab, at, text)
    };
    Tab::ALL.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::EraOption;

    #[test]
    fn panes_fill_the_screen_and_do_not_overlap() {
        for (width, height) in [(40, 12), (80, 24), (81, 25), (139, 40), (140, 40), (200, 60), (500, 300)] {
            let (mut model, _) = Model::new((width, height), EraOption::Any);
            for zoomed in [false, true] {
                model.is_zoomed = zoomed;
                let it = Panes::of(&model);
                let all = [it.header, it.tabs, it.list, it.detail, it.traffic, it.status];
                let area: u32 = all.iter().map(|it| it.area()).sum();
                assert_eq!(area, u32::from(width) * u32::from(height), "{width}x{height} {it:?}");
                for (index, one) in all.iter().enumerate() {
                    assert!(all[..index].iter().all(|other| !one.intersects(*other)), "{width}x{height} {it:?}");
                }
            }
        }
        let (model, _) = Model::new((39, 12), EraOption::Any);
        assert_eq!(Panes::of(&model), Panes::default());
    }

    #[test]
    fn the_selected_line_is_shown() {
        for len in 0..40 {
            for selected in 0..len {
                let first = window(selected, len, 7);
                assert!(first <= selected && selected < first + 7 && first <= len.saturating_sub(7));
            }
        }
    }
}
