//! How programs are found and started.

use std::{
    ffi::{OsStr, OsString},
    process,
};

/// The variables that a program inherits by default: those needed to find programs and files and to run a shell. Other
/// SDKs use the same list.
#[cfg(not(windows))]
pub(crate) const DEFAULT_ENV: &[&str] = &["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

/// The variables that a program inherits by default: those needed to find programs and files, and by the system itself.
/// Other SDKs use the same list, some without `COMSPEC` and `PATHEXT`, by which programs find others.
#[cfg(windows)]
pub(crate) const DEFAULT_ENV: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
];

/// Returns whether two names are those of the same variable.
pub(crate) fn is_same_variable(left: &OsStr, right: &OsStr) -> bool {
    if cfg!(windows) { left.eq_ignore_ascii_case(right) } else { left == right }
}

/// Returns the program to start for a name or a path. The system itself looks for a name in `PATH`.
#[cfg(not(windows))]
pub(crate) fn program(name: &OsStr, _path: Option<&OsStr>) -> OsString {
    name.to_owned()
}

/// Returns the program to start for a name or a path. The system looks for programs with the extension `.exe` only, but
/// `npx`, for example, is a batch file. So the folders of `PATH`, or of `path` if the program has one of its own, are
/// searched as a shell does, except for the working directory: a program there could take the place of another one.
#[cfg(windows)]
pub(crate) fn program(name: &OsStr, path: Option<&OsStr>) -> OsString {
    use std::{env, path::Path};

    use super::program_search::{DEFAULT_EXTENSIONS, find};

    let path = path.map(ToOwned::to_owned).or_else(|| env::var_os("PATH")).unwrap_or_default();
    let folders: Vec<_> = env::split_paths(&path).collect();
    let extensions = env::var("PATHEXT").unwrap_or_else(|_| DEFAULT_EXTENSIONS.to_owned());
    let found = find(Path::new(name), &folders, &extensions, |candidate| candidate.is_file());
    // The system must not search again, by rules of its own: a path with a folder is not searched.
    found.map_or_else(|| Path::new(".\\no-such-folder").join(name).into(), Into::into)
}

/// Starts the program apart from this process. With a process group of its own, this process can signal all processes
/// that the program starts, and Ctrl-C does not reach them directly. On Windows it has a console that is not shown, for
/// the same reason, and so that a host with windows shows no other ones.
pub(crate) fn set_apart(command: &mut process::Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(windows)]
    std::os::windows::process::CommandExt::creation_flags(command, super::windows::CREATION_FLAGS);
    #[cfg(not(any(unix, windows)))]
    let _ = command;
}
