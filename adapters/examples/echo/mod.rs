//! A server with one tool, on any adapter: over standard input and output, or over HTTP.

use std::{env, error::Error, time::Duration};

use mcp_proto::http::{
    Policy,
    server::{EndpointOptions, Paths},
};

/// The settings from the command line.
pub(crate) struct Wanted {
    /// The address to serve HTTP on, instead of standard input and output.
    pub(crate) http: Option<String>,
    /// Whether every response is an event stream, even if it has only one message.
    streams: bool,
}

impl Wanted {
    /// Reads the command line.
    pub(crate) fn from_args() -> Result<Self, Box<dyn Error>> {
        let (mut http, mut streams) = (None, false);
        let mut args = env::args().skip(1);
        while let Some(arg) = args.next() {
            match (arg.as_str(), args.next()) {
                ("--http", Some(address)) => http = Some(address),
                ("--answers", Some(form)) if form == "json" => streams = false,
                ("--answers", Some(form)) if form == "sse" => streams = true,
                _ => return Err("arguments: [--http ADDRESS] [--answers json|sse]".into()),
            }
        }
        Ok(Self { http, streams })
    }

    /// The endpoint: `/mcp`, for clients on the loopback interface.
    pub(crate) fn endpoint(&self) -> EndpointOptions {
        let mut endpoint = EndpointOptions::new(Policy::loopback());
        endpoint.paths = Paths::at("/mcp");
        if self.streams {
            // A response that is not ready immediately becomes a stream.
            endpoint.limits.stream_after = Duration::ZERO;
        }
        endpoint
    }
}
