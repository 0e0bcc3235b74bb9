//! A digest of the params of a request, which identifies its repetition.

use std::{borrow::Cow, fmt};

use hmac_sha256::Hash;
use mcp_proto::wire::{OwnedRawJson, RawJson};
use serde_core::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::Number;

/// Members of params that differ between a request and its repetition.
const OF_THIS_ROUND: [&str; 3] = ["_meta", "inputResponses", "requestState"];

/// The params of a request. Their digest is computed only for requests with rounds of input, which are rare.
#[derive(Debug)]
pub(super) struct Params(Option<OwnedRawJson>);

impl Params {
    pub(super) fn of(params: Option<&RawJson<'_>>) -> Self {
        Self(params.cloned().map(OwnedRawJson::from))
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        digest(self.0.as_ref().map(OwnedRawJson::get).as_ref())
    }
}

/// Computes the digest of the members that a request and its repetition have in common. The order of members and the
/// notation of texts and numbers make no difference.
///
/// Each value is read once at any depth, and only texts with escapes are copied. So the time grows
/// with the size of the params, and the memory with the number of members and elements on the way to one value.
fn digest(params: Option<&RawJson<'_>>) -> [u8; 32] {
    let mut members = Vec::new();
    for (name, value) in params.iter().flat_map(|params| params.members()) {
        if !OF_THIS_ROUND.contains(&&*name) {
            members.push((name, Node::of(&value)));
        }
    }
    let mut digest = Hash::new();
    add_members(&mut digest, members);
    digest.finalize()
}

/// Computes the digest of a value, without an exception. It does not depend on the order of members and the notation of
/// texts and numbers.
pub(crate) fn value_digest(value: &RawJson<'_>) -> [u8; 32] {
    let mut digest = Hash::new();
    Node::of(value).add_to(&mut digest);
    digest.finalize()
}

/// A value as a part of its parent: a scalar itself, or the digest of the parts of an array or an object.
enum Node<'a> {
    Text(Cow<'a, str>),
    Null,
    Bool(bool),
    Number(Number),
    Empty(u8),
    Parts(u8, [u8; 32]),
}

/// The first byte of a part. No part is a prefix of another one.
const ARRAY: u8 = b'[';
const OBJECT: u8 = b'{';
const TEXT: u8 = b'"';
const OTHER: u8 = b'=';
const UNREADABLE: u8 = b'?';
const END_OF_ARRAY: u8 = b']';
const END_OF_OBJECT: u8 = b'}';

impl Node<'_> {
    /// Creates the node of a value. A value that cannot be decoded, such as a number that is too large, is compared by
    /// its text.
    fn of(value: &RawJson<'_>) -> Node<'static> {
        match value.decode::<Node<'_>>() {
            Ok(Node::Text(text)) => Node::Text(Cow::Owned(text.into_owned())),
            Ok(Node::Null) => Node::Null,
            Ok(Node::Bool(is)) => Node::Bool(is),
            Ok(Node::Number(number)) => Node::Number(number),
            Ok(Node::Empty(end)) => Node::Empty(end),
            Ok(Node::Parts(kind, digest)) => Node::Parts(kind, digest),
            Err(_) => {
                count(value.get().len());
                Node::Parts(UNREADABLE, Hash::hash(value.get().as_bytes()))
            }
        }
    }

    fn add_to(&self, digest: &mut Hash) {
        match self {
            Self::Text(text) => add_text(digest, TEXT, text),
            Self::Null => add_text(digest, OTHER, "null"),
            Self::Bool(is) => add_text(digest, OTHER, if *is { "true" } else { "false" }),
            Self::Number(number) => add_text(digest, OTHER, &number.to_string()),
            Self::Empty(end) => digest.update([*end]),
            Self::Parts(kind, parts) => {
                count(parts.len());
                digest.update([*kind]);
                digest.update(parts);
            }
        }
    }
}

#[cfg(test)]
std::thread_local! {
    /// The work of digests on this thread: values read, names compared, and bytes hashed.
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts work, for the tests.
#[inline]
fn count(_steps: usize) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + _steps);
}

/// Adds a text with its length, which separates it from the following text.
fn add_text(digest: &mut Hash, kind: u8, text: &str) {
    let mut head = [kind; 9];
    head[1..].copy_from_slice(&(text.len() as u64).to_be_bytes());
    count(head.len() + text.len());
    digest.update(head);
    digest.update(text.as_bytes());
}

fn add_members(digest: &mut Hash, mut members: Vec<(Cow<'_, str>, Node<'_>)>) {
    // It is stable: of several members of one name the last stays the last, which is the one that counts.
    members.sort_by(|(one, _), (other, _)| {
        count(1);
        one.cmp(other)
    });
    let mut members = members.iter().peekable();
    while let Some((name, value)) = members.next() {
        if members.peek().is_none_or(|(next, _)| next != name) {
            add_text(digest, TEXT, name);
            value.add_to(digest);
        }
    }
}

/// The name of a member, borrowed where that is possible.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Node::deserialize(deserializer)? {
            Node::Text(name) => Ok(Self(name)),
            _ => Err(D::Error::custom("a name is a text")),
        }
    }
}

impl<'de> Deserialize<'de> for Node<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        count(1);
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Self::Value, E> {
        Ok(Node::Bool(is))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Node::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Node::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Number::from_f64(number).map(Node::Number).ok_or_else(|| E::custom("not a JSON number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Node::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Node::Text(Cow::Borrowed(text)))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Node::Text(Cow::Owned(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let Some(first) = items.next_element::<Node<'de>>()? else { return Ok(Node::Empty(END_OF_ARRAY)) };
        let mut digest = Hash::new();
        first.add_to(&mut digest);
        while let Some(item) = items.next_element::<Node<'de>>()? {
            item.add_to(&mut digest);
        }
        Ok(Node::Parts(ARRAY, digest.finalize()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((Name(name), value)) = map.next_entry()? {
            members.push((name, value));
        }
        if members.is_empty() {
            return Ok(Node::Empty(END_OF_OBJECT));
        }
        let mut digest = Hash::new();
        add_members(&mut digest, members);
        Ok(Node::Parts(OBJECT, digest.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::wire::Json;
    use serde_json::{Value, json};

    fn of(params: &Value) -> [u8; 32] {
        digest(Some(&RawJson::from(&Json::new(params).expect("JSON"))))
    }

    #[test]
    fn digest_depends_on_values_not_text() {
        let digest = |text| digest(Some(&RawJson::from(&Json::parse(text).expect("JSON"))));
        let same = r#"{"a":[1.5,100.0,1,-2,true,false,null,"\u00e9\n",{}],"b":{"c":"2","d":[]}}"#;
        let other =
            r#" {"b": {"c":1,"d":[ ] , "c":"2"}, "\u0061":[15e-1,1e2,1,-2,true,false,null,"\u00e9\u000a",{ }]} "#;
        assert_eq!(digest(same), digest(other));
        // Made by other means: it never changes, since processes of several versions may share a key.
        assert_eq!(digest(same)[..8], [164, 54, 191, 90, 3, 117, 166, 142]);
        let different = [
            r#"{"a":1}"#,
            r#"{"a":1.0}"#,
            r#"{"a":"1"}"#,
            r#"{"a":[1]}"#,
            r#"{"a":[[1]]}"#,
            r#"{"a":[1,1]}"#,
            r#"{"a":[]}"#,
            r#"{"a":{}}"#,
            r#"{"a":[[]]}"#,
            r#"{"a":[{}]}"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":[{"b":1}]}"#,
            r#"{"a":{"b":{}},"c":{}}"#,
            r#"{"a":{"b":{},"c":{}}}"#,
            r#"{"a":null}"#,
            r#"{"a":"null"}"#,
            r#"{"a":["b","c"]}"#,
            r#"{"a":["bc"]}"#,
            r#"{"b":1}"#,
            "{}",
            // What cannot be read is not all alike.
            r#"{"a":[1e999]}"#,
            r#"{"a":[1e998]}"#,
            r#"{"a":["\ud800"]}"#,
        ];
        for (at, one) in different.iter().enumerate() {
            assert_eq!(digest(one), digest(one));
            for other in &different[at + 1..] {
                assert_ne!(digest(one), digest(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn digest_ignores_meta_and_input_state() {
        let params = json!({"name": "t", "arguments": {"a": [1, "2", null], "b": {}}});
        let mut again = params.clone();
        again["_meta"] = json!({"x": 1});
        again["inputResponses"] = json!({});
        again["requestState"] = json!("s");
        assert_eq!(of(&params), of(&again));
        let swapped = Json::parse(r#"{"arguments":{"b":{},"a":[1,"2",null]},"name":"t"}"#).expect("JSON");
        assert_eq!(digest(Some(&RawJson::from(&swapped))), of(&params));
        for other in [
            json!({"name": "t", "arguments": {"a": [1, 2, null], "b": {}}}),
            json!({"name": "t", "arguments": {"a": [[1], "2", null], "b": {}}}),
            json!({"name": "t", "arguments": {"a": [1, "2", null]}}),
            json!({"name": "t"}),
            json!({}),
        ] {
            assert_ne!(of(&other), of(&params), "{other}");
        }
    }

    /// Params of about this many bytes that cost as much as can be.
    fn worst(size: usize) -> [(&'static str, String); 7] {
        let members = |names: &mut dyn Iterator<Item = usize>| {
            let members: Vec<_> = names.map(|n| format!("\"{n:08}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        let nested = |open: &str, close: &str| {
            let text = "x".repeat(size);
            format!("{{\"a\":{}\"{text}\"{}}}", open.repeat(120), close.repeat(120))
        };
        let count = size / 13;
        let inside = |members: String| format!("{{\"a\":{members}}}");
        [
            ("members in descending order", members(&mut (0..count).rev())),
            ("members in ascending order", members(&mut (0..count))),
            ("members of a member", inside(members(&mut (0..count).rev()))),
            ("members of one name", members(&mut (0..count).map(|_| 7))),
            ("nested arrays", nested("[", "]")),
            ("nested objects", nested(r#"{"a":"#, "}")),
            ("empty arrays", format!("{{\"a\":[{}[]]}}", "[],".repeat(size / 3))),
        ]
    }

    /// The steps that a digest takes, and the bytes that it allocates.
    fn work(text: &str) -> (usize, u64) {
        let params = RawJson::from(&Json::parse(text).expect("JSON")).into_owned();
        STEPS.set(0);
        let used = allocation_counter::measure(|| {
            std::hint::black_box(digest(Some(&params)));
        });
        (STEPS.get(), used.bytes_total)
    }

    #[test]
    fn digest_work_grows_linearly_with_size() {
        const TIMES: usize = 64;
        for ((what, small), (_, large)) in worst(12_500).into_iter().zip(worst(12_500 * TIMES)) {
            let ((small, small_bytes), (large, large_bytes)) = (work(&small), work(&large));
            // Members are sorted: `n log n` comparisons.
            assert!(
                small > 0 && large < 2 * TIMES * small,
                "{what}: {small} steps, and {large} for {TIMES} times the size"
            );
            let most = 2 * TIMES as u64 * small_bytes.max(4096);
            assert!(large_bytes < most, "{what}: {small_bytes} bytes, and {large_bytes} for {TIMES} times the size");
        }
    }

    #[test]
    fn digest_memory_is_independent_of_depth() {
        for (what, text) in worst(100_000) {
            let params = RawJson::from(&Json::parse(&text).expect("JSON")).into_owned();
            let used = allocation_counter::measure(|| {
                std::hint::black_box(digest(Some(&params)));
            });
            assert!(used.bytes_max < 12 * text.len() as u64, "{what}: {} of {}", used.bytes_max, text.len());
        }
    }
}
