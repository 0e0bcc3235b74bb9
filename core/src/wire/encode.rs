//! Encodes messages as bytes. Each function appends one message, or a part of one, without a line break.

use alloc::vec::Vec;

use serde_core::Serialize;

use super::{ErrorObject, RequestId, escape, writer};

pub(crate) use super::one_line::{line_break, raw};

/// The result of appending the text of params or of a result.
pub(crate) type Encoded = Result<(), serde_json::Error>;

/// Appends the params or the result of a message. A trait object, so that the code of senders exists once, and not once
/// for each type.
pub(crate) type Encoder<'a> = &'a dyn Fn(&mut Vec<u8>) -> Encoded;

/// Appends the JSON text of `value`.
pub(crate) fn value<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    writer::write(out, value)
}

/// Appends `{"jsonrpc":"2.0","id":…,"method":…` and leaves the object open.
pub(crate) fn open_request(out: &mut Vec<u8>, id: u64, method: &str) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    unsigned(out, id);
    out.extend_from_slice(b",\"method\":");
    text(out, method);
}

/// Appends `{"jsonrpc":"2.0","method":…` and leaves the object open.
pub(crate) fn open_notification(out: &mut Vec<u8>, method: &str) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
    text(out, method);
}

/// Appends `{"jsonrpc":"2.0","id":…,"result":` and leaves the object open.
pub(crate) fn open_response(out: &mut Vec<u8>, id: &RequestId) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"result\":");
}

/// The form of the missing id in an error response without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingId {
    /// Omits the member, as in the schema since 2025-11-25.
    Absent,
    /// Writes `"id":null`, as in JSON-RPC.
    Null,
}

/// Appends an error response.
pub(crate) fn error(out: &mut Vec<u8>, id: Result<&RequestId, MissingId>, error: &ErrorObject) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    match id {
        Ok(id) => {
            out.extend_from_slice(b",\"id\":");
            out.extend_from_slice(id.as_bytes());
        }
        Err(MissingId::Null) => out.extend_from_slice(b",\"id\":null"),
        Err(MissingId::Absent) => {}
    }
    out.extend_from_slice(b",\"error\":{\"code\":");
    number(out, error.code.0);
    out.extend_from_slice(b",\"message\":");
    text(out, &error.message);
    if let Some(data) = &error.data {
        out.extend_from_slice(b",\"data\":");
        raw(out, data.get());
    }
    out.extend_from_slice(b"}}");
}

/// Appends a JSON string.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    escape::string(out, text);
}

/// Appends a JSON integer that is not negative, such as the id of an outbound request.
pub(crate) fn unsigned(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a JSON integer.
pub(crate) fn number(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
