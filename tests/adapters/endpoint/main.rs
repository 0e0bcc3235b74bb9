//! The endpoint of each adapter: requests that must be refused are, with the right status, before anything is begun or kept for
//! them. They are sent as bytes over TCP.
//!
//! What is allocated is counted for the whole process, so there is one test at a time.

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
use raw::{Raw, say};
use serde_json::json;

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

/// More than anything takes, also on a machine that has much else to do; a test that needs it has failed.
const LONG: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let trials = [trials::<Blocking>(), trials::<Smol>(), trials::<Tokio>()].into_iter().flatten().collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Everything that one adapter is tried with.
fn trials<S: Site>() -> Vec<Trial> {
    let tests: [(&str, fn()); 16] = [
        ("dns_rebinding", dns_rebinding::<S>),
        ("cross_site_requests", cross_site_requests::<S>),
        ("guessed_sessions", guessed_sessions::<S>),
        ("headers_that_differ_from_the_body", headers_that_differ_from_the_body::<S>),
        ("ambiguous_framing", ambiguous_framing::<S>),
        ("a_body_with_two_lengths_is_one_request", a_body_with_two_lengths_is_one_request::<S>),
        ("oversized_heads", oversized_heads::<S>),
        ("oversized_bodies_are_told_so", bounds::oversized_bodies_are_told_so::<S>),
        ("what_is_not_read_ends_its_connection", bounds::what_is_not_read_ends_its_connection::<S>),
        ("bodies_that_do_not_end", bounds::bodies_that_do_not_end::<S>),
        ("requests_in_flight", bounds::requests_in_flight::<S>),
        ("one_request_at_a_time_on_a_connection", bounds::one_request_at_a_time_on_a_connection::<S>),
        ("whoever_reads_nothing", bounds::whoever_reads_nothing::<S>),
        ("one_address_holds_all_that_it_can", attack::one_address_holds_all_that_it_can::<S>),
        ("one_address_reads_nothing", attack::one_address_reads_nothing::<S>),
        ("one_address_says_much_of_itself", attack::one_address_says_much_of_itself::<S>),
    ];
    let trial = |(name, test): (&str, fn())| {
        Trial::test(format!("{}::{name}", S::NAME), move || {
            test();
            Ok(())
        })
    };
    tests.into_iter().map(trial).collect()
}

/// A service with a tool one of whose arguments is repeated in a header.
fn service() -> Service {
    let schema = r#"{"type":"object","properties":{"row":{"type":"integer","x-mcp-header":"Row"}}}"#;
    let tool = Tool::with_schema("pick", JsonObject::parse(schema).expect("an object"), || "picked");
    let mut settings = Settings::default();
    settings.limits.drain = Duration::from_millis(50);
    Service::builder("endpoint", "1").settings(settings).tool(tool).build().expect("a service")
}

/// Room for one session and one request, so that whatever is begun is noticed.
fn narrow() -> EndpointOptions {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.paths = Paths::at("/mcp").with_http_sse("/sse", "/message");
    (options.limits.sessions, options.limits.requests) = (1, 1);
    options
}

/// Waits until what was answered has left its place, which it may do behind its answer.
fn there_is_room(server: &Served) {
    let start = Instant::now();
    while say(server.address, &Raw::modern("server/discover", json!({})).bytes()).status == 503 {
        assert!(start.elapsed() < LONG, "there is no room again");
    }
}

/// Waits until what was refused has left no more than what is kept for the next one. Its connection may be on its way out,
/// on another thread.
fn little_is_left(before: usize, name: &str) {
    let (start, left) = (Instant::now(), || PEAK.current_usage().saturating_sub(before));
    while left() >= 32 << 10 {
        assert!(start.elapsed() < LONG, "{name}: {} bytes are left", left());
        thread::yield_now();
    }
}

/// Each of them is refused as it says, and leaves nothing: there is still room for one session and one request, and memory
/// is what it was.
fn all_are_refused<S: Site>(cases: &[Case]) {
    let server = S::serve(&service(), narrow());
    let heard = say(server.address, &Raw::pick().bytes());
    assert!(heard.status == 200 && heard.has("picked"), "what the cases are made of is fine: {}", heard.text);
    there_is_room(&server);
    // There is room for one session, and this one would give way to another.
    let heard = say(server.address, &Raw::initialize().bytes());
    let id = heard.text.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session").to_owned();
    let ping = Raw::post("/mcp", &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).set("mcp-session-id", &id);
    assert_eq!(say(server.address, &ping.bytes()).status, 200);
    let mut before = 0;
    for round in 0..3 {
        for case in cases {
            let Case { name, status, code, .. } = case;
            let before = PEAK.current_usage();
            let heard = say(server.address, &case.bytes);
            little_is_left(before, name);
            assert_eq!((heard.status, heard.answers()), (*status, 1), "{name}: {}", heard.text);
            if let Some(code) = code {
                assert!(heard.has(&format!("\"code\":{code}")) && heard.has("\"id\":7"), "{name}: {}", heard.text);
            }
            assert!(!heard.has("mcp-session-id:") && !heard.has("access-control-allow"), "{name}: {}", heard.text);
        }
        if round == 0 {
            before = PEAK.current_usage();
        }
    }
    little_is_left(before, "all that were refused again");
    assert_eq!(say(server.address, &Raw::pick().bytes()).status, 200, "none of them counts as a request");
    assert_eq!(say(server.address, &ping.bytes()).status, 200, "none of them has begun a session");
    let heard = say(server.address, &Raw::initialize().bytes());
    assert!(heard.status == 200 && heard.has("mcp-session-id:"), "the idle one gives way: {}", heard.text);
    assert_eq!(say(server.address, &ping.bytes()).status, 404, "there is room for one only");
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

fn headers_that_differ_from_the_body<S: Site>() {
    all_are_refused::<S>(&cases::mirrored());
}

fn ambiguous_framing<S: Site>() {
    all_are_refused::<S>(&cases::framing());
}

/// A body whose length is said in two ways is that of one request, by the one of the two that counts (RFC 9112, 6.3), or
/// of none. What is behind it is never another request.
fn a_body_with_two_lengths_is_one_request<S: Site>() {
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
        let heard = say(server.address, &request.bytes());
        assert_eq!((heard.status, heard.answers()), (400, 1), "{first} first: {}", heard.text);
    }
    assert_eq!(say(server.address, &smuggled).status, 200, "what was behind them has begun no session");
}

fn oversized_heads<S: Site>() {
    let cases = cases::heads();
    PEAK.reset_peak_usage();
    let before = PEAK.current_usage();
    all_are_refused::<S>(&cases);
    let peak = PEAK.peak_usage() - before;
    assert!(peak < 1 << 20, "{peak} bytes for heads of up to a megabyte that were refused");
}
