//! What has arrived from a client and is not read yet. Its size is bounded: a client that sends more has to wait.

use std::{
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    time::Duration,
};

use super::link::Arrival;
use crate::check::process::Room;

/// The most bytes that are read ahead.
const MAX_QUEUED: usize = 32 << 20;

/// What an arrival takes besides its bytes.
const ENTRY: usize = 256;

/// The end that the threads of connections have.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    sender: Sender<Arrival>,
    room: Arc<Room>,
}

#[derive(Debug)]
pub(super) struct Inbox {
    receiver: Receiver<Arrival>,
    room: Arc<Room>,
}

/// Returns both ends.
pub(super) fn inbox() -> (Outbox, Inbox) {
    let (sender, receiver) = mpsc::channel();
    let room = Arc::new(Room::new(MAX_QUEUED));
    (Outbox { sender, room: room.clone() }, Inbox { receiver, room })
}

fn size(arrival: &Arrival) -> usize {
    let bytes = match arrival {
        Arrival::Line(line) => line.len(),
        Arrival::Request(request) => {
            request.body.len() + request.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
        }
        _ => 0,
    };
    bytes + ENTRY
}

impl Outbox {
    /// Waits for room, and returns whether the arrival will be read.
    pub(super) fn send(&self, arrival: Arrival) -> bool {
        self.room.take(size(&arrival)) && self.sender.send(arrival).is_ok()
    }
}

impl Inbox {
    pub(super) fn recv(&self, timeout: Duration) -> Option<Arrival> {
        let arrival = self.receiver.recv_timeout(timeout).ok()?;
        self.room.free(size(&arrival));
        Some(arrival)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // Threads may wait for room.
        self.room.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_wait_for_room() {
        let (outbox, inbox) = inbox();
        let line = || Arrival::Line(vec![b'x'; 10 << 20]);
        let sender = std::thread::spawn(move || (0..8).filter(|_| outbox.send(line())).count());
        // The fourth line is only there because room has become free.
        for _ in 0..4 {
            assert!(inbox.recv(Duration::from_secs(60)).is_some());
        }
        drop(inbox);
        assert!(sender.join().expect("it ends") < 8);
    }
}
