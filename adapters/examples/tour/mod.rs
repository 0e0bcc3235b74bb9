//! A client that connects to any server over stdio, or over HTTP, and tries all that it has, on any adapter.
//!
//! ```sh
//! cargo run --example tour-blocking                       # tours our own server, everything-blocking
//! cargo run --example tour-blocking -- COMMAND ARGS...    # tours another one
//! tour-blocking http://127.0.0.1:8000/mcp                 # tours one that is there
//! tour-blocking --era auto|modern|legacy -- COMMAND ...   # the era of the server (default), or only this one
//! ```
//!
//! It lists all items, calls the tools that look safe, reads, subscribes or listens, completes, sets the log level and
//! pings, as far as the era has it, and responds to requests of the server. For some well-known servers it also checks
//! the results. It ends with a summary, and with status 1 if either side broke a rule or a result was wrong.

mod arguments;
mod host;
mod known;
mod report;
mod route;
mod scripts;
mod show;
mod tools;

use std::{
    env,
    error::Error,
    ffi::OsString,
    fmt, mem,
    path::{Path, PathBuf},
    process::{Command as Build, ExitCode},
};

use mcp_driver::{Command, Disconnected};
use mcp_proto::{
    connection::ClientRole,
    protocol::{ProtocolVersion, VersionSet},
    schema::InitializeResult,
};
use mcp_service::{Host, Peer};

use self::{host::Heard, report::Report, route::Visit};

/// The settings of a tour: the server to connect to, and the host.
pub(crate) struct Tour {
    pub(crate) target: Target,
    pub(crate) host: Host,
    versions: VersionSet,
    heard: Heard,
    report: Report,
    /// The folder that the server may read.
    folder: PathBuf,
}

/// The server to connect to.
#[derive(Clone)]
pub(crate) enum Target {
    /// A server to start as a child process.
    Command(Command),
    /// A running server, over HTTP.
    Url(String),
}

impl Tour {
    /// Reads the command line.
    pub(crate) fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut args = env::args_os().skip(1).peekable();
        let versions = match args.next_if(|arg| arg == "--era") {
            Some(_) => versions(args.next())?,
            None => VersionSet::ALL,
        };
        let mut command = args.skip_while(|arg| arg == "--").collect::<Vec<_>>();
        if command.is_empty() {
            command.push(our_server()?.into());
        }
        let (program, args) = command.split_first().ok_or("there is a program")?;

        let mut report = Report::default();
        report.heading(&format!("tour of {}", Path::new(program).display()));
        let heard = Heard::default();
        let mut folders = host::folders(args)?;
        let host = host::host(&our_name("tour"), &heard, &folders, versions)?;
        let target = match program.to_str() {
            Some(url) if url.starts_with("http://") || url.starts_with("https://") => Target::Url(url.to_owned()),
            _ => Target::Command(Command::new(program).args(args)),
        };
        Ok(Self { target, host, versions, heard, report, folder: folders.swap_remove(0) })
    }

    /// Returns the error text if the connection failed.
    pub(crate) fn refused(&self, error: impl fmt::Display) -> String {
        let only_modern = self.versions.intersection(VersionSet::LEGACY).is_empty();
        let hint = "\nIt may be a server of the legacy era: --era auto finds out";
        format!("{error}{}", if only_modern { hint } else { "" })
    }

    /// Tries all features of a server.
    pub(crate) async fn visit(&mut self, client: &Peer<ClientRole>, server: &InitializeResult) {
        let (heard, report, folder) = (self.heard.clone(), mem::take(&mut self.report), self.folder.clone());
        let mut visit = Visit::new(client.clone(), server.clone(), heard, report, folder);
        visit.run().await;
        self.report = visit.report;
    }

    /// Prints the summary after the connection was closed. Returns whether there were no failures.
    pub(crate) fn sum_up(mut self, ending: &Disconnected) -> bool {
        self.report.ended(ending);
        self.report.summary(&self.heard)
    }
}

/// Returns the exit status of this program after a tour with or without failures, or an error before it.
pub(crate) fn exit(toured: Result<bool, Box<dyn Error>>) -> ExitCode {
    match toured {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}: {error}", our_name("tour"));
            ExitCode::FAILURE
        }
    }
}

/// Returns the name of an example of the same adapter.
fn our_name(example: &str) -> String {
    format!("{example}-{}", env!("CARGO_PKG_NAME").trim_start_matches("mcp-"))
}

/// Returns the revisions of an era.
fn versions(era: Option<OsString>) -> Result<VersionSet, String> {
    match era.as_ref().and_then(|era| era.to_str()) {
        Some("auto") => Ok(VersionSet::ALL),
        Some("modern") => Ok(VersionSet::since(ProtocolVersion::V2026_07_28)),
        Some("legacy") => Ok(VersionSet::LEGACY),
        _ => Err(format!("usage: {} [--era auto|modern|legacy] [--] [COMMAND ARGS...]", our_name("tour"))),
    }
}

/// Returns the path of the example `everything-…` of the same adapter, next to this one. Builds it if it does not
/// exist.
fn our_server() -> Result<PathBuf, Box<dyn Error>> {
    let name = our_name("everything");
    let path = env::current_exe()?.with_file_name(format!("{name}{}", env::consts::EXE_SUFFIX));
    if !path.exists() {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let mut build = Build::new(cargo);
        build.args(["build", "--quiet", "--manifest-path", manifest, "--example", &name]);
        // The profile and the target folder are in the path of this program: .../TARGET/PROFILE/examples/tour-….
        let folders: Vec<&Path> = path.ancestors().skip(2).take(2).collect();
        if let [profile, target] = folders[..] {
            let name = profile.file_name().and_then(|name| name.to_str()).unwrap_or("debug");
            build.args(["--profile", if name == "debug" { "dev" } else { name }]).arg("--target-dir").arg(target);
        }
        if !build.status()?.success() {
            return Err(format!("{name} cannot be built").into());
        }
    }
    Ok(path)
}
