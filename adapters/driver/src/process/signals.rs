//! Closes clients and their child processes when this process receives a signal to end.
//!
//! A child has a process group of its own, so Ctrl-C does not reach it. It is shut down in good order, together with
//! the processes that it has started, which would not notice that its input has ended.

use std::{
    io, process,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{sync::lock, unix::thread::spawn};

/// A client that may have a child.
pub trait Closing: Send + Sync + 'static {
    /// Begins to close.
    fn begin_close(&self);

    /// Waits for the end.
    fn wait(&self);

    /// Kills the child, if there is one, and all that it has started.
    fn kill(&self);
}

/// Every client that lives.
static CLIENTS: Mutex<Vec<Weak<dyn Closing>>> = Mutex::new(Vec::new());

/// Set when this process is about to end.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Returns whether this process is about to end because of a signal. Clients then do not report that their connections
/// ended, so that the application does not exit first with another status.
#[must_use]
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// Does not return if this process is about to end. For threads.
pub fn hold() {
    while is_ending() {
        std::thread::park();
    }
}

/// Waits for ever if this process is about to end. For tasks.
pub async fn held() {
    if is_ending() {
        std::future::pending().await
    }
}

/// Has this client closed when a signal comes.
pub fn register<C: Closing>(client: &Arc<C>) {
    let mut clients = lock(&CLIENTS);
    clients.retain(|client| client.strong_count() > 0);
    let client: Weak<C> = Arc::downgrade(client);
    clients.push(client);
}

fn clients() -> Vec<Arc<dyn Closing>> {
    lock(&CLIENTS).iter().filter_map(Weak::upgrade).collect()
}

/// Has SIGINT, SIGTERM and SIGHUP close every `Client` of this process, as its `close` does, and then end the process
/// with 128 plus the number of the signal as its status. The second signal kills all children at once. From the first
/// one on, `close` and `wait` of clients do not return.
///
/// For programs that contain nothing but clients, or whose `main` has no other clean-up to do.
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
