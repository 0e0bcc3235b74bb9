//! The server: one tool, and a middleware that does nothing.

use mcp_service::{Completed, Deferred, Failure, IncomingRequest, Middleware, Next, Service, Tool};
use tokio::runtime::Builder;

use crate::{
    Outcome,
    echo::{Echo, schema},
};

async fn nothing(_: IncomingRequest, next: Next) -> Result<Completed, Failure> {
    Ok(next.run().await)
}

struct Nothing;

impl Middleware for Nothing {
    fn handle(&self, _: IncomingRequest, next: Next) -> Deferred<Result<Completed, Failure>> {
        next.run().map(Ok)
    }
}

/// Serves standard input and output, or HTTP on one thread, and then prints the address.
pub(crate) fn serve(over: &str, layer: &str) -> Outcome<()> {
    let tool = Tool::with_schema_async("echo", schema(), async |echo: Echo| echo.message);
    let builder = Service::builder("echo", "1.0.0").tool(tool);
    let builder = match layer {
        "function" => builder.layer(nothing),
        "type" => builder.with_layer(Nothing),
        _ => builder,
    };
    let service = builder.build()?;
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        if over == "stdio" {
            return Ok(mcp_tokio::serve_stdio(&service).await?);
        }
        let listener = mcp_tokio::http::Listener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr());
        Ok(listener.serve(&service).await?)
    })
}
