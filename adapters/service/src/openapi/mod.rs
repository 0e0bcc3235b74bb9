//! Tools from an OpenAPI document: each operation of an HTTP API becomes a tool (feature `openapi`).
//!
//! ```
//! use mcp_service::{Context, Failure, Service, ServiceBuilder, openapi::{HttpRequest, HttpResponse, OpenApi}};
//!
//! async fn send(request: HttpRequest, _context: Context) -> Result<HttpResponse, Failure> {
//!     // An HTTP client of the application sends the request, with its credentials.
//!     let body = format!(r#"{{"url": {:?}}}"#, request.url);
//!     Ok(HttpResponse::new(200).header("content-type", "application/json").body(body))
//! }
//!
//! let document = r#"{
//!     "openapi": "3.1.0",
//!     "info": {"title": "Pets", "version": "1"},
//!     "paths": {"/pets/{id}": {"get": {
//!         "operationId": "getPet",
//!         "summary": "Returns a pet",
//!         "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}],
//!         "responses": {"200": {"description": "The pet"}}
//!     }}}
//! }"#;
//! let api = OpenApi::parse(document)?;
//! assert!(api.refused().is_empty());
//! let tools = api.tools_async("https://pets.example/v1", send)?;
//! let service = Service::builder("pets", "1.0.0")
//!     .register(|builder| tools.into_iter().fold(builder, ServiceBuilder::tool))
//!     .build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What becomes of an operation
//!
//! - The name of the tool is the `operationId`, or else the method and the path, made valid and unique.
//! - The description is the `summary` and the `description`.
//! - The arguments are the parameters and, as `body`, the request body in JSON. References are resolved in the
//!   document; schemas that refer to each other are in `$defs`. Arguments need no property that is `readOnly`.
//! - The schema of results is that of the successful response, if there is one such response, it is a JSON object, and
//!   its schema can be used. It requires no property that is `writeOnly`.
//! - The methods are GET, PUT, POST, DELETE and PATCH. Others are left out.
//!
//! Versions 3.0 and 3.1 in JSON are supported. Operations that cannot be tools are [refused](OpenApi::refused), each
//! with a [reason](Refusal): parameters have the styles `simple` (paths and headers) and `form` (queries), or are JSON,
//! and there are no cookies.
//!
//! # Requests
//!
//! The application sends the [requests](HttpRequest), with a function. Only it adds credentials: parameters that are
//! the keys of a security scheme are no arguments, and neither are the headers `Authorization`, `Accept` and
//! `Content-Type`. The function gets the [`Context`], and so the principal, of the call.
//!
//! An argument cannot change where a request goes. Everything but letters, digits and `-._~` is percent-encoded, and an
//! argument that would make a segment of the path empty, `.` or `..` fails the call. The base URL is that of the
//! application; servers in the document are ignored. A header with a line break or another control character fails the
//! call.
//!
//! # Results
//!
//! A response of 200 to 299 is the result: as structured content if the tool has an output schema, as an image or audio
//! with such a media type, and else as text. Any other status is a failure that the model reads, with the beginning of
//! the response. So is a redirect: the application configures its HTTP client not to follow any, since they could lead
//! requests, with credentials, to another host.
//!
//! # Untrusted documents
//!
//! A document costs at most the [limits](OpenApiLimits), and its schemas have those of schemas of peers. A document
//! decides what models read about the tools, and which paths below the base URL they request.

mod budget;
mod call;
mod encode;
mod error;
mod http;
mod limits;
mod names;
mod operation;
mod parameter;
mod reader;
mod references;
mod schema;
#[cfg(test)]
mod tests;

pub use error::{OpenApiError, Refusal, RefusedOperation};
pub use http::{HttpRequest, HttpResponse};
pub use limits::OpenApiLimits;

use std::{future::Future, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    inbound::{context::Context, failure::Failure},
    server::tool::Tool,
};
use call::Endpoint;
use operation::Operation;

/// An OpenAPI document whose operations can become tools. See the [module](self).
#[derive(Clone, Debug)]
pub struct OpenApi {
    operations: Vec<Arc<Operation>>,
    refused: Vec<RefusedOperation>,
    limits: OpenApiLimits,
}

impl OpenApi {
    /// Reads a document with the default limits.
    ///
    /// # Errors
    /// If it is no OpenAPI document of version 3.0 or 3.1 in JSON, or exceeds a limit. An operation that cannot be a
    /// tool is no error: see [`refused`](Self::refused).
    pub fn parse(json: &str) -> Result<Self, OpenApiError> {
        Self::parse_with(json, OpenApiLimits::default())
    }

    /// Reads a document as [`parse`](Self::parse) does, with these limits.
    ///
    /// # Errors
    /// As `parse`.
    pub fn parse_with(json: &str, limits: OpenApiLimits) -> Result<Self, OpenApiError> {
        let (operations, refused) = reader::read(json, &limits)?;
        Ok(Self { operations: operations.into_iter().map(Arc::new).collect(), refused, limits })
    }

    /// Returns the operations that cannot be tools, with the reasons.
    #[must_use]
    pub fn refused(&self) -> &[RefusedOperation] {
        &self.refused
    }

    /// Keeps only the operations for which a function of the method, such as `GET`, and the path returns `true`.
    #[must_use]
    pub fn filter(mut self, keep: impl Fn(&str, &str) -> bool) -> Self {
        self.operations.retain(|operation| keep(operation.method, &operation.path));
        self
    }

    /// Returns the tools, whose requests a function sends to paths below `base_url`. The function may block.
    ///
    /// # Errors
    /// If the base URL is not an `http` or `https` URL, or has a query or a fragment.
    pub fn tools<F, E>(&self, base_url: &str, send: F) -> Result<Vec<Tool>, OpenApiError>
    where
        F: Fn(HttpRequest, Context) -> Result<HttpResponse, E> + Send + Sync + 'static,
        E: Into<Failure>,
    {
        let send = Arc::new(send);
        let tool = |endpoint: Endpoint| {
            let send = send.clone();
            let (name, schema, operation) = endpoint.tool_parts();
            let tool = Tool::with_schema(name, schema, move |arguments: Map<String, Value>, context: Context| {
                let request = endpoint.request(&arguments)?;
                endpoint.result(send(request, context).map_err(Into::into)?)
            });
            operation.describe(tool)
        };
        Ok(self.endpoints(base_url)?.map(tool).collect())
    }

    /// Returns the tools as [`tools`](Self::tools) does, with a function that returns a future.
    ///
    /// # Errors
    /// As `tools`.
    pub fn tools_async<F, R, E>(&self, base_url: &str, send: F) -> Result<Vec<Tool>, OpenApiError>
    where
        F: Fn(HttpRequest, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<HttpResponse, E>> + Send + 'static,
        E: Into<Failure>,
    {
        let send = Arc::new(send);
        let tool = |endpoint: Endpoint| {
            let send = send.clone();
            let (name, schema, operation) = endpoint.tool_parts();
            let endpoint = Arc::new(endpoint);
            let tool = Tool::with_schema_async(name, schema, move |arguments: Map<String, Value>, context: Context| {
                let (endpoint, send) = (endpoint.clone(), send.clone());
                async move {
                    let request = endpoint.request(&arguments)?;
                    endpoint.result(send(request, context).await.map_err(Into::into)?)
                }
            });
            operation.describe(tool)
        };
        Ok(self.endpoints(base_url)?.map(tool).collect())
    }

    fn endpoints(&self, base_url: &str) -> Result<impl Iterator<Item = Endpoint>, OpenApiError> {
        let base: Arc<str> = encode::base_url(base_url)?.into();
        let max = self.limits.response_bytes;
        Ok(self.operations.iter().map(move |operation| Endpoint::new(operation.clone(), base.clone(), max)))
    }
}
