//! Adds members to objects that are already text: what the engine itself has to say in params and results.

use alloc::{format, vec::Vec};
use core::ops::Range;

use crate::{
    schema::keys,
    wire::scan::{MAX_DEPTH, Scanner},
};

/// Makes `token` the progress token of the params that begin at `start` and end with `out`.
///
/// One that is there already is replaced: the token that is sent is always the one that is watched.
pub(super) fn progress_token(out: &mut Vec<u8>, start: usize, token: u64) {
    set_meta(out, start, keys::PROGRESS_TOKEN, &format!("{token}"));
}

/// Makes `value` the member `name` in `_meta` of the object that begins at `start` and ends with `out`.
pub(super) fn set_meta(out: &mut Vec<u8>, start: usize, name: &str, value: &str) {
    let object = core::str::from_utf8(&out[start..]).unwrap_or_default();
    let member = format!("\"{name}\":{value}");
    let Some(meta) = find(object, "_meta") else {
        return insert(out, start, &format!("\"_meta\":{{{member}}}"));
    };
    let from = start + meta.start;
    if !object[meta.clone()].starts_with('{') {
        out.splice(from..start + meta.end, format!("{{{member}}}").into_bytes());
        return;
    }
    match find(&object[meta], name) {
        None => insert(out, from, &member),
        Some(old) => {
            out.splice(from + old.start..from + old.end, value.bytes());
        }
    }
}

/// Makes `value` the member `name` of the object that begins at `start` and ends with `out`.
pub(super) fn set(out: &mut Vec<u8>, start: usize, name: &str, value: &str) {
    let object = core::str::from_utf8(&out[start..]).unwrap_or_default();
    match find(object, name) {
        None => insert(out, start, &format!("\"{name}\":{value}")),
        Some(old) => {
            out.splice(start + old.start..start + old.end, value.bytes());
        }
    }
}

/// Gives the object that begins at `start` and ends with `out` a member, unless it has one of this name.
pub(super) fn default(out: &mut Vec<u8>, start: usize, name: &str, value: &str) {
    let object = core::str::from_utf8(&out[start..]).unwrap_or_default();
    if find(object, name).is_none() {
        insert(out, start, &format!("\"{name}\":{value}"));
    }
}

/// Inserts a member as the first one of the object that begins at `at`.
fn insert(out: &mut Vec<u8>, at: usize, member: &str) {
    let inside = at + 1;
    let comma = if out[inside..].trim_ascii_start().first() == Some(&b'}') { "" } else { "," };
    out.splice(inside..inside, member.bytes().chain(comma.bytes()));
}

/// Where the value of a member is in the text of an object.
fn find(object: &str, name: &str) -> Option<Range<usize>> {
    let mut scanner = Scanner::new(object, MAX_DEPTH);
    scanner.expect(b'{').ok()?;
    let mut first = true;
    while let Some(found) = scanner.next_member(first).ok()? {
        first = false;
        let start = scanner.position();
        scanner.value(1).ok()?;
        if found.text() == name {
            return Some(start..scanner.position());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn spliced(params: &str) -> String {
        let mut out = b"before".to_vec();
        out.extend_from_slice(params.as_bytes());
        progress_token(&mut out, 6, 7);
        String::from_utf8(out).expect("text stays text").split_off(6)
    }

    // req: PROG-001 PROG-002
    #[test]
    fn the_token_is_added_or_replaced_and_nothing_else_changes() {
        let cases = [
            ("{}", r#"{"_meta":{"progressToken":7}}"#),
            (r#"{"a":1}"#, r#"{"_meta":{"progressToken":7},"a":1}"#),
            (r#"{"_meta":{},"a":1}"#, r#"{"_meta":{"progressToken":7},"a":1}"#),
            (r#"{"_meta":{"k":[1]},"a":1}"#, r#"{"_meta":{"progressToken":7,"k":[1]},"a":1}"#),
            (r#"{"_meta":{"k":1,"progressToken":"mine"}}"#, r#"{"_meta":{"k":1,"progressToken":7}}"#),
            (
                r#"{ "a" : {"_meta":{}} , "_meta" : { "k" : 1 } }"#,
                r#"{ "a" : {"_meta":{}} , "_meta" : {"progressToken":7, "k" : 1 } }"#,
            ),
            ("{ }", r#"{"_meta":{"progressToken":7} }"#),
            (r#"{"_meta":null}"#, r#"{"_meta":{"progressToken":7}}"#),
        ];
        for (params, expected) in cases {
            assert_eq!(spliced(params), expected);
        }
    }
}
