//! The ready-made layers around one tool: an audit log, metrics, a limit for each caller, a cache, a
//! timeout, texts that are masked, and a layer of its own. The client repeats what the limit refuses.
//!
//! ```sh
//! cargo run -p mcp-guide --example layers
//! ```

use std::{error::Error, time::Duration};

use mcp_guide::connect;
use mcp_service::{
    Host, IncomingRequest, Next, RegisterError, Service, Tool,
    layers::{
        Audit, AuditRecord, HandlerTimeout, Labels, MaskTexts, Metrics, MetricsRecorder, RateLimit,
        ResultCache, Retry,
    },
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Place {
    city: String,
}

/// Prints measurements. `Metrics::global` records with the crate `metrics` instead.
struct Printed;

impl MetricsRecorder for Printed {
    fn count(&self, name: &'static str, labels: &Labels<'_>, by: u64) {
        println!("  {name} {labels:?} +{by}");
    }

    fn observe(&self, name: &'static str, _: &Labels<'_>, value: f64) {
        println!("  {name} {value:.3}");
    }

    fn adjust(&self, _: &'static str, _: &Labels<'_>, _: f64) {}
}

fn audited(record: &AuditRecord<'_>) {
    let arguments = record.arguments.unwrap_or("-");
    println!(
        "  audit: {} {arguments}: {}",
        record.method,
        record.outcome.as_str()
    );
}

fn service() -> Result<Service, RegisterError> {
    let now = |place: Place| format!("{}: rain (key hunter2)", place.city);
    Service::builder("weather", env!("CARGO_PKG_VERSION"))
        .tool(Tool::new("now", now).description("Returns the weather"))
        .with_layer(Audit::new(audited).redact(["password"]))
        .with_layer(Metrics::new(Printed))
        .with_layer(RateLimit::new(2, Duration::from_secs(1)))
        .with_layer(ResultCache::new(Duration::from_secs(60)).shared("now"))
        .with_layer(HandlerTimeout::new(Duration::from_secs(10)))
        .layer(async |request: IncomingRequest, next: Next| {
            println!("  the handler of {:?} runs", request.name());
            Ok(next.run().await)
        })
        .with_layer(MaskTexts::new(|text| text.replace("hunter2", "***").into()))
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let host = Host::builder("client", env!("CARGO_PKG_VERSION")).build();
    let client = connect(&service()?, &host).await?;
    let patient = client.retrying(&Retry::new().attempts(5).tools(["now"]));
    for _ in 0..4 {
        let result = patient
            .call_tool("now", serde_json::json!({"city": "Oslo"}))
            .await?;
        println!("{}", result.content[0].as_text().unwrap_or_default());
    }
    client.close().await;
    Ok(())
}
