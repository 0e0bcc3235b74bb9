//! Whether the file of a skill is the one that the server has announced.

use std::{collections::HashSet, fmt};

use mcp_proto::schema::{ReadResourceResult, ResourceContents, Skill, SkillResource, SkillResources, decode_base64};

use super::{MANIFEST, digest, frontmatter, parse, root};

/// Why a file of a skill must not be used.
///
/// It may have changed since the skill was listed: ask for the skill anew, and have the user agree to it anew.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillFault {
    /// What the server says of the skill contradicts itself. The text says how.
    Entry(String),
    /// This file does not belong to the skill.
    Unlisted(String),
    /// What came is not one file with this URI.
    Contents(String),
    /// The file has another size.
    Size {
        /// What the skill says.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// The file has another digest.
    Digest,
    /// `SKILL.md` begins with something else than the skill says. The text says how.
    Frontmatter(String),
}

impl fmt::Display for SkillFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(why) => write!(f, "the skill contradicts itself: {why}"),
            Self::Unlisted(uri) => write!(f, "{uri} does not belong to the skill"),
            Self::Contents(uri) => write!(f, "what came is not the file {uri}"),
            Self::Size { expected, found } => write!(f, "the file has {found} bytes and not {expected}"),
            Self::Digest => f.write_str("the file has another digest"),
            Self::Frontmatter(why) => write!(f, "SKILL.md begins with something else: {why}"),
        }
    }
}

impl std::error::Error for SkillFault {}

/// A file of a skill that is what the server has announced.
///
/// That says nothing of whether it can be trusted: both come from the same server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillFile {
    /// Where it comes from.
    pub uri: String,
    /// What it is, if the server says so.
    pub mime_type: Option<String>,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl SkillFile {
    /// What is in it, if it is a text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}

/// What a server says of one file of a skill; `None` if it says nothing of any.
///
/// # Errors
/// If it does not belong to the skill, or the skill makes no sense.
pub(crate) fn announced(skill: &Skill, uri: &str) -> Result<Option<SkillResource>, SkillFault> {
    let contradicts = |why: &str| Err(SkillFault::Entry(why.into()));
    let Some((root, name)) = root(&skill.uri) else { return contradicts("its URI does not end with /SKILL.md") };
    if name != skill.frontmatter.name {
        return contradicts("its folder is not called like it");
    }
    let is_inside = |uri: &str| {
        let path = uri.strip_prefix(root).and_then(|path| path.strip_prefix('/'));
        path.is_some_and(|path| path.split('/').all(|segment| !matches!(segment, "" | "." | "..")))
    };
    let files = match &skill.resources {
        SkillResources::Dynamic if is_inside(uri) => return Ok(None),
        SkillResources::Dynamic => return Err(SkillFault::Unlisted(uri.into())),
        SkillResources::Listed(files) => files,
    };
    let mut seen = HashSet::new();
    if let Some(odd) = files.iter().find(|file| !is_inside(&file.uri) || !seen.insert(file.uri.as_str())) {
        return contradicts(&format!("{} is listed twice, or not inside of it", odd.uri));
    }
    if !seen.contains(skill.uri.as_str()) {
        return contradicts("its SKILL.md is not listed");
    }
    match files.iter().find(|file| file.uri == uri) {
        Some(file) => Ok(Some(file.clone())),
        None => Err(SkillFault::Unlisted(uri.into())),
    }
}

/// The file in what a server has answered, if it is the one that was announced.
///
/// # Errors
/// If it is not.
pub(crate) fn verified(
    skill: &Skill,
    uri: String,
    announced: Option<SkillResource>,
    result: ReadResourceResult,
) -> Result<SkillFile, SkillFault> {
    let mut contents = result.contents.into_iter();
    let (Some(one), None) = (contents.next(), contents.next()) else { return Err(SkillFault::Contents(uri)) };
    let (found, mime_type, bytes) = match one {
        ResourceContents::Text(text) => (text.uri, text.mime_type, Some(text.text.into_bytes())),
        ResourceContents::Blob(blob) => (blob.uri, blob.mime_type, decode_base64(&blob.blob)),
    };
    let Some(bytes) = bytes.filter(|_| found == uri) else { return Err(SkillFault::Contents(uri)) };
    if let Some(SkillResource { digest: expected, size, .. }) = announced {
        if bytes.len() as u64 != size {
            return Err(SkillFault::Size { expected: size, found: bytes.len() as u64 });
        }
        if digest(&bytes) != expected {
            return Err(SkillFault::Digest);
        }
    }
    let file = SkillFile { uri, mime_type, bytes };
    if file.uri == skill.uri {
        let differs = |why: String| SkillFault::Frontmatter(why);
        let text = file.text().ok_or_else(|| differs(format!("{MANIFEST} is not a text")))?;
        let read = parse(text).map_err(differs)?;
        if !frontmatter::same(&read, &skill.frontmatter) {
            return Err(differs("not what the server says of the skill".into()));
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::schema::{BlobResourceContents, SkillFrontmatter, TextResourceContents, encode_base64};

    const URI: &str = "skill://a/b/SKILL.md";
    const TEXT: &str = "---\nname: b\ndescription: d\n---\nDo it.\n";

    fn file(uri: &str, bytes: &[u8]) -> SkillResource {
        SkillResource::new(uri, digest(bytes), bytes.len() as u64)
    }

    fn skill() -> Skill {
        let files = vec![file(URI, TEXT.as_bytes()), file("skill://a/b/x/y.bin", &[0xff, 0])];
        Skill::new(URI, SkillFrontmatter::new("b", "d"), files)
    }

    fn read(skill: &Skill, uri: &str, contents: impl Into<ResourceContents>) -> Result<SkillFile, SkillFault> {
        let announced = announced(skill, uri)?;
        verified(skill, uri.into(), announced, ReadResourceResult::new([contents.into()]))
    }

    #[test]
    fn what_was_announced_is_handed_out() {
        let read_text = read(&skill(), URI, TextResourceContents::new(URI, TEXT)).expect("the file");
        assert_eq!(read_text.text(), Some(TEXT));
        let uri = "skill://a/b/x/y.bin";
        let bytes = encode_base64(&[0xff, 0]);
        let read_bytes = read(&skill(), uri, BlobResourceContents::new(uri, bytes)).expect("the file");
        assert_eq!((read_bytes.bytes.as_slice(), read_bytes.text()), (&[0xff, 0][..], None));
        let dynamic = Skill { resources: SkillResources::Dynamic, ..skill() };
        let uri = "skill://a/b/now";
        assert!(read(&dynamic, uri, TextResourceContents::new(uri, "anything")).is_ok());
    }

    #[test]
    fn whatever_differs_is_refused() {
        let text = |text: &str| TextResourceContents::new(URI, text);
        let longer = format!("{TEXT}More.");
        let found = longer.len() as u64;
        let expected = TEXT.len() as u64;
        assert_eq!(read(&skill(), URI, text(&longer)), Err(SkillFault::Size { expected, found }));
        assert_eq!(read(&skill(), URI, text(&TEXT.replace("Do it", "No it"))), Err(SkillFault::Digest));
        let other = TextResourceContents::new("skill://a/b/x", TEXT);
        assert_eq!(read(&skill(), URI, other), Err(SkillFault::Contents(URI.into())));
        let odd = BlobResourceContents::new(URI, "?");
        assert_eq!(read(&skill(), URI, odd), Err(SkillFault::Contents(URI.into())));
        let two = vec![text(TEXT).into(), text(TEXT).into()];
        let refused = verified(&skill(), URI.into(), None, ReadResourceResult::new(two));
        assert_eq!(refused, Err(SkillFault::Contents(URI.into())));
        // Also where nobody knows the digests.
        for skill in [
            Skill { frontmatter: SkillFrontmatter::new("b", "e"), ..skill() },
            Skill { frontmatter: SkillFrontmatter::new("b", "e"), resources: SkillResources::Dynamic, ..skill() },
        ] {
            let refused = read(&skill, URI, text(TEXT)).expect_err("another description");
            assert!(matches!(refused, SkillFault::Frontmatter(_)), "{refused}");
        }
        let mut more = skill();
        more.frontmatter = serde_json::from_str(r#"{"name":"b","description":"d","license":"MIT"}"#).expect("it");
        assert!(matches!(read(&more, URI, text(TEXT)), Err(SkillFault::Frontmatter(_))));
    }

    #[test]
    fn a_skill_has_the_files_that_it_lists() {
        for uri in ["skill://a/b/z", "skill://a/SKILL.md", "skill://a/b/x", "skill://a/b/x/../SKILL.md"] {
            assert_eq!(announced(&skill(), uri), Err(SkillFault::Unlisted(uri.into())));
        }
        let dynamic = Skill { resources: SkillResources::Dynamic, ..skill() };
        for uri in ["skill://a/c", "skill://a/b", "skill://a/b/../c", "skill://a/b//c", "skill://a/bc"] {
            assert_eq!(announced(&dynamic, uri), Err(SkillFault::Unlisted(uri.into())));
        }
        let one = || file(URI, TEXT.as_bytes());
        for (uri, name, files) in [
            ("skill://a/b/README.md", "b", vec![one()]),
            (URI, "c", vec![one()]),
            (URI, "b", vec![]),
            (URI, "b", vec![one(), one()]),
            (URI, "b", vec![one(), file("skill://a/c", b"")]),
            (URI, "b", vec![one(), file("skill://a/b/../c", b"")]),
        ] {
            let skill = Skill::new(uri, SkillFrontmatter::new(name, "d"), files);
            assert!(matches!(announced(&skill, uri), Err(SkillFault::Entry(_))), "{skill:?}");
        }
    }
}
