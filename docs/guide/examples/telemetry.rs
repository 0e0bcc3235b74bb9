//! Logs and traces: events of `tracing` that the client gets as log messages, spans of the requests
//! of both sides, and a trace that goes from the client through the server.
//!
//! ```sh
//! cargo run -p mcp-guide --example telemetry
//! ```

use std::error::Error;

use mcp_guide::connect;
use mcp_proto::schema::{LogMessageParams, LoggingLevel, TraceContext};
use mcp_service::{Context, Host, Service, Tool, layers::LogLayer};
use tracing_subscriber::{
    fmt::{self, format::FmtSpan},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// The trace of this program. OpenTelemetry has another one for each operation.
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn order(context: Context) -> String {
    tracing::warn!(left = 2, "few are left");
    let trace = context.trace();
    format!(
        "ordered in the trace {:?}",
        trace.as_ref().and_then(TraceContext::trace_id)
    )
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::CLOSE);
    let logs = LogLayer::of_targets([module_path!()]);
    tracing_subscriber::registry().with(lines).with(logs).init();

    let service = Service::builder("shop", env!("CARGO_PKG_VERSION"))
        .tool(Tool::new_async("order", order))
        .build()?;
    let host = Host::builder("client", env!("CARGO_PKG_VERSION"))
        .trace_with(|| TraceContext::within(TRACE).ok())
        .on(|log: LogMessageParams, _| println!("{}: {}", log.level, log.data.get()))
        .build();
    let client = connect(&service, &host).await?;
    let result = client
        .logging(LoggingLevel::Info)
        .call_tool("order", ())?
        .await?;
    println!("{}", result.content[0].as_text().unwrap_or_default());
    client.close().await;
    Ok(())
}
