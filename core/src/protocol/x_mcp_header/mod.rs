//! Arguments of a tool that headers repeat, as `x-mcp-header` in its input schema requires (2026-07-28).

use alloc::{
    borrow::{Cow, ToOwned},
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, slice};

mod arguments;
mod schema;

use arguments::{Argument, find};
use schema::SchemaWalker;

use super::{HeaderError, HeaderMismatch, MirroredHeaders, MirroredValue, decode_header, encode_header};
use crate::wire::{
    RawJson, RequestId,
    scan::{MAX_DEPTH, Scanner},
};

const ANNOTATION: &str = "x-mcp-header";

/// The largest integer that every JSON reader represents exactly.
const MAX_INTEGER: i64 = (1 << 53) - 1;

/// An argument of a tool that a header repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderParam {
    /// The name of the header without `Mcp-Param-`.
    pub name: String,
    /// The names of the members on the way from the arguments to the value.
    pub path: Vec<String>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Boolean,
}

/// The reason why a tool cannot be offered over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidHeaderParam {
    /// The annotation is at the root, or below another keyword than `properties`, and so belongs to no argument.
    Misplaced,
    /// The annotation is not a string, is empty, or has characters that the name of a header cannot have.
    Name(String),
    /// Two annotations have this name. Upper and lower case are equal.
    Repeated(String),
    /// The argument with this name is neither a string nor an integer nor a boolean.
    Type(String),
    /// The schema is not an object.
    Schema,
    /// The schema has more than 256 annotations, or their names and paths have more than 64 KiB together.
    TooLarge,
}

impl fmt::Display for InvalidHeaderParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misplaced => write!(f, "{ANNOTATION} at a place that is not an argument"),
            Self::Name(name) => write!(f, "{ANNOTATION} {name} cannot be part of the name of a header"),
            Self::Repeated(name) => write!(f, "{ANNOTATION} {name:?} occurs twice"),
            Self::Type(name) => {
                write!(f, "{ANNOTATION} {name:?} is on an argument that is not a string, integer or boolean")
            }
            Self::Schema => f.write_str("the input schema is not an object"),
            Self::TooLarge => write!(f, "the input schema has more than 256 {ANNOTATION}, or 64 KiB of them"),
        }
    }
}

impl core::error::Error for InvalidHeaderParam {}

/// The error of an argument that cannot be sent in a header: it is not a scalar, occurs twice, or is an integer that
/// not every JSON reader represents exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotEncodable;

impl fmt::Display for NotEncodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an argument cannot be sent in a header")
    }
}

impl core::error::Error for NotEncodable {}

impl HeaderParam {
    /// The prefix of the name of every header that repeats an argument.
    pub const PREFIX: &str = "Mcp-Param-";

    /// Returns the headers that the input schema of a tool requires, in the order of the schema.
    ///
    /// # Errors
    /// Returns an error if the specification does not allow the annotations, or if there are [too
    /// many](InvalidHeaderParam::TooLarge) for a request. Such a tool is not offered over HTTP.
    pub fn of_schema(schema: &RawJson<'_>) -> Result<Vec<Self>, InvalidHeaderParam> {
        let mut walk = SchemaWalker::default();
        let mut scanner = Scanner::new(schema.get(), MAX_DEPTH);
        if scanner.peek() != Some(b'{') {
            return Err(InvalidHeaderParam::Schema);
        }
        walk.schema(&mut scanner, 0, true)?;
        Ok(walk.found)
    }

    /// Returns the name of the header.
    #[must_use]
    pub fn header(&self) -> String {
        [Self::PREFIX, &self.name].concat()
    }

    /// Returns the value of the header for these arguments, or `None` if the argument is absent or null.
    ///
    /// # Errors
    /// Returns an error if the argument cannot be sent in a header, or occurs twice.
    pub fn value(&self, arguments: Option<&RawJson<'_>>) -> Result<Option<String>, NotEncodable> {
        let mut values = Self::values(slice::from_ref(self), arguments)?;
        Ok(values.pop().flatten())
    }

    /// Returns the [value](Self::value) of the header for each of `params`, in one pass over the arguments.
    ///
    /// # Errors
    /// Returns an error if one of the arguments cannot be sent in a header, or occurs twice.
    pub fn values(params: &[Self], arguments: Option<&RawJson<'_>>) -> Result<Vec<Option<String>>, NotEncodable> {
        let arguments = find(params, arguments);
        arguments.into_iter().map(|argument| argument.header_value()).collect()
    }

    /// Checks that the header has the same value for this argument as the body, and is absent if the body has none.
    ///
    /// # Errors
    /// Returns the mismatch otherwise. An argument that occurs twice is always one ([`HeaderError::Malformed`]),
    /// since readers differ in which of the two they take.
    pub fn verify(&self, arguments: Option<&RawJson<'_>>, headers: &MirroredHeaders) -> Result<(), HeaderMismatch> {
        Self::verify_all(slice::from_ref(self), arguments, headers)
    }

    /// Checks all of `params` as [`verify`](Self::verify) does, in one pass over the arguments.
    ///
    /// # Errors
    /// Returns the first mismatch, in the order of `params`.
    pub fn verify_all(
        params: &[Self],
        arguments: Option<&RawJson<'_>>,
        headers: &MirroredHeaders,
    ) -> Result<(), HeaderMismatch> {
        let arguments = find(params, arguments);
        params.iter().zip(arguments).try_for_each(|(param, argument)| param.agrees(argument, headers))
    }

    fn agrees(&self, argument: Argument<'_>, headers: &MirroredHeaders) -> Result<(), HeaderMismatch> {
        let value = headers.param(&self.name);
        let header = Cow::Owned(self.header());
        let argument = match argument {
            Argument::Value(text) => RawJson::trusted(text),
            Argument::Twice => return Err(HeaderMismatch { header, fault: HeaderError::Malformed }),
            Argument::Absent => {
                return match value {
                    MirroredValue::Absent => Ok(()),
                    MirroredValue::Text(_) | MirroredValue::Invalid => {
                        Err(HeaderMismatch { header, fault: HeaderError::Unfounded })
                    }
                };
            }
        };
        value.agrees(header, |text| {
            let text = decode_header(text)?;
            Some(match (self.kind, argument.get().as_bytes().first()) {
                (_, Some(b'"')) => argument.decode::<String>().is_ok_and(|argument| text == argument),
                (Kind::Integer, Some(b'-' | b'0'..=b'9')) => {
                    let number = number(&text).and_then(integer);
                    number.is_some() && number == integer(argument.get())
                }
                _ => text == argument.get(),
            })
        })
    }
}

impl Argument<'_> {
    fn header_value(self) -> Result<Option<String>, NotEncodable> {
        let text = match self {
            Self::Absent => return Ok(None),
            Self::Twice => return Err(NotEncodable),
            Self::Value(text) => text,
        };
        let text = match text.as_bytes().first() {
            Some(b'"') => RawJson::trusted(text).decode::<String>().map_err(|_| NotEncodable)?,
            Some(b't' | b'f') => text.to_owned(),
            _ => integer(text).ok_or(NotEncodable)?.to_string(),
        };
        Ok(Some(encode_header(&text).into_owned()))
    }
}

/// Returns the value of a JSON number that is a safe integer, in any spelling.
fn integer(number: &str) -> Option<i64> {
    let value = RequestId::from_token(number)?.as_i64()?;
    (-MAX_INTEGER..=MAX_INTEGER).contains(&value).then_some(value)
}

/// Returns the text if it is a JSON number.
fn number(text: &str) -> Option<&str> {
    let mut scanner = Scanner::new(text, MAX_DEPTH);
    let is_number = text.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    (is_number && scanner.value(0).is_ok() && scanner.expect_end().is_ok()).then_some(text)
}

#[cfg(test)]
mod tests;
