//! What a client asks its server.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientRole, SendError},
    protocol::{Capability, ProtocolVersion},
    schema::{
        CallToolParams, CallToolResult, CompleteParams, CompleteResult, CompletionArgument, CompletionContext,
        CompletionReference, EmptyResult, GetPromptParams, GetPromptResult, ListPromptsParams, ListPromptsResult,
        ListResourceTemplatesParams, ListResourceTemplatesResult, ListResourcesParams, ListResourcesResult,
        ListSkillsParams, ListSkillsResult, ListTasksParams, ListTasksResult, ListToolsParams, ListToolsResult,
        LoggingLevel, Map, Prompt, ReadResourceParams, ReadResourceResult, Resource, ResourceTemplate, SetLevelParams,
        Skill, SubscribeParams, Task, TaskMetadata, TaskSupport, Tool, UnsubscribeParams,
    },
    wire::{Json, JsonObject},
};
use serde_core::Serialize;

use super::pages::Pages;
use crate::{
    outbound::{
        peer::Peer,
        pending::{Pending, decode},
    },
    tasks::handle::ResultOrTask,
};

/// One method for each list: a page of it, and all of it.
macro_rules! lists {
    ($($name:ident, $all:ident: $Params:ident => $Result:ident { $items:ident: $Item:ty }, $what:literal;)*) => {
        $(
            #[doc = concat!("A page of the ", $what, ": the first one, or the one that a cursor leads to.")]
            ///
            /// # Errors
            /// If it is not allowed now; nothing has been sent then.
            pub fn $name(&self, cursor: Option<&str>) -> Result<Pending<$Result>, SendError> {
                self.request(&$Params { cursor: cursor.map(Into::into), ..$Params::default() })
            }

            #[doc = concat!("All ", $what, ", page by page as far as they are looked at.")]
            pub fn $all(&self) -> Pages<$Item> {
                let peer = self.clone();
                Pages::new(self, move |cursor| {
                    Ok(peer.$name(cursor)?.and_then(|page| Ok((page.$items, page.next_cursor))))
                })
            }
        )*
    };
}

/// What a client asks its server, whatever the revision. What a revision does not have is a [`SendError`].
impl Peer<ClientRole> {
    lists! {
        list_tools, all_tools: ListToolsParams => ListToolsResult { tools: Tool }, "tools";
        list_prompts, all_prompts: ListPromptsParams => ListPromptsResult { prompts: Prompt }, "prompts";
        list_resources, all_resources: ListResourcesParams => ListResourcesResult { resources: Resource }, "resources";
        list_resource_templates, all_resource_templates:
            ListResourceTemplatesParams => ListResourceTemplatesResult { resource_templates: ResourceTemplate },
            "templates of resources";
        list_skills, all_skills: ListSkillsParams => ListSkillsResult { skills: Skill },
            "skills. A server need not list all that it has: see [`get_skill`](Self::get_skill)";
        list_tasks, all_tasks: ListTasksParams => ListTasksResult { tasks: Task }, "tasks that the server runs for us (2025-11-25)";
    }

    /// Calls a tool. The arguments are written as a JSON object; `()` stands for none.
    ///
    /// A tool that fails is no error here: see [`CallToolResult::is_error`]. To have structured results checked, see
    /// `OutputSchema`.
    ///
    /// If the server makes a task of it (2026-07-28), that is followed until it is done, and goes with this call: giving up on
    /// the call ends the task, too. [`on_task`](Pending::on_task) shows how it stands meanwhile.
    ///
    /// # Errors
    /// If it is not allowed now, or the arguments are no object; nothing has been sent then.
    pub fn call_tool(&self, name: &str, arguments: impl Serialize) -> Result<Pending<CallToolResult>, SendError> {
        self.request(&call(name, arguments)?)
    }

    /// Calls a tool in the way that it has to be called: as a task where that is required (2025-11-25), else directly. Without a
    /// session it is the server that decides (2026-07-28).
    ///
    /// This hands a task out, where [`call_tool`](Self::call_tool) follows it to its end.
    ///
    /// # Errors
    /// As [`call_tool`](Self::call_tool).
    pub fn run_tool(
        &self,
        tool: &Tool,
        arguments: impl Serialize,
    ) -> Result<Pending<ResultOrTask<CallToolResult, ClientRole>>, SendError> {
        let as_task = *tool.task_support() == TaskSupport::Required
            && self.version() == Some(ProtocolVersion::V2025_11_25)
            && self.capabilities().contains(Capability::TasksToolsCall);
        let task = as_task.then(TaskMetadata::default);
        self.request_as_task(&CallToolParams { task, ..call(&tool.name, arguments)? })
    }

    /// Calls a tool as a task that the server keeps for `ttl`, or for as long as it likes (2025-11-25). Without a
    /// session a client cannot request a task, and this is [`run_tool`](Self::run_tool) (2026-07-28).
    ///
    /// # Errors
    /// As [`call_tool`](Self::call_tool), and if the tool does not [support](Tool::task_support) it.
    pub fn call_tool_as_task(
        &self,
        tool: &Tool,
        arguments: impl Serialize,
        ttl: Option<Duration>,
    ) -> Result<Pending<ResultOrTask<CallToolResult, ClientRole>>, SendError> {
        if self.is_modern() {
            return self.run_tool(tool, arguments);
        }
        if !matches!(tool.task_support(), TaskSupport::Optional | TaskSupport::Required) {
            return Err(SendError::Undeclared(Capability::TasksToolsCall));
        }
        let ttl = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        let task = Some(TaskMetadata { ttl, ..TaskMetadata::default() });
        self.request_as_task(&CallToolParams { task, ..call(&tool.name, arguments)? })
    }

    /// Follows a task that an earlier call of a tool has become (2026-07-28), perhaps over another connection: only its id has
    /// to be kept. Giving up on this does not end the task.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    #[doc(alias = "resume")]
    pub fn follow_task(&self, id: &str) -> Result<Pending<CallToolResult>, SendError> {
        self.call(false, |conn, now, options| conn.follow_task(now, id, options), decode)
    }

    /// Fills in a prompt. The arguments are written as a JSON object of texts; `()` stands for none.
    ///
    /// # Errors
    /// If it is not allowed now, or the arguments are no object of texts; nothing has been sent then.
    pub fn get_prompt(&self, name: &str, arguments: impl Serialize) -> Result<Pending<GetPromptResult>, SendError> {
        let arguments = texts(arguments)?;
        self.request(&GetPromptParams { arguments, ..GetPromptParams::new(name) })
    }

    /// Reads a resource. See [`CallError::is_resource_not_found`](crate::CallError::is_resource_not_found).
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn read_resource(&self, uri: &str) -> Result<Pending<ReadResourceResult>, SendError> {
        self.request(&ReadResourceParams::new(uri))
    }

    /// Wants to hear when a resource changes (up to 2025-11-25).
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn subscribe(&self, uri: &str) -> Result<Pending<EmptyResult>, SendError> {
        self.request(&SubscribeParams::new(uri))
    }

    /// Does not want to hear any more when a resource changes (up to 2025-11-25).
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn unsubscribe(&self, uri: &str) -> Result<Pending<EmptyResult>, SendError> {
        self.request(&UnsubscribeParams::new(uri))
    }

    /// Asks for proposals for the argument `name`, of which `value` is written so far, when the arguments `known` are
    /// already filled in: an object of texts, or `()`. What is known is only told since 2025-06-18.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn complete(
        &self,
        reference: impl Into<CompletionReference>,
        name: &str,
        value: &str,
        known: impl Serialize,
    ) -> Result<Pending<CompleteResult>, SendError> {
        let context = texts(known)?;
        let context = context.map(|known| CompletionContext { arguments: Some(known), ..CompletionContext::default() });
        let argument = CompletionArgument::new(name, value);
        self.request(&CompleteParams { context, ..CompleteParams::new(reference, argument) })
    }

    /// Wants log messages of this level and of more severe ones (up to 2025-11-25).
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn set_log_level(&self, level: LoggingLevel) -> Result<Pending<EmptyResult>, SendError> {
        self.request(&SetLevelParams::new(level))
    }
}

/// Texts by name, if there are any.
fn texts(texts: impl Serialize) -> Result<Option<Map<String>>, SendError> {
    let texts: Option<Map<String>> = Json::new(&texts)?.decode()?;
    Ok(texts.filter(|texts| !texts.is_empty()))
}

fn call(name: &str, arguments: impl Serialize) -> Result<CallToolParams, SendError> {
    let arguments = Json::new(&arguments)?;
    let arguments = if arguments.is_null() { None } else { Some(JsonObject::try_from(arguments)?) };
    Ok(CallToolParams { arguments, ..CallToolParams::new(name) })
}
