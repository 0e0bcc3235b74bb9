//! Closes clients and their child processes when this process receives a signal to end.
//!
//! A child has a process group of its own, so Ctrl-C does not reach it. It is shut down in good order, together with
//! the processes that it has started, which would not notice that its input has ended.

use std::{
    io,
    mem::ManuallyDrop,
    process,
    sync::{Arc, Mutex, Weak},
    thread,
    time::Duration,
};

use crate::{
    os::{signals::on_end, thread::spawn},
    process::start::STARTS,
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

/// Returns whether this process is about to end because of a signal. Clients then do not report that their connections
/// ended, so that the application does not exit first with another status.
#[must_use]
pub fn is_ending() -> bool {
    tuning::is_ending()
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

/// Registers a client to be closed when a signal is received. If this process is about to end, it is closed at once.
pub fn register<C: Closing>(client: &Arc<C>) {
    let weak: Weak<C> = Arc::downgrade(client);
    {
        let mut clients = lock(&CLIENTS);
        clients.retain(|client| client.strong_count() > 0);
        clients.push(weak);
    }
    if is_ending() {
        client.begin_close();
        client.stop_draining();
    }
}

/// Returns the clients that exist. They are not dropped: the thread that drops the last handle of a client waits for
/// the end of this process, which the threads that call this function bring about.
fn clients() -> ManuallyDrop<Vec<Arc<dyn Closing>>> {
    ManuallyDrop::new(lock(&CLIENTS).iter().filter_map(Weak::upgrade).collect())
}

/// Closes every `Client` of this process on SIGINT, SIGTERM and SIGHUP, as its `close` does, and then ends the process
/// with 128 plus the number of the signal as its status. The second signal kills all children at once. From the first
/// one on, `close` and `wait` of clients do not return.
///
/// Children with the default grace periods of [`Command`](crate::Command::shutdown_timeouts) are ended within 1.8
/// seconds, so that a client whose child this process is does not kill it before. If a program is being started, the
/// time begins when it has started, unless the system takes more than half a second for that. A client that would start
/// another one waits for the end of the process instead.
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
            let closing = clients();
            closing.iter().for_each(|client| client.begin_close());
            let stop = move || {
                thread::sleep(ENDING_DRAIN);
                closing.iter().for_each(|client| client.stop_draining());
            };
            if spawn("mcp-draining", stop).is_err() {
                clients().iter().for_each(|client| client.stop_draining());
            }
            STARTS.wait(start_grace);
            clients().iter().for_each(|client| client.wait());
            // Those of programs whose start has taken longer.
            clients().iter().for_each(|client| client.kill());
            process::exit(status);
        };
        if !is_first || spawn("mcp-closing", close).is_err() {
            clients().iter().for_each(|client| client.kill());
            STARTS.wait(start_grace);
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
        io::Write,
        pin::pin,
        process::Command,
        sync::{
            atomic::{AtomicBool, Ordering},
            mpsc,
        },
        task::{Context, Waker},
        time::Instant,
    };

    use super::*;
    use crate::process::start::Start;

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
        assert!(STARTS.wait(Duration::ZERO), "a start that did not begin is waited for");
    }

    #[cfg(unix)]
    #[test]
    fn a_child_that_is_being_started_ends_with_the_process() {
        /// Tells when it is closed and waited for, and prints its name when it is waited for.
        struct Child(&'static str, mpsc::Sender<String>, Arc<AtomicBool>);

        // As clients on threads do.
        impl Drop for Child {
            fn drop(&mut self) {
                block_if_ending();
            }
        }

        impl Closing for Child {
            fn begin_close(&self) {
                let _ = self.1.send(format!("{} is closed", self.0));
            }

            fn stop_draining(&self) {
                let _ = self.1.send(format!("{} is drained", self.0));
            }

            fn wait(&self) {
                let _ = self.1.send(format!("{} is waited for", self.0));
                // The application drops its handle meanwhile.
                let until = Instant::now() + Duration::from_secs(60);
                while self.0 == "first" && self.2.load(Ordering::Acquire) && Instant::now() < until {
                    thread::yield_now();
                }
                let _ = writeln!(io::stdout(), "the {} child is waited for", self.0);
            }

            fn kill(&self) {}
        }

        if let Some((text, status)) = in_child() {
            let are_closed =
                ["first", "second"].iter().all(|name| text.contains(&format!("the {name} child is waited for")));
            return assert!(status.code() == Some(143) && are_closed, "{status} {text}");
        }
        let limit = Duration::from_secs(60);
        let (sender, events) = mpsc::channel();
        let start = Start::begin();
        shutdown_with(limit).expect("a handler");
        let is_held = Arc::new(AtomicBool::new(true));
        let first = Arc::new(Child("first", sender.clone(), is_held.clone()));
        register(&first);
        let kill = Command::new("kill").arg(process::id().to_string()).status().expect("it runs");
        assert!(kill.success());
        // The others are closed at once, but the process does not end while the second one is being started.
        assert_eq!(events.recv_timeout(limit).as_deref(), Ok("first is closed"));
        assert_eq!(events.recv_timeout(limit).as_deref(), Ok("first is drained"));
        let next = events.recv_timeout(Duration::from_millis(50));
        assert_eq!(next, Err(mpsc::RecvTimeoutError::Timeout));
        let second = Arc::new(Child("second", sender, is_held.clone()));
        register(&second);
        for event in ["second is closed", "second is drained"] {
            assert_eq!(events.recv_timeout(limit).as_deref(), Ok(event));
        }
        drop(start);
        assert_eq!(events.recv_timeout(limit).as_deref(), Ok("first is waited for"));
        drop(first);
        is_held.store(false, Ordering::Release);
        assert_eq!(events.recv_timeout(limit).as_deref(), Ok("second is waited for"));
        // The process ends before.
        thread::sleep(limit);
    }
}
