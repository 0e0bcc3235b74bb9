//! A form with choices and a default: a server asks the user, whose client shows what it has got.
//!
//! ```sh
//! cargo run -p mcp-guide --example pizza
//! ```

use std::error::Error;

use mcp_guide::connect;
use mcp_proto::schema::{ElicitFormParams, ElicitResult, ElicitValue, Map};
use mcp_service::{CallError, Context, Elicited, Failure, Host, Service, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Debug, Deserialize, JsonSchema)]
enum Size {
    #[schemars(title = "Up to 30 cm")]
    Small,
    #[schemars(title = "Up to 40 cm")]
    Large,
}

#[derive(Debug, Deserialize, JsonSchema)]
enum Topping {
    Olives,
    Onions,
}

fn table() -> String {
    "window".into()
}

#[derive(Deserialize, JsonSchema)]
struct Pizza {
    size: Size,
    toppings: Vec<Topping>,
    #[serde(default = "table")]
    place: String,
}

async fn order(context: Context) -> Result<String, CallError> {
    Ok(match context.elicit_as::<Pizza>("Which pizza?").await? {
        Elicited::Accepted(Pizza {
            size,
            toppings,
            place,
        }) => {
            format!("{size:?} with {toppings:?} to the {place}")
        }
        _ => "nothing is ordered".into(),
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = Service::builder("pizza", env!("CARGO_PKG_VERSION"))
        .tool(Tool::new_async("order", order).description("Orders a pizza"))
        .build()?;
    let host = Host::builder("client", env!("CARGO_PKG_VERSION"))
        .elicitation(|form: ElicitFormParams, _| {
            let schema = serde_json::to_value(&form.requested_schema)?;
            println!("{} {schema:#}", form.message);
            let place = &schema["properties"]["place"]["default"];
            let content = json!({"size": "Large", "toppings": ["Olives"], "place": place});
            let content: Map<ElicitValue> = serde_json::from_value(content)?;
            Ok::<_, Failure>(ElicitResult::accept(content))
        })
        .build();
    let client = connect(&service, &host).await?;
    let result = client.call_tool("order", ())?.await?;
    println!("{:?}", result.content[0].as_text());
    client.close().await;
    Ok(())
}
