//! The forms of elicitation: flat objects of texts, numbers, switches and choices.
//!
//! Spec: [requested
//! schema](https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema)

use alloc::{string::String, vec::Vec};

use serde_json::{Error, Number};

use super::{Extra, Map};
use crate::{
    protocol::ProtocolVersion,
    schema::base::{
        decode::{ExpectedType, Member},
        encode::{Output, absent},
        macros::*,
    },
    wire::reader::{Reader, read},
};

object! {
    /// The fields of a form: a JSON Schema of an object without nested objects.
    pub struct ElicitSchema: data("type" = "object"), since(V2025_06_18) {
        /// The dialect of the schema. Since 2025-11-25.
        "$schema" => schema: optional String, since(V2025_11_25);
        /// The fields.
        "properties" => properties: required Map<PrimitiveSchema>;
        /// The fields that have to be filled in.
        "required" => required: optional Vec<String>;
    }
}

impl ElicitSchema {
    /// Returns whether every field is of a known kind.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        self.properties.iter().all(|(_, property)| !matches!(property, PrimitiveSchema::Other(_)))
    }
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrimitiveSchema {
    /// A text.
    String(StringSchema),
    /// A number.
    Number(NumberSchema),
    /// A switch.
    Boolean(BooleanSchema),
    /// A choice of one.
    UntitledSingleSelect(UntitledSingleSelectEnumSchema),
    /// A choice of one with names for people. Since 2025-11-25.
    TitledSingleSelect(TitledSingleSelectEnumSchema),
    /// A choice of several. Since 2025-11-25.
    UntitledMultiSelect(UntitledMultiSelectEnumSchema),
    /// A choice of several with names for people. Since 2025-11-25.
    TitledMultiSelect(TitledMultiSelectEnumSchema),
    /// A choice of one with names for people, as in 2025-06-18.
    LegacyTitledEnum(LegacyTitledEnumSchema),
    /// A field of another kind, such as an object.
    Other(Extra),
}

object! {
    /// A text in a form.
    pub struct StringSchema: data("type" = "string"), since(V2025_06_18) {
        /// The name, for people.
        "title" => title: optional String;
        /// A description of the value.
        "description" => description: optional String;
        /// The smallest number of characters.
        "minLength" => min_length: optional u64;
        /// The largest number of characters.
        "maxLength" => max_length: optional u64;
        /// The format of the text.
        "format" => format: optional StringFormat, fits(|format, _| format.is_known());
        /// The default value. Since 2025-11-25.
        "default" => default: optional String, since(V2025_11_25);
    }
}

open_enum! {
    /// The format of a text in a form.
    pub enum StringFormat {
        /// An email address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A date.
        Date = "date",
        /// A date with a time.
        DateTime = "date-time",
    }
}

object! {
    /// A number in a form.
    pub struct NumberSchema: data, since(V2025_06_18) {
        /// The kind of number.
        "type" => kind: required NumberKind, has_to(|kind, _| kind.is_known());
        /// The name, for people.
        "title" => title: optional String;
        /// A description of the value.
        "description" => description: optional String;
        /// The smallest number that is allowed.
        "minimum" => minimum: optional Number;
        /// The largest number that is allowed.
        "maximum" => maximum: optional Number;
        /// The default value. Since 2025-11-25.
        "default" => default: optional Number, since(V2025_11_25);
    }
}

open_enum! {
    /// The kind of a number in a form.
    pub enum NumberKind {
        /// Any number.
        Number = "number",
        /// Only integers.
        Integer = "integer",
    }
}

object! {
    /// A switch in a form.
    pub struct BooleanSchema: data("type" = "boolean"), since(V2025_06_18) {
        /// The name, for people.
        "title" => title: optional String;
        /// A description of the switch.
        "description" => description: optional String;
        /// The default value.
        "default" => default: optional bool;
    }
}

object! {
    /// A choice of one in a form.
    pub struct UntitledSingleSelectEnumSchema: data("type" = "string"), since(V2025_06_18) {
        /// The name, for people.
        "title" => title: optional String;
        /// A description of the choice.
        "description" => description: optional String;
        /// The options.
        "enum" => values: required Vec<String>;
        /// The default choice. Since 2025-11-25.
        "default" => default: optional String, since(V2025_11_25);
    }
}

object! {
    /// A choice of one in a form, with names for people. Since 2025-11-25.
    pub struct TitledSingleSelectEnumSchema: data("type" = "string"), since(V2025_11_25) {
        /// The name, for people.
        "title" => title: optional String;
        /// A description of the choice.
        "description" => description: optional String;
        /// The options.
        "oneOf" => options: required Vec<EnumOption>;
        /// The default choice.
        "default" => default: optional String;
    }
}

object! {
    /// One option of a choice. Since 2025-11-25.
    pub struct EnumOption: data, since(V2025_11_25) {
        /// The value.
        "const" => value: required String;
        /// The name, for people.
        "title" => title: required String;
    }
}

object! {
    /// A choice of one in a form, with names for people next to the values. Later revisions still accept it.
    pub struct LegacyTitledEnumSchema: data("type" = "string"), since(V2025_06_18) {
        /// The name, for people.
        "title" => title: optional String;
        /// A description of the choice.
        "description" => description: optional String;
        /// The options.
        "enum" => values: required Vec<String>;
        /// The names of the values, for people.
        "enumNames" => names: required Vec<String>;
        /// The default choice. Since 2025-11-25.
        "default" => default: optional String, since(V2025_11_25);
    }
}

object! {
    /// A choice of several in a form. Since 2025-11-25.
    pub struct UntitledMultiSelectEnumSchema: data("type" = "array"), since(V2025_11_25) {
        /// The name, for people.
        "title" => title: optional String;
        /// A description of the choice.
        "description" => description: optional String;
        /// The smallest number of choices.
        "minItems" => min_items: optional u64;
        /// The largest number of choices.
        "maxItems" => max_items: optional u64;
        /// The options.
        "items" => items: required UntitledItems;
        /// The default choice.
        "default" => default: optional Vec<String>;
    }
}

object! {
    /// The options of a choice. Since 2025-11-25.
    pub struct UntitledItems: data("type" = "string"), since(V2025_11_25) {
        /// The values.
        "enum" => values: required Vec<String>;
    }
}

object! {
    /// A choice of several in a form, with names for people. Since 2025-11-25.
    pub struct TitledMultiSelectEnumSchema: data("type" = "array"), since(V2025_11_25) {
        /// The name, for people.
        "title" => title: optional String;
        /// A description of the choice.
        "description" => description: optional String;
        /// The smallest number of choices.
        "minItems" => min_items: optional u64;
        /// The largest number of choices.
        "maxItems" => max_items: optional u64;
        /// The options.
        "items" => items: required TitledItems;
        /// The default choice.
        "default" => default: optional Vec<String>;
    }
}

object! {
    /// The options of a choice, with names for people. Since 2025-11-25.
    pub struct TitledItems: data, since(V2025_11_25) {
        /// The values and their names.
        "anyOf" => options: required Vec<EnumOption>;
    }
}

macro_rules! kinds {
    ($($Variant:ident($Type:ident),)*) => {
        $(impl From<$Type> for PrimitiveSchema {
            fn from(schema: $Type) -> Self {
                Self::$Variant(schema)
            }
        })*

        impl PrimitiveSchema {
            fn write<O: Output>(&self, version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
                match (self, version) {
                    $((Self::$Variant(schema), _) => out.value(schema, version),)*
                    (Self::Other(_), Some(version)) => Err(absent("this type of form field", version)),
                    (Self::Other(members), None) => out.value(members, None),
                }
            }
        }

        through_write! { PrimitiveSchema }

        #[cfg(feature = "arbitrary")]
        impl super::ArbitraryAt for PrimitiveSchema {
            fn arbitrary_at(
                u: &mut arbitrary::Unstructured<'_>,
                version: Option<ProtocolVersion>,
            ) -> arbitrary::Result<Self> {
                crate::schema::base::arbitrary::one_of(u, version, &[
                    $((<$Type as crate::schema::base::decode::Object>::VERSIONS, |u, version| {
                        super::ArbitraryAt::arbitrary_at(u, version).map(Self::$Variant)
                    }),)*
                ])
            }
        }
    };
}

kinds! {
    String(StringSchema),
    Number(NumberSchema),
    Boolean(BooleanSchema),
    UntitledSingleSelect(UntitledSingleSelectEnumSchema),
    TitledSingleSelect(TitledSingleSelectEnumSchema),
    UntitledMultiSelect(UntitledMultiSelectEnumSchema),
    TitledMultiSelect(TitledMultiSelectEnumSchema),
    LegacyTitledEnum(LegacyTitledEnumSchema),
}

/// Reads a field by its `type`. The keyword that lists the values distinguishes the four kinds of choices.
fn field(reader: &mut Reader<'_>) -> Result<PrimitiveSchema, Error> {
    /// The members that distinguish the kinds; of several with one name, the first.
    #[derive(Default)]
    struct Signs<'a> {
        kind: Option<&'a str>,
        items: Option<&'a str>,
        one_of: Option<&'a str>,
        values: Option<&'a str>,
        names: Option<&'a str>,
    }

    let mut signs = Signs::default();
    reader.look_ahead(|reader| {
        let mut members = reader.members(&ExpectedType("PrimitiveSchema", "an object"))?;
        while let Some(name) = members.next()? {
            let value = members.value().raw()?;
            let sign = match &*name {
                "type" => &mut signs.kind,
                "items" => &mut signs.items,
                "oneOf" => &mut signs.one_of,
                "enum" => &mut signs.values,
                "enumNames" => &mut signs.names,
                _ => continue,
            };
            sign.get_or_insert(value);
        }
        Ok::<_, Error>(())
    })?;
    let has = |sign: Option<&str>| sign.is_some_and(|text| text != "null");
    let items: Option<Extra> = signs.items.and_then(|items| read(items).ok());
    let items_have = |name| items.as_ref().is_some_and(|items| items.get(name).is_some());
    let kind: Option<String> = signs.kind.and_then(|kind| read(kind).ok());
    type Schema = PrimitiveSchema;
    match kind.as_deref().unwrap_or_default() {
        "string" if has(signs.one_of) => Member::read(reader).map(Schema::TitledSingleSelect),
        "string" if has(signs.names) => Member::read(reader).map(Schema::LegacyTitledEnum),
        "string" if has(signs.values) => Member::read(reader).map(Schema::UntitledSingleSelect),
        "string" => Member::read(reader).map(Schema::String),
        "number" | "integer" => Member::read(reader).map(Schema::Number),
        "boolean" => Member::read(reader).map(Schema::Boolean),
        "array" if items_have("anyOf") => Member::read(reader).map(Schema::TitledMultiSelect),
        "array" if items_have("enum") => Member::read(reader).map(Schema::UntitledMultiSelect),
        _ => Member::read(reader).map(Schema::Other),
    }
}

through_decode_and_encode! { PrimitiveSchema, field }
