//! Tools that send requests to the client before they return.

use mcp_proto::{
    schema::{
        ContentBlock, CreateMessageParams, CreateMessageResult, ElicitResult, ElicitSchema, ListRootsResult, OneOrMany,
        SamplingContent, SamplingMessage, ToolResultContent, ToolUseContent,
    },
    wire::JsonObject,
};
use mcp_service::{Context, Failure, ServiceBuilder, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The maximum number of tokens of a response of the model.
const TOKENS: u64 = 100;

/// The maximum number of rounds in which the model may use tools.
const ROUNDS: usize = 10;

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    /// The prompt for the model.
    prompt: String,
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// The message for the user.
    message: String,
}

#[derive(Deserialize)]
struct Lookup {
    query: String,
}

pub(super) fn register(builder: ServiceBuilder) -> ServiceBuilder {
    builder
        .tool(Tool::new_async("test_sampling", sampling).description("Samples from the client's model"))
        .tool(
            Tool::new_async("test_sampling_tools", sampling_tools)
                .description("Samples from the client's model, which may use a tool"),
        )
        .tool(Tool::new_async("test_elicitation", elicitation).description("Requests user data with a form"))
        .tool(
            Tool::new_async("test_elicitation_sep1034_defaults", |context: Context| completed(context, defaults()))
                .description("Shows the client's user a form that is filled in already"),
        )
        .tool(
            Tool::new_async("test_elicitation_sep1330_enums", |context: Context| completed(context, enums()))
                .description("Shows the client's user a form with choices of every kind"),
        )
        .tool(Tool::new_async("test_url_elicitation", url).description("Sends the client's user to a page"))
        .tool(Tool::new_async("test_roots", roots).description("Requests the roots of the client"))
}

async fn sampling(prompt: Prompt, context: Context) -> Result<String, Failure> {
    let messages = vec![SamplingMessage::user(prompt.prompt.as_str())];
    let answer = context.sample(CreateMessageParams::new(messages, TOKENS)).await?;
    Ok(response(&answer))
}

async fn sampling_tools(prompt: Prompt, context: Context) -> Result<String, Failure> {
    let schema = JsonObject::new(&json!({
        "type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]
    }))?;
    let mut lookup = mcp_proto::schema::Tool::new("lookup", schema);
    lookup.description = Some("Looks something up".to_owned());
    let mut messages = vec![SamplingMessage::user(prompt.prompt.as_str())];
    for _ in 0..ROUNDS {
        let tools = Some(vec![lookup.clone()]);
        let params = CreateMessageParams { tools, ..CreateMessageParams::new(messages.clone(), TOKENS) };
        let answer = context.sample(params).await?;
        let uses: Vec<&ToolUseContent> = answer
            .content
            .iter()
            .filter_map(|content| if let SamplingContent::ToolUse(used) = content { Some(used) } else { None })
            .collect();
        if uses.is_empty() {
            return Ok(response(&answer));
        }
        let results = uses.into_iter().map(look_up).collect::<Result<Vec<_>, _>>()?;
        messages.push(SamplingMessage::assistant(answer.content.clone()));
        messages.push(SamplingMessage::user(OneOrMany::Many(results)));
    }
    Err(Failure::new("The model does not stop using tools"))
}

/// Runs the tool that is offered to the model.
fn look_up(used: &ToolUseContent) -> Result<SamplingContent, Failure> {
    let lookup: Lookup = used.input.decode()?;
    let found = ContentBlock::text(format!("looked up: {}", lookup.query));
    Ok(ToolResultContent::new(used.id.as_str(), vec![found]).into())
}

fn response(answer: &CreateMessageResult) -> String {
    let texts = answer.content.iter().filter_map(|content| match content {
        SamplingContent::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    format!("LLM response: {}", texts.collect::<Vec<_>>().join("\n"))
}

async fn elicitation(message: Message, context: Context) -> Result<String, Failure> {
    let schema = form(json!({
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    }))?;
    let answer = context.elicit(message.message, schema).await?;
    Ok(outcome("User response", &answer))
}

async fn completed(context: Context, schema: Value) -> Result<String, Failure> {
    let answer = context.elicit("Please fill in this form", form(schema)?).await?;
    Ok(outcome("Elicitation completed", &answer))
}

fn form(schema: Value) -> Result<ElicitSchema, Failure> {
    Ok(serde_json::from_value(schema)?)
}

fn outcome(start: &str, answer: &ElicitResult) -> String {
    let content = answer.content.as_ref().and_then(|content| serde_json::to_string(content).ok());
    let content = content.map(|content| format!(", content={content}")).unwrap_or_default();
    format!("{start}: action={}{content}", answer.action)
}

fn defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Your name", "default": "John Doe"},
            "age": {"type": "integer", "description": "Your age", "default": 30},
            "score": {"type": "number", "description": "Your score", "default": 95.5},
            "status": {
                "type": "string", "description": "How you are", "enum": ["active", "inactive", "pending"],
                "default": "active",
            },
            "verified": {"type": "boolean", "description": "Whether that is certain", "default": true},
        },
    })
}

fn enums() -> Value {
    let titled = |titles: [&str; 3]| -> Vec<Value> {
        let values = ["value1", "value2", "value3"];
        values.iter().zip(titles).map(|(value, title)| json!({"const": value, "title": title})).collect()
    };
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
            "titledSingle": {"type": "string", "oneOf": titled(["First Option", "Second Option", "Third Option"])},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
            "titledMulti": {
                "type": "array",
                "items": {"anyOf": titled(["First Choice", "Second Choice", "Third Choice"])},
            },
        },
    })
}

async fn url(context: Context) -> Result<String, Failure> {
    let visit = context.elicit_url("Please sign in", "https://example.com/sign-in").await?;
    let action = visit.action.clone();
    // A real server sends this notification when the user returns from the page.
    visit.complete()?;
    Ok(format!("Url elicitation: action={action}"))
}

async fn roots(context: Context) -> Result<String, Failure> {
    Ok(serde_json::to_string(&ListRootsResult::new(context.roots().await?))?)
}
