//! Finding programs as a shell of Windows does.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// The extensions of programs if `PATHEXT` is not set.
pub(super) const DEFAULT_EXTENSIONS: &str = ".COM;.EXE;.BAT;.CMD";

/// Returns the file to start for a name, which is looked for in folders, or for a path. Extensions are separated by
/// semicolons. A name that has one of them is also tried as it is, and first.
pub(super) fn find(
    name: &Path,
    folders: &[PathBuf],
    extensions: &str,
    is_file: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let extensions: Vec<&str> = extensions.split(';').filter(|it| it.len() > 1 && it.starts_with('.')).collect();
    let has_extension = |path: &Path| {
        let own = path.extension().map(OsStr::to_ascii_lowercase).unwrap_or_default();
        extensions.iter().any(|extension| own.eq_ignore_ascii_case(&extension[1..]))
    };
    let in_folder = |path: PathBuf| {
        if has_extension(&path) && is_file(&path) {
            return Some(path);
        }
        extensions.iter().find_map(|extension| {
            let mut candidate = path.clone().into_os_string();
            candidate.push(extension.to_ascii_lowercase());
            Some(PathBuf::from(candidate)).filter(|candidate| is_file(candidate))
        })
    };
    let text = name.as_os_str().to_string_lossy();
    if text.is_empty() {
        return None;
    }
    // A path, or a drive: `PATH` is not for these.
    if text.contains(['/', '\\', ':']) {
        return in_folder(name.to_owned());
    }
    // A relative folder would be one of the working directory.
    folders.iter().filter(|folder| is_absolute(folder)).find_map(|folder| in_folder(folder.join(name)))
}

/// Returns whether a folder does not depend on the working directory.
fn is_absolute(folder: &Path) -> bool {
    let text = folder.as_os_str().as_encoded_bytes();
    matches!(text, [b'\\', b'\\', ..] | [_, b':', b'\\' | b'/', ..]) || folder.is_absolute()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_programs_as_a_shell_does() {
        let files = [
            "C:/node/npx.cmd",
            "C:/node/npx",
            "C:/late/npx.exe",
            "C:/tools/server.exe",
            "C:/tools/a.b.bat",
            "./evil.exe",
        ];
        let is_file = |path: &Path| files.iter().any(|file| Path::new(file) == path);
        let folders: Vec<PathBuf> = ["", ".", "C:/node", "C:/late", "C:/tools"].map(PathBuf::from).into();
        let found = |name: &str| find(Path::new(name), &folders, DEFAULT_EXTENSIONS, is_file);
        for (name, file) in [
            // The first folder counts, and there the first extension. A file without an extension is no program.
            ("npx", Some("C:/node/npx.cmd")),
            ("npx.cmd", Some("C:/node/npx.cmd")),
            ("npx.exe", Some("C:/late/npx.exe")),
            ("server", Some("C:/tools/server.exe")),
            ("a.b", Some("C:/tools/a.b.bat")),
            ("C:/tools/server", Some("C:/tools/server.exe")),
            ("C:/tools/server.exe", Some("C:/tools/server.exe")),
            // Nothing of the working directory, unless it is asked for.
            ("evil", None),
            ("./evil", Some("./evil.exe")),
            ("missing", None),
            ("", None),
        ] {
            assert_eq!(found(name).as_deref(), file.map(Path::new), "{name}");
        }
        let folders = [PathBuf::from("C:/node"), PathBuf::from("C:/late")];
        assert_eq!(find(Path::new("npx"), &folders, ".PS1;nonsense;.", is_file), None, "other extensions");
        for (folder, absolute) in [("C:\\a", true), ("\\\\server\\share", true), ("a\\b", false), ("C:a", false)] {
            assert_eq!(is_absolute(Path::new(folder)), absolute, "{folder}");
        }
    }
}
