//! The server, its clients and the ways between them, and what happens to them.

use std::{sync::Arc, time::Duration};

use mcp_proto::{
    connection::{Client, ClientRole, Connection, Server, ServerRole, Wake},
    protocol::{ProtocolVersion, Role, VersionSet, negotiate},
    rpc::Timestamp,
};

use super::{
    desk::{Desk, End, Other},
    plan::{Actor, Manners, Plan},
    rogue::Rogue,
    seat::Seat,
    stage::{Deed, Stage},
    trace::Who,
    way::Way,
};

/// Steps after which a run is taken to chase its own tail.
const LIVELOCK: u64 = 5_000_000;

/// Who sits at one end of a connection.
enum Chair<E> {
    /// A peer that keeps the rules.
    Good(Box<Seat<E>>),
    /// A peer that does not.
    Bad(Box<Rogue>),
    /// None any more.
    Empty,
}

/// One connection.
struct Pair {
    actor: usize,
    client: Chair<ClientRole>,
    server: Chair<ServerRole>,
    up: Way,
    down: Way,
    /// When there is something to do next; now, if that is not known.
    wake: Option<Timestamp>,
    /// The same if there were no pings.
    wake_without_pings: Option<Timestamp>,
}

/// Everything that there is in a run.
pub struct World<'a> {
    stage: Stage<'a>,
    plan: Plan,
    pairs: Vec<Pair>,
    /// How often each client may still connect.
    connects: Vec<u64>,
    steps: u64,
}

impl<E: End> Chair<E> {
    fn turn(&mut self, stage: &mut Stage<'_>, input: &mut Way, output: &mut Way) -> bool {
        match self {
            Self::Good(seat) => {
                let moved = seat.turn(stage, input, output);
                if seat.has_left && seat.desk.jobs.is_empty() {
                    seat.assert_at_rest();
                    *self = Self::Empty;
                }
                moved
            }
            Self::Bad(rogue) => rogue.turn(stage, input, output),
            Self::Empty => false,
        }
    }

    fn seat(&mut self) -> Option<&mut Seat<E>> {
        if let Self::Good(seat) = self { Some(seat) } else { None }
    }

    const fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// Does something of its own.
    fn act(&mut self, stage: &mut Stage<'_>, deed: Deed, pause: Duration) {
        if let Self::Bad(rogue) = self {
            rogue.step(stage, pause);
        }
        let Some(Seat { conn, desk, .. }) = self.seat() else { return };
        match deed {
            Deed::Step(_) => desk.step(stage, conn, pause),
            Deed::Work(_, key) => desk.work(stage, conn, key),
            Deed::GiveUp(_, call) => desk.give_up(stage, conn, call),
            Deed::Task(_, number) => desk.go_on(stage, conn, number),
            Deed::Close(who) => {
                stage.note(who, "closes", "");
                conn.close(stage.now);
            }
            _ => {}
        }
        if let Some(seat) = self.seat() {
            seat.take_events(stage);
        }
    }

    /// No peer is silent any more, and none waits for ever.
    fn wind_down(&mut self, stage: &mut Stage<'_>) {
        let Some(Seat { desk, .. }) = self.seat() else { return };
        let who = desk.who;
        stage.plan(Duration::from_secs(1), Deed::Step(who));
        desk.jobs.keys().for_each(|key| stage.plan(Duration::ZERO, Deed::Work(who, *key)));
        desk.tasks.keys().for_each(|task| stage.plan(Duration::ZERO, Deed::Task(who, *task)));
        let endless = desk.calls.iter().filter(|(_, made)| made.is_endless());
        endless.for_each(|(call, _)| stage.plan(Duration::from_secs(1), Deed::GiveUp(who, *call)));
    }
}

impl Pair {
    /// Lets both ends do what they can. Whether anything moved.
    fn turn(&mut self, stage: &mut Stage<'_>) -> bool {
        let client_first = stage.dice.percent(50);
        let mut moved = client_first && self.client.turn(stage, &mut self.down, &mut self.up);
        moved |= self.server.turn(stage, &mut self.up, &mut self.down);
        moved | (!client_first && self.client.turn(stage, &mut self.down, &mut self.up))
    }

    const fn is_over(&self) -> bool {
        self.client.is_empty() && self.server.is_empty()
    }

    /// Something has been done to it from outside.
    fn touch(&mut self) -> &mut Self {
        (self.wake, self.wake_without_pings) = (Some(Timestamp::ZERO), Some(Timestamp::ZERO));
        self
    }

    /// Nothing moves at this moment.
    fn rest(&mut self, now: Timestamp) {
        (self.wake, self.wake_without_pings) = (self.next(now, true), self.next(now, false));
    }

    /// When something happens without anybody doing anything.
    fn next(&self, now: Timestamp, with_pings: bool) -> Option<Timestamp> {
        let client = if let Chair::Good(seat) = &self.client { seat.conn.poll_timeout() } else { None };
        let server = if let Chair::Good(seat) = &self.server { seat.conn.poll_timeout() } else { None };
        let timers = client.into_iter().chain(server);
        let timers =
            timers.filter(|deadline| with_pings || deadline.wake != Wake::Keepalive).map(|deadline| deadline.at);
        timers.chain(self.up.next_arrival(now)).chain(self.down.next_arrival(now)).min()
    }

    /// The process at one end dies.
    fn vanish(&mut self, role: Role) {
        match role {
            Role::Client => {
                self.client = Chair::Empty;
                self.up.end();
                self.down.abandoned = true;
            }
            Role::Server => {
                self.server = Chair::Empty;
                self.down.end();
                self.up.abandoned = true;
            }
        }
    }

    fn check_calm(&self, actor: &Actor, server: &mcp_proto::connection::ServerConfig) {
        let (Chair::Good(client), Chair::Good(served)) = (&self.client, &self.server) else { return };
        let expected = in_common(actor.client.settings.versions, server.settings.versions);
        assert_eq!(client.conn.version().filter(|_| client.desk.is_ready), expected, "what both can speak");
        let (ours, theirs) = (client.desk.heard, served.desk.heard);
        assert_eq!((ours.said, theirs.said), (theirs.heard, ours.heard), "what was said has been heard");
        if client.conn.version() == served.conn.version() {
            assert!(ours.told_at >= theirs.changed_at, "a change was not told: {theirs:?} {ours:?}");
        }
    }
}

impl<'a> World<'a> {
    /// A world in which nothing has happened.
    #[must_use]
    pub fn new(mut stage: Stage<'a>) -> Self {
        let plan = Plan::draw(&mut stage.dice);
        for actor in 0..plan.actors.len() {
            stage.plan_within(plan.length, Deed::Connect(actor));
        }
        for change in 0..plan.changes {
            stage.plan_within(plan.length, Deed::Change(change));
        }
        let connects = plan.actors.iter().map(|actor| actor.reconnects + 1).collect();
        Self { stage, plan, pairs: Vec::new(), connects, steps: 0 }
    }

    /// Lets everything happen, and everything come to an end.
    ///
    /// # Panics
    /// If anything happens that must not.
    pub fn run(mut self) -> Stage<'a> {
        self.run_until(Timestamp::ZERO + self.plan.length, true);
        self.stage.winding_down = true;
        let now = self.stage.now;
        for pair in &mut self.pairs {
            pair.touch();
            (pair.up.stalled_until, pair.down.stalled_until) = (now, now);
            if matches!(pair.client, Chair::Bad(_)) {
                pair.vanish(Role::Client);
            }
            if matches!(pair.server, Chair::Bad(_)) {
                pair.vanish(Role::Server);
            }
            pair.client.wind_down(&mut self.stage);
            pair.server.wind_down(&mut self.stage);
        }
        for task in self.stage.all_tasks() {
            self.stage.plan_within(Duration::from_secs(1), Deed::Advance(task));
        }
        let far = Timestamp::from_nanos(u64::MAX);
        self.run_until(far, false);
        self.rest();
        for at in 0..self.pairs.len() {
            let role = if self.stage.dice.percent(50) { Role::Client } else { Role::Server };
            let who = Who { pair: at, role };
            let deed = if self.stage.dice.percent(80) { Deed::Close(who) } else { Deed::Vanish(who) };
            self.stage.plan_within(Duration::from_secs(1), deed);
        }
        self.run_until(far, true);
        assert!(self.pairs.iter().all(Pair::is_over), "it never comes to an end");
        self.stage
    }

    /// Confirms that nothing is open anywhere.
    fn rest(&mut self) {
        for pair in &mut self.pairs {
            if let Some(seat) = pair.client.seat() {
                seat.assert_at_rest();
            }
            if let Some(seat) = pair.server.seat() {
                seat.assert_at_rest();
            }
            let actor = &self.plan.actors[pair.actor];
            if actor.is_calm {
                pair.check_calm(actor, &self.plan.server);
            }
        }
    }

    /// Lets things happen up to a moment, or until nothing does.
    fn run_until(&mut self, end: Timestamp, with_pings: bool) {
        loop {
            self.settle();
            let now = self.stage.now;
            let live = self.pairs.iter().filter(|pair| !pair.is_over());
            let wakes = live.filter_map(|pair| if with_pings { pair.wake } else { pair.wake_without_pings });
            let next = wakes.chain(self.stage.next_due()).min();
            match next {
                Some(next) if next <= end => self.stage.now = now.max(next),
                _ => break,
            }
        }
        if end.as_nanos() < u64::MAX {
            self.stage.now = end;
        }
    }

    /// Lets everything happen that can happen at this moment.
    fn settle(&mut self) {
        loop {
            self.steps += 1;
            assert!(self.steps < LIVELOCK, "it never comes to rest");
            let mut moved = false;
            if let Some(deed) = self.stage.due() {
                self.act(deed);
                moved = true;
            }
            for at in 0..self.pairs.len() {
                let pair = &mut self.pairs[at];
                if pair.is_over() || pair.wake.is_none_or(|wake| wake > self.stage.now) {
                    continue;
                }
                if pair.turn(&mut self.stage) {
                    moved = true;
                } else {
                    pair.rest(self.stage.now);
                }
                if pair.is_over() {
                    moved = true;
                    let actor = pair.actor;
                    self.stage.plan_within(Duration::from_secs(60), Deed::Connect(actor));
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn act(&mut self, deed: Deed) {
        match deed {
            Deed::Connect(actor) => self.connect(actor),
            Deed::Change(what) => self.tell_servers(|desk, stage, conn| desk.change(stage, conn, what)),
            Deed::Advance(task) => {
                if let Some(said) = self.stage.advance_task(task) {
                    self.tell_servers(|desk, stage, conn| desk.tell_of_task(stage, conn, &said));
                }
            }
            Deed::Vanish(who) => {
                self.stage.note(who, "vanishes", "");
                self.pairs[who.pair].touch().vanish(who.role);
            }
            Deed::Stall(who, time) => {
                self.stage.note(who, "stalls", format_args!("{time:?}"));
                let pair = self.pairs[who.pair].touch();
                let way = if who.role == Role::Client { &mut pair.down } else { &mut pair.up };
                way.stalled_until = self.stage.now + time;
            }
            Deed::Step(who) | Deed::Work(who, _) | Deed::GiveUp(who, _) | Deed::Close(who) | Deed::Task(who, _) => {
                let pair = self.pairs[who.pair].touch();
                let pause = self.plan.actors[pair.actor].pause;
                match who.role {
                    Role::Client => pair.client.act(&mut self.stage, deed, pause),
                    Role::Server => pair.server.act(&mut self.stage, deed, pause),
                }
            }
        }
    }

    /// Has every connection of the server tell something.
    fn tell_servers(&mut self, tell: impl Fn(&mut Desk, &mut Stage<'_>, &mut Connection<ServerRole>)) {
        for pair in &mut self.pairs {
            if let Some(seat) = pair.server.seat()
                && seat.desk.closed.is_none()
            {
                tell(&mut seat.desk, &mut self.stage, &mut seat.conn);
                seat.take_events(&mut self.stage);
                pair.touch();
            }
        }
    }

    /// A client opens a connection.
    fn connect(&mut self, number: usize) {
        if self.stage.winding_down || self.connects[number] == 0 {
            return;
        }
        self.connects[number] -= 1;
        let (stage, actor, pair) = (&mut self.stage, &self.plan.actors[number], self.pairs.len());
        let who = |role| Who { pair, role };
        let other = |is_good| Other { is_good, in_order: !actor.up.letters, is_calm: actor.is_calm };
        let desk = |role, is_good| Desk::new(who(role), other(is_good), actor.habits, actor.steps);
        stage.note(who(Role::Client), "connects", format_args!("{number}"));
        let client = if actor.manners == Manners::BadClient {
            stage.plan_within(actor.pause, Deed::Step(who(Role::Client)));
            Chair::Bad(Box::new(Rogue::new(stage, who(Role::Client))))
        } else {
            let conn = Client::new(Arc::clone(&actor.client), stage.now);
            let desk = desk(Role::Client, actor.manners == Manners::Good);
            Chair::Good(Box::new(Seat::new(stage, conn, desk)))
        };
        let server = if actor.manners == Manners::BadServer {
            stage.plan_within(actor.pause, Deed::Step(who(Role::Server)));
            Chair::Bad(Box::new(Rogue::new(stage, who(Role::Server))))
        } else {
            let conn = Server::new(Arc::clone(&self.plan.server), stage.now);
            let desk = desk(Role::Server, actor.manners == Manners::Good);
            Chair::Good(Box::new(Seat::new(stage, conn, desk)))
        };
        let (up, down) = (Way::new(actor.up, true), Way::new(actor.down, false));
        let wake = Some(stage.now);
        self.pairs.push(Pair { actor: number, client, server, up, down, wake, wake_without_pings: wake });
    }
}

/// The revision that a client and a server come to speak.
fn in_common(client: VersionSet, server: VersionSet) -> Option<ProtocolVersion> {
    if client.intersection(server).contains(ProtocolVersion::LATEST) {
        return Some(ProtocolVersion::LATEST);
    }
    let client = client.intersection(VersionSet::LEGACY);
    negotiate(client.newest()?.as_str(), server).filter(|version| client.contains(*version))
}
