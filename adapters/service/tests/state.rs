//! Tests the shared state of a service, in each form in which a handler can have it.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{
        CallToolResult, CompleteResult, PromptReference, ResourceContents, ResourceTemplateReference, TaskSupport,
    },
};
use mcp_service::{
    CallError, CompletionRequest, Context, FromState, Host, Prompt, Resource, ResourceTemplate, ResultOrTask, Service,
    State, Tool, testing::TestClient,
};
use serde_json::{Value, json};

/// A state that is neither `Clone` nor `Debug`.
#[derive(Default)]
struct Counter {
    count: Mutex<i64>,
    reads: Arc<Reads>,
}

#[derive(Default)]
struct Reads(AtomicUsize);

impl FromState<Counter> for State<Reads> {
    fn from_state(counter: &State<Counter>) -> Self {
        Self(counter.reads.clone())
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Amount {
    by: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Name {
    name: String,
}

impl Counter {
    fn change(&self, by: i64) -> String {
        let mut count = self.count.lock().expect("no panic");
        *count += by;
        count.to_string()
    }

    fn get(&self) -> String {
        self.reads.0.fetch_add(1, Ordering::Relaxed);
        self.change(0)
    }

    fn add(&self, amount: Amount) -> String {
        self.change(amount.by)
    }

    fn add_in(&self, amount: Amount, context: Context) -> Result<String, CallError> {
        context.check()?;
        Ok(self.change(amount.by))
    }

    fn next(&self, context: Context) -> Result<String, CallError> {
        context.check()?;
        Ok(self.change(1))
    }

    fn own(self: Arc<Self>, amount: Amount) -> String {
        self.change(amount.by)
    }

    async fn get_later(&self) -> String {
        self.get()
    }

    async fn add_later(&self, amount: Amount) -> String {
        self.change(amount.by)
    }

    /// Uses the reference after it has waited.
    async fn add_slowly(&self, amount: Amount, context: Context) -> Result<String, CallError> {
        for _ in 0..amount.by {
            context.sleep(std::time::Duration::from_secs(10)).await?;
            self.change(1);
        }
        Ok(self.change(0))
    }

    async fn own_later(self: Arc<Self>, context: Context) -> Result<String, CallError> {
        context.sleep(std::time::Duration::from_secs(10)).await?;
        Ok(self.change(1))
    }

    fn names(&self, request: CompletionRequest) -> Vec<String> {
        vec![format!("{}{}", request.value, self.get())]
    }

    async fn names_later(&self, request: CompletionRequest) -> Vec<String> {
        self.names(request)
    }

    async fn greeting(&self, name: Name) -> String {
        format!("{} has {}", name.name, self.get())
    }
}

fn extracted(State(counter): State<Counter>) -> String {
    counter.change(1)
}

async fn extracted_later(counter: State<Counter>, amount: Amount, _: Context) -> String {
    counter.change(amount.by)
}

async fn reads(reads: State<Reads>) -> String {
    reads.0.0.load(Ordering::Relaxed).to_string()
}

fn service() -> Service {
    Service::builder("test", "1")
        .tool(Tool::new("stateless", || "before"))
        .with_state(Counter::default())
        .tool(Tool::new("get", Counter::get))
        .tool(Tool::new("add", Counter::add))
        .tool(Tool::new("add_in", Counter::add_in))
        .tool(Tool::new("next", Counter::next))
        .tool(Tool::new("own", Counter::own))
        .tool(Tool::new("extracted", extracted))
        .tool(Tool::new("closure", |counter: &Counter, amount: Amount| counter.change(amount.by)))
        .tool(Tool::new_async("get_later", Counter::get_later))
        .tool(Tool::new_async("add_later", Counter::add_later))
        .tool(Tool::new_async("add_slowly", Counter::add_slowly))
        .tool(Tool::new_async("own_later", Counter::own_later))
        .tool(Tool::new_async("extracted_later", extracted_later))
        .tool(Tool::new_async("closure_later", async |counter: &Counter| counter.get_later().await))
        .tool(Tool::new_async("reads", reads))
        .tool(Tool::new("later", || "after"))
        .prompt(Prompt::new_async("greeting", Counter::greeting).complete("name", Counter::names))
        .prompt(
            Prompt::new("hello", |name: Name| format!("Hello {}", name.name))
                .complete_async("name", Counter::names_later),
        )
        .resource(Resource::new("count://now", "now", Counter::get))
        .template(
            ResourceTemplate::new_async("count://of/{name}", "of", Counter::greeting)
                .complete("name", |_: CompletionRequest| vec!["one"]),
        )
        .build()
        .expect("a good service")
}

fn call(client: &TestClient, tool: &str, arguments: Value) -> String {
    let result = client.call_tool(tool, arguments).expect("a result");
    assert!(!result.is_error(), "{tool}");
    result.content[0].as_text().expect("a text").to_owned()
}

// req: TOOL-015
#[test]
fn a_tool_has_the_state_in_every_form() {
    let client = TestClient::new(&service());
    let tools = client.wait(client.server().list_tools(None).expect("a request")).expect("a list").tools;
    let mut count = 0;
    for (tool, by) in [
        ("get", 0),
        ("add", 2),
        ("add_in", 3),
        ("next", 1),
        ("own", 5),
        ("extracted", 1),
        ("closure", 7),
        ("get_later", 0),
        ("add_later", 4),
        ("add_slowly", 3),
        ("own_later", 1),
        ("extracted_later", 6),
        ("closure_later", 0),
    ] {
        let listed = tools.iter().find(|listed| listed.name == tool).expect("it is listed");
        let arguments = if listed.input_schema.get().contains("\"by\"") { json!({"by": by}) } else { json!({}) };
        count += by;
        assert_eq!(call(&client, tool, arguments), count.to_string(), "{tool}");
    }
    assert_eq!(call(&client, "reads", json!({})), "3", "it has a part of the state");
    assert_eq!(call(&client, "stateless", json!({})), "before");
    assert_eq!(call(&client, "later", json!({})), "after");
    // Each connection has the same state.
    let service = service();
    let clients = [TestClient::new(&service), TestClient::new(&service)];
    assert_eq!(clients.each_ref().map(|client| call(client, "next", json!({}))), ["1", "2"]);
}

#[test]
fn a_state_is_shared_with_the_program_and_set_for_one_item() {
    let counter = Arc::new(Counter::default());
    let service = Service::builder("test", "1")
        .with_shared_state(counter.clone())
        .tool(Tool::new("next", Counter::next))
        .with_state(String::from("text"))
        .tool(Tool::new("text", |text: &String| text.clone()))
        .tool(Tool::new("shared", Counter::next).with_state(counter.clone()))
        .tool(Tool::new("alone", Counter::next).with_state(Counter::default()))
        .build()
        .expect("a good service");
    // An item with its state can be added at any time.
    service.add(Prompt::new_async("greeting", Counter::greeting).with_state(counter.clone())).expect("a new name");
    service.add(Resource::new("count://now", "now", Counter::get).with_state(counter.clone())).expect("a new URI");
    let of = ResourceTemplate::new_async("count://of/{name}", "of", Counter::greeting);
    service.add(of.with_state(counter.clone())).expect("a new template");
    let client = TestClient::new(&service);
    counter.change(10);
    assert_eq!(call(&client, "next", json!({})), "11");
    assert_eq!(call(&client, "shared", json!({})), "12");
    assert_eq!(call(&client, "alone", json!({})), "1");
    assert_eq!(call(&client, "text", json!({})), "text");
    assert_eq!(*counter.count.lock().expect("no panic"), 12);
    let read = |uri| match &client.read_resource(uri).expect("contents").contents[0] {
        ResourceContents::Text(contents) => contents.text.clone(),
        ResourceContents::Blob(_) => panic!("it is a text"),
    };
    assert_eq!(read("count://now"), "12");
    assert_eq!(read("count://of/Ann"), "Ann has 12");
    let greeting = client.get_prompt("greeting", json!({"name": "Bob"})).expect("a prompt");
    assert_eq!(greeting.messages[0].content.as_text(), Some("Bob has 12"));
}

#[test]
fn prompts_resources_and_completion_have_the_state() {
    let client = TestClient::of(&service()).host(&Host::builder("test", "1").build()).connect();
    call(&client, "next", json!({}));
    let text = |name: &str| {
        let prompt = client.get_prompt(name, json!({"name": "Ann"})).expect("a prompt");
        prompt.messages[0].content.as_text().expect("a text").to_owned()
    };
    assert_eq!(text("greeting"), "Ann has 1");
    assert_eq!(text("hello"), "Hello Ann");
    let read = |uri| match &client.read_resource(uri).expect("contents").contents[0] {
        ResourceContents::Text(contents) => contents.text.clone(),
        ResourceContents::Blob(_) => panic!("it is a text"),
    };
    assert_eq!(read("count://now"), "1");
    assert_eq!(read("count://of/Ann"), "Ann has 1");
    let values = |completed: CompleteResult| completed.completion.values;
    for prompt in ["greeting", "hello"] {
        let pending = client.server().complete(PromptReference::new(prompt), "name", "x", ()).expect("a request");
        assert_eq!(values(client.wait(pending).expect("proposals")), ["x1"]);
    }
    let template = ResourceTemplateReference::new("count://of/{name}");
    let pending = client.server().complete(template, "name", "x", ()).expect("a request");
    assert_eq!(values(client.wait(pending).expect("proposals")), ["one"]);
}

// req: TOOL-015
#[test]
fn a_tool_with_a_state_can_be_a_task() {
    let counter = Arc::new(Counter::default());
    let tool = Tool::new_async("own_later", Counter::own_later).title("Own");
    let tool = tool.task_support(TaskSupport::Required).about(|about| about.description = Some("later".into()));
    let service = Service::builder("test", "1").with_shared_state(counter).tool(tool).build().expect("a good service");
    for (version, count) in [(ProtocolVersion::V2025_11_25, "1"), (ProtocolVersion::V2026_07_28, "2")] {
        let client = TestClient::of(&service).version(version).connect();
        let tools = client.wait(client.server().list_tools(None).expect("a request")).expect("a list").tools;
        assert_eq!((tools[0].title.as_deref(), tools[0].description.as_deref()), (Some("Own"), Some("later")));
        let pending = client.server().run_tool(&tools[0], ()).expect("a request");
        let task = match client.wait(pending).expect("a task") {
            ResultOrTask::Task(task) => task,
            ResultOrTask::Result(result) => panic!("{version:?}: {result:?}"),
        };
        let result: CallToolResult = client.wait(task.result().expect("a request")).expect("a result");
        assert_eq!(result.content[0].as_text(), Some(count));
    }
}
