//! Configuration files with the servers of an application, as Claude Desktop, VS Code and others write them.
//!
//! ```
//! use mcp_service::config::{ServerConfig, ServersConfig};
//!
//! let text = r#"{
//!     "mcpServers": {
//!         "files": {"command": "mcp-files", "args": ["${HOME}/notes"], "env": {"LOG": "${LEVEL:-info}"}},
//!         "search": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
//!     }
//! }"#;
//! let variables = |name: &str| match name {
//!     "HOME" => Some("/home/me".to_owned()),
//!     "TOKEN" => Some("secret".to_owned()),
//!     _ => None,
//! };
//! let config = ServersConfig::parse(text, variables)?;
//! let Some(ServerConfig::Stdio(files)) = config.get("files") else { panic!("it is a program") };
//! assert_eq!((&*files.args[0], &*files.env[0].1), ("/home/me/notes", "info"));
//! assert!(!format!("{config:?}").contains("secret"));
//! # Ok::<(), mcp_service::config::ConfigError>(())
//! ```
//!
//! The servers are members of `mcpServers`, or of `servers`, as VS Code has it. Each is a program (`command`, `args`,
//! `env`, `cwd`), or is reached over HTTP (`url`, `headers`, and `type`: `http`, `streamable-http` or `sse`). A server
//! with `"disabled": true` is left out. Other members are ignored, with a [warning](ServersConfig::warnings).
//!
//! `${NAME}` and `${env:NAME}` in texts stand for a variable, `${NAME:-text}` for a variable or else the text. A text
//! that was put in is not read again, and variables inside `${..}` are an error. Questions to the user, such as
//! `${input:NAME}`, are not supported.

mod expand;
mod parse;

use std::fmt;

/// The servers of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServersConfig {
    servers: Vec<(String, ServerConfig)>,
    warnings: Vec<String>,
}

impl ServersConfig {
    /// The most bytes of a file, and of all its texts after variables were replaced.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Parses a configuration. `variable` returns the value of a variable, if it is set: see
    /// [`from_env`](Self::from_env).
    ///
    /// # Errors
    /// If the text is not JSON of this form, is larger than [`MAX_BYTES`](Self::MAX_BYTES), has a member twice, or
    /// names a variable that is not set and has no default.
    pub fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        parse::config(text, &variable)
    }

    /// Parses a configuration with the variables of the environment.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn from_env(text: &str) -> Result<Self, ConfigError> {
        Self::parse(text, |name| std::env::var(name).ok())
    }

    /// Returns the servers with their names, in the order of the file.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = (&str, &ServerConfig)> {
        self.servers.iter().map(|(name, server)| (name.as_str(), server))
    }

    /// Returns the server with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ServerConfig> {
        self.servers.iter().find(|(known, _)| known == name).map(|(_, server)| server)
    }

    /// Returns warnings about members that were ignored, at most 100.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// How to reach a server. Its `Debug` shows no arguments, variables, headers, queries or passwords, and no command or
/// folder with a variable in it. Of an address without a scheme it shows only the length in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerConfig {
    /// A program.
    Stdio(StdioServer),
    /// A server over HTTP.
    Http(HttpServer),
}

/// A server that is a program.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StdioServer {
    /// The program, by its path or its name in `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The variables of its environment, by name, in addition to those that it inherits.
    pub env: Vec<(String, String)>,
    /// The folder in which it runs.
    pub cwd: Option<String>,
    from_variables: FromVariables,
}

/// The texts of a program that contained variables, and are not shown.
#[derive(Clone, Copy, Default)]
struct FromVariables {
    command: bool,
    cwd: bool,
}

/// All are equal: how a program was written does not make it another one.
impl PartialEq for FromVariables {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for FromVariables {}

/// A server over HTTP.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpServer {
    /// The address.
    pub url: String,
    /// Headers of each request, by name.
    pub headers: Vec<(String, String)>,
    /// The transport.
    pub transport: HttpTransport,
}

/// The transport of a server over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpTransport {
    /// Streamable HTTP, or else the transport of 2024-11-05. The types `http` and `streamable-http`, and a server
    /// without a type.
    Streamable,
    /// The transport of 2024-11-05, or Streamable HTTP. The type `sse`.
    Sse,
}

/// A text that is not shown, only its length.
struct Redacted(usize);

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} redacted)", self.0)
    }
}

/// A text that may have to be redacted.
struct Shown<'a> {
    text: &'a str,
    is_redacted: bool,
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_redacted { Redacted(self.text.len()).fmt(f) } else { self.text.fmt(f) }
    }
}

fn names(pairs: &[(String, String)]) -> Vec<&str> {
    pairs.iter().map(|(name, _)| name.as_str()).collect()
}

impl fmt::Debug for StdioServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = Shown { text: &self.command, is_redacted: self.from_variables.command };
        let cwd = self.cwd.as_deref().map(|text| Shown { text, is_redacted: self.from_variables.cwd });
        f.debug_struct("StdioServer")
            .field("command", &command)
            .field("args", &Redacted(self.args.len()))
            .field("env", &names(&self.env))
            .field("cwd", &cwd)
            .finish()
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = shown(&self.url);
        let url = Shown { text: url.as_deref().unwrap_or(&self.url), is_redacted: url.is_none() };
        f.debug_struct("HttpServer")
            .field("url", &url)
            .field("headers", &names(&self.headers))
            .field("transport", &self.transport)
            .finish()
    }
}

/// Returns the scheme and the host of an address, without passwords, paths and queries, which may be secret. Without a
/// scheme it is no address, and nothing of it is known not to be secret.
fn shown(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    Some(format!("{scheme}://{host}/.."))
}

/// The error of a configuration that cannot be used. It contains no values of variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    place: String,
    why: String,
}

impl ConfigError {
    fn new(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self { place: place.into(), why: why.into() }
    }

    /// Returns where the error is: the names of the members on the way, joined with dots. Empty for the whole file.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.why)
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests;
