//! The terminal: its modes, which are restored at the end and after a panic, its keys, and signals.

use std::{
    io::{self, IsTerminal, Stdout, stdout},
    panic,
    sync::{
        Arc, Once,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    thread,
};

use crossterm::{
    cursor::Show,
    event::{
        self, DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture, Event, MouseEvent,
        MouseEventKind,
    },
    execute,
    terminal::{self, EnterAlternateScreen, LeaveAlternateScreen},
};
use ratatui::{Terminal, backend::CrosstermBackend};

use super::{inbox::Inbox, model::Message};
use crate::error::Failed;

/// Whether the modes of the terminal are changed.
static CHANGED: AtomicBool = AtomicBool::new(false);

/// The terminal. Dropping it restores the modes.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Returns an error unless there is a terminal.
    pub(crate) fn check() -> Result<(), Failed> {
        for (is_terminal, name) in
            [(stdout().is_terminal(), "standard output"), (io::stdin().is_terminal(), "standard input")]
        {
            if !is_terminal {
                let why =
                    format!("the {name} is no terminal: inspect needs one. `mcp list`, `mcp call` and others do not");
                return Err(Failed::usage(why));
            }
        }
        Ok(())
    }

    /// Changes the modes of the terminal.
    pub(crate) fn open() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                restore();
                previous(info);
            }));
        });
        CHANGED.store(true, Ordering::Release);
        let opened = terminal::enable_raw_mode()
            .and_then(|()| execute!(stdout(), EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste))
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        opened.map(|terminal| Self { terminal }).inspect_err(|_| restore())
    }

    /// Clears the screen, so that the next drawing writes all of it.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        // `clear` asks the terminal for the place of the cursor, and the answer would be read as keys.
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    /// Takes the mouse from the terminal, or leaves it.
    pub(crate) fn capture_mouse(on: bool) -> io::Result<()> {
        if on { execute!(stdout(), EnableMouseCapture) } else { execute!(stdout(), DisableMouseCapture) }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the modes of the terminal.
pub(crate) fn restore() {
    if CHANGED.swap(false, Ordering::AcqRel) {
        // There is nothing to do if it fails: the terminal may be gone.
        let _ = execute!(stdout(), DisableBracketedPaste, DisableMouseCapture, LeaveAlternateScreen, Show);
        let _ = terminal::disable_raw_mode();
    }
}

/// Returns whether the modes of the terminal are changed. They are not any more after a panic of any thread.
pub(crate) fn is_open() -> bool {
    CHANGED.load(Ordering::Acquire)
}

/// The number of the signal that ends the program, or 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending(Arc<AtomicI32>);

impl Ending {
    pub(crate) fn signal(&self) -> Option<u8> {
        u8::try_from(self.0.load(Ordering::Acquire)).ok().filter(|signal| *signal > 0)
    }

    /// Waits for signals on a thread. The first one is passed on, the second one runs `kill` and ends the program.
    #[cfg(unix)]
    pub(crate) fn on_signals(&self, inbox: &Arc<Inbox>, kill: impl Fn() + Send + 'static) -> io::Result<()> {
        use signal_hook::{
            consts::{SIGHUP, SIGINT, SIGTERM},
            iterator::Signals,
        };
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let (number, inbox) = (self.0.clone(), inbox.clone());
        thread::Builder::new().name("inspect-signals".into()).spawn(move || {
            for signal in signals.forever() {
                if number.swap(signal, Ordering::AcqRel) != 0 {
                    kill();
                    restore();
                    std::process::exit(128 + signal);
                }
                inbox.send(Message::Tick(0));
            }
        })?;
        Ok(())
    }

    /// Does nothing: there are no signals, and Ctrl-C is a key.
    #[cfg(not(unix))]
    pub(crate) fn on_signals(&self, _: &Arc<Inbox>, _: impl Fn() + Send + 'static) -> io::Result<()> {
        Ok(())
    }
}

/// Reads keys on a thread, which lives as long as the program. The end of the terminal is like SIGHUP.
pub(crate) fn read_keys(inbox: &Arc<Inbox>, ending: &Ending) -> io::Result<()> {
    let (inbox, ending) = (inbox.clone(), ending.clone());
    thread::Builder::new().name("inspect-keys".into()).spawn(move || {
        loop {
            let message = match event::read() {
                Ok(Event::Key(key)) => Message::Key(key),
                // Moves are many, and do nothing.
                Ok(Event::Mouse(MouseEvent { kind: MouseEventKind::Moved | MouseEventKind::Drag(_), .. })) => continue,
                Ok(Event::Mouse(event)) => Message::Mouse(event),
                Ok(Event::Paste(text)) => Message::Paste(text),
                Ok(Event::Resize(width, height)) => Message::Resize(width, height),
                Ok(Event::FocusGained | Event::FocusLost) => continue,
                Err(_) => {
                    ending.0.store(1, Ordering::Release);
                    inbox.send(Message::Tick(0));
                    return;
                }
            };
            inbox.send(message);
        }
    })?;
    Ok(())
}
