//! The server of a command: how to reach it.

use std::{env, fs};

use mcp_blocking::{
    Client, Command,
    http::{ClientOptions, Connector},
};
use mcp_driver::http::seed;
use mcp_service::{
    Host,
    config::{ServerConfig, ServersConfig},
};

use crate::{error::Failed, options::ConnectionOptions};

/// The variable of the environment with a bearer token.
const TOKEN: &str = "MCP_BEARER_TOKEN";

/// Connects to a target.
pub(crate) fn connect(target: &str, options: &ConnectionOptions, host: &Host) -> Result<Client, Failed> {
    if target.starts_with("http://") || target.starts_with("https://") {
        let address = ClientOptions::new(target, seed()).map_err(|error| Failed::usage(error.to_string()))?;
        return connect_http(address, options, host);
    }
    if let Some(path) = &options.config {
        let text = fs::read_to_string(path)
            .map_err(|error| Failed::usage(format!("{} cannot be read: {error}", path.display())))?;
        let config = ServersConfig::from_env(&text).map_err(|error| Failed::usage(error.to_string()))?;
        return match config.get(target) {
            Some(ServerConfig::Stdio(program)) => spawn(program.into(), options, host),
            Some(ServerConfig::Http(http)) => {
                let address = mcp_driver::http_options(http, seed()).map_err(|error| Failed::connection(&error))?;
                connect_http(address, options, host)
            }
            Some(_) => Err(Failed::usage(format!("`{target}` is a server of an unknown kind"))),
            None => {
                let names: Vec<_> = config.servers().map(|(name, _)| name).collect();
                let why = format!("{} has no server `{target}`, but {}", path.display(), names.join(", "));
                Err(Failed::usage(why))
            }
        };
    }
    let words = shell_words::split(target).map_err(|error| Failed::usage(format!("`{target}`: {error}")))?;
    match words.split_first() {
        Some((program, arguments)) => spawn(Command::new(program).args(arguments), options, host),
        None => Err(Failed::usage("the target is empty")),
    }
}

/// Returns the variables of `--env`.
pub(crate) fn variables(options: &ConnectionOptions) -> Result<Vec<(&str, &str)>, Failed> {
    // The text may be a secret.
    let wrong = || Failed::usage("a variable of --env is not `NAME=VALUE`");
    options.env.iter().map(|variable| variable.split_once('=').ok_or_else(wrong)).collect()
}

fn spawn(mut command: Command, options: &ConnectionOptions, host: &Host) -> Result<Client, Failed> {
    for (name, value) in variables(options)? {
        command = command.env(name, value);
    }
    command = if options.quiet { command.discard_stderr() } else { command.inherit_stderr() };
    Client::spawn(command, host).map_err(|error| Failed::connection(&error))
}

fn connect_http(mut address: ClientOptions, options: &ConnectionOptions, host: &Host) -> Result<Client, Failed> {
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
    let mut connector = Connector::with_client_options(address);
    if let Some(token) = options.bearer.clone().or_else(|| env::var(TOKEN).ok()) {
        connector = connector.bearer(&token).map_err(|error| Failed::connection(&error))?;
    }
    connector.connect(host).map_err(|error| Failed::connection(&error))
}
