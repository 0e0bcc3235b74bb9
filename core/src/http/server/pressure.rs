//! Backpressure of a session: output that waits to be written, and clients that do not read it.

use http::StatusCode;

use super::{ExchangeId, Session, exchange::Exchange, session::SessionKind};
use crate::http::{Limits, response};

/// In a session with several exchanges, each counts with at most one part in this many of [`Limits::queued_bytes`].
const SHARE: usize = 4;

impl Limits {
    /// Returns how many bytes an exchange counts on which this many bytes wait.
    fn counted(&self, bytes: usize) -> usize {
        bytes.min(self.queued_bytes / SHARE)
    }
}

impl Session {
    /// Records that the bytes waiting on an exchange have changed from `before` to `after`.
    pub(super) fn weigh(&mut self, before: usize, after: usize) {
        if before == after {
            return;
        }
        let limits = &self.options.limits;
        self.queued = self.queued + after - before;
        if !matches!(self.kind, SessionKind::Streams { .. }) {
            return;
        }
        self.counted = self.counted + limits.counted(after) - limits.counted(before);
        let full = self.counted >= limits.queued_bytes;
        self.conn.set_downstream(self.queued, full);
        let full = full || !self.conn.has_room();
        match self.held {
            Some(_) if !full => {
                self.held = None;
                // Messages may have waited for this room.
                self.touched = true;
            }
            None if full => self.watch_readers(),
            _ => {}
        }
    }

    /// Starts the period in which the client has to read something, if messages wait in the connection because its only
    /// exchange is full. It ends once none wait there, and not with each read, which only makes room for the next ones.
    pub(super) fn watch_only_reader(&mut self, is_full: bool) {
        if matches!(self.kind, SessionKind::Streams { .. }) {
            return;
        }
        match self.held {
            Some(_) if !is_full => self.held = None,
            None if is_full && self.conn.has_output() => self.watch_readers(),
            _ => {}
        }
    }

    /// Starts the period in which every client has to read something.
    fn watch_readers(&mut self) {
        self.watch = self.watch.wrapping_add(1);
        self.held = Some(self.clock + self.options.limits.stalled);
    }

    /// Ends the exchanges of clients that have read nothing since messages were refused, or since they wait in the
    /// connection. A client can resume a stream if it has received an event id of it. Any other response is lost, which
    /// the client sees: it breaks off, or becomes 503.
    pub(super) fn close_unread_exchanges(&mut self) {
        let stalls = |it: &Exchange| it.waiting() > 0 && it.read_in != self.watch;
        let stalled: alloc::vec::Vec<_> =
            self.exchanges.iter().filter(|(_, it)| stalls(it)).map(|(id, _)| ExchangeId(id)).collect();
        for id in stalled {
            self.close_unread(id);
            self.lose_only_exchange(id);
        }
        if self.held.is_some() {
            self.watch_readers();
        }
    }

    /// Ends the connection if this was the only exchange that it ever has.
    pub(super) fn lose_only_exchange(&mut self, id: ExchangeId) {
        match &mut self.kind {
            SessionKind::Modern { .. } => self.conn.handle_disconnect(),
            SessionKind::Old { stream, .. } if *stream == Some(id) => {
                *stream = None;
                self.conn.handle_disconnect();
            }
            SessionKind::Old { .. } | SessionKind::Streams { .. } => {}
        }
    }

    /// Ends an exchange and drops its waiting output: the response breaks off, or becomes 503 if its head was not
    /// polled.
    pub(super) fn close_unread(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        let before = exchange.waiting();
        exchange.abort(response::empty(StatusCode::SERVICE_UNAVAILABLE));
        let after = exchange.waiting();
        self.weigh(before, after);
        self.detach(id);
    }

    /// Ends an exchange whose client does not read it, and drops its waiting output. Its stream continues without an
    /// exchange.
    pub(super) fn cut(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        let before = exchange.waiting();
        exchange.cut();
        self.weigh(before, 0);
        self.detach(id);
    }

    /// Detaches an exchange from its stream, and ends it.
    fn detach(&mut self, id: ExchangeId) {
        self.remote_streams.forget(id);
        self.end(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchange_counts_with_at_most_a_quarter() {
        let limits = Limits { queued_bytes: 400, ..Limits::default() };
        assert_eq!([0, 99, 100, 101, 400].map(|bytes| limits.counted(bytes)), [0, 99, 100, 100, 100]);
    }
}
