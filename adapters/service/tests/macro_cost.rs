//! A call of a tool that the attribute `handlers` registers costs as many allocations and instructions as one of the
//! builder.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

mod exchange;
mod instructions;

use allocation_counter::measure;
use mcp_service::{Service, Tool, handlers};

use exchange::{call, connect};
use instructions::per_call;

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

#[test]
fn runs_the_calls_that_are_counted() {
    let Some((case, calls)) = instructions::run() else { return };
    let (service_of, tool) = case.split_once(' ').expect("a service and a tool");
    let (mut exchange, call) = (service(service_of == "attribute"), call(tool, TEXT));
    (0..calls).for_each(|_| exchange(&call, ANSWER));
}

#[test]
#[ignore = "needs valgrind, and a build with --release"]
fn the_attribute_takes_as_many_instructions_as_the_builder() {
    for tool in ["sync", "async"] {
        let [attribute, builder] = ["attribute", "builder"].map(|service| per_call(&format!("{service} {tool}")));
        println!("{tool}: {attribute} instructions per call with the attribute, {builder} with the builder");
        assert!(attribute.abs_diff(builder) * 200 <= builder, "they differ by more than half a percent");
    }
}
