//! Parsing of configurations.

use std::collections::BTreeSet;

use mcp_proto::wire::{Json, RawJson};

use super::{ConfigError, HttpServer, HttpTransport, ServerConfig, ServersConfig, StdioServer, expand::expand};

/// The most servers of a file.
const MAX_SERVERS: usize = 1000;

/// The most warnings that are kept.
const MAX_WARNINGS: usize = 100;

type Result<T> = std::result::Result<T, ConfigError>;

pub(super) fn config(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<ServersConfig> {
    if text.len() > ServersConfig::MAX_BYTES {
        return Err(ConfigError::new("", "the file is too large"));
    }
    // A byte order mark, as editors on Windows write it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let json = Json::parse(text).map_err(|error| ConfigError::new("", format!("the file is not JSON: {error}")))?;
    let mut parser = Parser { variable, left: ServersConfig::MAX_BYTES, warnings: Vec::new() };
    let (mut found, mut servers): (Option<String>, _) = (None, Vec::new());
    for (name, value) in members("", &RawJson::from(&json))? {
        match &*name {
            "mcpServers" | "servers" => {
                if let Some(found) = found.replace(name.clone()) {
                    return Err(ConfigError::new("", format!("there are both {found:?} and {name:?}")));
                }
                servers = parser.servers(&name, &value)?;
            }
            // Questions of VS Code; a text that contains one is refused.
            "inputs" => {}
            _ => parser.warn(&name),
        }
    }
    if found.is_none() {
        return Err(ConfigError::new("", "there is no \"mcpServers\" or \"servers\""));
    }
    Ok(ServersConfig { servers, warnings: parser.warnings })
}

/// Returns the members of an object. None may be there twice.
fn members(place: &str, value: &RawJson<'_>) -> Result<Vec<(String, Json)>> {
    if !value.is_object() {
        return Err(ConfigError::new(place, "it is not an object"));
    }
    let (mut names, mut members) = (BTreeSet::new(), Vec::new());
    for (name, value) in value.members() {
        if !names.insert(name.to_string()) {
            return Err(ConfigError::new(inside(place, &name), "it is there twice"));
        }
        let value = Json::parse(value.get()).map_err(|error| ConfigError::new(place, error.to_string()))?;
        members.push((name.into_owned(), value));
    }
    Ok(members)
}

fn inside(place: &str, name: &str) -> String {
    let name: String = name.chars().take(64).flat_map(char::escape_debug).collect();
    if place.is_empty() { name } else { format!("{place}.{name}") }
}

struct Parser<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    /// The bytes that all texts may still have.
    left: usize,
    warnings: Vec<String>,
}

impl Parser<'_> {
    fn warn(&mut self, place: &str) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(format!("{place} is ignored"));
        }
    }

    fn servers(&mut self, place: &str, value: &Json) -> Result<Vec<(String, ServerConfig)>> {
        let mut servers = Vec::new();
        for (name, value) in members(place, &RawJson::from(value))? {
            let place = inside(place, &name);
            if name.is_empty() || name.contains(char::is_control) {
                return Err(ConfigError::new(place, "it is no name"));
            }
            if servers.len() == MAX_SERVERS {
                return Err(ConfigError::new(place, "there are too many servers"));
            }
            if let Some(server) = self.server(&place, &value)? {
                servers.push((name, server));
            }
        }
        Ok(servers)
    }

    fn server(&mut self, place: &str, value: &Json) -> Result<Option<ServerConfig>> {
        let all = members(place, &RawJson::from(value))?;
        if all.iter().any(|(name, value)| name == "disabled" && value.get() == "true") {
            return Ok(None);
        }
        let (mut stdio, mut url, mut headers, mut kind) = (StdioServer::default(), None, Vec::new(), None);
        let mut has_command = false;
        for (name, value) in all {
            let place = inside(place, &name);
            match &*name {
                "type" | "transport" => kind = Some(plain(&place, &value)?),
                "command" => {
                    (stdio.command, stdio.from_variables.command) = self.text_with_variables(&place, &value)?;
                    has_command = !stdio.command.is_empty();
                }
                "args" => stdio.args = self.texts(&place, &value)?,
                "env" => stdio.env = self.pairs(&place, &value)?,
                "cwd" => {
                    let (cwd, has_variable) = self.text_with_variables(&place, &value)?;
                    (stdio.cwd, stdio.from_variables.cwd) = (Some(cwd), has_variable);
                }
                "url" => url = Some(self.text(&place, &value)?),
                "headers" => headers = self.pairs(&place, &value)?,
                "disabled" => {}
                _ => self.warn(&place),
            }
        }
        let refuse = |why: &str| Err(ConfigError::new(place, why));
        let transport = match kind.as_deref() {
            None => None,
            Some("stdio") if url.is_some() => return refuse("a server of the type \"stdio\" has no \"url\""),
            Some("stdio") if has_command => None,
            Some("stdio") => return refuse("a server of the type \"stdio\" needs a \"command\""),
            Some("http" | "streamable-http" | "streamableHttp") => Some(HttpTransport::Streamable),
            Some("sse") => Some(HttpTransport::Sse),
            Some(_) => return refuse("its type is none of \"stdio\", \"http\", \"streamable-http\" and \"sse\""),
        };
        match (has_command, url) {
            (true, Some(_)) => refuse("it has both a \"command\" and a \"url\""),
            (true, None) if transport.is_some() => refuse("a server over HTTP needs a \"url\""),
            (true, None) => Ok(Some(ServerConfig::Stdio(stdio))),
            (false, Some(url)) => {
                let transport = transport.unwrap_or(HttpTransport::Streamable);
                Ok(Some(ServerConfig::Http(HttpServer { url, headers, transport })))
            }
            (false, None) => refuse("it has neither a \"command\" nor a \"url\""),
        }
    }

    fn text(&mut self, place: &str, value: &Json) -> Result<String> {
        Ok(self.text_with_variables(place, value)?.0)
    }

    /// Returns a text, and whether it contained a variable.
    fn text_with_variables(&mut self, place: &str, value: &Json) -> Result<(String, bool)> {
        let text = plain(place, value)?;
        let expanded = expand(&text, self.variable, &mut self.left).map_err(|why| ConfigError::new(place, why))?;
        Ok((expanded, text.contains("${")))
    }

    fn texts(&mut self, place: &str, value: &Json) -> Result<Vec<String>> {
        let values: Vec<Json> = value.decode().map_err(|_| ConfigError::new(place, "it is not a list"))?;
        let named = values.iter().enumerate().map(|(number, value)| (inside(place, &number.to_string()), value));
        named.map(|(place, value)| self.text(&place, value)).collect()
    }

    fn pairs(&mut self, place: &str, value: &Json) -> Result<Vec<(String, String)>> {
        let members = members(place, &RawJson::from(value))?;
        let pair = |(name, value): (String, Json)| Ok((name.clone(), self.text(&inside(place, &name), &value)?));
        members.into_iter().map(pair).collect()
    }
}

fn plain(place: &str, value: &Json) -> Result<String> {
    value.decode().map_err(|_| ConfigError::new(place, "it is not a text"))
}
