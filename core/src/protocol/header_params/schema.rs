//! The walk over the input schema of a tool that finds its annotations.

use alloc::{borrow::ToOwned, collections::BTreeSet, string::String, vec, vec::Vec};

use super::{ANNOTATION, HeaderParam, InvalidHeaderParam, Kind};
use crate::wire::scan::{ScanError, Scanner};

/// Where a schema stands.
pub(super) enum Place {
    /// It is that of the argument at this path; of all arguments if there is none.
    Path(Vec<String>),
    /// It is that of something else.
    Elsewhere,
}

/// How the value of a keyword is made of schemas.
enum Holds {
    /// It is one, or an array of them.
    Schemas,
    /// The members of an object are.
    Map,
    /// They are those of the arguments.
    Properties,
    /// It is not.
    Nothing,
}

fn holds(keyword: &str) -> Holds {
    match keyword {
        "properties" => Holds::Properties,
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" => Holds::Map,
        "additionalItems"
        | "additionalProperties"
        | "allOf"
        | "anyOf"
        | "contains"
        | "contentSchema"
        | "else"
        | "if"
        | "items"
        | "not"
        | "oneOf"
        | "prefixItems"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Holds::Schemas,
        _ => Holds::Nothing,
    }
}

#[derive(Default)]
pub(super) struct Walk {
    pub(super) found: Vec<HeaderParam>,
    /// The names that were seen, in lower case.
    names: BTreeSet<String>,
}

impl From<ScanError> for InvalidHeaderParam {
    fn from(_: ScanError) -> Self {
        Self::Schema
    }
}

impl Walk {
    /// Reads the schema that begins here, inside of `outer` brackets. They nest no deeper than the scanner goes.
    pub(super) fn schema(
        &mut self,
        scanner: &mut Scanner<'_>,
        outer: u32,
        place: &Place,
    ) -> Result<(), InvalidHeaderParam> {
        if scanner.peek() != Some(b'{') {
            scanner.value(outer)?;
            return Ok(());
        }
        scanner.open(b'{', outer)?;
        let (mut annotation, mut types) = (None, "");
        let mut first = true;
        while let Some(name) = scanner.next_member(first)? {
            first = false;
            let name = name.text();
            match holds(&name) {
                Holds::Schemas => self.schemas(scanner, outer + 1)?,
                Holds::Map => self.map(scanner, outer + 1, &Place::Elsewhere)?,
                Holds::Properties => self.map(scanner, outer + 1, place)?,
                Holds::Nothing => {
                    let value = scanner.value(outer + 1)?;
                    match &*name {
                        ANNOTATION => annotation = Some(value),
                        "type" => types = value,
                        _ => {}
                    }
                }
            }
        }
        if let Some(annotation) = annotation {
            self.annotated(annotation, types, place)?;
        }
        Ok(())
    }

    /// Reads the members of an object, each of them a schema: those of the arguments below `place`, if there are any.
    fn map(&mut self, scanner: &mut Scanner<'_>, outer: u32, place: &Place) -> Result<(), InvalidHeaderParam> {
        if scanner.peek() != Some(b'{') {
            scanner.value(outer)?;
            return Ok(());
        }
        scanner.open(b'{', outer)?;
        let mut first = true;
        while let Some(name) = scanner.next_member(first)? {
            first = false;
            let place = match place {
                Place::Path(path) => Place::Path([&path[..], &[name.text().into_owned()]].concat()),
                Place::Elsewhere => Place::Elsewhere,
            };
            self.schema(scanner, outer + 1, &place)?;
        }
        Ok(())
    }

    /// Reads a schema, or an array of them, which are not those of arguments.
    fn schemas(&mut self, scanner: &mut Scanner<'_>, outer: u32) -> Result<(), InvalidHeaderParam> {
        if scanner.peek() != Some(b'[') {
            return self.schema(scanner, outer, &Place::Elsewhere);
        }
        scanner.open(b'[', outer)?;
        scanner.skip_white_space();
        if scanner.eat(b']') {
            return Ok(());
        }
        loop {
            scanner.skip_white_space();
            self.schema(scanner, outer + 1, &Place::Elsewhere)?;
            scanner.skip_white_space();
            if scanner.eat(b']') {
                return Ok(());
            }
            scanner.expect(b',')?;
        }
    }

    fn annotated(&mut self, annotation: &str, types: &str, place: &Place) -> Result<(), InvalidHeaderParam> {
        let Place::Path(path) = place else { return Err(InvalidHeaderParam::Misplaced) };
        if path.is_empty() {
            return Err(InvalidHeaderParam::Misplaced);
        }
        let name: String = serde_json::from_str(annotation).unwrap_or_default();
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(InvalidHeaderParam::Name(annotation.to_owned()));
        }
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(InvalidHeaderParam::Repeated(name));
        }
        let Some(kind) = kind(types) else { return Err(InvalidHeaderParam::Type(name)) };
        self.found.push(HeaderParam { name, path: path.clone(), kind });
        Ok(())
    }
}

/// The one kind of value that `type` allows, beside null.
fn kind(types: &str) -> Option<Kind> {
    let types: Vec<String> = match serde_json::from_str::<String>(types) {
        Ok(one) => vec![one],
        Err(_) => serde_json::from_str::<Vec<String>>(types).ok()?.into_iter().filter(|name| name != "null").collect(),
    };
    match &types[..] {
        [one] => match &**one {
            "string" => Some(Kind::Text),
            "integer" => Some(Kind::Integer),
            "boolean" => Some(Kind::Boolean),
            _ => None,
        },
        _ => None,
    }
}

/// A character of a token (RFC 9110, section 5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}
