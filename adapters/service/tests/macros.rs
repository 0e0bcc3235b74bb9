//! The attribute `handlers`: what it registers is what the builder registers, in both eras.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{PromptReference, ResourceTemplateReference},
};
use mcp_service::{
    CallError, CompletionRequest, Context, Failure, FromState, Prompt, Resource, ResourceTemplate, Service, State,
    Structured, Tool, handlers, testing::TestClient,
};
use serde_json::{Value, json};

#[derive(Default)]
struct Garden {
    depth: Mutex<u32>,
    visits: AtomicUsize,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Weather {
    celsius: f64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Plant {
    /// The kind of the plant.
    kind: String,
}

const TITLE: &str = "Planter";

// Names that the attribute must not hide.
fn with(tool: Tool<State<Hygiene>>) -> Tool<State<Hygiene>> {
    tool.title("With")
}

fn call(tool: Tool<State<Hygiene>>) -> Tool<State<Hygiene>> {
    tool.title("Called")
}

struct Hygiene;

#[handlers]
impl Hygiene {
    #[doc = include_str!("ui/README.md")]
    #[tool(with = with)]
    async fn first(&self, depth: u32) -> u32 {
        depth
    }

    #[tool(with = call)]
    async fn second(&self, depth: u32) -> u32 {
        depth
    }
}

#[test]
fn names_of_the_program_are_not_hidden() {
    let service = Service::builder("a", "1").with_state(Hygiene).register(Hygiene::handlers).build();
    let client = TestClient::new(&service.expect("a service"));
    let tools = client.wait(client.server().list_tools(None).expect("a request")).expect("a list").tools;
    assert_eq!(tools[0].description.as_deref(), Some(include_str!("ui/README.md").trim()));
    assert_eq!(tools[1].title.as_deref(), Some("Called"));
}

#[handlers]
impl Garden {
    /// Digs a hole.
    ///
    /// It stays there.
    #[tool(read_only = false, destructive, open_world = 1 > 2)]
    async fn dig(
        &self,
        /// How deep, in metres.
        depth: u32,
        context: Context,
        #[arg(description = "With which tool")] with: Option<String>,
        #[arg(name = "dryRun", default)] dry_run: bool,
        #[arg(default = 2)] times: u32,
    ) -> Result<String, CallError> {
        context.sleep(std::time::Duration::from_secs(1)).await?;
        if !dry_run {
            *self.depth.lock().expect("no panic") += depth * times;
        }
        Ok(format!("{} m with {}", self.depth(), with.unwrap_or_else(|| "a spade".into())))
    }

    #[tool(name = "garden.weather", description = concat!("Returns ", "the weather"), scope = "a", scope = "b")]
    fn weather(&self) -> Structured<Weather> {
        Structured(Weather { celsius: 21.5 })
    }

    #[tool(title = TITLE, with = |tool| tool.about(|about| about.title = Some(format!("{TITLE}!"))))]
    fn plant(&self, #[arguments] plant: Plant, _context: Context) -> Result<String, Failure> {
        match plant.kind.as_str() {
            "ivy" => Err(Failure::new("no ivy")),
            kind => Ok(format!("planted {kind}")),
        }
    }

    /// Asks for a plan.
    #[prompt(with = |prompt| prompt.complete("topic", Garden::topics))]
    fn plan(
        &self,
        /// The topic.
        topic: String,
        rows: Option<u8>,
    ) -> String {
        format!("Plan {topic} in {} rows", rows.unwrap_or(1))
    }

    #[resource("garden://depth", mime_type = "text/plain", title = "The depth")]
    fn depth(&self) -> String {
        self.depth.lock().expect("no panic").to_string()
    }

    /// A bed of the garden.
    #[resource("garden://{bed}/{+rest}", name = "bed", with = |template| template.complete_async("bed", Garden::beds))]
    async fn read_bed(&self, rest: String, bed: u32) -> String {
        format!("bed {bed}: {rest}")
    }

    #[cfg(any())]
    #[tool]
    fn never(&self) -> Missing {}

    #[cfg(not(any()))]
    #[tool(name = "never")]
    fn always(&self, #[context] _: Context) -> usize {
        self.visits.fetch_add(1, Ordering::Relaxed)
    }

    fn topics(&self, request: CompletionRequest) -> Vec<String> {
        vec![format!("{}oses", request.value)]
    }

    async fn beds(&self, _: CompletionRequest) -> Vec<String> {
        vec!["7".into()]
    }
}

// The arguments of the same service, written with the builder.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Dig {
    /// How deep, in metres.
    depth: u32,
    /// With which tool
    with: Option<String>,
    #[serde(rename = "dryRun", default)]
    dry_run: bool,
    #[serde(default = "two")]
    times: u32,
}

fn two() -> u32 {
    2
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Plan {
    /// The topic.
    topic: String,
    rows: Option<u8>,
}

#[derive(serde::Deserialize)]
struct Bed {
    rest: String,
    bed: u32,
}

async fn dig(garden: State<Garden>, dig: Dig, context: Context) -> Result<String, CallError> {
    garden.dig(dig.depth, context, dig.with, dig.dry_run, dig.times).await
}

async fn bed(garden: State<Garden>, bed: Bed) -> String {
    garden.read_bed(bed.rest, bed.bed).await
}

fn by_hand() -> Service {
    let annotations = mcp_proto::schema::ToolAnnotations {
        read_only_hint: Some(false),
        destructive_hint: Some(true),
        open_world_hint: Some(false),
        ..Default::default()
    };
    Service::builder("garden", "1.0.0")
        .with_state(Garden::default())
        .tool(Tool::new_async("dig", dig).description("Digs a hole.\n\nIt stays there.").annotations(annotations))
        .tool(Tool::new("garden.weather", Garden::weather).description("Returns the weather").scope("a").scope("b"))
        .tool(Tool::new("plant", Garden::plant).title("Planter!"))
        .prompt(
            Prompt::new("plan", |garden: &Garden, plan: Plan| garden.plan(plan.topic, plan.rows))
                .description("Asks for a plan.")
                .complete("topic", Garden::topics),
        )
        .resource(Resource::new("garden://depth", "depth", Garden::depth).mime_type("text/plain").title("The depth"))
        .template(
            ResourceTemplate::new_async("garden://{bed}/{+rest}", "bed", bed)
                .description("A bed of the garden.")
                .complete_async("bed", Garden::beds),
        )
        .tool(Tool::new("never", Garden::always))
        .build()
        .expect("a service")
}

fn by_attribute() -> Service {
    Service::builder("garden", "1.0.0")
        .with_state(Garden::default())
        .register(Garden::handlers)
        .build()
        .expect("a service")
}

/// Returns what a client of a service gets, in one revision.
fn seen(service: &Service, version: ProtocolVersion) -> Vec<(&'static str, String)> {
    let client = TestClient::of(service).version(version).connect();
    let debug = |value: &dyn std::fmt::Debug| format!("{value:?}");
    let call = |name: &str, arguments: Value| debug(&client.call_tool(name, arguments));
    let complete = |reference: &dyn Fn() -> mcp_proto::schema::CompletionReference, name: &str| {
        debug(&client.wait(client.server().complete(reference(), name, "r", ()).expect("a request")))
    };
    vec![
        ("tools", debug(&client.wait(client.server().list_tools(None).expect("a request")))),
        ("prompts", debug(&client.wait(client.server().list_prompts(None).expect("a request")))),
        ("resources", debug(&client.wait(client.server().list_resources(None).expect("a request")))),
        ("templates", debug(&client.wait(client.server().list_resource_templates(None).expect("a request")))),
        ("dig", call("dig", json!({"depth": 2}))),
        ("dig with", call("dig", json!({"depth": 1, "with": "a fork", "times": 1}))),
        ("dry run", call("dig", json!({"depth": 1, "dryRun": true}))),
        ("missing", call("dig", json!({"with": "a fork"}))),
        ("wrong", call("dig", json!({"depth": "deep"}))),
        ("weather", call("garden.weather", json!({}))),
        ("plant", call("plant", json!({"kind": "rose"}))),
        ("ivy", call("plant", json!({"kind": "ivy"}))),
        ("always", call("never", json!({}))),
        ("plan", debug(&client.get_prompt("plan", json!({"topic": "roses", "rows": "3"})))),
        ("no topic", debug(&client.get_prompt("plan", json!({})))),
        ("depth", debug(&client.read_resource("garden://depth"))),
        ("bed", debug(&client.read_resource("garden://4/a/b"))),
        ("no bed", debug(&client.read_resource("garden://x/a"))),
        ("topics", complete(&|| PromptReference::new("plan").into(), "topic")),
        ("beds", complete(&|| ResourceTemplateReference::new("garden://{bed}/{+rest}").into(), "bed")),
    ]
}

// req: TOOL-015
#[test]
fn the_attribute_registers_what_the_builder_does() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let (by_attribute, by_hand) = (seen(&by_attribute(), version), seen(&by_hand(), version));
        for (attribute, hand) in by_attribute.iter().zip(&by_hand) {
            assert_eq!(attribute, hand, "{version:?}");
        }
        let text = |name: &str| by_attribute.iter().find(|(seen, _)| *seen == name).map_or("", |(_, text)| text);
        for (name, part) in [
            ("tools", "Digs a hole.\\n\\nIt stays there."),
            ("tools", "How deep, in metres."),
            ("tools", "dryRun"),
            ("dig", "4 m with a spade"),
            ("dig with", "5 m with a fork"),
            ("dry run", "5 m with a spade"),
            ("missing", "depth"),
            ("weather", "21.5"),
            ("plant", "planted rose"),
            ("ivy", "no ivy"),
            ("plan", "Plan roses in 3 rows"),
            ("no topic", "topic"),
            ("depth", "\"5\""),
            ("bed", "bed 4: a/b"),
            ("topics", "roses"),
            ("beds", "\"7\""),
        ] {
            assert!(text(name).contains(part), "{version:?} {name}: {part} is not in {}", text(name));
        }
    }
}

struct App {
    garden: std::sync::Arc<Garden>,
}

impl FromState<App> for State<Garden> {
    fn from_state(app: &State<App>) -> Self {
        Self(app.garden.clone())
    }
}

#[handlers(pub(crate) fn tools, crate = mcp_service)]
impl App {
    /// Counts the visits.
    #[tool]
    fn visits(&self) -> usize {
        self.garden.visits.load(Ordering::Relaxed)
    }
}

#[handlers(fn others)]
impl App {
    #[tool]
    async fn more(&self, r#type: String) -> String {
        r#type
    }
}

/// A state with a parameter.
struct Shelf<T>(T);

trait Store: Send + Sync + 'static {
    fn count(&self) -> usize;
}

impl Store for Vec<String> {
    fn count(&self) -> usize {
        self.len()
    }
}

#[handlers]
impl<T: Store> Shelf<T> {
    #[tool]
    async fn count(&self, add: usize) -> usize {
        self.0.count() + add
    }
}

#[test]
fn blocks_of_parts_and_of_generic_states_are_registered() {
    let service = Service::builder("app", "1")
        .with_state(App { garden: Default::default() })
        .register(Garden::handlers)
        .register(App::tools)
        .register(App::others)
        .with_state(Shelf(vec![String::from("a book")]))
        .register(Shelf::handlers)
        .build()
        .expect("a service");
    let client = TestClient::new(&service);
    let text = |name: &str, arguments: Value| {
        client.call_tool(name, arguments).expect("a result").content[0].as_text().expect("a text").to_owned()
    };
    text("never", json!({}));
    assert_eq!(text("visits", json!({})), "1");
    assert_eq!(text("more", json!({"type": "wild"})), "wild");
    assert_eq!(text("count", json!({"add": 2})), "3");
}
