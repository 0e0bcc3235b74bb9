//! The parts of skills that clients and servers share: the frontmatter of a `SKILL.md`, and the verification of files.

pub(crate) mod frontmatter;
pub(crate) mod verify;
pub(crate) mod yaml;

use std::fmt::Write;

use hmac_sha256::Hash;

/// The file that makes a folder a skill.
pub(crate) const MANIFEST: &str = "SKILL.md";

/// Returns the SHA-256 of bytes, in the notation of skills.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in Hash::hash(bytes) {
        // Nothing can go wrong with a text.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the folder of a skill and its name, from the URI of its `SKILL.md`.
pub(crate) fn root(uri: &str) -> Option<(&str, &str)> {
    let root = uri.strip_suffix(MANIFEST)?.strip_suffix('/')?;
    let (_, path) = root.split_once(':')?;
    let name = path.rsplit('/').next().filter(|name| !name.is_empty())?;
    Some((root, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_standard_sha256() {
        let of_abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(b"abc"), of_abc);
    }

    #[test]
    fn skill_is_named_after_its_folder() {
        assert_eq!(root("skill://a/SKILL.md"), Some(("skill://a", "a")));
        assert_eq!(root("skill://a/b/c/SKILL.md"), Some(("skill://a/b/c", "c")));
        assert_eq!(root("git:x/y/SKILL.md"), Some(("git:x/y", "y")));
        for bad in
            ["skill://SKILL.md", "skill:///SKILL.md", "skill://a/skill.md", "skill://a/", "SKILL.md", "a/SKILL.md"]
        {
            assert_eq!(root(bad), None, "{bad}");
        }
    }
}
