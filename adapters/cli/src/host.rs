//! The client's side of a connection: responses to the requests of a server, and its notifications.

use std::{sync::mpsc::SyncSender, time::Duration};

use mcp_proto::{
    connection::Settings,
    protocol::VersionSet,
    schema::{
        At, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult, ElicitUrlParams,
        ElicitValue, LogMessageParams, Map, Notification, PromptsListChangedParams, ResourceUpdatedParams,
        ResourcesListChangedParams, Role, Root, SamplingContent, ToolsListChangedParams,
    },
};
use mcp_service::{Failure, Host, HostBuilder, Roots};
use serde_json::{Value, json};

use crate::{arguments, error::Failed, options::ConnectionOptions, show};

/// Returns a client without handlers: its deadlines, its revisions and its roots.
pub(crate) fn builder(
    options: &ConnectionOptions,
    versions: VersionSet,
    timeout: Duration,
) -> Result<HostBuilder, Failed> {
    let mut settings = Settings::default();
    settings.request.total_timeout = Some(timeout);
    settings.request.idle_timeout = Some(timeout);
    settings.handshake_timeout = options.timeout();
    let host = Host::builder("mcp-cli", env!("CARGO_PKG_VERSION")).settings(settings).versions(versions);
    Ok(if options.roots.is_empty() { host } else { host.roots(&roots(options)?) })
}

/// Creates the client. Notifications go to `notifications`, if they are wanted, and log messages to the error output
/// otherwise.
pub(crate) fn host(options: &ConnectionOptions, notifications: Option<SyncSender<Value>>) -> Result<Host, Failed> {
    let mut host = builder(options, options.versions(), options.timeout())?;
    let answers = arguments::answers(&options.answers)?;
    if !answers.is_empty() {
        host = host.elicitation(move |form: ElicitFormParams, _| answer(&form, &answers));
    }
    let quiet = options.quiet;
    host = host.elicitation_url(move |page: ElicitUrlParams, _| {
        if quiet {
            return Ok::<_, Failure>(ElicitAction::Decline);
        }
        // Nothing opens it: the user has the address.
        show::note(&format!("the server sends the user to {}: {}", page.url, page.message));
        Ok(ElicitAction::Accept)
    });
    if let Some(text) = options.sample.clone() {
        host = host.sampling(move |_: CreateMessageParams, _| {
            let text = SamplingContent::text(text.clone());
            Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, text, "mcp-cli"))
        });
    }
    host = match notifications {
        Some(sender) => {
            let host = forward::<ToolsListChangedParams>(host, &sender);
            let host = forward::<PromptsListChangedParams>(host, &sender);
            let host = forward::<ResourcesListChangedParams>(host, &sender);
            let host = forward::<ResourceUpdatedParams>(host, &sender);
            forward::<LogMessageParams>(host, &sender)
        }
        None if quiet => host,
        None => host.on(|message: LogMessageParams, _| show::log(&message)),
    };
    Ok(host.build())
}

/// Passes notifications on as JSON.
fn forward<N: Notification>(host: HostBuilder, sender: &SyncSender<Value>) -> HostBuilder {
    let sender = sender.clone();
    host.on(move |params: N, _| {
        let written = At(&params, None).to_json().ok().and_then(|json| json.decode::<Value>().ok());
        // The receiver ends first when enough notifications have arrived.
        let _ = sender.send(json!({"method": N::METHOD.as_str(), "params": written}));
    })
}

/// Fills in the fields of a form that have an answer. Others keep their default values.
fn answer(form: &ElicitFormParams, answers: &serde_json::Map<String, Value>) -> Result<ElicitResult, Failure> {
    let known = answers.iter().filter(|(name, _)| form.requested_schema.properties.get(name).is_some());
    let content: Map<ElicitValue> = known
        .map(|(name, value)| Ok((name.clone(), serde_json::from_value(value.clone())?)))
        .collect::<Result<_, serde_json::Error>>()?;
    Ok(ElicitResult::accept(content))
}

fn roots(options: &ConnectionOptions) -> Result<Roots, Failed> {
    let mut roots = Vec::new();
    for root in &options.roots {
        let path = root
            .canonicalize()
            .map_err(|error| Failed::usage(format!("the folder {} cannot be used: {error}", root.display())))?;
        roots.push(Root::new(file_uri(&path.to_string_lossy())));
    }
    Roots::new(roots).map_err(|error| Failed::usage(error.to_string()))
}

/// Returns the `file` URI of a path.
fn file_uri(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let escape = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    format!("file://{}", path.bytes().map(escape).collect::<String>())
}
