//! Child processes and all that they start.

use std::{
    io,
    process::{Child, Command},
};

use super::system::process::start;
pub use super::system::process::{OutputEnd, ProcessGroup, ReadPipe, WritePipe};

/// A child process that was started, and its pipes.
#[derive(Debug)]
pub struct Spawned {
    /// The process.
    pub child: Child,
    /// The process, and all that it starts.
    pub group: ProcessGroup,
    /// Its standard input, unless that is none of its pipes.
    pub stdin: Option<WritePipe>,
    /// Its standard output, unless that is none of its pipes.
    pub stdout: Option<ReadPipe>,
    /// Its standard error, unless that is none of its pipes.
    pub stderr: Option<ReadPipe>,
    /// The step between the exit of the process and the report of it.
    pub output_end: OutputEnd,
}

/// Starts a program as the first member of a process group (Unix) or of a job object (Windows) of its own. Nothing that
/// it starts is left out.
///
/// # Errors
/// If it cannot be started, or the system has no job object for it.
pub fn spawn(command: Command) -> io::Result<Spawned> {
    let (mut child, group) = start(command)?;
    let stdout = child.stdout.take().map(ReadPipe::from);
    Ok(Spawned {
        stdin: child.stdin.take().map(WritePipe::from),
        stderr: child.stderr.take().map(ReadPipe::from),
        output_end: OutputEnd::new(&group, stdout.as_ref()),
        stdout,
        group,
        child,
    })
}
