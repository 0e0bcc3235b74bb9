//! Finds the annotations in the input schema of a tool.

use alloc::{
    borrow::{Cow, ToOwned},
    collections::BTreeSet,
    string::String,
    vec,
    vec::Vec,
};

use super::{ANNOTATION, HeaderParam, InvalidHeaderParam, Kind};
use crate::wire::scan::{ScanError, Scanner};

/// The most annotations of one schema. Each becomes a header, and by default the head of a request has a limit of 64
/// KiB.
const MAX_ANNOTATIONS: usize = 256;

/// The most bytes of one schema's annotated names and of the paths to them.
const MAX_BYTES: usize = 64 << 10;

/// The most bytes of a name that an error repeats.
const QUOTED: usize = 128;

/// The place of schemas in the value of a keyword.
enum KeywordClass {
    /// The value is a schema or an array of schemas.
    Schemas,
    /// The value is an object whose members are schemas.
    Map,
    /// The value is an object whose members are the schemas of arguments.
    Properties,
    /// The value contains no schema.
    Nothing,
}

fn holds(keyword: &str) -> KeywordClass {
    match keyword {
        "properties" => KeywordClass::Properties,
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" => KeywordClass::Map,
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
        | "unevaluatedProperties" => KeywordClass::Schemas,
        _ => KeywordClass::Nothing,
    }
}

/// Reads one schema. Its work and its memory are linear in the text: names are borrowed, and the path to an argument is
/// joined only where there is an annotation, within [`MAX_ANNOTATIONS`] and [`MAX_BYTES`].
#[derive(Default)]
pub(super) struct SchemaWalker<'a> {
    pub(super) found: Vec<HeaderParam>,
    /// The names of all annotations so far, in lower case.
    names: BTreeSet<String>,
    /// The names of the properties around the current schema.
    path: Vec<Cow<'a, str>>,
    /// The bytes of the names and paths in `found`.
    bytes: usize,
}

impl From<ScanError> for InvalidHeaderParam {
    fn from(_: ScanError) -> Self {
        Self::Schema
    }
}

impl<'a> SchemaWalker<'a> {
    /// Reads the schema that begins here, inside of `outer` brackets; the scanner limits their nesting. `is_argument`
    /// is true for the schema of the argument at the current path, or of all arguments.
    pub(super) fn schema(
        &mut self,
        scanner: &mut Scanner<'a>,
        outer: u32,
        is_argument: bool,
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
            let name = name.text().unwrap_or_default();
            match holds(&name) {
                KeywordClass::Schemas => self.schemas(scanner, outer + 1)?,
                KeywordClass::Map => self.map(scanner, outer + 1, false)?,
                KeywordClass::Properties => self.map(scanner, outer + 1, is_argument)?,
                KeywordClass::Nothing => {
                    let value = scanner.value(outer + 1)?;
                    match &*name {
                        ANNOTATION => annotation = Some(value),
                        "type" => types = value,
                        _ => {}
                    }
                }
            }
        }
        match annotation {
            Some(annotation) => self.annotated(annotation, types, is_argument),
            None => Ok(()),
        }
    }

    /// Reads an object whose members are schemas: of the arguments below the current path, or others.
    fn map(&mut self, scanner: &mut Scanner<'a>, outer: u32, of_arguments: bool) -> Result<(), InvalidHeaderParam> {
        if scanner.peek() != Some(b'{') {
            scanner.value(outer)?;
            return Ok(());
        }
        scanner.open(b'{', outer)?;
        let mut first = true;
        while let Some(name) = scanner.next_member(first)? {
            first = false;
            match name.text().filter(|_| of_arguments) {
                Some(name) => {
                    self.path.push(name);
                    self.schema(scanner, outer + 1, true)?;
                    self.path.pop();
                }
                // A name with half of a surrogate pair stands for no text, and so for no argument.
                None => self.schema(scanner, outer + 1, false)?,
            }
        }
        Ok(())
    }

    /// Reads a schema or an array of schemas, none of them of an argument.
    fn schemas(&mut self, scanner: &mut Scanner<'a>, outer: u32) -> Result<(), InvalidHeaderParam> {
        if scanner.peek() != Some(b'[') {
            return self.schema(scanner, outer, false);
        }
        scanner.open(b'[', outer)?;
        let mut first = true;
        while scanner.begin_element(first)? {
            first = false;
            self.schema(scanner, outer + 1, false)?;
        }
        Ok(())
    }

    fn annotated(&mut self, annotation: &str, types: &str, is_argument: bool) -> Result<(), InvalidHeaderParam> {
        if !is_argument || self.path.is_empty() {
            return Err(InvalidHeaderParam::Misplaced);
        }
        // The limits are checked before anything is copied.
        self.bytes += annotation.len() + self.path.iter().map(|name| name.len()).sum::<usize>();
        if self.found.len() >= MAX_ANNOTATIONS || self.bytes > MAX_BYTES {
            return Err(InvalidHeaderParam::TooLarge);
        }
        let name: String = serde_json::from_str(annotation).unwrap_or_default();
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(InvalidHeaderParam::Name(quoted(annotation)));
        }
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(InvalidHeaderParam::Repeated(quoted(&name)));
        }
        let Some(kind) = kind(types) else { return Err(InvalidHeaderParam::Type(quoted(&name))) };
        let path = self.path.iter().map(|name| name.clone().into_owned()).collect();
        self.found.push(HeaderParam { name, path, kind });
        Ok(())
    }
}

/// Returns the beginning of `text`, at most [`QUOTED`] bytes.
fn quoted(text: &str) -> String {
    let end = (0..=QUOTED.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}

/// Returns the one kind of value that `type` allows beside null.
fn kind(types: &str) -> Option<Kind> {
    // The longest list that is right is `["boolean","null"]`, with white space and escapes.
    if types.len() > 1024 {
        return None;
    }
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

/// Returns whether a byte is a character of a token (RFC 9110, section 5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}
