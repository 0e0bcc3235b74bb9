//! A server with threads that offers what other servers offer. The shared code is in `adapters/examples/proxy`.
//!
//! ```sh
//! proxy-blocking CONFIG.json [--prefix none] [--name NAME] [--http ADDRESS]
//! ```

#[path = "../../examples/proxy/mod.rs"]
mod proxy;

use std::{error::Error, thread};

use mcp_blocking::{ConfiguredServer, http::Listener, shutdown_on_signals};
use mcp_service::{block_on, proxy::Backend};
use proxy::{Proxy, ready, report};

fn main() -> Result<(), Box<dyn Error>> {
    // Ctrl-C must not leave child processes running.
    shutdown_on_signals()?;
    let Proxy { service, backends, http } = Proxy::from_args()?;
    let (mut all, mut running) = (Vec::new(), Vec::new());
    for (backend, server) in backends {
        let server = ConfiguredServer::new(&server, backend.host())?;
        all.push(backend.clone());
        running.push(thread::spawn(move || {
            report(&backend, block_on(backend.run(async || server.client())));
            server.close();
        }));
    }
    block_on(ready(&all));
    match http {
        None => mcp_blocking::serve_stdio(&service)?,
        Some(address) => {
            let listener = Listener::bind(address)?.with_http_sse();
            eprintln!("at http://{}/mcp", listener.local_addr());
            listener.serve(&service)?;
        }
    }
    // The end of their input need not end the programs behind.
    all.iter().for_each(Backend::remove);
    for thread in running {
        let _ = thread.join();
    }
    Ok(())
}
