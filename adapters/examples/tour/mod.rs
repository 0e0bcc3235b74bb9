//! A client that connects to any server over stdio, or over HTTP, and tries all that it has, on any adapter.
//!
//! ```sh
//! cargo run --example tour-blocking                       # tours our own server, everything-blocking
//! cargo run --example tour-blocking -- COMMAND ARGS...    # tours another one
//! tour-blocking http://127.0.0.1:8000/mcp                 # tours one that is there
//! tour-blocking --era auto|modern|legacy -- COMMAND ...   # speaks what the server speaks (default), or one era only
//! ```
//!
//! It lists what there is, calls the tools that look safe, reads, subscribes or listens, completes, sets the log level
//! and pings, as far as the era has it; it answers what the server asks back. Of some well-known servers it knows what
//! has to come out, and checks it. It ends with a summary, and with status 1 if either side broke a rule or something
//! came out wrong.

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

/// What a tour needs: whom to visit, and who is to talk to it.
pub(crate) struct Tour {
    pub(crate) target: Target,
    pub(crate) host: Host,
    versions: VersionSet,
    heard: Heard,
    report: Report,
    /// The folder that the server may look at.
    folder: PathBuf,
}

/// Whom to visit.
#[derive(Clone)]
pub(crate) enum Target {
    /// A server to be started.
    Command(Command),
    /// One that is there, over HTTP.
    Url(String),
}

impl Tour {
    /// The tour that the command line asks for.
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

    /// What to say if the server cannot be talked to.
    pub(crate) fn refused(&self, error: impl fmt::Display) -> String {
        let only_modern = self.versions.intersection(VersionSet::LEGACY).is_empty();
        let hint = "\nIt may be a server of the legacy era: --era auto finds out";
        format!("{error}{}", if only_modern { hint } else { "" })
    }

    /// Tries all that a server has.
    pub(crate) async fn visit(&mut self, client: &Peer<ClientRole>, server: &InitializeResult) {
        let (heard, report, folder) = (self.heard.clone(), mem::take(&mut self.report), self.folder.clone());
        let mut visit = Visit::new(client.clone(), server.clone(), heard, report, folder);
        visit.run().await;
        self.report = visit.report;
    }

    /// Says how it went, once the connection was closed. Whether all went well.
    pub(crate) fn sum_up(mut self, ending: &Disconnected) -> bool {
        self.report.ended(ending);
        self.report.summary(&self.heard)
    }
}

/// How this program ends after a tour that went well, or not, or could not be begun.
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

/// The example of this name on the adapter that this one is on.
fn our_name(example: &str) -> String {
    format!("{example}-{}", env!("CARGO_PKG_NAME").trim_start_matches("mcp-"))
}

/// The revisions of an era.
fn versions(era: Option<OsString>) -> Result<VersionSet, String> {
    match era.as_ref().and_then(|era| era.to_str()) {
        Some("auto") => Ok(VersionSet::ALL),
        Some("modern") => Ok(VersionSet::since(ProtocolVersion::V2026_07_28)),
        Some("legacy") => Ok(VersionSet::LEGACY),
        _ => Err(format!("usage: {} [--era auto|modern|legacy] [--] [COMMAND ARGS...]", our_name("tour"))),
    }
}

/// The example `everything-…` of the same adapter: beside this one, and built if it is not there.
fn our_server() -> Result<PathBuf, Box<dyn Error>> {
    let name = our_name("everything");
    let path = env::current_exe()?.with_file_name(format!("{name}{}", env::consts::EXE_SUFFIX));
    if !path.exists() {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let mut build = Build::new(cargo);
        build.args(["build", "--quiet", "--manifest-path", manifest, "--example", &name]);
        // This program says which profile and folder it was built in: .../TARGET/PROFILE/examples/tour-….
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
