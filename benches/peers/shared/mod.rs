//! Clients and servers of each adapter, and of rmcp, in one process and as parent and child process.
//!
//! A child is this program, started with [`SERVE`]: a program with such children calls [`serve`] first.

mod adapters;
mod clients;
mod rmcp;
#[path = "../../servers/echo.rs"]
mod service;

use std::{env, process::Command};

use mcp_benches::{Case, Work};
use mcp_proto::protocol::{Era, ProtocolVersion};

/// The environment variable with the server of a child process: the name of an adapter, after `HTTP ` if it serves
/// HTTP.
const SERVE: &str = "ECHO";

/// How many calls are made at once.
const AT_ONCE: [usize; 2] = [1, 64];

/// The revisions of the calls: the newest one with sessions, which the peers speak, and the stateless one.
const REVISIONS: [ProtocolVersion; 2] = [ProtocolVersion::LATEST_LEGACY, ProtocolVersion::LATEST];

/// Makes the calls of a case, over this transport, in this revision, and as many at once.
type Make = fn(&str, ProtocolVersion, usize) -> Box<dyn FnMut()>;

/// Serves standard input and output, or HTTP, if this is a child process. Returns whether it did.
pub(crate) fn serve() -> bool {
    let Ok(adapter) = env::var(SERVE) else { return false };
    match adapter.strip_prefix("HTTP ") {
        Some(adapter) => adapters::serve_http(adapter),
        None if adapter == "rmcp" => rmcp::serve(),
        None => adapters::serve(&adapter),
    }
    true
}

/// How many calls a step makes within one call of `block_on`. An application calls it once. On smol, a thread of the
/// reactor takes over each time that it returns.
const CALLS: usize = 1024;

/// Returns how often a step makes this many calls at once.
const fn rounds(at_once: usize) -> usize {
    CALLS / at_once
}

/// Returns the command that starts this program as a server.
pub(crate) fn child(adapter: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("a program"));
    command.env(SERVE, adapter);
    command
}

/// Round trips of a small `tools/call`: with client and server of the same library, and of clients over HTTP.
pub(crate) fn cases() -> Vec<Case> {
    [adapters::cases(), rmcp::cases(), clients::cases()].into_iter().flatten().collect()
}

/// A case of this many small calls at once.
fn case(peer: &'static str, over: &'static str, revision: ProtocolVersion, at_once: usize, make: Make) -> Case {
    Case::new(peer, format!("{over}, {}", name(revision, at_once)), move || {
        // Envelopes are not counted: their length depends on the library.
        let bytes = mcp_benches::ARGUMENTS.len() + mcp_benches::TEXT.len();
        Work::new(CALLS, CALLS * bytes, make(over, revision, at_once))
    })
}

/// Returns the end of the name of a case.
fn name(revision: ProtocolVersion, at_once: usize) -> String {
    match revision.era() {
        Era::Legacy => format!("{at_once} at once"),
        Era::Modern => format!("{at_once} at once, {}", revision.as_str()),
    }
}
