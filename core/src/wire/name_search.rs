//! Searches an object for the name of a member without scanning it.

/// The size in bytes from which an object is searched by blocks.
const LONG: usize = 512;

/// Returns whether one of these pairs of bytes occurs in a text.
fn has_pair(text: &[u8], pairs: [[u8; 2]; 2]) -> bool {
    const BLOCK: usize = 64;

    let has_pair = |firsts: &[u8], seconds: &[u8]| {
        // The loop does not stop early, so that the compiler can vectorize it.
        firsts.iter().zip(seconds).fold(0, |found, (first, second)| {
            found | pairs.iter().fold(0, |found, pair| found | u8::from((*first == pair[0]) & (*second == pair[1])))
        }) != 0
    };
    let seconds = text.get(1..).unwrap_or_default();
    let ((firsts, _), (seconds, rest)) = (text.as_chunks::<BLOCK>(), seconds.as_chunks::<BLOCK>());
    firsts.iter().zip(seconds).any(|(firsts, seconds)| has_pair(firsts, seconds))
        || has_pair(&text[text.len().saturating_sub(rest.len() + 1)..], rest)
}

/// Returns whether an object may have a member of this name. `false` is certain. The members are not scanned one by
/// one.
///
/// Inlined, so that the compiler chooses the letter to search for.
#[inline(always)]
pub(crate) fn may_have(object: &[u8], name: &str) -> bool {
    // Searches for a letter of the name that is rare in texts, because each of its occurrences is checked.
    let is_common = |byte: u8| matches!(byte, b'a' | b'e' | b'i' | b'l' | b'n' | b'o' | b'r' | b's' | b't');
    let place = name.bytes().position(|byte| !is_common(byte)).unwrap_or(0);
    may_have_letter(object, name.as_bytes(), place)
}

/// Returns the same as [`may_have`], by a search for the letter at this place in the name.
#[inline]
fn may_have_letter(object: &[u8], name: &[u8], place: usize) -> bool {
    let rare = name.get(place).copied().unwrap_or(b'"');
    // A long object may have many backslashes, each of which would be checked below.
    if object.len() > LONG {
        let next = name.get(place + 1).copied().unwrap_or(b'"');
        if !has_pair(object, [[rare, next], *b"\\u"]) {
            return false;
        }
    }
    memchr::memchr2_iter(rare, b'\\', object).any(|at| match object[at] {
        // The name could be spelled with escapes.
        b'\\' => object.get(at + 1) == Some(&b'u'),
        _ => at.checked_sub(place).is_some_and(|from| object[from..].starts_with(name)),
    })
}

/// Returns whether an object may have a member `_meta` or `resultType`. `false` is certain, as of [`may_have`].
#[inline]
pub(crate) fn may_have_result_members(object: &[u8]) -> bool {
    if object.len() > LONG {
        return ["_meta", "resultType"].into_iter().any(|name| may_have(object, name));
    }
    memchr::memchr3_iter(b'_', b'T', b'\\', object).any(|at| match object[at] {
        b'\\' => object.get(at + 1) == Some(&b'u'),
        b'_' => object[at..].starts_with(b"_meta"),
        _ => object[..at].ends_with(b"result"),
    })
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String};

    use super::*;

    #[test]
    fn finds_members_at_every_offset() {
        for length in (0..200).chain(500..700) {
            let filler = "\\\"_ u".chars().cycle().take(length).collect::<String>();
            assert!(!may_have(filler.as_bytes(), "_meta"), "{length}");
            for name in ["_meta", "\\u005fmeta", "_\\u006deta"] {
                assert!(may_have(format!("{filler}{name}\":1}}").as_bytes(), "_meta"), "{length}");
                assert!(may_have(format!("{{\"{name}\":1{filler}").as_bytes(), "_meta"), "{length}");
                assert!(may_have(format!("{filler}{name}{filler}").as_bytes(), "_meta"), "{length}");
            }
            assert!(!may_have_result_members(filler.as_bytes()), "{length}");
            for name in ["_meta", "\\u005fmeta", "resultType", "result\\u0054ype", "\\u0072esultType"] {
                for text in [format!("{filler}{name}\":1}}"), format!("{{\"{name}\":1{filler}")] {
                    assert!(may_have_result_members(text.as_bytes()), "{length} {name}");
                }
            }
        }
    }
}
