//! The end of streams whose authorization has expired.

use alloc::vec::Vec;

use super::{Session, SessionKind};
use crate::http::server::{ExchangeId, Request, exchange::Exchange, target::Target};
use crate::{protocol::Method, rpc::Timestamp};

impl Request {
    /// Returns when the authorization of the response expires, if it may be a stream that ends then. A response to a
    /// request of the modern era cannot be resumed, so it is completed, except that of a subscription.
    pub(super) fn authorized_until(&self) -> Option<Timestamp> {
        let ends = match self.target {
            Target::Modern(_) => self.method() == Some(Method::Listen.as_str()),
            Target::Message(_) | Target::Listen(..) | Target::OldStream => true,
            Target::Initialize | Target::End(_) | Target::OldMessage(_) => false,
        };
        self.principal().filter(|_| ends)?.expires
    }
}

impl Session {
    /// Records when the authorization of an exchange expires.
    pub(in crate::http::server) fn watch_authorization(&mut self, id: ExchangeId) {
        let at = self.exchanges.get(id.0).and_then(|exchange| exchange.authorized_until);
        self.authorized_until = self.authorized_until.into_iter().chain(at).min();
    }

    /// Ends the streams whose authorization has expired. What was written before is still sent. The messages that
    /// follow on streams that can be resumed are kept for a client that reconnects.
    pub(in crate::http::server) fn end_unauthorized(&mut self) {
        if self.authorized_until.is_none_or(|at| self.clock < at) {
            return;
        }
        let has_expired = |it: &Exchange| it.authorized_until.is_some_and(|at| at <= self.clock);
        let expired: Vec<_> =
            self.exchanges.iter().filter(|(_, it)| has_expired(it)).map(|(id, _)| ExchangeId(id)).collect();
        expired.into_iter().for_each(|id| self.end_stream(id));
        // A response that has not begun is checked again if it becomes a stream.
        let others = self.exchanges.iter().filter_map(|(_, it)| it.authorized_until.filter(|_| !it.is_open()));
        self.authorized_until = others.min();
    }

    /// Ends the stream of an exchange, unless it has to be completed.
    fn end_stream(&mut self, id: ExchangeId) {
        let primes = self.primes();
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        match &self.kind {
            SessionKind::Modern { .. } | SessionKind::Old { .. } => {
                exchange.authorized_until = None;
                return self.conn.handle_transport_error("the authorization of its stream has expired");
            }
            SessionKind::Streams { .. } if exchange.is_open() => return,
            SessionKind::Streams { streams, .. } => {
                exchange.authorized_until = None;
                let own = exchange.stream.and_then(|stream| streams.all.get(stream));
                // Before 2025-11-25, clients need not resume the stream of a response.
                if exchange.is_ended() || own.is_some_and(|stream| !stream.listens) && !primes {
                    return;
                }
                exchange.behind = None;
            }
        }
        self.remote_streams.forget(id);
        self.send_retry(id, None);
        self.end(id);
    }
}
