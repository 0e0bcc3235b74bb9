//! Many calls at once, and the resources that are left afterwards. Each test is alone in a process, so that it counts
//! only its own resources.

use std::{
    fs, hint,
    os::unix::net::UnixStream,
    process::Command as Start,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use mcp_driver::{DriverOptions, Watched};
use mcp_proto::connection::{CloseReason, RequestOptions, ResourceUsage, SendError, Settings, Stats};
use mcp_service::{CallError, Context, Host, Service, Tool};

use crate::{
    ALLOCATED, LONG, SOON,
    adapter::{Adapter, Client, Pair, Server},
    fixture::{FLAG, command, program},
    scenario::scenarios,
};

scenarios![
    // A12 A29
    // req: CANC-011
    calls_dropped_at_random_points_leak_nothing,
    // A28
    ten_thousand_concurrent_calls_respect_limits,
    // A16 A58
    closed_connections_leak_nothing,
];

fn calls_dropped_at_random_points_leak_nothing<A: Adapter>() {
    alone::<A>("dropped");
}

fn ten_thousand_concurrent_calls_respect_limits<A: Adapter>() {
    alone::<A>("crowd");
}

fn closed_connections_leak_nothing<A: Adapter>() {
    alone::<A>("leftovers");
}

/// Runs this program in a role until it exits.
pub(crate) fn alone<A: Adapter>(role: &str) {
    let output = Start::new(program()).args([FLAG, A::NAME, role]).output().expect("this program can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
}

/// The numbers of threads, descriptors, processes and tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resources {
    threads: usize,
    descriptors: usize,
    children: usize,
    tasks: usize,
}

impl Resources {
    pub(crate) fn of<A: Adapter>() -> Self {
        let list = |what: &str| fs::read_dir(format!("/proc/self/{what}")).expect("Linux has it");
        let children = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let threads: Vec<_> = list("task").map(|thread| thread.expect("it can be listed")).collect();
        Self {
            threads: threads.len(),
            descriptors: list("fd").count(),
            children: threads.into_iter().map(|thread| children(thread).split_whitespace().count()).sum(),
            tasks: A::tasks(),
        }
    }

    /// Adds descriptors that the test itself holds.
    pub(crate) const fn with_descriptors(self, count: usize) -> Self {
        Self { descriptors: self.descriptors + count, ..self }
    }

    /// Waits until no more resources are left than these. A finished thread may still be exiting. It may also have been
    /// counted before, so less is fine.
    pub(crate) fn expect<A: Adapter>(self) {
        let start = Instant::now();
        loop {
            let now = Self::of::<A>();
            let is_left = now.threads > self.threads || now.tasks > self.tasks;
            if !is_left && now.descriptors <= self.descriptors && now.children <= self.children {
                return;
            }
            assert!(start.elapsed() < SOON, "{now:?} and not {self:?}");
            thread::yield_now();
        }
    }
}

/// A random number generator with a fixed seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        // The xorshift generator of Marsaglia.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Counts a running handler until it is dropped.
pub(crate) struct Present(Arc<AtomicUsize>);

impl Present {
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Polls until a condition holds.
pub(crate) fn until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "it never happens");
        thread::yield_now();
    }
}

/// A service whose handlers wait until they are cancelled, except for some that return immediately.
struct Waiting {
    service: Service,
    begun: Arc<Watched<u64>>,
    present: Arc<AtomicUsize>,
}

impl Waiting {
    fn new() -> Self {
        let (begun, present) = (Arc::new(Watched::new(0)), Arc::new(AtomicUsize::new(0)));
        let (notify, count) = (begun.clone(), present.clone());
        let wait = move |context: Context| {
            let (notify, present) = (notify.clone(), Present::new(&count));
            async move {
                let _present = present;
                notify.update(|begun| *begun += 1);
                context.cancelled().await;
            }
        };
        let service = Service::builder("x", "1")
            .tool(Tool::new_async("wait", wait))
            .tool(Tool::new_async("answer", async || "answered"))
            .build()
            .expect("all names differ");
        Self { service, begun, present }
    }
}

/// Makes calls and drops them. Returns how many got a response before that.
fn drop_calls(client: &impl Client, begun: Option<&Watched<u64>>, calls: u64, seed: u64) -> u64 {
    let (chance, mut answered) = (&mut Chance(seed), 0);
    for _ in 0..calls {
        let tool = if chance.below(3) == 0 { "answer" } else { "wait" };
        let before = begun.map(|begun| begun.read(|begun| *begun));
        let call = loop {
            match client.call_tool(tool, ()) {
                Ok(call) => break call,
                Err(SendError::Busy) => client.wait_for_request_slot().wait(),
                Err(error) => panic!("{error}"),
            }
        };
        match chance.below(4) {
            // Before it is written, if that is not immediate.
            0 => {}
            // While it is written, handled, or responded to.
            1 => (0..chance.below(20_000)).for_each(|_| hint::spin_loop()),
            // While a handler runs, and before or after the response.
            _ => match (tool, begun) {
                ("answer", _) => {
                    call.wait().expect("it is answered");
                    answered += 1;
                }
                (_, Some(begun)) => {
                    let before = before.unwrap_or_default();
                    assert!(begun.wait_until(LONG, |begun| *begun > before), "some handler begins");
                }
                _ => {}
            },
        }
    }
    answered
}

/// In-memory pipes and sockets, in turns.
fn pair<A: Adapter>(round: u64) -> Pair<A> {
    if round % 2 == 1 {
        return A::pair(64);
    }
    let (left, right) = UnixStream::pair().expect("there are sockets");
    (A::unix(left), A::unix(right))
}

/// The role in which a thousand calls are dropped.
pub(crate) fn dropped<A: Adapter>() {
    let host = Host::builder("x", "1").build();
    // The first round includes the start of the runtime.
    let mut before = None;
    for round in 0..3 {
        let Waiting { service, begun, present } = Waiting::new();
        let (left, right) = pair::<A>(round);
        let server = A::serve_with(&service, right, &DriverOptions { handlers: 64, ..DriverOptions::default() });
        let client = A::connect(left, &host).expect("it serves");
        let stats = |client: &A::Client, server: &A::Server| -> (Stats, Stats) {
            (client.connection().update(|conn, _| conn.stats()), server.connection().update(|conn, _| conn.stats()))
        };
        client.call_tool("answer", ()).expect("it is sent").wait().expect("it is answered");
        let (client_first, server_first) = stats(&client, &server);
        let answered: u64 = thread::scope(|scope| {
            let threads: Vec<_> = (1..=4)
                .map(|number| {
                    let (client, begun, seed) = (&client, &begun, 0x9e37_79b9 * number + round);
                    scope.spawn(move || drop_calls(client, Some(begun), 250, seed))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        // The last request without a waiting handler gets the last response. All messages have arrived then.
        client.call_tool("answer", ()).expect("it is sent").wait().expect("it is answered");
        until(|| {
            present.load(Ordering::SeqCst) == 0 && server.connection().update(|conn, _| conn.usage()).requests == 0
        });
        until(|| client.connection().update(|conn, _| conn.usage()).outbox_frames == 0);
        let (client_last, server_last) = stats(&client, &server);
        // Each call that was sent got a response or was cancelled, once, however late that was. The others were removed
        // from the outbox.
        let sent = client_last.frames_sent - client_first.frames_sent - 1;
        let called_off = server_last.cancelled - server_first.cancelled;
        let responses = server_last.frames_sent - server_first.frames_sent - 1;
        let too_late = client_last.late_responses - client_first.late_responses;
        assert_eq!(sent, (called_off + responses) + (called_off + too_late), "{client_last:?} {server_last:?}");
        let taken_back = 1000 - called_off - responses;
        assert!(answered <= responses - too_late, "{answered} answers of {responses}, {too_late} of them too late");
        let points =
            format!("{called_off} called off, {too_late} too late, {answered} looked at, {taken_back} taken back");
        assert!(called_off > 100 && answered > 100, "{points}");
        eprintln!("{}: {points}", A::NAME);
        assert_eq!(server_last.frames_received - server_first.frames_received - 1, sent);
        assert_eq!((client_last.violations, server_last.violations), (0, 0));
        let usage = |client: &A::Client, server: &A::Server| {
            [client.connection().update(|conn, _| conn.usage()), server.connection().update(|conn, _| conn.usage())]
        };
        assert_eq!(client.close().reason, CloseReason::Local);
        assert_eq!(server.wait(), CloseReason::Eof);
        assert_eq!(usage(&client, &server), [ResourceUsage::default(); 2]);
        drop((client, server));
        match before {
            None => before = Some(Resources::of::<A>()),
            Some(before) => before.expect::<A>(),
        }
    }
    // The same for another process.
    let mut before = None;
    for _ in 0..2 {
        let client = A::spawn(command::<A>("server"), &host).expect("it is a server");
        drop_calls(&client, None, 1000, 7);
        let ending = client.close();
        assert!(ending.exit.as_ref().expect("it was a child").success(), "{ending}");
        assert_eq!(client.connection().update(|conn, _| conn.usage()), ResourceUsage::default());
        drop(client);
        match before {
            None => before = Some(Resources::of::<A>()),
            Some(before) => before.expect::<A>(),
        }
    }
}

/// The number of calls at once.
const CROWD: usize = 10_000;

/// The role in which ten thousand calls are in flight.
pub(crate) fn crowd<A: Adapter>() {
    let mut settings = Settings::default();
    let limits = &mut settings.limits;
    (limits.calls, limits.requests) = (CROWD, CROWD);
    (limits.outbox_bytes, limits.request_bytes, limits.call_bytes) = (1 << 20, 16 << 20, 4 << 20);
    (limits.frame_bytes, limits.control_bytes, limits.cache_bytes) = (64 << 10, 64 << 10, 0);
    // Both sides are in this process, and the state of handlers and callers counts as well.
    let promised = 2 * limits.memory();
    let gate = Arc::new(Watched::new(false));
    let closed = gate.clone();
    let number = Arc::new(AtomicU64::new(0));
    let hold = move || {
        let (gate, number) = (closed.clone(), number.fetch_add(1, Ordering::SeqCst));
        async move {
            gate.wait_for(|open| open.then_some(())).await;
            number.to_string()
        }
    };
    let service = Service::builder("x", "1").settings(settings.clone()).tool(Tool::new_async("hold", hold)).build();
    let service = service.expect("a good name");
    let host = Host::builder("x", "1").settings(settings).build();
    let (left, right) = A::pair(64 << 10);
    let server = A::serve_with(&service, right, &DriverOptions { async_handlers: CROWD, ..DriverOptions::default() });
    let client = A::connect(left, &host).expect("it serves");
    let peer = client.with_options(RequestOptions::no_timeout());
    let mut calls = Vec::with_capacity(CROWD);
    let mut answers = Vec::with_capacity(CROWD);
    ALLOCATED.reset_peak_usage();
    let before = ALLOCATED.current_usage();
    while calls.len() < CROWD {
        match peer.call_tool("hold", ()) {
            Ok(call) => calls.push(call),
            Err(SendError::Busy) => peer.wait_for_request_slot().wait(),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(peer.call_tool("hold", ()).expect_err("that is one too many"), SendError::Busy);
    until(|| server.connection().update(|conn, _| conn.usage()).requests == CROWD);
    gate.update(|open| *open = true);
    for call in calls.drain(..) {
        let answer: Result<_, CallError> = call.wait();
        let text = answer.expect("it is answered").content[0].as_text().expect("a text").parse::<u64>();
        answers.push(text.expect("a number"));
    }
    let taken = ALLOCATED.peak_usage() - before;
    answers.sort_unstable();
    assert!(answers.into_iter().eq(0..CROWD as u64), "each was answered once");
    assert!(taken <= promised, "{taken} bytes, and {promised} are promised");
    eprintln!("{}: {taken} bytes of {promised}", A::NAME);
    client.close();
    server.wait();
}

/// The role in which connections end in every possible way, while handlers run.
pub(crate) fn leftovers<A: Adapter>() {
    let mut settings = Settings::default();
    settings.limits.drain = std::time::Duration::from_millis(50);
    let present = Arc::new(AtomicUsize::new(0));
    let (waiting, blocking, ignores_eof) = (present.clone(), present.clone(), present.clone());
    let wait = move |context: Context| {
        let present = Present::new(&waiting);
        async move {
            let _present = present;
            context.cancelled().await;
        }
    };
    let block = move |context: Context| {
        let _present = Present::new(&blocking);
        context.cancelled().wait();
    };
    let stay = move || {
        let present = Present::new(&ignores_eof);
        async move {
            let _present = present;
            std::future::pending::<()>().await;
        }
    };
    let service = Service::builder("x", "1")
        .settings(settings)
        .tool(Tool::new_async("wait", wait))
        .tool(Tool::new("wait_on_a_thread", block))
        .tool(Tool::new_async("stay", stay))
        .build()
        .expect("all names differ");
    let host = Host::builder("x", "1").build();
    let mut before = None;
    for round in 0..25 {
        let (left, right) = pair::<A>(round);
        let server = A::serve(&service, right);
        let client = A::connect(left, &host).expect("it serves");
        // One round with handlers that have to be dropped is enough. Without a runtime they cannot be dropped.
        let tool = match round {
            24 if !A::DROP_WAITS => "stay",
            round if round % 3 == 0 => "wait_on_a_thread",
            _ => "wait",
        };
        let calls: Vec<_> = (0..20).map(|_| client.call_tool(tool, ()).expect("it is sent")).collect();
        until(|| present.load(Ordering::SeqCst) == 20);
        // Every way to end occurs, and the other side detects it.
        match round % 4 {
            0 => {
                drop(client);
                server.wait();
            }
            1 => {
                drop(server);
                client.wait();
            }
            2 => {
                client.close();
                server.wait();
            }
            _ => {
                server.close();
                client.wait();
            }
        }
        drop(calls);
        until(|| present.load(Ordering::SeqCst) == 0);
        match before {
            // The runtime has started all of its threads, and both sides have reported their end.
            None if round == 6 => before = Some(Resources::of::<A>()),
            None => {}
            Some(before) => before.expect::<A>(),
        }
    }
}
