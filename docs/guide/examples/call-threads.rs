//! Calls a tool from the command line, on threads: `call-threads TOOL ARGUMENTS PROGRAM...`.

use std::{env, error::Error};

use mcp_blocking::{Client, Command};
use mcp_service::Host;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [tool, arguments, program, rest @ ..] = args.as_slice() else {
        return Err("usage: call-threads TOOL ARGUMENTS PROGRAM...".into());
    };
    let arguments: serde_json::Value = serde_json::from_str(arguments)?;
    let host = Host::builder("call", "1.0.0").build();
    let client = Client::spawn(Command::new(program).args(rest), &host)?;
    for content in client.call_tool(tool, arguments)?.wait()?.content {
        println!("{}", content.as_text().unwrap_or("(no text)"));
    }
    client.close();
    Ok(())
}
