//! The pages of the guide as doctests, and the function with which its examples connect a client to a server.

use mcp_tokio::{
    Client, Error, Transport,
    mcp_service::{Host, Service},
};

/// The module that `mcp generate` has written for the example `shelf`, for the page on the program `mcp`.
#[doc(hidden)]
#[allow(
    missing_docs,
    reason = "the server describes only some of its parameters"
)]
#[path = "examples/typed-client/shelf.rs"]
pub mod shelf;

/// The capacity of the pipe between the client and the server, in bytes.
const CAPACITY: usize = 64 * 1024;

/// Connects a client to a service in the same process. The service runs until the client is closed or dropped.
///
/// # Errors
/// If the handshake fails.
pub async fn connect(service: &Service, host: &Host) -> Result<Client, Error> {
    let (near, far) = Transport::pair(CAPACITY);
    let service = service.clone();
    tokio::spawn(async move { mcp_tokio::serve(&service, far).await });
    Client::connect(near, host).await
}

/// Makes a page a module, whose code blocks are doctests.
#[cfg(doctest)]
macro_rules! pages {
    ($($name:ident: $path:literal;)*) => {
        $(#[doc = include_str!($path)] mod $name {})*
    };
}

#[cfg(doctest)]
pages! {
    architecture: "../../ARCHITECTURE.md";
    authorization: "src/authorization.md";
    authorization_reference: "../authorization.md";
    blocking: "../../adapters/blocking/README.md";
    client_features: "src/client-features.md";
    compose: "src/compose.md";
    core: "src/core.md";
    core_crate: "../../core/README.md";
    driver: "../../adapters/driver/README.md";
    http: "src/http.md";
    input: "src/input.md";
    introduction: "src/introduction.md";
    macros: "src/macros.md";
    macros_crate: "../../adapters/macros/README.md";
    mcp: "src/mcp.md";
    middleware: "src/middleware.md";
    openapi: "src/openapi.md";
    prompts: "src/prompts.md";
    readme: "../../README.md";
    resources: "src/resources.md";
    results: "src/results.md";
    rmcp: "src/rmcp.md";
    runtimes: "src/runtimes.md";
    scaling: "src/scaling.md";
    service: "../../adapters/service/README.md";
    skills: "src/skills.md";
    smol: "../../adapters/smol/README.md";
    state: "src/state.md";
    tasks: "src/tasks.md";
    testing: "src/testing.md";
    tokio: "../../adapters/tokio/README.md";
    tools: "src/tools.md";
    tracing: "src/tracing.md";
    transports: "src/transports.md";
    tutorial: "src/tutorial.md";
    utilities: "src/utilities.md";
    wasm: "../../adapters/wasm/README.md";
}
