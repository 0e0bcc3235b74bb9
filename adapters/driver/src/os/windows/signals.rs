//! Events of the console that end this process.

use std::io;

/// The exit status of a program that Ctrl-C has ended: `STATUS_CONTROL_C_EXIT`.
const STATUS: i32 = 0xC000_013A_u32.cast_signed();

/// Calls a function, on a thread for it, with the exit status for each Ctrl-C, Ctrl-Break and other event that ends the
/// programs of a console. After the close of the console, the system ends this process without waiting for the
/// function.
pub(crate) fn on_end(mut received: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    ctrlc::try_set_handler(move || received(STATUS)).map_err(io::Error::other)
}
