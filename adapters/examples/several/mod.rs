//! A client that drives several servers at once.
//!
//! ```sh
//! several-blocking                             # our own: weather and echo
//! several-blocking weather=PROGRAM files=PROGRAM
//! ```
//!
//! Each server has a connection and a [`Host`] of its own: what one of them asks or says is known to be from that one, none of
//! them hears of the others, and whichever is slow, dies, or cannot be started leaves the others alone. Tools are called by
//! the name of their server and their own, `weather__get_alerts`, so it does not matter if two servers have tools of one
//! name.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fmt,
    io::{self, Write},
    time::Duration,
};

use mcp_driver::Command;
use mcp_proto::{
    connection::ClientRole,
    schema::{CallToolResult, ContentBlock, LogMessageParams, Tool},
};
use mcp_service::{CallError, Host, Peer};
use serde_json::{Value, json};

/// Between the name of a server and that of a tool. Models can be told such names; dots are not for all of them.
const BETWEEN: &str = "__";

/// How long a server may take for one answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The servers that the command line asks for, with the names that they go by.
pub(crate) fn from_args() -> Result<Vec<(String, Command)>, Box<dyn Error>> {
    let mut servers = Vec::new();
    for arg in env::args().skip(1) {
        let (name, program) = arg.split_once('=').ok_or("usage: NAME=PROGRAM...")?;
        if name.is_empty() || name.contains(BETWEEN) || servers.iter().any(|(known, _)| known == name) {
            return Err(format!("{name:?} is no name for a server, or was given to two").into());
        }
        servers.push((name.to_owned(), Command::new(program)));
    }
    if servers.is_empty() {
        let adapter = env!("CARGO_PKG_NAME").trim_start_matches("mcp-");
        for name in ["weather", "echo"] {
            let program = env::current_exe()?.with_file_name(format!("{name}-{adapter}{}", env::consts::EXE_SUFFIX));
            servers.push((name.to_owned(), Command::new(program)));
        }
    }
    Ok(servers)
}

/// What one server gets to see of us, and what we hear of it.
pub(crate) fn host(server: &str) -> Host {
    let server = server.to_owned();
    Host::builder("several", "1.0.0")
        .on(move |log: LogMessageParams, _| say(format_args!("{server} says: {}", log.data.get())))
        .build()
}

/// The servers that are there, by their names.
#[derive(Default)]
pub(crate) struct Servers(BTreeMap<String, Peer<ClientRole>>);

impl Servers {
    pub(crate) fn join(&mut self, name: String, server: Peer<ClientRole>) {
        self.0.insert(name, server.within(PATIENCE));
    }

    /// A server could not be started: the others do without.
    pub(crate) fn missing(&self, name: &str, error: &dyn fmt::Display) {
        say(format_args!("{name} is not there: {error}"));
    }

    /// All tools of all servers, each under its whole name. Servers that have none, or do not answer, are left out.
    pub(crate) async fn tools(&self) -> Vec<(String, Tool)> {
        let mut all = Vec::new();
        for (name, server) in &self.0 {
            match server.all_tools().try_collect().await {
                Ok(tools) => all.extend(tools.into_iter().map(|tool| (format!("{name}{BETWEEN}{}", tool.name), tool))),
                Err(error) => say(format_args!("{name} has no tools: {error}")),
            }
        }
        all
    }

    /// Calls a tool by its whole name.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, CallError> {
        let found = tool.split_once(BETWEEN).and_then(|(server, tool)| Some((self.0.get(server)?, tool)));
        let (server, tool) = found.ok_or_else(|| CallError::Invalid(format!("there is no {tool}")))?;
        server.call_tool(tool, arguments)?.await
    }

    /// Shows what there is, and tries the tools that are known.
    pub(crate) async fn try_out(&self) {
        let tools = self.tools().await;
        for (name, tool) in &tools {
            say(format_args!("{name}: {}", tool.description.as_deref().unwrap_or("no description")));
        }
        for (name, arguments) in [
            ("weather__get_alerts", json!({"state": "CA"})),
            ("weather__get_forecast", json!({"latitude": 37.7749, "longitude": -122.4194})),
            ("echo__echo", json!({"message": "Hello!"})),
        ] {
            if tools.iter().any(|(known, _)| known == name) {
                match self.call(name, arguments).await {
                    Ok(result) => {
                        let texts: Vec<_> = result.content.iter().filter_map(ContentBlock::as_text).collect();
                        let how = if result.is_error() { "fails" } else { "answers" };
                        say(format_args!("\n{name} {how}:\n{}", texts.join("\n")));
                    }
                    Err(error) => say(format_args!("\n{name}: {error}")),
                }
            }
        }
    }
}

/// Prints a line. A closed output is not an error.
fn say(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout().lock(), "{what}");
}
