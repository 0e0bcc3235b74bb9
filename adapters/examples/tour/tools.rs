//! The stop that calls tools.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    connection::{ClientRole, Progress, RequestOptions},
    schema::{CallToolParams, CallToolResult, LoggingLevel, Meta, TaskSupport, Tool, keys},
    wire::JsonObject,
};
use mcp_service::{CallError, Peer, Pending, ResultOrTask};
use serde_json::Value;

use super::{
    arguments,
    route::Visit,
    scripts::{Script, Step},
    show,
};

/// The timeouts of a call: without progress, and in total.
fn patience() -> RequestOptions {
    RequestOptions {
        idle_timeout: Some(Duration::from_secs(20)),
        total_timeout: Some(Duration::from_secs(120)),
        ..RequestOptions::default()
    }
}

/// The time to live of tasks.
const KEPT: Duration = Duration::from_secs(60);

/// How long to wait for tools that a server adds after a call.
const PAUSE: Duration = Duration::from_millis(100);

/// How long to wait for the log messages of a server.
const LOG: Duration = Duration::from_secs(2);

/// The number of rounds after which a list that keeps changing is not read again.
const ROUNDS: usize = 5;

/// The outcome of a call: the result, and the number of progress notifications, if there can have been any.
type Called = (Result<CallToolResult, CallError>, Option<usize>);

pub(crate) async fn call_them(visit: &mut Visit) {
    visit.report.heading("tools");
    let mut script = Script::of(&visit.server.server_info.name, &visit.folder);
    let mut seen = HashSet::new();
    for _ in 0..ROUNDS {
        let changes = visit.heard.read(|counts| counts.tools_changed);
        let tools = visit.list("tools", visit.client.all_tools()).await;
        let steps = script.steps(|name| tools.iter().any(|tool| tool.name == name) && !seen.contains(name));
        for step in steps {
            if visit.is_over() {
                return;
            }
            if step.needs_session() && !visit.has_session() {
                visit.report.skip(step.tool, "needs a session");
            } else if let Some(tool) = tools.iter().find(|tool| tool.name == step.tool) {
                follow(visit, &mut script, tool, &step).await;
            }
        }
        for tool in &tools {
            if seen.insert(tool.name.clone()) && !script.knows(&tool.name) && !visit.is_over() {
                try_out(visit, tool).await;
            }
        }
        // Some servers add tools when they have the capabilities of the client.
        if !visit.heard.wait(&visit.client, PAUSE, |counts| counts.tools_changed > changes).await {
            return;
        }
    }
}

/// Makes a call of the script, and checks its outcome.
async fn follow(visit: &mut Visit, script: &mut Script, tool: &Tool, step: &Step) {
    let logged = visit.heard.read(|counts| counts.logged);
    let arguments = script.arguments(step);
    for &as_task in ways(visit, tool) {
        let (result, progress) = call(visit, tool, &arguments, as_task).await;
        let name = title(tool, &arguments, as_task);
        let code = result.as_ref().err().and_then(CallError::rpc).map(|error| error.code.0);
        let checked = match visit.report.call(&name, result, show::result) {
            Some(result) => {
                let (heard, client) = (&visit.heard, &visit.client);
                let logs = async |count| heard.wait(client, LOG, |counts| counts.logged >= logged + count).await;
                script.check(step, &result, progress, logs).await
            }
            None if step.refused() == code && code.is_some() => Ok(()),
            None => Err("there is no result".to_owned()),
        };
        visit.report.check(&name, checked);
    }
}

/// Calls a tool that is not in a script, if that looks safe.
async fn try_out(visit: &mut Visit, tool: &Tool) {
    match arguments::safe(tool) {
        Ok(arguments) => {
            for &as_task in ways(visit, tool) {
                let (result, _) = call(visit, tool, &arguments, as_task).await;
                visit.report.call(&title(tool, &arguments, as_task), result, show::result);
            }
        }
        Err(why) => visit.report.skip(&tool.name, why),
    }
}

/// Returns whether to call a tool plainly, as a task, or in both ways. Without a session the server decides that.
fn ways(visit: &Visit, tool: &Tool) -> &'static [bool] {
    match tool.task_support() {
        _ if !visit.has_session() => &[false],
        TaskSupport::Required => &[true],
        TaskSupport::Optional => &[false, true],
        _ => &[false],
    }
}

fn title(tool: &Tool, arguments: &Value, as_task: bool) -> String {
    let task = if as_task { " as task" } else { "" };
    let arguments = Some(arguments).filter(|arguments| arguments.as_object().is_some_and(|it| !it.is_empty()));
    let arguments = arguments.map(|arguments| format!(" {arguments}")).unwrap_or_default();
    format!("{}{task}{arguments}", tool.name)
}

async fn call(visit: &mut Visit, tool: &Tool, arguments: &Value, as_task: bool) -> Called {
    let (client, has_session) = (visit.client.with_options(patience()), visit.has_session());
    let mut count = 0;
    let mut on_progress = |progress: Progress<'_>| {
        count += 1;
        visit.report.progress(&tool.name, &progress);
    };
    let became_task = Arc::new(AtomicBool::new(false));
    let result = if as_task {
        run_task(&client, tool, arguments, &mut on_progress).await
    } else {
        let is_task = became_task.clone();
        match call_plainly(&client, tool, arguments, has_session) {
            Ok(call) => call.on_task(move |_| is_task.store(true, Ordering::Relaxed)).await_with(on_progress).await,
            Err(error) => Err(error),
        }
    };
    // A call that the server made a task reports no progress.
    (result, Some(count).filter(|_| !became_task.load(Ordering::Relaxed)))
}

/// Calls a tool. Without a session every request carries the level of its log messages.
fn call_plainly(
    client: &Peer<ClientRole>,
    tool: &Tool,
    arguments: &Value,
    has_session: bool,
) -> Result<Pending<CallToolResult>, CallError> {
    let bad = |error: serde_json::Error| CallError::Invalid(error.to_string());
    let mut params = CallToolParams::new(tool.name.as_str());
    params.arguments = Some(JsonObject::new(arguments).map_err(bad)?);
    if !has_session {
        let mut meta = Meta::new();
        meta.set(keys::LOG_LEVEL, LoggingLevel::Debug.as_str()).map_err(bad)?;
        params.meta = Some(meta);
    }
    Ok(client.request(&params)?)
}

async fn run_task(
    client: &Peer<ClientRole>,
    tool: &Tool,
    arguments: &Value,
    on_progress: impl FnMut(Progress<'_>),
) -> Result<CallToolResult, CallError> {
    match client.call_tool_as_task(tool, arguments, Some(KEPT))?.await? {
        ResultOrTask::Result(result) => Ok(result),
        ResultOrTask::Task(task) => {
            task.get()?.await?;
            task.result()?.await_with(on_progress).await
        }
    }
}
