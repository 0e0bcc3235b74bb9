//! The macros that declare the schema.
//!
//! One declaration has everything about an object:
//!
//! ```text
//! object! {
//!     /// A tool that a server offers.
//!     pub struct Tool: data {
//!         /// The name in `tools/call`.
//!         "name" => name: required String;
//!         /// How the tool can be executed.
//!         "execution" => execution: optional ToolExecution, only(V2025_11_25);
//!     }
//! }
//! ```
//!
//! The word after the name is its flavour:
//!
//! - `params(ListTools => ListToolsResult)`: params of a request, and its result
//! - `params(Progress)`: params of a notification
//! - `result`: a result of a server, `answer`: a result of a client
//! - `data`: anything inside of them
//! - `data("type" = "text")`, `params("mode" = "url")`: one of several forms, known by this member
//!
//! Params are decoded strictly: an optional member of the wrong type is an error, which becomes the response -32602. In
//! all other flavours such a member moves to `extra` unchanged, and its field stays empty.
//!
//! A block `gates { … }` after the members has methods of the trait. The connection uses them before it sends params:
//! the capabilities that their content needs, the severity of a log message.
//!
//! A member is `required`, `optional` or `nullable` (always there, perhaps `null`). The words behind its type are
//! the methods of [`Rule`](super::encode::Rule); behind the flavour they concern the object as a whole.

/// Declares an object of the specification: its struct, constructor, decoder, encoder and generator.
macro_rules! object {
    (
        $(#[$attr:meta])*
        pub struct $Name:ident: params($method:ident => $Result:ty) { $($body:tt)* } $(gates { $($gates:tt)* })?
    ) => {
        object! { @meta strict, [method(crate::protocol::Method::$method)], [], $(#[$attr])* $Name { $($body)* } }

        impl crate::schema::Request for $Name {
            const METHOD: crate::protocol::Method = crate::protocol::Method::$method;
            type Result = $Result;

            fn is_empty(&self) -> bool {
                crate::schema::base::decode::Object::is_empty(self)
            }

            $($($gates)*)?
        }
    };
    (
        $(#[$attr:meta])*
        pub struct $Name:ident: params($method:ident) $(, $rule:ident $(($($args:tt)*))?)* { $($body:tt)* }
        $(gates { $($gates:tt)* })?
    ) => {
        object! {
            @meta strict, [method(crate::protocol::Method::$method) $($rule($($($args)*)?))*], [],
            $(#[$attr])* $Name { $($body)* }
        }

        impl crate::schema::Notification for $Name {
            const METHOD: crate::protocol::Method = crate::protocol::Method::$method;

            fn is_empty(&self) -> bool {
                crate::schema::base::decode::Object::is_empty(self)
            }

            $($($gates)*)?
        }
    };
    (
        $(#[$attr:meta])*
        pub struct $Name:ident: params $(($tag:literal = $kind:literal))? $(, $rule:ident $(($($args:tt)*))?)* { $($body:tt)* }
    ) => {
        object! {
            @meta strict, [$($rule($($($args)*)?))*], [$($tag = $kind)?], $(#[$attr])* $Name { $($body)* }
        }
    };
    ($(#[$attr:meta])* pub struct $Name:ident: result $(, $rule:ident $(($($args:tt)*))?)* { $($body:tt)* }) => {
        object! {
            @meta lenient, [$($rule($($($args)*)?))*], [], $(#[$attr])* $Name {
                /// The kind of the result. The connection sets it for the revisions that have it. Since 2026-07-28; a
                /// missing kind means `complete`.
                "resultType" => result_type: optional crate::schema::ResultType, since(V2026_07_28),
                    has_to(|kind, _| *kind == crate::schema::ResultType::Complete);
                $($body)*
            }
        }
    };
    ($(#[$attr:meta])* pub struct $Name:ident: answer $(, $rule:ident $(($($args:tt)*))?)* { $($body:tt)* }) => {
        object! { @meta lenient, [$($rule($($($args)*)?))*], [], $(#[$attr])* $Name { $($body)* } }
    };
    (
        $(#[$attr:meta])*
        pub struct $Name:ident: data $(($tag:literal = $kind:literal))? $(, $rule:ident $(($($args:tt)*))?)* { $($body:tt)* }
    ) => {
        object! {
            @declare lenient, [$($rule($($($args)*)?))*], [], [$($tag = $kind)?], $(#[$attr])* $Name { $($body)* }
        }
    };

    // `_meta` is the first member in params and results: the engine adds its own keys to the bytes behind `{"_meta":{`.
    (@meta $mode:ident, $rules:tt, $tag:tt, $(#[$attr:meta])* $Name:ident { $($body:tt)* }) => {
        object! {
            @declare $mode, $rules, [
                /// Metadata of the protocol, of extensions and of applications.
                "_meta" => meta: optional crate::schema::Meta;
            ], $tag, $(#[$attr])* $Name { $($body)* }
        }
    };

    (
        @declare $mode:ident, [$($own:ident($($own_args:tt)*))*],
        [$($(#[$first_doc:meta])* $first_wire:literal => $first:ident: optional $First:ty;)?],
        [$($tag:literal = $kind:literal)?],
        $(#[$attr:meta])* $Name:ident {
            $(
                $(#[$doc:meta])*
                $wire:literal => $field:ident: $presence:ident $Type:ty $(, $rule:ident $(($($args:tt)*))?)*;
            )*
        }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $Name {
            $($(#[$first_doc])* pub $first: Option<$First>,)?
            $($(#[$doc])* pub $field: field_type!($presence $Type),)*
            /// Members without a field, and members with one whose value had an unexpected form. They are kept as
            /// received, and written again where the revision admits them.
            pub extra: crate::schema::Extra,
        }

        constructor! { $Name [] [$($first: None,)?] $($presence $field: $Type;)* }

        const _: () = {
            #[allow(unused_imports, reason = "declarations without rules need none of it")]
            use crate::{protocol::ProtocolVersion::*, schema::base::{decode, encode::{self, Rule}, format::Format::*}};

            /// The rules of the members.
            struct Rules {
                $($first: Rule<$First>,)?
                $($field: Rule<$Type>,)*
            }

            const RULES: Rules = Rules {
                $($first: Rule::new(),)?
                $($field: Rule::<$Type>::new()$(.$rule($($($args)*)?))*,)*
            };

            /// The rule of the object itself.
            const OWN: Rule<$Name> = Rule::<$Name>::new()$(.$own($($own_args)*))*;

            /// The members found so far.
            #[derive(Default)]
            pub(crate) struct Slots {
                $($first: Option<Option<$First>>,)?
                $($field: Option<field_type!($presence $Type)>,)*
                #[allow(dead_code, reason = "only objects of several forms have a tag")]
                tagged: bool,
                extra: crate::schema::Extra,
            }

            impl decode::Object for $Name {
                type Slots = Slots;
                const NAME: &'static str = stringify!($Name);
                const STRICT: bool = decode::$mode::STRICT;
                const VERSIONS: crate::protocol::VersionSet = OWN.versions();

                fn member(
                    slots: &mut Slots,
                    name: &str,
                    reader: &mut crate::wire::reader::Reader<'_>,
                ) -> Result<(), serde_json::Error> {
                    match name {
                        $($tag => decode::tag(&mut slots.tagged, $kind, reader),)?
                        $($first_wire => decode::$mode::optional(&mut slots.$first, &mut slots.extra, name, reader),)?
                        $($wire => decode::$mode::$presence(&mut slots.$field, &mut slots.extra, name, reader),)*
                        _ => decode::unknown(&mut slots.extra, reader),
                    }
                }

                fn finish(slots: Slots) -> Result<Self, serde_json::Error> {
                    $(decode::tagged(slots.tagged, Self::NAME, $tag)?;)?
                    Ok(Self {
                        $($first: slots.$first.flatten(),)?
                        $($field: finish!($presence slots.$field, RULES.$field, Self::NAME, $wire),)*
                        extra: slots.extra,
                    })
                }

                fn is_empty(&self) -> bool {
                    $(self.$first.is_none() &&)?
                    $(is_absent!($presence self.$field) &&)*
                    self.extra.is_empty()
                }
            }

            impl $Name {
                fn write<O: encode::Output>(
                    &self,
                    version: Option<crate::protocol::ProtocolVersion>,
                    out: O,
                ) -> Result<O::Done, O::Error> {
                    let mut members = encode::Members::new(self, out, version, &OWN)?;
                    $(members.optional(name!($first_wire), &self.$first, &RULES.$first)?;)?
                    $(members.tag(name!($tag), word!($kind))?;)?
                    $(members.$presence(name!($wire), &self.$field, &RULES.$field)?;)*
                    members.extra(&self.extra, |name| match name {
                        $($tag => false,)?
                        $($first_wire => self.$first.is_none(),)?
                        $($wire => is_absent!($presence self.$field) && RULES.$field.may_be_malformed(version),)*
                        _ => true,
                    })?;
                    members.end()
                }
            }

            through_write! { $Name }

            #[cfg(feature = "arbitrary")]
            impl crate::schema::ArbitraryAt for $Name {
                fn arbitrary_at(
                    u: &mut arbitrary::Unstructured<'_>,
                    version: Option<crate::protocol::ProtocolVersion>,
                ) -> arbitrary::Result<Self> {
                    let value = Self {
                        $($first: crate::schema::base::arbitrary::optional(u, version, &RULES.$first)?,)?
                        $($field: crate::schema::base::arbitrary::$presence(u, version, &RULES.$field)?,)*
                        extra: crate::schema::base::arbitrary::extra(u)?,
                    };
                    crate::schema::base::arbitrary::admitted(value, version, &OWN)
                }
            }
        };

        through_decode_and_encode! { $Name, crate::schema::base::decode::object }
    };
}

/// The type of the field behind a member.
macro_rules! field_type {
    (required $Type:ty) => { $Type };
    (optional $Type:ty) => { Option<$Type> };
    (nullable $Type:ty) => { Option<$Type> };
}

/// The name of a member with its comma, quotes and colon.
macro_rules! name {
    ($wire:literal) => {
        const { crate::schema::base::encode::Name::new(concat!(",\"", $wire, "\":")) }
    };
}

/// A word of the schema with its quotes.
macro_rules! word {
    ($text:literal) => {
        const { crate::schema::base::encode::Word::new(concat!("\"", $text, "\"")) }
    };
}

/// Returns whether a member would not be written.
macro_rules! is_absent {
    (required $field:expr) => {
        false
    };
    (optional $field:expr) => {
        $field.is_none()
    };
    (nullable $field:expr) => {
        false
    };
}

/// Returns the value of a field after all members were read.
macro_rules! finish {
    (required $slot:expr, $rule:expr, $owner:expr, $wire:literal) => {
        match ($slot, $rule.fallback()) {
            (Some(value), _) => value,
            (None, Some(fallback)) => fallback(),
            (None, None) => return Err(crate::schema::base::decode::missing($owner, $wire)),
        }
    };
    (optional $slot:expr, $rule:expr, $owner:expr, $wire:literal) => {
        $slot.flatten()
    };
    (nullable $slot:expr, $rule:expr, $owner:expr, $wire:literal) => {
        match $slot {
            Some(value) => value,
            None => return Err(crate::schema::base::decode::missing($owner, $wire)),
        }
    };
}

/// Declares `new` with the required members, or `Default` if there are none.
macro_rules! constructor {
    ($Name:ident [] [$($init:tt)*]) => {
        impl Default for $Name {
            fn default() -> Self {
                Self { $($init)* extra: crate::schema::Extra::new() }
            }
        }
    };
    ($Name:ident [$($arg:ident: $Type:ty,)+] [$($init:tt)*]) => {
        impl $Name {
            /// Creates the object with the members that the specification requires. All others are absent.
            #[must_use]
            pub fn new($($arg: impl Into<$Type>),+) -> Self {
                Self { $($init)* extra: crate::schema::Extra::new() }
            }
        }
    };
    ($Name:ident [$($args:tt)*] [$($init:tt)*] required $field:ident: $Type:ty; $($rest:tt)*) => {
        constructor! { $Name [$($args)* $field: $Type,] [$($init)* $field: $field.into(),] $($rest)* }
    };
    ($Name:ident [$($args:tt)*] [$($init:tt)*] $presence:ident $field:ident: $Type:ty; $($rest:tt)*) => {
        constructor! { $Name [$($args)*] [$($init)* $field: None,] $($rest)* }
    };
}

/// Implements the traits of serde, and `Arbitrary`, through the traits of this crate.
macro_rules! through_decode_and_encode {
    ($Name:ident, $decode:path) => {
        impl crate::schema::base::decode::Member for $Name {
            fn read(reader: &mut crate::wire::reader::Reader<'_>) -> Result<Self, serde_json::Error> {
                $decode(reader)
            }
        }

        impl<'de> serde_core::Deserialize<'de> for $Name {
            fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::schema::base::decode::read_from(deserializer, $decode)
            }
        }

        #[cfg(feature = "arbitrary")]
        impl<'a> arbitrary::Arbitrary<'a> for $Name {
            fn arbitrary(u: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<Self> {
                crate::schema::ArbitraryAt::arbitrary_at(u, None)
            }
        }
    };
}

/// Declares a set of words that later revisions and other implementations may extend.
macro_rules! open_enum {
    (
        $(#[$attr:meta])*
        pub enum $Name:ident {
            $($(#[$doc:meta])* $Variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $Name {
            $($(#[$doc])* $Variant,)+
            /// A word that this version of the library does not define.
            Other(alloc::string::String),
        }

        impl $Name {
            /// Returns the word on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$Variant => $text,)+
                    Self::Other(text) => text,
                }
            }

            /// Returns whether this is a word of the specification.
            #[must_use]
            pub const fn is_known(&self) -> bool {
                !matches!(self, Self::Other(_))
            }
        }

        impl From<&str> for $Name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$Variant,)+
                    other => Self::Other(other.into()),
                }
            }
        }

        impl core::fmt::Display for $Name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $Name {
            fn write<O: crate::schema::base::encode::Output>(
                &self,
                _version: Option<crate::protocol::ProtocolVersion>,
                out: O,
            ) -> Result<O::Done, O::Error> {
                out.string(self.as_str())
            }
        }

        through_write! { $Name }

        #[cfg(feature = "arbitrary")]
        impl crate::schema::ArbitraryAt for $Name {
            fn arbitrary_at(
                u: &mut arbitrary::Unstructured<'_>,
                _version: Option<crate::protocol::ProtocolVersion>,
            ) -> arbitrary::Result<Self> {
                u.choose(&[$(Self::$Variant,)+]).cloned()
            }
        }

        through_decode_and_encode! { $Name, crate::schema::base::decode::word }
    };
}

/// Declares objects that are distinguished by the value of one member.
macro_rules! union {
    (
        $(#[$attr:meta])*
        pub enum $Name:ident by $tag:literal $(or $default:ident)? {
            $($(#[$doc:meta])* $Variant:ident($Type:ident) = $kind:literal,)+
        }
    ) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $Name {
            $($(#[$doc])* $Variant($Type),)+
            /// A kind that this version of the library does not define, with all its members.
            Other(crate::schema::Extra),
        }

        $(
            impl From<$Type> for $Name {
                fn from(value: $Type) -> Self {
                    Self::$Variant(value)
                }
            }
        )+

        impl crate::schema::base::decode::Union for $Name {
            const NAME: &'static str = stringify!($Name);
            const TAG: &'static str = $tag;

            fn variant(
                kind: Option<&str>,
                reader: &mut crate::wire::reader::Reader<'_>,
            ) -> Result<Self, serde_json::Error> {
                use crate::schema::base::decode::Member;

                match kind {
                    $(Some($kind) => Member::read(reader).map(Self::$Variant),)+
                    Some(_) => Member::read(reader).map(Self::Other),
                    None => {
                        $(return Member::read(reader).map(Self::$default);)?
                        #[allow(unreachable_code, reason = "a union with a default has no missing tag")]
                        Err(crate::schema::base::decode::missing(Self::NAME, Self::TAG))
                    }
                }
            }
        }

        impl $Name {
            fn write<O: crate::schema::base::encode::Output>(
                &self,
                version: Option<crate::protocol::ProtocolVersion>,
                out: O,
            ) -> Result<O::Done, O::Error> {
                match self {
                    $(Self::$Variant(value) => out.value(value, version),)+
                    // No revision defines this variant.
                    Self::Other(members) => match version {
                        None => out.value(members, None),
                        Some(version) => Err(crate::schema::base::encode::unfit(
                            concat!(stringify!($Name), ".", $tag),
                            version,
                        )),
                    },
                }
            }
        }

        through_write! { $Name }

        #[cfg(feature = "arbitrary")]
        impl crate::schema::ArbitraryAt for $Name {
            fn arbitrary_at(
                u: &mut arbitrary::Unstructured<'_>,
                version: Option<crate::protocol::ProtocolVersion>,
            ) -> arbitrary::Result<Self> {
                crate::schema::base::arbitrary::one_of(u, version, &[
                    $((<$Type as crate::schema::base::decode::Object>::VERSIONS, |u, version| {
                        crate::schema::ArbitraryAt::arbitrary_at(u, version).map(Self::$Variant)
                    }),)+
                ])
            }
        }

        through_decode_and_encode! { $Name, crate::schema::base::decode::union }
    };
}

pub(crate) use super::encode::through_write;
pub(crate) use {
    constructor, field_type, finish, is_absent, name, object, open_enum, through_decode_and_encode, union, word,
};
