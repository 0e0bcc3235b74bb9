//! The commands.

use std::{
    fs,
    path::Path,
    process::ExitCode,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use mcp_blocking::Client;
use mcp_proto::{
    protocol::{Capability, Era},
    schema::{
        CompletionReference, Encode, LoggingLevel, PromptReference, ResourceTemplateReference, SubscriptionFilter,
    },
};
use mcp_service::{Subscription, block_on};
use serde_json::{Map, Value};

use crate::{
    arguments,
    bench::{self, BenchOptions},
    error::Failed,
    generate::{ToolSchema, module},
    options::{Command, ConnectionOptions, ListKind},
    show,
};

/// Runs a command on a connection. `notifications` has those of the server, if the command prints them.
pub(crate) fn run(
    command: &Command,
    options: &ConnectionOptions,
    client: &Client,
    notifications: Option<&Receiver<Value>>,
) -> Result<ExitCode, Failed> {
    match command {
        Command::List { kinds, .. } => list(client, kinds, options)?,
        Command::Call { tool, arguments, .. } => call(client, tool, arguments, options)?,
        Command::Read { uri, .. } => {
            let result = client.read_resource(uri)?.wait()?;
            if options.json { show::json(&result)? } else { show::contents(&result.contents)? }
        }
        Command::Prompt { name, arguments, .. } => {
            let result = client.get_prompt(name, arguments::texts(arguments)?)?.wait()?;
            if options.json {
                show::json(&result)?;
                return Ok(ExitCode::SUCCESS);
            }
            for message in &result.messages {
                show::line(&format!("{}:", message.role))?;
                show::content(std::slice::from_ref(&message.content))?;
            }
        }
        Command::Complete { of, argument, value, known, .. } => {
            let reference: CompletionReference = if of.contains("://") || of.contains('{') {
                ResourceTemplateReference::new(of).into()
            } else {
                PromptReference::new(of).into()
            };
            let result = client.complete(reference, argument, value, arguments::texts(known)?)?.wait()?;
            if options.json {
                show::json(&result)?;
            } else {
                result.completion.values.iter().try_for_each(|value| show::name(value))?;
            }
        }
        Command::Subscribe { uris, count, .. } => {
            if let Some(notifications) = notifications {
                subscribe(client, uris, *count, notifications, options)?;
            }
        }
        Command::Generate { output, .. } => generate(client, output.as_deref())?,
        Command::Bench { tool, arguments, calls, concurrency, any_answer, svg, .. } => {
            return bench::bench(
                client,
                &BenchOptions {
                    tool,
                    arguments: tool_arguments(client, tool, arguments)?,
                    calls: *calls,
                    concurrency,
                    any_answer: *any_answer,
                    svg: svg.as_deref(),
                    json: options.json,
                },
            );
        }
        // They have no connection.
        Command::Inspect { .. }
        | Command::Login(_)
        | Command::Logout { .. }
        | Command::Bridge { .. }
        | Command::Record { .. }
        | Command::Replay { .. }
        | Command::Trace { .. }
        | Command::Check(_)
        | Command::CheckRelay { .. }
        | Command::New(_)
        | Command::Man { .. }
        | Command::Completions { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn list(client: &Client, kinds: &[ListKind], options: &ConnectionOptions) -> Result<(), Failed> {
    let is_asked = !kinds.is_empty();
    let kinds = if is_asked { kinds } else { &ListKind::ALL };
    let mut missing = Vec::new();
    let has = |capability| client.capabilities().contains(capability);
    for kind in kinds {
        let is_offered = match kind {
            ListKind::Tools => has(Capability::Tools),
            ListKind::Prompts => has(Capability::Prompts),
            ListKind::Resources | ListKind::Templates => has(Capability::Resources),
        };
        if !is_offered {
            missing.push(kind.words());
            continue;
        }
        if !options.json {
            show::line(match kind {
                ListKind::Tools => "Tools",
                ListKind::Resources => "Resources",
                ListKind::Templates => "Resource templates",
                ListKind::Prompts => "Prompts",
            })?;
        }
        match kind {
            ListKind::Tools => {
                for it in block_on(client.all_tools().try_collect())? {
                    show_item(options, &it, &it.name, it.description.as_deref())?;
                }
            }
            ListKind::Resources => {
                for it in block_on(client.all_resources().try_collect())? {
                    show_item(options, &it, &it.uri, it.description.as_deref())?;
                }
            }
            ListKind::Templates => {
                for it in block_on(client.all_resource_templates().try_collect())? {
                    show_item(options, &it, &it.uri_template, it.description.as_deref())?;
                }
            }
            ListKind::Prompts => {
                for it in block_on(client.all_prompts().try_collect())? {
                    show_item(options, &it, &it.name, it.description.as_deref())?;
                }
            }
        }
    }
    if !options.quiet && (is_asked && !missing.is_empty() || missing.len() == kinds.len()) {
        show::note(&format!("the server offers no {}", missing.join(", no ")));
    }
    Ok(())
}

fn show_item<T: Encode>(
    options: &ConnectionOptions,
    item: &T,
    name: &str,
    description: Option<&str>,
) -> Result<(), Failed> {
    if options.json { show::json(item) } else { show::item(name, description) }
}

/// Reads the arguments of a tool by its schema.
fn tool_arguments(client: &Client, name: &str, given: &[String]) -> Result<Map<String, Value>, Failed> {
    let is_whole = matches!(given, [whole] if whole.starts_with(['{', '@']) || whole == "-");
    let schema = if given.is_empty() || is_whole {
        Value::Null
    } else {
        let tools = block_on(client.all_tools().try_collect())?;
        match tools.iter().find(|tool| tool.name == name) {
            Some(tool) => serde_json::to_value(&tool.input_schema)?,
            // It may be hidden; the server decides.
            None => Value::Null,
        }
    };
    arguments::of_tool(given, &schema)
}

fn call(client: &Client, name: &str, given: &[String], options: &ConnectionOptions) -> Result<(), Failed> {
    let arguments = tool_arguments(client, name, given)?;
    let peer = if options.quiet { (**client).clone() } else { client.logging(LoggingLevel::Info) };
    let quiet = options.quiet;
    let result = peer.call_tool(name, arguments)?.wait_with(|progress| {
        if !quiet {
            show::progress(&progress);
        }
    })?;
    if options.json {
        show::json(&result)?;
    } else if let (Some(structured), true) = (&result.structured_content, result.content.is_empty()) {
        show::pretty(&serde_json::to_value(structured)?)?;
    } else {
        show::content(&result.content)?;
    }
    if result.is_error() { Err(Failed::tool()) } else { Ok(()) }
}

/// How often it is checked whether the connection or the subscription has ended.
const LOOK: Duration = Duration::from_millis(200);

fn is_over(subscription: Option<&Subscription>) -> bool {
    subscription.is_some_and(Subscription::is_over)
}

fn subscribe(
    client: &Client,
    uris: &[String],
    count: Option<u64>,
    notifications: &Receiver<Value>,
    options: &ConnectionOptions,
) -> Result<(), Failed> {
    let is_modern = client.version().is_some_and(|version| version.era() == Era::Modern);
    // Held until the end: dropping it ends the subscription.
    let subscription = if is_modern {
        let has = |capability| client.capabilities().contains(capability).then_some(true);
        let filter = SubscriptionFilter {
            tools_list_changed: has(Capability::ToolsListChanged),
            prompts_list_changed: has(Capability::PromptsListChanged),
            resources_list_changed: has(Capability::ResourcesListChanged),
            resource_subscriptions: Some(uris.to_vec()).filter(|uris| !uris.is_empty()),
            ..SubscriptionFilter::default()
        };
        let subscription = client.listen(filter)?.wait()?;
        if let Some(missing) = subscription.missing().resource_subscriptions.filter(|missing| !missing.is_empty()) {
            return Err(Failed::refused(format!("the server does not notify of changes of {}", missing.join(", "))));
        }
        Some(subscription)
    } else {
        for uri in uris {
            client.subscribe(uri)?.wait()?;
        }
        None
    };
    if !options.quiet {
        show::note("subscribed");
    }
    let mut left = count;
    while left != Some(0) {
        match notifications.recv_timeout(LOOK) {
            Ok(notification) => show::line(&show::for_stdout_json(&notification.to_string()))?,
            Err(RecvTimeoutError::Timeout) if client.is_open() && !is_over(subscription.as_ref()) => continue,
            Err(_) => return Err(Failed::ended("the server has ended the subscription")),
        }
        left = left.map(|left| left - 1);
    }
    drop(subscription);
    Ok(())
}

fn generate(client: &Client, output: Option<&Path>) -> Result<(), Failed> {
    let tools = block_on(client.all_tools().try_collect())?;
    let tools: Vec<_> = tools.iter().map(ToolSchema::of).collect::<Result<_, _>>()?;
    let about = &client.server().server_info;
    let text = module(&format!("{} {}", about.name, about.version), &tools);
    match output {
        Some(path) => fs::write(path, text)
            .map_err(|error| Failed::usage(format!("{} cannot be written: {error}", path.display()))),
        None => show::line(text.trim_end()),
    }
}
