//! The smallest server that can be had with rmcp, on one thread. Over pipes without threads in between, unless it is called
//! with `stdio`: then over its usual transport.

mod echo;

use echo::Echo;
use rmcp::{
    ServiceExt,
    transport::{io::stdio_pipes, stdio},
};

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let usual = std::env::args().nth(1).is_some_and(|transport| transport == "stdio");
    runtime.block_on(async {
        let running = if usual { Echo.serve(stdio()).await } else { Echo.serve(stdio_pipes()).await };
        let _ = running.expect("a client").waiting().await;
    });
    // A read of standard input that has begun cannot be called off.
    runtime.shutdown_background();
}
