//! The files of this workspace, for tests that read the sources.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The folders that contain code.
pub const CODE: [&str; 5] = ["core", "adapters", "tests", "fuzz", "benches"];

/// Folders with generated files.
const GENERATED: [&str; 4] = ["target", "node_modules", "corpus", "artifacts"];

/// Returns the root folder of the workspace.
///
/// # Panics
/// If the `tests` package is outside of its workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_owned()
}

/// A text file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path, relative to the root folder.
    pub path: PathBuf,
    /// Its whole content.
    pub text: String,
}

/// Returns all files under `root`/`folders` with one of `extensions`, sorted by path, without generated files.
///
/// # Errors
/// If a folder or a file cannot be read. A folder that does not exist counts as empty.
pub fn sources(root: &Path, folders: &[&str], extensions: &[&str]) -> io::Result<Vec<Source>> {
    let mut found = Vec::new();
    for folder in folders {
        let folder = root.join(folder);
        if folder.is_dir() {
            collect(root, &folder, extensions, &mut found)?;
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(root: &Path, folder: &Path, extensions: &[&str], found: &mut Vec<Source>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if !entry.file_name().to_str().is_some_and(|name| GENERATED.contains(&name) || name.starts_with('.')) {
                collect(root, &path, extensions, found)?;
            }
        } else if path.extension().and_then(|end| end.to_str()).is_some_and(|end| extensions.contains(&end)) {
            let text = fs::read_to_string(&path)?;
            let path = path.strip_prefix(root).map_or_else(|_| path.clone(), Path::to_owned);
            found.push(Source { path, text });
        }
    }
    Ok(())
}
