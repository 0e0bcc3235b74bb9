//! The queue of the interface, with bounds. What the server causes waits for room, so that a server that floods is
//! slowed down and memory does not grow. Keys never wait behind it.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{model::Message, sighting::Seen};

/// The most things seen that wait, and their bytes.
const MAX_SEEN: usize = 512;
const MAX_BYTES: usize = 4 << 20;

/// The most keys and other messages that wait. More are ignored.
const MAX_MESSAGES: usize = 4_096;

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    /// In the order of the connection.
    seen: VecDeque<Message>,
    bytes: usize,
    is_closed: bool,
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// Notified when something comes in.
    filled: Condvar,
    /// Notified when something is taken out, and at the end.
    drained: Condvar,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message. Never blocks. Returns whether there was room.
    pub(crate) fn send(&self, message: Message) -> bool {
        let mut state = self.lock();
        let has_room = !state.is_closed && state.messages.len() < MAX_MESSAGES;
        if has_room {
            state.messages.push_back(message);
        }
        self.filled.notify_one();
        has_room
    }

    /// Adds what a connection did, in its order. Blocks until there is room or the interface has ended.
    pub(crate) fn send_in_order(&self, message: Message) {
        let size = bytes(&message);
        let mut state = self.lock();
        while !state.is_closed && (state.seen.len() == MAX_SEEN || state.bytes >= MAX_BYTES) {
            state = self.drained.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return;
        }
        state.bytes += size;
        state.seen.push_back(message);
        self.filled.notify_one();
    }

    /// Waits for messages, at most this long, and takes all of them. Keys come first.
    pub(crate) fn take(&self, wait: Duration) -> Vec<Message> {
        let is_empty = |state: &mut State| state.messages.is_empty() && state.seen.is_empty();
        let (mut state, _) =
            self.filled.wait_timeout_while(self.lock(), wait, is_empty).unwrap_or_else(PoisonError::into_inner);
        let mut taken: Vec<_> = state.messages.drain(..).collect();
        taken.extend(state.seen.drain(..));
        state.bytes = 0;
        self.drained.notify_all();
        taken
    }

    /// Ends all waits: further messages are ignored.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.drained.notify_all();
    }
}

/// Returns the bytes that a message holds.
fn bytes(message: &Message) -> usize {
    let Message::Seen { sighting, .. } = message else { return 0 };
    match &sighting.what {
        Seen::Message(observed) => observed.text.len() * observed.parts.len().max(1),
        Seen::Broken { findings, .. } => findings.iter().map(|it| it.what.len()).sum(),
        Seen::Log(text) | Seen::Event(text) => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;
    use crate::inspect::sighting::Sighting;

    fn event(len: usize) -> Message {
        Message::Seen { session: 1, sighting: Sighting { at: 0, what: Seen::Event("x".repeat(len)) } }
    }

    #[test]
    fn floods_wait_for_room_and_keys_do_not() {
        let inbox = Arc::new(Inbox::default());
        let flood = inbox.clone();
        let thread = thread::spawn(move || (0..10_000).for_each(|_| flood.send_in_order(event(100_000))));
        let mut seen = 0;
        while seen < 10_000 {
            inbox.send(Message::Tick(7));
            let taken = inbox.take(Duration::from_secs(60));
            assert!(matches!(taken.first(), Some(Message::Tick(7))), "keys come first");
            assert!(taken.len() <= 1 + MAX_BYTES / 100_000 + 1, "{}", taken.len());
            seen += taken.len() - 1;
        }
        thread.join().expect("the flood has ended");
    }

    #[test]
    fn the_end_releases_senders() {
        let inbox = Arc::new(Inbox::default());
        let flood = inbox.clone();
        let thread = thread::spawn(move || (0..=2 * MAX_SEEN).for_each(|_| flood.send_in_order(event(1))));
        inbox.close();
        thread.join().expect("no send waits");
    }
}
