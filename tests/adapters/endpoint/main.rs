//! The endpoint of each adapter: requests that must be refused get the right status, before any state is created for
//! them. They are sent as bytes over TCP.
//!
//! Allocations are counted for the whole process, so tests run one at a time.

mod adapter;
mod attack;
mod bounds;
mod cases;
mod raw;

use std::{
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use adapter::{Blocking, Served, Site, Smol, Tokio};
use cases::Case;
use libtest_mimic::{Arguments, Trial};
use mcp_proto::{
    connection::Settings,
    http::{
        Policy,
        server::{EndpointOptions, Paths},
    },
    wire::JsonObject,
};
use mcp_service::{Service, Tool};
use peak_alloc::PeakAlloc;
use raw::{Raw, round_trip};
use serde_json::json;

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

/// A timeout that no operation of a passing test reaches, also on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let trials = [trials::<Blocking>(), trials::<Smol>(), trials::<Tokio>()].into_iter().flatten().collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns all tests of one adapter.
fn trials<S: Site>() -> Vec<Trial> {
    let tests: [(&str, fn()); 16] = [
        ("dns_rebinding", dns_rebinding::<S>),
        ("cross_site_requests", cross_site_requests::<S>),
        ("guessed_sessions", guessed_sessions::<S>),
        ("refuses_headers_that_differ_from_the_body", refuses_headers_that_differ_from_the_body::<S>),
        ("ambiguous_framing", ambiguous_framing::<S>),
        ("rejects_requests_with_two_body_lengths", rejects_requests_with_two_body_lengths::<S>),
        ("oversized_heads", oversized_request_heads::<S>),
        ("refuses_oversized_bodies_with_413", bounds::refuses_oversized_bodies_with_413::<S>),
        ("closes_connections_with_unread_bodies", bounds::closes_connections_with_unread_bodies::<S>),
        ("bodies_that_do_not_end", bounds::bodies_that_do_not_end::<S>),
        ("requests_in_flight", bounds::requests_in_flight::<S>),
        ("handles_one_request_at_a_time_per_connection", bounds::handles_one_request_at_a_time_per_connection::<S>),
        ("stalled_readers", bounds::stalled_readers::<S>),
        ("one_address_cannot_exhaust_the_server", attack::one_address_cannot_exhaust_the_server::<S>),
        ("unread_responses_of_one_address_are_bounded", attack::unread_responses_of_one_address_are_bounded::<S>),
        ("large_client_info_of_one_address_is_bounded", attack::large_client_info_of_one_address_is_bounded::<S>),
    ];
    let trial = |(name, test): (&str, fn())| {
        Trial::test(format!("{}::{name}", S::NAME), move || {
            test();
            Ok(())
        })
    };
    tests.into_iter().map(trial).collect()
}

/// A service with a tool, one of whose arguments is repeated in a header.
fn service() -> Service {
    let schema = r#"{"type":"object","properties":{"row":{"type":"integer","x-mcp-header":"Row"}}}"#;
    let tool = Tool::with_schema("pick", JsonObject::parse(schema).expect("an object"), || "picked");
    let mut settings = Settings::default();
    settings.limits.drain = Duration::from_millis(50);
    Service::builder("endpoint", "1").settings(settings).tool(tool).build().expect("a service")
}

/// Limits of one session and one request, so that leaked state is detected.
fn narrow() -> EndpointOptions {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.paths = Paths::at("/mcp").with_http_sse("/sse", "/message");
    (options.limits.sessions, options.limits.requests) = (1, 1);
    options
}

/// Waits until the slot of a completed request is free, which may be after its response.
fn has_capacity(server: &Served) {
    let start = Instant::now();
    while round_trip(server.address, &Raw::modern("server/discover", json!({})).bytes()).status == 503 {
        assert!(start.elapsed() < LONG, "there is no room again");
    }
}

/// Waits until a refused request has left no more memory than a connection needs. Its connection may still be closing,
/// on another thread.
fn little_is_left(before: usize, name: &str) {
    let (start, left) = (Instant::now(), || PEAK.current_usage().saturating_sub(before));
    while left() >= 32 << 10 {
        assert!(start.elapsed() < LONG, "{name}: {} bytes are left", left());
        thread::yield_now();
    }
}

/// Checks that each case gets its status and leaves no state: there is still room for one session and one request, and
/// memory is as before.
fn all_are_refused<S: Site>(cases: &[Case]) {
    let server = S::serve(&service(), narrow());
    let received = round_trip(server.address, &Raw::pick().bytes());
    assert!(received.status == 200 && received.has("picked"), "what the cases are made of is fine: {}", received.text);
    has_capacity(&server);
    // There is room for one session. A second one would replace this one.
    let received = round_trip(server.address, &Raw::initialize().bytes());
    let id =
        received.text.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session").to_owned();
    let ping = Raw::post("/mcp", &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).set("mcp-session-id", &id);
    assert_eq!(round_trip(server.address, &ping.bytes()).status, 200);
    let mut before = 0;
    for round in 0..3 {
        for case in cases {
            let Case { name, status, code, .. } = case;
            let before = PEAK.current_usage();
            let received = round_trip(server.address, &case.bytes);
            little_is_left(before, name);
            assert_eq!((received.status, received.answers()), (*status, 1), "{name}: {}", received.text);
            if let Some(code) = code {
                assert!(
                    received.has(&format!("\"code\":{code}")) && received.has("\"id\":7"),
                    "{name}: {}",
                    received.text
                );
            }
            assert!(
                !received.has("mcp-session-id:") && !received.has("access-control-allow"),
                "{name}: {}",
                received.text
            );
        }
        if round == 0 {
            before = PEAK.current_usage();
        }
    }
    little_is_left(before, "all that were refused again");
    assert_eq!(round_trip(server.address, &Raw::pick().bytes()).status, 200, "none of them counts as a request");
    assert_eq!(round_trip(server.address, &ping.bytes()).status, 200, "none of them has begun a session");
    let received = round_trip(server.address, &Raw::initialize().bytes());
    assert!(received.status == 200 && received.has("mcp-session-id:"), "the idle one gives way: {}", received.text);
    assert_eq!(round_trip(server.address, &ping.bytes()).status, 404, "there is room for one only");
}

fn dns_rebinding<S: Site>() {
    all_are_refused::<S>(&cases::rebinding());
}

fn cross_site_requests<S: Site>() {
    all_are_refused::<S>(&cases::cross_site());
}

fn guessed_sessions<S: Site>() {
    all_are_refused::<S>(&cases::guessing());
}

fn refuses_headers_that_differ_from_the_body<S: Site>() {
    all_are_refused::<S>(&cases::mirrored());
}

fn ambiguous_framing<S: Site>() {
    all_are_refused::<S>(&cases::framing());
}

/// A body with two lengths is refused (RFC 9112, 6.3). The bytes after it are never another request.
fn rejects_requests_with_two_body_lengths<S: Site>() {
    let server = S::serve(&service(), narrow());
    let smuggled = Raw::initialize().bytes();
    for first in ["content-length", "transfer-encoding"] {
        let body = [b"0\r\n\r\n".as_slice(), &smuggled].concat();
        let request = Raw::modern("tools/list", json!({})).without("connection").body(body);
        let request = [("content-length", "5"), ("transfer-encoding", "chunked")]
            .into_iter()
            .filter(|(name, _)| *name == first)
            .chain(
                [("content-length", "5"), ("transfer-encoding", "chunked")]
                    .into_iter()
                    .filter(|(name, _)| *name != first),
            )
            .fold(request, |request, (name, value)| request.add(name, value));
        let received = round_trip(server.address, &request.bytes());
        assert_eq!((received.status, received.answers()), (400, 1), "{first} first: {}", received.text);
    }
    assert_eq!(round_trip(server.address, &smuggled).status, 200, "what was behind them has begun no session");
}

fn oversized_request_heads<S: Site>() {
    let cases = cases::heads();
    PEAK.reset_peak_usage();
    let before = PEAK.current_usage();
    all_are_refused::<S>(&cases);
    let peak = PEAK.peak_usage() - before;
    assert!(peak < 1 << 20, "{peak} bytes for heads of up to a megabyte that were refused");
}
