//! The server of the tests.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
};

use mcp_proto::schema::LoggingLevel;
use mcp_service::{
    CallError, CompletionRequest, Context, Failure, File, Prompt, Resource, ResourceTemplate, Service, Structured,
    Tool,
    form::{BooleanField, Form, TextField},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// The text to return
    message: String,
    /// How often
    times: Option<u8>,
}

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// The type of delivery
    r#type: Delivery,
    items: Vec<Item>,
    #[serde(rename = "note-for/us")]
    note: Option<String>,
    labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Delivery {
    PickUp,
    ByMail,
}

#[derive(Deserialize, JsonSchema)]
struct Item {
    name: String,
    #[schemars(range(min = 1))]
    count: u32,
    #[serde(default)]
    parts: Vec<Item>,
}

#[derive(Serialize, JsonSchema)]
struct Receipt {
    /// The sum of all items
    items: u32,
    delivery: String,
}

#[derive(Deserialize, JsonSchema)]
struct User {
    id: String,
}

fn count(items: &[Item]) -> u32 {
    items.iter().map(|item| item.count + count(&item.parts)).sum()
}

fn order(order: Order) -> Structured<Receipt> {
    let names: Vec<_> = order.items.iter().map(|item| item.name.as_str()).collect();
    let note = order.note.unwrap_or_default();
    let delivery = format!("{:?} {} {note} {}", order.r#type, names.join(","), order.labels.len());
    Structured(Receipt { items: count(&order.items), delivery })
}

async fn sign_up(context: Context) -> Result<String, CallError> {
    let form = Form::new().field("name", TextField::new()).field("news", BooleanField::new().default_value(true));
    let response = context.elicit("Who are you?", form).await?;
    let content = serde_json::to_string(&response.content.unwrap_or_default()).unwrap_or_default();
    Ok(format!("{} {content}", response.action))
}

async fn think(context: Context) -> Result<String, CallError> {
    context.sample_text("2 + 2?", 10).await
}

async fn folders(context: Context) -> Result<String, CallError> {
    let roots = context.roots().await?;
    Ok(roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join(" "))
}

async fn work(context: Context) -> Result<&'static str, Failure> {
    context.log(LoggingLevel::Warning, Some("worker"), "it begins\u{1b}[2J").await?;
    for step in 1..=2_u8 {
        context.progress(step.into(), Some(2.0), Some("step")).await?;
    }
    context.service().add(Tool::new("late", || "late"))?;
    Ok("done")
}

async fn touch(context: Context) -> &'static str {
    context.service().resource_updated("shop://terms");
    "touched"
}

fn known(start: &str) -> Vec<String> {
    ["ada", "alan", "grace"].iter().filter(|name| name.starts_with(start)).map(|name| (*name).to_owned()).collect()
}

pub(crate) fn service() -> Service {
    let tickets = AtomicU32::new(0);
    let echo = |echo: Echo| echo.message.repeat(echo.times.unwrap_or(1).into());
    let user = |user: User| format!("user {}", user.id);
    Service::builder("shop \u{202e} server", "1.0.0")
        .tool(Tool::new("echo", echo).description("Returns a text\n*/ }\u{7}[link]"))
        .tool(Tool::new("placeOrder", order).description("Places an order"))
        .tool(Tool::new("fail", || Err::<(), _>(Failure::new("it is broken"))))
        .tool(Tool::new_async("sign.up", sign_up))
        .tool(Tool::new_async("think", think))
        .tool(Tool::new_async("folders", folders))
        .tool(Tool::new_async("work", work))
        .tool(Tool::new("ticket", move || tickets.fetch_add(1, Ordering::Relaxed).to_string()))
        .tool(Tool::new_async("touch", touch))
        .tool(Tool::new("data", || json!({"a": [1, 2]})))
        .tool(Tool::new_async("wait", std::future::pending::<()>))
        .resource(Resource::new("shop://logo", "logo", || File::new("logo.png", [0x89, b'P', 0xff])))
        .resource(Resource::new("shop://terms", "terms", || "Pay first."))
        .template(ResourceTemplate::new("shop://users/{id}", "user", user))
        .prompt(
            Prompt::new("greet", |user: User| format!("Hello {}", user.id))
                .complete("id", |request: CompletionRequest| known(&request.value)),
        )
        .subscriptions()
        .build()
        .expect("a good service")
}
