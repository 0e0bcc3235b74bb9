//! Forms of elicitation that are built field by field.

use std::collections::HashSet;

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{
        BooleanSchema, ElicitSchema, EnumOption, LegacyTitledEnumSchema, Map, NumberKind, NumberSchema,
        PrimitiveSchema, StringFormat, StringSchema, TitledItems, TitledMultiSelectEnumSchema,
        TitledSingleSelectEnumSchema, UntitledItems, UntitledMultiSelectEnumSchema, UntitledSingleSelectEnumSchema,
    },
};
use serde_json::Number;

use crate::util::elicitation_form::check_defaults;

/// A form for [`Context::elicit`](crate::Context::elicit), built field by field (2025-06-18).
///
/// Fields are shown in the order in which they were added. Each field is required unless it is
/// [`optional`](TextField::optional). A form is written as the client's revision has it: choices with names for people
/// have another shape before 2025-11-25.
///
/// ```
/// use mcp_service::{
///     CallError, Context,
///     form::{ChoiceField, Form, NumberField, TextField},
/// };
///
/// async fn book(context: Context) -> Result<String, CallError> {
///     let form = Form::new()
///         .field("name", TextField::new().title("Name").max_length(80))
///         .field("guests", NumberField::integer().minimum(1).maximum(9).default_value(2))
///         .field("room", ChoiceField::titled([("s", "Single room"), ("d", "Double room")]).optional());
///     let response = context.elicit("Which room?", form).await?;
///     Ok(format!("{:?}", response.content))
/// }
/// ```
///
/// [`elicit_as`](crate::Context::elicit_as) makes a form from a type instead.
///
/// [`elicit`](crate::Context::elicit) fails with [`SendError::Encode`](mcp_proto::connection::SendError::Encode) before
/// anything is sent if two fields have the same name, a choice has no options, or a default value is not allowed by its
/// field. It fails in the same way if the client's revision has no such field: choices of several exist since
/// 2025-11-25. Earlier revisions have no default values of texts, numbers and choices; these are left out there.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Form {
    fields: Vec<(String, Field)>,
}

impl Form {
    /// Creates a form without fields: the user accepts or declines.
    pub const fn new() -> Self {
        Self { fields: Vec::new() }
    }

    /// Adds a field. `name` is its name in the response.
    pub fn field(mut self, name: impl Into<String>, field: impl Into<Field>) -> Self {
        self.fields.push((name.into(), field.into()));
        self
    }
}

/// A form that can be shown: a [`Form`], or an [`ElicitSchema`] as it is.
pub trait IntoForm: sealed::Sealed {
    /// Returns the form as a revision has it. The error names the field that is wrong.
    #[doc(hidden)]
    fn into_schema(self, version: ProtocolVersion) -> Result<ElicitSchema, String>;
}

impl IntoForm for Form {
    fn into_schema(self, version: ProtocolVersion) -> Result<ElicitSchema, String> {
        let (mut properties, mut required, mut names) = (Vec::new(), Vec::new(), HashSet::new());
        for (name, field) in self.fields {
            if field.choices.as_ref().is_some_and(Vec::is_empty) {
                return Err(format!("the field `{name}` has no choices"));
            }
            if !names.insert(name.clone()) {
                return Err(format!("there are two fields `{name}`"));
            }
            if !field.is_optional {
                required.push(name.clone());
            }
            properties.push((name, field.schema(version)));
        }
        let required = Some(required).filter(|required| !required.is_empty());
        let schema = ElicitSchema { required, ..ElicitSchema::new(properties.into_iter().collect::<Map<_>>()) };
        check_defaults(&schema).map_err(|why| format!("the default value of {why}"))?;
        Ok(schema)
    }
}

impl IntoForm for ElicitSchema {
    fn into_schema(self, _: ProtocolVersion) -> Result<ElicitSchema, String> {
        Ok(self)
    }
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Form {}
    impl Sealed for super::ElicitSchema {}
}

/// A field of a [`Form`]: a [`TextField`], [`NumberField`], [`BooleanField`], [`ChoiceField`] or [`ChoicesField`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Field {
    /// The field with the names of its options, if it is a choice.
    schema: PrimitiveSchema,
    /// The values of a choice, with their names for people.
    choices: Option<Vec<(String, Option<String>)>>,
    is_optional: bool,
}

impl Field {
    fn new(schema: impl Into<PrimitiveSchema>, is_optional: bool) -> Self {
        Self { schema: schema.into(), choices: None, is_optional }
    }

    /// Returns the field as a revision has it.
    fn schema(self, version: ProtocolVersion) -> PrimitiveSchema {
        let Some(choices) = self.choices else { return self.schema };
        let is_titled = choices.iter().any(|(_, title)| title.is_some());
        let values = || choices.iter().map(|(value, _)| value.clone());
        let titles = || choices.iter().map(|(value, title)| title.as_ref().unwrap_or(value).clone());
        let options = || values().zip(titles()).map(|(value, title)| EnumOption::new(value, title)).collect::<Vec<_>>();
        match self.schema {
            PrimitiveSchema::UntitledSingleSelect(field) => {
                let (title, description, default) = (field.title, field.description, field.default);
                if !is_titled {
                    let field = UntitledSingleSelectEnumSchema::new(values().collect::<Vec<_>>());
                    UntitledSingleSelectEnumSchema { title, description, default, ..field }.into()
                } else if version >= ProtocolVersion::V2025_11_25 {
                    let field = TitledSingleSelectEnumSchema::new(options());
                    TitledSingleSelectEnumSchema { title, description, default, ..field }.into()
                } else {
                    let names: Vec<_> = titles().collect();
                    let field = LegacyTitledEnumSchema::new(values().collect::<Vec<_>>(), names);
                    LegacyTitledEnumSchema { title, description, default, ..field }.into()
                }
            }
            PrimitiveSchema::UntitledMultiSelect(field) if is_titled => {
                let (title, description, default) = (field.title, field.description, field.default);
                let (min_items, max_items) = (field.min_items, field.max_items);
                let field = TitledMultiSelectEnumSchema::new(TitledItems::new(options()));
                TitledMultiSelectEnumSchema { title, description, default, min_items, max_items, ..field }.into()
            }
            PrimitiveSchema::UntitledMultiSelect(field) => {
                let items = UntitledItems::new(values().collect::<Vec<_>>());
                UntitledMultiSelectEnumSchema { items, ..field }.into()
            }
            other => other,
        }
    }
}

macro_rules! fields {
    ($($(#[$meta:meta])* $Name:ident($Schema:ident, $default:ident: $Default:ty => $set:expr);)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug)]
        #[must_use]
        pub struct $Name {
            schema: $Schema,
            choices: Option<Vec<(String, Option<String>)>>,
            is_optional: bool,
        }

        impl $Name {
            const fn of(schema: $Schema) -> Self {
                Self { schema, choices: None, is_optional: false }
            }

            /// Sets the name of the field, for people. A client shows the name in the response otherwise.
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.schema.title = Some(title.into());
                self
            }

            /// Sets a description of the value, for people.
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.schema.description = Some(description.into());
                self
            }

            /// Sets the value that the client fills in first.
            pub fn default_value(mut self, $default: $Default) -> Self {
                self.schema.default = Some($set);
                self
            }

            /// Allows the user to leave the field empty. The response has no value of the field then.
            pub const fn optional(mut self) -> Self {
                self.is_optional = true;
                self
            }
        }

        impl From<$Name> for Field {
            fn from(field: $Name) -> Self {
                Self { choices: field.choices, ..Self::new(field.schema, field.is_optional) }
            }
        }
    )*};
}

fields! {
    /// A text in a [`Form`].
    TextField(StringSchema, text: impl Into<String> => text.into());
    /// A number in a [`Form`].
    NumberField(NumberSchema, number: impl Into<Number> => number.into());
    /// Yes or no in a [`Form`].
    BooleanField(BooleanSchema, value: bool => value);
    /// A choice of one option in a [`Form`].
    ChoiceField(UntitledSingleSelectEnumSchema, value: impl Into<String> => value.into());
    /// A choice of several options in a [`Form`]. Since 2025-11-25.
    ChoicesField(UntitledMultiSelectEnumSchema, values: impl IntoIterator<Item: Into<String>> => values.into_iter().map(Into::into).collect());
}

impl TextField {
    /// Creates a field for any text.
    pub fn new() -> Self {
        Self::of(StringSchema::default())
    }

    /// Sets the smallest number of characters.
    pub const fn min_length(mut self, characters: u64) -> Self {
        self.schema.min_length = Some(characters);
        self
    }

    /// Sets the largest number of characters.
    pub const fn max_length(mut self, characters: u64) -> Self {
        self.schema.max_length = Some(characters);
        self
    }

    /// Sets the format of the text.
    pub fn format(mut self, format: StringFormat) -> Self {
        self.schema.format = Some(format);
        self
    }
}

impl Default for TextField {
    fn default() -> Self {
        Self::new()
    }
}

impl NumberField {
    /// Creates a field for any number.
    pub fn number() -> Self {
        Self::of(NumberSchema::new(NumberKind::Number))
    }

    /// Creates a field for integers.
    pub fn integer() -> Self {
        Self::of(NumberSchema::new(NumberKind::Integer))
    }

    /// Sets the smallest number that is allowed. A decimal is made with
    /// [`Number::from_f64`](serde_json::Number::from_f64).
    pub fn minimum(mut self, minimum: impl Into<Number>) -> Self {
        self.schema.minimum = Some(minimum.into());
        self
    }

    /// Sets the largest number that is allowed.
    pub fn maximum(mut self, maximum: impl Into<Number>) -> Self {
        self.schema.maximum = Some(maximum.into());
        self
    }
}

impl BooleanField {
    /// Creates a field for yes or no.
    pub fn new() -> Self {
        Self::of(BooleanSchema::default())
    }
}

impl Default for BooleanField {
    fn default() -> Self {
        Self::new()
    }
}

/// Values without names for people.
fn untitled<V: Into<String>>(values: impl IntoIterator<Item = V>) -> Option<Vec<(String, Option<String>)>> {
    Some(values.into_iter().map(|value| (value.into(), None)).collect())
}

/// Values with their names for people.
fn titled<V, T>(options: impl IntoIterator<Item = (V, T)>) -> Option<Vec<(String, Option<String>)>>
where
    V: Into<String>,
    T: Into<String>,
{
    Some(options.into_iter().map(|(value, title)| (value.into(), Some(title.into()))).collect())
}

impl ChoiceField {
    fn among(choices: Option<Vec<(String, Option<String>)>>) -> Self {
        Self { choices, ..Self::of(UntitledSingleSelectEnumSchema::new(Vec::<String>::new())) }
    }

    /// Creates a choice among values.
    pub fn new<V: Into<String>>(values: impl IntoIterator<Item = V>) -> Self {
        Self::among(untitled(values))
    }

    /// Creates a choice among values with names for people, a pair each.
    pub fn titled<V: Into<String>, T: Into<String>>(options: impl IntoIterator<Item = (V, T)>) -> Self {
        Self::among(titled(options))
    }
}

impl ChoicesField {
    fn among(choices: Option<Vec<(String, Option<String>)>>) -> Self {
        let items = UntitledItems::new(Vec::<String>::new());
        Self { choices, ..Self::of(UntitledMultiSelectEnumSchema::new(items)) }
    }

    /// Creates a choice among values.
    pub fn new<V: Into<String>>(values: impl IntoIterator<Item = V>) -> Self {
        Self::among(untitled(values))
    }

    /// Creates a choice among values with names for people, a pair each.
    pub fn titled<V: Into<String>, T: Into<String>>(options: impl IntoIterator<Item = (V, T)>) -> Self {
        Self::among(titled(options))
    }

    /// Sets the smallest number of chosen options.
    pub const fn min_items(mut self, options: u64) -> Self {
        self.schema.min_items = Some(options);
        self
    }

    /// Sets the largest number of chosen options.
    pub const fn max_items(mut self, options: u64) -> Self {
        self.schema.max_items = Some(options);
        self
    }
}
