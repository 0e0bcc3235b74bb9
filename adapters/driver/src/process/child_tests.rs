//! The end of child processes that fail to start, or whose transport is dropped.

use std::{
    cell::{Cell, RefCell},
    future::{Future, pending},
    io::{self, ErrorKind},
    net::SocketAddr,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{self, ExitStatus},
    task::{Context, Poll},
    time::Instant,
};

use super::child::Child;
use crate::{
    os::process::{ReadPipe, WritePipe},
    process::{command::Command, start::Start},
    runtime::{Runtime, Timer},
    stream::{
        io::{ByteReader, ByteWriter},
        memory::pipe,
        stream_runtime::StreamRuntime,
        transport::OnRuntime,
    },
};

/// A runtime whose tasks do not run and whose timers do not fire.
#[derive(Clone)]
struct Stopped;

/// Waits for a process. Dropping it ends the wait.
type Wait = Box<dyn FnOnce() -> Option<ExitStatus> + Send>;

thread_local! {
    /// Whether pipes can be registered.
    static HAS_PIPES: Cell<bool> = const { Cell::new(false) };
    /// The detached waits of this thread.
    static DETACHED: RefCell<Vec<Wait>> = RefCell::default();
}

fn unsupported<T>() -> io::Result<T> {
    Err(ErrorKind::Unsupported.into())
}

impl Runtime for Stopped {
    type Task = Option<Wait>;
    type Timer = Self;

    fn current() -> io::Result<Self> {
        Ok(Self)
    }

    fn spawn(&self, _: impl Future<Output = ()> + Send + 'static) -> Option<Wait> {
        None
    }

    fn detach(task: Option<Wait>) {
        DETACHED.with_borrow_mut(|detached| detached.extend(task));
    }

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        f();
    }

    fn timer(&self) -> Self {
        Self
    }
}

impl Timer for Stopped {
    fn poll_until(&mut self, _: Instant, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl StreamRuntime for Stopped {
    type Transport = OnRuntime<Self>;
    type TcpListener = ();
    type LocalListener = ();

    fn wait_for_child(
        &self,
        mut child: process::Child,
        exited: impl FnOnce(Option<ExitStatus>) + Send + 'static,
    ) -> io::Result<Option<Option<Wait>>> {
        Ok(Some(Some(Box::new(move || {
            let status = child.wait().ok();
            exited(status);
            status
        }))))
    }

    fn pipe_reader(_: ReadPipe) -> io::Result<impl ByteReader> {
        if HAS_PIPES.get() { Ok(pipe(1).0) } else { unsupported() }
    }

    fn pipe_writer(_: WritePipe) -> io::Result<impl ByteWriter> {
        if HAS_PIPES.get() { Ok(pipe(1).1) } else { unsupported() }
    }

    async fn connect_tcp(_: Vec<SocketAddr>) -> io::Result<OnRuntime<Self>> {
        pending().await
    }

    async fn connect_local(_: PathBuf) -> io::Result<OnRuntime<Self>> {
        pending().await
    }

    async fn listen_tcp(_: Vec<SocketAddr>) -> io::Result<()> {
        unsupported()
    }

    fn listen_local(_: &Path) -> io::Result<()> {
        unsupported()
    }

    fn poll_accept_tcp((): &(), _: &mut Context<'_>) -> Poll<io::Result<(OnRuntime<Self>, SocketAddr)>> {
        Poll::Pending
    }

    fn poll_accept_local((): &(), _: &mut Context<'_>) -> Poll<io::Result<OnRuntime<Self>>> {
        Poll::Pending
    }

    fn local_addr((): &()) -> io::Result<SocketAddr> {
        unsupported()
    }
}

/// Starts a program that runs until it is killed.
fn start(has_pipes: bool) -> io::Result<(OnRuntime<Stopped>, Child)> {
    HAS_PIPES.set(has_pipes);
    Child::start(&Command::new("sleep").arg("1000"), Start::begin(), &Stopped)
}

/// Returns the signal that ended the process, for which the detached wait waits.
fn signal() -> Option<i32> {
    let wait = DETACHED.with_borrow_mut(Vec::pop).expect("the wait continues");
    wait().and_then(|status| status.signal())
}

#[test]
fn a_process_without_pipes_is_killed_and_waited_for() {
    let failed = start(false).err().expect("there are no pipes");
    assert_eq!((failed.kind(), signal()), (ErrorKind::Unsupported, Some(9)));
}

#[test]
fn a_dropped_transport_kills_its_process() {
    let (transport, child) = start(true).expect("there are pipes");
    assert!(DETACHED.with_borrow(Vec::is_empty));
    drop(transport);
    assert_eq!((signal(), child.exit().map(|exit| exit.success())), (Some(9), Some(false)));
}
