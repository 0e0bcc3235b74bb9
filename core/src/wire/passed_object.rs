//! Steps over params, results and their `_meta`, and checks the names of their members on the way.

use super::{
    RepeatedMembers,
    member_index::{Index, Indexing},
    scan::{ScanError, Scanner, StringToken},
    sole::{self, Seen},
};

/// Takes the name of a member that most params or results have, if it is spelled in the most common way. Its length
/// need not be searched for then.
#[inline(always)]
fn usual_name<'a>(scanner: &mut Scanner<'a>, first: bool, seen: &mut Seen) -> Option<StringToken<'a>> {
    let begins = scanner.peek_member(first)?;
    let (name, bit) = match begins.get(1)? {
        b'_' => (scanner.eat_name(begins, b"\"_meta\":"), const { sole::bit(b"_meta") }),
        b'n' => (scanner.eat_name(begins, b"\"name\":"), const { sole::bit(b"name") }),
        b'a' => (scanner.eat_name(begins, b"\"arguments\":"), const { sole::bit(b"arguments") }),
        b'p' => match scanner.eat_name(begins, b"\"progressToken\":") {
            None => (scanner.eat_name(begins, b"\"progress\":"), const { sole::bit(b"progress") }),
            token => (token, const { sole::bit(b"progressToken") }),
        },
        b't' => (scanner.eat_name(begins, b"\"total\":"), const { sole::bit(b"total") }),
        b'm' => (scanner.eat_name(begins, b"\"message\":"), const { sole::bit(b"message") }),
        b'c' => (scanner.eat_name(begins, b"\"content\":"), const { sole::bit(b"content") }),
        _ => return None,
    };
    if name.is_some() {
        seen.add_bits(bit);
    }
    name
}

/// Returns the next member of params, of a result or of their `_meta`, as [`Scanner::next_member`] does.
#[inline(always)]
fn next_param<'a>(
    scanner: &mut Scanner<'a>,
    first: bool,
    seen: &mut Seen,
) -> Result<Option<StringToken<'a>>, ScanError> {
    if let Some(usual) = usual_name(scanner, first, seen) {
        return Ok(Some(usual));
    }
    if scanner.eat(b'}') {
        return Ok(None);
    }
    let name = scanner.next_member(first)?;
    if let Some(name) = name {
        seen.add(name);
    }
    Ok(name)
}

/// An object that was stepped over.
pub(super) struct PassedObject<'a> {
    pub(super) text: &'a str,
    /// A member that [decides](super::sole) occurs twice.
    pub(super) twice: bool,
    /// It has the repeated members.
    pub(super) repeats: bool,
}

/// The number of members of an object before which repeated members are looked for.
const TRIES: u8 = 2;

/// Steps over an object inside of `outer` brackets, over each value with `pass`. Stores the positions of its members in
/// `index` if `INDEXED` is true.
#[inline(always)]
pub(super) fn read_object<'a, const INDEXED: bool>(
    scanner: &mut Scanner<'a>,
    outer: u32,
    repeated: Option<&RepeatedMembers>,
    index: &mut Index,
    mut pass: impl FnMut(&mut Scanner<'a>, StringToken<'a>) -> Result<(), ScanError>,
) -> Result<PassedObject<'a>, ScanError> {
    let start = scanner.position();
    let (mut first, mut members, mut seen) = (true, Indexing::new(index, scanner.left()), Seen::default());
    scanner.open(b'{', outer)?;
    let (mut tries, mut repeats) = (0, false);
    loop {
        if let Some(repeated) = repeated.filter(|_| tries < TRIES) {
            tries += 1;
            let left = scanner.left();
            if scanner.eat_members(repeated.text(), first) {
                seen.add_bits(repeated.names());
                if INDEXED {
                    // They begin after the comma.
                    members.add_run(repeated.run(), left - usize::from(!first));
                }
                (first, tries, repeats) = (false, TRIES, true);
            }
        }
        let Some(name) = next_param(scanner, first, &mut seen)? else { break };
        first = false;
        let from = scanner.left();
        pass(scanner, name)?;
        if INDEXED {
            members.add(name, [from, scanner.left()]);
        }
    }
    members.end(scanner.left());
    let text = scanner.since(start);
    Ok(PassedObject { text, twice: seen.repeats(text), repeats })
}
