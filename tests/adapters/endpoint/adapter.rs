//! HTTP servers of each adapter.

use std::{net::SocketAddr, thread};

use mcp_driver::StopHandle;
use mcp_proto::http::server::EndpointOptions;
use mcp_service::Service;

/// An HTTP server on some adapter.
pub(crate) trait Site: 'static {
    const NAME: &'static str;

    /// Serves on a loopback address, with a limit of connections. Returns the server and its documented memory limit as
    /// well.
    fn serve_with(
        service: &Service,
        endpoint: EndpointOptions,
        how: Option<(mcp_driver::DriverOptions, usize)>,
    ) -> (Served, usize);

    /// Serves on a loopback address.
    fn serve(service: &Service, endpoint: EndpointOptions) -> Served {
        Self::serve_with(service, endpoint, None).0
    }
}

/// A running server.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: Option<Box<dyn FnOnce()>>,
}

impl Served {
    /// Serves on a thread. `serve` returns whether it has ended because it was stopped.
    fn new(address: SocketAddr, stop: StopHandle, serve: impl FnOnce() -> bool + Send + 'static) -> Self {
        let served = thread::spawn(serve);
        let stop = move || {
            stop();
            assert!(served.join().expect("no panic"), "it was told to stop");
        };
        Self { address, stop: Some(Box::new(stop)) }
    }
}

impl Drop for Served {
    /// Stops the server, and waits until it has ended.
    fn drop(&mut self) {
        self.stop.take().into_iter().for_each(|stop| stop());
    }
}

/// mcp-tokio.
pub(crate) enum Tokio {}

impl Site for Tokio {
    const NAME: &'static str = "tokio";

    fn serve_with(
        service: &Service,
        endpoint: EndpointOptions,
        how: Option<(mcp_driver::DriverOptions, usize)>,
    ) -> (Served, usize) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(mcp_tokio::http::Listener::bind("127.0.0.1:0")).expect("there is a port");
        let listener = listener.endpoint(endpoint);
        let listener = match how {
            Some((options, connections)) => listener.options(options).connections(connections),
            None => listener,
        };
        let limit = listener.memory_limit(service);
        let (address, stop, service) = (listener.local_addr(), listener.stop_handle(), service.clone());
        (Served::new(address, stop, move || runtime.block_on(listener.serve(&service)).is_ok()), limit)
    }
}

/// mcp-blocking.
pub(crate) enum Blocking {}

impl Site for Blocking {
    const NAME: &'static str = "blocking";

    fn serve_with(
        service: &Service,
        endpoint: EndpointOptions,
        how: Option<(mcp_driver::DriverOptions, usize)>,
    ) -> (Served, usize) {
        let listener = mcp_blocking::http::Listener::bind("127.0.0.1:0").expect("there is a port").endpoint(endpoint);
        let listener = match how {
            Some((options, connections)) => listener.options(options).connections(connections),
            None => listener,
        };
        let limit = listener.memory_limit(service);
        let (address, stop, service) = (listener.local_addr(), listener.stop_handle(), service.clone());
        (Served::new(address, stop, move || listener.serve(&service).is_ok()), limit)
    }
}

/// mcp-smol.
pub(crate) enum Smol {}

impl Site for Smol {
    const NAME: &'static str = "smol";

    fn serve_with(
        service: &Service,
        endpoint: EndpointOptions,
        how: Option<(mcp_driver::DriverOptions, usize)>,
    ) -> (Served, usize) {
        let listener = smol::block_on(mcp_smol::http::Listener::bind("127.0.0.1:0")).expect("there is a port");
        let listener = listener.endpoint(endpoint);
        let listener = match how {
            Some((options, connections)) => listener.options(options).connections(connections),
            None => listener,
        };
        let limit = listener.memory_limit(service);
        let (address, stop, service) = (listener.local_addr(), listener.stop_handle(), service.clone());
        (Served::new(address, stop, move || smol::block_on(listener.serve(&service)).is_ok()), limit)
    }
}
