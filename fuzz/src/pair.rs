//! Two good peers over a link, and whatever their applications may do to each other in any order.

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use mcp_proto::{
    connection::{ClientRole, Connection, RequestOptions, ResourceUsage, ServerRole, Violation},
    protocol::{Method, ProtocolVersion, VersionSet},
    schema::{ResourceUpdatedParams, SubscriptionFilter, SubscriptionsListenParams},
};
use mcp_tests::{
    bed::{Bed, End},
    link::LinkConfig,
    solo::{full_client, full_server},
};

use crate::app::{App, json, log_message};

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Who {
    Client,
    Server,
}

/// What an application or the world may do. Numbers pick among what there is.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Op {
    Call(Who, Call),
    Listen(u8),
    Notify(Who, u8),
    Updated(u8),
    Cancel(Who, u8),
    Answer(Who, u8, bool),
    Ask(u8),
    Progress(Who, u8),
    Log(u8),
    Run,
    Wait(u16),
    Stall(Who, bool),
    Close(Who),
    Break(Who),
}

/// A request.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Call {
    method: u8,
    /// In steps of 10 ms; none at all above 200.
    idle: u8,
    total: u8,
    progress: bool,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Wire {
    capacity: u8,
    chunk: u8,
    micros: u8,
}

const METHODS: [(&str, &str); 12] = [
    ("vendor/custom", "{}"),
    ("ping", "{}"),
    ("tools/list", "{}"),
    ("tools/call", r#"{"name":"t"}"#),
    ("tools/call", r#"{"name":"t","task":{}}"#),
    ("prompts/get", r#"{"name":"p"}"#),
    ("resources/read", r#"{"uri":"a:b"}"#),
    ("logging/setLevel", r#"{"level":"info"}"#),
    ("roots/list", "{}"),
    ("sampling/createMessage", r#"{"messages":[],"maxTokens":1}"#),
    ("elicitation/create", r#"{"message":"m","requestedSchema":{"type":"object","properties":{}}}"#),
    ("tasks/list", "{}"),
];

const NOTICES: [&str; 6] = [
    "vendor/noted",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/roots/list_changed",
    "notifications/message",
];

/// Two good peers have nothing to complain of, every call ends once, and in the end nothing is left.
///
/// Input: what [`Unstructured`] makes the revisions, the links and the operations of.
pub fn pair(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(mut play) = Play::new(&mut u) else { return };
    for op in u.arbitrary_iter::<Op>().into_iter().flatten().take(200) {
        let Ok(op) = op else { break };
        play.step(op);
    }
    play.finish();
}

struct Play {
    bed: Bed,
    client: App,
    server: App,
    /// A transport has broken: a peer may find half of a message.
    broken: bool,
}

fn take<E>(app: &mut App, end: &mut End<E>) {
    for event in std::mem::take(&mut end.events) {
        app.on_event(&mut end.conn, event);
    }
}

fn apply<E>(conn: &mut Connection<E>, app: &mut App, now: mcp_proto::rpc::Timestamp, op: Op) {
    match op {
        Op::Call(_, Call { method, idle, total, progress }) => {
            let (method, params) = METHODS[usize::from(method) % METHODS.len()];
            let time = |steps: u8| (steps <= 200).then(|| Duration::from_millis(10 * u64::from(steps)));
            let times = (time(idle), time(total));
            let mut options = RequestOptions { progress, ..RequestOptions::default() };
            (options.idle_timeout, options.total_timeout) = times;
            app.calls.extend(conn.request_raw(now, method, Some(&json(params)), options));
        }
        Op::Notify(_, n) => {
            let method = NOTICES[usize::from(n) % NOTICES.len()];
            drop(conn.notify_raw(method, Some(&json(r#"{"level":"info","data":1}"#))));
        }
        Op::Cancel(_, n) => app.cancel_nth(conn, n.into()),
        Op::Answer(_, n, good) => app.answer_nth(conn, n.into(), good),
        Op::Progress(_, n) => app.progress_nth(conn, n.into()),
        Op::Close(_) => conn.close(now),
        _ => unreachable!("it is no business of an application's"),
    }
}

impl Play {
    fn new(u: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let (mut client, mut server) = (full_client(), full_server());
        let modern = VersionSet::only(ProtocolVersion::V2026_07_28);
        let of = |u: &mut Unstructured<'_>| -> arbitrary::Result<VersionSet> {
            Ok(match u.int_in_range(0..=6)? {
                legacy @ 0..=3 => VersionSet::only(ProtocolVersion::LEGACY[legacy]),
                4 => VersionSet::LEGACY,
                5 => VersionSet::ALL,
                _ => modern,
            })
        };
        (client.settings.versions, server.settings.versions) = (of(u)?, of(u)?);
        // Both know at least one revision of the other.
        if client.settings.versions.intersection(server.settings.versions).is_empty() {
            client.settings.versions = server.settings.versions;
        }
        let mut link = || -> arbitrary::Result<LinkConfig> {
            let wire: Wire = u.arbitrary()?;
            let size = |size: u8| if size == 0 { usize::MAX } else { size.into() };
            let delay = Duration::from_micros(wire.micros.into());
            Ok(LinkConfig { capacity: size(wire.capacity), chunk: size(wire.chunk), delay, cut_after: None })
        };
        let (up, down) = (link()?, link()?);
        let bed = Bed::new(client, server, up, down);
        Ok(Self { bed, client: App::default(), server: App::default(), broken: false })
    }

    fn step(&mut self, op: Op) {
        let Self { bed, client, server, broken } = self;
        match op {
            Op::Run => bed.run(),
            Op::Wait(millis) => bed.advance(Duration::from_millis(u64::from(millis) % 3000)),
            Op::Stall(Who::Client, stalled) => bed.down.stalled = stalled,
            Op::Stall(Who::Server, stalled) => bed.up.stalled = stalled,
            Op::Listen(bits) => listen(&mut bed.client.conn, client, bed.now, bits),
            Op::Updated(n) => drop(bed.server.conn.notify(&ResourceUpdatedParams::new(format!("a:{}", n % 4)))),
            Op::Ask(n) => ask(&mut bed.server.conn, server, n.into()),
            Op::Log(n) => {
                drop(server.nth(n.into()).map(|key| bed.server.conn.log(key, &log_message())));
            }
            Op::Break(who) => {
                *broken = true;
                match who {
                    Who::Client => bed.client.conn.handle_disconnect(),
                    Who::Server => bed.server.conn.handle_disconnect(),
                }
            }
            Op::Call(Who::Client, _)
            | Op::Notify(Who::Client, _)
            | Op::Cancel(Who::Client, _)
            | Op::Answer(Who::Client, ..)
            | Op::Progress(Who::Client, _)
            | Op::Close(Who::Client) => apply(&mut bed.client.conn, client, bed.now, op),
            _ => apply(&mut bed.server.conn, server, bed.now, op),
        }
        self.collect();
    }

    fn collect(&mut self) {
        // What one application answers is an event of its own at most.
        while !self.bed.client.events.is_empty() || !self.bed.server.events.is_empty() {
            take(&mut self.client, &mut self.bed.client);
            take(&mut self.server, &mut self.bed.server);
        }
        // A server of the legacy era does not know what a client of both eras asks it first, and may ping a client that does
        // not know yet whether it has to answer. One of the modern era does not know what the client turns to when it has
        // waited too long.
        let probe = Violation::NotReady(Method::Discover.into());
        let resort = Violation::NotSupported(Method::Initialize);
        let ping = Violation::UnexpectedRequest(Method::Ping.into());
        self.server.violations.retain(|violation| ![&probe, &resort].contains(&violation));
        self.client.violations.retain(|violation| *violation != ping);
        if !self.broken {
            assert_eq!([&self.client, &self.server].map(|app| &app.violations[..]), [&[], &[]], "two good peers");
        }
    }

    fn finish(mut self) {
        self.bed.up.stalled = false;
        self.bed.down.stalled = false;
        // An answer may be followed by the next question.
        for _ in 0..64 {
            self.bed.settle();
            self.collect();
            self.client.answer_all(&mut self.bed.client.conn);
            self.server.answer_all(&mut self.bed.server.conn);
        }
        self.bed.settle();
        self.collect();
        assert!(self.client.open.is_empty() && self.server.open.is_empty(), "requests that cannot be answered");
        self.bed.client.conn.close(self.bed.now);
        self.bed.advance(Duration::from_secs(3600));
        self.collect();
        self.server.answer_all(&mut self.bed.server.conn);
        self.bed.advance(Duration::from_secs(3600));
        self.collect();
        for (app, usage, drained) in [
            (&self.client, self.bed.client.conn.usage(), self.bed.client.conn.is_drained()),
            (&self.server, self.bed.server.conn.usage(), self.bed.server.conn.is_drained()),
        ] {
            app.assert_over();
            assert_eq!(usage, ResourceUsage::default());
            assert!(drained);
        }
    }
}

fn listen(conn: &mut Connection<ClientRole>, app: &mut App, now: mcp_proto::rpc::Timestamp, bits: u8) {
    let bit = |n: u8| Some(bits & (1 << n) != 0);
    let filter = SubscriptionFilter {
        tools_list_changed: bit(0),
        prompts_list_changed: bit(1),
        resources_list_changed: bit(2),
        resource_subscriptions: (bits & 8 != 0).then(|| vec![format!("a:{}", bits >> 6)]),
        ..SubscriptionFilter::default()
    };
    app.calls.extend(conn.request(now, &SubscriptionsListenParams::new(filter), RequestOptions::default()));
}

/// Answers with questions what may be answered so.
fn ask(conn: &mut Connection<ServerRole>, app: &mut App, nth: usize) {
    let modern = |key| conn.context(key).is_some_and(|context| context.era() == mcp_proto::protocol::Era::Modern);
    if app.nth(nth).is_some_and(modern) {
        app.ask_nth(conn, nth);
    }
}
