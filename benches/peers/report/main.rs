//! Measures the cases, their limits and other SDKs, and writes `benches/RESULTS.md` with its charts: `cargo bench -p
//! mcp-benches-peers --bench report`.
#![allow(missing_docs, reason = "it is a program")]

mod goals;
mod page;
#[path = "../shared/mod.rs"]
mod peers;
mod picture;
mod programs;
mod stdio;
mod timing;
mod web;

use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    path::Path,
    process::{Command, ExitCode},
    thread,
    time::Instant,
};

use programs::Program;
use stdio::{Figures, Start};
use timing::Times;
use web::{Form, Rates};

/// Servers by name: the size of the program, and its figures over standard input and output.
type Servers = BTreeMap<&'static str, (Program, Figures)>;

/// All measurements.
pub(crate) struct Results {
    /// Timings in this process.
    pub(crate) times: Times,
    /// Allocations per message by case, and bytes of memory.
    pub(crate) allocations: BTreeMap<String, f64>,
    /// The smallest servers: the size of the programs, and their figures over standard input and output.
    pub(crate) servers: Servers,
    /// Servers over HTTP.
    pub(crate) web: BTreeMap<String, Rates>,
}

#[expect(clippy::print_stderr, reason = "it takes minutes")]
fn say(what: &str) {
    eprintln!("report: {what}");
}

fn main() -> ExitCode {
    if peers::serve() {
        return ExitCode::SUCCESS;
    }
    let begin = Instant::now();
    let outcome = measure().and_then(|results| write(&results));
    say(&match &outcome {
        Ok(()) => format!("written in {} s", begin.elapsed().as_secs()),
        Err(error) => format!("failed: {error}"),
    });
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure() -> Result<Results, Box<dyn Error>> {
    say("what is allocated");
    let allocations = allocations()?;
    let mut times = Times::default();
    say("the core, and what it is measured against");
    timing::time(mcp_benches::core(), &mut times);
    say("adapters, and rmcp");
    thread::scope(|scope| {
        let staying = || {
            stdio::stay();
            timing::time(peers::cases(), &mut times);
        };
        scope.spawn(staying).join()
    })
    .map_err(|_| "a panic")?;
    Ok(Results { times, allocations, servers: servers()?, web: web()? })
}

/// Runs the program that counts allocations, since counting takes time.
fn allocations() -> Result<BTreeMap<String, f64>, Box<dyn Error>> {
    let bench = ["bench", "--quiet", "--package", "mcp-benches-peers", "--bench", "allocations"];
    let output = Command::new(env!("CARGO")).args(bench).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let lines = String::from_utf8(output.stdout)?;
    let line = |line: &str| Some((line.rsplit_once(';')?.0.to_owned(), line.rsplit_once(';')?.1.parse().ok()?));
    Ok(lines.lines().filter_map(line).collect())
}

fn servers() -> Result<Servers, Box<dyn Error>> {
    let kinds: [(&str, &str, &[&str]); 7] = [
        ("blocking", "blocking", &[]),
        ("smol", "smol", &[]),
        ("tokio", "tokio", &[]),
        ("rmcp", "rmcp", &[]),
        ("rmcp, usual", "rmcp", &["stdio"]),
        ("json", "limit", &[]),
        ("pipe", "limit", &["pipe"]),
    ];
    let mut built = BTreeMap::<&str, Program>::new();
    for (_, package, _) in kinds {
        if !built.contains_key(package) {
            say(&format!("building the program {package}"));
            built.insert(package, programs::build(package)?);
        }
    }
    let start = |(_, package, args): (&str, &str, &'static [&str])| -> Start<'static> {
        let path = built[package].path.clone();
        Box::new(move || {
            let mut command = Command::new(&path);
            command.args(args);
            command
        })
    };
    say("programs, over standard input and output");
    let figures = stdio::measure(&kinds.map(start))?;
    let servers = kinds.iter().zip(figures);
    Ok(servers.map(|((name, package, _), figures)| (*name, (built[package].clone(), figures))).collect())
}

fn web() -> Result<BTreeMap<String, Rates>, Box<dyn Error>> {
    let mut servers = Vec::new();
    for limit in ["hyper", "threads"] {
        say(&format!("building the program {limit}"));
        let command = Command::new(programs::build(limit)?.path);
        servers.push((limit.to_owned(), web::Server::start(command, Form::Json, false)?));
    }
    for adapter in ["blocking", "smol", "tokio"] {
        for (name, form) in [("JSON", Form::Json), ("a stream", Form::Stream)] {
            let command = peers::child(&format!("HTTP {adapter}"));
            servers.push((format!("{adapter}, {name}, a session"), web::Server::start(command, form, true)?));
        }
    }
    say("programs, over HTTP");
    Ok(web::measure(servers)?)
}

fn write(results: &Results) -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::create_dir_all(folder.join("pictures"))?;
    for (name, picture) in page::pictures(results) {
        fs::write(folder.join("pictures").join(name), picture)?;
    }
    fs::write(folder.join("RESULTS.md"), page::write(results))?;
    Ok(())
}
