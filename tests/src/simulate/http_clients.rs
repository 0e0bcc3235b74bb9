//! Clients over HTTP that stall, disconnect, resume and cancel, drawn from the seed: a [`System`] with the rules of
//! [`crate::sessions`].

use std::time::Duration;

use mcp_proto::{http::Limits, protocol::Role};

use super::{
    rng::Rng,
    trace::{PeerId, Trace},
};
use crate::explore::Violation;
use crate::sessions::{ClientMessage, System, SystemConfig, TransportKind};

/// The actions of clients and applications, with their weights.
const ACTIONS: &[(u64, Action)] = &[
    (6, Action::Send),
    (1, Action::Listen),
    (2, Action::Disconnect),
    (3, Action::Resume),
    (2, Action::Read),
    (3, Action::ReadOnce),
    (1, Action::CloseAbandoned),
    (5, Action::Respond),
    (4, Action::Progress),
    (1, Action::ReleaseStream),
    (1, Action::Notify),
    (2, Action::SendServerRequest),
    (3, Action::Reply),
    (1, Action::Subscribe),
    (1, Action::Change),
    (3, Action::Pass),
];

#[derive(Clone, Copy, Debug)]
enum Action {
    Send,
    Listen,
    Disconnect,
    Resume,
    Read,
    ReadOnce,
    CloseAbandoned,
    Respond,
    Progress,
    ReleaseStream,
    Notify,
    SendServerRequest,
    Reply,
    Subscribe,
    Change,
    Pass,
}

const VERSIONS: &[(u64, &str)] =
    &[(3, "2025-03-26"), (2, "2025-06-18"), (3, "2025-11-25"), (2, "2026-07-28"), (1, "2024-11-05")];

/// The messages of clients, with their weights.
const MESSAGES: &[(u64, ClientMessage)] = &[
    (4, ClientMessage::Call { progress: true }),
    (2, ClientMessage::Call { progress: false }),
    (2, ClientMessage::Ping),
    (1, ClientMessage::Unknown),
    (1, ClientMessage::DuplicateCall),
    (2, ClientMessage::Cancel(0)),
    (1, ClientMessage::Cancel(1)),
    (1, ClientMessage::Notification),
];

/// Runs the clients over HTTP of a seed. Returns the simulated time.
///
/// # Panics
/// If a rule is broken.
pub fn run(seed: u64, trace: &mut Trace<'_>) -> Duration {
    // A separate generator: other parts of the run have no influence on this one.
    let mut rng = Rng::new(!seed);
    let config = draw(&mut rng);
    let mut system = System::new(config).unwrap_or_else(|violation| panic!("over HTTP: {violation}"));
    let (sizes, behavior) = (rng.log_uniform(1, 20_000), Behavior::draw(&mut rng));
    let steps = rng.log_uniform(4, 60);
    note(trace, &system, 0, "plays", format_args!("{:?}", system.config));
    for _ in 0..steps {
        step(&mut rng, &mut system, trace, (sizes, &behavior));
    }
    note(trace, &system, 0, "winds down", "");
    system.wind_down().unwrap_or_else(|violation| panic!("over HTTP: {violation}"));
    for (client_index, client) in system.clients.iter().enumerate() {
        for stream in &client.streams {
            note(trace, &system, client_index, "has read", format_args!("{:?}", stream.log));
        }
    }
    Duration::from_nanos(system.server.now.as_nanos())
}

/// The behaviour of clients.
struct Behavior {
    /// The percentage of requests whose response is not read at first.
    unread_percent: u64,
    /// The longest pause.
    pause: Duration,
}

impl Behavior {
    fn draw(rng: &mut Rng) -> Self {
        let pause = *rng.pick(&[Duration::from_secs(2), Duration::from_secs(30), Duration::from_secs(400)]);
        Self { unread_percent: *rng.pick(&[0, 30, 80]), pause }
    }
}

fn draw(rng: &mut Rng) -> SystemConfig {
    let lossless = rng.percent(50);
    let clients: Vec<_> = (0..rng.within(1..=3)).map(|_| rng.weighted(VERSIONS)).collect();
    let mut limits = Limits::default();
    limits.queued_bytes = rng.size(300..=10_000);
    limits.stream_after = rng.duration(Duration::from_secs(10)).max(Duration::from_millis(1));
    limits.keepalive = Duration::from_secs(rng.within(5..=15));
    let mut requests = 1024;
    if !lossless {
        limits.replay = rng.size(1..=10);
        limits.replay_bytes = rng.size(100..=10_000);
        limits.exchanges = rng.size(2..=10);
        limits.streams = rng.size(1..=3);
        limits.waiting = rng.size(1..=5);
        requests = rng.size(2..=6);
    }
    // The members of a batch wait for each other, so its responses can exceed the limit in bytes.
    let tight = !clients.contains(&"2025-03-26") && rng.percent(30);
    let outbox_bytes = if tight { rng.size(2000..=50_000) } else { 64 << 20 };
    SystemConfig { clients, limits, requests, outbox_bytes, lossless }
}

fn note(trace: &mut Trace<'_>, system: &System, client_index: usize, what: &str, detail: impl std::fmt::Display) {
    trace.note(
        system.server.now,
        PeerId { pair: client_index, role: Role::Client },
        what,
        format_args!("over HTTP {detail}"),
    );
}

/// Performs one action.
fn step(rng: &mut Rng, system: &mut System, trace: &mut Trace<'_>, (sizes, behavior): (u64, &Behavior)) {
    let action = rng.weighted(ACTIONS);
    let client_index = rng.size(0..=system.clients.len() - 1);
    let streams = system.clients[client_index].streams.len();
    let at = if streams == 0 { None } else { Some(rng.size(0..=streams - 1)) };
    let open: Vec<_> = (0..system.jobs.len()).filter(|job| !system.jobs[*job].answered).collect();
    let job = if open.is_empty() { None } else { Some(*rng.pick(&open)) };
    let reads = !rng.percent(behavior.unread_percent);
    let size = usize::try_from(rng.log_uniform(1, sizes)).unwrap_or(1);
    let done = match (action, at, job) {
        (Action::Send, ..) => {
            let batch = system.clients[client_index].version == "2025-03-26" && rng.percent(40);
            let count = if batch { rng.within(1..=4) } else { 1 };
            let kinds: Vec<_> = (0..count).map(|_| draw_message(rng, &system.clients[client_index].kind)).collect();
            note(trace, system, client_index, "says", format_args!("{kinds:?}, batch {batch}, reads {reads}"));
            system.send_messages(client_index, &kinds, batch, reads).map(|_| ())
        }
        (Action::Listen, ..) => {
            note(trace, system, client_index, "listens", reads);
            system.listen(client_index, reads)
        }
        (Action::Disconnect, Some(at), _) if may_disconnect(system, client_index, at) => {
            note(trace, system, client_index, "hangs up", at);
            system.disconnect(client_index, at)
        }
        (Action::Resume, Some(at), _) => {
            note(trace, system, client_index, "resumes", format_args!("{at}, reads {reads}"));
            system.resume(client_index, at, reads).map(|_| ())
        }
        (Action::Read, Some(at), _) => {
            note(trace, system, client_index, "reads", at);
            system.read(client_index, at)
        }
        (Action::ReadOnce, Some(at), _) => {
            let pieces = rng.size(0..=4);
            note(trace, system, client_index, "reads", format_args!("{at}: {pieces} pieces"));
            system.read_once(client_index, at, pieces)
        }
        (Action::CloseAbandoned, ..) => {
            note(trace, system, client_index, "notices", "");
            system.close_abandoned(client_index)
        }
        (Action::Reply, ..) => {
            let open =
                |at: &usize| system.server_requests[*at].arrived.is_some() && !system.server_requests[*at].answered;
            let open: Vec<_> = (0..system.server_requests.len()).filter(open).collect();
            if open.is_empty() {
                return;
            }
            let server_request = *rng.pick(&open);
            note(trace, system, client_index, "replies", server_request);
            system.respond_to_server_request(server_request)
        }
        (Action::Subscribe, ..) => {
            note(trace, system, client_index, "subscribes", reads);
            system.subscribe(client_index, reads)
        }
        (Action::Pass, ..) => {
            let pause = rng.duration(behavior.pause);
            if rng.percent(2) {
                note(trace, system, client_index, "ends", "");
                system.delete(client_index)
            } else {
                system.advance(pause)
            }
        }
        _ => server_step(rng, system, trace, (action, job, size)),
    };
    done.unwrap_or_else(|violation| panic!("over HTTP: {violation}"));
}

/// Performs one action of the server.
fn server_step(
    rng: &mut Rng,
    system: &mut System,
    trace: &mut Trace<'_>,
    (action, job, size): (Action, Option<usize>, usize),
) -> Result<(), Violation> {
    match (action, job) {
        (Action::Respond, Some(job)) => {
            let answered = system.respond(job, size);
            note(trace, system, 0, "answers", format_args!("{job} with {size} bytes: {answered:?}"));
            answered.map(|_| ())
        }
        (Action::Progress, Some(job)) => {
            note(trace, system, 0, "reports", format_args!("{job} with {size} bytes"));
            system.progress(job, size)
        }
        (Action::ReleaseStream, Some(job)) => {
            note(trace, system, 0, "lets go", job);
            system.release_stream(job)
        }
        (Action::Notify, ..) => {
            let sessions: Vec<_> =
                system.server.sessions.iter().filter(|(_, it)| it.id().is_some()).map(|it| *it.0).collect();
            if sessions.is_empty() {
                return Ok(());
            }
            let session = *rng.pick(&sessions);
            note(trace, system, 0, "tells", format_args!("session {session} {size} bytes"));
            system.notify(session, size)
        }
        (Action::SendServerRequest, Some(job)) => {
            let sent = system.send_server_request(job, size);
            note(trace, system, 0, "asks", format_args!("{job} with {size} bytes: {sent:?}"));
            sent.map(|_| ())
        }
        (Action::Change, ..) => {
            note(trace, system, 0, "changes", "");
            system.change()
        }
        _ => Ok(()),
    }
}

fn draw_message(rng: &mut Rng, kind: &TransportKind) -> ClientMessage {
    let message = rng.weighted(MESSAGES);
    // A stateless request is cancelled only by a disconnection, and its id belongs to one request.
    let alone = *kind == TransportKind::Stateless
        && matches!(message, ClientMessage::DuplicateCall | ClientMessage::Cancel(_) | ClientMessage::Notification);
    if alone { ClientMessage::Call { progress: true } } else { message }
}

/// Returns whether a client may disconnect. The stream of HTTP+SSE is its session, so its disconnection is rare.
fn may_disconnect(system: &System, client_index: usize, at: usize) -> bool {
    !(matches!(system.clients[client_index].kind, TransportKind::HttpSse(_))
        && at == 0
        && system.clients[client_index].streams.len() < 6)
}
