//! The headers that repeat parts of a request of 2026-07-28.

use alloc::{boxed::Box, sync::Arc, vec::Vec};

use http::{HeaderName, HeaderValue};

use super::tools::Tools;
use crate::{
    connection::Failure,
    http::names::{MCP_METHOD, MCP_NAME, PROTOCOL_VERSION},
    protocol::{Era, HeaderParam, Method, ProtocolVersion, encode_header},
    wire::RawJson,
};

/// The length in bytes up to which a name is kept for the next request.
const KEPT_NAME: usize = 256;

/// The headers of a message, in the order in which they are sent.
pub(super) type Headers = Arc<[(HeaderName, HeaderValue)]>;

/// Creates the headers of messages, and keeps the last ones: successive requests often have the same.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    last: Option<Mirrored>,
}

/// The headers of a request without `Mcp-Param-*`, and the texts that they repeat.
#[derive(Debug)]
struct Mirrored {
    version: ProtocolVersion,
    method: Method,
    name: Option<Box<str>>,
    headers: Headers,
}

impl Mirror {
    /// Returns the headers of a message with this revision, method and params.
    pub(super) fn headers(
        &mut self,
        tools: &Tools,
        version: &str,
        method: &str,
        params: Option<&RawJson<'_>>,
    ) -> Result<Headers, Failure> {
        let known = Method::parse(method).map(|known| known.in_era(Era::Modern));
        let name = known.and_then(Method::mirrored_param);
        let name = name.and_then(|name| params.and_then(|params| params.member(name)?.into_text()));
        let name = name.as_deref();
        let repeated = match (known, name) {
            (Some(Method::CallTool), Some(name)) => tools.params(name),
            _ => &[],
        };
        if !repeated.is_empty() {
            let arguments = params.and_then(|params| params.member("arguments"));
            return append_params(usual(version, method, name)?, repeated, arguments.as_ref()).map(Arc::from);
        }
        let is_last = |last: &&Mirrored| {
            Some(last.method) == known && last.version.as_str() == version && last.name.as_deref() == name
        };
        if let Some(last) = self.last.as_ref().filter(is_last) {
            return Ok(last.headers.clone());
        }
        let headers = Headers::from(usual(version, method, name)?);
        if let (Some(method), Some(version)) = (known, ProtocolVersion::parse(version))
            && name.is_none_or(|name| name.len() <= KEPT_NAME)
        {
            let name = name.map(Box::from);
            self.last = Some(Mirrored { version, method, name, headers: headers.clone() });
        }
        Ok(headers)
    }
}

fn value(text: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(text).map_err(|_| Failure::NoHeader)
}

/// Returns the value for a text, without a copy if it is one of the specification.
fn fixed(known: Option<&'static str>, text: &str) -> Result<HeaderValue, Failure> {
    known.map_or_else(|| value(text), |known| Ok(HeaderValue::from_static(known)))
}

/// Returns the headers that do not depend on arguments.
fn usual(version: &str, method: &str, name: Option<&str>) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    let mut headers = Vec::with_capacity(3);
    headers.push((PROTOCOL_VERSION, fixed(ProtocolVersion::parse(version).map(ProtocolVersion::as_str), version)?));
    headers.push((MCP_METHOD, fixed(Method::parse(method).map(Method::as_str), method)?));
    if let Some(name) = name {
        headers.push((MCP_NAME, value(&encode_header(name))?));
    }
    Ok(headers)
}

/// Appends the headers that repeat arguments of a tool.
fn append_params(
    mut headers: Vec<(HeaderName, HeaderValue)>,
    params: &[HeaderParam],
    arguments: Option<&RawJson<'_>>,
) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    let texts = HeaderParam::values(params, arguments).map_err(|_| Failure::NoHeader)?;
    for (param, text) in params.iter().zip(texts) {
        if let Some(text) = text {
            let header = HeaderName::from_bytes(param.header().as_bytes()).map_err(|_| Failure::NoHeader)?;
            headers.push((header, value(&text)?));
        }
    }
    Ok(headers)
}
