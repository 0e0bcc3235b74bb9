//! What waits to be written in a session, and what becomes of clients that do not read.

use http::StatusCode;

use super::{ExchangeId, Session, exchange::Exchange, session::SessionKind};
use crate::http::{Limits, response};

/// Each exchange of a session with several counts with at most this part of [`Limits::queued_bytes`].
const SHARE: usize = 4;

impl Limits {
    /// What an exchange with so many bytes counts.
    fn counted(&self, bytes: usize) -> usize {
        bytes.min(self.queued_bytes / SHARE)
    }
}

impl Session {
    /// What waits on an exchange has changed from so many bytes to so many.
    pub(super) fn weigh(&mut self, before: usize, after: usize) {
        let limits = &self.options.limits;
        self.queued = self.queued + after - before;
        if !matches!(self.kind, SessionKind::Streams { .. }) {
            return;
        }
        self.counted = self.counted + limits.counted(after) - limits.counted(before);
        let full = self.counted >= limits.queued_bytes;
        self.conn.hold(self.queued, full);
        let full = full || !self.conn.has_room();
        match self.held {
            Some(_) if !full => {
                self.held = None;
                // There may be something that waited for the room.
                self.touched = true;
            }
            None if full => self.watch_readers(),
            _ => {}
        }
    }

    /// From now on, and for so long, clients have to read something.
    fn watch_readers(&mut self) {
        self.watch = self.watch.wrapping_add(1);
        self.held = Some(self.clock + self.options.limits.stalled);
    }

    /// Ends the exchanges of clients that have read nothing since messages are refused. A stream can be taken up where it
    /// was lost, if its client knows an id of it; any other answer is lost, and the client sees that.
    pub(super) fn give_up_readers(&mut self) {
        let stalls = |it: &Exchange| it.waiting() > 0 && it.read_in != self.watch;
        let stalled: alloc::vec::Vec<_> =
            self.exchanges.iter().filter(|(_, it)| stalls(it)).map(|(id, _)| ExchangeId(id)).collect();
        stalled.into_iter().for_each(|id| self.give_up_reader(id));
        if self.held.is_some() {
            self.watch_readers();
        }
    }

    /// Ends an exchange with what waits there: the answer breaks off, or becomes 503 if its head has not left.
    pub(super) fn give_up_reader(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        let before = exchange.waiting();
        exchange.abort(response::empty(StatusCode::SERVICE_UNAVAILABLE));
        let after = exchange.waiting();
        self.weigh(before, after);
        self.leave(id);
    }

    /// Ends an exchange whose client does not read it. What waits there is dropped, and its stream goes on without it.
    pub(super) fn cut(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        let before = exchange.waiting();
        exchange.cut();
        self.weigh(before, 0);
        self.leave(id);
    }

    /// The stream of an exchange that has ended goes on without it.
    fn leave(&mut self, id: ExchangeId) {
        self.remote_streams.forget(id);
        self.end(id);
    }
}
