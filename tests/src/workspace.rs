//! The files of this workspace, for tests that read the sources.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The folders that hold code.
pub const CODE: [&str; 5] = ["core", "adapters", "tests", "fuzz", "benches"];

/// Folders that hold what tools wrote.
const GENERATED: [&str; 4] = ["target", "node_modules", "corpus", "artifacts"];

/// The root folder of the workspace.
///
/// # Panics
/// If the `tests` package stands alone, outside of its workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_owned()
}

/// A text file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path, seen from the folder that was asked for.
    pub path: PathBuf,
    /// Its whole content.
    pub text: String,
}

/// Every file under `root`/`folders` whose extension is one of `extensions`, sorted by path. What tools generated is left out.
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
