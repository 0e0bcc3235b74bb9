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
fn usual_name<'a>(scanner: &mut Scanner<'a>, seen: &mut Seen) -> Option<StringToken<'a>> {
    let (name, bit) = match scanner.peek_name()? {
        b'_' => (scanner.eat_name(b"\"_meta\":"), const { sole::bit(b"_meta") }),
        b'n' => (scanner.eat_name(b"\"name\":"), const { sole::bit(b"name") }),
        b'a' => (scanner.eat_name(b"\"arguments\":"), const { sole::bit(b"arguments") }),
        b'p' => match scanner.eat_name(b"\"progressToken\":") {
            None => (scanner.eat_name(b"\"progress\":"), const { sole::bit(b"progress") }),
            token => (token, const { sole::bit(b"progressToken") }),
        },
        b't' => (scanner.eat_name(b"\"total\":"), const { sole::bit(b"total") }),
        b'm' => (scanner.eat_name(b"\"message\":"), const { sole::bit(b"message") }),
        b'c' => (scanner.eat_name(b"\"content\":"), const { sole::bit(b"content") }),
        b'i' => match scanner.eat_name(b"\"io.modelcontextprotocol/protocolVersion\":") {
            None => (
                scanner.eat_name(b"\"io.modelcontextprotocol/clientInfo\":"),
                const { sole::bit(b"io.modelcontextprotocol/clientInfo") },
            ),
            version => (version, const { sole::bit(b"io.modelcontextprotocol/protocolVersion") }),
        },
        _ => return None,
    };
    if name.is_some() {
        seen.add_bits(bit);
    }
    name
}

/// Takes the name of a member of params, of a result or of their `_meta`, as [`Scanner::member_name`] does.
#[inline(always)]
fn param_name<'a>(scanner: &mut Scanner<'a>, seen: &mut Seen) -> Result<StringToken<'a>, ScanError> {
    if let Some(usual) = usual_name(scanner, seen) {
        return Ok(usual);
    }
    let name = scanner.member_name()?;
    seen.add(name);
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
const TRIES: u32 = 2;

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
    let (mut members, mut seen) = (Indexing::new(index, scanner.left()), Seen::default());
    let (mut tries, mut repeats) = (0, false);
    if scanner.open_object(outer)? {
        loop {
            match repeated.filter(|_| tries < TRIES) {
                Some(repeated) if scanner.eat_members(repeated.text()) => {
                    seen.add_bits(repeated.names());
                    if INDEXED {
                        members.add_run(repeated.run(), scanner.left() + repeated.text().len());
                    }
                    (tries, repeats) = (TRIES, true);
                }
                _ => {
                    tries += 1;
                    let name = param_name(scanner, &mut seen)?;
                    let from = scanner.left();
                    pass(scanner, name)?;
                    if INDEXED {
                        members.add(name, [from, scanner.left()]);
                    }
                }
            }
            if !scanner.another_member()? {
                break;
            }
        }
    }
    members.end(scanner.left());
    let text = scanner.since(start);
    Ok(PassedObject { text, twice: seen.repeats(text), repeats })
}
