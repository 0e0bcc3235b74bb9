//! Calls that have ended without a response of the backend, which may still send messages about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use mcp_proto::{
    connection::ClientRole,
    protocol::Era,
    rpc::{CallId, Timestamp},
};

use crate::{inbound::context::Context, outbound::peer::Peer};

/// The most clients with such calls on one connection.
const MAX_LATE: usize = 256;

/// The most such calls of one client whose responses end the wait for them. With more of them, all of its calls count
/// for the whole time.
const MAX_LATE_CALLS: usize = 64;

/// The most connections on which the table stores that the backend continues calls.
const MAX_CONTINUED: usize = 16;

/// The key of a call: the number of its connection, and its id there.
pub(super) type CallKey = (u64, CallId);

/// The client that sent a request: a session, or without a session a principal or a connection.
pub(super) struct Client {
    pub(super) connection: u64,
    principal: Option<String>,
}

impl Client {
    pub(super) fn of(context: &Context) -> Self {
        Self { connection: context.shared.calls.number(), principal: principal_of(context).map(str::to_owned) }
    }

    /// Returns whether this client has sent the request.
    pub(super) fn has_sent(&self, context: &Context) -> bool {
        let is_principal = || self.principal.as_deref().is_some_and(|own| principal_of(context) == Some(own));
        self.connection == context.shared.calls.number() || is_principal()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.connection == other.connection || self.principal.is_some() && self.principal == other.principal
    }
}

/// Returns the principal of a client without a session.
fn principal_of(context: &Context) -> Option<&str> {
    let info = context.info();
    info.principal.as_ref().filter(|_| info.version.era() == Era::Modern).map(|principal| &*principal.id)
}

/// Calls that have ended without a response of the backend.
#[derive(Default)]
pub(super) struct LateCalls {
    of_clients: Vec<Late>,
    /// The connections on which the backend has responded to a call after it had read the cancellation. Those of the
    /// oldest connections are removed.
    continues: BTreeSet<u64>,
}

/// The calls of one client.
pub(super) struct Late {
    /// The calls, and whether the backend has read their cancellations. `None` if there are too many to store; then
    /// they count for the whole time.
    calls: Option<BTreeMap<CallId, End>>,
    /// `None` stands for all other clients.
    client: Option<Arc<Client>>,
    /// The connection to the backend.
    peer: Peer<ClientRole>,
    /// The latest time until which the calls count.
    max: Timestamp,
    /// The time until which the calls count, if the backend sends nothing that may belong to them.
    until: Timestamp,
}

/// The end of a call: whether the backend has read its cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Sent,
    /// The response to a ping will confirm it.
    Confirming,
    Known,
    /// The call has become a task, or is about to (2025-11-25). No cancellation that the backend reads ends a task, so
    /// the call counts for the whole time, unless this request is the one for the result and gets its response.
    Task {
        is_result: bool,
    },
}

impl Late {
    fn is_on(&self, connection: u64) -> bool {
        self.peer.calls().number() == connection
    }

    fn add(&mut self, call: Option<(CallId, End)>) {
        match (&mut self.calls, call) {
            (Some(calls), Some((call, end))) if calls.len() < MAX_LATE_CALLS => _ = calls.insert(call, end),
            _ => self.calls = None,
        }
    }

    /// Changes the state of all calls that have one. Returns whether there are such calls.
    fn change(&mut self, from: End, to: End) -> bool {
        let calls = self.calls.iter_mut().flat_map(BTreeMap::values_mut).filter(|end| **end == from);
        calls.map(|end| *end = to).count() > 0
    }

    /// Returns whether the backend has read the cancellations of all calls.
    fn is_known(&self) -> bool {
        self.calls.as_ref().is_some_and(|calls| calls.values().all(|end| *end == End::Known))
    }
}

impl LateCalls {
    /// Adds a call of a client, which counts at most until `max`.
    pub(super) fn add(&mut self, client: Client, call: Option<(CallId, End)>, peer: &Peer<ClientRole>, max: Timestamp) {
        let connection = peer.calls().number();
        let mut on = self.of_clients.iter_mut().filter(|late| late.is_on(connection));
        if let Some(known) = on.find(|late| late.client.as_ref().is_none_or(|it| it.is(&client))) {
            known.max = known.max.max(max);
            known.until = known.max;
            known.add(call);
            return;
        }
        let has_room = self.of_clients.iter().filter(|late| late.is_on(connection)).count() + 1 < MAX_LATE;
        let client = has_room.then(|| Arc::new(client));
        // The calls of all other clients count for the whole time.
        let calls = has_room.then(BTreeMap::new);
        let mut late = Late { calls, client, peer: peer.clone(), max, until: max };
        late.add(call);
        self.of_clients.push(late);
    }

    /// Returns the clients with calls on a connection. `None` stands for all clients.
    pub(super) fn clients(&self, connection: u64) -> impl Iterator<Item = Option<Arc<Client>>> {
        self.of_clients.iter().filter(move |late| late.is_on(connection)).map(|late| late.client.clone())
    }

    /// Returns the connections.
    pub(super) fn peers(&self) -> impl Iterator<Item = &Peer<ClientRole>> {
        self.of_clients.iter().map(|late| &late.peer)
    }

    /// Begins a confirmation of the cancellations that the backend has read. Returns whether one is needed.
    pub(super) fn begin_confirmation(&mut self, connection: u64) -> bool {
        let on = self.of_clients.iter_mut().filter(|late| late.is_on(connection));
        on.filter_map(|late| late.change(End::Sent, End::Confirming).then_some(())).count() > 0
    }

    /// Records that the backend has read the cancellations of the confirmation. The calls count until `until`, or for
    /// the whole time if the backend has continued other calls.
    pub(super) fn confirmed(&mut self, connection: u64, until: Timestamp) {
        let continues = self.continues.contains(&connection);
        for late in self.of_clients.iter_mut().filter(|late| late.is_on(connection)) {
            if late.change(End::Confirming, End::Known) && late.is_known() {
                late.until = if continues { late.max } else { until.min(late.max) };
            }
        }
    }

    /// Sets the end of all calls on a connection to `until`, because the backend may have continued one of them.
    pub(super) fn extend(&mut self, connection: u64, until: Timestamp) {
        for late in self.of_clients.iter_mut().filter(|late| late.is_on(connection)) {
            late.until = late.until.max(until).min(late.max);
        }
    }

    /// Records that the backend has responded to a call. Returns the entry of its client if that was the last call.
    pub(super) fn responded(&mut self, (connection, call): CallKey) -> Vec<Late> {
        let mut on = self.of_clients.iter_mut().filter(|late| late.is_on(connection));
        let calls = on.find_map(|late| late.calls.as_mut().filter(|calls| calls.contains_key(&call)));
        let known = calls.and_then(|calls| match calls.get(&call) {
            Some(End::Task { is_result: false }) => Some(End::Task { is_result: false }),
            _ => calls.remove(&call),
        });
        if known.is_none_or(|end| end == End::Known) {
            // The backend does not stop after a cancellation, so its other calls count for the whole time.
            self.continues.insert(connection);
            if self.continues.len() > MAX_CONTINUED {
                self.continues.pop_first();
            }
            for late in self.of_clients.iter_mut().filter(|late| late.is_on(connection)) {
                late.until = late.max;
            }
        }
        self.of_clients.extract_if(.., |late| late.calls.as_ref().is_some_and(BTreeMap::is_empty)).collect()
    }

    /// Removes the calls whose time has ended.
    pub(super) fn expire(&mut self, is_over: impl Fn(&Peer<ClientRole>, Timestamp) -> bool) -> Vec<Late> {
        self.of_clients.extract_if(.., |late| is_over(&late.peer, late.until)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        server::{service::Service, tool::Tool},
        testing::TestClient,
    };

    fn client(connection: u64) -> Client {
        Client { connection, principal: None }
    }

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    /// Returns the number of clients whose calls count at a time.
    fn count(late: &LateCalls, now: Timestamp) -> usize {
        late.of_clients.iter().filter(|late| now < late.until).count()
    }

    #[test]
    fn only_confirmed_calls_end_before_their_time() {
        let wait = Tool::new("wait", || "done");
        let service = Service::builder("test", "1.0.0").tool(wait).build().expect("a service");
        let server = TestClient::new(&service);
        let (peer, mut late) = (server.server(), LateCalls::default());
        let connection = peer.calls().number();
        let add = |late: &mut LateCalls, number| {
            let call = peer.call_tool("wait", ()).expect("it is sent").id();
            late.add(client(number), Some((call, End::Sent)), &peer, at(60));
        };
        add(&mut late, 1);
        assert_eq!(count(&late, at(59)), 1);
        assert!(late.begin_confirmation(connection) && !late.begin_confirmation(connection));
        // Another call ends after the ping was sent.
        add(&mut late, 2);
        late.confirmed(connection, at(5));
        assert_eq!((count(&late, at(4)), count(&late, at(5)), count(&late, at(59))), (2, 1, 1));
        assert!(late.begin_confirmation(connection));
        late.confirmed(connection + 1, at(10));
        assert_eq!(count(&late, at(59)), 1, "it is another connection");
        late.confirmed(connection, at(10));
        assert_eq!((count(&late, at(9)), count(&late, at(10))), (1, 0));
        // Another call of the client has to be confirmed again.
        add(&mut late, 1);
        assert_eq!(count(&late, at(59)), 1);
        // A call without an id counts for the whole time.
        late.begin_confirmation(connection);
        late.add(client(1), None, &peer, at(60));
        late.confirmed(connection, at(10));
        assert_eq!(count(&late, at(59)), 1);
    }

    /// A task goes on after its request was cancelled. It does not hide other calls of its client, and its responses
    /// tell nothing about cancellations.
    #[test]
    fn tasks_count_until_their_results() {
        let wait = Tool::new("wait", || "done");
        let service = Service::builder("test", "1.0.0").tool(wait).build().expect("a service");
        let server = TestClient::new(&service);
        let peer = server.server();
        let connection = peer.calls().number();
        let [task, other] = [(); 2].map(|()| peer.call_tool("wait", ()).expect("it is sent").id());
        for is_result in [false, true] {
            let mut late = LateCalls::default();
            late.add(client(1), Some((task, End::Task { is_result })), &peer, at(60));
            late.add(client(2), Some((other, End::Sent)), &peer, at(60));
            assert!(late.begin_confirmation(connection));
            late.confirmed(connection, at(5));
            assert_eq!((count(&late, at(4)), count(&late, at(59))), (2, 1), "{is_result}");
            assert_eq!(late.responded((connection, task)).len(), usize::from(is_result));
            assert_eq!(count(&late, at(59)), usize::from(!is_result), "the other call has its time");
            assert_eq!(late.continues.len(), 0, "{is_result}");
        }
        // Beside another call of its client.
        let mut late = LateCalls::default();
        late.add(client(1), Some((other, End::Sent)), &peer, at(60));
        late.add(client(1), Some((task, End::Task { is_result: true })), &peer, at(60));
        assert_eq!((late.responded((connection, other)).len(), late.continues.len()), (0, 0));
        assert_eq!(late.responded((connection, task)).len(), 1);
    }

    /// The states are those of calls, not of their client: a later call does not hide that the backend has continued an
    /// earlier one.
    #[test]
    fn response_to_a_confirmed_call_ends_the_grace_period_of_all() {
        let wait = Tool::new("wait", || "done");
        let service = Service::builder("test", "1.0.0").tool(wait).build().expect("a service");
        let server = TestClient::new(&service);
        let (peer, mut late) = (server.server(), LateCalls::default());
        let connection = peer.calls().number();
        let [first, second] = [(); 2].map(|()| peer.call_tool("wait", ()).expect("it is sent").id());
        late.add(client(1), Some((first, End::Sent)), &peer, at(60));
        late.begin_confirmation(connection);
        late.confirmed(connection, at(5));
        late.add(client(1), Some((second, End::Sent)), &peer, at(60));
        assert_eq!(late.responded((connection, first)).len(), 0);
        late.begin_confirmation(connection);
        late.confirmed(connection, at(5));
        assert_eq!(count(&late, at(59)), 1);
        // Without a confirmation the responses may have crossed the cancellations.
        let mut late = LateCalls::default();
        late.add(client(1), Some((first, End::Sent)), &peer, at(60));
        late.add(client(1), Some((second, End::Sent)), &peer, at(60));
        assert_eq!(late.responded((connection, first)).len(), 0);
        late.begin_confirmation(connection);
        late.confirmed(connection, at(5));
        assert_eq!((count(&late, at(4)), count(&late, at(5))), (1, 0));
    }

    #[test]
    fn late_calls_are_bounded() {
        let wait = Tool::new("wait", || "done");
        let service = Service::builder("test", "1.0.0").tool(wait).build().expect("a service");
        let server = TestClient::new(&service);
        let (peer, mut late) = (server.server(), LateCalls::default());
        let connection = peer.calls().number();
        let calls: Vec<_> = (0..65).map(|_| peer.call_tool("wait", ()).expect("it is sent").id()).collect();
        let stored = |late: &LateCalls, at: usize| late.of_clients[at].calls.as_ref().map(BTreeMap::len);
        // Of one client.
        for (number, call) in calls.iter().enumerate() {
            late.add(client(0), Some((*call, End::Sent)), &peer, at(60));
            assert_eq!(stored(&late, 0), Some(number + 1).filter(|count| *count <= 64), "{number}");
        }
        late.add(client(0), Some((calls[0], End::Sent)), &peer, at(60));
        assert_eq!((stored(&late, 0), late.of_clients.len()), (None, 1));
        // Of all clients.
        for number in 1..255 {
            late.add(client(number), Some((calls[0], End::Sent)), &peer, at(60));
        }
        assert_eq!(
            (late.of_clients.len(), late.clients(connection).flatten().count(), stored(&late, 254)),
            (255, 255, Some(1))
        );
        for number in [255, 256, 257] {
            late.add(client(number), Some((calls[0], End::Sent)), &peer, at(60));
            assert_eq!(
                (late.of_clients.len(), late.clients(connection).flatten().count(), stored(&late, 255)),
                (256, 255, None)
            );
        }
        assert_eq!(late.expire(|_, until| until <= at(59)).len(), 0);
        assert_eq!(late.expire(|_, until| until <= at(60)).len(), 256);
        assert_eq!((late.of_clients.len(), late.peers().count()), (0, 0));
    }

    /// A connection that is not used any more may still be open.
    #[test]
    fn late_calls_of_two_connections_count() {
        let wait = Tool::new("wait", || "done");
        let service = Service::builder("test", "1.0.0").tool(wait).build().expect("a service");
        let servers = [(); 2].map(|()| TestClient::new(&service));
        let peers = servers.each_ref().map(TestClient::server);
        let calls = peers.each_ref().map(|peer| peer.call_tool("wait", ()).expect("it is sent").id());
        for order in [[0, 1], [1, 0]] {
            let mut late = LateCalls::default();
            for it in order {
                late.add(client(1), Some((calls[it], End::Sent)), &peers[it], at(60));
            }
            assert_eq!((late.peers().count(), count(&late, at(59))), (2, 2), "{order:?}");
            // Each is confirmed on its own.
            let [first, second] = order.map(|it| peers[it].calls().number());
            assert_eq!((late.clients(first).count(), late.clients(second).count()), (1, 1), "{order:?}");
            assert!(late.begin_confirmation(first) && late.begin_confirmation(second));
            late.confirmed(first, at(5));
            assert_eq!((count(&late, at(4)), count(&late, at(5))), (2, 1), "{order:?}");
            // A response to a confirmed call extends the other calls of its connection only.
            late.add(client(2), Some((calls[order[1]], End::Sent)), &peers[order[1]], at(60));
            assert!(late.begin_confirmation(second));
            late.confirmed(second, at(5));
            assert_eq!(late.responded((first, calls[order[0]])).len(), 1, "{order:?}");
            assert_eq!(count(&late, at(5)), 0, "{order:?}");
            assert_eq!(late.responded((second, calls[order[1]])).len(), 1, "{order:?}");
            assert_eq!((late.of_clients.len(), count(&late, at(59))), (1, 1), "{order:?}");
        }
    }

    #[test]
    fn continued_connections_are_bounded() {
        let (mut late, wait) = (LateCalls::default(), Tool::new("wait", || "done"));
        let service = Service::builder("test", "1.0.0").tool(wait).build().expect("a service");
        let call = TestClient::new(&service).server().call_tool("wait", ()).expect("it is sent").id();
        (0..20).for_each(|connection| drop(late.responded((connection, call))));
        assert_eq!(late.continues, (4..20).collect());
    }

    #[test]
    fn continued_calls_count_longer_but_not_beyond_their_time() {
        let wait = Tool::new("wait", || "done");
        let service = Service::builder("test", "1.0.0").tool(wait).build().expect("a service");
        let server = TestClient::new(&service);
        let (peer, mut late) = (server.server(), LateCalls::default());
        let connection = peer.calls().number();
        let call = peer.call_tool("wait", ()).expect("it is sent").id();
        late.add(client(1), Some((call, End::Sent)), &peer, at(60));
        late.begin_confirmation(connection);
        late.confirmed(connection, at(5));
        for (on, until, expected) in
            [(connection + 1, 9, 5), (connection, 9, 9), (connection, 7, 9), (connection, 60, 60), (connection, 61, 60)]
        {
            late.extend(on, at(until));
            assert_eq!(late.of_clients[0].until, at(expected));
        }
        // A later time of the same client is that of all of its calls, an earlier one is not.
        for (max, expected) in [(70, 70), (65, 70)] {
            late.add(client(1), None, &peer, at(max));
            assert_eq!((late.of_clients[0].max, late.of_clients[0].until), (at(expected), at(expected)));
        }
    }

    #[test]
    fn clients_are_equal_by_connection_or_principal() {
        let of = |connection, principal: Option<&str>| Client { connection, principal: principal.map(Into::into) };
        for (one, other, expected) in [
            (of(1, None), of(1, None), true),
            (of(1, None), of(2, None), false),
            (of(1, Some("a")), of(2, Some("a")), true),
            (of(1, Some("a")), of(2, Some("b")), false),
            (of(1, Some("a")), of(1, Some("b")), true),
            (of(1, Some("a")), of(2, None), false),
        ] {
            assert_eq!((one.is(&other), other.is(&one)), (expected, expected));
        }
    }
}
