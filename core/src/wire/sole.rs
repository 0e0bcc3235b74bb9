//! Names of members that decide on the meaning of a message: in params, in results and in `_meta` none of them may
//! occur twice.
//!
//! Otherwise two readers could read two messages from one text: one takes the first member, the other one the last.
//! Other members, such as the arguments of a tool, belong to applications. Every reader takes the last one of those.

use super::{members::walk, scan::StringToken};

macro_rules! names {
    ($($number:literal $name:literal)*) => {
        /// All names, for tests.
        #[cfg(test)]
        pub(super) const NAMES: &[&[u8]] = &[$($name),*];

        /// Returns the number of a name.
        fn number(name: &[u8]) -> Option<u32> {
            Some(match name {
                $($name => $number,)*
                _ => return None,
            })
        }
    };
}

names! {
    // Of params.
    0 b"_meta" 1 b"name" 2 b"arguments" 3 b"uri" 4 b"cursor" 5 b"requestId" 6 b"reason" 7 b"progressToken" 8 b"progress"
    9 b"total" 10 b"message" 11 b"protocolVersion" 12 b"capabilities" 13 b"clientInfo" 14 b"level" 15 b"ref" 16 b"argument"
    17 b"mode" 18 b"task" 19 b"taskId" 20 b"status" 21 b"inputResponses" 22 b"requestState" 23 b"notifications"
    // Of results.
    24 b"resultType" 25 b"inputRequests" 26 b"ttlMs" 27 b"cacheScope" 28 b"nextCursor" 29 b"tools" 30 b"serverInfo"
    31 b"result" 32 b"error" 33 b"pollIntervalMs" 34 b"supportedVersions"
    // Of `_meta`.
    40 b"io.modelcontextprotocol/protocolVersion" 41 b"io.modelcontextprotocol/clientInfo"
    42 b"io.modelcontextprotocol/clientCapabilities" 43 b"io.modelcontextprotocol/logLevel"
    44 b"io.modelcontextprotocol/subscriptionId" 45 b"io.modelcontextprotocol/related-task"
    46 b"io.modelcontextprotocol/serverInfo" 47 b"io.modelcontextprotocol/model-immediate-response"
    48 b"traceparent" 49 b"tracestate" 50 b"baggage"
}

/// Returns whether a member of this name may occur only once.
pub(super) fn decides(name: &[u8]) -> bool {
    number(name).is_some()
}

/// The names seen in one object, approximately: enough to exclude duplicates.
#[derive(Default)]
pub(super) struct Seen {
    /// A bit for each name. Several names share a bit.
    bits: u64,
    /// The bits that several names share, and some bit if a name has escapes.
    suspect: u64,
}

impl Seen {
    /// Adds a name.
    #[inline(always)]
    pub(super) fn add(&mut self, name: StringToken<'_>) {
        self.suspect |= u64::from(name.escaped);
        self.add_bits(bit(name.inner));
    }

    /// Adds a name without escapes by its [`bit`], or several names, all of which are different.
    #[inline(always)]
    pub(super) const fn add_bits(&mut self, bits: u64) {
        self.suspect |= self.bits & bits;
        self.bits |= bits;
    }

    /// Returns whether a name that decides occurs twice in `object`, whose names were added.
    #[inline(always)]
    pub(super) fn repeats(&self, object: &str) -> bool {
        self.suspect != 0 && repeats(object)
    }
}

/// Returns one of 64 bits for a name. Names that occur together have different bits in nearly all cases. This is faster
/// than a comparison with each name.
#[inline(always)]
pub(super) const fn bit(name: &[u8]) -> u64 {
    let middle = if name.is_empty() { 0 } else { name[name.len() / 2] };
    1_u64.rotate_left(name.len() as u32 + 16 * middle as u32)
}

/// Returns whether a name that decides occurs twice.
#[cold]
fn repeats(object: &str) -> bool {
    let (mut names, mut twice) = (0_u64, false);
    walk(object, |name, _| {
        let number = if name.escaped { of_escaped(name) } else { number(name.inner) };
        let bit = number.map_or(0, |number| 1 << number);
        twice |= names & bit != 0;
        names |= bit;
        !twice
    });
    twice
}

/// Returns whether a member that decides occurs twice in params or a result of the application, or in their `_meta`. A
/// peer with the same rule would not accept them.
#[cold]
pub(super) fn is_ambiguous(object: &str) -> bool {
    let (mut seen, mut meta) = (Seen::default(), false);
    walk(object, |name, value| {
        seen.add(name);
        if value.starts_with('{') && name.is("_meta") {
            let mut inside = Seen::default();
            walk(value, |name, _| {
                inside.add(name);
                true
            });
            meta |= inside.repeats(value);
        }
        true
    });
    seen.repeats(object) || meta
}

#[cold]
fn of_escaped(name: StringToken<'_>) -> Option<u32> {
    number(name.text()?.as_bytes())
}

#[cfg(test)]
mod tests {
    use alloc::{
        format,
        string::{String, ToString},
        vec::Vec,
    };

    use super::NAMES;
    use crate::wire::{MalformedKind, MalformedSubject, Message, RequestId};

    /// Returns an object with this member twice, and with other members before, between and behind, one of them also
    /// twice.
    fn twice(name: &str, others: usize) -> String {
        let filler = |place: usize| (0..others).map(move |number| format!(r#""{place}{number}":[{number}],"#));
        let filler: Vec<String> = (0..3).map(|place| filler(place).collect()).collect();
        format!(r#"{{{}"{name}":1,{}"own":1,"own":2,"{name}":{{}},{}"z":0}}"#, filler[0], filler[1], filler[2])
    }

    fn kind(text: &str) -> (MalformedKind, MalformedSubject) {
        let malformed = Message::parse(text, 99).expect_err(text);
        (malformed.kind, malformed.subject)
    }

    #[test]
    fn known_members_must_not_be_duplicated() {
        let one = RequestId::from(1_u64);
        for name in NAMES {
            let name = core::str::from_utf8(name).expect("it is text");
            let escaped = format!("\\u{:04x}{}", name.as_bytes()[0], &name[1..]);
            for (spelling, others) in [(name, 0), (name, 1), (name, 9), (&*escaped, 0), (&*escaped, 9)] {
                let object = twice(spelling, others).replacen(spelling, name, 1);
                let meta = format!(r#"{{"_meta":{object}}}"#);
                for params in [&object, &meta] {
                    let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{params}}}"#);
                    assert_eq!(
                        kind(&request),
                        (MalformedKind::DuplicateParam, MalformedSubject::Request(one.clone())),
                        "{request}"
                    );
                    let notification = format!(r#"{{"jsonrpc":"2.0","method":"a","params":{params}}}"#);
                    assert_eq!(
                        kind(&notification),
                        (MalformedKind::DuplicateParam, MalformedSubject::Nothing),
                        "{notification}"
                    );
                }
                for result in [&object, &meta] {
                    let response = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
                    assert_eq!(
                        kind(&response),
                        (MalformedKind::DuplicateParam, MalformedSubject::Response(one.clone())),
                        "{response}"
                    );
                }
                // Nested objects belong to applications.
                let inside = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"own":{object}}}}}"#);
                assert!(Message::parse(&inside, 99).is_ok(), "{inside}");
            }
        }
    }

    /// Checks that an application can send exactly those objects that every peer accepts.
    #[test]
    fn senders_reject_what_receivers_reject() {
        for (object, expected) in [
            (r#"{"name":1,"name":2}"#, true),
            (r#"{"_meta":{"name":1,"name":2}}"#, true),
            (r#"{"_meta":{"_meta":{"name":1,"name":2}}}"#, false),
            (r#"{"_meta":{"own":{"name":1,"name":2}}}"#, false),
            (r#"{"own":{"name":1,"name":2}}"#, false),
        ] {
            assert_eq!(super::is_ambiguous(object), expected, "{object}");
            for key in ["params", "result"] {
                let head = if key == "params" { r#""method":"a","# } else { "" };
                let text = format!(r#"{{"jsonrpc":"2.0","id":1,{head}"{key}":{object}}}"#);
                assert_eq!(Message::parse(&text, 99).is_err(), expected, "{text}");
            }
        }
    }

    #[test]
    fn error_objects_reject_duplicate_members() {
        for error in [
            r#"{"code":1,"code":1,"message":""}"#,
            r#"{"code":"x","code":1,"message":""}"#,
            r#"{"code":1,"message":"a","message":"b"}"#,
            r#"{"code":1,"message":1,"m\u0065ssage":"b"}"#,
            r#"{"code":1,"message":"","data":1,"data":2}"#,
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
            assert_eq!(kind(&text).0, MalformedKind::Error, "{text}");
        }
        let text = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","x":1,"x":2}}"#;
        assert!(Message::parse(text, 99).is_ok(), "what the protocol does not know is left alone");
    }

    #[test]
    fn known_names_have_distinct_bits() {
        let mut numbers: Vec<_> = NAMES.iter().filter_map(|name| super::number(name)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), NAMES.len());
        assert!(numbers.iter().all(|number| *number < u64::BITS));
        assert_eq!(super::number("own".to_string().as_bytes()), None);
    }

    /// Names with the same bit would cost a second pass over their object.
    #[test]
    fn names_that_occur_together_have_different_bits() {
        let of_meta =
            ["protocolVersion", "clientInfo", "clientCapabilities", "logLevel", "subscriptionId", "related-task"]
                .map(|name| format!("io.modelcontextprotocol/{name}"));
        let of_meta: Vec<&str> = of_meta
            .iter()
            .map(|name| &**name)
            .chain(["progressToken", "traceparent", "tracestate", "baggage"])
            .collect();
        let objects: [&[&str]; 8] = [
            &of_meta,
            &["_meta", "name", "arguments", "task", "inputResponses", "requestState"],
            &["progressToken", "progress", "total", "message", "_meta"],
            &["protocolVersion", "capabilities", "clientInfo", "_meta"],
            &["content", "structuredContent", "isError", "_meta", "resultType", "task"],
            &["tools", "nextCursor", "ttlMs", "cacheScope", "resultType", "_meta"],
            &["taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval", "_meta"],
            &["mode", "message", "requestedSchema", "_meta", "url", "elicitationId"],
        ];
        for names in objects {
            let bits = names.iter().fold(0, |bits, name| bits | super::bit(name.as_bytes()));
            assert_eq!(bits.count_ones() as usize, names.len(), "{names:?}");
        }
        assert_eq!(super::bit(b"").count_ones(), 1);
    }
}
