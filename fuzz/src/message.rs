//! The message parser against a reference that builds values: the accepted texts, their kinds, and their members.
//!
//! `serde_json` skips a value ([`IgnoredAny`]) by the same grammar as the scanner of the core, so both have to agree on
//! every text. A [`Value`] cannot represent all texts of the grammar. If `serde_json` rejects such a text, its reason
//! has to be one of [`LOST_ON_VALUES`], and nothing is compared.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use mcp_proto::wire::{ArrayIter, Malformed, MalformedKind, MalformedSubject, Message, RawJson, RequestId};
use serde::de::IgnoredAny;
use serde_json::{Value, value::RawValue};

use crate::{
    cost,
    reference::{self, Expected, brackets, depth, integer, text_of},
};

/// Deeper than the nesting limit of `serde_json` for values.
const DEPTH: u32 = 128;

/// A depth that inputs often exceed.
const SHALLOW: u32 = 3;

/// Valid JSON that a [`Value`] cannot represent: a number beyond the range of `f64`, a lone surrogate, and more than
/// 127 brackets.
const LOST_ON_VALUES: [&str; 4] = [
    "number out of range",
    "lone leading surrogate in hex escape",
    "unexpected end of hex escape",
    "recursion limit exceeded",
];

/// The parser accepts the same texts as the reference, and returns the same members.
///
/// Input: the text of a message, or of an array whose elements are also tried as ids.
pub fn message(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    cost::assert_bounded(data, |data| {
        let Ok(text) = core::str::from_utf8(data) else { return };
        drop(Message::parse(text, DEPTH));
        for member in ArrayIter::new(text, DEPTH) {
            drop(Message::parse(member, DEPTH));
        }
    });
    let parsed = Message::parse(text, DEPTH);
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        match &parsed {
            Err(Malformed { kind: MalformedKind::Syntax(at), subject: MalformedSubject::Unreadable, .. }) => {
                assert!(*at <= text.len())
            }
            // The text may exceed the nesting limit before its first error.
            Err(Malformed { kind: MalformedKind::TooDeep, .. }) => assert!(brackets(text) > DEPTH as usize),
            other => panic!("this is no JSON, and becomes {other:?}"),
        }
        return;
    }
    assert!(!matches!(&parsed, Err(Malformed { kind: MalformedKind::Syntax(_), .. })), "this is JSON: {parsed:?}");
    let value = match serde_json::from_str::<Value>(text) {
        Ok(value) => value,
        Err(error) => {
            let error = error.to_string();
            assert!(LOST_ON_VALUES.iter().any(|reason| error.starts_with(reason)), "{error}");
            return;
        }
    };
    for (limit, parsed) in [(DEPTH, parsed), (SHALLOW, Message::parse(text, SHALLOW))] {
        match parsed {
            Err(Malformed { kind: MalformedKind::TooDeep, .. }) => assert!(depth(text) > limit as usize),
            parsed => {
                assert!(depth(text) <= limit as usize);
                compare(text, &value, parsed);
            }
        }
    }
    if let Value::Array(elements) = &value
        && depth(text) <= DEPTH as usize
    {
        array(text, elements);
    }
}

fn compare(text: &str, value: &Value, parsed: Result<Message<'_>, Malformed>) {
    let expected = reference::classify(text);
    match (expected, parsed) {
        (
            Ok(Expected::Request { id, method, params, meta }),
            Ok(Message::Request { id: i, method: m, params: p, meta: t }),
        ) => {
            same_id(id, &i);
            assert_eq!(m, method);
            same_member(value, "params", params, p.as_ref());
            assert_eq!(meta.map(parse), t.as_ref().map(decode), "the member _meta of the params");
        }
        (Ok(Expected::Notification { method, params }), Ok(Message::Notification { method: m, params: p })) => {
            assert_eq!(m, method);
            same_member(value, "params", params, p.as_ref());
        }
        (Ok(Expected::Response { id, result }), Ok(Message::Response { id: i, result: r })) => {
            same_id(id, &i);
            same_member(value, "result", Some(result), Some(&r));
        }
        (Ok(Expected::Error { id, code, message, data }), Ok(Message::Error { id: i, error })) => {
            assert_eq!(id.is_some(), i.is_some());
            id.zip(i.as_ref()).into_iter().for_each(|(id, i)| same_id(id, i));
            assert_eq!((error.code.0, &*error.message), (code, &*message));
            assert_eq!(error.data.as_ref().map(mcp_proto::wire::Json::get), data.map(RawValue::get));
        }
        (Err(refused), Err(malformed)) => {
            assert_eq!(malformed.kind, refused.kind);
            match (&malformed.subject, refused.subject) {
                (MalformedSubject::Request(id), reference::Subject::Request(token))
                | (MalformedSubject::Response(id), reference::Subject::Response(token)) => same_id(token, id),
                (MalformedSubject::Nothing, reference::Subject::Nothing)
                | (MalformedSubject::Unreadable, reference::Subject::Unreadable) => {}
                (found, expected) => panic!("it is about {found:?}, and expected {expected:?}"),
            }
        }
        (expected, parsed) => panic!("expected {expected:?}, and it is {parsed:?}"),
    }
}

fn parse(token: &RawValue) -> Value {
    serde_json::from_str(token.get()).unwrap_or_else(|error| panic!("{error} in {token}"))
}

fn decode(raw: &RawJson<'_>) -> Value {
    raw.decode().unwrap_or_else(|error| panic!("{error} in {raw:?}"))
}

/// An id keeps its spelling, and is equal to the number or the string that it denotes.
fn same_id(token: &RawValue, id: &RequestId) {
    assert_eq!(id.as_json(), token.get());
    let text = text_of(token.get());
    assert_eq!(id.as_text(), text);
    assert_eq!(id.as_u64(), integer(token.get()).and_then(|digits| digits.parse().ok()));
    let again: RequestId = serde_json::from_str(token.get()).unwrap_or_else(|error| panic!("{error} in {token}"));
    assert_eq!(again, *id);
    assert_eq!(serde_json::to_string(id).ok().as_deref(), Some(token.get()));
}

/// A member of the message has the expected text, value and members.
fn same_member(message: &Value, name: &str, expected: Option<&RawValue>, found: Option<&RawJson<'_>>) {
    assert_eq!(expected.map(RawValue::get), found.map(RawJson::get), "{name}");
    let Some(found) = found else { return };
    assert_eq!(Some(&decode(found)), message.get(name), "{name}");
    assert_eq!(found.is_object(), decode(found).is_object());
    match reference::members(found.get()) {
        None => assert_eq!(found.member(""), None),
        Some(members) => {
            for (name, _) in &members {
                // Of several members with the same name, the last one.
                let last = members.iter().rfind(|(other, _)| other == name).map(|(_, value)| value.get());
                assert_eq!(found.member(name).as_ref().map(RawJson::get), last, "{name:?}");
            }
            let absent = members.iter().fold(String::from("x"), |absent, (name, _)| absent + name);
            assert_eq!(found.member(&absent), None);
        }
    }
}

/// The members of a batch are the elements, and ids are equal if they are the same number or the same text.
fn array(text: &str, elements: &[Value]) {
    let members: Vec<&str> = ArrayIter::new(text, DEPTH).collect();
    let values: Vec<Value> = members.iter().map(|member| decode(&raw(member))).collect();
    assert_eq!(values, elements);
    let ids: Vec<(Option<RequestId>, &str)> =
        members.iter().take(8).map(|member| (serde_json::from_str(member).ok(), *member)).collect();
    for (id, token) in &ids {
        let is_text = token.starts_with('"');
        let expected = is_text || integer(token).is_some();
        assert_eq!(id.is_some(), expected && token.len() <= RequestId::MAX_LEN, "{token}");
    }
    for (a, token_a) in &ids {
        for (b, token_b) in &ids {
            let (Some(a), Some(b)) = (a, b) else { continue };
            let same = (text_of(token_a), integer(token_a)) == (text_of(token_b), integer(token_b));
            assert_eq!(a == b, same, "{a:?} {b:?}");
            assert!(!same || hash(a) == hash(b), "{a:?} {b:?}");
        }
    }
}

fn raw(text: &str) -> RawJson<'static> {
    let json = mcp_proto::wire::Json::parse(text).unwrap_or_else(|error| panic!("{error} in {text}"));
    RawJson::from(&json).into_owned()
}

fn hash(id: &RequestId) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
