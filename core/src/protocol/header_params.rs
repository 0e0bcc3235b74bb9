//! Arguments of a tool that are repeated in headers: what `x-mcp-header` in its input schema says (2026-07-28).

use alloc::{
    borrow::{Cow, ToOwned},
    collections::BTreeSet,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use core::fmt;

use super::{HeaderFault, HeaderMismatch, Mirrored, Said, decode_header, encode_header};
use crate::wire::{
    RawJson, RequestId,
    scan::{MAX_DEPTH, ScanError, Scanner},
};

const ANNOTATION: &str = "x-mcp-header";

/// The largest integer that every reader of JSON knows exactly.
const MAX_INTEGER: i64 = (1 << 53) - 1;

/// An argument of a tool that is repeated in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderParam {
    /// What stands behind `Mcp-Param-` in the name of the header.
    pub name: String,
    /// The names of the members that lead to it from the arguments.
    pub path: Vec<String>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Boolean,
}

/// Why a tool cannot be offered over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidHeaderParam {
    /// The annotation stands where no argument is meant: at the root, or below anything but `properties`.
    Misplaced,
    /// The annotation is not a string of the characters that the name of a header is made of, or is empty.
    Name(String),
    /// Two annotations have this name, upper and lower case taken for the same.
    Repeated(String),
    /// The argument with this name is neither a string nor an integer nor a boolean.
    Type(String),
    /// The schema is not an object.
    Schema,
}

impl fmt::Display for InvalidHeaderParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misplaced => write!(f, "{ANNOTATION} where it means no argument"),
            Self::Name(name) => write!(f, "{ANNOTATION} {name} cannot be part of the name of a header"),
            Self::Repeated(name) => write!(f, "{ANNOTATION} {name:?} is there twice"),
            Self::Type(name) => {
                write!(f, "{ANNOTATION} {name:?} is on something that is no string, integer or boolean")
            }
            Self::Schema => f.write_str("the input schema is not an object"),
        }
    }
}

impl core::error::Error for InvalidHeaderParam {}

/// An argument has no form in a header: an integer beyond what every reader knows exactly, or not a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotMirrorable;

impl fmt::Display for NotMirrorable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an argument has no form in a header")
    }
}

impl core::error::Error for NotMirrorable {}

impl HeaderParam {
    /// Stands before the name of every header that repeats an argument.
    pub const PREFIX: &str = "Mcp-Param-";

    /// What the input schema of a tool asks for, in the order in which it stands there.
    ///
    /// # Errors
    /// If it asks for something that the specification does not allow. Such a tool is not offered over HTTP.
    pub fn of_schema(schema: &RawJson<'_>) -> Result<Vec<Self>, InvalidHeaderParam> {
        let mut walk = Walk { found: Vec::new(), names: BTreeSet::new() };
        let mut scanner = Scanner::new(schema.get(), MAX_DEPTH);
        if scanner.peek() != Some(b'{') {
            return Err(InvalidHeaderParam::Schema);
        }
        walk.schema(&mut scanner, 0, &Place::Path(Vec::new()))?;
        Ok(walk.found)
    }

    /// The name of the header.
    #[must_use]
    pub fn header(&self) -> String {
        [Self::PREFIX, &self.name].concat()
    }

    /// The value of the header for these arguments; `None` if there is nothing to say.
    ///
    /// # Errors
    /// If the argument has no form in a header.
    pub fn value(&self, arguments: Option<&RawJson<'_>>) -> Result<Option<String>, NotMirrorable> {
        let Some(argument) = self.argument(arguments) else { return Ok(None) };
        let text = match argument.get().as_bytes().first() {
            Some(b'"') => argument.decode::<String>().map_err(|_| NotMirrorable)?,
            Some(b't' | b'f') => argument.get().to_owned(),
            _ => integer(argument.get()).ok_or(NotMirrorable)?.to_string(),
        };
        Ok(Some(encode_header(&text).into_owned()))
    }

    /// Whether the headers of a request say the same of this argument as its body.
    ///
    /// # Errors
    /// What is wrong with the header otherwise.
    pub fn verify(&self, arguments: Option<&RawJson<'_>>, headers: &Mirrored) -> Result<(), HeaderMismatch> {
        let said = headers.param(&self.name);
        let header = Cow::Owned(self.header());
        let Some(argument) = self.argument(arguments) else {
            return match said {
                Said::Nothing => Ok(()),
                Said::Text(_) | Said::Junk => Err(HeaderMismatch { header, fault: HeaderFault::Unfounded }),
            };
        };
        said.agrees(header, |text| {
            let said = decode_header(text)?;
            Some(match (self.kind, argument.get().as_bytes().first()) {
                (_, Some(b'"')) => argument.decode::<String>().is_ok_and(|argument| said == argument),
                (Kind::Integer, Some(b'-' | b'0'..=b'9')) => {
                    let said = number(&said).and_then(integer);
                    said.is_some() && said == integer(argument.get())
                }
                _ => said == argument.get(),
            })
        })
    }

    /// The argument, unless it is absent or null.
    fn argument<'a>(&self, arguments: Option<&'a RawJson<'_>>) -> Option<RawJson<'a>> {
        let mut at = arguments?.get();
        for name in &self.path {
            at = member(at, name)?;
        }
        (at != "null").then(|| RawJson::trusted(at))
    }
}

/// The text of a member of an object.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut scanner = Scanner::new(object, MAX_DEPTH);
    if !scanner.eat(b'{') {
        return None;
    }
    let mut first = true;
    while let Some(found) = scanner.next_member(first).ok()? {
        first = false;
        let value = scanner.value(1).ok()?;
        if found.text() == name {
            return Some(value);
        }
    }
    None
}

/// The value of a JSON number that is a safe integer, however it is spelled.
fn integer(number: &str) -> Option<i64> {
    let value = RequestId::from_token(number)?.as_i64()?;
    (-MAX_INTEGER..=MAX_INTEGER).contains(&value).then_some(value)
}

/// The text, if it is a JSON number.
fn number(text: &str) -> Option<&str> {
    let mut scanner = Scanner::new(text, MAX_DEPTH);
    let is_number = text.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    (is_number && scanner.value(0).is_ok() && scanner.expect_end().is_ok()).then_some(text)
}

/// Where a schema stands.
enum Place {
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

struct Walk {
    found: Vec<HeaderParam>,
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
    fn schema(&mut self, scanner: &mut Scanner<'_>, outer: u32, place: &Place) -> Result<(), InvalidHeaderParam> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{collections::BTreeMap, format};

    fn of(schema: &str) -> Result<Vec<HeaderParam>, InvalidHeaderParam> {
        HeaderParam::of_schema(&RawJson::trusted(schema))
    }

    fn one(property: &str) -> Result<Vec<HeaderParam>, InvalidHeaderParam> {
        of(&format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#))
    }

    fn paths(schema: &str) -> Vec<(String, String)> {
        of(schema).expect("a good schema").into_iter().map(|param| (param.name, param.path.join("/"))).collect()
    }

    // req: M-HTTP-051 M-HTTP-052 M-HTTP-053 M-HTTP-055
    #[test]
    fn annotations_are_names_on_scalars() {
        let good = ["a", "Row", "Method", "!#$%&'*+-.^_`|~09azAZ"];
        for name in good {
            let found = one(&format!(r#"{{"type":"string","x-mcp-header":"{name}"}}"#)).expect("it is good");
            assert_eq!(found[0].header(), format!("Mcp-Param-{name}"));
        }
        for name in ["\"\"", "\"a b\"", "\"a:b\"", "\"ä\"", "\"a\\n\"", "\"a/b\"", "1", "null", "true", "[\"a\"]"] {
            let found = one(&format!(r#"{{"type":"string","x-mcp-header":{name}}}"#));
            assert_eq!(found, Err(InvalidHeaderParam::Name(name.to_owned())));
        }
        for good in [r#""string""#, r#""integer""#, r#""boolean""#, r#"["string","null"]"#, r#"["null","integer"]"#] {
            assert_eq!(one(&format!(r#"{{"x-mcp-header":"N","type":{good}}}"#)).map(|found| found.len()), Ok(1));
        }
        let bad = [
            r#""number""#,
            r#""null""#,
            r#""array""#,
            r#""object""#,
            r#"["string","integer"]"#,
            r#"["null"]"#,
            "[]",
            "1",
        ];
        for bad in bad {
            let found = one(&format!(r#"{{"x-mcp-header":"N","type":{bad}}}"#));
            assert_eq!(found, Err(InvalidHeaderParam::Type("N".to_owned())), "{bad}");
        }
        assert_eq!(one(r#"{"x-mcp-header":"N"}"#), Err(InvalidHeaderParam::Type("N".to_owned())));
        assert_eq!(of("true"), Err(InvalidHeaderParam::Schema));
    }

    // req: M-HTTP-054
    #[test]
    fn names_are_there_once_whatever_their_case() {
        let schema = |a: &str, b: &str| {
            format!(
                r#"{{"properties":{{"a":{{"type":"string","x-mcp-header":"{a}"}},
                "o":{{"properties":{{"b":{{"type":"integer","x-mcp-header":"{b}"}}}}}}}}}}"#
            )
        };
        assert_eq!(paths(&schema("A", "B")), [("A".to_owned(), "a".to_owned()), ("B".to_owned(), "o/b".to_owned())]);
        assert_eq!(of(&schema("Row", "rOW")), Err(InvalidHeaderParam::Repeated("rOW".to_owned())));
    }

    // req: M-HTTP-057 M-HTTP-058
    #[test]
    fn annotations_stand_where_an_argument_is_meant() {
        let annotated = r#"{"type":"string","x-mcp-header":"N"}"#;
        let misplaced = [
            annotated.to_owned(),
            format!(r#"{{"properties":{{"a":{{"items":{annotated}}}}}}}"#),
            format!(r#"{{"properties":{{"a":{{"items":[true,{annotated}]}}}}}}"#),
            format!(r#"{{"properties":{{"a":{{"prefixItems":[{annotated}]}}}}}}"#),
            format!(r#"{{"properties":{{"a":{{"contains":{annotated}}}}}}}"#),
            format!(r#"{{"additionalProperties":{annotated}}}"#),
            format!(r#"{{"patternProperties":{{"^a":{annotated}}}}}"#),
            format!(r#"{{"oneOf":[{{}}, {annotated} ]}}"#),
            format!(r#"{{"anyOf":[{{"properties":{{"a":{annotated}}}}}]}}"#),
            format!(r#"{{"allOf":[{{"properties":{{"a":{annotated}}}}}]}}"#),
            format!(r#"{{"not":{{"properties":{{"a":{annotated}}}}}}}"#),
            format!(r#"{{"if":{{"properties":{{"a":{annotated}}}}}}}"#),
            format!(r#"{{"then":{{"properties":{{"a":{annotated}}}}}}}"#),
            format!(r#"{{"else":{{"properties":{{"a":{annotated}}}}}}}"#),
            format!(r#"{{"dependentSchemas":{{"x":{{"properties":{{"a":{annotated}}}}}}}}}"#),
            format!(r##"{{"properties":{{"a":{{"$ref":"#/$defs/n"}}}},"$defs":{{"n":{annotated}}}}}"##),
            format!(r#"{{"$defs":{{"properties":{annotated}}}}}"#),
        ];
        for schema in misplaced {
            assert_eq!(of(&schema), Err(InvalidHeaderParam::Misplaced), "{schema}");
        }
        let no_annotation = [
            r#"{"properties":{"x-mcp-header":{"type":"number"}}}"#,
            r#"{"properties":{"a":{"const":{"x-mcp-header":"N"},"default":{"x-mcp-header":""}}}}"#,
            r#"{"properties":{"a":{"enum":[{"x-mcp-header":"N"}],"examples":[{"x-mcp-header":"N"}]}}}"#,
            r#"{"properties":{"a":{"required":["x-mcp-header"]}},"x-other":{"x-mcp-header":"N"}}"#,
            r#"{"properties":[],"$defs":1,"oneOf":[ ],"items":false,"not":[]}"#,
            "{}",
        ];
        for schema in no_annotation {
            assert_eq!(paths(schema), [], "{schema}");
        }
    }

    #[test]
    fn a_schema_is_read_as_deep_as_json_goes() {
        let nest = |depth: usize| {
            let inner = r#"{"type":"string","x-mcp-header":"N"}"#;
            format!("{}{inner}{}", r#"{"properties":{"a":"#.repeat(depth), "}}".repeat(depth))
        };
        assert_eq!(of(&nest(63)).map(|found| found[0].path.len()), Ok(63));
        assert_eq!(of(&nest(64)), Err(InvalidHeaderParam::Schema));
        let nest = |depth: usize| r#"{"allOf":["#.repeat(depth) + "{}" + &"]}".repeat(depth);
        assert_eq!(of(&nest(63)), Ok(Vec::new()));
        assert_eq!(of(&nest(64)), Err(InvalidHeaderParam::Schema));
        assert_eq!(of(&"[".repeat(1_000_000)), Err(InvalidHeaderParam::Schema));
    }

    // req: M-HTTP-056 M-HTTP-059 M-HTTP-060 M-HTTP-061 M-HTTP-064
    #[test]
    fn arguments_become_headers() {
        let schema = r#"{"properties":{"s":{"type":"string","x-mcp-header":"S"},"o":{"properties":{
            "i":{"type":"integer","x-mcp-header":"I"}}},"b":{"type":["boolean","null"],"x-mcp-header":"B"}}}"#;
        let params = of(schema).expect("a good schema");
        let value = |index: usize, arguments: &str| params[index].value(Some(&RawJson::trusted(arguments)));
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(value(0, r#"{"s":"café"}"#), some("=?base64?Y2Fmw6k=?="));
        assert_eq!(value(0, r#"{"s":""}"#), some(""));
        assert_eq!(value(0, r#"{"s":"a\u0062"}"#), some("ab"));
        assert_eq!(value(0, r#"{"o":{"s":"not here"},"s":null}"#), Ok(None));
        assert_eq!(value(0, r#"{"i":1}"#), Ok(None));
        assert_eq!(params[0].value(None), Ok(None));
        assert_eq!(value(1, r#"{"i":1,"o":{"i":-7}}"#), some("-7"));
        assert_eq!(value(1, r#"{"o":{"i":4.2e1}}"#), some("42"));
        assert_eq!(value(1, r#"{"o":[1]}"#), Ok(None));
        assert_eq!(value(1, r#"{"o":{"i":9007199254740991}}"#), some("9007199254740991"));
        assert_eq!(value(1, r#"{"o":{"i":-9007199254740991}}"#), some("-9007199254740991"));
        for bad in ["9007199254740992", "-9007199254740992", "1.5", "1e999999999", "{}", "[1]"] {
            assert_eq!(value(1, &format!(r#"{{"o":{{"i":{bad}}}}}"#)), Err(NotMirrorable), "{bad}");
        }
        assert_eq!(value(2, r#"{"b":false}"#), some("false"));
    }

    // req: M-HTTP-068 M-HTTP-071 M-HTTP-072 M-HTTP-073 M-HTTP-074 M-HTTP-075 M-HTTP-080
    #[test]
    fn headers_are_compared_with_arguments() {
        use HeaderFault::{Different, Malformed, Missing, Unfounded};
        let schema = r#"{"properties":{"s":{"type":"string","x-mcp-header":"S"},
            "i":{"type":"integer","x-mcp-header":"I"},"b":{"type":"boolean","x-mcp-header":"B"}}}"#;
        let params: BTreeMap<_, _> =
            of(schema).expect("a good schema").into_iter().map(|param| (param.name.clone(), param)).collect();
        let verify = |name: &str, arguments: &str, header: &[(&str, &str)]| {
            let said = |text: &&str| Said::from(Some(text.as_bytes()));
            let headers = header.iter().map(|(name, text)| ((*name).to_owned(), said(text))).collect();
            let headers = Mirrored { params: headers, ..Mirrored::default() };
            params[name].verify(Some(&RawJson::trusted(arguments)), &headers).err().map(|mismatch| mismatch.fault)
        };
        assert_eq!(verify("S", r#"{"s":"café"}"#, &[("s", "=?base64?Y2Fmw6k=?=")]), None);
        assert_eq!(verify("S", r#"{"s":"x"}"#, &[("S", " x ")]), None);
        assert_eq!(verify("S", r#"{"s":"x"}"#, &[("S", "=?base64?eA==?="), ("Other", "y")]), None);
        assert_eq!(verify("S", r#"{"s":""}"#, &[("S", "")]), None);
        assert_eq!(verify("S", r#"{"s":"x"}"#, &[("S", "X")]), Some(Different));
        assert_eq!(verify("S", r#"{"s":"x"}"#, &[]), Some(Missing));
        assert_eq!(verify("S", r#"{"s":"x"}"#, &[("I", "x")]), Some(Missing));
        assert_eq!(verify("S", r#"{"s":"x"}"#, &[("S", "x"), ("s", "x")]), Some(Malformed));
        assert_eq!(verify("S", r#"{"s":"x"}"#, &[("S", "=?base64?eA?=")]), Some(Malformed));
        assert_eq!(verify("S", r#"{"s":"\u0001"}"#, &[("S", "\u{1}")]), Some(Malformed));
        assert_eq!(verify("S", "{}", &[]), None);
        assert_eq!(verify("S", r#"{"s":null}"#, &[]), None);
        assert_eq!(verify("S", r#"{"s":null}"#, &[("S", "null")]), Some(Unfounded));
        assert_eq!(verify("S", "{}", &[("S", "")]), Some(Unfounded));
        for same in ["42", "42.0", "4.2e1", "=?base64?NDI=?="] {
            assert_eq!(verify("I", r#"{"i":42}"#, &[("I", same)]), None, "{same}");
            assert_eq!(verify("I", r#"{"i":42.0}"#, &[("I", same)]), None, "{same}");
        }
        for other in ["43", "042", "+42", "42x", "0x2a", "", "true", "42.5", "1e400", "9007199254740993"] {
            assert_eq!(verify("I", r#"{"i":42}"#, &[("I", other)]), Some(Different), "{other}");
        }
        assert_eq!(verify("I", r#"{"i":9007199254740993}"#, &[("I", "9007199254740993")]), Some(Different));
        assert_eq!(verify("B", r#"{"b":true}"#, &[("B", "true")]), None);
        assert_eq!(verify("B", r#"{"b":true}"#, &[("B", "True")]), Some(Different));
        assert_eq!(verify("B", r#"{"b":true}"#, &[("B", "1")]), Some(Different));
    }
}
