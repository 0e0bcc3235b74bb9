//! Requests of a client to its server.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientRole, SendError},
    protocol::{Capability, Method, ProtocolVersion},
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
use serde_core::{Serialize, de::DeserializeOwned};

use super::{pages::Pages, typed_result};
use crate::{
    outbound::{
        peer::Peer,
        pending::{Pending, decode},
    },
    tasks::handle::ResultOrTask,
};

/// Defines two methods for each list: one for a page, and one for all items.
macro_rules! lists {
    ($($name:ident, $all:ident: $Params:ident => $Result:ident { $items:ident: $Item:ty }, $what:literal;)*) => {
        $(
            #[doc = concat!("Sends a request for a page of the ", $what, ": the first page, or the page of a cursor.")]
            ///
            /// # Errors
            /// If the request is not allowed now. It was not sent then.
            pub fn $name(&self, cursor: Option<&str>) -> Result<Pending<$Result>, SendError> {
                self.request(&$Params { cursor: cursor.map(Into::into), ..$Params::default() })
            }

            #[doc = concat!("Lists all ", $what, ". Pages are requested as their items are taken.")]
            pub fn $all(&self) -> Pages<$Item> {
                let peer = self.clone();
                Pages::new(self, move |cursor| {
                    Ok(peer.$name(cursor)?.and_then(|page| Ok((page.$items, page.next_cursor))))
                })
            }
        )*
    };
}

/// Requests of a client to its server, in every revision. A request that the revision does not have is a [`SendError`].
impl Peer<ClientRole> {
    lists! {
        list_tools, all_tools: ListToolsParams => ListToolsResult { tools: Tool }, "tools";
        list_prompts, all_prompts: ListPromptsParams => ListPromptsResult { prompts: Prompt }, "prompts";
        list_resources, all_resources: ListResourcesParams => ListResourcesResult { resources: Resource }, "resources";
        list_resource_templates, all_resource_templates:
            ListResourceTemplatesParams => ListResourceTemplatesResult { resource_templates: ResourceTemplate },
            "templates of resources";
        list_skills, all_skills: ListSkillsParams => ListSkillsResult { skills: Skill },
            "skills (a server need not list every skill: see [`get_skill`](Self::get_skill))";
        list_tasks, all_tasks: ListTasksParams => ListTasksResult { tasks: Task },
            "tasks that the server runs for this client (2025-11-25)";
    }

    /// Calls a tool. The arguments are serialized as a JSON object; `()` means none.
    ///
    /// A failed call is no error here: see [`CallToolResult::is_error`]. To check structured results, see
    /// `OutputSchema`.
    ///
    /// If the server makes the call a task (2026-07-28), the task is followed until it has ended. Cancelling the call
    /// cancels the task, too. [`on_task`](Pending::on_task) observes its state.
    ///
    /// # Errors
    /// If the request is not allowed now, or the arguments are no object. It was not sent then.
    pub fn call_tool(&self, name: &str, arguments: impl Serialize) -> Result<Pending<CallToolResult>, SendError> {
        Ok(self.request(&call(name, arguments)?)?.about(name))
    }

    /// Calls a tool as [`call_tool`](Self::call_tool) does, and reads its result into a type. The value is the first of
    /// these that the type accepts:
    ///
    /// 1. the structured content,
    /// 2. the only content, if it is a text that is JSON,
    /// 3. that text itself, as a `String`, an `Option<String>` or an enum of unit variants accepts it,
    /// 4. null, if the result has no content at all.
    ///
    /// The rule is the same in every revision. A `String` reads the text `"yes"` without its quotes, since that is the
    /// JSON of a string, which older revisions have as a text only. For texts as they are, use
    /// [`call_tool`](Self::call_tool).
    ///
    /// The call of a tool that fails is an error here: [`CallError::ToolFailed`](crate::CallError::ToolFailed).
    ///
    /// ```
    /// use mcp_proto::connection::ClientRole;
    /// use mcp_service::{CallError, Peer};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Weather {
    ///     celsius: f64,
    /// }
    ///
    /// async fn temperature(server: &Peer<ClientRole>) -> Result<f64, CallError> {
    ///     let weather: Weather = server.call_tool_as("weather", serde_json::json!({"city": "Oslo"}))?.await?;
    ///     Ok(weather.celsius)
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`call_tool`](Self::call_tool).
    pub fn call_tool_as<T: DeserializeOwned + 'static>(
        &self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<Pending<T>, SendError> {
        Ok(self.call_tool(name, arguments)?.and_then(|result| typed_result::read(&result)))
    }

    /// Calls a tool in the way that it requires: as a task if it must be one (2025-11-25), otherwise directly. Without
    /// a session the server decides (2026-07-28).
    ///
    /// It returns a handle of the task, while [`call_tool`](Self::call_tool) follows the task to its end.
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

    /// Calls a tool as a task that the server keeps for `ttl`, or for a time that the server chooses (2025-11-25).
    /// Without a session a client cannot request a task, and this is [`run_tool`](Self::run_tool) (2026-07-28).
    ///
    /// # Errors
    /// As [`call_tool`](Self::call_tool), and if the tool does not [support](Tool::task_support) tasks.
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

    /// Follows a task that an earlier call of a tool has become (2026-07-28), also over another connection: only its id
    /// has to be kept. Cancelling the request does not end the task.
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    #[doc(alias = "resume")]
    pub fn follow_task(&self, id: &str) -> Result<Pending<CallToolResult>, SendError> {
        let method = Method::ExtGetTask.as_str();
        self.call((method, false), |conn, now, options| conn.follow_task(now, id, options), decode)
    }

    /// Gets a prompt. The arguments are serialized as a JSON object of texts; `()` means none.
    ///
    /// # Errors
    /// If the request is not allowed now, or the arguments are no object of texts. It was not sent then.
    pub fn get_prompt(&self, name: &str, arguments: impl Serialize) -> Result<Pending<GetPromptResult>, SendError> {
        let arguments = texts(arguments)?;
        Ok(self.request(&GetPromptParams { arguments, ..GetPromptParams::new(name) })?.about(name))
    }

    /// Reads a resource. See [`CallError::is_resource_not_found`](crate::CallError::is_resource_not_found).
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn read_resource(&self, uri: &str) -> Result<Pending<ReadResourceResult>, SendError> {
        Ok(self.request(&ReadResourceParams::new(uri))?.about(uri))
    }

    /// Subscribes to changes of a resource (up to 2025-11-25).
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn subscribe(&self, uri: &str) -> Result<Pending<EmptyResult>, SendError> {
        self.request(&SubscribeParams::new(uri))
    }

    /// Ends the subscription to a resource (up to 2025-11-25).
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn unsubscribe(&self, uri: &str) -> Result<Pending<EmptyResult>, SendError> {
        self.request(&UnsubscribeParams::new(uri))
    }

    /// Requests completions of the argument `name`, whose value so far is `value`. `known` has the other arguments: an
    /// object of texts, or `()`. They are sent since 2025-06-18.
    ///
    /// # Errors
    /// If the request is not allowed now, or `known` is no object of texts. It was not sent then.
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

    /// Sets the log level: the server sends log messages of this level and of more severe ones (up to 2025-11-25).
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn set_log_level(&self, level: LoggingLevel) -> Result<Pending<EmptyResult>, SendError> {
        self.request(&SetLevelParams::new(level))
    }
}

/// Serializes texts by name; `None` if there are none.
pub(crate) fn texts(texts: impl Serialize) -> Result<Option<Map<String>>, SendError> {
    let texts: Option<Map<String>> = Json::new(&texts)?.decode()?;
    Ok(texts.filter(|texts| !texts.is_empty()))
}

pub(crate) fn call(name: &str, arguments: impl Serialize) -> Result<CallToolParams, SendError> {
    let invalid = |error| SendError::Encode(format!("the arguments of the tool: {error}"));
    let arguments = Json::new(&arguments).map_err(invalid)?;
    let arguments = if arguments.is_null() { None } else { Some(JsonObject::try_from(arguments).map_err(invalid)?) };
    Ok(CallToolParams { arguments, ..CallToolParams::new(name) })
}
