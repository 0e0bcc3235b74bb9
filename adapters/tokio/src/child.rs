//! A server as a child process.

use std::io;

use mcp_service::drive::{Child, Runtime, bounds::LAST_WORDS};

use crate::{Command, Transport, driver::Tokio, io::Stream};

/// Starts a program. Its standard input and output are the transport.
pub(crate) fn spawn(command: &Command, runtime: &Tokio) -> io::Result<(Transport, Child)> {
    let mut started = tokio::process::Command::from(command.to_std()).spawn()?;
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let child = Child::new(command, started.id().ok_or_else(missing)?);
    let (stdin, stdout, stderr) = (started.stdin.take(), started.stdout.take(), started.stderr.take());
    let listening = stderr.map(|stderr| {
        let (child, command) = (child.clone(), command.clone());
        runtime.spawn(async move { child.listen(&command, Stream::new(stderr)).await })
    });
    let process = child.process().clone();
    let watching = runtime.spawn(async move { process.ended(started.wait().await.ok()) });
    let (end, on) = (child.clone(), runtime.clone());
    let shut_down = async move {
        end.shut_down(on).await;
        drop((listening, watching));
    };
    let (stdin, stdout) = (stdin.ok_or_else(missing)?, stdout.ok_or_else(missing)?);
    let output = child.output(Stream::new(stdout), runtime);
    Ok((Transport::new(output, Stream::new(stdin)).at_end(shut_down).linger(LAST_WORDS), child))
}
