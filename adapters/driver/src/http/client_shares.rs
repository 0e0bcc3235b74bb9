//! The quotas that the clients of an endpoint share, and the part of each session.

use std::sync::Arc;

use mcp_proto::{connection::Principal, http::server::Session, rpc::Timestamp};

use crate::http::peer_addr::PeerAddr;
use crate::{
    limits::{functions::Functions, quota::Quota},
    options::DriverOptions,
};
use mcp_service::driver_api::Holder;

/// The granularity of counting, in bytes. Most sessions hold less most of the time, and then change no quota.
pub(super) const COUNTED: usize = 4 << 10;

/// The additional quota for messages that are kept for replay is [`DriverOptions::unwritten`] divided by this.
pub(super) const REPLAY_PART: usize = 4;

/// The additional quota for the params of `initialize` is [`DriverOptions::unwritten`] divided by this.
pub(super) const DESCRIBED_PART: usize = 4;

/// The quotas of an endpoint, of each of which a client gets a share.
pub(super) struct Shares {
    pub(super) functions: Arc<Functions>,
    /// Bytes that wait to be written, or wait for a stream.
    pub(super) unread: Arc<Quota>,
    /// Bytes of the params of `initialize`. A session that exceeds the quota is ended.
    described: Arc<Quota>,
    /// Bytes that are kept for replay. A session that exceeds the quota drops them.
    replay: Arc<Quota>,
}

impl Shares {
    pub(super) fn new(options: &DriverOptions) -> Arc<Self> {
        Arc::new(Self {
            functions: Functions::new(options.functions, options.function_wait),
            unread: Quota::new(options.unwritten),
            described: Quota::new(options.unwritten / DESCRIBED_PART),
            replay: Quota::new(options.unwritten / REPLAY_PART),
        })
    }

    /// Changes the counted bytes of a client's description in a session, and returns whether there is room for them.
    fn describe(&self, holder: &Holder, counted: &mut u32, bytes: usize) -> bool {
        let mut taken = *counted as usize * COUNTED;
        let has_room = self.described.change(holder, &mut taken, bytes / COUNTED * COUNTED);
        *counted = u32::try_from(taken / COUNTED).unwrap_or(u32::MAX);
        has_room
    }
}

/// Returns the client that a request counts for: its principal, or else its address.
pub(super) fn holder(principal: Option<&Arc<Principal>>, peer: Option<PeerAddr>) -> Holder {
    match (principal, peer) {
        (Some(principal), _) => Holder::Principal(principal.id.as_str().into()),
        (None, Some(PeerAddr(address))) => Holder::at(address),
        (None, None) => Holder::Unknown,
    }
}

/// The part of the quotas that a session holds for its client. Dropping it returns the part.
pub(super) struct ClientUsage {
    shares: Arc<Shares>,
    holder: Holder,
    unread: usize,
    replay: usize,
    /// Counted in units of `COUNTED`, so that the field is small.
    described: u32,
    excess: Excess,
}

/// The state of a session that may hold more than its client may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Excess {
    No,
    /// The session was ended, and its event loop has not been notified yet.
    Yes,
    /// The session was ended, and its event loop was notified.
    Reported,
}

impl ClientUsage {
    pub(super) const fn new(shares: Arc<Shares>, holder: Holder) -> Self {
        Self { shares, holder, unread: 0, replay: 0, described: 0, excess: Excess::No }
    }

    /// Returns the limit of blocking functions, and the client that those of this session count for.
    pub(super) fn functions(&self) -> (&Arc<Functions>, &Holder) {
        (&self.shares.functions, &self.holder)
    }

    /// Counts the bytes that the session holds. Ends the session if they are more than its client may hold, and drops
    /// messages that are kept for replay if there is no room for them.
    pub(super) fn recount(&mut self, session: &mut Session) {
        let Self { shares, holder, unread, replay, described, excess } = self;
        let steps = |bytes: usize| bytes / COUNTED * COUNTED;
        let has_room = shares.describe(holder, described, session.described_bytes());
        if !shares.unread.change(holder, unread, steps(session.held_bytes())) || !has_room {
            // The session is aborted here and not in its event loop: before that runs, a handler could add more output.
            session.abort(Timestamp::ZERO, "it holds more than its client may hold");
            shares.unread.change(holder, unread, steps(session.held_bytes()));
            *excess = if *excess == Excess::No { Excess::Yes } else { *excess };
        }
        if !shares.replay.change(holder, replay, steps(session.replay_bytes())) {
            session.forget_replay();
            shares.replay.change(holder, replay, steps(session.replay_bytes()));
        }
    }

    /// Returns whether bytes that wait to be written are counted. If not, the count cannot become smaller when some of
    /// them leave the session.
    pub(super) const fn counts_unread(&self) -> bool {
        self.unread > 0
    }

    /// Returns whether the session was ended and its event loop has not been notified yet.
    pub(super) fn is_too_much(&self) -> bool {
        self.excess == Excess::Yes
    }

    /// Records that the event loop was notified.
    pub(super) fn mark_reported(&mut self) {
        if self.is_too_much() {
            self.excess = Excess::Reported;
        }
    }
}

impl Drop for ClientUsage {
    fn drop(&mut self) {
        let Self { shares, holder, unread, replay, described, .. } = self;
        shares.unread.change(holder, unread, 0);
        shares.describe(holder, described, 0);
        shares.replay.change(holder, replay, 0);
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::{
        connection::{Event, ServerConfig},
        http::{
            Policy,
            server::{Caller, Endpoint, EndpointOptions, ExchangeId, Output},
        },
        rpc::ReplyKey,
        wire::{Json, RawJson},
    };
    use serde_json::{Value, json};

    use super::*;
    use mcp_service::Service;

    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;
    const NOW: Timestamp = Timestamp::ZERO;

    /// An endpoint, and the session that was created last.
    struct Site {
        endpoint: Endpoint<usize>,
        begun: Option<Session>,
        shares: Arc<Shares>,
    }

    impl Site {
        fn new(unwritten: usize) -> Self {
            let config: ServerConfig = Service::builder("x", "1")
                .tool(mcp_service::Tool::new_async("t", async || "x"))
                .build()
                .expect("a service")
                .config();
            let options = DriverOptions { unwritten, ..DriverOptions::default() };
            let endpoint = Endpoint::new(config, EndpointOptions::new(Policy::loopback()));
            Self { endpoint, begun: None, shares: Shares::new(&options) }
        }

        fn held(&self) -> ClientUsage {
            ClientUsage::new(self.shares.clone(), Holder::Principal("one".into()))
        }

        /// Opens a request of a session, or the first one of a new session.
        fn open(&mut self, session: Option<&mut Session>, message: &Value) -> (ExchangeId, Option<ReplyKey>) {
            let mut head =
                http::Request::post("/").header("host", "localhost").header("content-type", "application/json");
            head = head.header("accept", "application/json, text/event-stream");
            let id = session.as_ref().and_then(|session| session.id()).map(|id| id.as_str().to_owned());
            let head = id.into_iter().fold(head, |head, id| head.header("mcp-session-id", id));
            let head = head.body(()).expect("a request").into_parts().0;
            let mut reader = self.endpoint.begin(&head, Caller::Anybody).expect("it is fine");
            reader.feed(message.to_string().as_bytes()).expect("there is room");
            let mut request = reader.end().expect("it is fine");
            let (begun, random) = (&mut self.begun, [u8::try_from(self.endpoint.len()).expect("few"); 24]);
            let make = |session| {
                *begun = Some(session);
                0
            };
            self.endpoint.route(NOW, &request, random, make).expect("there is room");
            let session = session.or(self.begun.as_mut()).expect("there is one");
            let (exchange, event) = session.open(NOW, &mut request).expect("there is room");
            (exchange, if let Some(Event::Request { key, .. }) = event { Some(key) } else { None })
        }

        fn session(&mut self) -> Session {
            let info = json!({"name": "x", "version": "1"});
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
            let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
            let (exchange, _) = self.open(None, &initialize);
            let mut session = self.begun.take().expect("it was begun");
            read(&mut session, exchange);
            session
        }

        /// Opens a call in a session, and sends a progress notification and a response of so many bytes.
        fn answer(&mut self, session: &mut Session, bytes: usize) -> ExchangeId {
            let params = json!({"name": "t", "_meta": {"progressToken": 1}});
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            let (exchange, key) = self.open(Some(session), &call);
            let (key, conn) = (key.expect("it is asked"), session.connection(NOW));
            conn.progress(key, 1.0, None, None).expect("there is room");
            let result = Json::new(&json!({"content": [], "x": "x".repeat(bytes)})).expect("JSON");
            conn.respond_raw(key, &RawJson::from(&result)).expect("an answer is owed");
            exchange
        }
    }

    /// Reads a response to its end, and returns its number of bytes.
    fn read(session: &mut Session, exchange: ExchangeId) -> usize {
        let mut body = Vec::new();
        while let Some(output) = session.poll_output(exchange, &mut body) {
            assert!(!matches!(output, Output::Abort));
        }
        body.len()
    }

    /// A session that holds more than its client may hold is ended at once, and drops its data.
    #[test]
    fn session_over_memory_share_ends_at_once() {
        let mut site = Site::new(64 * KIB);
        let (mut first, mut second) = (site.session(), site.session());
        let mut held = [site.held(), site.held()];
        site.answer(&mut first, 32 * KIB);
        held[0].recount(&mut first);
        site.answer(&mut second, 16 * KIB);
        held[1].recount(&mut second);
        let before = site.shares.unread.taken();
        assert!(before >= 48 * KIB && !held[0].is_too_much() && !held[1].is_too_much(), "{before}");
        // More than seven eighths.
        site.answer(&mut second, 16 * KIB);
        held[1].recount(&mut second);
        assert!(held[1].is_too_much() && !held[0].is_too_much());
        assert!(second.is_closed() && second.held_bytes() < 4 * KIB, "{} bytes are left", second.held_bytes());
        assert_eq!(site.shares.unread.taken(), 32 * KIB);
        held[1].mark_reported();
        held[1].recount(&mut second);
        assert!(!held[1].is_too_much(), "its driver is mark_notified once");
        drop(held);
        assert_eq!(site.shares.unread.taken(), 0);
    }

    /// Messages that are kept for replay neither refuse requests nor end sessions of a client that reads everything.
    #[test]
    fn replay_messages_do_not_count_as_unread() {
        let mut site = Site::new(64 * KIB);
        let mut sessions: Vec<_> = (0..16).map(|_| (site.session(), site.held())).collect();
        let holder = sessions[0].1.holder.clone();
        let mut kept = 0;
        for (session, held) in &mut sessions {
            let exchange = site.answer(session, 12 * KIB);
            held.recount(session);
            assert!(read(session, exchange) > 12 * KIB);
            held.recount(session);
            assert!(!held.is_too_much() && site.shares.unread.has_room(&holder, 1));
            kept += session.replay_bytes();
            assert!(kept <= 16 * KIB, "{kept} bytes are kept, and a quarter of 64 KiB is the capacity");
        }
        assert!(kept >= 12 * KIB, "what there is room for is kept: {kept}");
        assert_eq!(site.shares.unread.taken(), 0);
        drop(sessions);
        assert_eq!(site.shares.replay.taken(), 0);
    }

    /// Creates a session of a client with this description.
    fn describe(site: &mut Site, holder: &Holder, more: &Value) -> (Session, ClientUsage) {
        let mut params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        for (name, value) in more.as_object().expect("members") {
            params[name] = value.clone();
        }
        let (exchange, _) =
            site.open(None, &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        let mut session = site.begun.take().expect("it was begun");
        let mut held = ClientUsage::new(site.shares.clone(), holder.clone());
        read(&mut session, exchange);
        held.recount(&mut session);
        (session, held)
    }

    #[test]
    fn client_descriptions_have_their_own_limit() {
        let one = Holder::at([10, 0, 0, 1].into());
        for holder in [one.clone(), Holder::Unknown] {
            let mut site = Site::new(MIB);
            let picture = format!("data:image/png;base64,{}", "A".repeat(20 * KIB));
            let info = json!({"name": "x", "version": "1", "icons": [{"src": picture}]});
            let sessions: Vec<_> =
                (0..30).map(|_| describe(&mut site, &holder, &json!({"clientInfo": info}))).collect();
            let left = sessions.iter().filter(|(session, _)| !session.is_closed()).count();
            // 256 KiB, of which an address has seven eighths, in steps of 20 KiB.
            assert_eq!(left, if holder == one { 11 } else { 12 });
            for client in [&one, &holder, &Holder::Principal("ada".into())] {
                assert!(site.shares.unread.has_room(client, 1));
            }
            let mut other = site.session();
            let mut held = ClientUsage::new(site.shares.clone(), holder.clone());
            site.answer(&mut other, 512 * KIB);
            held.recount(&mut other);
            assert!(!other.is_closed());
            drop((sessions, held));
            assert_eq!((site.shares.described.taken(), site.shares.unread.taken()), (0, 0));
        }
    }
}
