//! The client side of a tour: it stands in for a model and a user, and counts the messages of the server.

use std::{
    env,
    error::Error,
    ffi::OsString,
    future::{Future, poll_fn},
    io,
    path::PathBuf,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use mcp_driver::Watched;
use mcp_proto::{
    connection::ClientRole,
    protocol::VersionSet,
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult, ElicitUrlParams,
        ElicitationCompleteParams, LogMessageParams, PromptsListChangedParams, ResourceUpdatedParams,
        ResourcesListChangedParams, Role, Root, SamplingContent, StopReason, TaskStatusParams, ToolUseContent,
        ToolsListChangedParams,
    },
};
use mcp_service::{Failure, Host, Peer, Roots, TaskPolicy};

use super::arguments;

/// Counters of the messages of the server that are not responses.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Watched<Counts>>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sampled: usize,
    pub(crate) filled_in: usize,
    pub(crate) opened: usize,
    pub(crate) logged: usize,
    pub(crate) tools_changed: usize,
    pub(crate) lists_changed: usize,
    pub(crate) tasks_changed: usize,
    pub(crate) completed: usize,
    pub(crate) updated: Vec<String>,
    /// The errors of the server, and those that it has reported.
    pub(crate) faults: Vec<String>,
}

impl Heard {
    pub(crate) fn read<R>(&self, f: impl FnOnce(&Counts) -> R) -> R {
        self.0.read(f)
    }

    pub(crate) fn note(&self, f: impl FnOnce(&mut Counts)) {
        self.0.update(f);
    }

    /// Waits until a condition on the counters holds, at most for a time. Returns whether it holds.
    pub(crate) async fn wait(
        &self,
        client: &Peer<ClientRole>,
        patience: Duration,
        condition: impl Fn(&Counts) -> bool,
    ) -> bool {
        let mut heard = pin!(self.0.wait_for(|counts| condition(counts).then_some(())));
        let mut late = client.sleep(patience);
        poll_fn(|cx| match heard.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending => Pin::new(&mut late).poll(cx).map(|_| false),
        })
        .await
    }
}

impl Counts {
    /// Formats the counters of requests of the server.
    pub(crate) fn server_requests(&self) -> String {
        format!("{} prompts for the model, {} forms, {} pages", self.sampled, self.filled_in, self.opened)
    }

    /// Formats the counters of notifications of the server.
    pub(crate) fn news(&self) -> String {
        let lists = self.tools_changed + self.lists_changed;
        let Self { logged, tasks_changed, completed, updated, .. } = self;
        let updated = updated.len();
        format!(
            "{logged} log messages, {updated} updates, {lists} lists and {tasks_changed} tasks changed, {completed} pages done"
        )
    }
}

/// Returns the folders that the server's command line names, or else the current one.
pub(crate) fn folders(args: &[OsString]) -> io::Result<Vec<PathBuf>> {
    let named = args.iter().map(PathBuf::from).filter(|path| path.is_dir()).collect::<Vec<_>>();
    let folders = if named.is_empty() { vec![env::current_dir()?] } else { named };
    folders.iter().map(|folder| folder.canonicalize()).collect()
}

/// Builds a host with all capabilities, with these folders as its roots.
pub(crate) fn host(
    name: &str,
    heard: &Heard,
    folders: &[PathBuf],
    versions: VersionSet,
) -> Result<Host, Box<dyn Error>> {
    let roots = folders.iter().map(|folder| Root::new(uri(folder)));
    let listen = || heard.clone();
    let (sampling, form, page) = (listen(), listen(), listen());
    let (logs, tools, prompts, resources, updates) = (listen(), listen(), listen(), listen(), listen());
    let (tasks, completed, faults) = (listen(), listen(), listen());
    Ok(Host::builder(name, env!("CARGO_PKG_VERSION"))
        .versions(versions)
        .roots(&Roots::new(roots)?)
        .sampling(move |params, _| sample(&sampling, params))
        .sampling_with_tools()
        .sampling_with_context()
        .elicitation(move |params, _| fill_in(&form, params))
        .elicitation_url(move |params: ElicitUrlParams, _| {
            page.note(|counts| counts.opened += 1);
            // A real client shows the user the address before it opens anything.
            Ok::<_, Failure>(if params.url.is_empty() { ElicitAction::Decline } else { ElicitAction::Accept })
        })
        .tasks(TaskPolicy::default())
        .on(move |_: LogMessageParams, _| logs.note(|counts| counts.logged += 1))
        .on(move |_: ToolsListChangedParams, _| tools.note(|counts| counts.tools_changed += 1))
        .on(move |_: PromptsListChangedParams, _| prompts.note(|counts| counts.lists_changed += 1))
        .on(move |_: ResourcesListChangedParams, _| resources.note(|counts| counts.lists_changed += 1))
        .on(move |updated: ResourceUpdatedParams, _| updates.note(|counts| counts.updated.push(updated.uri)))
        .on(move |_: TaskStatusParams, _| tasks.note(|counts| counts.tasks_changed += 1))
        .on(move |_: ElicitationCompleteParams, _| completed.note(|counts| counts.completed += 1))
        .on_fault(move |fault| faults.note(|counts| counts.faults.push(fault.to_string())))
        .build())
}

/// Returns the URI of a folder.
fn uri(folder: &std::path::Path) -> String {
    let path = folder.to_string_lossy();
    // Of `\\?\C:\folder`, the form of Windows, the URI is `file:///C:/folder`.
    let path = path.strip_prefix(r"\\?\").unwrap_or(&path);
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "file:///" });
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(char::from(byte)),
            b'\\' | b':' if cfg!(windows) => uri.push(if byte == b':' { ':' } else { '/' }),
            _ => uri += &format!("%{byte:02X}"),
        }
    }
    uri
}

/// Stands in for a model: it uses the first tool that it is given, once.
fn sample(heard: &Heard, params: CreateMessageParams) -> Result<CreateMessageResult, Failure> {
    heard.note(|counts| counts.sampled += 1);
    let is_answered = |content: &SamplingContent| matches!(content, SamplingContent::ToolResult(_));
    let last = params.messages.last().ok_or("there is nothing to answer")?;
    let tool = params.tools.iter().flatten().next().filter(|_| !last.content.iter().any(is_answered));
    let (content, stop) = match tool {
        Some(tool) => {
            let input = arguments::generate(&tool.input_schema.decode()?).ok_or("the tool cannot be used")?;
            let input = mcp_proto::wire::JsonObject::new(&input)?;
            (ToolUseContent::new("use-1", tool.name.as_str(), input).into(), StopReason::ToolUse)
        }
        None => (SamplingContent::text("Forty-two."), StopReason::EndTurn),
    };
    Ok(CreateMessageResult { stop_reason: Some(stop), ..CreateMessageResult::new(Role::Assistant, content, "tour") })
}

/// Fills in a form, except for fields with a default.
fn fill_in(heard: &Heard, params: ElicitFormParams) -> Result<ElicitResult, Failure> {
    heard.note(|counts| counts.filled_in += 1);
    let form = serde_json::to_value(&params.requested_schema)?;
    let content = arguments::generate(&form).ok_or("the form cannot be filled in")?;
    Ok(ElicitResult { content: Some(serde_json::from_value(content)?), ..ElicitResult::new(ElicitAction::Accept) })
}
