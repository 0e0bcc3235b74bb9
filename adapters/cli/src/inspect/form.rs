//! Forms: the arguments of a tool by its input schema, those of a prompt, and what a server asks for.

use std::collections::HashSet;

use crossterm::event::KeyCode;
use serde_json::{Map, Value};

use super::line::Line;
use crate::{
    arguments,
    text::{beginning, one_line, rows},
};

/// The most fields of a form, and the most choices of a field. Others are left out.
const MAX_FIELDS: usize = 200;

/// The most bytes of the description of a field: one line of it is shown.
const MAX_DESCRIPTION: usize = 1024;

/// A form.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) fields: Vec<Field>,
    /// The field with the cursor, or one of the buttons after the last one.
    pub(crate) selected: usize,
    pub(crate) buttons: &'static [&'static str],
    /// The mistake in the values.
    pub(crate) error: Option<String>,
    schema: Value,
}

/// A field of a form.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) is_required: bool,
    pub(crate) description: String,
    pub(crate) line: Line,
}

/// The type of a field's value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Text,
    /// A number, or JSON, by the type in the schema.
    Json(String),
    /// One of some values, or none: with their names.
    Choice {
        values: Vec<(Value, String)>,
        chosen: Option<usize>,
    },
}

impl Form {
    /// Creates the form of a JSON Schema of an object.
    pub(crate) fn of_schema(schema: &Value, buttons: &'static [&'static str]) -> Self {
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: HashSet<_> = required.filter_map(Value::as_str).collect();
        let properties = schema.get("properties").and_then(Value::as_object);
        let fields = properties.into_iter().flatten().take(MAX_FIELDS);
        let fields = fields.map(|(name, property)| Field::of_property(name, property, required.contains(&**name)));
        let mut fields: Vec<_> = fields.collect();
        // The order of the schema is not known: objects of JSON have none here.
        fields.sort_by_key(|field| !field.is_required);
        Self { fields, selected: 0, buttons, error: None, schema: schema.clone() }
    }

    /// Creates the form of the arguments of a prompt.
    pub(crate) fn of_prompt(prompt: &Value, buttons: &'static [&'static str]) -> Self {
        let arguments = prompt.get("arguments").and_then(Value::as_array);
        let fields = arguments.into_iter().flatten().take(MAX_FIELDS).map(|argument| {
            let text = |name: &str| argument.get(name).and_then(Value::as_str).unwrap_or_default();
            let is_required = argument.get("required") == Some(&Value::Bool(true));
            Field::text(text("name"), text("description"), is_required)
        });
        Self::of_fields(fields.collect(), buttons)
    }

    /// Creates a form of texts.
    pub(crate) fn of_fields(fields: Vec<Field>, buttons: &'static [&'static str]) -> Self {
        Self { fields, selected: 0, buttons, error: None, schema: Value::Null }
    }

    /// Returns the button that is selected.
    pub(crate) fn button(&self) -> Option<usize> {
        self.selected.checked_sub(self.fields.len())
    }

    /// Moves the cursor by some fields.
    pub(crate) fn step(&mut self, by: isize) {
        let last = self.fields.len() + self.buttons.len() - 1;
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    /// Takes a key that edits the field with the cursor.
    pub(crate) fn take(&mut self, key: KeyCode) {
        let Some(field) = self.fields.get_mut(self.selected) else {
            match key {
                KeyCode::Left if self.button() != Some(0) => self.step(-1),
                KeyCode::Right => self.step(1),
                _ => {}
            }
            return;
        };
        self.error = None;
        match &mut field.kind {
            Kind::Choice { values, chosen } => match key {
                KeyCode::Left => *chosen = chosen.unwrap_or(values.len()).checked_sub(1),
                KeyCode::Right | KeyCode::Char(' ') => {
                    *chosen = Some(chosen.map_or(0, |it| it + 1)).filter(|it| *it < values.len());
                }
                KeyCode::Backspace | KeyCode::Delete => *chosen = None,
                KeyCode::Char(letter) => {
                    let begins = |(_, name): &(Value, String)| {
                        name.chars().next().is_some_and(|it| it.eq_ignore_ascii_case(&letter))
                    };
                    *chosen = values.iter().position(begins).or(*chosen);
                }
                _ => {}
            },
            Kind::Text | Kind::Json(_) => drop(field.line.take(key)),
        }
    }

    /// Inserts text into the field with the cursor.
    pub(crate) fn paste(&mut self, text: &str) {
        if let Some(Field { kind: Kind::Text | Kind::Json(_), line, .. }) = self.fields.get_mut(self.selected) {
            line.insert(text);
        }
    }

    /// Returns the values. If one is missing or does not fit, selects its field.
    pub(crate) fn values(&mut self) -> Option<Map<String, Value>> {
        let mut values = Map::new();
        self.error = None;
        for (index, field) in self.fields.iter().enumerate() {
            match field.value(&self.schema) {
                Ok(Some(value)) => drop(values.insert(field.name.clone(), value)),
                Ok(None) => {}
                Err(error) => {
                    (self.error, self.selected) = (Some(one_line(&error)), index);
                    return None;
                }
            }
        }
        Some(values)
    }
}

impl Field {
    /// Creates a field for a text.
    pub(crate) fn text(name: &str, description: &str, is_required: bool) -> Self {
        let description = first_line(description);
        Self { name: name.to_owned(), kind: Kind::Text, is_required, description, line: Line::default() }
    }

    fn of_property(name: &str, property: &Value, is_required: bool) -> Self {
        let text = |member: &str| property.get(member).and_then(Value::as_str).unwrap_or_default();
        let description = if text("description").is_empty() { text("title") } else { text("description") };
        let mut field = Self::text(name, description, is_required);
        field.kind = Kind::of_property(property);
        match (&mut field.kind, property.get("default")) {
            (_, None) => {}
            (Kind::Choice { values, chosen }, Some(default)) => {
                *chosen = values.iter().position(|(value, _)| value == default);
            }
            (Kind::Text, Some(Value::String(default))) => field.line = Line::whole(default).unwrap_or_default(),
            (_, Some(default)) => field.line = Line::whole(&default.to_string()).unwrap_or_default(),
        }
        field
    }

    /// Returns the value, or `None` if the field is left out.
    fn value(&self, schema: &Value) -> Result<Option<Value>, String> {
        let missing = || Err(format!("`{}` is missing", self.name));
        match &self.kind {
            Kind::Choice { values, chosen } => match chosen.and_then(|it| values.get(it)) {
                Some((value, _)) => Ok(Some(value.clone())),
                None if self.is_required => missing(),
                None => Ok(None),
            },
            Kind::Text if self.line.text().is_empty() && !self.is_required => Ok(None),
            Kind::Text => Ok(Some(self.line.text().into())),
            Kind::Json(_) if self.line.text().trim().is_empty() => {
                if self.is_required {
                    missing()
                } else {
                    Ok(None)
                }
            }
            Kind::Json(kind) => {
                let read = match kind.as_str() {
                    // Without a type, the text is JSON all the same.
                    "JSON" => serde_json::from_str(self.line.text())
                        .map_err(|error| format!("`{}` is no JSON: {error}", self.name)),
                    _ => arguments::typed(&self.name, self.line.text(), schema).map_err(|error| error.to_string()),
                };
                read.map(Some)
            }
        }
    }
}

impl Kind {
    fn of_property(property: &Value) -> Self {
        let named = |value: &Value, name: Option<&str>| {
            let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (value.clone(), one_line(&name.map_or_else(text, str::to_owned)))
        };
        let choice = |values: Vec<(Value, String)>| Self::Choice { values, chosen: None };
        if let Some(values) = property.get("enum").and_then(Value::as_array) {
            let names = property.get("enumNames").and_then(Value::as_array);
            let name = |index: usize| names.and_then(|names| names.get(index)?.as_str());
            let values = values.iter().enumerate().take(MAX_FIELDS);
            return choice(values.map(|(index, value)| named(value, name(index))).collect());
        }
        let alternatives = property.get("oneOf").or_else(|| property.get("anyOf")).and_then(Value::as_array);
        if let Some(all) = alternatives.filter(|all| all.iter().all(|it| it.get("const").is_some())) {
            let values = all
                .iter()
                .take(MAX_FIELDS)
                .filter_map(|it| Some(named(it.get("const")?, it.get("title").and_then(Value::as_str))));
            return choice(values.collect());
        }
        let kinds = match property.get("type") {
            Some(Value::String(kind)) => vec![kind.as_str()],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        match kinds[..] {
            ["boolean"] => choice([true, false].map(|it| named(&it.into(), None)).into()),
            [] => Self::Json("JSON".into()),
            _ if kinds.contains(&"string") => Self::Text,
            _ => Self::Json(one_line(&kinds.join(" or "))),
        }
    }
}

fn first_line(text: &str) -> String {
    rows(beginning(text, MAX_DESCRIPTION), 1).into_iter().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BUTTONS: &[&str] = &["Call"];

    fn schema() -> Value {
        json!({"type": "object", "required": ["text", "count"], "properties": {
            "text": {"type": "string", "description": "A text\nof two lines"},
            "count": {"type": "integer"}, "share": {"type": "number", "default": 0.5}, "yes": {"type": "boolean"},
            "size": {"type": "string", "enum": ["small", "large"], "default": "large"},
            "unit": {"oneOf": [{"const": "c", "title": "Celsius"}, {"const": "f", "title": "Fahrenheit"}]},
            "list": {"type": "array"}, "any": {}, "maybe": {"type": ["integer", "null"]},
        }})
    }

    fn typed(form: &mut Form, field: &str, text: &str) {
        form.selected = form.fields.iter().position(|it| it.name == field).expect("a field");
        text.chars().for_each(|letter| form.take(KeyCode::Char(letter)));
    }

    #[test]
    fn values_have_the_types_of_the_schema() {
        let mut form = Form::of_schema(&schema(), BUTTONS);
        let names: Vec<_> = form.fields.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names[..3], ["count", "text", "any"], "the required ones are first");
        assert_eq!(form.fields[1].description, "A text");
        for (field, text) in [
            ("text", "7"),
            ("count", "7"),
            ("yes", " "),
            ("unit", "f"),
            ("list", "[1]"),
            ("any", "{\"a\":1}"),
            ("maybe", "null"),
        ] {
            typed(&mut form, field, text);
        }
        let expected = json!({"text": "7", "count": 7, "share": 0.5, "yes": true, "size": "large", "unit": "f",
            "list": [1], "any": {"a": 1}, "maybe": null});
        assert_eq!(form.values().map(Value::Object), Some(expected));
    }

    #[test]
    fn wrong_values_are_shown_at_their_field() {
        for (field, text, error) in [
            ("count", "", "`count` is missing"),
            ("count", "1.5", "the argument `count` is not of the type integer"),
            ("list", "{}", "the argument `list` is not of the type array"),
            ("any", "{", "`any` is no JSON"),
        ] {
            let mut form = Form::of_schema(&schema(), BUTTONS);
            if field != "count" {
                typed(&mut form, "count", "1");
            }
            typed(&mut form, field, text);
            assert_eq!(form.values(), None);
            assert!(form.error.as_deref().is_some_and(|it| it.starts_with(error)), "{:?}", form.error);
            assert_eq!(form.fields[form.selected].name, field);
        }
    }

    #[test]
    fn required_choices_are_made() {
        let schema = json!({"required": ["yes"], "properties": {"yes": {"type": "boolean"}}});
        let mut form = Form::of_schema(&schema, BUTTONS);
        assert_eq!((form.values(), form.error.as_deref()), (None, Some("`yes` is missing")));
        form.take(KeyCode::Char('f'));
        assert_eq!(form.values().map(Value::Object), Some(json!({"yes": false})));
    }

    #[test]
    fn fields_that_are_empty_are_left_out() {
        let mut form =
            Form::of_schema(&json!({"properties": {"a": {"type": "string"}, "b": {"type": "number"}}}), BUTTONS);
        assert_eq!(form.values(), Some(Map::new()));
        let prompt = json!({"arguments": [{"name": "who", "required": true}, {"name": "how"}]});
        let mut form = Form::of_prompt(&prompt, BUTTONS);
        assert_eq!(form.values().map(Value::Object), Some(json!({"who": ""})));
        // A server may send anything.
        for schema in [json!(null), json!([]), json!({"properties": [], "required": 7})] {
            assert_eq!(Form::of_schema(&schema, BUTTONS).values(), Some(Map::new()));
        }
    }

    #[test]
    fn choices_go_round() {
        let mut form = Form::of_schema(&json!({"properties": {"yes": {"type": "boolean"}}}), BUTTONS);
        let chosen = |form: &Form| match form.fields[0].kind {
            Kind::Choice { chosen, .. } => chosen,
            _ => panic!("a choice"),
        };
        for (key, expected) in [
            (KeyCode::Right, Some(0)),
            (KeyCode::Right, Some(1)),
            (KeyCode::Right, None),
            (KeyCode::Left, Some(1)),
            (KeyCode::Char('t'), Some(0)),
            (KeyCode::Left, None),
            (KeyCode::Char('x'), None),
        ] {
            form.take(key);
            assert_eq!(chosen(&form), expected, "{key:?}");
        }
        form.step(9);
        assert_eq!(form.button(), Some(0));
    }

    #[test]
    fn texts_of_a_schema_are_bounded() {
        let bad = "\u{200b}".repeat(1_000_000) + &"a".repeat(300);
        let property = json!({"type": "string", "default": bad, "description": bad});
        let schema = json!({"properties": {"a": property, "b": {"default": [bad]}}});
        let mut form = Form::of_schema(&schema, BUTTONS);
        for field in &form.fields {
            assert!(field.line.text().len() <= 64 * 1024 && field.description.len() <= 4 * 1024);
        }
        // Half a value is none.
        assert_eq!(form.values(), Some(Map::new()));
        let prompt = json!({"arguments": [{"name": "a", "description": bad}]});
        assert!(Form::of_prompt(&prompt, BUTTONS).fields[0].description.len() <= 4 * 1024);
    }
}
