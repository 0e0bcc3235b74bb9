//! Servers over HTTP on one processor and on more, by the program `cores`.

use std::{collections::BTreeMap, error::Error, path::Path, process::Command};

use crate::programs;

/// Thousands of calls per second by server and use of sessions, on each number of processors.
#[derive(Default)]
pub(crate) struct Processors {
    /// The table, and the lines above it.
    pub(crate) text: String,
    rows: BTreeMap<(String, String), Vec<f64>>,
}

impl Processors {
    /// Returns the rate on two processors, divided by that on one.
    pub(crate) fn gain(&self, server: &str, sessions: &str) -> f64 {
        match self.rows.get(&(server.to_owned(), sessions.to_owned())).map(Vec::as_slice) {
            Some([one, two, ..]) => two / one,
            _ => f64::NAN,
        }
    }

    fn parse(text: String) -> Self {
        let mut rows = BTreeMap::new();
        for line in text.lines().filter(|line| line.starts_with('|')) {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            if let [server, sessions, rates @ ..] = &cells[..]
                && let Ok(rates) = rates.iter().map(|rate| rate.parse()).collect::<Result<Vec<_>, _>>()
            {
                rows.insert(((*server).to_owned(), (*sessions).to_owned()), rates);
            }
        }
        Self { text, rows }
    }
}

/// Measures these servers, each a name with its program and arguments.
pub(crate) fn measure(servers: &[(&str, &Path, &str)]) -> Result<Processors, Box<dyn Error>> {
    let servers = servers.iter().map(|(name, program, args)| format!("{name}={} {args}", program.display()));
    let output = Command::new(programs::tool("cores")?).args(servers).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(Processors::parse(String::from_utf8(output.stdout)?))
}
