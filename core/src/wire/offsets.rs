//! Positions of the parts of a request in its text, for code that reads the text twice.

use alloc::{borrow::Cow, string::String};
use core::ops::Range;

use super::{Message, RawJson, RequestId};
use crate::wire::member_index::{Index, place};

/// The parts of a request or of a notification as positions in its text, so that the text is parsed once.
#[derive(Clone, Debug)]
pub(crate) struct MessageOffsets {
    id: Option<RequestId>,
    method: Name,
    params: Option<Object>,
    meta: Option<Object>,
}

/// The position of an object in the text, and of its members in it.
#[derive(Clone, Debug)]
struct Object(Range<usize>, Index);

#[derive(Clone, Debug)]
enum Name {
    There(Range<usize>),
    /// A method that is spelled with escapes.
    Unescaped(String),
}

impl MessageOffsets {
    /// Returns the parts of `message` in `text`, or `None` for a response.
    pub(crate) fn of(text: &str, message: Message<'_>) -> Option<Self> {
        let place = |part: &str| place(part.as_bytes(), text.as_bytes());
        let (id, method, params, meta) = match message {
            Message::Request { id, method, params, meta } => (Some(id), method, params, meta),
            Message::Notification { method, params } => (None, method, params, None),
            Message::Response { .. } | Message::Error { .. } => return None,
        };
        let method = match method {
            Cow::Borrowed(method) => Name::There(place(method)?),
            Cow::Owned(method) => Name::Unescaped(method),
        };
        let object = |raw: Option<RawJson<'_>>| match raw {
            Some(raw) => Some(Some(Object(place(raw.get())?, raw.index()))),
            None => Some(None),
        };
        Some(Self { id, method, params: object(params)?, meta: object(meta)? })
    }

    /// Returns the message in `text`, which must be the text of the offsets. Returns `None` if the positions are not in
    /// it.
    pub(crate) fn message<'a>(&'a self, text: &'a str) -> Option<Message<'a>> {
        let method = match &self.method {
            Name::There(place) => Cow::Borrowed(text.get(place.clone())?),
            Name::Unescaped(method) => Cow::Borrowed(method.as_str()),
        };
        let object = |object: &Option<Object>| match object {
            Some(Object(place, index)) => Some(Some(RawJson::indexed(text.get(place.clone())?, *index))),
            None => Some(None),
        };
        let (params, meta) = (object(&self.params)?, object(&self.meta)?);
        Some(match self.id.clone() {
            Some(id) => Message::Request { id, method, params, meta },
            None => Message::Notification { method, params },
        })
    }

    pub(crate) const fn id(&self) -> Option<&RequestId> {
        self.id.as_ref()
    }

    /// Returns the method in `text`, which must be the text of the offsets.
    pub(crate) fn method<'a>(&'a self, text: &'a [u8]) -> Option<&'a str> {
        match &self.method {
            Name::There(place) => core::str::from_utf8(text.get(place.clone())?).ok(),
            Name::Unescaped(method) => Some(method),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn message_from_offsets_equals_the_parsed_one() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#" { "method" : "tools/call" , "id" : "gr\u00fcn" , "params" : { "a" : [ ] , "_meta" : { } } , "jsonrpc":"2.0" } "#,
            r#"{"jsonrpc":"2.0","id":1,"method":"t\u006fols/call","params":{"a":1,"b":2,"c":3,"d":4,"e":5}}"#,
            r#"{"jsonrpc":"2.0","id":-7,"method":"größer","params":{"_meta":{"x":"大"},"name":"é"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"a","params":null}"#,
        ] {
            let read = || Message::parse(text, 99).expect("a message");
            let offsets = MessageOffsets::of(text, read()).expect("a request or a notification");
            let made = offsets.message(text).expect("its own text");
            assert_eq!(format!("{made:?}"), format!("{:?}", read()));
            let (Message::Request { method, .. } | Message::Notification { method, .. }) = read() else { panic!() };
            assert_eq!(offsets.method(text.as_bytes()), Some(&*method));
            assert!(
                offsets.message("").is_none() || offsets.method(b"").is_some(),
                "another text is no reason to fail"
            );
        }
        let response = Message::parse(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, 99).expect("a message");
        assert!(MessageOffsets::of("", response).is_none());
    }
}
