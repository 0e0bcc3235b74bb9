//! Resources, and the tool that changes one of them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use mcp_proto::schema::BlobResourceContents;
use mcp_service::{CompletionRequest, Context, Resource, ResourceTemplate, ServiceBuilder, Tool};
use serde::Deserialize;
use serde_json::json;

use super::content::PNG;

const WATCHED: &str = "test://watched-resource";

#[derive(Deserialize)]
struct Id {
    id: String,
}

pub(super) fn register(builder: ServiceBuilder) -> ServiceBuilder {
    let touched = Arc::new(AtomicU64::new(0));
    let shown = touched.clone();
    builder
        .resource(
            Resource::new("test://static-text", "static text", || "This is the content of the static text resource.")
                .description("A text that stays the same")
                .mime_type("text/plain"),
        )
        .resource(
            Resource::new("test://static-binary", "static binary", || {
                mcp_proto::schema::ResourceContents::from(BlobResourceContents::from_bytes("", PNG))
            })
            .description("A picture that stays the same")
            .mime_type("image/png"),
        )
        .resource(
            Resource::new(WATCHED, "watched", move || format!("touched {} times", shown.load(Ordering::SeqCst)))
                .description("A text that changes with each call of test_touch_watched")
                .mime_type("text/plain"),
        )
        .tool(
            Tool::new("test_touch_watched", move |context: Context| {
                touched.fetch_add(1, Ordering::SeqCst);
                context.service().resource_updated(WATCHED);
                "touched"
            })
            .description("Changes the watched resource"),
        )
        .template(
            ResourceTemplate::new("test://template/{id}/data", "template", |Id { id }: Id| {
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string()
            })
            .description("Data for any id")
            .mime_type("application/json")
            .complete("id", |request: CompletionRequest| starting_with(&request.value, ["123", "124", "200"])),
        )
}

/// Returns the proposals that begin with the value so far.
pub(super) fn starting_with<T: AsRef<str>>(start: &str, all: impl IntoIterator<Item = T>) -> Vec<String> {
    all.into_iter().map(|text| text.as_ref().to_owned()).filter(|text| text.starts_with(start)).collect()
}
