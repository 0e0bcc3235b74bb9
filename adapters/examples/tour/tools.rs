//! The stop where tools are called.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    connection::{ClientEnd, Progress, RequestOptions},
    schema::{CallToolParams, CallToolResult, LoggingLevel, Meta, TaskSupport, Tool, keys},
    wire::JsonObject,
};
use mcp_service::{CallError, Peer, Pending, Started};
use serde_json::Value;

use super::{
    arguments,
    route::Tour,
    scripts::{Script, Step},
    show,
};

/// A tool that says nothing for so long, or takes so long in all, is given up.
fn patience() -> RequestOptions {
    RequestOptions {
        idle_timeout: Some(Duration::from_secs(20)),
        total_timeout: Some(Duration::from_secs(120)),
        ..RequestOptions::default()
    }
}

/// How long tasks are kept.
const KEPT: Duration = Duration::from_secs(60);

/// Rounds after which a list that keeps changing is left alone.
const ROUNDS: usize = 5;

/// What came of a call: the result, and how often there was progress, if there can have been any.
type Called = (Result<CallToolResult, CallError>, Option<usize>);

pub(crate) fn visit(tour: &mut Tour) {
    tour.report.heading("tools");
    let mut script = Script::of(&tour.client.server().server_info.name, &tour.folder);
    let mut seen = HashSet::new();
    for _ in 0..ROUNDS {
        let changes = tour.heard.counts().tools_changed;
        let tools = tour.list("tools", tour.client.all_tools());
        let steps = script.steps(|name| tools.iter().any(|tool| tool.name == name) && !seen.contains(name));
        for step in steps {
            if tour.is_over() {
                return;
            }
            if step.needs_session() && !tour.has_session() {
                tour.report.skip(step.tool, "needs a session");
            } else if let Some(tool) = tools.iter().find(|tool| tool.name == step.tool) {
                follow(tour, &mut script, tool, &step);
            }
        }
        for tool in &tools {
            if seen.insert(tool.name.clone()) && !script.knows(&tool.name) && !tour.is_over() {
                try_out(tour, tool);
            }
        }
        // Some servers add tools once they know what the client can do.
        if !tour.heard.wait(Duration::from_millis(100), |counts| counts.tools_changed > changes) {
            return;
        }
    }
}

/// Makes a call of the script, and checks what comes of it.
fn follow(tour: &mut Tour, script: &mut Script, tool: &Tool, step: &Step) {
    let logged = tour.heard.counts().logged;
    let arguments = script.arguments(step);
    for &as_task in ways(tour, tool) {
        let (result, progress) = call(tour, tool, &arguments, as_task);
        let name = title(tool, &arguments, as_task);
        let code = result.as_ref().err().and_then(CallError::rpc).map(|error| error.code.0);
        let checked = match tour.report.call(&name, result, show::result) {
            Some(result) => {
                let heard = tour.heard.clone();
                let logs = |count| heard.wait(Duration::from_secs(2), |counts| counts.logged >= logged + count);
                script.check(step, &result, progress, logs)
            }
            None if step.refused() == code && code.is_some() => Ok(()),
            None => Err("there is no result".to_owned()),
        };
        tour.report.check(&name, checked);
    }
}

/// Calls a tool that nothing is known of, if that looks safe.
fn try_out(tour: &mut Tour, tool: &Tool) {
    match arguments::safe(tool) {
        Ok(arguments) => {
            for &as_task in ways(tour, tool) {
                let (result, _) = call(tour, tool, &arguments, as_task);
                tour.report.call(&title(tool, &arguments, as_task), result, show::result);
            }
        }
        Err(why) => tour.report.skip(&tool.name, why),
    }
}

/// How a tool can be called: by itself, as a task, or both. Without a session that is for the server to say.
fn ways(tour: &Tour, tool: &Tool) -> &'static [bool] {
    match tool.task_support() {
        _ if !tour.has_session() => &[false],
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

fn call(tour: &mut Tour, tool: &Tool, arguments: &Value, as_task: bool) -> Called {
    let (client, has_session) = (tour.client.with_options(patience()), tour.has_session());
    let mut count = 0;
    let mut on_progress = |progress: Progress<'_>| {
        count += 1;
        tour.report.progress(&tool.name, &progress);
    };
    let became_task = Arc::new(AtomicBool::new(false));
    let result = if as_task {
        run_task(&client, tool, arguments, &mut on_progress)
    } else {
        let is_task = became_task.clone();
        let call = call_plainly(&client, tool, arguments, has_session);
        call.map(|call| call.on_task(move |_| is_task.store(true, Ordering::Relaxed)))
            .and_then(|call| call.wait_with(on_progress))
    };
    // Of what has become a task by itself nobody says how far it is.
    (result, Some(count).filter(|_| !became_task.load(Ordering::Relaxed)))
}

/// Without a session every request says by itself which log messages it wants.
fn call_plainly(
    client: &Peer<ClientEnd>,
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

fn run_task(
    client: &Peer<ClientEnd>,
    tool: &Tool,
    arguments: &Value,
    on_progress: impl FnMut(Progress<'_>),
) -> Result<CallToolResult, CallError> {
    match client.call_tool_as_task(tool, arguments, Some(KEPT))?.wait()? {
        Started::Done(result) => Ok(result),
        Started::Task(task) => {
            task.get()?.wait()?;
            task.result()?.wait_with(on_progress)
        }
    }
}
