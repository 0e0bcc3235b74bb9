//! The example `elicitation` of rmcp, ported: a name that the user is asked for once, and a page
//! that the user is sent to.

use std::sync::Mutex;

use mcp_proto::schema::ElicitAction;
use mcp_service::{CallError, Context, Elicited, Failure, RegisterError, Service, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// Who the user is
#[derive(Deserialize, JsonSchema)]
struct User {
    /// The name to greet
    #[schemars(length(min = 1, max = 80))]
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Greet {
    greeting: String,
}

#[derive(Default)]
struct Known(Mutex<Option<String>>);

impl Known {
    fn name(&self) -> Option<String> {
        self.0.lock().expect("no panic").clone()
    }

    fn set(&self, name: Option<String>) {
        *self.0.lock().expect("no panic") = name;
    }

    async fn greet(&self, greet: Greet, context: Context) -> Result<String, CallError> {
        let name = match self.name() {
            Some(name) => name,
            None => match context.elicit_as::<User>("What is your name?").await? {
                Elicited::Accepted(user) => {
                    self.set(Some(user.name.clone()));
                    user.name
                }
                _ => "Guest".into(),
            },
        };
        Ok(format!("{} {name}!", greet.greeting))
    }

    fn reset(&self) -> &'static str {
        self.set(None);
        "forgotten"
    }
}

async fn secure_tool_call(context: Context) -> Result<&'static str, Failure> {
    let visit = context.elicit_url("Finish the call on this page", "https://example.com/finish");
    match visit.await?.action {
        ElicitAction::Accept => Ok("the page was opened"),
        ElicitAction::Cancel => Ok("the page was closed"),
        _ => Err("the page was not wanted".into()),
    }
}

pub(crate) fn service() -> Result<Service, RegisterError> {
    Service::builder("elicitation", env!("CARGO_PKG_VERSION"))
        .instructions("Greets the user, whose name it asks for")
        .with_state(Known::default())
        .tool(Tool::new_async("greet_user", Known::greet).description("Greets the user"))
        .tool(Tool::new("reset_name", Known::reset).description("Forgets the name"))
        .tool(
            Tool::new_async("secure_tool_call", secure_tool_call)
                .description("Sends the user to a page"),
        )
        .build()
}

#[tokio::main]
#[allow(dead_code, reason = "a test includes this file")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Ok(mcp_tokio::serve_stdio(&service()?).await?)
}
