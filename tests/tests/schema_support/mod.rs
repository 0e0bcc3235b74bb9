//! Helpers for the tests of the schema.
#![allow(dead_code, reason = "each test uses a part")]

use std::{env, path::PathBuf};

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{At, Encode},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Returns the folder with the published `schema/` and `examples/`. It is not part of the repository: it is
/// `MCP_SPEC_DIR`, or lies next to the workspace.
pub(crate) fn published() -> Option<PathBuf> {
    let folder = match env::var_os("MCP_SPEC_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => mcp_tests::workspace::root().join("../shared/spec"),
    };
    folder.is_dir().then_some(folder)
}

/// Encodes `value` for `version`, and checks that serde and the value itself write the same text.
#[track_caller]
pub(crate) fn encode<T: Encode + ?Sized>(
    value: &T,
    version: impl Into<Option<ProtocolVersion>>,
) -> Result<String, String> {
    let version = version.into();
    let written = serde_json::to_string(&At(value, version)).map_err(|error| error.to_string());
    // A line has no line breaks between the tokens of embedded JSON.
    let line = written.clone().map(|text| text.replace(['\n', '\r'], " "));
    assert_eq!(At(value, version).to_json().map(|json| json.get().into()).map_err(|error| error.to_string()), line);
    written
}

/// Parses a JSON text.
#[track_caller]
pub(crate) fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Returns whether two values are equal, except for the order of members and the spelling of numbers.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || (a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64())),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Checks that two texts are equal JSON.
#[track_caller]
pub(crate) fn assert_same(written: &str, expected: &str) {
    assert!(same(&value(written), &value(expected)), "\nwritten:  {written}\nexpected: {expected}");
}

/// Checks the members of an object. The error of a missing `required` member names it, and it cannot be `null` or of
/// another type. All others can be absent. All of them are encoded unchanged.
#[track_caller]
pub(crate) fn shape<T: Encode + DeserializeOwned>(json: Value, required: &[&str]) {
    let name = std::any::type_name::<T>();
    let read = |json: &Value| serde_json::from_str::<T>(&json.to_string()).map_err(|error| error.to_string());
    let whole = read(&json).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_same(&encode(&whole, None).expect("text"), &json.to_string());
    let members = json.as_object().expect("an object");
    assert!(required.iter().all(|name| members.contains_key(*name)), "{name}: {required:?}");
    for member in members.keys() {
        let mut without = json.clone();
        without.as_object_mut().expect("an object").remove(member);
        let mut null = json.clone();
        null[member] = json!(null);
        let mut wrong = json.clone();
        wrong[member] = if members[member].is_array() { json!(7) } else { json!([7]) };
        if required.contains(&member.as_str()) {
            for odd in [&without, &null, &wrong] {
                let error = read(odd).err().unwrap_or_else(|| panic!("{name} is fine with {odd}"));
                assert!(error.contains(member.as_str()), "{name}: {error}");
            }
        } else {
            let less = read(&without).unwrap_or_else(|error| panic!("{name} without {member}: {error}"));
            assert_same(&encode(&less, None).expect("text"), &without.to_string());
        }
    }
}

/// Returns pseudo-random bytes.
pub(crate) fn noise(mut seed: u64, len: usize) -> Vec<u8> {
    // Xorshift with a multiplication (Vigna 2014). A seed of 0 would stay 0.
    seed = seed.wrapping_mul(2).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        seed ^= seed >> 12;
        seed ^= seed << 25;
        seed ^= seed >> 27;
        bytes.extend(seed.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    bytes
}
