//! Members that a peer repeats in each of its messages, such as the description of itself. Their text is compared with
//! that of an earlier message, which is faster than to scan it again.

use alloc::boxed::Box;

use super::{
    member_index::{Run, place},
    members::walk,
    sole,
};

/// The maximum length of the text, in bytes.
const MAX_LEN: usize = 4 << 10;

/// Adjacent members of an object, as they were spelled in an accepted message.
///
/// They are valid in a later message only if it was read with the same limit of nesting, and only at the same depth.
#[derive(Clone, Debug)]
pub(crate) struct RepeatedMembers {
    /// The text from the name of the first member to the value of the last one.
    text: Box<[u8]>,
    /// The [bits](sole::bit) of their names.
    names: u64,
    run: Run,
}

/// The place of repeated members in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunPlace {
    /// Anywhere, but together: the object has no other members with these names.
    Together,
    /// At its beginning. Members after them are not read.
    Beginning,
}

impl RepeatedMembers {
    /// Returns the members with these names in `object`, which was accepted as a part of a message. Returns `None` if
    /// they are not at this place, if one is missing, if a name has escapes, or if the members are too long. Without
    /// one of them, a later object with the others could have it as well.
    pub(crate) fn of(object: &str, names: &[&str], at: RunPlace) -> Option<Self> {
        let (mut run, mut bits) = (Run::default(), 0);
        let (mut from, mut to, mut is_behind) = (0, 0, false);
        let (mut fits, mut found) = (true, 0_u32);
        walk(object, |name, value| {
            let Some(index) = names.iter().position(|known| name.is(known)) else {
                is_behind = to > 0;
                return at == RunPlace::Together;
            };
            found |= 1 << index;
            let (Some(name_at), Some(value_at)) =
                (place(name.written().as_bytes(), object.as_bytes()), place(value.as_bytes(), object.as_bytes()))
            else {
                fits = false;
                return false;
            };
            if to == 0 {
                from = name_at.start - 1;
            }
            to = value_at.end;
            fits = !is_behind && !name.is_escaped() && to - from <= MAX_LEN && run.add(from, &name_at, &value_at);
            bits |= sole::bit(name.written().as_bytes());
            fits
        });
        (fits && found == (1 << names.len()) - 1).then(|| Self {
            text: object.as_bytes()[from..to].into(),
            names: bits,
            run,
        })
    }

    /// Returns the text of the members.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(super) const fn names(&self) -> u64 {
        self.names
    }

    pub(super) const fn run(&self) -> &Run {
        &self.run
    }
}

/// The members that the peer of a connection repeats.
#[derive(Clone, Copy, Default)]
pub(crate) struct Repeated<'r> {
    /// In the `_meta` of params.
    pub(crate) meta: Option<&'r RepeatedMembers>,
    /// In results.
    pub(crate) result: Option<&'r RepeatedMembers>,
}

/// The repeated members that a message has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repetition {
    /// Whether the message has the [repeated](Repeated) members of its kind, spelled as before.
    pub(crate) is_found: bool,
    /// Whether a `_meta` with these members may have others besides a progress token.
    pub(crate) has_others: bool,
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String, vec::Vec};

    use super::*;
    use crate::wire::{MalformedKind, Message};

    const NAMES: [&str; 3] = [
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientInfo",
        "io.modelcontextprotocol/clientCapabilities",
    ];

    /// Returns the members with these names, with and without white space.
    fn members(space: &str) -> String {
        let member = |(name, value): (&str, &str)| format!(r#""{name}"{space}:{space}{value}"#);
        let values = [r#""2026-07-28""#, r#"{"name":"c","version":"1"}"#, r#"{"roots":{},"x":[1,{"y":null}]}"#];
        NAMES.into_iter().zip(values).map(member).collect::<Vec<_>>().join(&format!("{space},{space}"))
    }

    fn request(meta: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"name":"b","_meta":{meta}}}}}"#)
    }

    /// Reads a message with and without these members, which must make no difference. Returns what was recognized.
    fn parse(text: &str, meta: Option<&RepeatedMembers>, result: Option<&RepeatedMembers>) -> Option<Repetition> {
        let members = |message: &Message<'_>| {
            let object = match message {
                Message::Request { meta: Some(object), .. } | Message::Response { result: object, .. } => object,
                other => panic!("{other:?}"),
            };
            object.members().map(|(name, value)| (String::from(name), String::from(value.get()))).collect::<Vec<_>>()
        };
        let plain = Message::parse(text, 9);
        let mut repetition = Repetition::default();
        match (Message::parse_repeating(text, 9, Repeated { meta, result }, &mut repetition), &plain) {
            (Ok(message), Ok(plain)) => {
                assert_eq!(format!("{message:?}"), format!("{plain:?}"));
                assert_eq!(members(&message), members(plain), "{text}");
                Some(repetition)
            }
            (Err(malformed), Err(plain)) => {
                assert_eq!(malformed, *plain, "{text}");
                None
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn recognizes_members_among_others() {
        for space in ["", " "] {
            let members = members(space);
            let known = RepeatedMembers::of(&format!("{{{members}}}"), &NAMES, RunPlace::Together).expect("they are");
            assert_eq!(known.text(), members.as_bytes());
            for (meta, is_found, has_others) in [
                (format!("{{{members}}}"), true, false),
                (format!(r#"{{"progressToken":7,{members}}}"#), true, false),
                (format!(r#"{{"progressToken":7,{members},"traceparent":"x"}}"#), true, true),
                (format!(r#"{{{members},"progressToken":"a"}}"#), true, false),
                (format!(r#"{{"traceparent":"x",{members}}}"#), true, true),
                (format!(r#"{{"a":1,"b":2,"c":3,{members}}}"#), false, false),
                (format!("{{{} }}", members.replace('1', "2")), false, false),
                (format!(r#"{{"x":{{{members}}}}}"#), false, false),
                (format!("{{{}}}", members.replace("\"2026-07-28\"", "\"2026-07-28 \"")), false, false),
                (String::from("{}"), false, false),
            ] {
                let recognized = parse(&request(&meta), Some(&known), None).expect(&meta);
                assert_eq!(recognized.is_found, is_found, "{meta}");
                assert_eq!(recognized.has_others, has_others, "{meta}");
            }
            // Elsewhere the same members are nothing special.
            let text = request("{}").replace(r#""name":"b""#, &members);
            assert_eq!(parse(&text, Some(&known), None), Some(Repetition::default()));
        }
    }

    #[test]
    fn refuses_what_is_refused_without_repetition() {
        let members = members("");
        let known = RepeatedMembers::of(&format!("{{{members}}}"), &NAMES, RunPlace::Together).expect("they are");
        for meta in [
            format!("{{{members},{members}}}"),
            format!(r#"{{{members},"{}":1}}"#, NAMES[1]),
            format!(r#"{{"{}":1,{members}}}"#, NAMES[2]),
            format!(r#"{{{members},"\u0069{}":1}}"#, &NAMES[0][1..]),
            format!(r#"{{"progressToken":1,{members},"progressToken":1}}"#),
        ] {
            assert_eq!(parse(&request(&meta), Some(&known), None), None, "{meta}");
            let text = request(&meta);
            let repeated = Repeated { meta: Some(&known), result: None };
            let refused = Message::parse_repeating(&text, 9, repeated, &mut Repetition::default());
            assert_eq!(refused.expect_err(&meta).kind, MalformedKind::DuplicateParam);
        }
        for meta in [
            format!("{{{members}"),
            format!("{{{members},}}"),
            format!("{{{members}]"),
            format!("{{,{members}}}"),
            format!("{{{members}1}}"),
            format!("{{\"a\":1{members}}}"),
        ] {
            assert_eq!(parse(&request(&meta), Some(&known), None), None, "{meta}");
        }
    }

    #[test]
    fn recognizes_the_beginning_of_results() {
        let begin = r#""resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}"#;
        let response = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let names = ["resultType", "_meta"];
        let known = |result: &str| RepeatedMembers::of(result, &names, RunPlace::Beginning);
        let members = known(&format!(r#"{{{begin},"content":[]}}"#)).expect("they are");
        assert_eq!(members.text(), begin.as_bytes());
        assert!(known(&format!(r#"{{"content":[],{begin}}}"#)).is_none(), "they are at the end");
        for (result, is_found) in [
            (format!("{{{begin}}}"), true),
            (format!(r#"{{{begin},"content":[1]}}"#), true),
            (format!(r#"{{{},"content":[1]}}"#, begin.replace("complete", "input_required")), false),
            (String::from("{}"), false),
        ] {
            assert_eq!(parse(&response(&result), None, Some(&members)).map(|it| it.is_found), Some(is_found));
        }
        for twice in [format!("{{{begin},{begin}}}"), format!(r#"{{{begin},"resultType":"task"}}"#)] {
            assert_eq!(parse(&response(&twice), None, Some(&members)), None, "{twice}");
        }
    }

    #[test]
    fn longer_value_is_not_the_repeated_one() {
        let known = RepeatedMembers::of(r#"{"a":1}"#, &["a"], RunPlace::Together).expect("it is");
        for (meta, is_found) in [(r#"{"a":1}"#, true), (r#"{"a":12}"#, false), (r#"{"a":1.5,"b":2}"#, false)] {
            assert_eq!(parse(&request(meta), Some(&known), None).map(|it| it.is_found), Some(is_found), "{meta}");
        }
    }

    #[test]
    fn members_apart_or_too_long_are_not_repeated() {
        let of = |object: &str| RepeatedMembers::of(object, &["a", "b"], RunPlace::Together);
        for (object, is_one) in [
            (r#"{"x":1,"a":1,"b":2,"y":3}"#, true),
            (r#"{"a":1}"#, false),
            (r#"{"b":1,"a":1}"#, true),
            (r#"{"a":1,"x":2,"b":3}"#, false),
            (r#"{"a":1,"\u0062":3}"#, false),
            (r#"{"x":1}"#, false),
            ("{}", false),
            (&*format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_LEN)), false),
        ] {
            assert_eq!(of(object).is_some(), is_one, "{object:.50}");
        }
    }
}
