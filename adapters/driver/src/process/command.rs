//! The command that starts a child process.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
    process::{self, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::os::command;

/// A program to start as a server, with its arguments. No shell is involved.
///
/// `Debug` shows the program, the number of arguments and the names of variables, but not their values, which may be
/// secret.
///
/// ```
/// use mcp_driver::Command;
///
/// let server = Command::new("my-server").arg("--root").arg("/srv").env("LOG", "debug");
/// ```
#[derive(Clone)]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    inherits: InheritedEnv,
    /// Variables that are set, or removed if the value is `None`.
    env: Vec<(OsString, Option<OsString>)>,
    dir: Option<PathBuf>,
    stderr: Stderr,
    /// The grace periods, unless they are the default ones.
    shutdown_timeouts: Option<ShutdownTimeouts>,
}

/// The variables of this process that the program inherits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InheritedEnv {
    Nothing,
    Usual,
    All,
}

/// How standard error is handled.
#[derive(Clone)]
enum Stderr {
    Inherit,
    Discard,
    Keep(Option<OnLine>),
}

/// A callback that receives each line of standard error.
pub(crate) type OnLine = Arc<Mutex<dyn FnMut(&str) + Send>>;

/// The longest grace period. Clocks cannot add much longer ones to the current time.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The grace periods of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShutdownTimeouts {
    pub(crate) after_eof: Duration,
    pub(crate) after_sigterm: Duration,
}

impl ShutdownTimeouts {
    /// The default ones.
    pub(crate) const DEFAULT: Self = Self { after_eof: Duration::from_secs(2), after_sigterm: Duration::from_secs(2) };

    /// The default ones in a process that ends because of a signal. Together they are shorter than the period that its
    /// own parent waits after SIGTERM, which is two seconds where the parent is such a client. After that the process
    /// is killed, and could not end its children any more.
    pub(crate) const OF_ENDING_PROCESS: Self =
        Self { after_eof: Duration::from_secs(1), after_sigterm: Duration::from_millis(500) };
}

impl Command {
    /// Creates a command for a program, by its path or by its name in `PATH`.
    ///
    /// On Windows the extensions of `PATHEXT` are tried as a shell does, so `npx` finds `npx.cmd`. Batch files are
    /// started by `cmd.exe` with arguments that are quoted for it. Arguments that cannot be are an error.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            inherits: InheritedEnv::Usual,
            env: Vec::new(),
            dir: None,
            stderr: Stderr::Keep(None),
            shutdown_timeouts: None,
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

    /// Sets a variable of the environment.
    ///
    /// Of the variables of this process, the program inherits only `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and
    /// `USER`, and on Windows those of the system and of the user's folders: most servers are third-party programs, and
    /// other variables may be secret. See [`inherit_env`](Self::inherit_env).
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Passes all variables of this process to the program, secrets included.
    #[must_use]
    pub fn inherit_env(mut self) -> Self {
        self.inherits = InheritedEnv::All;
        self
    }

    /// Clears the environment, including the variables that a program inherits by default.
    #[must_use]
    pub fn env_clear(mut self) -> Self {
        self.inherits = InheritedEnv::Nothing;
        self.env.clear();
        self
    }

    /// Removes a variable from the environment.
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

    /// Lets the program inherit the standard error of this process.
    #[must_use]
    pub fn inherit_stderr(mut self) -> Self {
        self.stderr = Stderr::Inherit;
        self
    }

    /// Discards standard error.
    #[must_use]
    pub fn discard_stderr(mut self) -> Self {
        self.stderr = Stderr::Discard;
        self
    }

    /// Calls `line` with each line of standard error; it should return quickly. The last lines are kept in any case, to
    /// be shown when the program fails.
    #[must_use]
    pub fn on_stderr(mut self, line: impl FnMut(&str) + Send + 'static) -> Self {
        self.stderr = Stderr::Keep(Some(Arc::new(Mutex::new(line))));
        self
    }

    /// Sets the grace periods of a shutdown. When the first has passed after its standard input was closed, the
    /// program, if it still runs, and its descendants get SIGTERM. Descendants that outlive the program get it at once.
    /// When the second period has passed after that, those that still run get SIGKILL. Windows has no SIGTERM: there
    /// they are ended after the first period.
    ///
    /// Default two seconds each. When a signal ends this process (`shutdown_on_signals`), the default is one second and
    /// half a second, also for a shutdown that has begun before: the parent of this process may wait only two seconds
    /// until it kills this process, which then leaves its children behind.
    #[must_use]
    pub fn shutdown_timeouts(mut self, after_eof: Duration, after_sigterm: Duration) -> Self {
        let [after_eof, after_sigterm] = [after_eof, after_sigterm].map(|timeout| timeout.min(MAX_TIMEOUT));
        self.shutdown_timeouts = Some(ShutdownTimeouts { after_eof, after_sigterm });
        self
    }

    /// Returns the name of the program for errors.
    #[must_use]
    pub fn program(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Returns the command for the standard library, with pipes and a process group of its own. With the group, this
    /// process can signal all processes that the program starts, and Ctrl-C does not reach them directly. On Windows
    /// the program was looked for, and has a console that is not shown.
    #[must_use]
    pub fn to_std(&self) -> process::Command {
        let mut command = process::Command::new(command::program(&self.program, self.path()));
        command.args(&self.args);
        if self.inherits != InheritedEnv::All {
            command.env_clear();
        }
        if self.inherits == InheritedEnv::Usual {
            command.envs(command::DEFAULT_ENV.iter().filter_map(|name| Some((name, env::var_os(name)?))));
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
        command::set_apart(&mut command);
        command
    }

    /// Returns the variable `PATH` that the program gets, if it differs from that of this process.
    fn path(&self) -> Option<&OsStr> {
        let mut own = self.env.iter().rev().filter(|(name, _)| command::is_same_variable(name, OsStr::new("PATH")));
        match own.next() {
            Some((_, value)) => Some(value.as_deref().unwrap_or_default()),
            None => (self.inherits == InheritedEnv::Nothing).then_some(OsStr::new("")),
        }
    }

    pub(crate) const fn keeps_stderr(&self) -> bool {
        matches!(self.stderr, Stderr::Keep(_))
    }

    pub(crate) fn on_line(&self) -> Option<OnLine> {
        match &self.stderr {
            Stderr::Keep(on_line) => on_line.clone(),
            Stderr::Inherit | Stderr::Discard => None,
        }
    }

    pub(crate) const fn get_shutdown_timeouts(&self) -> Option<ShutdownTimeouts> {
        self.shutdown_timeouts
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments and the values of variables may be secret.
        let names = |is_set: bool| {
            let names = self.env.iter().filter(move |(_, value)| value.is_some() == is_set).map(|(name, _)| name);
            names.collect::<Vec<_>>()
        };
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &names(true))
            .field("env_removed", &names(false))
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_has_configured_arguments_and_environment() {
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
        assert_eq!(command.program(), "program");
        // On Windows the program is searched for here, and there is none.
        #[cfg(unix)]
        assert_eq!(std.get_program(), "program");
        assert_eq!(std.get_args().collect::<Vec<_>>(), ["a b", "$HOME", ""]);
        let env: Vec<_> = std.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        assert_eq!(env, [(OsStr::new("NAME"), OsStr::new("value"))]);
        assert_eq!(std.get_current_dir(), Some(Path::new("/srv")));
    }

    #[cfg(unix)]
    #[test]
    fn child_inherits_few_environment_variables() {
        // Cargo sets this one for tests, and a shell the other.
        assert!(env::var_os("CARGO_MANIFEST_DIR").is_some() && env::var_os("PATH").is_some());
        let names = |command: &Command| -> Vec<_> {
            let output = command.to_std().stdout(Stdio::piped()).output();
            let text = String::from_utf8(output.expect("there is env").stdout).expect("text");
            text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect()
        };
        let has = |names: &[String], name: &str| names.iter().any(|it| it == name);
        let usual = names(&Command::new("env").env("OWN", "1").env_remove("TERM"));
        assert!(usual.iter().all(|name| name == "OWN" || command::DEFAULT_ENV.contains(&name.as_str())), "{usual:?}");
        assert!(has(&usual, "PATH") && has(&usual, "OWN") && !has(&usual, "TERM"), "{usual:?}");
        assert!(has(&names(&Command::new("env").inherit_env()), "CARGO_MANIFEST_DIR"));
        assert!(names(&Command::new("/usr/bin/env").env_clear()).is_empty());
    }
}
