//! The server of a command: how to reach it.

use std::{env, fmt::Display, fs, path::Path};

use http::header::AUTHORIZATION;
use mcp_blocking::{
    Client, Command, Error,
    http::{ClientOptions, Connector},
};
use mcp_driver::http::seed;
use mcp_service::{
    Host,
    config::{ServerConfig, ServersConfig, StdioServer},
};

use crate::{
    address::{check_port, is_url},
    error::Failed,
    options::ConnectionOptions,
    show,
    sign_in::Credentials,
};

/// The variable of the environment with a bearer token.
pub(crate) const TOKEN: &str = "MCP_BEARER_TOKEN";

/// A server that can be connected to, as often as needed.
#[derive(Debug)]
pub(crate) enum Target {
    /// A program to start.
    Program(Command),
    /// An address.
    Http { address: Box<ClientOptions>, credentials: Credentials },
}

impl Target {
    /// Reads a target: a URL, a name in the file of `--config`, or a command line.
    pub(crate) fn parse(target: &str, options: &ConnectionOptions) -> Result<Self, Failed> {
        if is_url(target) {
            check_port(target)?;
            let address = ClientOptions::new(target, seed()).map_err(|error| Failed::usage(error.to_string()))?;
            return http(address, options);
        }
        if let Some(path) = &options.config {
            return match configured(path, target, options.quiet)? {
                ServerConfig::Stdio(command) => program((&command).into(), options),
                ServerConfig::Http(config) => {
                    let wrong = |why: &dyn Display| Failed::usage(format!("`{target}` of {}: {why}", path.display()));
                    check_port(&config.url).map_err(|failed| wrong(&failed))?;
                    http(mcp_driver::http_options(&config, seed()).map_err(|error| wrong(&error))?, options)
                }
                _ => Err(Failed::usage(format!("`{target}` is a server of an unknown kind"))),
            };
        }
        Self::of_words(&words(target)?, options)
    }

    /// Returns the program of a command line that is split into words.
    pub(crate) fn of_words(words: &[String], options: &ConnectionOptions) -> Result<Self, Failed> {
        match words.split_first() {
            Some((first, arguments)) => program(Command::new(first).args(arguments), options),
            None => Err(Failed::usage("the target is empty")),
        }
    }

    /// Opens a connection.
    pub(crate) fn connect(&self, host: &Host) -> Result<Client, Error> {
        match self {
            Self::Program(command) => Client::spawn(command.clone(), host),
            Self::Http { address, credentials } => {
                credentials.connect(Connector::with_client_options((**address).clone()), host)
            }
        }
    }
}

/// Returns the server with this name in the file of `--config`.
pub(crate) fn configured(path: &Path, name: &str, quiet: bool) -> Result<ServerConfig, Failed> {
    let file = path.display();
    let text = fs::read_to_string(path).map_err(|error| Failed::usage(format!("{file} cannot be read: {error}")))?;
    let config =
        ServersConfig::from_env(&text).map_err(|error| Failed::usage(format!("{file} cannot be used: {error}")))?;
    let Some(server) = config.get(name) else {
        let names: Vec<_> = config.servers().map(|(name, _)| name).collect();
        let others = if names.is_empty() { "and no other one".to_owned() } else { format!("but {}", names.join(", ")) };
        return Err(Failed::usage(format!("{file} has no server `{name}`, {others}")));
    };
    if !quiet {
        config.warnings().iter().for_each(|warning| show::note(&format!("{file}: {warning}")));
    }
    match server {
        // The system would say of the program that it does not exist.
        ServerConfig::Stdio(StdioServer { cwd: Some(folder), .. }) if !Path::new(folder).is_dir() => {
            Err(Failed::usage(format!("`{name}` of {file}: its \"cwd\" is no folder")))
        }
        server => Ok(server.clone()),
    }
}

/// Splits a command line into words.
pub(crate) fn words(target: &str) -> Result<Vec<String>, Failed> {
    if let Some((scheme, _)) = target.split_once("://")
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        return Err(Failed::usage(format!("{target} is no address of a server: these begin with http:// or https://")));
    }
    shell_words::split(target).map_err(|error| Failed::usage(format!("`{target}`: {error}")))
}

/// Returns the token of `--bearer` or of its variable.
pub(crate) fn bearer(options: &ConnectionOptions) -> Result<Option<String>, Failed> {
    let (token, place) = match &options.bearer {
        Some(token) => (Some(token.clone()), "the token of --bearer"),
        None => (env::var(TOKEN).ok(), "the token of the variable MCP_BEARER_TOKEN"),
    };
    match token.as_deref().map(str::trim) {
        Some("") => Err(Failed::usage(format!("{place} is empty"))),
        Some(token) if !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(Failed::usage(format!("{place} has characters that no token has")))
        }
        token => Ok(token.map(str::to_owned)),
    }
}

/// Connects to a target.
pub(crate) fn connect(target: &str, options: &ConnectionOptions, host: &Host) -> Result<Client, Failed> {
    Target::parse(target, options)?.connect(host).map_err(|error| match &error {
        Error::Spawn { .. } => hinted(Failed::connect(&error), target, options),
        _ => Failed::connect(&error),
    })
}

/// Adds what else the target of a program that cannot be started may be.
pub(crate) fn hinted(failed: Failed, target: &str, options: &ConnectionOptions) -> Failed {
    let has_port = |host: &str| {
        let port = host.rsplit_once(':').map(|(_, port)| port);
        port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match target.split_once('/').unwrap_or((target, "")) {
        _ if !failed.is_without_connection() || options.config.is_some() || target.contains(char::is_whitespace) => {
            failed
        }
        (host, _) if has_port(host) => failed.with("if it is an address, it begins with http:// or https://"),
        (_, "") if !target.contains(['/', '\\']) => {
            failed.with("if it is the name of a server, --config names the file")
        }
        _ => failed,
    }
}

/// Returns the variables of `--env`.
pub(crate) fn variables(options: &ConnectionOptions) -> Result<Vec<(&str, &str)>, Failed> {
    // The text may be a secret.
    let wrong = || Failed::usage("a variable of --env is not `NAME=VALUE`");
    options.env.iter().map(|variable| variable.split_once('=').ok_or_else(wrong)).collect()
}

fn program(mut command: Command, options: &ConnectionOptions) -> Result<Target, Failed> {
    for (name, value) in variables(options)? {
        command = command.env(name, value);
    }
    command = if options.quiet { command.discard_stderr() } else { command.inherit_stderr() };
    Ok(Target::Program(command))
}

fn http(mut address: ClientOptions, options: &ConnectionOptions) -> Result<Target, Failed> {
    for header in &options.headers {
        // It may be a secret, unless it has a name.
        let Some((name, value)) = header.split_once(':') else {
            return Err(Failed::usage("a header of --header is not `NAME: VALUE`"));
        };
        let wrong = || Failed::usage(format!("the header `{}` is not `NAME: VALUE`", name.trim()));
        let (name, value) = (name.trim().parse(), value.trim().parse());
        let (Ok(name), Ok(value)) = (name, value) else { return Err(wrong()) };
        address.headers.append::<http::HeaderName>(name, value);
    }
    let credentials = match bearer(options)? {
        Some(token) => Credentials::Bearer(token),
        None if address.headers.contains_key(AUTHORIZATION) => Credentials::None,
        None => Credentials::stored(&address.url.to_string(), options)?,
    };
    Ok(Target::Http { address: Box::new(address), credentials })
}
