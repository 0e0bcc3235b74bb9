//! Signals that end this process.

use std::io;

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::os::thread::spawn;

/// Calls a function, on a thread for it, with the exit status for each SIGINT, SIGTERM and SIGHUP: 128 and the number
/// of the signal.
pub(crate) fn on_end(mut received: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    spawn("mcp-signals", move || signals.forever().for_each(|signal| received(128 + signal)))?;
    Ok(())
}
