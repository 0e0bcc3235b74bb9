//! Errors of documents and of operations.

use std::fmt;

/// The error of a document that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenApiError {
    /// The text is not JSON, or the JSON is no OpenAPI document. The text is the reason.
    Invalid(String),
    /// The version is neither 3.0 nor 3.1.
    Version(String),
    /// The document has more bytes than [`document_bytes`](super::OpenApiLimits::document_bytes).
    DocumentBytes(usize),
    /// The document has more operations than [`operations`](super::OpenApiLimits::operations).
    Operations(usize),
    /// The schemas have more values than [`total_schema_nodes`](super::OpenApiLimits::total_schema_nodes).
    Schemas(usize),
    /// The base URL is no `http` or `https` URL, or has a query or a fragment.
    BaseUrl(String),
}

impl fmt::Display for OpenApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => write!(f, "the document is not OpenAPI: {why}"),
            Self::Version(version) => write!(f, "OpenAPI {version} is not supported, but 3.0 and 3.1 are"),
            Self::DocumentBytes(max) => write!(f, "the document has more than {max} bytes"),
            Self::Operations(max) => write!(f, "the document has more than {max} operations"),
            Self::Schemas(max) => write!(f, "the schemas of the document have more than {max} values"),
            Self::BaseUrl(url) => write!(f, "{url:?} cannot be the base of an API"),
        }
    }
}

impl std::error::Error for OpenApiError {}

/// An operation that cannot be a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedOperation {
    /// The method, in upper case.
    pub method: &'static str,
    /// The path in the document, or its first 200 characters.
    pub path: String,
    /// The reason.
    pub why: Refusal,
}

impl fmt::Display for RefusedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} cannot be a tool: {}", self.method, self.path, self.why)
    }
}

/// Returns the beginning of a text of a document. Many operations may share a long one.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(200).collect()
}

/// The reason why an operation cannot be a tool. Texts of the document are cut after 200 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A part of the operation is not as OpenAPI describes it. The text names it.
    Invalid(String),
    /// The path has more than 8 KiB, does not begin with `/`, has a query, a fragment, `.`, `..` or a single `%`,
    /// variables that are no parameters, or one of them twice.
    Path,
    /// A reference leads out of the document, to nothing, or to itself, or has more than 1 KiB.
    Reference(String),
    /// A parameter has a style that is not supported.
    Style {
        /// The parameter.
        parameter: String,
        /// The style.
        style: String,
    },
    /// A parameter is a cookie.
    Cookie(String),
    /// A parameter is a header that the HTTP client sets, or is no name of a header.
    Header(String),
    /// The request body, or the content of a parameter, is not JSON. The text has the first media types.
    MediaType(String),
    /// The operation has more parameters than [`parameters`](super::OpenApiLimits::parameters).
    Parameters(usize),
    /// The schemas and texts have more values than [`schema_nodes`](super::OpenApiLimits::schema_nodes).
    SchemaNodes(usize),
    /// The schemas are nested deeper than [`schema_depth`](super::OpenApiLimits::schema_depth).
    SchemaDepth(usize),
    /// The document has more patterns than [`total_patterns`](super::OpenApiLimits::total_patterns).
    Patterns(usize),
    /// A schema is invalid, or too expensive to check. The text is the reason.
    Schema(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(what) => write!(f, "{what} is invalid"),
            Self::Path => f.write_str("its path cannot be expanded"),
            Self::Reference(reference) => write!(f, "the reference {reference:?} cannot be resolved"),
            Self::Style { parameter, style } => write!(f, "the style {style:?} of {parameter:?} is not supported"),
            Self::Cookie(name) => write!(f, "the parameter {name:?} is a cookie"),
            Self::Header(name) => write!(f, "the parameter {name:?} cannot be a header"),
            Self::MediaType(types) => write!(f, "the content is not JSON but {types:?}"),
            Self::Parameters(max) => write!(f, "it has more than {max} parameters"),
            Self::SchemaNodes(max) => write!(f, "its schemas and texts have more than {max} values"),
            Self::SchemaDepth(max) => write!(f, "its schemas are nested deeper than {max}"),
            Self::Patterns(max) => write!(f, "the document has more than {max} patterns"),
            Self::Schema(why) => write!(f, "its schema cannot be used: {why}"),
        }
    }
}
