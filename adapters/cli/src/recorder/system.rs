//! Standard streams without buffers, signals, and the end of a child process.

use std::{
    fs::File,
    io,
    process::{Child, ExitStatus},
    sync::{Arc, Mutex, PoisonError},
};

#[cfg(windows)]
use std::os::windows::io::AsHandle;
#[cfg(unix)]
use std::os::{fd::AsFd, unix::process::ExitStatusExt};

use crate::record::What;

/// Returns the standard input without a buffer.
pub(super) fn input() -> io::Result<File> {
    #[cfg(unix)]
    let handle = io::stdin().as_fd().try_clone_to_owned()?;
    #[cfg(windows)]
    let handle = io::stdin().as_handle().try_clone_to_owned()?;
    Ok(handle.into())
}

/// Returns the standard output without a buffer.
pub(super) fn output() -> io::Result<File> {
    #[cfg(unix)]
    let handle = io::stdout().as_fd().try_clone_to_owned()?;
    #[cfg(windows)]
    let handle = io::stdout().as_handle().try_clone_to_owned()?;
    Ok(handle.into())
}

/// Closes the standard input, so that the client cannot write any more. Its other copies must be dropped.
pub(super) fn close_input() {
    #[cfg(unix)]
    if let Ok(nothing) = File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(nothing);
    }
}

/// Closes the standard output, so that the client reads its end. Its other copies must be dropped.
pub(super) fn close_output() {
    #[cfg(unix)]
    if let Ok(nothing) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(nothing);
    }
}

/// A child process that signals are passed on to.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    /// The id, until the child has been waited for: the system reuses it after that.
    id: Arc<Mutex<Option<u32>>>,
}

impl Server {
    pub(super) fn new(child: Child) -> io::Result<Self> {
        let id = Arc::new(Mutex::new(Some(child.id())));
        let server = Self { child, id };
        #[cfg(unix)]
        server.pass_signals_on()?;
        Ok(server)
    }

    #[cfg(unix)]
    fn pass_signals_on(&self) -> io::Result<()> {
        use rustix::process::{Pid, Signal, kill_process};
        use signal_hook::{
            consts::{SIGHUP, SIGINT, SIGTERM},
            iterator::Signals,
        };
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let id = Arc::clone(&self.id);
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for received in &mut signals {
                let id = id.lock().unwrap_or_else(PoisonError::into_inner);
                let pid = id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
                match (pid, Signal::from_named_raw(received)) {
                    (Some(pid), Some(signal)) => {
                        let _ = kill_process(pid, signal);
                    }
                    // The server has ended, and only its output is still open.
                    _ => std::process::exit(128 + received),
                }
            }
        })?;
        Ok(())
    }

    /// Waits until the server has ended.
    pub(super) fn wait(&mut self) -> io::Result<ExitStatus> {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
            // The id stays until it is certain that no signal is sent to it any more.
            if let Some(pid) = Pid::from_child(&self.child).into() {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
            }
        }
        let mut id = self.id.lock().unwrap_or_else(PoisonError::into_inner);
        *id = None;
        self.child.wait()
    }
}

/// Returns the event of an end, and the exit code with which it is passed on.
pub(super) fn end_of(status: ExitStatus) -> (What, u8) {
    #[cfg(unix)]
    if let Some(signal) = status.signal() {
        return (What::Signal(signal.into()), u8::try_from(128 + signal).unwrap_or(u8::MAX));
    }
    let code = status.code().unwrap_or(1);
    (What::Exit(code.into()), u8::try_from(code).unwrap_or(u8::MAX))
}
