//! Two conforming peers over a link, and the operations of their applications in any order.

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use mcp_proto::{
    connection::{ClientRole, Connection, RequestOptions, ResourceUsage, ServerRole, Violation},
    protocol::{Method, ProtocolVersion, VersionSet},
    schema::{ResourceUpdatedParams, SubscriptionFilter, SubscriptionsListenParams},
};
use mcp_tests::{
    harness::{full_client, full_server},
    link::LinkConfig,
    testbed::{Peer, Testbed},
};

use crate::app::{App, json, log_message};

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Side {
    Client,
    Server,
}

/// An operation of an application or of the environment. Numbers select an item.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Op {
    Call(Side, Call),
    Listen(u8),
    Notify(Side, u8),
    Updated(u8),
    Cancel(Side, u8),
    Respond(Side, u8, bool),
    RequireInput(u8),
    Progress(Side, u8),
    Log(u8),
    Run,
    Wait(u16),
    Stall(Side, bool),
    Close(Side),
    Disconnect(Side),
}

/// A request.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Call {
    method: u8,
    /// In steps of 10 ms. Values above 200 mean no timeout.
    idle: u8,
    total: u8,
    progress: bool,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct LinkBytes {
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

const NOTIFICATIONS: [&str; 6] = [
    "vendor/noted",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/roots/list_changed",
    "notifications/message",
];

/// Two conforming peers report no violations, every call ends once, and both connections are idle at the end.
///
/// Input: bytes from which [`Unstructured`] generates the revisions, the links and the operations.
pub fn pair(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(mut runner) = Runner::new(&mut u) else { return };
    for op in u.arbitrary_iter::<Op>().into_iter().flatten().take(200) {
        let Ok(op) = op else { break };
        runner.step(op);
    }
    runner.finish();
}

struct Runner {
    testbed: Testbed,
    client: App,
    server: App,
    /// A transport has broken, so a peer may receive half of a message.
    broken: bool,
}

fn take<E>(app: &mut App, end: &mut Peer<E>) {
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
            let method = NOTIFICATIONS[usize::from(n) % NOTIFICATIONS.len()];
            drop(conn.notify_raw(method, Some(&json(r#"{"level":"info","data":1}"#))));
        }
        Op::Cancel(_, n) => app.cancel_nth(conn, n.into()),
        Op::Respond(_, n, good) => app.respond_nth(conn, n.into(), good),
        Op::Progress(_, n) => app.progress_nth(conn, n.into()),
        Op::Close(_) => conn.close(now),
        _ => unreachable!("it is no business of an application's"),
    }
}

impl Runner {
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
        // Both sides have a revision in common.
        if client.settings.versions.intersection(server.settings.versions).is_empty() {
            client.settings.versions = server.settings.versions;
        }
        let mut link = || -> arbitrary::Result<LinkConfig> {
            let bytes: LinkBytes = u.arbitrary()?;
            let size = |size: u8| if size == 0 { usize::MAX } else { size.into() };
            let delay = Duration::from_micros(bytes.micros.into());
            Ok(LinkConfig { capacity: size(bytes.capacity), chunk: size(bytes.chunk), delay, cut_after: None })
        };
        let (up, down) = (link()?, link()?);
        let testbed = Testbed::new(client, server, up, down);
        Ok(Self { testbed, client: App::default(), server: App::default(), broken: false })
    }

    fn step(&mut self, op: Op) {
        let Self { testbed, client, server, broken } = self;
        match op {
            Op::Run => testbed.run(),
            Op::Wait(millis) => testbed.advance(Duration::from_millis(u64::from(millis) % 3000)),
            Op::Stall(Side::Client, stalled) => testbed.down.stalled = stalled,
            Op::Stall(Side::Server, stalled) => testbed.up.stalled = stalled,
            Op::Listen(bits) => listen(&mut testbed.client.conn, client, testbed.now, bits),
            Op::Updated(n) => drop(testbed.server.conn.notify(&ResourceUpdatedParams::new(format!("a:{}", n % 4)))),
            Op::RequireInput(n) => require_input(&mut testbed.server.conn, server, n.into()),
            Op::Log(n) => {
                drop(server.nth(n.into()).map(|key| testbed.server.conn.log(key, &log_message())));
            }
            Op::Disconnect(side) => {
                *broken = true;
                match side {
                    Side::Client => testbed.client.conn.handle_disconnect(),
                    Side::Server => testbed.server.conn.handle_disconnect(),
                }
            }
            Op::Call(Side::Client, _)
            | Op::Notify(Side::Client, _)
            | Op::Cancel(Side::Client, _)
            | Op::Respond(Side::Client, ..)
            | Op::Progress(Side::Client, _)
            | Op::Close(Side::Client) => apply(&mut testbed.client.conn, client, testbed.now, op),
            _ => apply(&mut testbed.server.conn, server, testbed.now, op),
        }
        self.collect();
    }

    fn collect(&mut self) {
        // The responses of one application cause at most one event each at the other one.
        while !self.testbed.client.events.is_empty() || !self.testbed.server.events.is_empty() {
            take(&mut self.client, &mut self.testbed.client);
            take(&mut self.server, &mut self.testbed.server);
        }
        // Violations that conforming peers cannot avoid: a server of the legacy era rejects the probe of a client of
        // both eras, and may ping a client before the era is known. A server of the modern era rejects the `initialize`
        // of a client whose probe timed out.
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
        self.testbed.up.stalled = false;
        self.testbed.down.stalled = false;
        // A response may lead to the next input request.
        for _ in 0..64 {
            self.testbed.settle();
            self.collect();
            self.client.respond_all(&mut self.testbed.client.conn);
            self.server.respond_all(&mut self.testbed.server.conn);
        }
        self.testbed.settle();
        self.collect();
        assert!(self.client.open.is_empty() && self.server.open.is_empty(), "requests that cannot be answered");
        self.testbed.client.conn.close(self.testbed.now);
        self.testbed.advance(Duration::from_secs(3600));
        self.collect();
        self.server.respond_all(&mut self.testbed.server.conn);
        self.testbed.advance(Duration::from_secs(3600));
        self.collect();
        for (app, usage, drained) in [
            (&self.client, self.testbed.client.conn.usage(), self.testbed.client.conn.is_drained()),
            (&self.server, self.testbed.server.conn.usage(), self.testbed.server.conn.is_drained()),
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

/// Responds with `input_required` if the request allows that.
fn require_input(conn: &mut Connection<ServerRole>, app: &mut App, nth: usize) {
    let modern = |key| conn.context(key).is_some_and(|context| context.era() == mcp_proto::protocol::Era::Modern);
    if app.nth(nth).is_some_and(modern) {
        app.require_input_nth(conn, nth);
    }
}
