//! Forms of elicitation that are made from types.

use std::borrow::Cow;

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{ElicitSchema, Extra, LegacyTitledEnumSchema, Map, PrimitiveSchema, StringFormat},
    wire::Json,
};
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::derive::form_schema;

/// Returns the form whose fields are those of `T`. The error says which field cannot be part of a form.
pub(crate) fn form_of<T: JsonSchema>(version: ProtocolVersion) -> Result<ElicitSchema, String> {
    let schema = form_schema::<T>();
    if schema.get("type").is_none_or(|kind| kind != "object") {
        return Err("a form is a struct with named fields".into());
    }
    for (name, rule) in schema.as_object().into_iter().flatten() {
        let is_known = matches!(name.as_str(), "type" | "properties" | "required");
        // A form may say that it has no further fields, but not which ones it has.
        let is_closed = matches!(name.as_str(), "additionalProperties" | "unevaluatedProperties") && rule == false;
        if !is_known && !is_closed && !is_annotation(name) {
            return Err(format!("the fields of `{name}` cannot be part of a form"));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut fields = Map::new();
    for (name, property) in properties.into_iter().flatten() {
        let field = field(property, version).map_err(|rule| match rule {
            None => format!("the field `{name}` cannot be part of a form"),
            Some(rule) => format!("the field `{name}` cannot be part of a form: it has `{rule}`"),
        })?;
        fields.insert(name, field);
    }
    let required = schema.get("required").and_then(Value::as_array);
    let required: Vec<String> = required.into_iter().flatten().filter_map(|it| it.as_str().map(Into::into)).collect();
    let required = Some(required).filter(|required| !required.is_empty());
    Ok(ElicitSchema { required, ..ElicitSchema::new(fields) })
}

/// Returns whether a keyword only describes values.
fn is_annotation(keyword: &str) -> bool {
    const ANNOTATIONS: [&str; 9] =
        ["$schema", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];
    ANNOTATIONS.contains(&keyword) || keyword.starts_with("x-")
}

/// Converts the schema of a field. The error is the rule that forms do not have, if there is only one.
fn field(schema: &Value, version: ProtocolVersion) -> Result<PrimitiveSchema, Option<String>> {
    let mut schema = without_null(schema).ok_or(None)?;
    with_values(&mut schema);
    if let Some(items) = schema.get_mut("items") {
        with_values(items);
        // Here the names are `anyOf`, and the type is missing then.
        if let Some(items) = items.as_object_mut()
            && let Some(options) = items.remove("oneOf")
        {
            items.retain(|name, _| name != "type");
            items.insert("anyOf".into(), options);
        }
    }
    let field: PrimitiveSchema = Json::new(&schema).and_then(|schema| schema.decode()).map_err(|_| None)?;
    if matches!(field, PrimitiveSchema::Other(_)) {
        return Err(None);
    }
    if let Some(rule) = unknown_rule(&field) {
        return Err(Some(rule));
    }
    Ok(match field {
        PrimitiveSchema::String(mut field) => {
            field.format = field.format.filter(StringFormat::is_known);
            field.into()
        }
        // Earlier revisions have choices with names in another form.
        PrimitiveSchema::TitledSingleSelect(field) if version < ProtocolVersion::V2025_11_25 => {
            let (values, names): (Vec<_>, Vec<_>) =
                field.options.into_iter().map(|option| (option.value, option.title)).unzip();
            let (title, description) = (field.title, field.description);
            LegacyTitledEnumSchema { title, description, ..LegacyTitledEnumSchema::new(values, names) }.into()
        }
        field => field,
    })
}

/// Returns a rule of a field that is not part of forms, so that clients do not know it.
///
/// Formats of texts may be unknown: types with a format check it when they are read. Choices of a form are unique.
fn unknown_rule(field: &PrimitiveSchema) -> Option<String> {
    let none = Extra::new();
    let (field, items) = match field {
        PrimitiveSchema::String(field) => (&field.extra, &none),
        PrimitiveSchema::Number(field) => (&field.extra, &none),
        PrimitiveSchema::Boolean(field) => (&field.extra, &none),
        PrimitiveSchema::UntitledSingleSelect(field) => (&field.extra, &none),
        PrimitiveSchema::TitledSingleSelect(field) => (&field.extra, &none),
        PrimitiveSchema::LegacyTitledEnum(field) => (&field.extra, &none),
        PrimitiveSchema::UntitledMultiSelect(field) => (&field.extra, &field.items.extra),
        PrimitiveSchema::TitledMultiSelect(field) => (&field.extra, &field.items.extra),
        PrimitiveSchema::Other(members) => (members, &none),
    };
    let mut rules = field.iter().chain(items).map(|(name, _)| name);
    rules.find(|name| !is_annotation(name) && name != "uniqueItems").map(Cow::into_owned)
}

/// Returns the schema of the values other than null, which an optional field has, too. A missing value is its default.
fn without_null(schema: &Value) -> Option<Value> {
    let is_null = |value: &Value| value.get("type").is_some_and(|kind| kind == "null");
    let mut schema = schema.as_object()?.clone();
    let choices = schema.get("anyOf").and_then(Value::as_array);
    if let Some([choice, null]) = choices.map(Vec::as_slice)
        && is_null(null)
        && let Some(choice) = choice.as_object()
    {
        let choice = choice.clone();
        schema.remove("anyOf");
        for (name, value) in choice {
            schema.entry(name).or_insert(value);
        }
    }
    if let Some([kind, null]) = schema.get("type").and_then(Value::as_array).map(Vec::as_slice)
        && null == "null"
    {
        let kind = kind.clone();
        schema.insert("type".into(), kind);
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    Some(Value::Object(schema))
}

/// Replaces a choice of constants by the list of its values, or if some have titles, by values with titles.
fn with_values(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(value) = schema.get("const").filter(|value| value.is_string()).cloned() {
        schema.remove("const");
        schema.insert("enum".into(), json!([value]));
    }
    let Some(Value::Array(choices)) = schema.get("oneOf") else { return };
    // Variants without a description are listed together.
    let mut options = Vec::new();
    for choice in choices {
        let values = match (choice.get("const"), choice.get("enum")) {
            (Some(value), _) => std::slice::from_ref(value),
            (None, Some(Value::Array(values))) => values,
            _ => return,
        };
        for value in values {
            let Some(text) = value.as_str() else { return };
            options.push((text.to_owned(), choice.get("title").and_then(Value::as_str).map(str::to_owned)));
        }
    }
    schema.remove("oneOf");
    schema.insert("type".into(), "string".into());
    if options.iter().any(|(_, title)| title.is_some()) {
        let titled = |(value, title): (String, Option<String>)| {
            let title = title.unwrap_or_else(|| value.clone());
            json!({"const": value, "title": title})
        };
        schema.insert("oneOf".into(), options.into_iter().map(titled).collect());
    } else {
        schema.insert("enum".into(), options.into_iter().map(|(value, _)| Value::from(value)).collect());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use mcp_proto::schema::At;

    use super::*;

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only their schemas are used")]
    struct Booking {
        /// The name of the guest.
        name: String,
        #[schemars(email)]
        email: Option<String>,
        #[schemars(range(min = 1, max = 9))]
        guests: u8,
        price: f64,
        #[serde(default)]
        breakfast: bool,
        room: Room,
        view: Option<View>,
        meals: Vec<Room>,
        views: Option<Vec<View>>,
    }

    #[derive(JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code, reason = "only their schemas are used")]
    enum Room {
        Single,
        /// Two beds.
        Double,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only their schemas are used")]
    enum View {
        #[schemars(title = "The sea")]
        Sea,
        Street,
    }

    #[test]
    fn a_form_has_the_fields_of_its_type() {
        let form = form_of::<Booking>(ProtocolVersion::LATEST).expect("a flat type");
        assert!(form.is_flat());
        let form: Value = At(&form, None).to_json().and_then(|form| form.decode()).expect("JSON");
        assert_eq!(
            form["properties"],
            json!({
                "name": {"type": "string", "description": "The name of the guest."},
                "email": {"type": "string", "format": "email"},
                "guests": {"type": "integer", "minimum": 1, "maximum": 9},
                "price": {"type": "number"},
                "breakfast": {"type": "boolean", "default": false},
                "room": {"type": "string", "enum": ["single", "double"]},
                "view": {"type": "string",
                         "oneOf": [{"const": "Street", "title": "Street"}, {"const": "Sea", "title": "The sea"}]},
                "meals": {"type": "array", "items": {"type": "string", "enum": ["single", "double"]}},
                "views": {"type": "array", "items":
                    {"anyOf": [{"const": "Street", "title": "Street"}, {"const": "Sea", "title": "The sea"}]}},
            })
        );
        assert_eq!(form["required"], json!(["name", "guests", "price", "room", "meals"]));
        let titled = form_of::<Booking>(ProtocolVersion::V2025_11_25).expect("a flat type");
        assert!(matches!(titled.properties.get("view"), Some(PrimitiveSchema::TitledSingleSelect(_))));
        let early = form_of::<Booking>(ProtocolVersion::V2025_06_18).expect("a flat type");
        let view = early.properties.get("view").expect("a field");
        assert!(matches!(view, PrimitiveSchema::LegacyTitledEnum(view) if view.names == ["Street", "The sea"]));
    }

    #[test]
    fn a_type_with_other_fields_is_no_form() {
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "only their schemas are used")]
        struct Nested {
            booking: Booking,
        }
        let why = |form: Result<ElicitSchema, String>| form.expect_err("it is no form");
        assert_eq!(why(form_of::<Nested>(ProtocolVersion::LATEST)), "the field `booking` cannot be part of a form");
        assert_eq!(why(form_of::<String>(ProtocolVersion::LATEST)), "a form is a struct with named fields");
    }

    /// Types that a form cannot express.
    #[allow(dead_code, reason = "only their schemas are used")]
    mod inexpressible {
        use std::collections::BTreeMap;

        use schemars::JsonSchema;
        use serde_json::Value;

        use super::{Booking, Room};

        #[derive(JsonSchema)]
        #[serde(tag = "kind")]
        pub(super) enum Payment {
            Card { number: String },
            Cash { amount: u8 },
        }

        #[derive(JsonSchema)]
        pub(super) struct FlatEnum {
            name: String,
            #[serde(flatten)]
            payment: Payment,
        }

        #[derive(JsonSchema)]
        pub(super) struct FlatMap {
            name: String,
            #[serde(flatten)]
            others: BTreeMap<String, String>,
        }

        #[derive(JsonSchema)]
        pub(super) struct MapField {
            map: BTreeMap<String, String>,
        }

        #[derive(JsonSchema)]
        pub(super) struct OptionalMap {
            map: Option<BTreeMap<String, String>>,
        }

        #[derive(JsonSchema)]
        pub(super) struct OptionalStruct {
            booking: Option<Booking>,
        }

        #[derive(JsonSchema)]
        pub(super) struct Pattern {
            #[schemars(regex(pattern = "^[a-z]+$"))]
            name: String,
        }

        #[derive(JsonSchema)]
        pub(super) struct Exclusive {
            #[schemars(extend("exclusiveMinimum" = 0))]
            number: f64,
        }

        #[derive(JsonSchema)]
        pub(super) struct Digit {
            #[schemars(extend("enum" = [1, 2]))]
            digit: u8,
        }

        #[derive(JsonSchema)]
        pub(super) struct Texts {
            texts: Vec<String>,
        }

        #[derive(JsonSchema)]
        pub(super) struct Pair {
            pair: (Room, Room),
        }

        #[derive(JsonSchema)]
        pub(super) struct Any {
            any: Value,
        }

        #[derive(JsonSchema)]
        pub(super) struct Tree {
            name: String,
            next: Option<Box<Tree>>,
        }

        #[derive(JsonSchema)]
        pub(super) struct DataEnum {
            payment: Payment,
        }
    }

    #[test]
    fn a_type_that_a_form_cannot_express_is_no_form() {
        use inexpressible::*;
        type Form = fn(ProtocolVersion) -> Result<ElicitSchema, String>;

        let table: [(&str, Form, &str); 16] = [
            ("a flattened enum", form_of::<FlatEnum>, "the fields of `oneOf` cannot be part of a form"),
            ("a flattened map", form_of::<FlatMap>, "the fields of `additionalProperties` cannot be part of a form"),
            (
                "a map",
                form_of::<BTreeMap<String, String>>,
                "the fields of `additionalProperties` cannot be part of a form",
            ),
            ("a field that is a map", form_of::<MapField>, "the field `map` cannot be part of a form"),
            ("an optional map", form_of::<OptionalMap>, "the field `map` cannot be part of a form"),
            ("an optional struct", form_of::<OptionalStruct>, "the field `booking` cannot be part of a form"),
            ("a pattern", form_of::<Pattern>, "the field `name` cannot be part of a form: it has `pattern`"),
            (
                "an exclusive limit",
                form_of::<Exclusive>,
                "the field `number` cannot be part of a form: it has `exclusiveMinimum`",
            ),
            ("a choice of numbers", form_of::<Digit>, "the field `digit` cannot be part of a form: it has `enum`"),
            ("texts", form_of::<Texts>, "the field `texts` cannot be part of a form"),
            ("a tuple", form_of::<Pair>, "the field `pair` cannot be part of a form"),
            ("any value", form_of::<Any>, "the field `any` cannot be part of a form"),
            ("a recursive type", form_of::<Tree>, "cannot be part of a form"),
            ("a field that is an enum with data", form_of::<DataEnum>, "the field `payment` cannot be part of a form"),
            ("an enum with data", form_of::<Payment>, "a form is a struct with named fields"),
            ("an enum", form_of::<Room>, "a form is a struct with named fields"),
        ];
        for (what, form, expected) in table {
            for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25, ProtocolVersion::LATEST] {
                match form(version) {
                    Err(why) => assert!(why.contains(expected), "{what}: {why}"),
                    Ok(form) => panic!("{what}: {form:?}"),
                }
            }
        }
    }

    #[test]
    #[allow(dead_code, reason = "only their schemas are used")]
    fn a_form_has_the_fields_of_flattened_structs() {
        #[derive(JsonSchema)]
        struct Guest {
            name: String,
        }

        #[derive(JsonSchema)]
        #[serde(deny_unknown_fields)]
        struct Closed {
            rooms: BTreeSet<Room>,
            #[schemars(length(min = 1, max = 3), extend("format" = "uuid"))]
            code: String,
            level: Option<i64>,
        }

        #[derive(JsonSchema)]
        struct Stay {
            /// The number of nights.
            #[schemars(title = "Nights")]
            nights: u8,
            #[serde(flatten)]
            guest: Guest,
        }

        #[derive(JsonSchema)]
        struct Empty {}

        let fields = |form: Result<ElicitSchema, String>| {
            let form = form.expect("a flat type");
            (form.properties.iter().map(|(name, _)| name.to_owned()).collect::<BTreeSet<_>>(), form.required)
        };
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        let version = ProtocolVersion::LATEST;
        assert_eq!(fields(form_of::<Stay>(version)), (set(&["nights", "name"]), Some(names(&["nights", "name"]))));
        let form = form_of::<Closed>(version).expect("a flat type");
        let Some(PrimitiveSchema::String(code)) = form.properties.get("code") else { panic!("a text: {form:?}") };
        assert_eq!((code.min_length, code.max_length, &code.format), (Some(1), Some(3), &None));
        let (closed, required) = (set(&["rooms", "code", "level"]), names(&["rooms", "code"]));
        assert_eq!(fields(form_of::<Closed>(version)), (closed, Some(required)));
        assert_eq!(fields(form_of::<Empty>(version)), (set(&[]), None));
    }
}
