//! A hostile peer at the far end of a socket: one thread speaks, another one listens.

use std::{
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};

use mcp_proto::protocol::{ProtocolVersion, Role};
use mcp_tests::hostile::{Attack, End, Hostile};

use crate::LONG;

/// The most steps of one attack. It reaches every limit with less.
const STEPS: u64 = 60;

struct State {
    attack: Attack,
    /// How often something was heard, and whether nothing will be any more.
    heard: u64,
    ended: bool,
}

/// A peer, its socket, and who it waits for.
pub(crate) struct Peer {
    hostile: Hostile,
    role: Role,
    stream: UnixStream,
    state: Mutex<State>,
    changed: Condvar,
}

impl Peer {
    pub(crate) fn new(
        hostile: Hostile,
        role: Role,
        version: ProtocolVersion,
        frame_bytes: usize,
        stream: UnixStream,
    ) -> Self {
        // A peer that does not read for so long hangs.
        stream.set_write_timeout(Some(LONG)).expect("a time that is not zero");
        // One that steps through the bytes of few lines needs its steps for that.
        let hostile = Hostile { steps: hostile.steps.min(STEPS), ..hostile };
        let state = State { attack: Attack::new(hostile, role, version, frame_bytes), heard: 0, ended: false };
        Self { hostile, role, stream, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics here")
    }

    /// Does its worst, while `beside` runs, and goes as it goes. Then, with the connection as it is, `after` runs. When that
    /// is done, the far end is gone.
    pub(crate) fn attack<T>(&self, beside: impl FnOnce() -> T + Send, after: impl FnOnce(T))
    where
        T: Send,
    {
        thread::scope(|scope| {
            let listening = scope.spawn(|| self.listen());
            let beside = scope.spawn(move || {
                let done = beside();
                self.nothing_more();
                done
            });
            self.speak();
            match self.hostile.end {
                End::Stays => {}
                End::HalfCloses => _ = self.stream.shutdown(Shutdown::Write),
                End::Vanishes => _ = self.stream.shutdown(Shutdown::Both),
            }
            after(beside.join().expect("nothing that is attacked panics"));
            let _ = self.stream.shutdown(Shutdown::Both);
            listening.join().expect("listening does not panic");
        });
    }

    /// Whatever it waits for will not come any more.
    fn nothing_more(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }

    fn listen(&self) {
        let mut buffer = [0; 4096];
        loop {
            if !self.hostile.reads && (self.role == Role::Client || self.state().heard > 0) {
                return;
            }
            match (&self.stream).read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(read) => {
                    let mut state = self.state();
                    state.attack.hear(&buffer[..read]);
                    state.heard += 1;
                }
            }
            self.changed.notify_all();
        }
        self.nothing_more();
        // The far end is gone, and so it goes.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn speak(&self) {
        let mut seen = 0;
        loop {
            let mut state = self.state();
            if self.role == Role::Server && (self.hostile.reads || seen == 0) {
                // What it does, it does to what it was asked.
                state = self.changed.wait_while(state, |state| state.heard == seen && !state.ended).expect("no panics");
                seen = state.heard;
            }
            let Some(said) = state.attack.speak() else { return };
            drop(state);
            for chunk in said.chunks(self.hostile.chunk) {
                match (&self.stream).write_all(chunk) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the server does not read"),
                    // It was left.
                    Err(_) => return,
                }
            }
        }
    }
}
