//! Clients over HTTP that stall, hang up, come back and cancel, drawn from the seed: a [`World`] whose rules are those of
//! [`crate::sessions`].

use std::time::Duration;

use mcp_proto::{http::Limits, protocol::Role};

use super::{
    dice::Dice,
    trace::{Trace, Who},
};
use crate::sessions::{Kind, Play, Say, World};

/// What a client or an application does next, and how often.
const DONE: &[(u64, Act)] = &[
    (6, Act::Say),
    (1, Act::Listen),
    (2, Act::HangUp),
    (3, Act::Resume),
    (2, Act::Read),
    (3, Act::ReadOnce),
    (1, Act::Notice),
    (5, Act::Answer),
    (4, Act::Progress),
    (1, Act::LetGo),
    (1, Act::Tell),
    (2, Act::Ask),
    (3, Act::Reply),
    (1, Act::Subscribe),
    (1, Act::Change),
    (3, Act::Pass),
];

#[derive(Clone, Copy, Debug)]
enum Act {
    Say,
    Listen,
    HangUp,
    Resume,
    Read,
    ReadOnce,
    Notice,
    Answer,
    Progress,
    LetGo,
    Tell,
    Ask,
    Reply,
    Subscribe,
    Change,
    Pass,
}

const VERSIONS: &[(u64, &str)] =
    &[(3, "2025-03-26"), (2, "2025-06-18"), (3, "2025-11-25"), (2, "2026-07-28"), (1, "2024-11-05")];

/// What a client says in one message, and how often.
const SAID: &[(u64, Say)] = &[
    (4, Say::Call { progress: true }),
    (2, Say::Call { progress: false }),
    (2, Say::Ping),
    (1, Say::Unknown),
    (1, Say::Twin),
    (2, Say::Cancel(0)),
    (1, Say::Cancel(1)),
    (1, Say::Note),
];

/// Plays the part of a seed that is over HTTP: how long that took, in the time of the run.
///
/// # Panics
/// If a rule is broken.
pub fn run(seed: u64, trace: &mut Trace<'_>) -> Duration {
    // Chance of its own: what happens elsewhere in the run makes no difference here.
    let mut dice = Dice::new(!seed);
    let play = draw(&mut dice);
    let mut hall = World::new(play).unwrap_or_else(|fault| panic!("over HTTP: {fault}"));
    let (sizes, habits) = (dice.scale(1, 20_000), Habits::draw(&mut dice));
    let steps = dice.scale(4, 60);
    note(trace, &hall, 0, "plays", format_args!("{:?}", hall.play));
    for _ in 0..steps {
        step(&mut dice, &mut hall, trace, (sizes, &habits));
    }
    note(trace, &hall, 0, "winds down", "");
    hall.wind_down().unwrap_or_else(|fault| panic!("over HTTP: {fault}"));
    for (who, client) in hall.clients.iter().enumerate() {
        for stream in &client.streams {
            note(trace, &hall, who, "has read", format_args!("{:?}", stream.log));
        }
    }
    Duration::from_nanos(hall.web.now.as_nanos())
}

/// How clients are.
struct Habits {
    /// Of a hundred requests, of how many the answer is not read at first.
    slowness: u64,
    /// The longest pause.
    pause: Duration,
}

impl Habits {
    fn draw(dice: &mut Dice) -> Self {
        let pause = *dice.pick(&[Duration::from_secs(2), Duration::from_secs(30), Duration::from_secs(400)]);
        Self { slowness: *dice.pick(&[0, 30, 80]), pause }
    }
}

fn draw(dice: &mut Dice) -> Play {
    let roomy = dice.percent(50);
    let clients: Vec<_> = (0..dice.within(1..=3)).map(|_| dice.weigh(VERSIONS)).collect();
    let mut limits = Limits::default();
    limits.queued_bytes = dice.size(300..=10_000);
    limits.patience = dice.time(Duration::from_secs(10)).max(Duration::from_millis(1));
    limits.keepalive = Duration::from_secs(dice.within(5..=15));
    let mut requests = 1024;
    if !roomy {
        limits.replay = dice.size(1..=10);
        limits.replay_bytes = dice.size(100..=10_000);
        limits.exchanges = dice.size(2..=10);
        limits.streams = dice.size(1..=3);
        limits.waiting = dice.size(1..=5);
        requests = dice.size(2..=6);
    }
    // The members of a batch wait for each other, so bytes of a batch can be more than there is room for.
    let tight = !clients.contains(&"2025-03-26") && dice.percent(30);
    let outbox_bytes = if tight { dice.size(2000..=50_000) } else { 64 << 20 };
    Play { clients, limits, requests, outbox_bytes, roomy }
}

fn note(trace: &mut Trace<'_>, hall: &World, who: usize, what: &str, detail: impl std::fmt::Display) {
    trace.note(hall.web.now, Who { pair: who, role: Role::Client }, what, format_args!("over HTTP {detail}"));
}

/// One thing happens.
fn step(dice: &mut Dice, hall: &mut World, trace: &mut Trace<'_>, (sizes, habits): (u64, &Habits)) {
    let act = dice.weigh(DONE);
    let who = dice.size(0..=hall.clients.len() - 1);
    let streams = hall.clients[who].streams.len();
    let at = if streams == 0 { None } else { Some(dice.size(0..=streams - 1)) };
    let open: Vec<_> = (0..hall.jobs.len()).filter(|job| !hall.jobs[*job].answered).collect();
    let job = if open.is_empty() { None } else { Some(*dice.pick(&open)) };
    let reads = !dice.percent(habits.slowness);
    let size = usize::try_from(dice.scale(1, sizes)).unwrap_or(1);
    let done = match (act, at, job) {
        (Act::Say, ..) => {
            let batch = hall.clients[who].version == "2025-03-26" && dice.percent(40);
            let count = if batch { dice.within(1..=4) } else { 1 };
            let said: Vec<_> = (0..count).map(|_| said(dice, &hall.clients[who].kind)).collect();
            note(trace, hall, who, "says", format_args!("{said:?}, batch {batch}, reads {reads}"));
            hall.say(who, &said, batch, reads).map(|_| ())
        }
        (Act::Listen, ..) => {
            note(trace, hall, who, "listens", reads);
            hall.listen(who, reads)
        }
        (Act::HangUp, Some(at), _) if may_hang_up(hall, who, at) => {
            note(trace, hall, who, "hangs up", at);
            hall.hang_up(who, at)
        }
        (Act::Resume, Some(at), _) => {
            note(trace, hall, who, "resumes", format_args!("{at}, reads {reads}"));
            hall.resume(who, at, reads).map(|_| ())
        }
        (Act::Read, Some(at), _) => {
            note(trace, hall, who, "reads", at);
            hall.read(who, at)
        }
        (Act::ReadOnce, Some(at), _) => {
            let pieces = dice.size(0..=4);
            note(trace, hall, who, "reads", format_args!("{at}: {pieces} pieces"));
            hall.read_once(who, at, pieces)
        }
        (Act::Notice, ..) => {
            note(trace, hall, who, "notices", "");
            hall.bury(who)
        }
        (Act::Answer, _, Some(job)) => {
            let answered = hall.answer(job, size);
            note(trace, hall, 0, "answers", format_args!("{job} with {size} bytes: {answered:?}"));
            answered.map(|_| ())
        }
        (Act::Progress, _, Some(job)) => {
            note(trace, hall, 0, "reports", format_args!("{job} with {size} bytes"));
            hall.progress(job, size)
        }
        (Act::LetGo, _, Some(job)) => {
            note(trace, hall, 0, "lets go", job);
            hall.release_stream(job)
        }
        (Act::Tell, ..) => {
            let sessions: Vec<_> =
                hall.web.sessions.iter().filter(|(_, it)| it.id().is_some()).map(|it| *it.0).collect();
            if sessions.is_empty() {
                return;
            }
            let session = *dice.pick(&sessions);
            note(trace, hall, 0, "tells", format_args!("session {session} {size} bytes"));
            hall.tell(session, size)
        }
        (Act::Ask, _, Some(job)) => {
            let asked = hall.ask(job, size);
            note(trace, hall, 0, "asks", format_args!("{job} with {size} bytes: {asked:?}"));
            asked.map(|_| ())
        }
        (Act::Reply, ..) => {
            let open = |at: &usize| hall.questions[*at].arrived.is_some() && !hall.questions[*at].answered;
            let open: Vec<_> = (0..hall.questions.len()).filter(open).collect();
            if open.is_empty() {
                return;
            }
            let question = *dice.pick(&open);
            note(trace, hall, who, "replies", question);
            hall.reply(question)
        }
        (Act::Subscribe, ..) => {
            note(trace, hall, who, "subscribes", reads);
            hall.subscribe(who, reads)
        }
        (Act::Change, ..) => {
            note(trace, hall, 0, "changes", "");
            hall.change()
        }
        (Act::Pass, ..) => {
            let pause = dice.time(habits.pause);
            if dice.percent(2) {
                note(trace, hall, who, "ends", "");
                hall.delete(who)
            } else {
                hall.pass(pause)
            }
        }
        _ => Ok(()),
    };
    done.unwrap_or_else(|fault| panic!("over HTTP: {fault}"));
}

fn said(dice: &mut Dice, kind: &Kind) -> Say {
    let say = dice.weigh(SAID);
    // Without a session, nothing is cancelled but by hanging up, and ids are those of one request.
    let alone = *kind == Kind::Alone && matches!(say, Say::Twin | Say::Cancel(_) | Say::Note);
    if alone { Say::Call { progress: true } } else { say }
}

/// The stream of the old transport is its session, so it is not hung up on often.
fn may_hang_up(hall: &World, who: usize, at: usize) -> bool {
    !(matches!(hall.clients[who].kind, Kind::Old(_)) && at == 0 && hall.clients[who].streams.len() < 6)
}
