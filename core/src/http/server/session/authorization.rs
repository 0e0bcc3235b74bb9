//! The end of streams whose authorization has expired.

use alloc::vec::Vec;

use super::{Session, SessionKind};
use crate::http::server::{ExchangeId, Request, exchange::Exchange, target::Target};
use crate::{protocol::Method, rpc::Timestamp};

impl Request {
    /// Returns when the authorization of the response expires, if it may be a stream that ends then. The response to a
    /// message is completed, except that of a subscription: its request was authorized, and no response may be lost.
    pub(super) fn authorized_until(&self) -> Option<Timestamp> {
        let ends = match self.target {
            Target::Modern(_) => self.method() == Some(Method::Listen.as_str()),
            Target::Listen(..) | Target::OldStream => true,
            Target::Initialize | Target::Message(_) | Target::End(_) | Target::OldMessage(_) => false,
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

    /// Ends the streams whose authorization has expired and that belong to no request. What was written before is still
    /// sent. The messages that follow are kept for a client that reconnects.
    pub(in crate::http::server) fn end_unauthorized(&mut self) {
        if self.authorized_until.is_none_or(|at| self.clock < at) {
            return;
        }
        let has_expired = |it: &Exchange| it.authorized_until.is_some_and(|at| at <= self.clock);
        let expired: Vec<_> =
            self.exchanges.iter().filter(|(_, it)| has_expired(it)).map(|(id, _)| ExchangeId(id)).collect();
        expired.into_iter().for_each(|id| self.end_stream(id));
        self.authorized_until = self.exchanges.iter().filter_map(|(_, it)| it.authorized_until).min();
    }

    /// Ends the stream of an exchange, unless it is that of a response, which was resumed.
    fn end_stream(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        exchange.authorized_until = None;
        match &self.kind {
            SessionKind::Modern { .. } | SessionKind::Old { .. } => {
                return self.conn.handle_transport_error("the authorization of its stream has expired");
            }
            SessionKind::Streams { streams, .. } => {
                let own = exchange.stream.and_then(|stream| streams.all.get(stream)).map(|stream| stream.listens);
                let remote = || self.remote_streams.0.get(&id).map(|remote| remote.at.listens);
                if exchange.is_ended() || own.or_else(remote) == Some(false) {
                    return;
                }
                exchange.behind = None;
                if exchange.is_open() {
                    // A stream of another process, of which nothing was found yet.
                    exchange.stream();
                }
            }
        }
        self.remote_streams.forget(id);
        self.send_retry(id, None);
        self.end(id);
    }
}
