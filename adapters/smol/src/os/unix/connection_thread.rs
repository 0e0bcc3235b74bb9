//! Threads for servers over pipes.
//!
//! A server over pipes runs on a thread of its own, which waits for the pipes with `poll`. In the reactor of
//! `async-io` a wait takes five system calls, and often another thread waits than the one that runs the connection.

use std::{
    cell::RefCell,
    future::Future,
    io,
    os::fd::OwnedFd,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Wake, Waker},
};

use mcp_driver::os::{
    thread as threads,
    wake::{WakeReader, WakeWriter, wake_pair},
};
use rustix::event::{PollFd, PollFlags, poll};

/// The waits of a connection until it is polled again. A descriptor is closed as soon as the connection drops it.
#[derive(Default)]
struct Waits {
    input: Weak<OwnedFd>,
    output: Weak<OwnedFd>,
}

thread_local! {
    /// The waits of the connection that this thread runs. `None` on all other threads.
    static WAITS: RefCell<Option<Waits>> = const { RefCell::new(None) };
}

/// Waits for a descriptor when the connection of this thread is pending. Returns `false` if this thread does not run a
/// connection.
pub(super) fn wait_for(fd: &Arc<OwnedFd>, flags: PollFlags) -> bool {
    WAITS.with_borrow_mut(|waits| {
        let Some(waits) = waits else { return false };
        let wait = if flags == PollFlags::IN { &mut waits.input } else { &mut waits.output };
        *wait = Arc::downgrade(fd);
        true
    })
}

/// Runs a connection over pipes to its end, on a thread of its own.
///
/// # Errors
/// If there is no thread or no descriptor for it.
pub(crate) fn spawn(connection: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    let (wake_reader, wake_writer) = wake_pair()?;
    let notifier = Arc::new(Notifier { state: AtomicU8::new(RUNNING), wake_writer });
    threads::spawn("mcp-smol-pipes", move || {
        // A panic ends the connection.
        let _ = catch_unwind(AssertUnwindSafe(|| run(connection, &notifier, &wake_reader)));
    })?;
    Ok(())
}

fn run(connection: impl Future<Output = ()>, notifier: &Arc<Notifier>, wake_reader: &WakeReader) {
    let mut connection = pin!(connection);
    let waker = Waker::from(notifier.clone());
    loop {
        WAITS.set(Some(Waits::default()));
        if connection.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            return;
        }
        notifier.wait(&WAITS.take().unwrap_or_default(), wake_reader);
    }
}

/// The thread polls its connection, or is about to.
const RUNNING: u8 = 0;

/// The thread waits for descriptors, or is about to.
const WAITING: u8 = 1;

/// The connection was woken, and is not polled again yet.
const NOTIFIED: u8 = 2;

/// The waker of a connection.
struct Notifier {
    state: AtomicU8,
    /// Writes one byte for each change from `WAITING` to `NOTIFIED`.
    wake_writer: WakeWriter,
}

impl Wake for Notifier {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == WAITING {
            self.wake_writer.wake();
        }
    }
}

impl Notifier {
    /// Waits until the connection is woken or a descriptor is ready, unless the connection was woken since its last
    /// poll.
    fn wait(&self, waits: &Waits, wake_reader: &WakeReader) {
        let (input, output) = (waits.input.upgrade(), waits.output.upgrade());
        // Without a descriptor, its entry asks for nothing.
        let unused = || PollFd::new(wake_reader, PollFlags::empty());
        let mut fds = [
            PollFd::new(wake_reader, PollFlags::IN),
            input.as_ref().map_or_else(unused, |fd| PollFd::new(fd, PollFlags::IN)),
            output.as_ref().map_or_else(unused, |fd| PollFd::new(fd, PollFlags::OUT)),
        ];
        let waits = self.state.compare_exchange(RUNNING, WAITING, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if waits {
            // The connection tries again what it waits for, also after an error such as an interruption.
            let _ = poll(&mut fds, None);
        }
        // The poll of the connection that follows handles all notifications up to here.
        if self.state.swap(RUNNING, Ordering::AcqRel) == NOTIFIED && waits {
            // Its byte was written, or will be at once.
            let _ = wake_reader.drain_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        io::{Read, Write},
        sync::{Mutex, atomic::AtomicUsize, mpsc},
        task::Poll,
        thread,
        time::Duration,
    };

    use mcp_driver::{ByteReader, ByteWriter, os::thread::lock};

    use super::*;
    use crate::os::unix::descriptor::{Input, Output};

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn input_and_wakers_wake_the_connection() {
        const ROUNDS: usize = 20_000;
        let (reader, mut writer) = io::pipe().expect("there are descriptors");
        let mut input = Input::new(reader.into()).expect("a pipe");
        let (wakes, waker) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None::<Waker>)));
        let (send, seen) = mpsc::channel();
        let (sent, kept) = (wakes.clone(), waker.clone());
        let (mut read, mut last) = (0, 0);
        let connection = poll_fn(move |cx| {
            *lock(&kept) = Some(cx.waker().clone());
            while let Poll::Ready(len) = input.poll_read(cx, &mut [0; 8]) {
                read += len.expect("it is open");
            }
            let now = read + sent.load(Ordering::SeqCst);
            if now > last {
                last = now;
                send.send(now).expect("the test waits");
            }
            if now < ROUNDS { Poll::Pending } else { Poll::Ready(()) }
        });
        spawn(connection).expect("there is a thread");
        for round in 1..=ROUNDS {
            if round % 2 == 0 {
                writer.write_all(b"x").expect("it is read");
            } else {
                wakes.fetch_add(1, Ordering::SeqCst);
                let waker = lock(&waker).clone();
                waker.into_iter().for_each(Waker::wake);
            }
            assert_eq!(seen.recv_timeout(LONG), Ok(round), "no wake-up is lost");
        }
    }

    #[test]
    fn dropped_output_is_closed_while_the_connection_waits() {
        let (mut reader, writer) = io::pipe().expect("there are descriptors");
        let mut output = Some(Output::new(writer.into()).expect("a pipe"));
        let connection = poll_fn(move |cx| {
            while let Some(open) = &mut output {
                if open.poll_write(cx, &[0; 4096]).is_pending() {
                    output = None;
                }
            }
            Poll::<()>::Pending
        });
        spawn(connection).expect("there is a thread");
        let (send, length) = mpsc::channel();
        thread::spawn(move || send.send(reader.read_to_end(&mut Vec::new()).expect("it is open")));
        assert!(length.recv_timeout(LONG).expect("the end of the output") > 0);
    }
}
