//! A client that connects to any server over stdio and tries all that it has.
//!
//! ```sh
//! cargo run --example tour-blocking                       # tours our own server, everything-blocking
//! cargo run --example tour-blocking -- COMMAND ARGS...    # tours another one
//! tour-blocking --era auto|modern|legacy -- COMMAND ...   # speaks what the server speaks (default), or one era only
//! ```
//!
//! It lists what there is, calls the tools that look safe, reads, subscribes or listens, completes, sets the log level
//! and pings, as far as the era has it; it answers what the server asks back. Of some well-known servers it knows what has to come out, and checks it. It
//! ends with a summary, and with status 1 if either side broke a rule or something came out wrong.

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
    path::{Path, PathBuf},
    process::{Command as Build, ExitCode},
};

use mcp_blocking::{Client, Command, shutdown_on_signals};
use mcp_proto::protocol::{ProtocolVersion, VersionSet};

use self::{host::Heard, report::Report, route::Tour};

/// The server that is toured if no other one is named.
const OURS: &str = "everything-blocking";

pub(crate) fn main() -> ExitCode {
    match tour() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tour-blocking: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all went well.
fn tour() -> Result<bool, Box<dyn Error>> {
    // Ctrl-C must not leave a server behind.
    shutdown_on_signals()?;
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
    let host = host::host(&heard, &folders, versions)?;
    let client = Client::spawn(Command::new(program).args(args), &host).map_err(|error| {
        let only_modern = versions.intersection(VersionSet::LEGACY).is_empty();
        format!(
            "{error}{}",
            if only_modern { "\nIt may be a server of the legacy era: --era auto finds out" } else { "" }
        )
    })?;
    let mut tour = Tour::new(client, heard, report, folders.swap_remove(0));
    tour.run();
    let Tour { client, heard, mut report, .. } = tour;
    report.ended(&client.close());
    Ok(report.summary(&heard))
}

/// The revisions of an era.
fn versions(era: Option<OsString>) -> Result<VersionSet, &'static str> {
    match era.as_ref().and_then(|era| era.to_str()) {
        Some("auto") => Ok(VersionSet::ALL),
        Some("modern") => Ok(VersionSet::since(ProtocolVersion::V2026_07_28)),
        Some("legacy") => Ok(VersionSet::LEGACY),
        _ => Err("usage: tour-blocking [--era auto|modern|legacy] [--] [COMMAND ARGS...]"),
    }
}

/// The example `everything-blocking`: beside this one, and built if it is not there.
fn our_server() -> Result<PathBuf, Box<dyn Error>> {
    let path = env::current_exe()?.with_file_name(format!("{OURS}{}", env::consts::EXE_SUFFIX));
    if !path.exists() {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let mut build = Build::new(cargo);
        build.args(["build", "--quiet", "--manifest-path", manifest, "--example", OURS]);
        // This program says which profile and folder it was built in: .../TARGET/PROFILE/examples/tour-blocking.
        let folders: Vec<&Path> = path.ancestors().skip(2).take(2).collect();
        if let [profile, target] = folders[..] {
            let name = profile.file_name().and_then(|name| name.to_str()).unwrap_or("debug");
            build.args(["--profile", if name == "debug" { "dev" } else { name }]).arg("--target-dir").arg(target);
        }
        if !build.status()?.success() {
            return Err(format!("{OURS} cannot be built").into());
        }
    }
    Ok(path)
}
