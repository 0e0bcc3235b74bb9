//! The client of rmcp's example `progress`, ported: `progress-client [stdio|http|all]`.

use std::{env, error::Error, time::Instant};

use mcp_service::Host;
use mcp_tokio::{Client, Command};

const URL: &str = "http://127.0.0.1:8001/mcp";

async fn try_out(client: Result<Client, mcp_tokio::Error>) -> Result<(), Box<dyn Error>> {
    let client = client?;
    eprintln!("connected to {}", client.server().server_info.name);
    for tool in client.all_tools().try_collect().await? {
        eprintln!("tool {}", tool.name);
    }
    let (start, mut count) = (Instant::now(), 0);
    let call = client.call_tool("stream_processor", ())?;
    let result = call.await_with(|progress| {
        count += 1;
        let message = progress.message.unwrap_or_default();
        eprintln!("{:?}: {} {message}", start.elapsed(), progress.progress);
    });
    let result = result.await?;
    eprintln!("{}", result.content[0].as_text().unwrap_or_default());
    eprintln!("{count} notifications in {:?}", start.elapsed());
    client.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let host = Host::builder("progress-client", "1.0.0").build();
    let server = env::current_exe()?.with_file_name("progress");
    let over = env::args().nth(1).unwrap_or_else(|| "stdio".into());
    if ["stdio", "all"].contains(&over.as_str()) {
        try_out(Client::spawn(Command::new(server), &host).await).await?;
    }
    if ["http", "all"].contains(&over.as_str()) {
        try_out(Client::connect_http(URL, &host).await).await?;
    }
    Ok(())
}
