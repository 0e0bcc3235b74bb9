//! Attacks HTTP servers from one address while a client at another address measures how long its own requests take.
//!
//! ```sh
//! for adapter in tokio smol blocking; do
//!   cargo build --release -p "mcp-$adapter" --features http --example "everything-$adapter"
//! done
//! cargo run --release -p mcp-tests --bin attack [-- ADAPTER...]
//! ```
//!
//! The servers are the examples `everything-*` of the same profile, and each attack has a process of its own. The table
//! has what the attacker holds, how many requests of the other client were served, their median and their longest time,
//! and the peak of the resident memory of the server. Only for Linux.

mod attacks;
mod client;
mod flood;
mod honest;
mod server;

use std::{
    env,
    error::Error,
    io::{self, Write},
};

use server::Server;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let chosen: Vec<String> = env::args().skip(1).collect();
    let known = ["tokio", "smol", "blocking"];
    if let Some(unknown) = chosen.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("no adapter \"{unknown}\": tokio, smol, blocking").into());
    }
    let adapters = known.into_iter().filter(|name| chosen.is_empty() || chosen.iter().any(|chosen| chosen == name));
    let adapters: Vec<&str> = adapters.collect();
    let mut out = io::stdout();
    writeln!(out, "| adapter | attack | held | other client: requests | median | longest | peak |")?;
    writeln!(out, "| --- | --- | --- | ---: | ---: | ---: | ---: |")?;
    for adapter in &adapters {
        for (name, attack) in attacks::ATTACKS {
            let server = Server::start(adapter)?;
            let mut honest = honest::Honest::start(server.address)?;
            let held = attack(server.address).map_err(|error| format!("{adapter}, {name}, attacker: {error}"))?;
            let report = honest.finish().map_err(|error| format!("{adapter}, {name}, other client: {error}"))?;
            let peak = server.peak()?;
            writeln!(out, "| {adapter} | {name} | {held} | {report} | {peak} MiB |")?;
        }
    }
    writeln!(out, "\n| adapter | flood | responses | seconds | peak |\n| --- | --- | ---: | ---: | ---: |")?;
    for adapter in &adapters {
        for flood in flood::FLOODS {
            let (answered, seconds, peak) =
                flood::flood(adapter, flood).map_err(|error| format!("{adapter}, {}: {error}", flood.0))?;
            writeln!(out, "| {adapter} | {} | {answered} | {seconds:.1} | {peak} MiB |", flood.0)?;
        }
    }
    Ok(())
}
