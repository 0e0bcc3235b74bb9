//! The smallest server with rmcp, on one thread. It uses pipes without threads, or with the argument `stdio` the
//! default transport of rmcp.

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
    // A pending read of standard input cannot be cancelled.
    runtime.shutdown_background();
}
