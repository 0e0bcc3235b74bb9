//! Prompts.

use mcp_proto::schema::PromptMessage;
use mcp_service::{CompletionRequest, Prompt, ServiceBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    content::{document, picture},
    resources::starting_with,
};

#[derive(Deserialize, JsonSchema)]
struct Two {
    /// The first one.
    arg1: String,
    /// The second one.
    arg2: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Document {
    /// The resource that is to be processed.
    resource_uri: String,
}

pub(super) fn register(builder: ServiceBuilder) -> ServiceBuilder {
    builder
        .prompt(
            Prompt::new("test_simple_prompt", || "This is a simple prompt for testing.")
                .description("A prompt without arguments"),
        )
        .prompt(
            Prompt::new("test_prompt_with_arguments", |Two { arg1, arg2 }: Two| {
                format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
            })
            .description("A prompt with two arguments")
            .complete("arg1", |request: CompletionRequest| starting_with(&request.value, ["paris", "park", "party"]))
            .complete("arg2", |request: CompletionRequest| {
                let first = request.known.get("arg1").cloned();
                let proposals = first.map(|first| [format!("{first}-one"), format!("{first}-two")]);
                starting_with(&request.value, proposals.into_iter().flatten())
            }),
        )
        .prompt(
            Prompt::new("test_prompt_with_embedded_resource", |Document { resource_uri }: Document| {
                [
                    PromptMessage::user(document(
                        &resource_uri,
                        "text/plain",
                        "Embedded resource content for testing.",
                    )),
                    PromptMessage::user("Please process the embedded resource above."),
                ]
            })
            .description("A prompt with a resource in it"),
        )
        .prompt(
            Prompt::new("test_prompt_with_image", || {
                [PromptMessage::user(picture()), PromptMessage::user("Please analyze the image above.")]
            })
            .description("A prompt with a picture in it"),
        )
}
