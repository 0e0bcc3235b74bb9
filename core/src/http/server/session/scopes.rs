//! The scopes that clients need to resume streams.

use alloc::{boxed::Box, string::String, vec::Vec};

use super::{Session, SessionKind};
use crate::{
    http::{
        AuthRefusal, HttpResponse,
        server::{ExchangeId, Request, target::Target},
    },
    rpc::{ReplyKey, Timestamp},
};

impl Session {
    /// Records that a request requires scopes, which its sender has. The stream of its response can then be resumed
    /// only by a principal with these scopes. Those of several requests of a batch (2025-03-26) add up.
    ///
    /// Call it before the request is handled. A stream that was resumed before that ends, and its client may resume it
    /// again.
    pub fn require_scopes(&mut self, now: Timestamp, key: ReplyKey, scopes: &[String]) {
        self.clock = self.clock.max(now);
        if scopes.is_empty() {
            return;
        }
        let SessionKind::Streams { streams, .. } = &mut self.kind else { return };
        let carrier = self.conn.stream_of(key).and_then(|stream| streams.require(stream, scopes));
        if let Some(id) = carrier {
            // Whether its principal has the scopes is not known any more.
            if let Some(exchange) = self.exchanges.get_mut(id.0) {
                exchange.behind = None;
            }
            self.send_retry(id, None);
            self.end(id);
        }
    }

    /// Returns the scopes that a request needs to resume a stream, if its principal does not have all of them. A driver
    /// that refuses it with a challenge calls this before [`open`](Self::open), under the same lock.
    #[must_use]
    pub fn missing_scopes(&self, request: &Request) -> Option<Vec<String>> {
        let Target::Listen(_, Some(last)) = &request.target else { return None };
        let SessionKind::Streams { streams, .. } = &self.kind else { return None };
        let stream = streams.find(last).ok()?.stream;
        let needed = &streams.all.get(stream)?.scopes;
        let has = |scope: &String| request.principal().is_some_and(|principal| principal.has_scope(scope));
        (!needed.iter().all(has)).then(|| needed.clone())
    }

    /// Refuses a request that resumes a stream without the scopes for it. The exchange that carries it is not affected.
    pub(super) fn refuse_without_scopes(&self, request: &Request) -> Result<(), Box<HttpResponse>> {
        match self.missing_scopes(request) {
            Some(scopes) => {
                let message = alloc::format!("Insufficient scope: {}", scopes.join(" "));
                Err(Box::new(AuthRefusal::forbidden(None).message(message).response(None)))
            }
            None => Ok(()),
        }
    }

    /// Returns whether the principal that replays a stream of another process has all of these scopes.
    #[must_use]
    pub fn has_replay_scopes(&self, id: ExchangeId, scopes: &[String]) -> bool {
        let Some(remote) = self.remote_streams.0.get(&id) else { return true };
        scopes.iter().all(|scope| remote.scopes.contains(scope))
    }

    /// Ends an exchange that replays a stream of another process, because its principal lacks scopes: with this
    /// refusal if nothing of the stream was found before.
    pub fn refuse_replay(&mut self, now: Timestamp, id: ExchangeId, refusal: &AuthRefusal) {
        self.stop_replay(now, id, refusal.response(None));
    }
}
