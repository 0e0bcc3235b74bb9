//! The protocol without an adapter: a server with one tool, and its loop over standard input and output.
//!
//! ```sh
//! cargo run --example tour-blocking -- target/debug/examples/bare-loop
//! ```

use std::{
    collections::{BTreeMap, hash_map::RandomState},
    hash::BuildHasher,
    io::{self, Read, Write},
    time::Instant,
};

use mcp_proto::{codec::LineDecoder, connection::*, protocol::*, rpc::Timestamp, schema::*, wire::*};

fn main() -> io::Result<()> {
    // Random bits, from the keys of a hash table.
    let hash_seed = RandomState::new().hash_one(0);
    let mut config = ServerConfig::new(Implementation::new("bare-loop", "1.0.0"), hash_seed);
    config.capabilities = ServerCapabilities::default().with(Capability::Tools);
    let (start, mut input, mut output) = (Instant::now(), io::stdin().lock(), io::stdout().lock());
    let mut server = Server::new(config, Timestamp::ZERO);
    let (mut lines, mut chunk, mut out) = (LineDecoder::new(1 << 20), [0; 4096], Vec::new());
    while !server.is_drained() {
        let len = input.read(&mut chunk)?;
        let now = Timestamp::after_zero(start.elapsed());
        lines.feed(&chunk[..len]);
        while let Some(frame) = lines.next_frame() {
            if let Some(event) = server.handle_frame(now, frame) {
                answer(&mut server, event).map_err(io::Error::other)?;
            }
        }
        if len == 0 {
            server.handle_eof(now);
        }
        while let Some(event) = server.poll_event() {
            answer(&mut server, event).map_err(io::Error::other)?;
        }
        loop {
            while server.poll_transmit_up_to(&mut out, 1 << 16).is_some() {}
            if out.is_empty() {
                break;
            }
            output.write_all(&out)?;
            output.flush()?;
            out.clear();
        }
    }
    Ok(())
}

fn answer(server: &mut Server, event: Event<'_>) -> Result<(), SendError> {
    let Event::Request { key, method, params } = event else { return Ok(()) };
    let schema = r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#;
    match (method.known(), decode_params::<CallToolParams>(params.as_ref())) {
        (Some(Method::ListTools), _) => {
            server.respond(key, &ListToolsResult::new([Tool::new("echo", JsonObject::parse(schema)?)]))
        }
        (Some(Method::CallTool), Ok(call)) if call.name == "echo" => {
            let message = call.arguments.and_then(|it| it.decode::<BTreeMap<String, String>>().ok()?.remove("message"));
            server.respond(key, &message.map_or_else(|| CallToolResult::error("no message"), CallToolResult::text))
        }
        (Some(Method::CallTool), _) => server.respond_error(key, &ErrorObject::invalid_params("Unknown tool")),
        _ => server.respond_error(key, &ErrorObject::method_not_found(method.as_str())),
    }
}
