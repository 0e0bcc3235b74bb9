//! Reads the operations of a document.

use std::collections::HashSet;

use mcp_proto::wire::JsonObject;
use serde_json::{Map, Value, json};

use super::{
    budget::Budget,
    encode::is_dot_segment,
    error::{OpenApiError, Refusal, RefusedOperation, excerpt},
    http::{essence, is_json},
    limits::OpenApiLimits,
    names::Names,
    operation::{Body, Operation, PathPart},
    parameter::{Parameter, ParameterLocation, json_content},
    references::Document,
    schema::{Direction, Schemas},
};
use crate::json_schema::Checker;

/// The methods whose operations become tools.
const METHODS: [(&str, &str); 5] =
    [("get", "GET"), ("put", "PUT"), ("post", "POST"), ("delete", "DELETE"), ("patch", "PATCH")];

/// The longest path, in bytes.
const MAX_PATH: usize = 8 << 10;
/// The longest name of a parameter, in bytes.
const MAX_PARAMETER_NAME: usize = 1 << 10;

/// The operations that were read, and those that cannot be tools.
type Read = (Vec<Operation>, Vec<RefusedOperation>);

/// A part of an operation, with its schema, and where the document describes it.
type Found<'a, T> = (T, Option<&'a Value>, &'a Value);

/// Reads a document.
pub(super) fn read(json: &str, limits: &OpenApiLimits) -> Result<Read, OpenApiError> {
    if json.len() > limits.document_bytes {
        return Err(OpenApiError::DocumentBytes(limits.document_bytes));
    }
    let root: Value = serde_json::from_str(json).map_err(|error| OpenApiError::Invalid(error.to_string()))?;
    let Some(version) = root.get("openapi").and_then(Value::as_str) else {
        return Err(OpenApiError::Invalid("it does not say \"openapi\"".into()));
    };
    let is_3_0 = match version.get(..4) {
        Some("3.0.") => true,
        Some("3.1.") => false,
        _ => return Err(OpenApiError::Version(version.chars().take(20).collect())),
    };
    let document = Document { root, is_3_0 };
    let empty = Map::new();
    let paths = match document.root.get("paths") {
        None => &empty,
        Some(paths) => paths.as_object().ok_or_else(|| OpenApiError::Invalid("\"paths\" is not an object".into()))?,
    };
    // A path may be a reference, so its operations are counted where it leads.
    let mut all = Vec::new();
    let mut refused = Vec::new();
    for (path, item) in paths {
        match document.resolve(item) {
            Ok(item) => {
                let found = METHODS.iter().filter_map(|(key, method)| Some((*method, path, item, item.get(*key)?)));
                all.extend(found);
            }
            Err(why) => refused.push(RefusedOperation { method: "any", path: excerpt(path), why }),
        }
        if all.len() + refused.len() > limits.operations {
            return Err(OpenApiError::Operations(limits.operations));
        }
    }
    let mut reader = Reader { document: &document, credentials: credentials(&document), names: Names::default() };
    let (mut operations, mut total_nodes, mut budget) = (Vec::new(), 0_usize, Budget::new(limits));
    for (method, path, item, operation) in all {
        budget.nodes = 0;
        match reader.operation(method, path, item, operation, &mut budget) {
            Ok(operation) => operations.push(operation),
            Err(why) => refused.push(RefusedOperation { method, path: excerpt(path), why }),
        }
        total_nodes += budget.nodes;
        if total_nodes > limits.total_schema_nodes {
            return Err(OpenApiError::Schemas(limits.total_schema_nodes));
        }
    }
    Ok((operations, refused))
}

/// Returns the places and names of parameters that are keys of security schemes. Names of headers are in lower case.
fn credentials(document: &Document) -> HashSet<(String, String)> {
    let schemes = document.root.pointer("/components/securitySchemes").and_then(Value::as_object);
    let key = |scheme: &Value| {
        let scheme = document.resolve(scheme).ok()?;
        let text = |key: &str| scheme.get(key).and_then(Value::as_str);
        let (kind, location, name) = (text("type")?, text("in")?, text("name")?);
        // No parameter has a longer name.
        (kind == "apiKey" && name.len() <= MAX_PARAMETER_NAME).then(|| key_of(location, name))
    };
    schemes.into_iter().flat_map(Map::values).filter_map(key).collect()
}

/// Returns what identifies a parameter.
fn key_of(location: &str, name: &str) -> (String, String) {
    let name = if location == "header" { name.to_ascii_lowercase() } else { name.to_owned() };
    (location.to_owned(), name)
}

struct Reader<'a> {
    document: &'a Document,
    /// The parameters that only the application sets.
    credentials: HashSet<(String, String)>,
    names: Names,
}

impl<'a> Reader<'a> {
    fn operation(
        &mut self,
        method: &'static str,
        path: &str,
        item: &'a Value,
        operation: &'a Value,
        budget: &mut Budget<'a>,
    ) -> Result<Operation, Refusal> {
        if !operation.is_object() {
            return Err(Refusal::Invalid("the operation".into()));
        }
        if path.len() > MAX_PATH {
            return Err(Refusal::Path);
        }
        budget.text(path)?;
        for key in ["operationId", "summary", "description"] {
            budget.text(operation.get(key).and_then(Value::as_str).unwrap_or_default())?;
        }
        let text =
            |key: &str| operation.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
        let found = self.parameters(item, operation, budget)?;
        let found_body = self.body(operation, budget)?;
        let mut inputs = Schemas::new(self.document, budget, Direction::Request);
        let (mut names, mut properties, mut required) = (Names::default(), Map::new(), Vec::new());
        let mut parameters = Vec::new();
        for (mut parameter, schema, about) in found {
            parameter.argument = names.unique(&parameter.name);
            let schema = schema.map_or_else(|| Ok(json!({})), |schema| inputs.convert(schema))?;
            let description = about.get("description").and_then(Value::as_str);
            properties.insert(parameter.argument.clone(), described(schema, description));
            if parameter.is_required {
                required.push(parameter.argument.clone());
            }
            parameters.push(parameter);
        }
        let mut body = None;
        if let Some((media_type, schema, about)) = found_body {
            let argument = names.unique("body");
            let schema = schema.map_or_else(|| Ok(json!({})), |schema| inputs.convert(schema))?;
            let description = about.get("description").and_then(Value::as_str);
            properties.insert(argument.clone(), described(schema, description));
            if about.get("required").and_then(Value::as_bool) == Some(true) {
                required.push(argument.clone());
            }
            body = Some(Body { argument, media_type });
        }
        let mut input = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            input["required"] = required.into();
        }
        let input_schema = checked(with_definitions(input, inputs.definitions()?))?;
        // A tool needs no schema of its results.
        let output_schema = self.output(operation, budget).and_then(|schema| schema.map(checked).transpose());
        let parts = parts(path, &parameters)?;
        let id = text("operationId").map_or_else(|| format!("{}{path}", method.to_lowercase()), str::to_owned);
        let description: Vec<_> = [text("summary"), text("description")].into_iter().flatten().collect();
        Ok(Operation {
            name: self.names.unique(&id),
            description: description.join("\n\n"),
            method,
            path: path.to_owned(),
            parts,
            parameters,
            body,
            input_schema,
            output_schema: output_schema.unwrap_or_default(),
        })
    }

    /// Returns the parameters of an operation with their schemas and definitions. Those of the operation replace those
    /// of the path.
    fn parameters(
        &self,
        item: &'a Value,
        operation: &'a Value,
        budget: &mut Budget<'_>,
    ) -> Result<Vec<Found<'a, Parameter>>, Refusal> {
        let lists = [operation.get("parameters"), item.get("parameters")];
        let lists = lists
            .into_iter()
            .flatten()
            .map(|list| list.as_array().ok_or_else(|| Refusal::Invalid("\"parameters\"".into())));
        let lists: Vec<_> = lists.collect::<Result<_, _>>()?;
        if lists.iter().map(|list| list.len()).sum::<usize>() > budget.limits.parameters {
            return Err(Refusal::Parameters(budget.limits.parameters));
        }
        let is_credential = |location: &str, name: &str| self.credentials.contains(&key_of(location, name));
        let (mut seen, mut parameters) = (HashSet::new(), Vec::new());
        for about in lists.into_iter().flatten() {
            let about = self.document.resolve(about)?;
            let key = |key: &str| about.get(key).and_then(Value::as_str).unwrap_or_default();
            if key("name").len() > MAX_PARAMETER_NAME {
                return Err(Refusal::Invalid(format!("the name {:?}", excerpt(key("name")))));
            }
            for text in ["name", "in", "description"] {
                budget.text(key(text))?;
            }
            // Headers that differ in case only are one header.
            if !seen.insert(key_of(key("in"), key("name"))) {
                continue;
            }
            if let Some((parameter, schema)) = Parameter::read(self.document, about, is_credential, budget)? {
                parameters.push((parameter, schema, about));
            }
        }
        Ok(parameters)
    }

    /// Returns the media type, the schema and the definition of the request body.
    fn body(&self, operation: &'a Value, budget: &mut Budget<'_>) -> Result<Option<Found<'a, String>>, Refusal> {
        let Some(body) = operation.get("requestBody") else { return Ok(None) };
        let body = self.document.resolve(body)?;
        let content = body.get("content").and_then(Value::as_object);
        let content = content.ok_or_else(|| Refusal::Invalid("the request body".into()))?;
        budget.text(body.get("description").and_then(Value::as_str).unwrap_or_default())?;
        let (media_type, about) = json_content(content, budget)?;
        Ok(Some((media_type, about.get("schema"), body)))
    }

    /// Returns the schema of results, if there is one successful response and it is a JSON object.
    fn output(&self, operation: &'a Value, budget: &mut Budget<'a>) -> Result<Option<Value>, Refusal> {
        let responses = operation.get("responses").and_then(Value::as_object);
        budget.values(responses.map_or(0, Map::len))?;
        let mut successful = responses.into_iter().flatten().filter(|(status, _)| status.starts_with('2'));
        let (Some((_, response)), None) = (successful.next(), successful.next()) else { return Ok(None) };
        let Some(content) = self.document.resolve(response)?.get("content").and_then(Value::as_object) else {
            return Ok(None);
        };
        let mut content = content.iter();
        let (Some((media_type, about)), None) = (content.next(), content.next()) else { return Ok(None) };
        budget.text(media_type)?;
        let Some(schema) = about.get("schema").filter(|_| is_json(&essence(media_type))) else { return Ok(None) };
        let mut schemas = Schemas::new(self.document, budget, Direction::Response);
        let Some(schema) = schemas.object(schema)? else { return Ok(None) };
        Ok(Some(with_definitions(schema, schemas.definitions()?)))
    }
}

/// Returns a schema with a description, unless it has one.
fn described(mut schema: Value, description: Option<&str>) -> Value {
    let Some(description) = description else { return schema };
    if schema == true {
        schema = json!({});
    }
    if let Some(members) = schema.as_object_mut() {
        members.entry("description").or_insert_with(|| description.into());
    }
    schema
}

fn with_definitions(mut schema: Value, definitions: Map<String, Value>) -> Value {
    if !definitions.is_empty() {
        schema["$defs"] = definitions.into();
    }
    schema
}

/// Returns a schema that can be checked at a bounded cost.
fn checked(schema: Value) -> Result<JsonObject, Refusal> {
    let schema = JsonObject::new(&schema).map_err(|error| Refusal::Schema(error.to_string()))?;
    Checker::of(&schema, false).map_err(|why| Refusal::Schema(why.to_string()))?;
    Ok(schema)
}

/// Returns whether each `%` of a text is before two hexadecimal digits.
fn is_percent_encoded(text: &str) -> bool {
    let is_byte = |digits: &str| digits.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    text.split('%').skip(1).all(is_byte)
}

/// Splits a path into texts and parameters.
fn parts(path: &str, parameters: &[Parameter]) -> Result<Vec<PathPart>, Refusal> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._~/!$&'()*+,;=:@%".contains(c);
    if !path.starts_with('/') || path.split('/').any(is_dot_segment) {
        return Err(Refusal::Path);
    }
    let mut parts = Vec::new();
    let mut used = HashSet::new();
    for piece in path.split_inclusive(['{', '}']) {
        match piece.strip_suffix('}') {
            Some(name) if parts.last() == Some(&PathPart::Text("{".into())) => {
                let found =
                    parameters.iter().position(|known| known.location == ParameterLocation::Path && known.name == name);
                let number = found.ok_or(Refusal::Path)?;
                // A value that is there many times would make a URL many times as long.
                if !used.insert(number) {
                    return Err(Refusal::Path);
                }
                parts.pop();
                parts.push(PathPart::Parameter(number));
            }
            Some(_) => return Err(Refusal::Path),
            None => {
                let text = piece.strip_suffix('{').unwrap_or(piece);
                if !text.chars().all(is_allowed) || !is_percent_encoded(text) {
                    return Err(Refusal::Path);
                }
                parts.push(PathPart::Text(text.to_owned()));
                if piece.ends_with('{') {
                    parts.push(PathPart::Text("{".into()));
                }
            }
        }
    }
    let is_used = |(number, parameter): (usize, &Parameter)| {
        parameter.location != ParameterLocation::Path || used.contains(&number)
    };
    if parts.contains(&PathPart::Text("{".into())) || !parameters.iter().enumerate().all(is_used) {
        return Err(Refusal::Path);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(paths: &Value, components: &Value) -> String {
        json!({"openapi": "3.1.0", "paths": paths, "components": components}).to_string()
    }

    /// Returns the least limit with which a document is read.
    fn least(document: &str, limits: impl Fn(usize) -> OpenApiLimits) -> usize {
        (0..100_000).find(|limit| read(document, &limits(*limit)).is_ok()).expect("a limit that is enough")
    }

    #[test]
    fn limits_of_documents_are_exact() {
        let operation = json!({"parameters": [{"name": "a", "in": "query", "schema": {"type": "string"}}]});
        let path =
            |count: usize| (0..count).map(|n| (format!("/{n}"), json!({"get": operation}))).collect::<Map<_, _>>();
        let documents = [1, 2, 3].map(|count| document(&path(count).into(), &json!({})));
        let nodes = documents.each_ref().map(|text| {
            least(text, |total_schema_nodes| OpenApiLimits { total_schema_nodes, ..OpenApiLimits::default() })
        });
        assert!(nodes[0] > 3, "{nodes:?}");
        assert_eq!([nodes[1], nodes[2]], [2 * nodes[0], 3 * nodes[0]]);
        for (text, count) in documents.iter().zip(1..) {
            let bytes = |document_bytes| OpenApiLimits { document_bytes, ..OpenApiLimits::default() };
            assert!(read(text, &bytes(text.len())).is_ok() && read(text, &bytes(text.len() - 1)).is_err());
            let operations = |operations| OpenApiLimits { operations, ..OpenApiLimits::default() };
            assert!(read(text, &operations(count)).is_ok() && read(text, &operations(count - 1)).is_err());
        }
        // Refused paths count, too.
        let paths = json!({"/a": {"get": {}, "put": {}}, "/b": {"$ref": "#/none"}, "/c": {"$ref": "#/none"}});
        let text = document(&paths, &json!({}));
        assert_eq!(least(&text, |operations| OpenApiLimits { operations, ..OpenApiLimits::default() }), 4);
    }

    #[test]
    fn parameters_of_path_and_operation_are_counted_together() {
        let query = |name: &str| json!({"name": name, "in": "query"});
        let get = json!({"parameters": [query("a"), query("b")]});
        let text = document(&json!({"/a": {"parameters": [query("c")], "get": get}}), &json!({}));
        for (parameters, refused) in [(3, 0), (2, 1)] {
            let limits = OpenApiLimits { parameters, ..OpenApiLimits::default() };
            assert_eq!(read(&text, &limits).expect("a document").1.len(), refused);
        }
        for (length, refused) in [(MAX_PARAMETER_NAME, 0), (MAX_PARAMETER_NAME + 1, 1)] {
            let get = json!({"parameters": [query(&"x".repeat(length))]});
            let text = document(&json!({"/a": {"get": get}}), &json!({}));
            assert_eq!(read(&text, &OpenApiLimits::default()).expect("a document").1.len(), refused);
            let text =
                document(&json!({format!("/{}", "x".repeat(MAX_PATH - 1024 + length - 1)): {"get": {}}}), &json!({}));
            assert_eq!(read(&text, &OpenApiLimits::default()).expect("a document").1.len(), refused);
        }
    }

    #[test]
    fn keys_of_security_schemes_are_no_arguments() {
        let parameter = |location: &str, name: &str| json!({"name": name, "in": location});
        let schemes = json!({"securitySchemes": {
            "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "query": {"type": "apiKey", "in": "query", "name": "key"},
            "other": {"type": "http", "in": "query", "name": "free"},
        }});
        let names = ["x-key", "key", "Key", "free"];
        let all: Vec<_> = ["header", "query"].iter().flat_map(|it| names.map(|name| parameter(it, name))).collect();
        let text = document(&json!({"/a": {"get": {"parameters": all}}}), &schemes);
        let (operations, refused) = read(&text, &OpenApiLimits::default()).expect("a document");
        assert_eq!(refused, []);
        let left: Vec<_> = operations[0].parameters.iter().map(|it| (it.location, &*it.name)).collect();
        let (header, query) = (ParameterLocation::Header, ParameterLocation::Query);
        // `key` and `Key` are one header.
        let expected = [(header, "key"), (header, "free"), (query, "x-key"), (query, "Key"), (query, "free")];
        assert_eq!(left, expected);
    }

    #[test]
    fn arguments_get_the_descriptions_of_their_parameters() {
        let parameter =
            |name: &str, schema: Value| json!({"name": name, "in": "query", "description": "d", "schema": schema});
        let parameters = [
            parameter("none", json!(true)),
            parameter("never", json!(false)),
            parameter("plain", json!({"type": "string"})),
            parameter("own", json!({"description": "own"})),
        ];
        let body = json!({"required": true, "description": "b", "content": {"application/json": {}}});
        let post = json!({"parameters": parameters, "requestBody": body});
        let text = document(&json!({"/a": {"post": post}}), &json!({}));
        let (operations, refused) = read(&text, &OpenApiLimits::default()).expect("a document");
        assert_eq!(refused, []);
        let schema: Value = operations[0].input_schema.decode().expect("a schema");
        let expected = json!({
            "none": {"description": "d"},
            "never": false,
            "plain": {"type": "string", "description": "d"},
            "own": {"description": "own"},
            "body": {"description": "b"},
        });
        assert_eq!((&schema["properties"], &schema["required"]), (&expected, &json!(["body"])));
        assert_eq!(operations[0].name, "post_a");
    }
}
