//! The simulation: the server, its clients, and the transports between them.

use std::{sync::Arc, time::Duration};

use mcp_proto::{
    connection::{Client, ClientRole, Connection, Server, ServerRole, Wake},
    protocol::{ProtocolVersion, Role, VersionSet, negotiate},
    rpc::Timestamp,
};

use super::{
    application::{Application, PeerTraits, RoleExt},
    environment::{Action, Environment},
    peer::Peer,
    plan::{ClientPlan, Conformance, Plan},
    rogue_peer::RoguePeer,
    trace::PeerId,
    transport::Transport,
};

/// The number of steps after which a run counts as a livelock.
const LIVELOCK: u64 = 5_000_000;

/// One side of a connection.
enum Slot<E> {
    /// A peer that follows the protocol.
    Conforming(Box<Peer<E>>),
    /// A peer that violates the protocol.
    Rogue(Box<RoguePeer>),
    /// The side has ended.
    Empty,
}

/// One connection.
struct ConnectionPair {
    client_plan: usize,
    client: Slot<ClientRole>,
    server: Slot<ServerRole>,
    up: Transport,
    down: Transport,
    /// When it has to run next; the current time if unknown.
    wake: Option<Timestamp>,
    /// The same without pings.
    wake_without_pings: Option<Timestamp>,
}

/// The state of a run.
pub struct Simulation<'a> {
    env: Environment<'a>,
    plan: Plan,
    pairs: Vec<ConnectionPair>,
    /// How often each client may still connect.
    connects: Vec<u64>,
    steps: u64,
}

impl<E: RoleExt> Slot<E> {
    fn tick(&mut self, env: &mut Environment<'_>, input: &mut Transport, output: &mut Transport) -> bool {
        match self {
            Self::Conforming(peer) => {
                let moved = peer.tick(env, input, output);
                if peer.has_stopped && peer.app.jobs.is_empty() {
                    peer.assert_idle();
                    *self = Self::Empty;
                }
                moved
            }
            Self::Rogue(rogue) => rogue.tick(env, input, output),
            Self::Empty => false,
        }
    }

    fn peer(&mut self) -> Option<&mut Peer<E>> {
        if let Self::Conforming(peer) = self { Some(peer) } else { None }
    }

    const fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// Performs a scheduled action.
    fn apply(&mut self, env: &mut Environment<'_>, action: Action, pause: Duration) {
        if let Self::Rogue(rogue) = self {
            rogue.step(env, pause);
        }
        let Some(Peer { conn, app, .. }) = self.peer() else { return };
        match action {
            Action::Step(_) => app.step(env, conn, pause),
            Action::Continue(_, key) => app.work(env, conn, key),
            Action::Cancel(_, call) => app.cancel_call(env, conn, call),
            Action::AdvanceSessionTask(_, number) => app.advance_session_task(env, conn, number),
            Action::Close(peer_id) => {
                env.note(peer_id, "closes", "");
                conn.close(env.now);
            }
            _ => {}
        }
        if let Some(peer) = self.peer() {
            peer.take_events(env);
        }
    }

    /// Prepares the application for the end: it responds to all requests, and no call stays open.
    fn wind_down(&mut self, env: &mut Environment<'_>) {
        let Some(Peer { app, .. }) = self.peer() else { return };
        let peer_id = app.peer_id;
        env.schedule(Duration::from_secs(1), Action::Step(peer_id));
        app.jobs.keys().for_each(|key| env.schedule(Duration::ZERO, Action::Continue(peer_id, *key)));
        app.tasks.keys().for_each(|task| env.schedule(Duration::ZERO, Action::AdvanceSessionTask(peer_id, *task)));
        let endless = app.calls.iter().filter(|(_, request)| request.is_endless());
        endless.for_each(|(call, _)| env.schedule(Duration::from_secs(1), Action::Cancel(peer_id, *call)));
    }
}

impl ConnectionPair {
    /// Runs both sides once. Returns whether there was anything to do.
    fn tick(&mut self, env: &mut Environment<'_>) -> bool {
        let client_first = env.rng.percent(50);
        let mut moved = client_first && self.client.tick(env, &mut self.down, &mut self.up);
        moved |= self.server.tick(env, &mut self.up, &mut self.down);
        moved | (!client_first && self.client.tick(env, &mut self.down, &mut self.up))
    }

    const fn is_over(&self) -> bool {
        self.client.is_empty() && self.server.is_empty()
    }

    /// Marks the connection to run again.
    fn mark_active(&mut self) -> &mut Self {
        (self.wake, self.wake_without_pings) = (Some(Timestamp::ZERO), Some(Timestamp::ZERO));
        self
    }

    /// Records when an idle connection has to run next.
    fn rest(&mut self, now: Timestamp) {
        (self.wake, self.wake_without_pings) = (self.next(now, true), self.next(now, false));
    }

    /// Returns the time of the next timer or arrival.
    fn next(&self, now: Timestamp, with_pings: bool) -> Option<Timestamp> {
        let client = if let Slot::Conforming(peer) = &self.client { peer.conn.poll_timeout() } else { None };
        let server = if let Slot::Conforming(peer) = &self.server { peer.conn.poll_timeout() } else { None };
        let timers = client.into_iter().chain(server);
        let timers =
            timers.filter(|deadline| with_pings || deadline.wake != Wake::Keepalive).map(|deadline| deadline.at);
        timers.chain(self.up.next_arrival(now)).chain(self.down.next_arrival(now)).min()
    }

    /// Ends the process of one side.
    fn kill(&mut self, role: Role) {
        match role {
            Role::Client => {
                self.client = Slot::Empty;
                self.up.end();
                self.down.abandoned = true;
            }
            Role::Server => {
                self.server = Slot::Empty;
                self.down.end();
                self.up.abandoned = true;
            }
        }
    }

    fn check_undisturbed(&self, client_plan: &ClientPlan, server: &mcp_proto::connection::ServerConfig) {
        let (Slot::Conforming(client), Slot::Conforming(served)) = (&self.client, &self.server) else { return };
        let expected = common_version(client_plan.client.settings.versions, server.settings.versions);
        assert_eq!(client.conn.version().filter(|_| client.app.is_ready), expected, "the newest common revision");
        let (ours, theirs) = (client.app.notifications, served.app.notifications);
        assert_eq!((ours.sent, theirs.sent), (theirs.received, ours.received), "all notifications have arrived");
        if client.conn.version() == served.conn.version() {
            assert!(ours.change_received_at >= theirs.changed_at, "a change was not received: {theirs:?} {ours:?}");
        }
    }
}

impl<'a> Simulation<'a> {
    /// Returns a simulation before its first action.
    #[must_use]
    pub fn new(mut env: Environment<'a>) -> Self {
        let plan = Plan::draw(&mut env.rng);
        for client_plan in 0..plan.client_plans.len() {
            env.schedule_within(plan.length, Action::Connect(client_plan));
        }
        for change in 0..plan.changes {
            env.schedule_within(plan.length, Action::ChangeOffer(change));
        }
        let connects = plan.client_plans.iter().map(|client_plan| client_plan.reconnects + 1).collect();
        Self { env, plan, pairs: Vec::new(), connects, steps: 0 }
    }

    /// Runs all actions, winds the run down, and returns its environment.
    ///
    /// # Panics
    /// If a check fails.
    pub fn run(mut self) -> Environment<'a> {
        self.run_until(Timestamp::ZERO + self.plan.length, true);
        self.env.winding_down = true;
        let now = self.env.now;
        for pair in &mut self.pairs {
            pair.mark_active();
            (pair.up.stalled_until, pair.down.stalled_until) = (now, now);
            if matches!(pair.client, Slot::Rogue(_)) {
                pair.kill(Role::Client);
            }
            if matches!(pair.server, Slot::Rogue(_)) {
                pair.kill(Role::Server);
            }
            pair.client.wind_down(&mut self.env);
            pair.server.wind_down(&mut self.env);
        }
        for task in self.env.all_tasks() {
            self.env.schedule_within(Duration::from_secs(1), Action::AdvanceTask(task));
        }
        let far = Timestamp::from_nanos(u64::MAX);
        self.run_until(far, false);
        self.rest();
        for at in 0..self.pairs.len() {
            let role = if self.env.rng.percent(50) { Role::Client } else { Role::Server };
            let peer_id = PeerId { pair: at, role };
            let action = if self.env.rng.percent(80) { Action::Close(peer_id) } else { Action::Kill(peer_id) };
            self.env.schedule_within(Duration::from_secs(1), action);
        }
        self.run_until(far, true);
        assert!(self.pairs.iter().all(ConnectionPair::is_over), "the run never ends");
        self.env
    }

    /// Checks that all connections are idle.
    fn rest(&mut self) {
        for pair in &mut self.pairs {
            if let Some(peer) = pair.client.peer() {
                peer.assert_idle();
            }
            if let Some(peer) = pair.server.peer() {
                peer.assert_idle();
            }
            let client_plan = &self.plan.client_plans[pair.client_plan];
            if client_plan.is_undisturbed {
                pair.check_undisturbed(client_plan, &self.plan.server);
            }
        }
    }

    /// Runs until a point in time, or until nothing is scheduled.
    fn run_until(&mut self, end: Timestamp, with_pings: bool) {
        loop {
            self.settle();
            let now = self.env.now;
            let live = self.pairs.iter().filter(|pair| !pair.is_over());
            let wakes = live.filter_map(|pair| if with_pings { pair.wake } else { pair.wake_without_pings });
            let next = wakes.chain(self.env.next_due()).min();
            match next {
                Some(next) if next <= end => self.env.now = now.max(next),
                _ => break,
            }
        }
        if end.as_nanos() < u64::MAX {
            self.env.now = end;
        }
    }

    /// Runs everything that is due at the current time.
    fn settle(&mut self) {
        loop {
            self.steps += 1;
            assert!(self.steps < LIVELOCK, "the run never becomes idle");
            let mut moved = false;
            if let Some(action) = self.env.take_due() {
                self.apply(action);
                moved = true;
            }
            for at in 0..self.pairs.len() {
                let pair = &mut self.pairs[at];
                if pair.is_over() || pair.wake.is_none_or(|wake| wake > self.env.now) {
                    continue;
                }
                if pair.tick(&mut self.env) {
                    moved = true;
                } else {
                    pair.rest(self.env.now);
                }
                if pair.is_over() {
                    moved = true;
                    let client_plan = pair.client_plan;
                    self.env.schedule_within(Duration::from_secs(60), Action::Connect(client_plan));
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Connect(client_plan) => self.connect(client_plan),
            Action::ChangeOffer(what) => self.notify_on_servers(|app, env, conn| app.notify_change(env, conn, what)),
            Action::AdvanceTask(task) => {
                if let Some(notification) = self.env.advance_task(task) {
                    self.notify_on_servers(|app, env, conn| app.notify_task(env, conn, &notification));
                }
            }
            Action::Kill(peer_id) => {
                self.env.note(peer_id, "vanishes", "");
                self.pairs[peer_id.pair].mark_active().kill(peer_id.role);
            }
            Action::Stall(peer_id, time) => {
                self.env.note(peer_id, "stalls", format_args!("{time:?}"));
                let pair = self.pairs[peer_id.pair].mark_active();
                let transport = if peer_id.role == Role::Client { &mut pair.down } else { &mut pair.up };
                transport.stalled_until = self.env.now + time;
            }
            Action::Step(peer_id)
            | Action::Continue(peer_id, _)
            | Action::Cancel(peer_id, _)
            | Action::Close(peer_id)
            | Action::AdvanceSessionTask(peer_id, _) => {
                let pair = self.pairs[peer_id.pair].mark_active();
                let pause = self.plan.client_plans[pair.client_plan].pause;
                match peer_id.role {
                    Role::Client => pair.client.apply(&mut self.env, action, pause),
                    Role::Server => pair.server.apply(&mut self.env, action, pause),
                }
            }
        }
    }

    /// Calls `notify` for each open connection of the server.
    fn notify_on_servers(
        &mut self,
        notify: impl Fn(&mut Application, &mut Environment<'_>, &mut Connection<ServerRole>),
    ) {
        for pair in &mut self.pairs {
            if let Some(peer) = pair.server.peer()
                && peer.app.closed.is_none()
            {
                notify(&mut peer.app, &mut self.env, &mut peer.conn);
                peer.take_events(&mut self.env);
                pair.mark_active();
            }
        }
    }

    /// Opens a connection of a client.
    fn connect(&mut self, number: usize) {
        if self.env.winding_down || self.connects[number] == 0 {
            return;
        }
        self.connects[number] -= 1;
        let (env, client_plan, pair) = (&mut self.env, &self.plan.client_plans[number], self.pairs.len());
        let peer_id = |role| PeerId { pair, role };
        let other = |is_conforming| PeerTraits {
            is_conforming,
            in_order: !client_plan.up.whole_messages,
            is_undisturbed: client_plan.is_undisturbed,
        };
        let app = |role, is_conforming| {
            Application::new(peer_id(role), other(is_conforming), client_plan.behavior, client_plan.steps)
        };
        env.note(peer_id(Role::Client), "connects", format_args!("{number}"));
        let client = if client_plan.conformance == Conformance::RogueClient {
            env.schedule_within(client_plan.pause, Action::Step(peer_id(Role::Client)));
            Slot::Rogue(Box::new(RoguePeer::new(env, peer_id(Role::Client))))
        } else {
            let conn = Client::new(Arc::clone(&client_plan.client), env.now);
            let app = app(Role::Client, client_plan.conformance == Conformance::Conforming);
            Slot::Conforming(Box::new(Peer::new(env, conn, app)))
        };
        let server = if client_plan.conformance == Conformance::RogueServer {
            env.schedule_within(client_plan.pause, Action::Step(peer_id(Role::Server)));
            Slot::Rogue(Box::new(RoguePeer::new(env, peer_id(Role::Server))))
        } else {
            let conn = Server::new(Arc::clone(&self.plan.server), env.now);
            let app = app(Role::Server, client_plan.conformance == Conformance::Conforming);
            Slot::Conforming(Box::new(Peer::new(env, conn, app)))
        };
        let (up, down) = (Transport::new(client_plan.up, true), Transport::new(client_plan.down, false));
        let wake = Some(env.now);
        self.pairs.push(ConnectionPair {
            client_plan: number,
            client,
            server,
            up,
            down,
            wake,
            wake_without_pings: wake,
        });
    }
}

/// Returns the revision that a client and a server negotiate.
fn common_version(client: VersionSet, server: VersionSet) -> Option<ProtocolVersion> {
    if client.intersection(server).contains(ProtocolVersion::LATEST) {
        return Some(ProtocolVersion::LATEST);
    }
    let client = client.intersection(VersionSet::LEGACY);
    negotiate(client.newest()?.as_str(), server).filter(|version| client.contains(*version))
}
