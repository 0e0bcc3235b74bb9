//! A hostile peer at the other end of a socket: one thread writes, another one reads.

use std::{
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};

use mcp_proto::protocol::{ProtocolVersion, Role};
use mcp_tests::hostile::{Attack, Ending, HostilePeer};

use crate::LONG;

/// The maximum number of steps of an attack. Fewer steps reach every limit.
const STEPS: u64 = 60;

struct State {
    attack: Attack,
    /// The number of reads, and whether there will be no more.
    reads: u64,
    ended: bool,
}

/// A hostile peer with its socket and state.
pub(crate) struct Peer {
    hostile: HostilePeer,
    role: Role,
    stream: UnixStream,
    state: Mutex<State>,
    changed: Condvar,
}

impl Peer {
    pub(crate) fn new(
        hostile: HostilePeer,
        role: Role,
        version: ProtocolVersion,
        frame_bytes: usize,
        stream: UnixStream,
    ) -> Self {
        // The peer does not read for that long if it hangs.
        stream.set_write_timeout(Some(LONG)).expect("a time that is not zero");
        // An attack that sends single bytes of few lines uses its steps for that.
        let hostile = HostilePeer { steps: hostile.steps.min(STEPS), ..hostile };
        let state = State { attack: Attack::new(hostile, role, version, frame_bytes), reads: 0, ended: false };
        Self { hostile, role, stream, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics here")
    }

    /// Runs the attack while `concurrent` runs, and ends as the attack prescribes. Then runs `after` with the
    /// connection in that state, and disconnects.
    pub(crate) fn attack<T>(&self, concurrent: impl FnOnce() -> T + Send, after: impl FnOnce(T))
    where
        T: Send,
    {
        thread::scope(|scope| {
            let reader = scope.spawn(|| self.read());
            let concurrent = scope.spawn(move || {
                let done = concurrent();
                self.end_input();
                done
            });
            self.write();
            match self.hostile.end {
                Ending::StaysOpen => {}
                Ending::HalfCloses => _ = self.stream.shutdown(Shutdown::Write),
                Ending::Disconnects => _ = self.stream.shutdown(Shutdown::Both),
            }
            after(concurrent.join().expect("nothing that is attacked panics"));
            let _ = self.stream.shutdown(Shutdown::Both);
            reader.join().expect("listening does not panic");
        });
    }

    /// Wakes the writer: there will be no more reads.
    fn end_input(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }

    fn read(&self) {
        let mut buffer = [0; 4096];
        loop {
            if !self.hostile.reads && (self.role == Role::Client || self.state().reads > 0) {
                return;
            }
            match (&self.stream).read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(read) => {
                    let mut state = self.state();
                    state.attack.receive(&buffer[..read]);
                    state.reads += 1;
                }
            }
            self.changed.notify_all();
        }
        self.end_input();
        // The other end has disconnected, so this one does.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn write(&self) {
        let mut seen = 0;
        loop {
            let mut state = self.state();
            if self.role == Role::Server && (self.hostile.reads || seen == 0) {
                // A hostile server responds to the requests that it has received.
                state = self.changed.wait_while(state, |state| state.reads == seen && !state.ended).expect("no panics");
                seen = state.reads;
            }
            let Some(output) = state.attack.next_bytes() else { return };
            drop(state);
            for chunk in output.chunks(self.hostile.chunk) {
                match (&self.stream).write_all(chunk) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the server does not read"),
                    // The other end has disconnected.
                    Err(_) => return,
                }
            }
        }
    }
}
