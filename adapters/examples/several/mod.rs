//! A client that drives several servers at once.
//!
//! ```sh
//! several-blocking                             # our own: weather and echo
//! several-blocking weather=PROGRAM files=PROGRAM
//! ```
//!
//! Each server has a connection and a [`Host`] of its own, so requests and notifications are attributed to their
//! server. A server that is slow, exits, or cannot be started does not affect the others. Tools are called by the name
//! of their server and their own, `weather__get_alerts`, so two servers can have tools of the same name.

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

/// Separates the name of a server from that of a tool. Some model APIs do not accept dots in names of tools.
const BETWEEN: &str = "__";

/// The timeout of one response.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the servers of the command line, with their names.
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

/// Builds the client of one server. It prints the log messages of the server.
pub(crate) fn host(server: &str) -> Host {
    let server = server.to_owned();
    Host::builder("several", "1.0.0")
        .on(move |log: LogMessageParams, _| say(format_args!("{server}: {}", log.data.get())))
        .build()
}

/// The connected servers, by their names.
#[derive(Default)]
pub(crate) struct Servers(BTreeMap<String, Peer<ClientRole>>);

impl Servers {
    pub(crate) fn join(&mut self, name: String, server: Peer<ClientRole>) {
        self.0.insert(name, server.within(PATIENCE));
    }

    /// Reports that a server could not be started. The others are used without it.
    pub(crate) fn missing(&self, name: &str, error: &dyn fmt::Display) {
        say(format_args!("{name} is not there: {error}"));
    }

    /// Returns all tools of all servers, each under its full name. Servers without tools, or without a response, are
    /// left out.
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

    /// Calls a tool by its full name.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, CallError> {
        let found = tool.split_once(BETWEEN).and_then(|(server, tool)| Some((self.0.get(server)?, tool)));
        let (server, tool) = found.ok_or_else(|| CallError::Invalid(format!("there is no {tool}")))?;
        server.call_tool(tool, arguments)?.await
    }

    /// Prints all tools, and calls those that this example has arguments for.
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
