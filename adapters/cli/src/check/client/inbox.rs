//! Messages that have arrived from a client and were not read yet. A client that sends more than the limit has to wait.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    time::{Duration, Instant},
};

use super::link::Arrival;
use crate::check::process::Room;

/// The most bytes that are read ahead.
const MAX_QUEUED: usize = 32 << 20;

/// The bytes of an arrival in addition to its content.
const ENTRY: usize = 256;

/// The end that the threads of connections have.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    sender: Sender<(Instant, Arrival)>,
    room: Arc<Room>,
}

#[derive(Debug)]
pub(super) struct Inbox {
    receiver: Receiver<(Instant, Arrival)>,
    /// The arrival that was taken from the queue and was not read yet.
    next: RefCell<Option<(Instant, Arrival)>>,
    room: Arc<Room>,
}

/// Returns both ends.
pub(super) fn inbox() -> (Outbox, Inbox) {
    let (sender, receiver) = mpsc::channel();
    let room = Arc::new(Room::new(MAX_QUEUED));
    (Outbox { sender, room: room.clone() }, Inbox { receiver, next: RefCell::default(), room })
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
        // It has arrived now, however long it waits for room.
        let now = Instant::now();
        self.room.take(size(&arrival)) && self.sender.send((now, arrival)).is_ok()
    }
}

impl Inbox {
    pub(super) fn recv(&self, timeout: Duration) -> Option<Arrival> {
        let next = self.next.take();
        let (_, arrival) = next.or_else(|| self.receiver.recv_timeout(timeout).ok())?;
        self.room.free(size(&arrival));
        Some(arrival)
    }

    /// Returns the next arrival without waiting, if it came at `deadline` or before.
    pub(super) fn recv_until(&self, deadline: Instant) -> Option<Arrival> {
        let next = self.next.take().or_else(|| self.receiver.try_recv().ok());
        let is_in_time = next.as_ref().is_some_and(|(at, _)| *at <= deadline);
        self.next.replace(next);
        if is_in_time { self.recv(Duration::ZERO) } else { None }
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
    fn what_came_in_time_is_read_after_the_deadline() {
        let (outbox, inbox) = inbox();
        let line = |text: &str| Arrival::Line(text.as_bytes().to_vec());
        assert!(outbox.send(line("first")) && outbox.send(line("second")));
        let deadline = Instant::now();
        // The clock may not have moved yet.
        while Instant::now() == deadline {}
        assert!(outbox.send(line("late")));
        assert_eq!(inbox.recv_until(deadline), Some(line("first")));
        assert_eq!(inbox.recv_until(deadline), Some(line("second")));
        assert_eq!(inbox.recv_until(deadline), None);
        assert_eq!(inbox.recv(Duration::ZERO), Some(line("late")));
        assert_eq!(inbox.recv_until(Instant::now()), None);
    }

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
