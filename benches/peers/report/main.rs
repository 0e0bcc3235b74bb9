//! Measures the cases, their limits and other SDKs, and writes `benches/RESULTS.md` with its charts: `cargo bench -p
//! mcp-benches-peers --bench report`.
#![allow(missing_docs, reason = "it is a program")]

mod goals;
mod page;
#[path = "../shared/mod.rs"]
mod peers;
mod picture;
mod processors;
mod programs;
mod sdks;
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

use processors::Processors;
use programs::{Program, Source};
use stdio::{Figures, Start};
use timing::Times;
use web::{Form, Rates, Sessions};

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
    /// The programs of servers over HTTP with default features.
    pub(crate) web_programs: BTreeMap<&'static str, Program>,
    /// Servers over HTTP on more processors.
    pub(crate) processors: Processors,
    /// The table of other SDKs.
    pub(crate) sdks: String,
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
    let servers = servers()?;
    let web_programs = web_programs()?;
    let [hyper, threads] = ["hyper", "threads"].map(|limit| {
        say(&format!("building the program {limit}"));
        programs::build(Source::of(if limit == "hyper" { "echo-hyper" } else { "echo-threads" }))
    });
    let (hyper, threads) = (hyper?.path, threads?.path);
    let web = web(&hyper, &threads, &web_programs["rmcp"].path)?;
    say("programs, over HTTP on more processors");
    let ours = ["blocking", "smol", "tokio"].map(|adapter| (adapter, &*web_programs[adapter].path, ""));
    let bare = ("bare hyper", &*hyper, "many");
    let peer = ("rmcp", &*web_programs["rmcp"].path, "");
    let processors = processors::measure(&[&[bare], &ours[..], &[peer]].concat())?;
    say("other SDKs");
    Ok(Results { times, allocations, servers, web, web_programs, processors, sdks: sdks::measure() })
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
    let defaults = |package, program| Source { package, program, has_http: false };
    let kinds: [(&str, Source, &[&str]); 11] = [
        ("blocking", Source::of("echo-blocking"), &[]),
        ("smol", Source::of("echo-smol"), &[]),
        ("tokio", Source::of("echo-tokio"), &[]),
        ("rmcp", Source::of("echo-rmcp"), &[]),
        ("rmcp, usual", Source::of("echo-rmcp"), &["stdio"]),
        ("json", Source::of("echo-limit"), &[]),
        ("pipe", Source::of("echo-limit"), &["pipe"]),
        ("blocking, defaults", defaults("defaults-blocking", "stdio-blocking"), &[]),
        ("smol, defaults", defaults("defaults-smol", "stdio-smol"), &[]),
        ("tokio, defaults", defaults("defaults-tokio", "stdio-tokio"), &[]),
        ("rmcp, defaults", defaults("defaults-rmcp", "stdio-rmcp"), &[]),
    ];
    let mut built = BTreeMap::<Source, Program>::new();
    for (_, source, _) in kinds {
        if !built.contains_key(&source) {
            say(&format!("building the program {}", source.program));
            built.insert(source, programs::build(source)?);
        }
    }
    let start = |(_, source, args): (&str, Source, &'static [&str])| -> Start<'static> {
        let path = built[&source].path.clone();
        Box::new(move || {
            let mut command = Command::new(&path);
            command.args(args);
            command
        })
    };
    say("programs, over standard input and output");
    let figures = stdio::measure(&kinds.map(start))?;
    let servers = kinds.iter().zip(figures);
    Ok(servers.map(|((name, source, _), figures)| (*name, (built[source].clone(), figures))).collect())
}

/// Builds the servers over HTTP with default features.
fn web_programs() -> Result<BTreeMap<&'static str, Program>, Box<dyn Error>> {
    let mut built = BTreeMap::new();
    for (name, package, program) in [
        ("blocking", "defaults-blocking", "http-blocking"),
        ("smol", "defaults-smol", "http-smol"),
        ("tokio", "defaults-tokio", "http-tokio"),
        ("rmcp", "defaults-rmcp", "http-rmcp"),
    ] {
        say(&format!("building the program {program}"));
        built.insert(name, programs::build(Source { package, program, has_http: true })?);
    }
    Ok(built)
}

fn web(hyper: &Path, threads: &Path, rmcp: &Path) -> Result<BTreeMap<String, Rates>, Box<dyn Error>> {
    say("programs, over HTTP");
    let mut servers = Vec::new();
    for (limit, program) in [("hyper", hyper), ("threads", threads)] {
        servers.push((limit.to_owned(), web::Server::start(Command::new(program), Form::Json, Sessions::Ignored)?));
    }
    for adapter in ["blocking", "smol", "tokio"] {
        for (name, form) in [("JSON", Form::Json), ("a stream", Form::Stream)] {
            let command = peers::child(&format!("HTTP {adapter}"));
            servers.push((format!("{adapter}, {name}, a session"), web::Server::start(command, form, Sessions::Used)?));
        }
    }
    let rmcp = |args: &[&str]| {
        let mut command = Command::new(rmcp);
        command.args(args).env("PORT", "0");
        command
    };
    servers.push(("rmcp, JSON".to_owned(), web::Server::start(rmcp(&["json"]), Form::Json, Sessions::None)?));
    servers.push((
        "rmcp, a stream, a session".to_owned(),
        web::Server::start(rmcp(&[]), Form::AlwaysStream, Sessions::Used)?,
    ));
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
