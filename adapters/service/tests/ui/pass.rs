//! Handlers that are right: each form of the state with arguments and context, functions and futures.

use std::sync::{Arc, Mutex};

use mcp_service::{
    Completed, CompletionRequest, Context, Failure, FromState, IncomingRequest, Next, Prompt, Resource,
    ResourceTemplate, Service, State, Structured, Tool,
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Dig {
    depth: u32,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Weather {
    celsius: f64,
}

struct Garden {
    depth: Mutex<u32>,
    house: Arc<House>,
}

struct House;

impl FromState<Garden> for State<House> {
    fn from_state(garden: &State<Garden>) -> Self {
        Self(garden.house.clone())
    }
}

impl Garden {
    fn depth(&self) -> u32 {
        *self.depth.lock().expect("no panic")
    }

    async fn dig(&self, dig: Dig, context: Context) -> Result<String, Failure> {
        context.sleep(std::time::Duration::from_secs(1)).await?;
        *self.depth.lock().expect("no panic") += dig.depth;
        Ok(format!("{} m", self.depth()))
    }

    fn names(&self, _request: CompletionRequest) -> Vec<String> {
        vec!["Ada".to_owned()]
    }
}

async fn reset(State(garden): State<Garden>, _context: Context) -> &'static str {
    *garden.depth.lock().expect("no panic") = 0;
    "reset"
}

fn visit(_house: Arc<House>) -> &'static str {
    "visited"
}

async fn log(request: IncomingRequest, next: Next) -> Result<Completed, Failure> {
    let began = request.context().now();
    let completed = next.run().await;
    eprintln!("{} took {:?}", request.method(), request.context().now().saturating_since(began));
    Ok(completed)
}

fn main() {
    let names = Arc::new(vec!["Ada", "Grace"]);
    let service = Service::builder("garden", "1.0.0")
        .with_state(Garden { depth: Mutex::new(0), house: Arc::new(House) })
        .layer(log)
        .tool(Tool::new("depth", Garden::depth))
        .tool(Tool::new_async("dig", Garden::dig))
        .tool(Tool::new_async("reset", reset))
        .tool(Tool::new("visit", visit))
        .tool(Tool::new("five", || 5))
        .tool(Tool::new("weather", || Structured(Weather { celsius: 21.5 })))
        .tool(Tool::new("add", |dig: Dig| dig.depth + 1))
        .tool(Tool::new_async("count", move |_context: Context| {
            let names = names.clone();
            async move { names.len() }
        }))
        .prompt(Prompt::new("greet", |dig: Dig| format!("Dig {} m", dig.depth)).complete("depth", Garden::names))
        .resource(Resource::new("garden://depth", "depth", |garden: &Garden| garden.depth().to_string()))
        .template(ResourceTemplate::new("garden://{depth}", "hole", |dig: Dig| format!("{} m", dig.depth)))
        .build()
        .expect("a service");
    service.add(Tool::new("late", |_: &House| "late").with_state(House)).expect("a new tool");
}
