//! Typed params and results: a decoded value is encoded and decoded again without a change.

use std::fmt::Debug;

use mcp_proto::{
    protocol::{Method, ProtocolVersion},
    schema::{
        ArbitraryAt, At, CallToolParams, CallToolResult, ClientNotification, ClientRequest, ClientResult,
        CreateMessageParams, ElicitParams, Encode, ListToolsResult, ReadResourceResult, ServerNotification,
        ServerRequest, ServerResult,
    },
    wire::Json,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use arbitrary::Unstructured;

use crate::cost;

/// Each value that can be decoded is encoded without loss, and decoded again as the same value. That also holds for
/// every revision that has a form of the value.
///
/// Input: a method, a line feed, and the text of its params or of its result.
pub fn params(data: &[u8]) {
    let Some((method, text)) = core::str::from_utf8(data).ok().and_then(|data| data.split_once('\n')) else { return };
    let Some(method) = Method::parse(method) else { return };
    cost::assert_bounded(text.as_bytes(), |data| {
        let Ok(text) = core::str::from_utf8(data) else { return };
        let Ok(json) = Json::parse(text) else { return };
        drop(json.decode::<CallToolParams>());
        drop(json.decode::<CallToolResult>());
        drop(ClientRequest::decode(method, Some(text)));
        drop(ServerRequest::decode(method, Some(text)));
        drop(ClientNotification::decode(method, Some(text)));
        drop(ServerNotification::decode(method, Some(text)));
        drop(ClientResult::decode(method, text));
        drop(ServerResult::decode(method, text));
    });
    same::<CallToolParams>(text);
    same::<CallToolResult>(text);
    same::<CreateMessageParams>(text);
    same::<ElicitParams>(text);
    same::<ListToolsResult>(text);
    same::<ReadResourceResult>(text);
    decoded(text, ClientRequest::decode(method, Some(text)), |text| ClientRequest::decode(method, Some(text)));
    decoded(text, ServerRequest::decode(method, Some(text)), |text| ServerRequest::decode(method, Some(text)));
    decoded(text, ClientNotification::decode(method, Some(text)), |text| {
        ClientNotification::decode(method, Some(text))
    });
    decoded(text, ServerNotification::decode(method, Some(text)), |text| {
        ServerNotification::decode(method, Some(text))
    });
    decoded(text, ClientResult::decode(method, text), |text| ClientResult::decode(method, text));
    decoded(text, ServerResult::decode(method, text), |text| ServerResult::decode(method, text));
}

/// Decoding a member of a message gives the same value as decoding its text with `serde_json`.
fn same<T: DeserializeOwned + PartialEq + Debug>(text: &str) {
    let Ok(json) = Json::parse(text) else { return };
    assert_eq!(json.decode::<T>().ok(), serde_json::from_str(text).ok());
}

/// Values with only the members of a revision are encoded for it and decoded again without a change.
///
/// Input: bytes from which [`Unstructured`] generates a kind of message, a revision, and a value.
pub fn values(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(kind) = u.int_in_range(0..=5) else { return };
    let Ok(version) = u.choose(&ProtocolVersion::ALL).copied() else { return };
    match kind {
        0 => random(&mut u, version, ClientRequest::method, |method, text| ClientRequest::decode(method, Some(text))),
        1 => random(&mut u, version, ServerRequest::method, |method, text| ServerRequest::decode(method, Some(text))),
        2 => random(&mut u, version, ClientNotification::method, |method, text| {
            ClientNotification::decode(method, Some(text))
        }),
        3 => random(&mut u, version, ServerNotification::method, |method, text| {
            ServerNotification::decode(method, Some(text))
        }),
        4 => random(&mut u, version, ClientResult::method, ClientResult::decode),
        _ => random(&mut u, version, ServerResult::method, ServerResult::decode),
    }
}

type Decoded<T> = Result<T, serde_json::Error>;

fn random<T: ArbitraryAt + Encode + PartialEq + Debug>(
    u: &mut Unstructured<'_>,
    version: ProtocolVersion,
    method: impl Fn(&T) -> Method,
    decode: impl Fn(Method, &str) -> Decoded<T>,
) {
    let Ok(value) = T::arbitrary_at(u, Some(version)) else { return };
    let text = write(&value, Some(version)).unwrap_or_else(|error| panic!("{error} in {value:?}"));
    assert_eq!(read(&text, |text| decode(method(&value), text)), value, "{text}");
}

fn decoded<T: Encode + PartialEq + Debug>(text: &str, value: Decoded<T>, decode: impl Fn(&str) -> Decoded<T>) {
    let Ok(value) = value else { return };
    let whole = write(&value, None).unwrap_or_else(|error| panic!("{error} in {value:?}"));
    let again = read(&whole, &decode);
    if again != value {
        // A value with a name that is no text is written on one line: line breaks between tokens are spaces.
        assert_eq!(again, read(&text.replace(['\n', '\r'], " "), &decode), "{whole}");
    }
    // A value of `serde_json` cannot represent every text: see the target `message`.
    if let (Ok(read), Ok(written)) = (serde_json::from_str::<Value>(text), serde_json::from_str::<Value>(&whole)) {
        // Params that are `null` are none.
        assert!(read.is_null() || holds(&written, &read), "something of {text}\nis lost in {whole}");
    }
    for version in ProtocolVersion::ALL {
        let Ok(text) = write(&value, Some(version)) else { continue };
        // The remaining value has exactly one form in this revision.
        let left = read(&text, &decode);
        let again = write(&left, Some(version)).unwrap_or_else(|error| panic!("{version}: {error} in {text}"));
        assert_eq!(again, text, "{version}");
        assert_eq!(read(&again, &decode), left, "{version}");
    }
}

fn write<T: Encode>(value: &T, version: Option<ProtocolVersion>) -> Result<String, serde_json::Error> {
    let written = serde_json::to_string(&At(value, version));
    // The raw value encodes itself on one line, which differs from the input in whitespace between tokens only.
    match (&written, At(value, version).to_json()) {
        (Ok(written), Ok(line)) => assert_eq!(written.replace(['\n', '\r'], " "), line.get()),
        // A serializer cannot write such a name, and stops before a value that the revision does not allow.
        (Err(error), Err(_)) if error.to_string().contains("half of a surrogate pair") => {}
        (Err(error), Err(same)) => assert_eq!(error.to_string(), same.to_string()),
        // The name of a member is no text, which serializers need. It is written as received.
        (Err(error), Ok(line)) if error.to_string().contains("half of a surrogate pair") => {
            return Ok(line.get().to_owned());
        }
        (written, line) => panic!("{version:?}: {written:?} is not {line:?}"),
    }
    written
}

fn read<T>(text: &str, decode: impl Fn(&str) -> Decoded<T>) -> T {
    decode(text).unwrap_or_else(|error| panic!("what was written cannot be read: {error}\n{text}"))
}

/// Returns whether `whole` contains all members of `part`. `null` stands for an absent member.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part.iter().all(|(name, part)| match whole.get(name) {
            Some(whole) => holds(whole, part),
            None => part.is_null(),
        }),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| holds(whole, part))
        }
        (Value::Number(whole), Value::Number(part)) => whole == part || whole.as_f64() == part.as_f64(),
        (whole, part) => whole == part,
    }
}
