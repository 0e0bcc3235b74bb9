//! The attribute [`macro@handlers`] of `mcp-service`, which registers the methods of an `impl` block as tools, prompts
//! and resources. Use it as `mcp_service::handlers`, with the feature `macros`.

mod block;
mod handler;
mod item_attribute;
mod parameters;
mod template;

use proc_macro::TokenStream;

/// Registers methods of an `impl` block as tools, prompts and resources of a service.
///
/// The type of the block is the state of the service, or a part of it. The attribute adds a function `handlers` to the
/// block, for [`ServiceBuilder::register`](https://docs.rs/mcp-service/latest/mcp_service/struct.ServiceBuilder.html).
///
/// ```
/// use std::sync::Mutex;
///
/// use mcp_service::{Context, Failure, Service, handlers, testing::TestClient};
///
/// #[derive(Default)]
/// struct Garden {
///     depth: Mutex<u32>,
/// }
///
/// #[handlers]
/// impl Garden {
///     /// Digs a hole.
///     #[tool]
///     async fn dig(
///         &self,
///         /// How deep, in metres.
///         depth: u32,
///         #[arg(default)] dry_run: bool,
///         context: Context,
///     ) -> Result<String, Failure> {
///         context.check()?;
///         if !dry_run {
///             *self.depth.lock().unwrap() += depth;
///         }
///         Ok(format!("{depth} m"))
///     }
///
///     /// Asks for a plan.
///     #[prompt]
///     fn plan(&self, topic: String) -> String {
///         format!("Plan a garden with {topic}")
///     }
///
///     /// The depth of the hole.
///     #[resource("garden://depth", mime_type = "text/plain")]
///     fn depth(&self) -> String {
///         self.depth.lock().unwrap().to_string()
///     }
/// }
///
/// let service = Service::builder("garden", "1.0.0")
///     .with_state(Garden::default())
///     .register(Garden::handlers)
///     .build()?;
///
/// let client = TestClient::new(&service);
/// let result = client.call_tool("dig", serde_json::json!({"depth": 2}))?;
/// assert_eq!(result.content[0].as_text(), Some("2 m"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Methods
///
/// A method with one of these attributes is a handler. It has `&self`, and no type parameters. An `async fn` becomes a
/// handler of a constructor whose name ends in `_async`. Other methods stay as they are.
///
/// | attribute | registers |
/// | --- | --- |
/// | `#[tool]` | a `Tool` |
/// | `#[prompt]` | a `Prompt` |
/// | `#[resource("uri")]` | a `Resource`; with variables, as in `notes://{id}`, a `ResourceTemplate` |
///
/// The doc comment is the description. Further arguments of the attributes:
///
/// | argument | of | default |
/// | --- | --- | --- |
/// | `name = ".."` | all | the name of the method |
/// | `title = ".."` | all | none |
/// | `description = ".."` | all | the doc comment |
/// | `scope = ".."`, also several | all | none |
/// | `mime_type = ".."` | `#[resource]` | none |
/// | `read_only`, `destructive`, `idempotent`, `open_world`, also as `destructive = false` | `#[tool]` | none |
/// | `with = \|item\| item..` | all | none |
///
/// `with` is a function that gets the `Tool`, `Prompt`, `Resource` or `ResourceTemplate` and returns it, for all of its
/// other methods, such as `with = |prompt| prompt.complete("topic", Garden::topics)`.
///
/// # Parameters
///
/// Each parameter is an argument, with its name and its doc comment. Its type implements `serde::Deserialize` and
/// `schemars::JsonSchema`, and owns its data. An `Option` may be left out. These parameters are not arguments:
///
/// - one whose type is called `Context`, or that has the attribute `#[context]`, is the context of the request;
/// - one with the attribute `#[arguments]` is a struct with all arguments, as of a handler without this attribute.
///
/// `#[arg(..)]` sets `name = ".."`, `description = ".."`, `default`, or `default = value`. `Self` cannot be in the type
/// or the default of an argument.
///
/// # The block
///
/// `#[handlers(pub(crate) fn tools)]` sets the visibility and the name of the function, so that a type can have several
/// blocks. `#[handlers(crate = mcp_tokio::mcp_service)]` names the path of `mcp-service`.
///
/// The function consists of calls of the builder that could be written by hand: `ServiceBuilder::tool`, `Tool::new`,
/// and so on.
#[proc_macro_attribute]
pub fn handlers(attribute: TokenStream, item: TokenStream) -> TokenStream {
    block::expand(attribute.into(), item.into()).into()
}
