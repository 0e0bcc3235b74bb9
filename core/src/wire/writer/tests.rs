//! The judge is serde_json: the same text, or the same error, whatever the value.

use alloc::{
    boxed::Box,
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use core::fmt;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Number, Value, value::RawValue};

fn same<T: Serialize + ?Sized>(value: &T) {
    let mut out = b"before".to_vec();
    let written = super::write(&mut out, value).map(|()| String::from_utf8(out.split_off(6)).expect("text"));
    let expected = serde_json::to_string(value);
    assert_eq!(written.map_err(|error| error.to_string()), expected.map_err(|error| error.to_string()));
    assert_eq!(out[..6], *b"before");
}

#[derive(Serialize)]
struct Unit;

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct Wrapped<T>(T);

#[derive(Serialize)]
struct Pair(i8, &'static str);

#[derive(Serialize)]
struct Fields<'a> {
    #[serde(rename = "a \"name\"\n")]
    quoted: u8,
    left_out: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<()>,
    unit: Unit,
    empty: Empty,
    tuple: (u8, Wrapped<char>, [(); 0]),
    #[serde(flatten)]
    more: BTreeMap<&'a str, Option<bool>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
enum Variants<'a> {
    Unit,
    #[serde(rename = "new\ttype")]
    NewType(&'a str),
    Tuple(u8, u8),
    NoTuple(),
    Struct {
        a: bool,
        b: Option<u16>,
    },
    NoStruct {},
}

const VARIANTS: [Variants<'_>; 6] = [
    Variants::Unit,
    Variants::NewType("x\"y"),
    Variants::Tuple(1, 2),
    Variants::NoTuple(),
    Variants::Struct { a: true, b: None },
    Variants::NoStruct {},
];

/// Bytes, which derived types do not write as such.
struct Bytes(&'static [u8]);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// A value that is displayed in pieces.
struct Shown<'a>(&'a [&'a str]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| f.write_str(piece))
    }
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A map with one entry, whatever its key.
struct Keyed<K>(K);

impl<K: Serialize> Serialize for Keyed<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(&self.0, &1)?;
        map.serialize_key(&self.0)?;
        map.serialize_value(&[2])?;
        map.end()
    }
}

/// A value that cannot be serialized.
struct Unwilling;

impl Serialize for Unwilling {
    fn serialize<S: Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not at line 3"))
    }
}

/// Compares the encodings of a value alone, as an element, as a member, as a key, and in the other containers.
fn everywhere<T: Serialize>(value: &T) {
    same(value);
    same(&[value, value]);
    same(&Some(value));
    same(&Wrapped(value));
    same(&BTreeMap::from([("a", value), ("b", value)]));
    same(&Keyed(value));
    same(&Keyed(Some(value)));
    same(&Keyed(Wrapped(value)));
}

#[test]
fn writes_values_like_serde_json() {
    everywhere(&());
    everywhere(&None::<u8>);
    everywhere(&Unit);
    everywhere(&Empty {});
    everywhere(&Pair(-1, "/"));
    everywhere(&[true, false]);
    everywhere(&true);
    everywhere(&Vec::<u8>::new());
    everywhere(&BTreeMap::<u8, u8>::new());
    everywhere(&Bytes(b""));
    everywhere(&Bytes(b"\x00\xff"));
    everywhere(&Unwilling);
    everywhere(&Shown(&["a", "\"", "", "\n\u{1}b"]));
    everywhere(&Shown(&[]));
    VARIANTS.iter().for_each(everywhere);
    ['a', '"', '\u{1}', 'é', '\u{10ffff}'].iter().for_each(everywhere);
    everywhere(&Fields {
        quoted: 1,
        left_out: None,
        absent: None,
        unit: Unit,
        empty: Empty {},
        tuple: (7, Wrapped('\n'), []),
        more: BTreeMap::from([("x", Some(true)), ("\\", None)]),
    });
    same(&BTreeMap::from([(1_u64, -1_i64), (u64::MAX, i64::MIN)]));
    same(&BTreeMap::from([((1, 2), 3)]));
}

#[test]
fn writes_numbers_like_serde_json() {
    macro_rules! ends {
        ($($Type:ty),*) => {
            $([<$Type>::MIN, <$Type>::MAX, 0, 1, 9, 10, 99, 100].iter().for_each(everywhere);)*
        };
    }
    ends!(i8, i16, i32, i64, i128, u8, u16, u32, u64, u128);
    let floats =
        [0.0, -0.0, 1.0, 0.1, 1e16, 1e-7, 1.5e300, 5e-324, f64::MAX, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    floats.iter().for_each(everywhere);
    [0.1_f32, -0.0, 1.0, 16_777_216.0, 3.4e38, f32::MIN_POSITIVE, f32::NAN, f32::INFINITY].iter().for_each(everywhere);
    let mut state = 5u64;
    for _ in 0..20_000 {
        crate::test_rng::roll(&mut state);
        let bits = state ^ state >> 29;
        same(&f64::from_bits(bits));
        same(&f32::from_bits((bits >> 32) as u32));
        same(&(bits as i64 >> (bits & 63)));
        same(&(u128::from(bits) * u128::from(state)));
    }
}

#[test]
fn writes_raw_values_verbatim() {
    let raw = |text: &str| RawValue::from_string(text.to_string()).expect("JSON");
    for text in ["1.50", "{ \"a\" : [1, 2e3] }", "\"\\u0041\"", "null"] {
        same(&raw(text));
        same(&[&*raw(text), &raw(text)]);
        same(&BTreeMap::from([("a", raw(text))]));
        same(&Wrapped(Some(raw(text))));
    }
    same(&Keyed(raw("\"a\"")));
    everywhere(&Number::from(3));
    for digits in ["1.10", "1e5", "-0", "123456789012345678901234567890"] {
        same(&serde_json::from_str::<Number>(digits).expect("a number"));
    }
}

/// A random value, less deep than `depth`.
fn value(state: &mut u64, depth: u32) -> Value {
    let mut random = |below: u64| {
        crate::test_rng::roll(state);
        (*state >> 33) % below
    };
    let word = |random: &mut dyn FnMut(u64) -> u64| {
        let pieces =
            ["", "a", "some words ", "\"", "\\", "\n", "\u{7}", "é", "a much longer piece of text that is plain "];
        (0..random(6)).map(|_| pieces[random(9) as usize]).collect::<String>()
    };
    match random(if depth == 0 { 6 } else { 10 }) {
        0 => Value::Null,
        1 => Value::Bool(random(2) == 0),
        2 => Value::from(random(1 << 31)),
        3 => Value::from(-(random(1 << 31) as i64)),
        4 => Value::from(random(1 << 31) as f64 / 1e3),
        5 => Value::String(word(&mut random)),
        6 | 7 => {
            let length = random(5);
            Value::Array((0..length).map(|_| value(state, depth - 1)).collect())
        }
        _ => {
            let names: Vec<_> = (0..random(5)).map(|number| format!("{number}{}", word(&mut random))).collect();
            Value::Object(names.into_iter().map(|name| (name, value(state, depth - 1))).collect::<Map<_, _>>())
        }
    }
}

#[test]
fn writes_random_values_like_serde_json() {
    let mut state = 11;
    for _ in 0..5000 {
        same(&value(&mut state, 6));
    }
    same(&vec![Box::new(value(&mut state, 6)); 3]);
}
