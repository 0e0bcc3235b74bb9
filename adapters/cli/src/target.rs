//! The server of a command: how to reach it.

use std::{env, fs};

use http::header::AUTHORIZATION;
use mcp_blocking::{
    Client, Command, Error,
    http::{ClientOptions, Connector},
};
use mcp_driver::http::seed;
use mcp_service::{
    Host,
    config::{ServerConfig, ServersConfig},
};

use crate::{error::Failed, options::ConnectionOptions, sign_in::Credentials};

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
        if target.starts_with("http://") || target.starts_with("https://") {
            let address = ClientOptions::new(target, seed()).map_err(|error| Failed::usage(error.to_string()))?;
            return http(address, options);
        }
        if let Some(path) = &options.config {
            let text = fs::read_to_string(path)
                .map_err(|error| Failed::usage(format!("{} cannot be read: {error}", path.display())))?;
            let config = ServersConfig::from_env(&text)
                .map_err(|error| Failed::usage(format!("{} has no servers: {error}", path.display())))?;
            return match config.get(target) {
                Some(ServerConfig::Stdio(command)) => program(command.into(), options),
                Some(ServerConfig::Http(config)) => {
                    http(mcp_driver::http_options(config, seed()).map_err(|error| Failed::connection(&error))?, options)
                }
                Some(_) => Err(Failed::usage(format!("`{target}` is a server of an unknown kind"))),
                None => {
                    let names: Vec<_> = config.servers().map(|(name, _)| name).collect();
                    let why = format!("{} has no server `{target}`, but {}", path.display(), names.join(", "));
                    Err(Failed::usage(why))
                }
            };
        }
        if let Some((scheme, _)) = target.split_once("://")
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return Err(Failed::usage(format!(
                "{target} is no address of a server: it begins with http:// or https://"
            )));
        }
        let words = shell_words::split(target).map_err(|error| Failed::usage(format!("`{target}`: {error}")))?;
        Self::of_words(&words, options)
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

/// Connects to a target.
pub(crate) fn connect(target: &str, options: &ConnectionOptions, host: &Host) -> Result<Client, Failed> {
    let is_name = options.config.is_none() && !target.contains(['/', '\\', ' ']);
    Target::parse(target, options)?.connect(host).map_err(|error| match &error {
        Error::Spawn { .. } if is_name => Failed::connect(&error).with_config(),
        _ => Failed::connect(&error),
    })
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
    let credentials = match options.bearer.clone().or_else(|| env::var(TOKEN).ok()) {
        Some(token) => Credentials::Bearer(token),
        None if address.headers.contains_key(AUTHORIZATION) => Credentials::None,
        None => Credentials::stored(&address.url.to_string(), options)?,
    };
    Ok(Target::Http { address: Box::new(address), credentials })
}
