//! The state of the interface: takes keys, and yields what is to be done.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEventKind};

use super::recording::{Entry, Wanted};
use crate::inspect::InputLine;

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Goes to a step.
    Go(Target),
    Redraw,
    Quit,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Number(u64),
    Last,
    Find { wanted: Wanted, is_forward: bool },
}

/// The part of the screen that receives the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Steps,
    Search(InputLine),
    Help,
}

/// The state.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) size: (u16, u16),
    /// The name of the record.
    pub(crate) name: String,
    /// The current step. `None`: the record has none.
    pub(crate) entry: Option<Entry>,
    /// The number of steps, if it is known.
    pub(crate) len: Option<u64>,
    /// The first line of the text that is shown.
    pub(crate) scroll: usize,
    pub(crate) mode: Mode,
    /// The words that were searched.
    pub(crate) words: Option<String>,
    /// A remark for the last line.
    pub(crate) note: String,
}

impl Model {
    pub(crate) fn new(size: (u16, u16), name: String) -> Self {
        let (mode, note) = (Mode::default(), String::new());
        Self { size, name, entry: None, len: None, scroll: 0, mode, words: None, note }
    }

    /// Shows a step.
    pub(crate) fn show(&mut self, entry: Option<Entry>, len: Option<u64>) {
        (self.entry, self.len, self.scroll) = (entry, len, 0);
        self.note.clear();
    }

    fn number(&self) -> u64 {
        self.entry.as_ref().map_or(0, |entry| entry.number)
    }

    /// Takes an event of the terminal.
    pub(crate) fn update(&mut self, event: &Event) -> Option<Effect> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(*key),
            Event::Paste(text) => {
                if let Mode::Search(line) = &mut self.mode {
                    line.insert(text);
                }
                None
            }
            Event::Mouse(mouse) => {
                match mouse.kind {
                    MouseEventKind::ScrollDown => self.scroll += 3,
                    MouseEventKind::ScrollUp => self.scroll = self.scroll.saturating_sub(3),
                    _ => {}
                }
                None
            }
            Event::Resize(width, height) => {
                self.size = (*width, *height);
                None
            }
            _ => None,
        }
    }

    fn key(&mut self, key: KeyEvent) -> Option<Effect> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Effect::Quit),
                KeyCode::Char('l') => Some(Effect::Redraw),
                _ => None,
            };
        }
        match &mut self.mode {
            Mode::Help => {
                self.mode = Mode::Steps;
                None
            }
            Mode::Search(line) => {
                match key.code {
                    KeyCode::Esc => self.mode = Mode::Steps,
                    KeyCode::Enter => {
                        let words = line.text().to_lowercase();
                        self.mode = Mode::Steps;
                        self.words = Some(words).filter(|words| !words.is_empty());
                        return self.find(true);
                    }
                    code => {
                        line.take(code);
                    }
                }
                None
            }
            Mode::Steps => self.step(key.code),
        }
    }

    fn find(&mut self, is_forward: bool) -> Option<Effect> {
        let Some(words) = self.words.clone() else {
            self.note = "nothing was searched: / searches".into();
            return None;
        };
        Some(Effect::Go(Target::Find { wanted: Wanted::Words(words), is_forward }))
    }

    fn step(&mut self, code: KeyCode) -> Option<Effect> {
        let page = usize::from(self.size.1.saturating_sub(10)).max(1);
        let number = self.number();
        match code {
            KeyCode::Right | KeyCode::Enter | KeyCode::Char(' ' | 'l' | 'j') => {
                return Some(Effect::Go(Target::Number(number + 1)));
            }
            KeyCode::Left | KeyCode::Backspace | KeyCode::Char('h' | 'k') => {
                return Some(Effect::Go(Target::Number(number.saturating_sub(1))));
            }
            KeyCode::Home | KeyCode::Char('g') => return Some(Effect::Go(Target::Number(0))),
            KeyCode::End | KeyCode::Char('G') => return Some(Effect::Go(Target::Last)),
            KeyCode::Down => self.scroll += 1,
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += page,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(page),
            KeyCode::Char('/') => self.mode = Mode::Search(InputLine::default()),
            KeyCode::Char('n') => return self.find(true),
            KeyCode::Char('N') => return self.find(false),
            KeyCode::Char(letter @ ('v' | 'V')) => {
                return Some(Effect::Go(Target::Find { wanted: Wanted::Violation, is_forward: letter == 'v' }));
            }
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Esc | KeyCode::Char('q') => return Some(Effect::Quit),
            _ => {}
        }
        None
    }
}
