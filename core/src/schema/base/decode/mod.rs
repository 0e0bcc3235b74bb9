//! Decodes objects in one pass, with members in any order. Names are compared in the input without a copy.
//!
//! The decoder ignores revisions. It reads the members of all revisions and keeps unknown ones.

mod member;
mod union;

use core::fmt;

use serde_core::de::{self, Error as _};
use serde_json::Error;

use crate::{
    protocol::VersionSet,
    schema::Extra,
    wire::{
        Json, excerpt,
        reader::{Reader, read_all},
    },
};

pub(crate) use crate::wire::reader::read_from;
pub(crate) use member::{Member, lenient, strict};
pub(crate) use union::{Union, union};

/// An object that is read member by member.
pub(crate) trait Object: Sized {
    /// The members found so far.
    type Slots: Default;
    /// The name of the type, for errors.
    const NAME: &'static str;
    /// Whether the object is params, in which an optional member of the wrong type is an error.
    const STRICT: bool;
    /// The revisions that have the object.
    #[cfg_attr(not(feature = "arbitrary"), expect(dead_code, reason = "only the generator asks"))]
    const VERSIONS: VersionSet;

    /// Reads the next value as that of one member.
    fn member(slots: &mut Self::Slots, name: &str, reader: &mut Reader<'_>) -> Result<(), Error>;

    /// Builds the object out of all members.
    fn finish(slots: Self::Slots) -> Result<Self, Error>;

    /// Returns whether the object would be written as `{}`.
    fn is_empty(&self) -> bool;
}

/// Reads an object. Params may also be `null`, which is read like `{}`.
pub(crate) fn object<T: Object>(reader: &mut Reader<'_>) -> Result<T, Error> {
    let mut slots = T::Slots::default();
    if T::STRICT && reader.null()? {
        return T::finish(slots);
    }
    let mut members = reader.members(&ExpectedType(T::NAME, "an object"))?;
    while let Some(name) = members.next()? {
        T::member(&mut slots, &name, members.value()).map_err(|error| inside(T::NAME, &name, &error))?;
    }
    T::finish(slots)
}

/// The expected type and its form in JSON, for errors.
pub(crate) struct ExpectedType(pub(crate) &'static str, pub(crate) &'static str);

impl de::Expected for ExpectedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.0, self.1)
    }
}

/// Reads a word of an open set.
pub(crate) fn word<T: for<'a> From<&'a str>>(reader: &mut Reader<'_>) -> Result<T, Error> {
    reader.string().map(|word| T::from(&word))
}

/// Reads the member that names the kind of the object, and checks that it is `kind`.
pub(crate) fn tag(seen: &mut bool, kind: &str, reader: &mut Reader<'_>) -> Result<(), Error> {
    if core::mem::replace(seen, true) {
        return Err(Error::custom("duplicate member"));
    }
    // The expected kind usually follows without escapes.
    if reader.eat_plain(kind) {
        return Ok(());
    }
    let found = reader.string()?;
    let found = match &*found {
        found if found == kind => return Ok(()),
        found => excerpt(found),
    };
    Err(Error::custom(format_args!("`{found}` where `{kind}` was expected")))
}

/// Checks that the member of [`tag`] was present.
pub(crate) fn tagged(seen: bool, owner: &str, tag: &str) -> Result<(), Error> {
    if seen { Ok(()) } else { Err(missing(owner, tag)) }
}

/// Keeps a member that the object does not have.
#[cold]
pub(crate) fn unknown(extra: &mut Extra, reader: &mut Reader<'_>) -> Result<(), Error> {
    let name = reader.written_name();
    extra.push_written(name, reader.raw()?);
    Ok(())
}

/// Returns the error for a missing member.
#[cold]
pub(crate) fn missing(owner: &str, name: &str) -> Error {
    Error::custom(format_args!("{owner}: missing member `{name}`"))
}

/// Adds the name of the member to an error.
#[cold]
pub(crate) fn inside(owner: &str, name: &str, error: &Error) -> Error {
    Error::custom(format_args!("{owner}.{}: {error}", excerpt(name)))
}

/// Returns the value of one member of an object that is not decoded yet.
pub(crate) fn peek(object: &str, name: &str) -> Result<Option<Json>, Error> {
    read_all(object, |reader| {
        let mut members = reader.members(&"an object")?;
        let mut found = None;
        while let Some(member) = members.next()? {
            let value = members.value().raw()?;
            if member == name {
                found = Some(value);
            }
        }
        Ok(found.map(Json::trusted))
    })
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, string::String};

    use serde::{
        Deserialize,
        de::{IntoDeserializer, value::Error},
    };

    use crate::{
        schema::{CallToolParams, LoggingLevel, Role, Root},
        wire::{Json, RequestId},
    };

    /// A type outside of the schema, whose fields serde buffers before it decodes them.
    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(tag = "kind")]
    enum Theirs {
        One {
            level: LoggingLevel,
            roles: BTreeMap<String, Role>,
            #[serde(flatten)]
            call: CallToolParams,
        },
        Other {
            id: RequestId,
            root: Option<Root>,
            any: Json,
        },
    }

    #[test]
    fn decodes_without_raw_text() {
        let theirs = |text| serde_json::from_str::<Theirs>(text).expect(text);
        let call = CallToolParams {
            arguments: Json::parse("{\"a\":1}").and_then(Json::try_into).ok(),
            ..CallToolParams::new("n")
        };
        assert_eq!(
            theirs(r#"{"kind":"One","level":"alert","roles":{"a":"user","b":"cat"},"name":"n","arguments":{"a":1}}"#),
            Theirs::One {
                level: LoggingLevel::Alert,
                roles: [("a".into(), Role::User), ("b".into(), Role::Other("cat".into()))].into(),
                call,
            },
        );
        assert_eq!(
            theirs(r#"{"id":"\u0061","root":{"uri":"file:///","x":[null]},"any":[1.5,"\n"],"kind":"Other"}"#),
            Theirs::Other {
                id: "a".into(),
                root: Some(Root {
                    extra: [("x", Json::parse("[null]").expect("JSON"))].into(),
                    ..Root::new("file:///")
                }),
                any: Json::parse("[1.5,\"\\n\"]").expect("JSON"),
            },
        );
        assert!(serde_json::from_str::<Theirs>(r#"{"kind":"One","level":"loud","roles":{},"name":"n"}"#).is_err());

        let word =
            |word: &'static str| -> Result<LoggingLevel, Error> { Deserialize::deserialize(word.into_deserializer()) };
        assert_eq!(word("debug"), Ok(LoggingLevel::Debug));
        assert!(word("\"debug\"").is_err());
        let named: BTreeMap<LoggingLevel, u8> =
            serde_json::from_str(r#"{"info":1,"\u0065rror":2}"#).expect("two levels");
        assert_eq!(named, [(LoggingLevel::Info, 1), (LoggingLevel::Error, 2)].into());
    }
}
