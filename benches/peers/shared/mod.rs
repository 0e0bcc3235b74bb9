//! Clients and servers of each adapter, and of rmcp, in one process and as parent and child.
//!
//! A child is this program, started with [`SERVE`]: a program with such children calls [`serve`] first.

mod adapters;
mod rmcp;
#[path = "../../servers/echo.rs"]
mod service;

use std::{env, process::Command};

use mcp_benches::{Case, Work};

/// The variable that says which server to be: of which adapter, behind `HTTP ` if it is to be one of that.
const SERVE: &str = "ECHO";

/// How many calls are made at once.
const AT_ONCE: [usize; 2] = [1, 64];

/// Serves standard input and output, or HTTP, if that is what this process is for.
pub(crate) fn serve() -> bool {
    let Ok(adapter) = env::var(SERVE) else { return false };
    match adapter.strip_prefix("HTTP ") {
        Some(adapter) => adapters::serve_http(adapter),
        None if adapter == "rmcp" => rmcp::serve(),
        None => adapters::serve(&adapter),
    }
    true
}

/// This program as a server.
pub(crate) fn child(adapter: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("a program"));
    command.env(SERVE, adapter);
    command
}

/// Round trips of a small `tools/call`, client and server being of the same library.
pub(crate) fn cases() -> Vec<Case> {
    [adapters::cases(), rmcp::cases()].into_iter().flatten().collect()
}

/// A case of as many small calls at once.
fn case(peer: &'static str, over: &'static str, at_once: usize, make: fn(&str, usize) -> Box<dyn FnMut()>) -> Case {
    Case::new(peer, format!("{over}, {at_once} at once"), move || {
        // Envelopes are not counted: how long they are is up to the library.
        let bytes = mcp_benches::ARGUMENTS.len() + mcp_benches::TEXT.len();
        Work::new(at_once, at_once * bytes, make(over, at_once))
    })
}
