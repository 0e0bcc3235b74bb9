//! Leaving nothing behind when this process is told to end.
//!
//! A child has a process group of its own, so Ctrl-C does not reach it. It is ended in good order, and so is what it has
//! started, which would not notice that its input has ended.

use std::{
    io, process,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{
    client::Inner,
    lock::{lock, spawn},
};

/// Every client that lives.
static CLIENTS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// This process is about to end.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Does not return if this process is about to end, so that nobody else ends it before, and with another status.
pub(crate) fn hold() {
    while ENDING.load(Ordering::Acquire) {
        thread::park();
    }
}

pub(crate) fn register(client: &Arc<Inner>) {
    let mut clients = lock(&CLIENTS);
    clients.retain(|client| client.strong_count() > 0);
    clients.push(Arc::downgrade(client));
}

fn clients() -> Vec<Arc<Inner>> {
    lock(&CLIENTS).iter().filter_map(Weak::upgrade).collect()
}

/// From now on, SIGINT, SIGTERM and SIGHUP close every [`Client`](crate::Client) of this process, as
/// [`close`](crate::Client::close) does, and then end the process with 128 and the number of the signal as its status.
/// The second signal kills all children at once. From the first one on, `close` and `wait` of clients do not return.
///
/// For programs that are nothing but clients, or whose `main` has nothing of its own to put in order.
///
/// # Errors
/// If the system does not allow it.
pub fn shutdown_on_signals() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    spawn("mcp-signals", move || {
        let mut received = signals.forever();
        let Some(first) = received.next() else { return };
        let status = 128 + first;
        ENDING.store(true, Ordering::Release);
        let closing = spawn("mcp-closing", move || {
            let clients = clients();
            clients.iter().for_each(|client| client.begin_close());
            clients.iter().for_each(|client| client.wait());
            process::exit(status);
        });
        if closing.is_err() || received.next().is_some() {
            clients().iter().for_each(|client| client.kill());
            process::exit(status);
        }
    })?;
    Ok(())
}
