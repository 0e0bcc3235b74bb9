//! A call of a tool that the attribute `handlers` registers costs as many allocations and instructions as one of the
//! builder.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

mod exchange;

use std::{env, process::Command};

use allocation_counter::measure;
use mcp_service::{Service, Tool, handlers};

use exchange::{call, connect};

struct Echoer;

#[handlers]
impl Echoer {
    #[tool]
    fn sync(&self, message: String) -> String {
        message
    }

    #[tool(name = "async")]
    async fn later(&self, message: String) -> String {
        message
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

struct ByHand;

impl ByHand {
    fn sync(&self, echo: Echo) -> String {
        echo.message
    }

    async fn later(&self, echo: Echo) -> String {
        echo.message
    }
}

/// A function that sends a frame, and checks the output.
type Exchange = Box<dyn FnMut(&str, &str)>;

/// Returns a function that sends a frame to the service of the attribute, or to that of the builder.
fn service(is_attribute: bool) -> Exchange {
    let builder = Service::builder("test", "1");
    if is_attribute {
        return Box::new(connect(builder.with_state(Echoer).register(Echoer::handlers)));
    }
    let builder = builder.with_state(ByHand).tool(Tool::new("sync", ByHand::sync));
    Box::new(connect(builder.tool(Tool::new_async("async", ByHand::later))))
}

const TEXT: &str = "thirty-two bytes, as it happens";
const ANSWER: &str = r#"{"content":[{"type":"text","text":"thirty-two bytes, as it happens"}]}"#;

#[test]
fn the_attribute_allocates_as_the_builder_does() {
    for tool in ["sync", "async"] {
        let call = call(tool, TEXT);
        let [attribute, builder] = [true, false].map(|is_attribute| {
            let mut exchange = service(is_attribute);
            exchange(&call, ANSWER);
            let calls = 100;
            let allocated = measure(|| (0..calls).for_each(|_| exchange(&call, ANSWER)));
            assert_eq!(allocated.bytes_current, 0, "{tool}");
            (allocated.count_total, allocated.bytes_total)
        });
        assert_eq!(attribute, builder, "{tool}");
        assert!(attribute.0 > 0, "it is counted");
    }
}

/// What a run of this program under valgrind does: the service, the tool, and the number of calls.
const RUN: &str = "MCP_MACRO_COST";

#[test]
fn runs_the_calls_that_are_counted() {
    let Ok(run) = env::var(RUN) else { return };
    let [service_of, tool, calls] = run.split(' ').collect::<Vec<_>>()[..] else { panic!("{run}") };
    let (mut exchange, call) = (service(service_of == "attribute"), call(tool, TEXT));
    (0..calls.parse().expect("a number")).for_each(|_: u32| exchange(&call, ANSWER));
}

/// Returns the instructions of a run.
fn instructions(service: &str, tool: &str, calls: u32) -> u64 {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe().expect("this program"))
        .args(["--exact", "runs_the_calls_that_are_counted", "--test-threads=1"])
        .env(RUN, format!("{service} {tool} {calls}"))
        .output()
        .expect("valgrind is installed");
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected : ")).expect("a count").1;
    collected.trim().parse().expect("a number")
}

#[test]
#[ignore = "needs valgrind, and a build with --release"]
fn the_attribute_takes_as_many_instructions_as_the_builder() {
    for tool in ["sync", "async"] {
        // What the program does besides the calls is the same in both runs.
        let per_call = |service| (instructions(service, tool, 3_000) - instructions(service, tool, 1_000)) / 2_000;
        let (attribute, builder) = (per_call("attribute"), per_call("builder"));
        println!("{tool}: {attribute} instructions per call with the attribute, {builder} with the builder");
        assert!(attribute.abs_diff(builder) * 200 <= builder, "they differ by more than half a percent");
    }
}
