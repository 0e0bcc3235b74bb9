//! A client of a server that others have written: it lists tools, calls one with progress, a
//! timeout and a cancellation, and answers the questions of the server.
//!
//! ```sh
//! cargo run -p mcp-guide --example foreign -- echo '{"message":"Hi"}' \
//!     npx -y @modelcontextprotocol/server-everything
//! ```

use std::{env, error::Error, time::Duration};

use mcp_proto::schema::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult,
    LogMessageParams, LoggingLevel, Role, Root, SamplingContent,
};
use mcp_service::{CallError, Failure, Host, Roots};
use mcp_tokio::{Command, RestartPolicy, Supervisor, shutdown_on_signals};
use serde_json::Value;

fn host() -> Result<Host, Box<dyn Error>> {
    Ok(Host::builder("foreign", env!("CARGO_PKG_VERSION"))
        .roots(&Roots::new([Root::new("file:///tmp")])?)
        .sampling(|params: CreateMessageParams, _| {
            eprintln!(
                "the server asks the model: {} messages",
                params.messages.len()
            );
            let text = SamplingContent::text("I am no model.");
            Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, text, "none"))
        })
        .elicitation(|form: ElicitFormParams, _| {
            eprintln!("the server asks the user: {}", form.message);
            Ok::<_, Failure>(ElicitResult::new(ElicitAction::Decline))
        })
        .on(|log: LogMessageParams, _| eprintln!("log: {}", log.data.get()))
        .build())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    shutdown_on_signals()?;
    let args: Vec<String> = env::args().skip(1).collect();
    let [tool, arguments, program, rest @ ..] = args.as_slice() else {
        return Err("usage: foreign TOOL ARGUMENTS PROGRAM...".into());
    };
    let arguments: Value = serde_json::from_str(arguments)?;
    let command = Command::new(program).args(rest);
    // A server that ends is started again.
    let supervisor = Supervisor::new(command, &host()?).restart(RestartPolicy::default());
    let client = supervisor.client().await?;
    println!(
        "{} {:?}",
        client.server().server_info.name,
        client.version()
    );
    for tool in client.all_tools().try_collect().await? {
        println!("- {}", tool.name);
    }

    let server = client
        .logging(LoggingLevel::Info)
        .within(Duration::from_secs(20));
    let call = server.call_tool(tool, &arguments)?;
    let result = call
        .await_with(|progress| eprintln!("progress {}", progress.progress))
        .await?;
    for content in &result.content {
        println!("{}", content.as_text().unwrap_or("(no text)"));
    }

    let call = server.call_tool(tool, &arguments)?;
    call.cancel(Some("only to show it"));
    println!(
        "cancelled: {}",
        matches!(call.await, Err(CallError::Cancelled))
    );

    let calls: Vec<_> = (0..200)
        .map(|_| server.call_tool(tool, &arguments))
        .collect::<Result<_, _>>()?;
    let mut failed = 0;
    for call in calls {
        failed += usize::from(call.await.is_err());
    }
    println!("200 calls at once, {failed} failed");
    client.close().await;
    Ok(())
}
