//! Types of Rust for JSON Schemas.

use std::{collections::HashMap, fmt::Write};

use serde_json::{Map, Value};

use super::names::{Scope, camel_case, snake_case};

/// The deepest nesting of a schema that gets types of its own. What is deeper is a `Value`.
const MAX_DEPTH: usize = 24;

/// The most types of a module, and the most fields and variants of all. What is beyond is a `Value`.
const MAX_TYPES: usize = 4096;
const MAX_MEMBERS: usize = 65_536;

/// The types of a module, in the order in which they are needed.
#[derive(Default)]
pub(super) struct Types {
    names: Scope,
    text: String,
    count: usize,
    members: usize,
}

/// A schema with the definitions to which it refers.
struct Source<'a> {
    root: &'a Value,
    /// Whether values are written, so that missing fields are left out.
    is_input: bool,
    /// The types of definitions, by reference.
    definitions: HashMap<String, Definition>,
}

enum Definition {
    /// A struct whose members are being written, so that a reference is to a type that contains itself.
    Open(String),
    /// A type that is no struct, and is being made. A reference to it has no end.
    Unnamed,
    Done(String),
}

impl Types {
    /// Creates the types of a module in which these names are taken.
    pub(super) fn with(taken: &[&str]) -> Self {
        Self { names: Scope::with(taken), ..Self::default() }
    }

    /// Adds the type for a schema of an object. Returns its name, or `None` if it has no members.
    pub(super) fn of_input(&mut self, name: &str, schema: &Value) -> Option<String> {
        let has_members = schema.get("properties").and_then(Value::as_object).is_some_and(|it| !it.is_empty());
        if !has_members && schema.get("$ref").is_none() {
            let is_combined = ["allOf", "anyOf", "oneOf", "not", "if"].iter().any(|name| schema.get(*name).is_some());
            if is_combined {
                return Some(MAP.into());
            }
            let is_closed = schema.get("additionalProperties").is_none_or(|it| it == false);
            return if is_closed { None } else { Some(MAP.into()) };
        }
        let mut source = Source { root: schema, is_input: true, definitions: HashMap::new() };
        Some(self.of(&mut source, schema, name, 0))
    }

    /// Adds the type for a schema of results. Returns its name.
    pub(super) fn of_output(&mut self, name: &str, schema: &Value) -> String {
        let mut source = Source { root: schema, is_input: false, definitions: HashMap::new() };
        self.of(&mut source, schema, name, 0)
    }

    /// Returns the text of all types.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn of(&mut self, source: &mut Source<'_>, schema: &Value, name: &str, depth: usize) -> String {
        if depth > MAX_DEPTH {
            return VALUE.into();
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            return self.of_reference(source, target, depth);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return match texts(values) {
                Some((values, is_nullable)) => optional(self.of_choice(schema, name, &values), is_nullable),
                None => VALUE.into(),
            };
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(choices) = schema.get(keyword).and_then(Value::as_array) {
                return self.of_alternatives(source, schema, choices, name, depth);
            }
        }
        match schema.get("type") {
            Some(Value::String(kind)) => self.of_kind(source, schema, kind, name, depth),
            Some(Value::Array(kinds)) => {
                let kinds: Vec<_> = kinds.iter().filter_map(Value::as_str).collect();
                let others: Vec<_> = kinds.iter().filter(|kind| **kind != "null").collect();
                match others[..] {
                    [kind] => optional(self.of_kind(source, schema, kind, name, depth), others.len() < kinds.len()),
                    _ => VALUE.into(),
                }
            }
            _ if schema.get("properties").is_some() => self.of_kind(source, schema, "object", name, depth),
            _ => VALUE.into(),
        }
    }

    /// Returns the type of a definition in the same document. Others are a `Value`.
    fn of_reference(&mut self, source: &mut Source<'_>, target: &str, depth: usize) -> String {
        match source.definitions.get(target) {
            Some(Definition::Open(name)) => return format!("Box<{name}>"),
            Some(Definition::Unnamed) => return VALUE.into(),
            Some(Definition::Done(name)) => return name.clone(),
            None => {}
        }
        let pointer = target.strip_prefix('#').filter(|pointer| pointer.starts_with('/'));
        let Some(definition) = pointer.and_then(|pointer| source.root.pointer(pointer)) else { return VALUE.into() };
        let name = camel_case(target.rsplit('/').next().unwrap_or_default());
        let properties = definition.get("properties").and_then(Value::as_object).filter(|it| !it.is_empty());
        let made = match properties {
            Some(properties) if self.has_room(properties.len()) => {
                let name = self.names.take(name);
                source.definitions.insert(target.to_owned(), Definition::Open(name.clone()));
                self.add_struct(source, definition, &name, depth + 1);
                name
            }
            Some(_) => VALUE.into(),
            None => {
                source.definitions.insert(target.to_owned(), Definition::Unnamed);
                self.of(source, definition, &name, depth + 1)
            }
        };
        source.definitions.insert(target.to_owned(), Definition::Done(made.clone()));
        made
    }

    /// Returns whether there is room for a type with this many members.
    const fn has_room(&self, members: usize) -> bool {
        self.count < MAX_TYPES && self.members + members <= MAX_MEMBERS
    }

    fn of_alternatives(
        &mut self,
        source: &mut Source<'_>,
        schema: &Value,
        choices: &[Value],
        name: &str,
        depth: usize,
    ) -> String {
        let is_null = |choice: &&Value| choice.get("type").is_some_and(|kind| kind == "null");
        let others: Vec<_> = choices.iter().filter(|choice| !is_null(choice)).collect();
        let is_nullable = others.len() < choices.len();
        if let [choice] = others[..] {
            return optional(self.of(source, choice, name, depth + 1), is_nullable);
        }
        // Constants with descriptions of their own.
        let constants: Option<Vec<_>> =
            others.iter().map(|choice| choice.get("const").and_then(Value::as_str).map(str::to_owned)).collect();
        match constants {
            Some(values) if !values.is_empty() => optional(self.of_choice(schema, name, &values), is_nullable),
            _ => VALUE.into(),
        }
    }

    fn of_kind(&mut self, source: &mut Source<'_>, schema: &Value, kind: &str, name: &str, depth: usize) -> String {
        match kind {
            "string" => "String".into(),
            "boolean" => "bool".into(),
            "number" => "f64".into(),
            "integer" => {
                let is_natural = schema.get("minimum").and_then(Value::as_f64).is_some_and(|minimum| minimum >= 0.0);
                if is_natural { "u64".into() } else { "i64".into() }
            }
            "array" => match schema.get("items") {
                Some(items) if items.is_object() => {
                    format!("Vec<{}>", unboxed(self.of(source, items, &format!("{name}Item"), depth + 1)))
                }
                _ => format!("Vec<{VALUE}>"),
            },
            "object" => {
                let members = schema.get("properties").and_then(Value::as_object).map_or(0, Map::len);
                let has_members = members > 0;
                match schema.get("additionalProperties") {
                    _ if has_members && self.has_room(members) => {
                        let name = self.names.take(name.to_owned());
                        self.add_struct(source, schema, &name, depth);
                        name
                    }
                    Some(values) if values.is_object() && !has_members => {
                        let values = self.of(source, values, &format!("{name}Value"), depth + 1);
                        format!("std::collections::BTreeMap<String, {}>", unboxed(values))
                    }
                    _ if has_members => VALUE.into(),
                    _ => MAP.into(),
                }
            }
            "null" => "()".into(),
            _ => VALUE.into(),
        }
    }

    fn of_choice(&mut self, schema: &Value, name: &str, values: &[String]) -> String {
        if values.is_empty() || !self.has_room(values.len()) {
            return "String".into();
        }
        self.count += 1;
        self.members += values.len();
        let (name, mut variants, mut text) = (self.names.take(name.to_owned()), Scope::default(), String::new());
        document(&mut text, "", schema);
        text.push_str("#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]\n");
        write_line(&mut text, format_args!("pub enum {name} {{"));
        let mut seen = std::collections::HashSet::new();
        for value in values.iter().filter(|value| seen.insert(value.as_str())) {
            let variant = variants.take(camel_case(value));
            write_line(&mut text, format_args!("    /// `{}`", plain(value)));
            write_line(&mut text, format_args!("    #[serde(rename = {value:?})]"));
            write_line(&mut text, format_args!("    {variant},"));
        }
        text.push_str("}\n\n");
        self.text.push_str(&text);
        name
    }

    fn add_struct(&mut self, source: &mut Source<'_>, schema: &Value, name: &str, depth: usize) {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        self.count += 1;
        self.members += properties.len();
        let required = schema.get("required").and_then(Value::as_array);
        let required: std::collections::HashSet<_> = required.into_iter().flatten().filter_map(Value::as_str).collect();
        let (mut fields, mut text) = (Scope::default(), String::new());
        document(&mut text, "", schema);
        let is_default = properties.keys().all(|member| !required.contains(member.as_str()));
        let default = if is_default { "Default, " } else { "" };
        write_line(&mut text, format_args!("#[derive(Clone, Debug, {default}PartialEq, Serialize, Deserialize)]"));
        write_line(&mut text, format_args!("pub struct {name} {{"));
        for (member, schema) in properties {
            let field = fields.take(snake_case(member));
            let inner = self.of(source, schema, &camel_case(&format!("{name} {member}")), depth + 1);
            document(&mut text, "    ", schema);
            let is_required = required.contains(member.as_str());
            let mut rules = Vec::new();
            if field != *member {
                rules.push(format!("rename = {member:?}"));
            }
            if !is_required && source.is_input {
                rules.push("skip_serializing_if = \"Option::is_none\"".into());
            }
            if !rules.is_empty() {
                write_line(&mut text, format_args!("    #[serde({})]", rules.join(", ")));
            }
            write_line(&mut text, format_args!("    pub {field}: {},", optional(inner, !is_required)));
        }
        text.push_str("}\n\n");
        self.text.push_str(&text);
    }
}

const VALUE: &str = "serde_json::Value";
const MAP: &str = "serde_json::Map<String, serde_json::Value>";

/// Returns the type in a box: a list needs none.
fn unboxed(inner: String) -> String {
    match inner.strip_prefix("Box<").and_then(|rest| rest.strip_suffix('>')) {
        Some(inner) => inner.to_owned(),
        None => inner,
    }
}

fn optional(inner: String, is_optional: bool) -> String {
    if is_optional && !inner.starts_with("Option<") { format!("Option<{inner}>") } else { inner }
}

/// Returns the texts of a list of values, and whether null is one of the values. `None` if there are others.
fn texts(values: &[Value]) -> Option<(Vec<String>, bool)> {
    let others: Vec<_> = values.iter().filter(|value| !value.is_null()).collect();
    let texts: Option<Vec<_>> = others.iter().map(|value| value.as_str().map(str::to_owned)).collect();
    Some((texts?, others.len() < values.len()))
}

fn write_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

/// Writes the title and description of a schema as documentation.
fn document(text: &mut String, indent: &str, schema: &Value) {
    let described = ["description", "title"].iter().find_map(|name| schema.get(*name).and_then(Value::as_str));
    comment(text, indent, described.unwrap_or_default());
}

/// Writes a text of the server as documentation. The text cannot leave the comment.
pub(super) fn comment(text: &mut String, indent: &str, described: &str) {
    for line in described.lines().take(100) {
        let line = plain(line);
        write_line(text, format_args!("{indent}///{}{line}", if line.is_empty() { "" } else { " " }));
    }
}

/// Returns a text of one line that is only text in documentation: without control characters, without changes of
/// direction, which rustc refuses, and without Markdown and HTML that rustdoc reads. A block of code would be compiled
/// and run as a test.
fn plain(text: &str) -> String {
    let is_direction = |letter: char| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let line = text.chars().filter(|letter| !letter.is_control() && !is_direction(*letter)).take(400);
    let line: String = line.map(|letter| if matches!(letter, '`' | '~') { '\'' } else { letter }).collect();
    line.replace('[', "\\[").replace('<', "\\<").trim().to_owned()
}
