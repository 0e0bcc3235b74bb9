//! The format of stored messages that clients may get only with scopes.
//!
//! The scopes are stored with each message, so that they are there exactly as long as the message, whichever messages
//! of a stream a store drops.

use std::borrow::Cow;

use mcp_proto::http::server::ReplayChunk;

/// The first byte of a message with scopes. No JSON text begins with it. The scopes follow, separated by spaces, and
/// after a line feed the message. A scope contains neither.
const MARK: u8 = 0x1e;

/// Returns the bytes to store of a message.
pub(in crate::http) fn pack<'a>(message: &'a [u8], scopes: &[String]) -> Cow<'a, [u8]> {
    if scopes.is_empty() {
        return Cow::Borrowed(message);
    }
    Cow::Owned([&[MARK], scopes.join(" ").as_bytes(), b"\n", message].concat())
}

/// Returns the messages of stored bytes, and the scopes that a client needs for all of them. `None` if one cannot be
/// read.
pub(in crate::http) fn unpack(mut found: ReplayChunk) -> Option<(ReplayChunk, Vec<String>)> {
    let mut scopes = Vec::new();
    for (_, message) in &mut found.messages {
        unpack_one(message, &mut scopes)?;
    }
    Some((found, scopes))
}

/// Removes the scopes of a stored message, and adds them to the others.
fn unpack_one(stored: &mut Vec<u8>, scopes: &mut Vec<String>) -> Option<()> {
    if stored.first() != Some(&MARK) {
        return Some(());
    }
    let end = stored.iter().position(|byte| *byte == b'\n')?;
    for scope in std::str::from_utf8(stored.get(1..end)?).ok()?.split(' ') {
        if !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
    stored.drain(..=end);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_stored_with_each_message() {
        let scopes = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let stored = [(&b"{}"[..], &[][..]), (b"{\n}", &["a", "b"]), (b"[]", &["b", "c"])];
        let messages = (1..).zip(stored.map(|(message, names)| pack(message, &scopes(names)).into_owned())).collect();
        let (chunk, needed) = unpack(ReplayChunk { messages, done: true }).expect("they are messages");
        let expected = [(1, b"{}".to_vec()), (2, b"{\n}".to_vec()), (3, b"[]".to_vec())];
        assert_eq!((&chunk.messages[..], chunk.done, needed), (&expected[..], true, scopes(&["a", "b", "c"])));
    }

    #[test]
    fn a_message_without_its_scopes_is_not_returned() {
        for bad in [&b"\x1ea b"[..], b"\x1e\xff\n{}"] {
            let messages = vec![(1, b"{}".to_vec()), (2, bad.to_vec())];
            assert_eq!(unpack(ReplayChunk { messages, done: true }), None);
        }
    }
}
