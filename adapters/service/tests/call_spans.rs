//! Spans of requests of this side.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_service::{Context, Service, Tool, testing::TestClient};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Fields {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("-", String::as_str)
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

/// Collects the names and the fields of the spans of requests of this side.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<BTreeMap<u64, (String, Fields)>>>);

impl Subscriber for Calls {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "mcp_service::call"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut spans = self.0.lock().expect("no panic");
        let id = spans.len() as u64 + 1;
        spans.insert(id, (attributes.metadata().name().to_owned(), fields));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut self.0.lock().expect("no panic").get_mut(&span.into_u64()).expect("a span").1);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn requests_of_this_side_have_spans() {
    let calls = Calls::default();
    let service = Service::builder("test", "1")
        .tool(Tool::new_async("work", async || "done"))
        .tool(Tool::new_async("sleep", async |context: Context| context.sleep(Duration::from_secs(100)).await))
        .build()
        .expect("a good service");
    tracing::subscriber::with_default(calls.clone(), || {
        let client = TestClient::new(&service);
        assert!(client.call_tool("work", ()).is_ok());
        assert!(client.call_tool("a\nb", ()).is_err());
        assert!(
            client.wait(client.server().within(Duration::from_secs(1)).call_tool("sleep", ()).expect("sent")).is_err()
        );
        drop(client.server().list_tools(None).expect("sent"));
    });
    let spans = calls.0.lock().expect("no panic");
    let seen: Vec<_> = spans
        .values()
        .map(|(span, it)| ["method", "name", "outcome", "code"].map(|name| it.get(name)).join(" ") + " " + span)
        .collect();
    let expected = [
        "tools/call work result - call",
        "tools/call a\\nb error -32602 call",
        "tools/call sleep timed_out - call",
        "tools/list - cancelled - call",
    ];
    assert_eq!(seen, expected);
}
