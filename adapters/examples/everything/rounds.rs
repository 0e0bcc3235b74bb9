//! Tools and a prompt that name their input requests: the fixtures of 2026-07-28. They also work in sessions.

use mcp_proto::{
    protocol::Capability,
    schema::{
        CreateMessageParams, ElicitFormParams, ElicitParams, ElicitResult, ElicitSchema, InputRequest, ListRootsParams,
        ListRootsResult, LoggingLevel, SamplingContent, SamplingMessage,
    },
};
use mcp_service::{ClientResponses, Context, Failure, Prompt, ServiceBuilder, Tool};
use serde_json::{Value, json};

/// An input request with its name.
pub(super) type Named = (&'static str, InputRequest);

pub(super) fn register(builder: ServiceBuilder) -> ServiceBuilder {
    builder
        .tool(
            Tool::new("test_missing_capability", || "The client has a model.")
                .requires(Capability::Sampling)
                .description("Works only for clients with a model"),
        )
        .tool(Tool::new("test_logging_tool", log).description("Logs, if the request sets a log level"))
        .tool(Tool::new("test_streaming_elicitation", elicitation).description("Requests a name from the user"))
        .tool(
            Tool::new("test_input_required_result_elicitation", elicitation)
                .description("Requests a name from the user"),
        )
        .tool(Tool::new("test_input_required_result_sampling", sampling).description("Samples the name of a capital"))
        .tool(Tool::new("test_input_required_result_list_roots", roots).description("Requests the roots of the client"))
        .tool(
            Tool::new("test_input_required_result_request_state", confirm)
                .description("Requests confirmation, and recognizes its own state"),
        )
        .tool(
            Tool::new("test_input_required_result_tampered_state", confirm)
                .description("Requests confirmation, and refuses a state that is not its own"),
        )
        .tool(
            Tool::new("test_input_required_result_multiple_inputs", several)
                .description("Requests input from user, model and client at once"),
        )
        .tool(
            Tool::new("test_input_required_result_multi_round", two_rounds).description("Requests input in two rounds"),
        )
        .tool(
            Tool::new("test_input_required_result_capabilities", whoever_can)
                .description("Requests only the input that the client supports"),
        )
        .prompt(
            Prompt::new("test_input_required_result_prompt", |context: Context| {
                let requested = text_request("user_context", "What context should the prompt use?", "context")?;
                let answers = context.request_inputs([requested]).wait()?;
                Ok::<_, Failure>(format!("Use this context: {}", text(&answers, "user_context", "context")?))
            })
            .description("Requests the subject from the user"),
        )
}

fn log(context: Context) -> Result<&'static str, Failure> {
    context.log(LoggingLevel::Info, None, "The tool runs").wait()?;
    Ok("The message is logged if the request sets a log level.")
}

fn elicitation(context: Context) -> Result<String, Failure> {
    let answers = context.request_inputs([name_request()?]).wait()?;
    Ok(format!("Hello, {}!", text(&answers, "user_name", "name")?))
}

fn sampling(context: Context) -> Result<String, Failure> {
    let answers =
        context.request_inputs([model_request("capital_question", "What is the capital of France?", 100)]).wait()?;
    said(&answers, "capital_question")
}

fn roots(context: Context) -> Result<String, Failure> {
    let answers = context.request_inputs([roots_request()]).wait()?;
    Ok(listed(&answers.get::<ListRootsParams>("client_roots")?))
}

fn confirm(context: Context) -> Result<String, Failure> {
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
    let answers = context.request_inputs([input_request("confirm", "Please confirm", schema)?]).wait()?;
    let answer = answers.get::<ElicitParams>("confirm")?;
    Ok(format!("state-ok, ok: {}", member(&answer, "ok").unwrap_or(Value::Null)))
}

fn several(context: Context) -> Result<String, Failure> {
    let greeting = model_request("greeting", "Generate a greeting", 50);
    let answers = context.request_inputs([name_request()?, greeting, roots_request()]).wait()?;
    let name = text(&answers, "user_name", "name")?;
    let roots = listed(&answers.get::<ListRootsParams>("client_roots")?);
    Ok(format!("{name}: {} {roots}", said(&answers, "greeting")?))
}

fn two_rounds(context: Context) -> Result<String, Failure> {
    let first = context.request_inputs([text_request("step1", "Step 1: What is your name?", "name")?]).wait()?;
    let second =
        context.request_inputs([text_request("step2", "Step 2: What is your favorite color?", "color")?]).wait()?;
    Ok(format!("{} likes {}", text(&first, "step1", "name")?, text(&second, "step2", "color")?))
}

fn whoever_can(context: Context) -> Result<String, Failure> {
    let declared = context.info().client_capabilities.set();
    let can = |capability| declared.contains(capability);
    let mut input_requests: Vec<Named> = Vec::new();
    if can(Capability::ElicitationForm) {
        input_requests.push(name_request()?);
    }
    if can(Capability::Sampling) {
        input_requests.push(model_request("greeting", "Generate a greeting", 50));
    }
    if can(Capability::Roots) {
        input_requests.push(roots_request());
    }
    let names: Vec<&str> = input_requests.iter().map(|(name, _)| *name).collect();
    context.request_inputs(input_requests).wait()?;
    Ok(format!("Answered: [{}]", names.join(", ")))
}

fn input_request(name: &'static str, message: &str, schema: Value) -> Result<Named, Failure> {
    let schema: ElicitSchema = serde_json::from_value(schema)?;
    Ok((name, ElicitParams::from(ElicitFormParams::new(message, schema)).into()))
}

pub(super) fn text_request(name: &'static str, message: &str, field: &str) -> Result<Named, Failure> {
    input_request(
        name,
        message,
        json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}),
    )
}

pub(super) fn name_request() -> Result<Named, Failure> {
    text_request("user_name", "What is your name?", "name")
}

fn model_request(name: &'static str, requested: &str, tokens: u64) -> Named {
    (name, CreateMessageParams::new([SamplingMessage::user(requested)], tokens).into())
}

fn roots_request() -> Named {
    ("client_roots", ListRootsParams::default().into())
}

/// Returns the value of a field of a form, or nothing if there is no form.
fn member(answer: &ElicitResult, field: &str) -> Option<Value> {
    serde_json::to_value(answer.content.as_ref()?.get(field)?).ok()
}

pub(super) fn text(answers: &ClientResponses, name: &str, field: &str) -> Result<String, Failure> {
    let answer = answers.get::<ElicitParams>(name)?;
    let text = member(&answer, field).and_then(|value| value.as_str().map(str::to_owned));
    text.ok_or_else(|| Failure::new(format!("There is no input from the user: {}", answer.action)))
}

/// Returns the text that the model generated.
fn said(answers: &ClientResponses, name: &str) -> Result<String, Failure> {
    let answer = answers.get::<CreateMessageParams>(name)?;
    let texts = answer.content.iter().filter_map(|content| match content {
        SamplingContent::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

fn listed(roots: &ListRootsResult) -> String {
    let names = roots.roots.iter().map(|root| root.name.as_deref().unwrap_or(&root.uri)).collect::<Vec<_>>();
    format!("Roots: {}", names.join(", "))
}
