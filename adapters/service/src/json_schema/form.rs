//! Forms of elicitation that are made from types.

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{ElicitSchema, LegacyTitledEnumSchema, Map, PrimitiveSchema, StringFormat},
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
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut fields = Map::new();
    for (name, property) in properties.into_iter().flatten() {
        let field = field(property, version).ok_or_else(|| format!("the field `{name}` cannot be part of a form"))?;
        fields.insert(name, field);
    }
    let required = schema.get("required").and_then(Value::as_array);
    let required: Vec<String> = required.into_iter().flatten().filter_map(|it| it.as_str().map(Into::into)).collect();
    let required = Some(required).filter(|required| !required.is_empty());
    Ok(ElicitSchema { required, ..ElicitSchema::new(fields) })
}

/// Converts the schema of a field.
fn field(schema: &Value, version: ProtocolVersion) -> Option<PrimitiveSchema> {
    let mut schema = without_null(schema)?;
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
    let field: PrimitiveSchema = Json::new(&schema).ok()?.decode().ok()?;
    Some(match field {
        PrimitiveSchema::Other(_) => return None,
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
            })
        );
        assert_eq!(form["required"], json!(["name", "guests", "price", "room", "meals"]));
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
}
