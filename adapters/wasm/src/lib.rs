//! The Model Context Protocol in WebAssembly, on the event loop of JavaScript: clients on `fetch` in pages and workers,
//! and servers as `fetch` handlers.

mod body;
mod connector;
mod endpoint;
mod fetch;
mod headers;
mod js;
mod response;
mod runtime;
mod task;
mod timer;

pub use connector::{Client, Connector, connect};
pub use endpoint::Endpoint;
pub use fetch::{Credentials, Fetch};
pub use runtime::Wasm;
pub use task::Task;
pub use timer::{Timeout, TimeoutTimer};

pub use mcp_driver::{
    self, Disconnected, DriverOptions, Error,
    http::{AuthProvider, Bearer, HttpClient, Refusal, ResponseHandler},
};
pub use mcp_proto::{
    self,
    http::{
        Caller, Limits, Policy, Principal,
        client::ClientOptions,
        server::{EndpointOptions, ExposedHeads, Paths, RequestHead},
    },
};
pub use mcp_service;
pub use {js_sys, web_sys};
