//! Offers a server over another transport, and in all revisions.

use std::{
    net::ToSocketAddrs,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use mcp_blocking::{Client, Error, http::Listener};
use mcp_driver::{RestartPolicy, Restarter};
use mcp_service::{Service, block_on, proxy::Backend};

use crate::{error::Failed, show, target::Target};

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
    let (running, target, quiet) = (backend.clone(), options.target, options.quiet);
    // Until then the error is that of the command.
    let is_ready = Arc::new(AtomicBool::new(false));
    let was_ready = Arc::clone(&is_ready);
    let runner = thread::Builder::new().name("server".into()).spawn(move || {
        let host = running.host().clone();
        let sleep = |time: Duration| async move { thread::sleep(time) };
        let connect = || async { target.connect(&host) };
        let outcome: Result<(), Error> = block_on(running.run(async || started.client(connect, sleep).await));
        if let Err(error) = outcome
            && was_ready.load(Ordering::Acquire)
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
    if let Err(error) = block_on(backend.ready()) {
        finish();
        return Err(Failed::connection(&error));
    }
    is_ready.store(true, Ordering::Release);
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

/// Ends the connection to the server, and waits until its program is gone: it may not end at the end of its input.
fn end(clients: &Restarter<Client>) {
    if let Some(client) = clients.last() {
        client.close();
    }
}

/// Binds an address of this machine.
fn listen(address: &str) -> Result<Listener, Failed> {
    let wrong = |error: std::io::Error| Failed::usage(format!("{address} cannot be listened at: {error}"));
    let addresses: Vec<_> = address.to_socket_addrs().map_err(wrong)?.collect();
    if !addresses.iter().all(|address| address.ip().is_loopback()) {
        let why = "the bridge has neither TLS nor credentials: it listens at loopback addresses only, such as \
                   127.0.0.1:8000, and a proxy in front of it can have both";
        return Err(Failed::usage(why));
    }
    Ok(Listener::bind(&*addresses).map_err(wrong)?.with_http_sse())
}
