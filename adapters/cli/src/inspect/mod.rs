//! Opens a server in the terminal.
//!
//! `model` is the state: it takes messages and yields effects, by the keys of `keys` and the mouse of `mouse`. `view`
//! draws it. This file runs both: messages come from the terminal (`screen`) and from the connection (`session`)
//! through the queue of `inbox`, effects go to the connection. What goes over the connection is seen by `observer`.

mod form;
mod http;
mod inbox;
mod keys;
mod layout;
mod line;
mod model;
mod mouse;
mod observer;
mod page;
mod program;
mod questions;
mod request;
mod screen;
mod session;
mod sighting;
#[cfg(test)]
mod tests;
mod traffic;
mod view;

pub(crate) use line::Line as InputLine;
pub(crate) use page::{fit, wrap};
pub(crate) use screen::Screen;

use std::{
    io,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use inbox::Inbox;
use model::{Effect, Message, Model};
use observer::Clock;
use questions::Questions;
use screen::Ending;
use session::{Hosts, Live, Sessions};

use crate::{
    error::Failed,
    host,
    options::{ConnectionOptions, EraOption},
    target::Target,
};

/// How long a call may take by default: the user may be asked for something in it.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The time between two drawings, unless a key was pressed.
const FRAME: Duration = Duration::from_millis(40);

/// How often the times of requests in flight are drawn.
const SECOND: Duration = Duration::from_millis(500);

/// Opens a server in the terminal, until the user quits.
pub(crate) fn inspect(target: &str, options: &ConnectionOptions) -> Result<ExitCode, Failed> {
    if options.json || !options.answers.is_empty() || options.sample.is_some() {
        let why =
            "--json, --answer and --sample have no meaning for inspect, which shows results and asks in the terminal";
        return Err(Failed::usage(why));
    }
    let target = Target::parse(target, options)?;
    Screen::check()?;
    let (inbox, clock, live) = (Arc::new(Inbox::default()), Clock::start(), Arc::new(Mutex::new(Live::default())));
    let questions = Questions::new(inbox.clone(), live.clone());
    let timeout = options.timeout.unwrap_or(TIMEOUT);
    let host =
        |era: EraOption| Ok::<_, Failed>(questions.add(host::builder(options, era.versions(), timeout)?).build());
    let hosts =
        Hosts { any: host(EraOption::Any)?, legacy: host(EraOption::Legacy)?, modern: host(EraOption::Modern)? };
    let sessions = Sessions::new(inbox.clone(), clock, target, hosts, live, options.quiet);
    let ending = Ending::default();
    let kill = sessions.clone();
    ending.on_signals(&inbox, move || kill.kill())?;
    let screen = Screen::open()?;
    screen::read_keys(&inbox, &ending)?;
    let connection = Connection(&sessions);
    let outcome = run(screen, &sessions, clock, &ending, options.era.unwrap_or(EraOption::Any));
    drop(connection);
    match (outcome, ending.signal()) {
        (_, Some(signal)) => Ok(ExitCode::from(128 + signal)),
        (outcome, None) => outcome.map(|()| ExitCode::SUCCESS).map_err(Failed::from),
    }
}

/// The connection of the interface. Dropping it gives the server its time to end, also after a panic. The terminal is
/// restored before that.
struct Connection<'a>(&'a Sessions);

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.0.inbox.close();
        self.0.end();
    }
}

/// Draws and takes messages until the user quits, a signal arrives, or a thread has panicked.
fn run(mut screen: Screen, sessions: &Sessions, clock: Clock, ending: &Ending, era: EraOption) -> io::Result<()> {
    let size = screen.terminal.size()?;
    let (mut model, effects) = Model::new((size.width, size.height), era);
    for effect in effects {
        perform(effect, sessions, &mut screen)?;
    }
    let mut drawn: Option<Instant> = None;
    let mut is_dirty = true;
    while ending.signal().is_none() {
        if !screen::is_open() {
            return Err(io::Error::other("a thread of the program has panicked"));
        }
        let since = drawn.map_or(FRAME, |drawn| drawn.elapsed());
        if is_dirty && since >= FRAME {
            draw(&mut screen, &mut model, clock)?;
            (drawn, is_dirty) = (Some(Instant::now()), false);
            continue;
        }
        let wait = if is_dirty { FRAME - since } else { SECOND };
        let messages = sessions.inbox.take(wait);
        is_dirty |= !messages.is_empty() || model.traffic.in_flight() > 0;
        for message in messages {
            if matches!(message, Message::Key(_) | Message::Mouse(_)) {
                drawn = None;
            }
            for effect in model.update(message) {
                if effect == Effect::Quit {
                    return Ok(());
                }
                perform(effect, sessions, &mut screen)?;
            }
        }
    }
    Ok(())
}

fn draw(screen: &mut Screen, model: &mut Model, clock: Clock) -> io::Result<()> {
    let size = screen.terminal.size()?;
    if model.size != (size.width, size.height) {
        model.update(Message::Resize(size.width, size.height));
    }
    model.update(Message::Tick(clock.now()));
    screen.terminal.draw(|frame| view::draw(model, frame))?;
    Ok(())
}

fn perform(effect: Effect, sessions: &Sessions, screen: &mut Screen) -> io::Result<()> {
    match effect {
        Effect::Connect { session, era } => sessions.connect(session, era),
        Effect::Load { session, tab } => sessions.load(session, tab),
        Effect::Send { call, request } => sessions.send(call, request),
        Effect::Cancel { call } => sessions.cancel(call),
        Effect::Answer { question, answer } => sessions.answer(question, answer),
        Effect::CaptureMouse(on) => Screen::capture_mouse(on)?,
        Effect::Redraw => screen.redraw()?,
        Effect::Quit => {}
    }
    Ok(())
}
