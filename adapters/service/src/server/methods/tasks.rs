//! Tools that run as tasks, and what is asked about those.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerEnd,
    protocol::{Capability, Method},
    schema::{MissingRequiredClientCapability, TaskSupport},
    wire::{ErrorCode, ErrorObject, OwnedRawJson},
};

use super::{Desk, Request, tools::ToolCall};
use crate::{
    driver_api::job::Job,
    inbound::{answer::Answer, context::Context, state::Shared},
    server::{call_params::Called, tool_result::ToolAnswer},
};

/// Calls a tool.
type Call = fn(&Arc<Shared<ServerEnd>>, &Request<'_>, ToolCall<'_>) -> Answer<Option<Job>>;

/// What it takes to run tools as tasks. A tool has it that says whether it can.
pub(in crate::server) struct TaskDesk {
    /// Calls a tool, as a task or not.
    pub(super) call: Call,
    /// Answers what is asked about tasks.
    pub(super) answer: Desk,
}

impl TaskDesk {
    pub(in crate::server) const OPEN: &'static Self = &Self { call, answer };
}

fn answer(shared: &Arc<Shared<ServerEnd>>, method: Method, asked: &Request<'_>) -> Answer<Option<Job>> {
    match method {
        Method::Listen => shared.listen_to_tasks(asked),
        Method::ExtGetTask | Method::ExtUpdateTask | Method::ExtCancelTask => shared.asked_about_task(method, asked),
        _ => Ok(shared.asked_about_tasks(method, asked)),
    }
}

fn call(shared: &Arc<Shared<ServerEnd>>, asked: &Request<'_>, mut tool_call: ToolCall<'_>) -> Answer<Option<Job>> {
    let support = tool_call.tool.about.task_support();
    match (tool_call.extension, support) {
        (Some(false), TaskSupport::Required) => {
            let missing = [Capability::TasksExtension].into_iter().collect();
            return Err(MissingRequiredClientCapability::error(missing));
        }
        (Some(true), TaskSupport::Optional | TaskSupport::Required) => {
            let ToolCall { called: Called { arguments, meta, .. }, tool, .. } = tool_call;
            let (how, arguments) = ((tool.kind(), tool.beginning), OwnedRawJson::from(arguments));
            let run = move |context: &Context| {
                tool.run(&arguments.get(), context).map(|answer| answer.map(ToolAnswer::into_result))
            };
            return shared.work_on_task(asked, meta, how, run);
        }
        _ => {}
    }
    let has_tasks = || shared.has_tasks(asked.link, asked.key, Capability::TasksToolsCall);
    match (tool_call.called.task.take(), support) {
        (Some(task), TaskSupport::Optional | TaskSupport::Required) if has_tasks() => {
            let ToolCall { called: Called { arguments, meta, .. }, tool, .. } = tool_call;
            let (kind, arguments) = (tool.kind(), OwnedRawJson::from(arguments));
            let run = move |context: &Context| tool.run(&arguments.get(), context);
            Ok(Some(shared.work_as_task(asked, meta, task, kind, what_failed, run)))
        }
        (None, TaskSupport::Required) if has_tasks() => {
            let why = format!("{} has to be run as a task", tool_call.called.name);
            Err(ErrorObject::new(ErrorCode::METHOD_NOT_FOUND, why))
        }
        (task, _) => {
            let ToolCall { called, tool, asker, .. } = tool_call;
            shared.call_directly(asked, Called { task, ..called }, tool, asker)
        }
    }
}

/// What a task has to say that has a result and has failed all the same.
fn what_failed(answer: &ToolAnswer) -> Option<String> {
    let ToolAnswer::Result(result) = answer else { return None };
    let text = || result.content.iter().find_map(|content| content.as_text()).unwrap_or("The tool failed");
    result.is_error().then(|| text().to_owned())
}
