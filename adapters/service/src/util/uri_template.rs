//! URI templates (RFC 6570, levels 1 to 3): expansion and matching.

use std::fmt;

use mcp_proto::schema::Map;

use super::uri::{MAX_URI, is_unreserved};

/// Variables in one template.
const MAX_VARIABLES: usize = 64;

/// A template of URIs, such as `file:///{+path}` or `weather://{city}{?day,unit}`.
///
/// It supports RFC 6570 up to level 3: `{a}`, `{a,b}`, and the operators `+ # . / ; ? &`. Level 4, lists and prefixes,
/// cannot be matched and is refused, as are expressions without a separator, such as `{a}{b}`.
///
/// Matching takes time in proportion to the URI, never backtracks, and follows simple rules. A variable reaches up to
/// the first place where the next part of the template could begin, or up to the last text of the template at the end
/// of the URI. Query variables may be in any order. Absent variables are omitted; a present one has at least one
/// character, except in queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriTemplate {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Expression { operator: &'static Operator, names: Vec<String> },
}

impl Part {
    fn names(&self) -> &[String] {
        match self {
            Self::Expression { names, .. } => names,
            Self::Text(_) => &[],
        }
    }
}

/// The notation of the variables of an expression, see RFC 6570, appendix A.
#[derive(Debug, PartialEq, Eq)]
struct Operator {
    sign: &'static str,
    first: &'static str,
    separator: char,
    /// Variables are written with their names.
    named: bool,
    /// The text after the name of an empty variable.
    if_empty: &'static str,
    /// Reserved characters are written as they are.
    reserved: bool,
}

const OPERATORS: [Operator; 8] = {
    const fn operator(sign: &'static str, first: &'static str, separator: char) -> Operator {
        Operator { sign, first, separator, named: false, if_empty: "", reserved: false }
    }
    [
        Operator { reserved: true, ..operator("+", "", ',') },
        Operator { reserved: true, ..operator("#", "#", ',') },
        operator(".", ".", '.'),
        operator("/", "/", '/'),
        Operator { named: true, ..operator(";", ";", ';') },
        Operator { named: true, if_empty: "=", ..operator("?", "?", '&') },
        Operator { named: true, if_empty: "=", ..operator("&", "&", '&') },
        // The one without a sign is the last: every text begins with the empty string.
        operator("", "", ','),
    ]
};

/// The error of a text that is no template, or one that cannot be matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTemplate(String);

impl fmt::Display for InvalidTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidTemplate {}

impl UriTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// If the text is no template, or cannot be matched.
    pub fn parse(template: &str) -> Result<Self, InvalidTemplate> {
        let invalid = |why: String| Err(InvalidTemplate(why));
        if template.is_empty() || template.len() > MAX_URI {
            return invalid(format!("it has to have 1 to {MAX_URI} bytes"));
        }
        let (mut parts, mut rest) = (Vec::new(), template);
        while !rest.is_empty() {
            let (text, behind) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
            if let Some(bad) = text.bytes().find(|byte| !is_literal(*byte)) {
                return invalid(format!("{:?} is not allowed in a URI", char::from(bad)));
            }
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            }
            rest = behind;
            if let Some(behind) = rest.strip_prefix('{') {
                let Some((expression, behind)) = behind.split_once('}') else {
                    return invalid("a brace is not closed".into());
                };
                let part = parse_expression(expression)?;
                if let (Some(Part::Expression { .. }), Part::Expression { operator, .. }) = (parts.last(), &part)
                    && operator.first.is_empty()
                {
                    return invalid(format!("{{{expression}}} cannot be separated from the expression before it"));
                }
                parts.push(part);
                rest = behind;
            }
        }
        let this = Self { parts };
        let mut names: Vec<_> = this.variables().collect();
        if names.len() > MAX_VARIABLES {
            return invalid(format!("it has more than {MAX_VARIABLES} variables"));
        }
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => invalid(format!("the variable {:?} occurs twice", pair[0])),
            None => Ok(this),
        }
    }

    /// Returns the names of the variables, from left to right.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(Part::names).map(String::as_str)
    }

    /// Returns the URI for these values. Variables without a value are omitted.
    #[must_use]
    pub fn expand(&self, values: &Map<String>) -> String {
        let mut uri = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => uri.push_str(text),
                Part::Expression { operator, names } => {
                    let mut is_first = true;
                    for (name, value) in names.iter().filter_map(|name| Some((name, values.get(name)?))) {
                        if is_first {
                            uri.push_str(operator.first);
                        } else {
                            uri.push(operator.separator);
                        }
                        is_first = false;
                        if operator.named {
                            uri.push_str(name);
                            uri.push_str(if value.is_empty() { operator.if_empty } else { "=" });
                        }
                        encode(&mut uri, value, operator.reserved);
                    }
                }
            }
        }
        uri
    }

    /// Returns the values of the variables, without escapes, if the URI matches this template, and `None` otherwise or
    /// for a URI of more than 8 KiB.
    #[must_use]
    pub fn matches(&self, uri: &str) -> Option<Map<String>> {
        if uri.len() > MAX_URI {
            return None;
        }
        let (mut values, mut rest) = (Map::new(), uri);
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                Part::Text(text) => rest = rest.strip_prefix(text.as_str())?,
                Part::Expression { operator, names } => {
                    let (filled, behind) = rest.split_at(self.extent(at + 1, rest)?);
                    operator.read(names, filled, &mut values)?;
                    rest = behind;
                }
            }
        }
        rest.is_empty().then_some(values)
    }

    /// Returns how many bytes of `rest` the expression before the part `next` takes.
    fn extent(&self, next: usize, rest: &str) -> Option<usize> {
        match self.parts.get(next) {
            None => Some(rest.len()),
            Some(Part::Text(text)) if next + 1 == self.parts.len() => {
                rest.ends_with(text.as_str()).then(|| rest.len() - text.len())
            }
            Some(Part::Text(text)) => rest.find(text.as_str()),
            // An expression without any value is absent.
            Some(Part::Expression { operator, .. }) => Some(rest.find(operator.first).unwrap_or(rest.len())),
        }
    }
}

fn parse_expression(expression: &str) -> Result<Part, InvalidTemplate> {
    // The last one fits always.
    let operator = OPERATORS.iter().find(|operator| expression.starts_with(operator.sign)).unwrap_or(&OPERATORS[7]);
    let names: Vec<_> = expression[operator.sign.len()..].split(',').map(str::to_owned).collect();
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(InvalidTemplate(format!("{name:?} in {{{expression}}} is not a variable name"))),
        None => Ok(Part::Expression { operator, names }),
    }
}

impl Operator {
    /// Parses the variables of an expanded expression; `None` if it does not match.
    fn read(&self, names: &[String], filled: &str, values: &mut Map<String>) -> Option<()> {
        if filled.is_empty() {
            // Only an expression with an operator that begins with a character can be omitted.
            return (!self.first.is_empty()).then_some(());
        }
        let filled = filled.strip_prefix(self.first)?;
        if self.named {
            for pair in filled.split(self.separator) {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                if !names.iter().any(|known| known == name) || values.get(name).is_some() {
                    return None;
                }
                values.insert(name, decode(value, self.reserved)?);
            }
        } else {
            for (name, value) in names.iter().zip(filled.splitn(names.len(), self.separator)) {
                if value.is_empty() {
                    return None;
                }
                values.insert(name.as_str(), decode(value, self.reserved)?);
            }
        }
        Some(())
    }
}

/// Returns whether a text is the name of a variable: letters, digits and `_`, with dots in between.
fn is_name(name: &str) -> bool {
    name.split('.')
        .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

fn is_reserved(byte: u8) -> bool {
    b":/?#[]@!$&'()*+,;=".contains(&byte)
}

fn is_literal(byte: u8) -> bool {
    is_unreserved(byte) || is_reserved(byte) || byte == b'%'
}

fn encode(uri: &mut String, value: &str, reserved: bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in value.bytes() {
        if is_unreserved(byte) || (reserved && is_reserved(byte)) {
            uri.push(char::from(byte));
        } else {
            uri.push('%');
            uri.push(char::from(HEX[usize::from(byte >> 4)]));
            uri.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Resolves the escapes of a value; `None` if it has characters that must be escaped, or is not UTF-8.
fn decode(value: &str, reserved: bool) -> Option<String> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let mut decoded = Vec::with_capacity(value.len());
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => u8::try_from(digit(bytes.next())? * 16 + digit(bytes.next())?).ok()?,
            byte if is_unreserved(byte) || (reserved && is_reserved(byte)) => byte,
            _ => return None,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn template(text: &str) -> UriTemplate {
        UriTemplate::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    fn map(values: &[(&str, &str)]) -> Map<String> {
        values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    }

    // The examples of RFC 6570, sections 3.2.2 to 3.2.9, up to level 3.
    // req: RES-012
    #[test]
    fn expands_templates_as_in_rfc_6570() {
        let values = map(&[
            ("var", "value"),
            ("hello", "Hello World!"),
            ("half", "50%"),
            ("empty", ""),
            ("path", "/foo/bar"),
            ("x", "1024"),
            ("y", "768"),
            ("base", "http://example.com/home/"),
            ("v", "6"),
            ("who", "fred"),
        ]);
        for (text, uri) in [
            ("{var}", "value"),
            ("{hello}", "Hello%20World%21"),
            ("{half}", "50%25"),
            ("O{empty}X", "OX"),
            ("O{undef}X", "OX"),
            ("{x,y}", "1024,768"),
            ("{x,hello,y}", "1024,Hello%20World%21,768"),
            ("?{x,empty}", "?1024,"),
            ("?{x,undef}", "?1024"),
            ("{+hello}", "Hello%20World!"),
            ("{+half}", "50%25"),
            ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
            ("{+base}index", "http://example.com/home/index"),
            ("{+path}/here", "/foo/bar/here"),
            ("{+x,hello,y}", "1024,Hello%20World!,768"),
            ("{#var}", "#value"),
            ("{#hello}", "#Hello%20World!"),
            ("foo{#empty}", "foo#"),
            ("foo{#undef}", "foo"),
            ("{#path,x}", "#/foo/bar,1024"),
            ("{.who}", ".fred"),
            ("X{.x,y}", "X.1024.768"),
            ("X{.empty}", "X."),
            ("X{.undef}", "X"),
            ("{/who}", "/fred"),
            ("{/half,who}", "/50%25/fred"),
            ("{/var,empty}", "/value/"),
            ("{/var,x}/here", "/value/1024/here"),
            ("{;who}", ";who=fred"),
            ("{;empty}", ";empty"),
            ("{;v,empty,who}", ";v=6;empty;who=fred"),
            ("{;x,y,undef}", ";x=1024;y=768"),
            ("{?who}", "?who=fred"),
            ("{?x,y,empty}", "?x=1024&y=768&empty="),
            ("{?x,y,undef}", "?x=1024&y=768"),
            ("{&who}", "&who=fred"),
            ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
            ("{&var,empty}", "&var=value&empty="),
        ] {
            assert_eq!(template(text).expand(&values), uri, "{text}");
        }
    }

    #[test]
    fn matches_uris_against_templates() {
        for (text, uri, values) in [
            ("test://template/{id}/data", "test://template/123/data", Some(&[("id", "123")][..])),
            ("test://template/{id}/data", "test://template/a%2Fb%20%C3%A4/data", Some(&[("id", "a/b ä")])),
            ("test://template/{id}/data", "test://template//data", None),
            ("test://template/{id}/data", "test://template/1/2/data", None),
            ("test://template/{id}/data", "test://template/1/data/", None),
            ("test://template/{id}/data", "test://template/%zz/data", None),
            ("test://template/{id}/data", "test://template/%ff/data", None),
            ("test://template/{id}/data", "test://template/%2/data", None),
            ("file:///{+path}", "file:///a/b/../c", Some(&[("path", "a/b/../c")])),
            ("a://{name}.json", "a://x.json.json", Some(&[("name", "x.json")])),
            ("a://{x,y}/z", "a://1,2/z", Some(&[("x", "1"), ("y", "2")])),
            ("a://{x,y}/z", "a://1/z", Some(&[("x", "1")])),
            ("a://{x}{/y}{?q,r}", "a://1", Some(&[("x", "1")])),
            ("a://{x}{/y}{?q,r}", "a://1/2?r=&q=3", Some(&[("x", "1"), ("y", "2"), ("r", ""), ("q", "3")])),
            ("a://{x}{?q,r}", "a://1?q=1&q=2", None),
            ("a://{x}{?q,r}", "a://1?other=2", None),
            ("a://{x}{#f}", "a://1#a/b", Some(&[("x", "1"), ("f", "a/b")])),
            ("a://b{.x,y}", "a://b.1.2", Some(&[("x", "1"), ("y", "2")])),
            ("a://b{;x,y}", "a://b;y=2;x", Some(&[("y", "2"), ("x", "")])),
        ] {
            assert_eq!(template(text).matches(uri), values.map(map), "{text} {uri}");
        }
    }

    #[test]
    fn rejects_unsupported_templates() {
        for text in [
            "", "{", "a}", "{}", "{a", "{a}{b}", "{a}{+b}", "{a*}", "{a:3}", "{=a}", "{a b}", "{.}", "{a..b}",
            "{a}/{a}", "{a,a}", "a b", "ä", "<a>", "{a}\n", "{\u{e4}}", "{|a}",
        ] {
            assert!(UriTemplate::parse(text).is_err(), "{text:?}");
        }
        assert!(UriTemplate::parse(&"a".repeat(MAX_URI + 1)).is_err());
        let many: String = (0..=MAX_VARIABLES).map(|i| format!("/{{v{i}}}")).collect();
        assert!(UriTemplate::parse(&many).is_err());
    }

    /// A small generator of numbers that look random.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % sides as u64).unwrap_or(0)
        }
    }

    #[test]
    fn expanded_templates_match_their_values() {
        let letters: Vec<char> = "abcXYZ019-._~%/?#[]@!$&'()*+,;=:{} \"<>\\^`|\n\0äß€😀".chars().collect();
        // In these templates every value ends at something that it cannot contain.
        let templates = [
            "a://{x}/{y}",
            "a://h/{x},{y}/z",
            "a://{x,y}/",
            "a://h{/x,y}",
            "a://h{?x,y}",
            "a://{x}{?y}",
            "a://h{;x,y}",
            "a://h/{x}{#y}",
            "a://h/{+x}",
            "a://h/{y}/{+x}",
            "a://{x}{/y}",
            "a://?q={x}{&y}",
        ]
        .map(template);
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        for round in 0..20_000 {
            let mut value = || (0..=dice.roll(6)).map(|_| letters[dice.roll(letters.len())]).collect::<String>();
            let values = map(&[("x", &value()), ("y", &value())]);
            let template = &templates[round % templates.len()];
            let uri = template.expand(&values);
            let names: Vec<_> = template.variables().collect();
            let expected: Map<String> = values.into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect();
            let found = template.matches(&uri).unwrap_or_else(|| panic!("{template:?} {uri}"));
            assert_eq!(found.len(), expected.len(), "{uri}");
            for (name, value) in &expected {
                assert_eq!(found.get(name), Some(value), "{template:?} {uri}");
            }
        }
    }

    #[test]
    fn template_matching_time_is_bounded() {
        let many: String = (1..MAX_VARIABLES).map(|i| format!("{{/v{i}}}")).collect();
        let template = template(&format!("a:{many}a{{+rest}}aab"));
        for uri in [
            "a".repeat(MAX_URI),
            format!("a:{}", "/a".repeat(4000)),
            format!("a:{}", "a/".repeat(4000)),
            "a:".repeat(4000),
        ] {
            let start = Instant::now();
            for _ in 0..10 {
                assert_eq!(template.matches(&uri), None);
            }
            assert!(start.elapsed() < Duration::from_secs(1));
        }
        assert_eq!(template.matches(&"a".repeat(MAX_URI + 1)), None);
    }

    #[test]
    fn errors_of_templates_say_why() {
        let long = "it has to have 1 to 8192 bytes";
        for (text, why) in [
            ("", long),
            (&*"a".repeat(8193), long),
            ("a b", "' ' is not allowed in a URI"),
            ("{a", "a brace is not closed"),
            ("{a}{+b}", "{+b} cannot be separated from the expression before it"),
            ("{a}{b}", "{b} cannot be separated from the expression before it"),
            ("{a..b}", "\"a..b\" in {a..b} is not a variable name"),
            ("{?a,b:3}", "\"b:3\" in {?a,b:3} is not a variable name"),
            ("{a}/{b}/{a}", "the variable \"a\" occurs twice"),
        ] {
            assert_eq!(UriTemplate::parse(text).expect_err("it is refused").to_string(), why);
        }
        let with = |count: usize| (0..count).map(|at| format!("/{{v{at}}}")).collect::<String>();
        assert_eq!(UriTemplate::parse(&with(64)).expect("as many as allowed").variables().count(), 64);
        let why = UriTemplate::parse(&with(65)).expect_err("one too many").to_string();
        assert_eq!(why, "it has more than 64 variables");
    }

    #[test]
    fn the_longest_uri_and_template_have_8192_bytes() {
        assert!(UriTemplate::parse(&"a".repeat(8192)).is_ok());
        let template = UriTemplate::parse("a:{b}").expect("a template");
        let uri = |length: usize| format!("a:{}", "b".repeat(length - 2));
        let values = template.matches(&uri(8192)).expect("it matches");
        assert_eq!(values.get("b").map(String::len), Some(8190));
        assert_eq!(template.matches(&uri(8193)), None);
    }
}
