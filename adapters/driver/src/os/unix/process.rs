//! Child processes and their process groups.

use std::{
    io,
    os::fd::OwnedFd,
    process::{Child, Command},
};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// The output of a child process, for reading.
pub type ReadPipe = OwnedFd;

/// The input of a child process, for writing.
pub type WritePipe = OwnedFd;

/// A process group: its leader, and the processes that the leader has started and that have not left the group.
#[derive(Clone, Copy, Debug)]
pub struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// Returns the group that the process with this id leads.
    #[must_use]
    pub fn of(process: u32) -> Self {
        Self(i32::try_from(process).ok().and_then(Pid::from_raw))
    }

    /// Sends SIGTERM to all members.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL to all members.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Returns whether the group has members.
    #[must_use]
    pub fn has_members(&self) -> bool {
        self.0.is_some_and(|group| test_kill_process_group(group).is_ok())
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // The id stays taken while the group has members. An error means that there are none.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// The end of the output of a child process that has exited. It is ready at once, because all output of the process can
/// be read.
#[derive(Debug)]
pub struct OutputEnd;

impl OutputEnd {
    pub(in crate::os) const fn new(_: &ProcessGroup, _: Option<&ReadPipe>) -> Self {
        Self
    }

    /// Waits until the output can be read.
    pub fn wait(self) {}
}

/// Starts a program as the leader of a process group: the command says so.
pub(in crate::os) fn start(mut command: Command) -> io::Result<(Child, ProcessGroup)> {
    let child = command.spawn()?;
    let group = ProcessGroup::of(child.id());
    Ok((child, group))
}
