//! Closes clients and their child processes when this process receives a signal to end.
//!
//! A child has a process group of its own, so Ctrl-C does not reach it. It is shut down in good order, together with
//! the processes that it has started, which would not notice that its input has ended.

use std::{
    io, process,
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    thread,
    time::Duration,
};

use crate::{
    os::{signals::on_end, thread::spawn},
    sync::lock,
    tuning::{self, ENDING_DRAIN, START_GRACE, set_ending},
};

/// A client that may have a child, or a child.
pub trait Closing: Send + Sync + 'static {
    /// Begins to close the client. Its child ends together with it.
    fn begin_close(&self);

    /// Ends the connection to a child that still waits for responses of this process, so that the child can be ended.
    fn stop_draining(&self) {}

    /// Waits until the client is closed or the child has ended.
    fn wait(&self);

    /// Kills the process group of the child, if there is one.
    fn kill(&self);
}

/// All clients of this process and their children. A child outlives a client that is dropped.
static CLIENTS: Mutex<Vec<Weak<dyn Closing>>> = Mutex::new(Vec::new());

/// How many programs are being started.
static STARTS: Mutex<usize> = Mutex::new(0);

/// Notified when the last start is over.
static STARTED: Condvar = Condvar::new();

/// Returns whether this process is about to end because of a signal. Clients then do not report that their connections
/// ended, so that the application does not exit first with another status.
#[must_use]
pub fn is_ending() -> bool {
    tuning::is_ending()
}

/// The start of a program, from before its process exists until it is registered. A signal waits for it, so that no
/// process is left behind.
#[derive(Debug)]
pub struct Start(());

impl Start {
    /// Begins to start a program. Blocks the calling thread for ever if this process is about to end.
    #[must_use]
    pub fn begin() -> Self {
        loop {
            match Self::try_begin() {
                Some(start) => return start,
                None => block_if_ending(),
            }
        }
    }

    /// Begins to start a program. Stays pending for ever if this process is about to end.
    pub async fn begin_async() -> Self {
        match Self::try_begin() {
            Some(start) => start,
            None => std::future::pending().await,
        }
    }

    /// Returns `None` if this process is about to end.
    fn try_begin() -> Option<Self> {
        let mut starts = lock(&STARTS);
        if is_ending() {
            return None;
        }
        *starts += 1;
        Some(Self(()))
    }

    /// Waits until the programs that are being started are registered, but no longer than `limit`: a file system may
    /// take any time. Returns whether they are.
    fn wait_all(limit: Duration) -> bool {
        let waited = STARTED.wait_timeout_while(lock(&STARTS), limit, |starts| *starts > 0);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        let mut starts = lock(&STARTS);
        *starts -= 1;
        if *starts == 0 {
            STARTED.notify_all();
        }
    }
}

/// Blocks the calling thread for ever if this process is about to end.
pub fn block_if_ending() {
    while is_ending() {
        thread::park();
    }
}

/// Stays pending for ever if this process is about to end.
pub async fn pending_if_ending() {
    if is_ending() {
        std::future::pending().await
    }
}

/// Registers a client to be closed when a signal is received.
pub fn register<C: Closing>(client: &Arc<C>) {
    let mut clients = lock(&CLIENTS);
    clients.retain(|client| client.strong_count() > 0);
    let client: Weak<C> = Arc::downgrade(client);
    clients.push(client);
}

fn clients() -> Vec<Arc<dyn Closing>> {
    lock(&CLIENTS).iter().filter_map(Weak::upgrade).collect()
}

/// Closes every `Client` of this process on SIGINT, SIGTERM and SIGHUP, as its `close` does, and then ends the process
/// with 128 plus the number of the signal as its status. The second signal kills all children at once. From the first
/// one on, `close` and `wait` of clients do not return.
///
/// Children with the default grace periods of [`Command`](crate::Command::shutdown_timeouts) are ended within 1.8
/// seconds, so that a client whose child this process is does not kill it before. A program that is being started is
/// ended as well, unless the system takes more than half a second for it. A client that would start another one waits
/// for the end of the process instead.
///
/// On Windows these are Ctrl-C, Ctrl-Break and other events of the console, and the status is that of a program that
/// Ctrl-C has ended. When the console is closed, the system does not wait for the clients.
///
/// For programs whose only clean-up is to close their clients.
///
/// # Errors
/// If the system does not allow it.
pub fn shutdown_on_signals() -> io::Result<()> {
    shutdown_with(START_GRACE)
}

/// Does what [`shutdown_on_signals`] does, and waits for programs that are being started for at most `start_grace`.
fn shutdown_with(start_grace: Duration) -> io::Result<()> {
    // The status of the first signal.
    let mut ending = None;
    on_end(move |status| {
        let is_first = ending.is_none();
        let status = *ending.get_or_insert(status);
        set_ending();
        let close = move || {
            Start::wait_all(start_grace);
            let closing = clients();
            closing.iter().for_each(|client| client.begin_close());
            let draining = closing.clone();
            let stop = move || {
                thread::sleep(ENDING_DRAIN);
                draining.iter().for_each(|client| client.stop_draining());
            };
            if spawn("mcp-draining", stop).is_err() {
                closing.iter().for_each(|client| client.stop_draining());
            }
            closing.iter().for_each(|client| client.wait());
            // Those of programs whose start has taken longer.
            clients().iter().for_each(|client| client.kill());
            process::exit(status);
        };
        if !is_first || spawn("mcp-closing", close).is_err() {
            Start::wait_all(start_grace);
            clients().iter().for_each(|client| client.kill());
            process::exit(status);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        future::Future,
        pin::pin,
        process::Command,
        sync::mpsc,
        task::{Context, Waker},
    };

    use super::*;

    struct Client;

    impl Closing for Client {
        fn begin_close(&self) {}

        fn wait(&self) {}

        fn kill(&self) {}
    }

    #[test]
    fn only_clients_that_exist_are_registered() {
        let [first, dropped, last] = [(); 3].map(|()| Arc::new(Client));
        register(&first);
        register(&dropped);
        let weak: Weak<Client> = Arc::downgrade(&dropped);
        let weak: Weak<dyn Closing> = weak;
        drop(dropped);
        register(&last);
        let is_closed = |client: &Arc<Client>| {
            let client: Arc<dyn Closing> = client.clone();
            clients().iter().any(|other| Arc::ptr_eq(other, &client))
        };
        assert!(is_closed(&first) && is_closed(&last));
        assert!(!lock(&CLIENTS).iter().any(|other| other.ptr_eq(&weak)), "it takes memory");
    }

    #[test]
    fn signals_wait_for_programs_that_are_being_started() {
        let limit = Duration::from_secs(60);
        let [first, second] = [(); 2].map(|()| Start::begin());
        drop(first);
        assert!(!Start::wait_all(Duration::ZERO));
        let starting = thread::spawn(move || {
            let client = Arc::new(Client);
            register(&client);
            drop(second);
            client
        });
        assert!(Start::wait_all(limit));
        let client: Arc<dyn Closing> = starting.join().expect("it is registered");
        assert!(clients().iter().any(|other| Arc::ptr_eq(other, &client)) && Start::wait_all(Duration::ZERO));
    }

    /// Runs the rest of a test in a process of its own, because a process ends once. Returns `None` there, and what it
    /// has printed and its status here.
    fn in_child() -> Option<(String, process::ExitStatus)> {
        const IN_CHILD: &str = "MCP_TEST_PROCESS_ENDS";
        if env::var_os(IN_CHILD).is_some() {
            return None;
        }
        let name = thread::current().name().map(str::to_owned).expect("the name of the test");
        let mut child = Command::new(env::current_exe().expect("this program"));
        let child = child.args(["--exact", &name, "--nocapture"]).env(IN_CHILD, "1");
        let output = child.output().expect("it starts");
        Some((String::from_utf8_lossy(&output.stdout).into_owned(), output.status))
    }

    #[test]
    fn clients_stay_pending_while_the_process_ends() {
        if let Some((text, status)) = in_child() {
            return assert!(status.success() && text.contains("1 passed"), "{text}");
        }
        let is_pending = || pin!(pending_if_ending()).poll(&mut Context::from_waker(Waker::noop())).is_pending();
        assert!(!is_ending() && !is_pending());
        block_if_ending();
        let is_startable = || pin!(Start::begin_async()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(is_startable());
        set_ending();
        assert!(is_ending() && is_pending() && !is_startable());
        assert!(Start::wait_all(Duration::ZERO), "a start that did not begin is waited for");
    }

    #[cfg(unix)]
    #[test]
    fn a_child_that_is_being_started_ends_with_the_process() {
        /// Tells when it is closed, and prints its name when it is waited for.
        struct Child(&'static str, mpsc::Sender<()>);

        impl Closing for Child {
            fn begin_close(&self) {
                let _ = self.1.send(());
            }

            fn wait(&self) {
                println!("the {} child is waited for", self.0);
            }

            fn kill(&self) {}
        }

        if let Some((text, status)) = in_child() {
            let are_closed =
                ["first", "second"].iter().all(|name| text.contains(&format!("the {name} child is waited for")));
            return assert!(status.code() == Some(143) && are_closed, "{status} {text}");
        }
        let (closed, is_closed) = mpsc::channel();
        let start = Start::begin();
        shutdown_with(Duration::from_secs(60)).expect("a handler");
        let first = Arc::new(Child("first", closed.clone()));
        register(&first);
        let kill = Command::new("kill").arg(process::id().to_string()).status().expect("it runs");
        assert!(kill.success());
        while !is_ending() {
            thread::yield_now();
        }
        // Nothing is closed while the second one is being started.
        assert_eq!(is_closed.recv_timeout(Duration::from_millis(50)), Err(mpsc::RecvTimeoutError::Timeout));
        let second = Arc::new(Child("second", closed));
        register(&second);
        drop(start);
        block_if_ending();
    }
}
