//! Child processes and their job objects.

use std::{
    fmt,
    io::{self, Read, Write},
    os::windows::{
        io::{AsHandle, BorrowedHandle, OwnedHandle},
        process::CommandExt,
    },
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use process_wrap::std::{ChildWrapper, CommandWrap, CommandWrapper, JobObject};

use super::CREATION_FLAGS;
use crate::{sync::lock, tuning::STDERR_GRACE, watched::Watched};

/// A process that does not run before it belongs to its job (`CREATE_SUSPENDED`).
const SUSPENDED: u32 = 0x0000_0004;

/// The output of a child process, or the standard input of this one, for reading.
pub struct ReadPipe {
    source: Box<dyn Read + Send>,
    /// Set at the end of the input, or when this is dropped.
    ended: Arc<Watched<bool>>,
}

/// The input of a child process, or the standard output of this one, for writing.
pub struct WritePipe(Box<dyn Write + Send>);

impl ReadPipe {
    pub(super) fn new(source: impl Read + Send + 'static) -> Self {
        Self { source: Box::new(source), ended: Arc::default() }
    }
}

impl WritePipe {
    pub(super) fn new(sink: impl Write + Send + 'static) -> Self {
        Self(Box::new(sink))
    }
}

impl From<ChildStdout> for ReadPipe {
    fn from(pipe: ChildStdout) -> Self {
        Self::new(pipe)
    }
}

impl From<ChildStderr> for ReadPipe {
    fn from(pipe: ChildStderr) -> Self {
        Self::new(pipe)
    }
}

impl From<ChildStdin> for WritePipe {
    fn from(pipe: ChildStdin) -> Self {
        Self::new(pipe)
    }
}

impl Read for ReadPipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer);
        if !buffer.is_empty() && matches!(&read, Ok(0)) {
            self.ended.update(|ended| *ended = true);
        }
        read
    }
}

impl Drop for ReadPipe {
    fn drop(&mut self) {
        self.ended.update(|ended| *ended = true);
    }
}

impl Write for WritePipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A process and all that it has started: the members of a job object, which none of them can leave.
#[derive(Clone, Debug)]
pub struct ProcessGroup(Arc<Job>);

#[derive(Debug)]
struct Job {
    /// Its handle, of which the trait makes known only how to end its members.
    members: Mutex<Box<dyn ChildWrapper>>,
    is_ended: AtomicBool,
}

impl ProcessGroup {
    /// Ends all members at once: no signal asks them to.
    pub fn terminate(&self) {
        self.kill();
    }

    /// Ends all members at once.
    pub fn kill(&self) {
        if lock(&self.0.members).start_kill().is_ok() {
            self.0.is_ended.store(true, Ordering::Release);
        }
    }

    /// Returns whether the group may have members: until they were ended.
    #[must_use]
    pub fn has_members(&self) -> bool {
        !self.0.is_ended.load(Ordering::Acquire)
    }
}

/// The end of the output of a child process that has exited.
#[derive(Debug)]
pub struct OutputEnd {
    group: ProcessGroup,
    stdout: Option<Arc<Watched<bool>>>,
}

impl OutputEnd {
    pub(in crate::os) fn new(group: &ProcessGroup, stdout: Option<&ReadPipe>) -> Self {
        Self { group: group.clone(), stdout: stdout.map(|stdout| stdout.ended.clone()) }
    }

    /// Ends what the process has started, which has no server to work for any more and keeps its pipes open, and waits
    /// until the rest of its output was read. The wait is bounded, because another process can have inherited the pipe.
    pub fn wait(self) {
        self.group.kill();
        if let Some(stdout) = self.stdout {
            stdout.wait_until(STDERR_GRACE, |ended| *ended);
        }
    }
}

/// Starts a program in a job object of its own. It does not run before it is a member of that, so that nothing that it
/// starts is left out.
pub(in crate::os) fn start(command: Command) -> io::Result<(Child, ProcessGroup)> {
    let started: Arc<Mutex<Option<Child>>> = Arc::default();
    let mut command = CommandWrap::from(command);
    command.wrap(KeepChild(started.clone())).wrap(JobObject).wrap(Flags);
    let members = command.spawn()?;
    let group = ProcessGroup(Arc::new(Job { members: Mutex::new(members), is_ended: AtomicBool::new(false) }));
    let child = lock(&started).take().ok_or_else(|| io::Error::other("the process is missing"))?;
    Ok((child, group))
}

/// Sets the flags of the new process, after those of the job object, which would replace them.
#[derive(Debug)]
struct Flags;

impl CommandWrapper for Flags {
    fn pre_spawn(&mut self, command: &mut Command, _: &CommandWrap) -> io::Result<()> {
        command.creation_flags(CREATION_FLAGS | SUSPENDED);
        Ok(())
    }
}

/// Puts the process aside before the job object gets it: its exit is waited for while the job can be ended, and the
/// trait of the crate allows one of them at a time.
#[derive(Debug)]
struct KeepChild(Arc<Mutex<Option<Child>>>);

impl CommandWrapper for KeepChild {
    fn wrap_child(&mut self, inner: Box<dyn ChildWrapper>, _: &CommandWrap) -> io::Result<Box<dyn ChildWrapper>> {
        let inner: Box<dyn std::any::Any> = inner;
        let child = inner.downcast::<Child>().map_err(|_| io::Error::other("the process is wrapped already"))?;
        let handle = child.as_handle().try_clone_to_owned()?;
        *lock(&self.0) = Some(*child);
        Ok(Box::new(Aside { handle, child: self.0.clone() }))
    }
}

/// Stands for a process that was put aside.
#[derive(Debug)]
struct Aside {
    handle: OwnedHandle,
    child: Arc<Mutex<Option<Child>>>,
}

impl Aside {
    fn with<T>(&self, f: impl FnOnce(&mut Child) -> io::Result<T>) -> io::Result<T> {
        lock(&self.child).as_mut().map_or_else(|| Err(io::Error::other("the process is waited for already")), f)
    }
}

impl ChildWrapper for Aside {
    fn inner(&self) -> &dyn ChildWrapper {
        self
    }

    fn inner_mut(&mut self) -> &mut dyn ChildWrapper {
        self
    }

    fn into_inner(self: Box<Self>) -> Box<dyn ChildWrapper> {
        self
    }

    fn process_handle(&self) -> Option<BorrowedHandle<'_>> {
        Some(self.handle.as_handle())
    }

    fn start_kill(&mut self) -> io::Result<()> {
        self.with(Child::kill)
    }

    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.with(Child::try_wait)
    }

    fn wait(&mut self) -> io::Result<ExitStatus> {
        self.with(Child::wait)
    }
}

impl fmt::Debug for ReadPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadPipe").finish_non_exhaustive()
    }
}

impl fmt::Debug for WritePipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WritePipe").finish_non_exhaustive()
    }
}
