//! Offers a server over another transport, and in all revisions.

use std::{
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use mcp_blocking::{Client, Error, http::Listener};
use mcp_driver::{RestartPolicy, Restarter};
use mcp_service::{Service, block_on, proxy::Backend};

use crate::{address, error::Failed, show, target::Target};

/// How long the program of a server may take to end after its input was closed, and then after SIGTERM, if the bridge
/// is itself a program of its client. Clients give a program two seconds after each, and end the bridge after that: it
/// could not end its server any more.
const PROGRAM_END: [Duration; 2] = [Duration::from_millis(1_000), Duration::from_millis(500)];

/// How the server is offered.
#[derive(Debug)]
pub(crate) struct BridgeOptions<'a> {
    pub(crate) target: Target,
    /// The name of the server that clients see.
    pub(crate) name: &'a str,
    /// The address for HTTP, instead of standard input and output.
    pub(crate) listen: Option<&'a str>,
    /// Whether all clients may use one connection to the server.
    pub(crate) is_shared: bool,
    pub(crate) quiet: bool,
}

/// Offers a server until its client leaves, or for ever over HTTP.
pub(crate) fn bridge(options: BridgeOptions<'_>) -> Result<ExitCode, Failed> {
    let listener = match options.listen {
        Some(_) if !options.is_shared => {
            let why = "the clients of --listen would share one connection to the server, with its state and its \
                       credentials: add --shared to allow it";
            return Err(Failed::usage(why));
        }
        Some(address) => Some(listen(address)?),
        None => None,
    };
    // Ends the program of the server on SIGINT, SIGTERM and SIGHUP.
    mcp_blocking::shutdown_on_signals()?;
    let service = Service::builder(options.name, env!("CARGO_PKG_VERSION"))
        .enable_backends()
        .build()
        .map_err(|error| Failed::usage(error.to_string()))?;
    let backend =
        Backend::builder("server").prefix("").join(&service).map_err(|error| Failed::usage(error.to_string()))?;
    let stop = listener.as_ref().map(Listener::stop_handle);
    let clients: Arc<Restarter<Client>> = Arc::new(Restarter::new(RestartPolicy::default()));
    let started = Arc::clone(&clients);
    let target = if listener.is_none() { ended_in_time(options.target) } else { options.target };
    let (running, quiet) = (backend.clone(), options.quiet);
    let phase: Arc<Phase<Error>> = Arc::default();
    let reported = Arc::clone(&phase);
    let runner = thread::Builder::new().name("server".into()).spawn(move || {
        let host = running.host().clone();
        let sleep = |time: Duration| async move { thread::sleep(time) };
        let connect = || async { target.connect(&host) };
        let outcome: Result<(), Error> = block_on(running.run(async || started.client(connect, sleep).await));
        if let Err(error) = outcome
            && let Some(error) = reported.end(error)
        {
            if !quiet {
                show::note(&format!("the server is not connected any more: {error}"));
            }
            match stop {
                Some(stop) => stop(),
                // The client has the standard input, which cannot be interrupted.
                None => {
                    end(&started);
                    std::process::exit(3)
                }
            }
        }
    })?;
    let finish = || {
        // No connection begins after that.
        backend.remove();
        let _ = runner.join();
        end(&clients);
    };
    let ready = block_on(backend.ready()).map_err(|error| Failed::connection(&error));
    // The lists of the server can be complete, and the server can have ended for good since then.
    let serving = ready.and_then(|()| phase.serve().map_err(|error| Failed::connection(&error)));
    if let Err(failed) = serving {
        finish();
        return Err(failed);
    }
    if !options.quiet {
        for refused in backend.refused() {
            show::note(&format!("not offered: {refused}"));
        }
    }
    let (served, code) = match listener {
        None => (mcp_blocking::serve_stdio(&service), ExitCode::SUCCESS),
        Some(listener) => {
            if !options.quiet {
                show::note(&format!("listening at http://{}/mcp", listener.local_addr()));
            }
            // It is stopped when the server is gone.
            (listener.serve(&service), ExitCode::from(3))
        }
    };
    finish();
    served.map_err(|error| Failed::connection(&error))?;
    Ok(code)
}

/// The phase of a bridge, which two threads change: one serves the clients, the other connects to the server.
#[derive(Debug)]
struct Phase<E>(Mutex<State<E>>);

#[derive(Debug)]
enum State<E> {
    /// No client is served yet. An error of the server is that of the command.
    Starting,
    Serving,
    /// The server ended for good before a client was served.
    Ended(E),
}

impl<E> Default for Phase<E> {
    fn default() -> Self {
        Self(Mutex::new(State::Starting))
    }
}

impl<E> Phase<E> {
    /// Begins to serve clients.
    ///
    /// # Errors
    /// Why the server has ended for good, if it has.
    fn serve(&self) -> Result<(), E> {
        match std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), State::Serving) {
            State::Ended(error) => Err(error),
            State::Starting | State::Serving => Ok(()),
        }
    }

    /// Records that the server has ended for good. Returns the error if clients are served, which the caller has to
    /// end. Otherwise [`serve`](Self::serve) returns it.
    fn end(&self, error: E) -> Option<E> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Serving) {
            return Some(error);
        }
        *state = State::Ended(error);
        None
    }
}

/// Returns a target whose program is ended within [`PROGRAM_END`].
fn ended_in_time(target: Target) -> Target {
    let [after_eof, after_sigterm] = PROGRAM_END;
    match target {
        Target::Program(command) => Target::Program(command.shutdown_timeouts(after_eof, after_sigterm)),
        http @ Target::Http { .. } => http,
    }
}

/// Ends the connection to the server, and waits until its program is gone: it may not end at the end of its input.
fn end(clients: &Restarter<Client>) {
    if let Some(client) = clients.last() {
        client.close();
    }
}

/// Binds an address of this machine.
fn listen(address: &str) -> Result<Listener, Failed> {
    let refusal = "the bridge has neither TLS nor credentials: it listens at loopback addresses only, such as \
                   127.0.0.1:8000, and a proxy in front of it can have both";
    Ok(address::listen(address, refusal, |addresses| Listener::bind(addresses))?.with_http_sse())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_learns_of_the_end_of_the_server() {
        let phase = Phase::default();
        assert_eq!(phase.end("it is gone"), None);
        assert_eq!(phase.serve(), Err("it is gone"), "nothing is served without a server");
        let phase = Phase::default();
        assert_eq!(phase.serve(), Ok(()));
        assert_eq!(phase.end("it is gone"), Some("it is gone"), "the caller ends what is served");
    }

    /// Whatever comes first, exactly one of both threads gets the error.
    #[test]
    fn ends_at_any_time_are_noticed() {
        for _ in 0..1_000 {
            let phase = Phase::default();
            let (served, ended) = thread::scope(|scope| {
                let ending = scope.spawn(|| phase.end(()));
                (phase.serve(), ending.join().expect("it returns"))
            });
            assert_eq!(served.is_err(), ended.is_none(), "{phase:?}");
        }
    }
}
