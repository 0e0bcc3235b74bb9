//! Calls a tool from the command line, on smol: `call-smol TOOL ARGUMENTS PROGRAM...`.

use std::{env, error::Error};

use mcp_service::Host;
use mcp_smol::{Client, Command};

async fn call(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [tool, arguments, program, rest @ ..] = args else {
        return Err("usage: call-smol TOOL ARGUMENTS PROGRAM...".into());
    };
    let arguments: serde_json::Value = serde_json::from_str(arguments)?;
    let host = Host::builder("call", "1.0.0").build();
    let client = Client::spawn(Command::new(program).args(rest), &host).await?;
    for content in client.call_tool(tool, arguments)?.await?.content {
        println!("{}", content.as_text().unwrap_or("(no text)"));
    }
    client.close().await;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    smol::block_on(call(&env::args().skip(1).collect::<Vec<_>>()))
}
