//! The instructions that a middleware that does nothing adds to a small call in a service, without a transport.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

mod exchange;
mod idle_middleware;
mod instructions;

use mcp_proto::wire::JsonObject;
use mcp_service::{Service, Tool};

use exchange::{call, connect};
use idle_middleware::{Nothing, nothing};
use instructions::per_call;

#[derive(serde::Deserialize)]
struct Echo {
    message: String,
}

#[test]
fn runs_the_calls_that_are_counted() {
    let Some((case, calls)) = instructions::run() else { return };
    let schema = r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#;
    let schema = JsonObject::parse(schema).expect("an object");
    let service =
        Service::builder("test", "1").tool(Tool::with_schema_async("echo", schema, async |echo: Echo| echo.message));
    let service = match &*case {
        "function" => service.layer(nothing),
        "type" => service.with_layer(Nothing),
        "three" => service.layer(nothing).layer(nothing).layer(nothing),
        "none" => service,
        other => panic!("{other}"),
    };
    let text = "thirty-two bytes, as it happens";
    let (mut exchange, call) = (connect(service), call("echo", text));
    (0..calls).for_each(|_| exchange(&call, text));
}

/// The most instructions that middleware may add, in percent of those of a call without. The counts differ by about 40
/// between builds with different features.
const LIMITS: [(&str, u64); 3] = [("function", 4), ("type", 2), ("three", 12)];

#[test]
#[ignore = "needs valgrind, and a build with --release"]
fn middleware_that_does_nothing_adds_few_instructions() {
    let none = per_call("none");
    println!("{none} instructions per call without middleware");
    for (case, limit) in LIMITS {
        let added = per_call(case).checked_sub(none).expect("middleware is not free");
        println!("{case}: {added} more");
        assert!(100 * added <= limit * none, "{case}: {added} instructions, more than {limit} percent of {none}");
    }
}
