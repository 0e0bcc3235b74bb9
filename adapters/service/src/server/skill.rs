//! Skills: folders of instructions for models, whose files are resources.

use std::{collections::HashSet, fmt, fs, io, path::Path, sync::Arc, time::Duration};

use mcp_proto::schema::{
    self, BlobResourceContents, CacheHints, CacheScope, ResourceContents, SKILL_LIMITS, SkillFrontmatter,
    SkillResource, SkillResources, TextResourceContents, encode_base64,
};

use super::{
    register_error::RegisterError,
    resource::{Resource, hints},
};
use crate::{
    skills::{MANIFEST, digest, frontmatter::parse, root},
    util::{
        media_type::media_type_of,
        uri::{escape_segment, is_uri},
    },
};

/// A skill: a folder with a file `SKILL.md`, which instructs a model how to do something, and with other files.
///
/// Clients find it with `skills/list`, together with the digests of all of its files. The files are ordinary resources:
/// a client needs support of skills to find the skill, but not to read its files.
///
/// ```
/// use mcp_service::{Service, Skill};
///
/// let refunds = Skill::new(
///     "acme/billing/refunds",
///     "---\nname: refunds\ndescription: Gives money back as the policy says\n---\nWrite as `examples/email.md` does.\n",
/// )
/// .file("examples/email.md", "Dear customer");
/// let service = Service::builder("billing", "1.0.0").skill(refunds).build()?;
/// # Ok::<(), mcp_service::RegisterError>(())
/// ```
pub struct Skill {
    /// The URI of its `SKILL.md`.
    uri: String,
    files: Vec<File>,
    /// The folders in it that are skills, too.
    nested: Vec<String>,
    hints: Option<CacheHints>,
    /// The frontmatter of a skill without files here: other handlers generate them.
    dynamic: Option<SkillFrontmatter>,
}

struct File {
    /// The path in the folder of the skill.
    path: String,
    mime_type: Option<String>,
    bytes: Arc<[u8]>,
}

impl Skill {
    /// Creates the skill with the folder `path`, for example `git-workflow` or `acme/billing/refunds`: its files are at
    /// `skill://acme/billing/refunds/..`. The text is that of its `SKILL.md`. It begins with YAML between two lines
    /// `---`, which contains the name, that of the folder, and a description.
    #[must_use]
    pub fn new(path: &str, text: impl Into<String>) -> Self {
        Self::at(format!("skill://{path}/{MANIFEST}"), text)
    }

    /// Creates a skill as [`new`](Self::new) does, with the whole URI of the `SKILL.md`, which may have another scheme.
    #[must_use]
    pub fn at(uri: impl Into<String>, text: impl Into<String>) -> Self {
        let skill = Self { uri: uri.into(), files: Vec::new(), nested: Vec::new(), hints: None, dynamic: None };
        skill.file(MANIFEST, text.into())
    }

    /// Creates a skill from a folder of this machine, with the current contents of all files in it. `path` is as in
    /// [`new`](Self::new). It blocks while it reads.
    ///
    /// # Errors
    /// If an entry cannot be read, or is neither a file nor a folder, or the files exceed the [limits](SKILL_LIMITS) of
    /// a skill.
    pub fn from_folder(path: &str, folder: impl AsRef<Path>) -> io::Result<Self> {
        let folder = folder.as_ref();
        let mut skill = Self::new(path, fs::read_to_string(folder.join(MANIFEST))?);
        skill.gather(folder, "")?;
        Ok(skill)
    }

    fn gather(&mut self, folder: &Path, path: &str) -> io::Result<()> {
        let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let odd = |why: &str| io::Error::other(format!("{} {why}", entry.path().display()));
            let name = entry.file_name().into_string().map_err(|_| odd("has a name that is not UTF-8"))?;
            let (path, kind) = (format!("{path}{name}"), entry.file_type()?);
            if kind.is_dir() {
                self.gather(&entry.path(), &format!("{path}/"))?;
            } else if !kind.is_file() {
                return Err(odd("is neither a file nor a folder"));
            } else if path != MANIFEST {
                let so_far: u64 = self.files.iter().map(|file| file.bytes.len() as u64).sum();
                if self.files.len() >= SKILL_LIMITS.0 || so_far + entry.metadata()?.len() > SKILL_LIMITS.1 {
                    return Err(odd("is more than a skill can have"));
                }
                let bytes = fs::read(entry.path())?;
                self.files.push(File { path, mime_type: None, bytes: bytes.into() });
            }
        }
        Ok(())
    }

    /// Creates a skill whose files are generated when they are read, so that their digests are unknown. Register the
    /// handlers of its `SKILL.md` and its other files as [resources](Resource) or [templates](crate::ResourceTemplate).
    /// Some clients do not load such skills.
    #[must_use]
    pub fn dynamic(uri: impl Into<String>, name: impl Into<String>, description: impl Into<String>) -> Self {
        let dynamic = Some(SkillFrontmatter::new(name, description));
        Self { uri: uri.into(), files: Vec::new(), nested: Vec::new(), hints: None, dynamic }
    }

    /// Changes the frontmatter of a [dynamic](Self::dynamic) skill: its `SKILL.md` begins with it. Does nothing for
    /// other skills, whose `SKILL.md` contains it.
    #[must_use]
    pub fn frontmatter(mut self, f: impl FnOnce(&mut SkillFrontmatter)) -> Self {
        self.dynamic.as_mut().map(f);
        self
    }

    /// Adds a file: its path in the folder, with `/` between names, and its contents. Its media type follows from its
    /// name.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, contents: impl AsRef<[u8]>) -> Self {
        self.files.push(File { path: path.into(), mime_type: None, bytes: contents.as_ref().into() });
        self
    }

    /// Adds a file as [`file`](Self::file) does, with this media type, for example `text/csv`.
    #[must_use]
    pub fn file_as(mut self, path: impl Into<String>, mime_type: &str, contents: impl AsRef<[u8]>) -> Self {
        let bytes = contents.as_ref().into();
        self.files.push(File { path: path.into(), mime_type: Some(mime_type.into()), bytes });
        self
    }

    /// Registers a folder in it, which has its own `SKILL.md`, as a skill, too.
    #[must_use]
    pub fn nested(mut self, path: impl Into<String>) -> Self {
        self.nested.push(path.into());
        self
    }

    /// Sets how long clients may cache the files, and whether caches may share them between users (2026-07-28). Clients
    /// that subscribe to changes are still notified. Default: no caching.
    #[must_use]
    #[doc(alias = "ttl")]
    pub fn cache_for(mut self, time: Duration, scope: CacheScope) -> Self {
        self.hints = Some(hints(time, scope));
        self
    }

    /// Returns the URI of its `SKILL.md`.
    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the skills and files to register for it.
    pub(super) fn publish(self) -> Result<ExpandedSkill, RegisterError> {
        let uri = self.uri.clone();
        self.published().map_err(|why| RegisterError::Skill { skill: uri, why })
    }

    fn published(self) -> Result<ExpandedSkill, String> {
        let (root, _) = root(&self.uri).ok_or("its URI does not end with a name and /SKILL.md")?;
        if !is_uri(&self.uri) {
            return Err("its URI is not valid".into());
        }
        if let Some(frontmatter) = self.dynamic {
            let about = about(&self.uri, frontmatter, SkillResources::Dynamic)?;
            return Ok(ExpandedSkill { skills: vec![SkillEntry::new(about, self.hints)], files: Vec::new() });
        }
        let (most, most_bytes) = SKILL_LIMITS;
        if self.files.len() > most || self.files.iter().map(|file| file.bytes.len() as u64).sum::<u64>() > most_bytes {
            return Err(format!("it has more than {most} files, or {most_bytes} bytes in them"));
        }
        let mut uris = Vec::new();
        let mut seen = HashSet::new();
        for file in &self.files {
            let segments: Vec<_> = file.path.split('/').collect();
            if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) || !seen.insert(&file.path) {
                return Err(format!("{:?} occurs twice, or is not a relative path", file.path));
            }
            let path: Vec<_> = segments.into_iter().map(escape_segment).collect();
            uris.push(format!("{root}/{}", path.join("/")));
        }
        if let Some(file) = self.files.iter().find(|file| {
            let is_folder = |path: &str| {
                seen.iter().any(|other| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
            };
            is_folder(&file.path)
        }) {
            return Err(format!("{:?} is both a file and a folder", file.path));
        }
        let mut skills = Vec::new();
        for folder in std::iter::once("").chain(self.nested.iter().map(String::as_str)) {
            let inside =
                |path: &str| folder.is_empty() || path.strip_prefix(folder).is_some_and(|path| path.starts_with('/'));
            let manifest = if folder.is_empty() { MANIFEST.to_owned() } else { format!("{folder}/{MANIFEST}") };
            let files = || uris.iter().zip(&self.files).filter(|(_, file)| inside(&file.path));
            let (uri, text) =
                files().find(|(_, file)| file.path == manifest).ok_or_else(|| format!("{manifest} is missing"))?;
            let text = std::str::from_utf8(&text.bytes).map_err(|_| format!("{manifest} is not a text"))?;
            let frontmatter = parse(text).map_err(|why| format!("{manifest}: {why}"))?;
            let resources: Vec<_> = files()
                .map(|(uri, file)| SkillResource::new(uri.clone(), digest(&file.bytes), file.bytes.len() as u64))
                .collect();
            let about = about(uri, frontmatter, resources.into()).map_err(|why| format!("{manifest}: {why}"))?;
            skills.push(SkillEntry::new(about, self.hints.clone()));
        }
        let whole = skills[0].about.clone();
        let files = uris.iter().zip(self.files).map(|(uri, file)| {
            let manifest = skills.iter().find(|skill| skill.about.uri == *uri);
            let resource = file.resource(uri, manifest.map_or(&whole, |skill| &skill.about), manifest.is_some());
            resource.of_skill(whole.clone(), self.hints.clone())
        });
        let files: Vec<_> = files.collect();
        skills[0].files = uris;
        skills[0].nested = skills[1..].iter().map(|skill| skill.about.uri.clone()).collect();
        Ok(ExpandedSkill { skills, files })
    }
}

impl fmt::Debug for Skill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Skill").field("uri", &self.uri).field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl File {
    /// Creates its resource. The name and description of `SKILL.md` are those of the skill.
    fn resource(self, uri: &str, skill: &schema::Skill, is_manifest: bool) -> Resource {
        let SkillFrontmatter { name: whole, description, .. } = &skill.frontmatter;
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let mime_type = self.mime_type.as_deref().unwrap_or_else(|| media_type_of(name, &self.bytes)).to_owned();
        let (name, description) = if is_manifest {
            (whole, description.clone())
        } else {
            (&name.to_owned(), format!("A file of the skill {whole}"))
        };
        let (size, bytes) = (self.bytes.len() as u64, self.bytes.clone());
        Resource::new(uri, name, move || match std::str::from_utf8(&bytes) {
            Ok(text) => ResourceContents::from(TextResourceContents::new("", text)),
            Err(_) => ResourceContents::from(BlobResourceContents::new("", encode_base64(&bytes))),
        })
        .description(description)
        .mime_type(mime_type)
        .size(size)
    }
}

/// Creates the definition of a skill, after checking it.
fn about(uri: &str, frontmatter: SkillFrontmatter, resources: SkillResources) -> Result<Arc<schema::Skill>, String> {
    let name = &frontmatter.name;
    if !is_name(name) {
        return Err(format!(
            "{name:?} cannot be the name of a skill: 1 to 64 small letters, digits and single hyphens"
        ));
    }
    if root(uri).is_none_or(|(_, folder)| folder != name) {
        return Err(format!("its folder is not called {name:?}"));
    }
    if frontmatter.description.trim().is_empty() || frontmatter.description.chars().count() > 1024 {
        return Err("its description has not 1 to 1,024 characters".into());
    }
    Ok(Arc::new(schema::Skill::new(uri, frontmatter, resources)))
}

fn is_name(name: &str) -> bool {
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    name.len() <= 64 && name.split('-').all(is_word)
}

/// The items to register for a skill: itself first, then nested skills, and all files.
pub(super) struct ExpandedSkill {
    pub(super) skills: Vec<SkillEntry>,
    pub(super) files: Vec<Resource>,
}

/// A skill in the catalog.
#[derive(Debug)]
pub(crate) struct SkillEntry {
    pub(super) about: Arc<schema::Skill>,
    pub(super) hints: Option<CacheHints>,
    /// The files that were registered with it.
    pub(super) files: Vec<String>,
    /// The nested skills that were registered with it.
    pub(super) nested: Vec<String>,
}

impl SkillEntry {
    fn new(about: Arc<schema::Skill>, hints: Option<CacheHints>) -> Self {
        Self { about, hints, files: Vec::new(), nested: Vec::new() }
    }
}
