//! The example `progress` of rmcp, ported: a tool that reports its progress, over standard input
//! and output, over HTTP, or both: `progress [stdio|http|all]`.

use std::{env, error::Error, time::Duration};

use mcp_service::{CallError, Context, RegisterError, Service, Tool};
use mcp_tokio::{http::serve_http, serve_stdio};

const ADDRESS: &str = "127.0.0.1:8001";
const RECORDS: [&str; 5] = ["11111", "22222", "33333", "44444", "55555"];

async fn process(context: Context) -> Result<String, CallError> {
    for (index, record) in (1_u32..).zip(RECORDS) {
        context
            .progress(index.into(), Some(5.0), Some(record))
            .await?;
        context.sleep(Duration::from_secs(1)).await?;
    }
    Ok(format!("{} records are done", RECORDS.len()))
}

pub(crate) fn service() -> Result<Service, RegisterError> {
    let tool = Tool::new_async("stream_processor", process)
        .description("Processes records and reports its progress");
    Service::builder("progress", env!("CARGO_PKG_VERSION"))
        .tool(tool)
        .build()
}

#[tokio::main]
#[allow(dead_code, reason = "a test includes this file")]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = service()?;
    match env::args().nth(1).as_deref().unwrap_or("stdio") {
        "stdio" => serve_stdio(&service).await?,
        "http" => serve_http(&service, ADDRESS).await?,
        "all" => drop(tokio::try_join!(
            serve_stdio(&service),
            serve_http(&service, ADDRESS)
        )?),
        _ => return Err("usage: progress [stdio|http|all]".into()),
    }
    Ok(())
}
