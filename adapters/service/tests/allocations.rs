//! The allocations of a call in a service, with and without middleware, besides those of the connection.

mod exchange;
mod idle_middleware;

use allocation_counter::measure;
use mcp_proto::wire::JsonObject;
use mcp_service::{Service, ServiceBuilder, Tool};

use exchange::{call, connect};
use idle_middleware::{Nothing, nothing};

#[derive(serde::Deserialize)]
struct Echo {
    message: String,
}

fn echo() -> ServiceBuilder {
    let schema = || {
        let schema = r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#;
        JsonObject::parse(schema).expect("an object")
    };
    Service::builder("test", "1")
        .tool(Tool::with_schema("sync", schema(), |echo: Echo| echo.message))
        .tool(Tool::with_schema_async("async", schema(), async |echo: Echo| echo.message))
}

#[test]
fn small_call_allocates_once() {
    let middleware: [fn(ServiceBuilder) -> ServiceBuilder; 4] = [
        |service| service,
        |service| service.layer(nothing),
        |service| service.with_layer(Nothing),
        |service| service.layer(nothing).with_layer(Nothing).layer(nothing),
    ];
    for (number, add) in middleware.into_iter().enumerate() {
        let mut exchange = connect(add(echo()));
        for tool in ["sync", "async"] {
            let call = call(tool, "thirty-two bytes, as it happens");
            let answer = r#"{"content":[{"type":"text","text":"thirty-two bytes, as it happens"}]}"#;
            exchange(&call, answer);
            // Each call allocates the result text of the handler. The memory of the call and of the futures of its
            // middleware is reused.
            let calls = 100;
            let allocated = measure(|| (0..calls).for_each(|_| exchange(&call, answer)));
            assert_eq!(allocated.count_total, calls, "{tool} with middleware {number}");
            assert_eq!(allocated.bytes_current, 0, "{tool} with middleware {number}");
        }
    }
}

#[test]
fn small_call_without_a_session_allocates_once() {
    let meta = concat!(
        r#""params":{"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
        r#""io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},"#,
        r#""io.modelcontextprotocol/clientCapabilities":{}},"#,
    );
    let mut exchange = connect(echo());
    for tool in ["sync", "async"] {
        let call = call(tool, "thirty-two bytes, as it happens").replace(r#""params":{"#, meta);
        let answer = r#""content":[{"type":"text","text":"thirty-two bytes, as it happens"}]"#;
        (0..2).for_each(|_| exchange(&call, answer));
        let calls = 100;
        let allocated = measure(|| (0..calls).for_each(|_| exchange(&call, answer)));
        assert_eq!((allocated.count_total, allocated.bytes_current), (calls, 0), "{tool}");
    }
}

#[test]
fn params_are_copied_once_with_middleware() {
    // Buffers of this size are not kept.
    let message = "x".repeat(20 << 10);
    let call = call("sync", &message);
    let mut allocated = [echo(), echo().layer(nothing)].into_iter().map(|builder| {
        let mut exchange = connect(builder);
        exchange(&call, &message);
        measure(|| exchange(&call, &message)).bytes_total
    });
    let (without, with) = (allocated.next().expect("two of them"), allocated.next().expect("two of them"));
    assert!(without >= 2 * message.len() as u64, "the arguments and the text: {without} bytes");
    // The name of the tool is in the copy of the params as well.
    assert!(with <= without + 100, "{without} bytes without middleware, {with} with it");
}

/// The process keeps one large buffer for arguments, of 64 KiB to 2 MiB.
#[test]
fn one_large_buffer_of_arguments_is_reused() {
    // The number of copies of a message in a call after one like it.
    let copies = |length: usize| {
        let message = "x".repeat(length);
        let call = call("sync", &message);
        let mut exchange = connect(echo());
        exchange(&call, &message);
        measure(|| exchange(&call, &message)).bytes_total / length as u64
    };
    // The arguments are 14 bytes longer than their message.
    let (least, most) = ((64 << 10) - 14, (2 << 20) - 14);
    // The largest one is the first: a buffer that has to grow may get too large.
    for (length, expected) in [(40 << 10, 5), (least - 1, 5), (most, 4), (most + 1, 5), (least, 4), (1 << 20, 4)] {
        assert_eq!(copies(length), expected, "{length} bytes");
    }
}
