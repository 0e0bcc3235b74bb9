//! Which program to start, and how.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
    process::{self, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

/// A program to start as a server, with its arguments. No shell is involved.
///
/// ```
/// use mcp_service::drive::Command;
///
/// let server = Command::new("my-server").arg("--root").arg("/srv").env("LOG", "debug");
/// ```
#[derive(Clone)]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    clear: bool,
    /// Variables that are set, or taken out.
    env: Vec<(OsString, Option<OsString>)>,
    dir: Option<PathBuf>,
    stderr: Stderr,
    patience: Patience,
}

/// What becomes of standard error.
#[derive(Clone)]
enum Stderr {
    Inherit,
    Discard,
    Keep(Option<OnLine>),
}

/// Somebody who wants to see each line.
pub(super) type OnLine = Arc<Mutex<dyn FnMut(&str) + Send>>;

/// How long a process may take to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    pub(super) after_eof: Duration,
    pub(super) after_sigterm: Duration,
}

impl Command {
    /// A program, by its path or by its name in `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            clear: false,
            env: Vec::new(),
            dir: None,
            stderr: Stderr::Keep(None),
            patience: Patience { after_eof: Duration::from_secs(2), after_sigterm: Duration::from_secs(2) },
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item: AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the environment, which is otherwise that of this process.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Begins with an empty environment.
    #[must_use]
    pub fn env_clear(mut self) -> Self {
        self.clear = true;
        self.env.clear();
        self
    }

    /// Takes a variable out of the environment.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), None));
        self
    }

    /// Sets the working directory, which is otherwise that of this process.
    #[must_use]
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.dir = Some(dir.as_ref().to_owned());
        self
    }

    /// Lets standard error go where that of this process goes.
    #[must_use]
    pub fn inherit_stderr(mut self) -> Self {
        self.stderr = Stderr::Inherit;
        self
    }

    /// Throws standard error away.
    #[must_use]
    pub fn discard_stderr(mut self) -> Self {
        self.stderr = Stderr::Discard;
        self
    }

    /// Hands each line of standard error to `line`, which should be quick. The last lines are kept as well, to be shown when
    /// the program fails; without this call, that is all that is done with them.
    #[must_use]
    pub fn on_stderr(mut self, line: impl FnMut(&str) + Send + 'static) -> Self {
        self.stderr = Stderr::Keep(Some(Arc::new(Mutex::new(line))));
        self
    }

    /// How long the program may take to end when its standard input was closed, before it and what it has started
    /// get SIGTERM; and how long they may take after that, before they get SIGKILL. Default two seconds each.
    #[must_use]
    pub fn patience(mut self, after_eof: Duration, after_sigterm: Duration) -> Self {
        self.patience = Patience { after_eof, after_sigterm };
        self
    }

    /// What to call it in an error.
    #[must_use]
    pub fn program(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// The command for the standard library: with pipes, and with a process group of its own. So signals of ours reach all
    /// that it starts, and Ctrl-C does not reach it before us.
    #[must_use]
    pub fn to_std(&self) -> process::Command {
        let mut command = process::Command::new(&self.program);
        command.args(&self.args);
        if self.clear {
            command.env_clear();
        }
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let stderr = match self.stderr {
            Stderr::Inherit => Stdio::inherit(),
            Stderr::Discard => Stdio::null(),
            Stderr::Keep(_) => Stdio::piped(),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    pub(super) const fn keeps_stderr(&self) -> bool {
        matches!(self.stderr, Stderr::Keep(_))
    }

    pub(super) fn on_line(&self) -> Option<OnLine> {
        match &self.stderr {
            Stderr::Keep(on_line) => on_line.clone(),
            Stderr::Inherit | Stderr::Discard => None,
        }
    }

    pub(super) const fn patience_of(&self) -> Patience {
        self.patience
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_std().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_what_was_said() {
        let command = Command::new("program")
            .env("GONE", "1")
            .env_clear()
            .arg("a b")
            .args(["$HOME", ""])
            .env("NAME", "value")
            .env("OTHER", "1")
            .env_remove("OTHER")
            .current_dir("/srv");
        let std = command.to_std();
        assert_eq!((std.get_program(), command.program()), (OsStr::new("program"), "program".to_owned()));
        assert_eq!(std.get_args().collect::<Vec<_>>(), ["a b", "$HOME", ""]);
        let env: Vec<_> = std.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        assert_eq!(env, [(OsStr::new("NAME"), OsStr::new("value"))]);
        assert_eq!(std.get_current_dir(), Some(Path::new("/srv")));
    }
}
