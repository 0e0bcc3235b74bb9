//! Steps through a record in the terminal.
//!
//! `model` is the state: it takes events of the terminal and yields effects. `view` draws it. `recording` reads the
//! record in both directions. This file runs them.

mod model;
mod pretty;
mod recording;
#[cfg(test)]
mod tests;
mod view;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal},
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crossterm::event;
use model::{Effect, Model, Target};
use recording::{Open, Recording};

use crate::{error::Failed, inspect::Screen, record::Reader};

/// How often it is checked whether a signal has arrived.
const TICK: Duration = Duration::from_millis(100);

/// Steps through a record until the user quits.
pub(crate) fn step(path: &Path) -> Result<ExitCode, Failed> {
    for (is_terminal, name) in
        [(io::stdout().is_terminal(), "standard output"), (io::stdin().is_terminal(), "standard input")]
    {
        if !is_terminal {
            return Err(Failed::usage(format!("the {name} is no terminal: --step needs one")));
        }
    }
    let (name, file) = (path.display().to_string(), path.to_owned());
    let open: Open = Box::new(move || {
        let name = file.display().to_string();
        let source = File::open(&file).map_err(|error| Failed::usage(format!("{name} cannot be read: {error}")))?;
        Reader::new(name, Box::new(BufReader::with_capacity(1 << 16, source)) as Box<dyn BufRead>)
    });
    let recording = Recording::new(open)?;
    let signal = signals()?;
    let screen = Screen::open()?;
    run(screen, recording, &name, &signal)?;
    match signal.load(Ordering::Acquire) {
        0 => Ok(ExitCode::SUCCESS),
        signal => Ok(ExitCode::from(128 + u8::try_from(signal).unwrap_or_default())),
    }
}

/// Returns where the number of a signal is written when it arrives.
#[cfg(unix)]
fn signals() -> io::Result<Arc<AtomicUsize>> {
    use signal_hook::{
        consts::{SIGHUP, SIGINT, SIGTERM},
        flag,
    };
    let number = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_usize(signal, Arc::clone(&number), usize::try_from(signal).unwrap_or_default())?;
    }
    Ok(number)
}

/// Returns a counter of signals that stays zero: there are none, and Ctrl-C is a key.
#[cfg(not(unix))]
fn signals() -> io::Result<Arc<AtomicUsize>> {
    Ok(Arc::default())
}

fn run(mut screen: Screen, mut recording: Recording, name: &str, signal: &AtomicUsize) -> Result<(), Failed> {
    let size = screen.terminal.size()?;
    let header = recording.header();
    let mut model =
        Model::new((size.width, size.height), format!("{name}: {} over {}", header.server, header.transport));
    go(&mut model, &mut recording, &Target::Number(0))?;
    while signal.load(Ordering::Acquire) == 0 {
        screen.terminal.draw(|frame| view::draw(&mut model, frame))?;
        let is_ready = loop {
            // A signal interrupts the wait.
            match event::poll(TICK) {
                Ok(false) if signal.load(Ordering::Acquire) == 0 => {}
                Ok(is_ready) => break is_ready,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => break false,
                Err(error) => return Err(error.into()),
            }
        };
        if !is_ready {
            continue;
        }
        match model.update(&event::read()?) {
            Some(Effect::Quit) => break,
            Some(Effect::Redraw) => screen.redraw()?,
            Some(Effect::Go(target)) => go(&mut model, &mut recording, &target)?,
            None => {}
        }
    }
    Ok(())
}

/// Goes to a step.
fn go(model: &mut Model, recording: &mut Recording, target: &Target) -> Result<(), Failed> {
    let now = model.entry.as_ref().map_or(0, |entry| entry.number);
    let number = match target {
        Target::Number(number) => Some(*number),
        Target::Last => Some(recording.last()?),
        Target::Find { wanted, is_forward } => recording.find(wanted, now, *is_forward)?,
    };
    let entry = match number {
        Some(number) => recording.get(number)?.cloned(),
        None => None,
    };
    let len = recording.len();
    match entry {
        Some(entry) => model.show(Some(entry), len),
        None => {
            model.len = len;
            model.note = match target {
                Target::Find { .. } => "nothing was found".into(),
                _ => "this is the last step".into(),
            };
        }
    }
    Ok(())
}
