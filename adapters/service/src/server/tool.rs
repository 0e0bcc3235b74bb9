//! Tools and their handlers.

use std::{fmt, sync::Arc};

use mcp_proto::{
    connection::ServerRole,
    protocol::{Capability, CapabilitySet, HeaderParam},
    schema::{CallToolResult, ContentBlock, TaskSupport, ToolAnnotations, is_object_schema},
    wire::{ErrorObject, JsonObject, RawJson},
};

use super::{
    call_params::CallParams,
    register_error::RegisterError,
    routes::{Request, Route},
    scopes::check_scopes,
    tasks::execution::TaskStart,
    tool_result::{IntoToolResult, ToolAnswer},
};
use crate::{
    driver_api::{
        deferred::Deferred,
        job::{HandlerKind, Job},
    },
    inbound::{
        context::Context,
        failure::Failure,
        handler::{Arguments, AsyncHandler, BadArguments, Call, Handler, signature::Described},
        rpc_result::RpcResult,
        shared_state::{HandlerState, State},
        state::SessionState,
    },
    json_schema::Checker,
    util::text_arguments::excerpt,
};

/// The longest name of a tool that another server runs, in bytes. Other names have at most 128.
const MAX_FORWARDED_NAME: usize = 512;

/// A tool and its handler.
///
/// The parameters of the handler are a [shared state](crate::State), arguments, and a [`Context`], in this order and
/// each of them optional. It returns anything that [can be a
/// result](IntoToolResult): a text, content, structured data, or a `Result` of these; or a future of that with one of
/// the constructors whose names end in `_async`. Arguments that do not match the schema never reach the handler. A
/// panic fails this one call. The text of an error reaches the model unless the service
/// [masks failures](crate::ServiceBuilder::mask_failures).
pub struct Tool<S: HandlerState = ()> {
    pub(crate) about: mcp_proto::schema::Tool,
    pub(super) requires: CapabilitySet,
    /// The scopes that a call needs.
    pub(super) scopes: Vec<String>,
    /// The time at which a call becomes a task (2026-07-28).
    pub(super) task_start: TaskStart,
    /// The code that runs it as a task, if it can be one.
    pub(super) tasks: Option<&'static TaskRoutes>,
    /// The arguments that are repeated in headers (2026-07-28 over HTTP), once it is registered.
    pub(super) headers: Vec<HeaderParam>,
    call: Call<ToolAnswer, S>,
    /// Whether the handler takes a [`Context`]. Another one cannot make requests to the client.
    pub(super) takes_context: bool,
    checks: Checks,
    /// Whether another server runs the tool, which checks names, arguments and results itself.
    is_forwarded: bool,
    /// Whether the schemas are not those of the application, so that checks with them have the limits of a peer's.
    has_foreign_schemas: bool,
}

/// The schemas of a tool, once it is registered.
#[derive(Default)]
struct Checks {
    input: Option<Checker>,
    output: Option<Checker>,
}

/// A tool that is called.
pub(super) struct ToolCall<'a> {
    pub(super) called: CallParams<'a>,
    pub(super) tool: Arc<Tool>,
    /// Whether the call may become a task (2026-07-28); `None` if this server or the era has no such tasks.
    pub(super) extension: Option<bool>,
}

/// Calls a tool.
type CallTool = fn(&Arc<SessionState<ServerRole>>, &Request<'_>, ToolCall<'_>) -> RpcResult<Option<Job>>;

/// The code that runs tools as tasks. Only tools that declare task support refer to it.
pub(super) struct TaskRoutes {
    /// Calls a tool, as a task or not.
    pub(super) call: CallTool,
    /// Handles requests about tasks.
    pub(super) route: Route,
}

impl<S: HandlerState> Tool<S> {
    /// Creates a tool whose input schema is generated from the arguments of its handler. This works for a handler
    /// without arguments, and with the feature `schemas` for every type with a schema. Then the doc comment of the type
    /// is the description of the tool, unless [`description`](Self::description) sets one, and those of the fields
    /// describe the arguments.
    ///
    /// ```
    /// # #[cfg(feature = "schemas")] {
    /// # use mcp_service::Tool;
    /// /// Says it again.
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Echo {
    ///     /// What to say.
    ///     message: String,
    /// }
    ///
    /// let tool = Tool::new("echo", |echo: Echo| echo.message);
    /// # }
    /// ```
    #[must_use]
    pub fn new<G, H>(name: impl Into<String>, handler: H) -> Self
    where
        G: Described,
        H: Handler<G, State = S, Output: IntoToolResult + 'static>,
    {
        Self::with_schema(name, schema_of::<G>(), handler).described()
    }

    /// Creates a tool as [`new`](Self::new) does, from a function that returns a future.
    ///
    /// ```
    /// use mcp_service::{Context, Tool};
    ///
    /// let tool = Tool::new_async("wait", async |context: Context| {
    ///     context.sleep(std::time::Duration::from_secs(1)).await?;
    ///     Ok::<_, mcp_service::CallError>("waited")
    /// });
    /// ```
    #[must_use]
    pub fn new_async<G, H>(name: impl Into<String>, handler: H) -> Self
    where
        G: Described,
        H: AsyncHandler<G, State = S, Output: IntoToolResult + 'static>,
    {
        Self::with_schema_async(name, schema_of::<G>(), handler).described()
    }

    /// Creates a tool with a JSON Schema for its arguments, which is sent unchanged. Its root must say `"type":
    /// "object"`.
    ///
    /// Arguments that the schema annotates with `x-mcp-header` are repeated in headers (2026-07-28 over HTTP), for
    /// proxies that route requests. A call whose headers differ from its arguments is refused.
    ///
    /// Arguments are checked against the schema. Without the feature `schemas` it can only contain the types of the
    /// members of an object, which of them are required, and whether others are allowed. With it, it can contain the
    /// keywords in common use, and with the feature `json-schema` all: see [`OutputSchema`](crate::OutputSchema).
    /// Registering a tool with another schema fails, and the error names the feature.
    #[must_use]
    pub fn with_schema<G, H>(name: impl Into<String>, schema: JsonObject, handler: H) -> Self
    where
        H: Handler<G, State = S, Output: IntoToolResult + 'static>,
    {
        let call = Call::new(handler, IntoToolResult::into_answer);
        Self::with_call(name.into(), schema, call, H::TAKES_CONTEXT).returns::<H::Output>()
    }

    /// Creates a tool as [`with_schema`](Self::with_schema) does, from a function that returns a future.
    #[must_use]
    pub fn with_schema_async<G, H>(name: impl Into<String>, schema: JsonObject, handler: H) -> Self
    where
        H: AsyncHandler<G, State = S, Output: IntoToolResult + 'static>,
    {
        let call = Call::new_async(handler, IntoToolResult::into_answer);
        Self::with_call(name.into(), schema, call, H::TAKES_CONTEXT).returns::<H::Output>()
    }

    /// Sets the description to that of the input schema.
    fn described(mut self) -> Self {
        let schema: Option<serde_json::Value> = self.about.input_schema.decode().ok();
        self.about.description = schema.and_then(|schema| Some(schema.get("description")?.as_str()?.to_owned()));
        self
    }

    fn with_call(name: String, schema: JsonObject, call: Call<ToolAnswer, S>, takes_context: bool) -> Self {
        Self {
            about: mcp_proto::schema::Tool::new(name, schema),
            requires: CapabilitySet::EMPTY,
            scopes: Vec::new(),
            task_start: TaskStart::Immediate,
            tasks: None,
            headers: Vec::new(),
            call,
            takes_context,
            checks: Checks::default(),
            is_forwarded: false,
            has_foreign_schemas: false,
        }
    }

    /// Sets the output schema to that of the type that the handler returns.
    fn returns<R: IntoToolResult>(mut self) -> Self {
        self.about.output_schema = R::output_schema();
        self
    }

    /// Sets the title, which is the name for users (2025-06-18).
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.about.title = Some(title.into());
        self
    }

    /// Sets the description for models.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.about.description = Some(description.into());
        self
    }

    /// Sets hints about the behaviour of the tool (2025-03-26).
    #[must_use]
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.about.annotations = Some(annotations);
        self
    }

    /// Makes a call of the tool a task only when its handler calls [`Context::become_task`](Context::become_task)
    /// (2026-07-28), and not at once. Until then the handler can make requests to the client as in other calls, and it
    /// can return a result without a task.
    #[must_use]
    pub fn defer_task(mut self) -> Self {
        self.task_start = TaskStart::Deferred;
        self
    }

    /// Requires a capability of the client. A call of a client without it fails before the handler runs: with the error
    /// -32021 (2026-07-28), or with a failed result that names the missing capability.
    #[must_use]
    pub fn requires(mut self, capability: Capability) -> Self {
        self.requires = self.requires.with(capability);
        self
    }

    /// Requires a scope of the sender, such as `files:write`. A call without it fails before the handler runs: over
    /// HTTP with the status 403 and a challenge that names all scopes of the tool, so that the client can request them.
    /// A batch (2025-03-26) with such a call is refused as a whole. If the head of the response was sent before, the
    /// call gets an error that names the scopes. Requests for the task that a call has become need the scopes, too.
    ///
    /// Scopes do not hide the tool from lists: a client that does not see the tool cannot request its scopes. To hide
    /// it, use [`visible`](crate::ServiceBuilder::visible).
    ///
    /// Scopes are those of the [principal](crate::RequestInfo::principal). A request over HTTP without a principal has
    /// none. Over pipes and sockets, whose drivers do not authenticate requests, scopes are not checked.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.push(scope.into());
        self
    }

    /// Sets the JSON Schema of structured results (2025-06-18), which is sent unchanged. Before 2026-07-28 structured
    /// results were objects: clients of a session get no schema without `"type": "object"` at its root, and other
    /// structured results only as text. A handler that returns `Structured` data has a schema already.
    ///
    /// Results are checked against it before they are sent. It has the same keywords as the schema of
    /// [arguments](Self::with_schema).
    #[must_use]
    pub fn output_schema(mut self, schema: JsonObject) -> Self {
        self.about.output_schema = Some(schema);
        self
    }

    /// Returns the tool with the state of its handler.
    pub(super) fn bind(self, state: S) -> Tool {
        let Self {
            about,
            requires,
            scopes,
            task_start,
            tasks,
            headers,
            call,
            takes_context,
            checks,
            is_forwarded,
            has_foreign_schemas,
        } = self;
        Tool {
            about,
            requires,
            scopes,
            task_start,
            tasks,
            headers,
            call: call.with_state(state),
            takes_context,
            checks,
            is_forwarded,
            has_foreign_schemas,
        }
    }
}

impl<S: Send + Sync + 'static> Tool<State<S>> {
    /// Sets the state of the handler: an `S` or an `Arc<S>`. Then the tool can be registered in any service.
    #[must_use]
    pub fn with_state(self, state: impl Into<State<S>>) -> Tool {
        self.bind(state.into())
    }
}

impl Tool {
    /// Creates a tool that another server runs. Its definition, arguments and results pass as they are.
    pub(crate) fn forwarded(about: mcp_proto::schema::Tool, call: Call<ToolAnswer>) -> Self {
        let tool = Self { is_forwarded: true, ..Self::with_call(String::new(), JsonObject::empty(), call, true) };
        match about.task_support() {
            TaskSupport::Forbidden => Self { about, ..tool },
            // This also links the code of tasks.
            _ => tool.about(|empty| *empty = about),
        }
    }

    /// Returns the same tool with another definition, whose handler is that of `self`, and with a function that is
    /// applied to its results.
    pub(super) fn mounted(
        self: &Arc<Self>,
        about: mcp_proto::schema::Tool,
        after: impl Fn(CallToolResult) -> CallToolResult + Send + Sync + 'static,
    ) -> Self {
        let (tool, after) = (self.clone(), Arc::new(after));
        let run = move |(): &(), arguments: Arguments<'_>, context: &Context| {
            let after = after.clone();
            let called = tool.call.call(arguments, context)?;
            Ok(called.map(move |answer| {
                answer.map(|answer| match answer {
                    ToolAnswer::Text(_) => answer,
                    ToolAnswer::Result(result) => ToolAnswer::of(after(*result)),
                })
            }))
        };
        Self {
            about,
            requires: self.requires,
            scopes: self.scopes.clone(),
            task_start: self.task_start,
            tasks: self.tasks,
            headers: Vec::new(),
            call: Call { kind: self.kind(), run: Box::new(run) },
            takes_context: self.takes_context,
            checks: Checks::default(),
            is_forwarded: self.is_forwarded,
            has_foreign_schemas: self.has_foreign_schemas,
        }
    }

    /// Makes checks with the schemas have the limits that those with schemas of peers have.
    #[cfg(feature = "openapi")]
    pub(crate) fn with_foreign_schemas(self) -> Self {
        Self { has_foreign_schemas: true, ..self }
    }

    /// Checks the tool, and compiles its schemas.
    pub(super) fn prepare(&mut self) -> Result<(), RegisterError> {
        if self.is_forwarded {
            let name = &self.about.name;
            if name.is_empty() || name.len() > MAX_FORWARDED_NAME || name.contains(char::is_control) {
                return Err(RegisterError::Name(name.clone()));
            }
            // Clients leave out a tool with invalid headers where it matters, which is over HTTP.
            self.headers = HeaderParam::of_schema(&RawJson::from(&self.about.input_schema)).unwrap_or_default();
            return Ok(());
        }
        if !self.about.has_advised_name() {
            return Err(RegisterError::Name(self.about.name.clone()));
        }
        check_scopes(&self.about.name, &self.scopes)?;
        let tool = &self.about.name;
        let error = |why: String| RegisterError::Schema { tool: tool.clone(), why };
        if !is_object_schema(&self.about.input_schema) {
            return Err(error("it does not say \"type\": \"object\" at its root".into()));
        }
        self.headers =
            HeaderParam::of_schema(&RawJson::from(&self.about.input_schema)).map_err(|why| error(why.to_string()))?;
        let is_ours = !self.has_foreign_schemas;
        let checker = |schema: &JsonObject| Checker::of(schema, is_ours).map_err(|why| error(why.to_string()));
        let input = Some(checker(&self.about.input_schema)?);
        let output = self.about.output_schema.as_ref().map(checker).transpose()?;
        self.checks = Checks { input, output };
        Ok(())
    }

    pub(super) const fn kind(&self) -> HandlerKind {
        self.call.kind
    }

    /// Runs the handler. Errors are reported in the way of the revision: as a result or as an error response.
    pub(super) fn run(self: &Arc<Self>, arguments: &RawJson<'_>, context: &Context) -> Deferred<RpcResult<ToolAnswer>> {
        match context.in_flight.arguments.get() {
            Some(replaced) => self.run_with(&RawJson::from(&**replaced), context),
            None => self.run_with(arguments, context),
        }
    }

    fn run_with(self: &Arc<Self>, arguments: &RawJson<'_>, context: &Context) -> Deferred<RpcResult<ToolAnswer>> {
        let called = self.check_arguments(arguments);
        match called.and_then(|()| self.call.call(Arguments::Json(arguments), context)).map(Deferred::try_take) {
            Ok(Ok(called)) => Deferred::ready(self.answer(called, context)),
            Ok(Err(running)) => {
                let (tool, context) = (self.clone(), context.clone());
                running.map(move |called| tool.answer(called, &context))
            }
            Err(BadArguments(why)) if context.version().reports_bad_arguments_as_result() => {
                Deferred::ready(Ok(ToolAnswer::failed(excerpt(&format_args!("Invalid arguments: {why}")))))
            }
            Err(BadArguments(why)) => {
                Deferred::ready(Err(ErrorObject::invalid_params(excerpt(&format_args!("Invalid arguments: {why}")))))
            }
        }
    }

    fn answer(&self, called: Result<ToolAnswer, Failure>, context: &Context) -> RpcResult<ToolAnswer> {
        match called {
            Ok(answer) => self.check_answer(answer),
            Err(failure) => context.masked(failure).split(context.version()).map(ToolAnswer::failed),
        }
    }

    fn check_arguments(&self, arguments: &RawJson<'_>) -> Result<(), BadArguments> {
        self.checks.input.as_ref().map_or(Ok(()), |checker| checker.check_text(arguments)).map_err(BadArguments)
    }

    /// Checks the result against the output schema.
    fn check_answer(&self, answer: ToolAnswer) -> RpcResult<ToolAnswer> {
        match answer {
            answer if self.is_forwarded => Ok(answer),
            ToolAnswer::Text(_) if self.about.output_schema.is_none() => Ok(answer),
            answer => self.check_result(mirrored(answer.into_result())).map(ToolAnswer::of),
        }
    }

    fn check_result(&self, result: CallToolResult) -> RpcResult<CallToolResult> {
        if result.is_error() || self.about.output_schema.is_none() {
            return Ok(result);
        }
        let Some(content) = &result.structured_content else {
            return Err(ErrorObject::internal("The tool has an output schema but no structured content"));
        };
        if !content.is_object() && self.about.output_schema.as_ref().is_some_and(is_object_schema) {
            return Err(ErrorObject::internal("The structured content is not an object"));
        }
        if let Some(checker) = &self.checks.output {
            checker.check_text(&content.into()).map_err(|why| {
                ErrorObject::internal(excerpt(&format_args!("The result does not fit the output schema: {why}")))
            })?;
        }
        Ok(result)
    }
}

fn schema_of<G: Described>() -> JsonObject {
    JsonObject::new(&G::schema()).unwrap_or_else(|_| JsonObject::empty())
}

/// Adds structured content as text, for clients that do not know structured content, and for models.
fn mirrored(mut result: CallToolResult) -> CallToolResult {
    if let Some(content) = &result.structured_content
        && result.content.is_empty()
    {
        result.content.push(ContentBlock::text(content.get()));
    }
    result
}

impl<S: HandlerState> fmt::Debug for Tool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("about", &self.about).finish_non_exhaustive()
    }
}
