//! Which program to start, and how.

use std::{
    ffi::OsStr,
    fmt, io,
    os::unix::process::CommandExt,
    path::Path,
    process::{self, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    Transport,
    child::{Child, Patience, Stderr},
};

/// A program to start as a server, with its arguments. No shell is involved.
///
/// ```no_run
/// use mcp_blocking::Command;
///
/// let server = Command::new("my-server").arg("--root").arg("/srv").env("LOG", "debug");
/// ```
pub struct Command {
    inner: process::Command,
    stderr: Stderr,
    patience: Patience,
}

impl Command {
    /// A program, by its path or by its name in `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { inner: process::Command::new(program), stderr: Stderr::Keep(None), patience: Patience::default() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.inner.arg(arg);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item: AsRef<OsStr>>) -> Self {
        self.inner.args(args);
        self
    }

    /// Sets a variable of the environment, which is otherwise that of this process.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.inner.env(name, value);
        self
    }

    /// Begins with an empty environment.
    #[must_use]
    pub fn env_clear(mut self) -> Self {
        self.inner.env_clear();
        self
    }

    /// Takes a variable out of the environment.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.inner.env_remove(name);
        self
    }

    /// Sets the working directory, which is otherwise that of this process.
    #[must_use]
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.inner.current_dir(dir);
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

    /// Hands each line of standard error to `line`, on a thread of its own. The last lines are kept as well, to be
    /// shown when the program fails; without this call, that is all that is done with them.
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
    pub(crate) fn program(&self) -> String {
        self.inner.get_program().to_string_lossy().into_owned()
    }

    /// Starts the program. It can be started more than once.
    pub(crate) fn spawn(&mut self) -> io::Result<(Transport, Child)> {
        let stderr = match self.stderr {
            Stderr::Inherit => Stdio::inherit(),
            Stderr::Discard => Stdio::null(),
            Stderr::Keep(_) => Stdio::piped(),
        };
        // A group of its own: signals of ours reach all that it starts, and Ctrl-C does not reach it before us.
        self.inner.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).process_group(0);
        Child::adopt(self.inner.spawn()?, self.stderr.clone(), self.patience)
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
