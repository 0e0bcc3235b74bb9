//! A client that sends many requests before it reads: the server stops reading instead of refusing them.

use std::{
    io::{ErrorKind, Write},
    thread,
    time::{Duration, Instant},
};

use mcp_driver::DriverOptions;
use mcp_proto::connection::ServerConfig;

use crate::{
    LONG,
    adapter::{Adapter, Handle},
    minimal_peer::{End, Gate, ReceivedRequest, in_jobs, server_config, server_with},
    raw::Raw,
    scenario::scenarios,
};

scenarios![slow_reader_receives_every_response, large_pending_calls_are_not_refused,];

/// The divisor of the default limits, and of the 40,000 calls of 4 KiB and 64 calls of 1 MiB for which the tests were
/// written.
pub(crate) const SCALE: usize = 16;

/// A server with smaller limits.
fn scaled() -> ServerConfig {
    let mut config = server_config();
    let limits = &mut config.settings.limits;
    limits.frame_bytes /= SCALE;
    limits.requests /= SCALE;
    limits.request_bytes /= SCALE;
    limits.outbox_bytes /= SCALE;
    config
}

fn serve<A: Adapter>(
    transport: A::Transport,
    act: impl Fn(&ReceivedRequest<mcp_proto::connection::ServerRole>) + Clone + Send + Sync + 'static,
) -> End<A, mcp_proto::connection::ServerRole> {
    server_with::<A>(scaled(), transport, &DriverOptions::default(), in_jobs(act))
}

/// Sends calls with `padding` bytes each. Calls `blocked` once, when the server has stopped reading and the writes of a
/// client that does not read would block for ever. Does not call it if all writes have completed before.
fn send_calls<A: Adapter>(
    peer: &mut Raw,
    server: &End<A, mcp_proto::connection::ServerRole>,
    (calls, padding): (u64, usize),
    blocked: impl FnOnce(),
) {
    let (padding, connection) = ("x".repeat(padding), server.handle.connection());
    let mut blocked = Some(blocked);
    peer.stream.set_write_timeout(Some(Duration::from_millis(2))).expect("a time that is not zero");
    for id in 1..=calls {
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"test/echo","params":{{"pad":"{padding}"}}}}"#) + "\n";
        let (mut rest, since) = (line.as_bytes(), Instant::now());
        while !rest.is_empty() {
            match peer.stream.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    assert!(since.elapsed() < LONG, "call {id} cannot be written");
                    // The check wakes the driver, so it is skipped later: the driver has to resume without it when the
                    // responses are read.
                    if blocked.is_some()
                        && connection.update(|conn, now| !conn.wants_input(now))
                        && let Some(blocked) = blocked.take()
                    {
                        blocked();
                    }
                }
                Err(error) => panic!("call {id} cannot be written: {error}"),
            }
        }
    }
    if let Some(blocked) = blocked.take() {
        blocked();
    }
}

/// Reads the responses to this many calls. Returns the number of results.
fn count_results(mut peer: Raw, calls: u64) -> u64 {
    let answers = (0..calls).map_while(|_| peer.receive_line());
    answers.filter(|answer| answer.contains(r#""result":{"#)).count() as u64
}

/// Before reading paused, 23,584 of 40,000 responses were missing: 8,214 calls were refused, and then the connection
/// ended.
fn slow_reader_receives_every_response<A: Adapter>() {
    const CALLS: u64 = 40_000 / SCALE as u64;
    let (transport, mut peer) = Raw::pair::<A>();
    let server = serve::<A>(transport, |received| received.echo());
    peer.handshake_as_client();
    let reader = Raw::new(peer.stream.try_clone().expect("there are descriptors"));
    let mut reading = None;
    send_calls::<A>(&mut peer, &server, (CALLS, 4096 - 80), || {
        reading = Some(thread::spawn(move || count_results(reader, CALLS)));
    });
    let results = reading.map(|reading| reading.join().expect("it does not panic"));
    assert_eq!(results, Some(CALLS));
}

/// Before reading paused, the last of them were refused.
fn large_pending_calls_are_not_refused<A: Adapter>() {
    const CALLS: u64 = 64;
    let (transport, mut peer) = Raw::pair::<A>();
    let gate = Gate::default();
    let handlers = gate.clone();
    let server = serve::<A>(transport, move |requested| {
        handlers.pass();
        let _ = requested.answer("{}");
    });
    peer.handshake_as_client();
    let reader = Raw::new(peer.stream.try_clone().expect("there are descriptors"));
    let reading = thread::spawn(move || count_results(reader, CALLS));
    // The handlers return when no more calls can be sent.
    send_calls::<A>(&mut peer, &server, (CALLS, (1 << 20) / SCALE), || gate.open());
    assert_eq!(reading.join().expect("it does not panic"), CALLS);
}
