//! A server on tokio that offers what other servers offer. The shared code is in `adapters/examples/proxy`.
//!
//! ```sh
//! proxy-tokio CONFIG.json [--prefix none] [--name NAME] [--http ADDRESS]
//! ```

#[path = "../../examples/proxy/mod.rs"]
mod proxy;

use std::error::Error;

use mcp_service::proxy::Backend;
use mcp_tokio::{ConfiguredServer, http::Listener, shutdown_on_signals};
use proxy::{Proxy, ready, report};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Ctrl-C must not leave child processes running.
    shutdown_on_signals()?;
    let Proxy { service, backends, http } = Proxy::from_args()?;
    let (mut all, mut running) = (Vec::new(), Vec::new());
    for (backend, server) in backends {
        let server = ConfiguredServer::new(&server, backend.host())?;
        all.push(backend.clone());
        running.push(tokio::spawn(async move {
            report(&backend, backend.run(|| server.client()).await);
            server.close().await;
        }));
    }
    ready(&all).await;
    match http {
        None => mcp_tokio::serve_stdio(&service).await?,
        Some(address) => {
            let listener = Listener::bind(address).await?.with_http_sse();
            eprintln!("at http://{}/mcp", listener.local_addr());
            listener.serve(&service).await?;
        }
    }
    // The end of their input need not end the programs behind.
    all.iter().for_each(Backend::remove);
    for task in running {
        task.await?;
    }
    Ok(())
}
