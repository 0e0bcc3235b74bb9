//! Walks over the members of an object.

use core::mem;

use super::{
    reader::deep,
    scan::{MAX_DEPTH, Scanner, StringToken},
};

/// Returns whether `f` holds for all members of the object with this text. The members are found by scanning the text.
#[inline]
pub(super) fn walk<'a>(object: &'a str, mut f: impl FnMut(StringToken<'a>, &'a str) -> bool) -> bool {
    let mut scanner = Scanner::new(object, MAX_DEPTH);
    let mut first = true;
    if !scanner.eat(b'{') {
        return true;
    }
    while let Ok(Some(name)) = scanner.next_member(mem::replace(&mut first, false)) {
        if !member_value(&mut scanner).is_some_and(|value| f(name, value)) {
            return false;
        }
    }
    true
}

/// Returns the value of the member that begins here. Values made by the application may be nested deeper than the
/// scanner accepts.
pub(super) fn member_value<'a>(scanner: &mut Scanner<'a>) -> Option<&'a str> {
    let start = scanner.position();
    scanner.value(1).ok().or_else(|| deep(scanner, start).ok())
}
