//! Adds members to JSON objects that are already encoded, for the members that the engine itself adds to params and
//! results.

use alloc::vec::Vec;
use core::ops::Range;

use crate::wire::{
    name_search::may_have,
    scan::{MAX_DEPTH, Scanner},
};

/// Returns whether this object has members, or `None` if the text is not that of an object.
#[inline]
pub(crate) fn has_members(object: &[u8]) -> Option<bool> {
    match object {
        [b'{', b'"', ..] => Some(true),
        [b'{', inside @ ..] => Some(inside.trim_ascii_start().first() != Some(&b'}')),
        _ => None,
    }
}

/// Sets the member `name` in `_meta` of the object that begins at `start` and ends with `out`.
///
/// An existing member is replaced, and so is a `_meta` that is not an object.
pub(crate) fn set_meta(out: &mut Vec<u8>, start: usize, name: &str, value: &str) {
    let Some(meta) = find(out, start, "_meta") else {
        return insert(out, start, ["\"_meta\":{", "}"], name, value);
    };
    if !out[meta.clone()].starts_with(b"{") {
        return replace(out, meta, &["{\"", name, "\":", value, "}"]);
    }
    match find(&out[..meta.end], meta.start, name) {
        None => insert(out, meta.start, ["", ""], name, value),
        Some(old) => replace(out, old, &[value]),
    }
}

/// Sets the member `name` of the object that begins at `start` and ends with `out`. An existing member is replaced.
pub(crate) fn set(out: &mut Vec<u8>, start: usize, name: &str, value: &str) {
    match find(out, start, name) {
        None => insert(out, start, ["", ""], name, value),
        Some(old) => replace(out, old, &[value]),
    }
}

/// Removes the member `name` of the object that begins at `start` and ends with `out`.
pub(crate) fn remove(out: &mut Vec<u8>, start: usize, name: &str) {
    while let Some(Member { start: begin, value, is_first }) = find_member(out, start, name) {
        // The comma before a member goes with it, or the comma behind the first one.
        let behind = out[value.end..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b','));
        let end = if is_first { value.end + behind.count() } else { value.end };
        replace(out, begin..end, &[]);
    }
}

/// Adds a member to the object that begins at `start` and ends with `out`, unless it has one of this name.
pub(crate) fn default(out: &mut Vec<u8>, start: usize, name: &str, value: &str) {
    if find(out, start, name).is_none() {
        insert(out, start, ["", ""], name, value);
    }
}

/// Inserts a member, between the texts `before` and `behind`, as the first member of the object that begins at `at`.
fn insert(out: &mut Vec<u8>, at: usize, [before, behind]: [&str; 2], name: &str, value: &str) {
    let inside = at + 1;
    let comma = if has_members(&out[at..]) == Some(false) { "" } else { "," };
    replace(out, inside..inside, &[before, "\"", name, "\":", value, behind, comma]);
}

/// Replaces a range with the parts.
fn replace(out: &mut Vec<u8>, range: Range<usize>, parts: &[&str]) {
    let added: usize = parts.iter().map(|part| part.len()).sum();
    let rest = range.end..out.len();
    let len = out.len() - range.len() + added;
    out.resize(len.max(out.len()), 0);
    out.copy_within(rest, range.start + added);
    out.truncate(len);
    let mut at = range.start;
    for part in parts {
        out[at..at + part.len()].copy_from_slice(part.as_bytes());
        at += part.len();
    }
}

/// A member of an object.
struct Member {
    /// Where the member begins, with the comma before it.
    start: usize,
    value: Range<usize>,
    is_first: bool,
}

/// Returns the range of a member's value in the object that begins at `start` and ends with `out`.
fn find(out: &[u8], start: usize, name: &str) -> Option<Range<usize>> {
    find_member(out, start, name).map(|member| member.value)
}

/// Returns the first member of this name in the object that begins at `start` and ends with `out`.
fn find_member(out: &[u8], start: usize, name: &str) -> Option<Member> {
    let object = &out[start..];
    // Usually the member is absent, which this cheaper test shows without a scan of all members.
    if !may_have(object, name) {
        return None;
    }
    let object = core::str::from_utf8(object).ok()?;
    let mut scanner = Scanner::new(object, MAX_DEPTH);
    scanner.expect(b'{').ok()?;
    let (mut is_first, mut before) = (true, scanner.position());
    while let Some(found) = scanner.next_member(is_first).ok()? {
        let value = scanner.position();
        scanner.value(1).ok()?;
        let end = scanner.position();
        if found.is(name) {
            return Some(Member { start: start + before, value: start + value..start + end, is_first });
        }
        (is_first, before) = (false, end);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn sets_members_without_changing_other_bytes() {
        type Splice = fn(&mut Vec<u8>, usize, &str, &str);
        let done = |splice: Splice, object: &str| {
            let mut out = br#"{"a":0}"#.to_vec();
            let start = out.len();
            out.extend_from_slice(object.as_bytes());
            splice(&mut out, start, "a", "[1]");
            String::from_utf8(out).expect("text stays text").split_off(start)
        };
        for (object, with, without) in [
            ("{}", r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"b":{"a":2}}"#, r#"{"a":[1],"b":{"a":2}}"#, r#"{"a":[1],"b":{"a":2}}"#),
            (r#"{"b":3, "a" : "old" ,"c":4}"#, r#"{"b":3, "a" : [1] ,"c":4}"#, r#"{"b":3, "a" : "old" ,"c":4}"#),
        ] {
            assert_eq!(done(set, object), with);
            assert_eq!(done(default, object), without);
        }
    }

    #[test]
    fn removes_members_with_their_commas() {
        for (object, left) in [
            ("{}", "{}"),
            (r#"{"a":1}"#, "{}"),
            (r#"{ "a" : 1 }"#, "{}"),
            (r#"{"a":1,"b":2}"#, r#"{"b":2}"#),
            (r#"{ "a" : {"a":1} , "b":2}"#, r#"{"b":2}"#),
            (r#"{"b":2 , "a":[1,2] }"#, r#"{"b":2 }"#),
            (r#"{"b":"a" ,"a":1, "c":3}"#, r#"{"b":"a", "c":3}"#),
            (r#"{"a":1,"b":2,"a":3,"c":4,"a":5}"#, r#"{"b":2,"c":4}"#),
            (r#"{"b":{"a":1}}"#, r#"{"b":{"a":1}}"#),
        ] {
            let mut out = br#"{"a":0}"#.to_vec();
            let start = out.len();
            out.extend_from_slice(object.as_bytes());
            remove(&mut out, start, "a");
            assert_eq!(core::str::from_utf8(&out), Ok(&*[r#"{"a":0}"#, left].concat()), "{object}");
        }
    }
}
