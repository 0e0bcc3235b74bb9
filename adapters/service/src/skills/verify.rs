//! Verification of the files of a skill against the server's announcement.

use std::{collections::HashSet, fmt};

use mcp_proto::schema::{ReadResourceResult, ResourceContents, Skill, SkillResource, SkillResources, decode_base64};

use super::{
    MANIFEST, digest,
    frontmatter::{self, parse},
    root,
};
use crate::util::text_arguments::excerpt;

/// The reason for which a file of a skill must not be used.
///
/// The file may have changed since the skill was listed: request the skill again, and have the user approve it again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillFault {
    /// The server's entry for the skill contradicts itself. The text describes the contradiction.
    Entry(String),
    /// This file does not belong to the skill.
    Unlisted(String),
    /// The response does not contain exactly one file with this URI.
    Contents(String),
    /// The file has another size.
    Size {
        /// The size in the skill's announcement, in bytes.
        expected: u64,
        /// The size of the file, in bytes.
        found: u64,
    },
    /// The file has another digest.
    Digest,
    /// The frontmatter of `SKILL.md` differs from the skill's announcement. The text describes the difference.
    Frontmatter(String),
}

impl fmt::Display for SkillFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(why) => write!(f, "the skill contradicts itself: {why}"),
            Self::Unlisted(uri) => write!(f, "{uri} does not belong to the skill"),
            Self::Contents(uri) => write!(f, "the response is not the file {uri}"),
            Self::Size { expected, found } => write!(f, "the file has {found} bytes and not {expected}"),
            Self::Digest => f.write_str("the file has another digest"),
            Self::Frontmatter(why) => write!(f, "the frontmatter of SKILL.md is invalid: {why}"),
        }
    }
}

impl std::error::Error for SkillFault {}

/// A file of a skill that matches the server's announcement.
///
/// That does not mean that it can be trusted: both are from the same server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillFile {
    /// The URI from which it was read.
    pub uri: String,
    /// The decoded path in the folder of the skill, such as `scripts/run.py`. Each part is the name of a file or a
    /// folder: none is empty, `.` or `..`, has a separator, a control character or a colon in it, ends with a dot or a
    /// space, or is the name of a Windows device, such as `NUL` or `com1.txt`. So a file stays in the folder that it is
    /// written to, on Unix and on Windows.
    pub path: String,
    /// The media type, if the server has sent one.
    pub mime_type: Option<String>,
    /// The contents.
    pub bytes: Vec<u8>,
}

impl SkillFile {
    /// Returns the contents as text, if they are UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}

/// Returns the server's announcement of one file of a skill; `None` if the skill's files are dynamic.
///
/// # Errors
/// If the file does not belong to the skill, or the skill's entry contradicts itself.
pub(crate) fn announced(skill: &Skill, uri: &str) -> Result<Option<SkillResource>, SkillFault> {
    let contradicts = |why: &str| Err(SkillFault::Entry(why.into()));
    let Some((root, name)) = root(&skill.uri) else { return contradicts("its URI does not end with /SKILL.md") };
    if name != skill.frontmatter.name {
        return contradicts("its folder is not called like it");
    }
    let is_plain = |path: &str| path.split('/').filter(|name| !name.is_empty()).all(|name| plain_name(name).is_some());
    if !root.split_once(':').is_some_and(|(_, path)| is_plain(path)) {
        return contradicts("its URI leads out of a folder");
    }
    let files = match &skill.resources {
        SkillResources::Dynamic if path_in(root, uri).is_some() => return Ok(None),
        SkillResources::Dynamic => return Err(SkillFault::Unlisted(uri.into())),
        SkillResources::Listed(files) => files,
    };
    let mut seen = HashSet::new();
    if let Some(odd) = files.iter().find(|file| path_in(root, &file.uri).is_none_or(|path| !seen.insert(path))) {
        return contradicts(&excerpt(&format_args!("{} is listed twice, or is outside of the skill", odd.uri)));
    }
    if !files.iter().any(|file| file.uri == skill.uri) {
        return contradicts("its SKILL.md is not listed");
    }
    match files.iter().find(|file| file.uri == uri) {
        Some(file) => Ok(Some(file.clone())),
        None => Err(SkillFault::Unlisted(uri.into())),
    }
}

/// Returns the path of a file in the folder of a skill, if it is in it.
fn path_in(root: &str, uri: &str) -> Option<String> {
    let path = uri.strip_prefix(root)?.strip_prefix('/')?;
    let names = path.split('/').map(file_name).collect::<Option<Vec<_>>>()?;
    Some(names.join("/"))
}

/// Names that Windows takes for devices in any folder, also with an extension.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
/// Names of devices that end with a digit.
const NUMBERED_DEVICES: [&str; 2] = ["COM", "LPT"];

/// Decodes a part of a path, if it is a valid name of a file or a folder on Unix and on Windows.
fn file_name(part: &str) -> Option<String> {
    let name = plain_name(part)?;
    // On Windows a colon marks streams of a file and drives, and dots and spaces at the end are cut off.
    let leads_elsewhere = name.contains(':') || name.ends_with(['.', ' ']) || is_device(&name);
    (!leads_elsewhere).then_some(name)
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end_matches(' ');
    let is = |device: &str| stem.eq_ignore_ascii_case(device);
    let is_numbered = stem.char_indices().next_back().is_some_and(|(at, last)| {
        let is_number = last.is_ascii_digit() || matches!(last, '\u{b9}' | '\u{b2}' | '\u{b3}');
        is_number && NUMBERED_DEVICES.iter().any(|device| stem[..at].eq_ignore_ascii_case(device))
    });
    is_numbered || DEVICES.into_iter().any(is)
}

/// Decodes a part of a path, if it leads to no other folder.
fn plain_name(part: &str) -> Option<String> {
    let name = percent_decoded(part)?;
    let is_name =
        !matches!(&*name, "" | "." | "..") && !name.contains(|c: char| matches!(c, '/' | '\\') || c.is_control());
    is_name.then_some(name)
}

/// Decodes the escapes of a part of a path; `None` if the result is not UTF-8.
fn percent_decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let (digits, tail) = tail.split_first_chunk::<2>()?;
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            bytes.push(digit(digits[0])? * 16 + digit(digits[1])?);
            rest = tail;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Returns the file in a server's response, if it matches the announcement.
///
/// # Errors
/// If it does not match.
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
    let path = root(&skill.uri).and_then(|(root, _)| path_in(root, &uri));
    let Some(path) = path else { return Err(SkillFault::Unlisted(uri)) };
    let file = SkillFile { uri, path, mime_type, bytes };
    if file.uri == skill.uri {
        let differs = |why: String| SkillFault::Frontmatter(why);
        let text = file.text().ok_or_else(|| differs(format!("{MANIFEST} is not a text")))?;
        let read = parse(text).map_err(differs)?;
        if !frontmatter::same(&read, &skill.frontmatter) {
            return Err(differs("it differs from the description by the server".into()));
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
    fn returns_files_that_match_the_listing() {
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

    /// Paths that lead out of the folder of a skill, or to another file than they name.
    const OUTSIDE: [&str; 44] = [
        "..",
        ".",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "%2e",
        "x/../../c",
        "x/%2e%2e/%2e%2e/c",
        "..%2fc",
        "x%2F..",
        "x\\..\\c",
        "..\\c",
        "..%5cc",
        "%5c%5chost",
        "x//y",
        "x/",
        "",
        "%00",
        "x%0ay",
        "%ff",
        "%2",
        "%zz",
        // These lead elsewhere on Windows: drives, streams of a file, devices, and names that are cut at their end.
        "C:/c",
        "C:",
        "c%3A",
        "x:y",
        "SKILL.md::$DATA",
        "CON",
        "x/nul",
        "Aux.md",
        "prn.tar.gz",
        "NUL%20.txt",
        "COM1",
        "com0.txt",
        "LPT9",
        "lpt%C2%B2.md",
        "CONIN$",
        "conout$.txt",
        "x.",
        "x./y",
        "x%20",
        "x%20/y",
        "...",
        ".%20.",
    ];

    #[test]
    fn rejects_paths_outside_the_skill_folder() {
        let dynamic = Skill { resources: SkillResources::Dynamic, ..skill() };
        let path = |uri: &str| read(&dynamic, uri, TextResourceContents::new(uri, "x")).map(|file| file.path);
        assert_eq!(path("skill://a/b/x/y.bin").as_deref(), Ok("x/y.bin"));
        assert_eq!(path("skill://a/b/x%20y/%C3%A9..txt").as_deref(), Ok("x y/é..txt"));
        for out in OUTSIDE {
            let uri = format!("skill://a/b/{out}");
            assert_eq!(path(&uri), Err(SkillFault::Unlisted(uri.clone())), "{out}");
            let listed = Skill::new(URI, SkillFrontmatter::new("b", "d"), vec![file(URI, b""), file(&uri, b"")]);
            assert!(matches!(announced(&listed, &uri), Err(SkillFault::Entry(_))), "{out}");
        }
        for name in [
            "console",
            "NULL",
            "com10",
            "com",
            "lpt.md",
            "x.con",
            "auxiliary.md",
            "%20x",
            ".x",
            "..x",
            "x%20y",
            "a.b.c",
        ] {
            assert!(path(&format!("skill://a/b/{name}")).is_ok(), "{name}");
        }
        // What comes before the folder is not put anywhere.
        let elsewhere = Skill { uri: "https://a:80/con/b/SKILL.md".into(), ..dynamic.clone() };
        assert_eq!(announced(&elsewhere, "https://a:80/con/b/x"), Ok(None));
        // Nor does its own folder lead elsewhere.
        for root in ["skill://a/../b", "skill://a/%2e%2e/b", "skill://../b", "skill://a\\..\\c/b", "skill:..%2f/b"] {
            let uri = format!("{root}/SKILL.md");
            let skill = Skill { uri: uri.clone(), resources: SkillResources::Dynamic, ..skill() };
            assert!(matches!(announced(&skill, &uri), Err(SkillFault::Entry(_))), "{root}");
        }
        // Two ways to write one path are one file.
        let twice = vec![file(URI, b""), file("skill://a/b/x", b""), file("skill://a/b/%78", b"")];
        let twice = Skill::new(URI, SkillFrontmatter::new("b", "d"), twice);
        assert!(matches!(announced(&twice, URI), Err(SkillFault::Entry(_))));
    }

    #[test]
    fn rejects_files_that_differ_from_the_listing() {
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
        // Also where the digests are unknown.
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
    fn rejects_unlisted_skill_files() {
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
