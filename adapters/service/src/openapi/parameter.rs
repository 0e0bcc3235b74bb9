//! Parameters of operations: where they are in a request, and how they are written.

use serde_json::{Map, Value};

use super::{
    budget::Budget,
    encode::{push_encoded, scalar},
    error::{Refusal, excerpt},
    http::{essence, is_json},
    references::Document,
};
use crate::inbound::failure::Failure;

/// Where a parameter is in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParameterLocation {
    Path,
    Query,
    Header,
}

/// A parameter that is an argument of the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    /// The name of the argument.
    pub(super) argument: String,
    /// The name in the request.
    pub(super) name: String,
    pub(super) location: ParameterLocation,
    pub(super) is_required: bool,
    /// Whether the items of lists, and the members of objects, are parameters of their own.
    explodes: bool,
    /// Whether the value is written as JSON.
    is_json: bool,
}

/// The error for a value that the style of its parameter cannot express.
const UNWRITABLE: &str = "has values that cannot be written there";

/// Headers that an HTTP client sets for a request.
const HEADERS_OF_CLIENTS: [&str; 15] = [
    "connection",
    "content-encoding",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "origin",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers that are no parameters, as OpenAPI says.
const IGNORED_HEADERS: [&str; 3] = ["accept", "authorization", "content-type"];

impl Parameter {
    /// Reads a parameter, without the name of its argument. Returns it with its schema, or `None` if it is one that
    /// the application sets. `is_credential` tells whether a parameter of a location and name is the key of a security
    /// scheme. The caller has counted the name.
    pub(super) fn read<'a>(
        document: &'a Document,
        parameter: &'a Value,
        is_credential: impl Fn(&str, &str) -> bool,
        budget: &mut Budget<'_>,
    ) -> Result<Option<(Self, Option<&'a Value>)>, Refusal> {
        let text = |key: &str| parameter.get(key).and_then(Value::as_str);
        let truth = |key: &str| parameter.get(key).and_then(Value::as_bool);
        let (Some(name), Some(location)) = (text("name"), text("in")) else {
            return Err(Refusal::Invalid("a parameter".into()));
        };
        if is_credential(location, name) {
            return Ok(None);
        }
        let (location, style) = match location {
            "path" => (ParameterLocation::Path, "simple"),
            "query" => (ParameterLocation::Query, "form"),
            "header" => (ParameterLocation::Header, "simple"),
            "cookie" => return Err(Refusal::Cookie(excerpt(name))),
            _ => return Err(Refusal::Invalid(format!("the place of {:?}", excerpt(name)))),
        };
        if location == ParameterLocation::Header {
            let lower = name.to_ascii_lowercase();
            if IGNORED_HEADERS.contains(&&*lower) {
                return Ok(None);
            }
            if HEADERS_OF_CLIENTS.contains(&&*lower) || lower.starts_with("sec-") || !is_token(name) {
                return Err(Refusal::Header(excerpt(name)));
            }
        }
        let (schema, is_json) = match parameter.get("content").and_then(Value::as_object) {
            None => (parameter.get("schema"), false),
            Some(content) => (json_content(content, budget)?.1.get("schema"), true),
        };
        let chosen = text("style").unwrap_or(style);
        if chosen != style && !is_json {
            return Err(Refusal::Style { parameter: excerpt(name), style: excerpt(chosen) });
        }
        let is_object = match schema {
            Some(schema) => document.resolve(schema)?.get("type").is_some_and(|kind| kind == "object"),
            None => false,
        };
        let explodes = truth("explode").unwrap_or(location == ParameterLocation::Query);
        // The members of an object would be parameters with any names.
        if location == ParameterLocation::Query && explodes && is_object && !is_json {
            return Err(Refusal::Style { parameter: excerpt(name), style: "form, of an object that explodes".into() });
        }
        let parameter = Self {
            argument: String::new(),
            name: name.into(),
            location,
            is_required: location == ParameterLocation::Path || truth("required") == Some(true),
            explodes,
            is_json,
        };
        Ok(Some((parameter, schema)))
    }

    /// Returns the text of a value in a path, percent-encoded.
    pub(super) fn in_path(&self, value: &Value) -> Result<String, Failure> {
        let encoded = self.simple(value, |text| {
            let mut out = String::new();
            push_encoded(&mut out, text);
            out
        })?;
        // An empty segment would be that of another path.
        if encoded.is_empty() { Err(self.error("is empty")) } else { Ok(encoded) }
    }

    /// Returns the text of a value in a header.
    pub(super) fn in_header(&self, value: &Value) -> Result<String, Failure> {
        let text = self.simple(value, str::to_owned)?;
        let is_allowed = |c: char| c == ' ' || c == '\t' || c.is_ascii_graphic();
        if !text.chars().all(is_allowed) {
            return Err(self.error("has characters that a header cannot have"));
        }
        Ok(text)
    }

    /// Appends the pairs of a value to a query, each behind a `&`.
    pub(super) fn push_query(&self, value: &Value, query: &mut String) -> Result<(), Failure> {
        let mut pair = |name: &str, values: &[String]| {
            query.push('&');
            push_encoded(query, name);
            query.push('=');
            for (number, value) in values.iter().enumerate() {
                if number > 0 {
                    query.push(',');
                }
                push_encoded(query, value);
            }
        };
        match value {
            _ if self.is_json => pair(&self.name, &[value.to_string()]),
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.scalar(item)).collect::<Result<_, _>>()?;
                if self.explodes {
                    items.iter().for_each(|item| pair(&self.name, std::slice::from_ref(item)));
                } else if !items.is_empty() {
                    pair(&self.name, &items);
                }
            }
            // Its members would be other parameters.
            Value::Object(_) if self.explodes => return Err(self.error(UNWRITABLE)),
            Value::Object(members) => {
                let mut all = Vec::new();
                for (name, value) in members {
                    all.extend([name.clone(), self.scalar(value)?]);
                }
                if !all.is_empty() {
                    pair(&self.name, &all);
                }
            }
            _ => pair(&self.name, &[self.scalar(value)?]),
        }
        Ok(())
    }

    /// Returns a value in the style `simple`, with each text in it written by a function.
    fn simple(&self, value: &Value, write: impl Fn(&str) -> String) -> Result<String, Failure> {
        let item = |value: &Value| self.scalar(value).map(|text| write(&text));
        match value {
            _ if self.is_json => Ok(write(&value.to_string())),
            Value::Array(items) => Ok(items.iter().map(item).collect::<Result<Vec<_>, _>>()?.join(",")),
            Value::Object(members) => {
                let between = if self.explodes { '=' } else { ',' };
                let pairs = members.iter().map(|(name, value)| Ok(format!("{}{between}{}", write(name), item(value)?)));
                Ok(pairs.collect::<Result<Vec<_>, Failure>>()?.join(","))
            }
            _ => item(value),
        }
    }

    fn scalar(&self, value: &Value) -> Result<String, Failure> {
        scalar(value).ok_or_else(|| self.error(UNWRITABLE))
    }

    fn error(&self, why: &str) -> Failure {
        Failure::new(format!("the argument {:?} {why}", self.argument))
    }
}

/// Returns the media type and the definition of the first content that is JSON.
pub(super) fn json_content<'a>(
    content: &'a Map<String, Value>,
    budget: &mut Budget<'_>,
) -> Result<(String, &'a Value), Refusal> {
    for (media_type, about) in content {
        budget.text(media_type)?;
        let essence = essence(media_type);
        if is_json(&essence) {
            return Ok((essence, about));
        }
    }
    let types: Vec<_> = content.keys().take(5).map(|media_type| excerpt(media_type)).collect();
    Err(Refusal::MediaType(excerpt(&types.join(", "))))
}

/// Returns whether a text is a name of a header.
fn is_token(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}
