//! The server under attack: a process.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::Outcome;

/// A running server. It is killed when it is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

/// Returns the path of an example that was built with the same profile as this program.
pub(crate) fn example(name: &str) -> Outcome<PathBuf> {
    let path = env::current_exe()?.with_file_name("examples").join(name);
    if !path.exists() {
        return Err(format!("no {}: build the example first", path.display()).into());
    }
    Ok(path)
}

impl Server {
    /// Starts `everything-ADAPTER` on a free port.
    pub(crate) fn start(adapter: &str) -> Outcome<Self> {
        let program = example(&format!("everything-{adapter}"))?;
        let mut child = Command::new(program).args(["--http", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn()?;
        let mut first = String::new();
        let mut lines = BufReader::new(child.stderr.take().ok_or("no standard error")?);
        lines.read_line(&mut first)?;
        let address = first.trim().strip_prefix("at http://").and_then(|rest| rest.strip_suffix("/mcp"));
        let address = address.ok_or_else(|| format!("not an address: {first}"))?.parse()?;
        Ok(Self { child, address })
    }

    /// Returns the peak of the resident memory in MiB.
    pub(crate) fn peak(&self) -> Outcome<u64> {
        peak(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the peak of the resident memory of a process in MiB.
pub(crate) fn peak(process: u32) -> Outcome<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    Ok(peak.ok_or("no peak of memory")?.parse::<u64>()? >> 10)
}
