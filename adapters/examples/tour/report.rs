//! The output of a tour, and its counters.

use std::io::{self, IsTerminal, Write};

use mcp_driver::Disconnected;
use mcp_proto::connection::Progress;
use mcp_service::CallError;

use super::{host::Heard, show};

/// Characters of a progress bar.
const BAR: usize = 24;

/// Prints to standard output and counts the outcomes.
#[derive(Default)]
pub(crate) struct Report {
    calls: usize,
    refused: usize,
    skipped: usize,
    checks: usize,
    failures: Vec<String>,
    /// Whether a progress bar is on the line.
    drawn: bool,
}

impl Report {
    pub(crate) fn heading(&mut self, text: &str) {
        self.print(&format!("\n{text}"));
    }

    /// Prints a line with a name and a text.
    pub(crate) fn line(&mut self, name: &str, text: &str) {
        self.print(&show::line(name, text));
    }

    /// Prints what is not tried, and the reason.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        self.skipped += 1;
        self.line(name, &format!("- {why}"));
    }

    /// Prints progress: as a bar on a terminal, or else as lines.
    pub(crate) fn progress(&mut self, name: &str, progress: &Progress<'_>) {
        let Progress { progress, total, message } = progress;
        let message = message.as_deref().unwrap_or_default();
        let of = total.map(|total| format!("/{total}")).unwrap_or_default();
        let text = format!("{progress}{of} {message}");
        if !io::stdout().is_terminal() {
            return self.line(name, &format!("… {}", text.trim_end()));
        }
        let share = total.filter(|total| *total > 0.0).map_or(0.0, |total| (progress / total).clamp(0.0, 1.0));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the bar's length")]
        let full = (share * BAR as f64).round() as usize;
        let bar = format!("[{}{}] {}", "#".repeat(full), " ".repeat(BAR - full), text.trim_end());
        self.write(&format!("\r\x1b[K{}", show::line(name, &bar)));
        self.drawn = true;
    }

    /// Counts a request and prints its outcome. Errors that a server may return are not counted as failures.
    pub(crate) fn call<T>(
        &mut self,
        name: &str,
        result: Result<T, CallError>,
        text: impl FnOnce(&T) -> String,
    ) -> Option<T> {
        self.calls += 1;
        match result {
            Ok(value) => {
                self.line(name, &text(&value));
                return Some(value);
            }
            // Errors about the content of the message, and not about its form.
            Err(CallError::Rpc(error)) if !matches!(error.code.0, -32700 | -32600) => {
                self.refused += 1;
                self.line(name, &format!("refused: {error}"));
            }
            Err(error) => self.fail(name, &error.to_string()),
        }
        None
    }

    /// Counts a check.
    pub(crate) fn check(&mut self, name: &str, result: Result<(), String>) {
        self.checks += 1;
        if let Err(why) = result {
            self.fail(name, &why);
        }
    }

    pub(crate) fn fail(&mut self, name: &str, why: &str) {
        self.line(name, &format!("FAILED: {why}"));
        self.failures.push(format!("{name}: {why}"));
    }

    /// Prints how the connection ended after it was closed.
    pub(crate) fn ended(&mut self, ending: &Disconnected) {
        self.heading("end");
        self.line("connection", &ending.reason.to_string());
        if let Some(exit) = &ending.exit {
            self.line("server", &exit.status.map_or_else(|| "left no status".to_owned(), |status| status.to_string()));
        }
        if !ending.reason.is_clean() {
            self.fail("connection", &ending.to_string());
        }
    }

    /// Prints the summary. Returns whether there were no failures.
    pub(crate) fn summary(&mut self, heard: &Heard) -> bool {
        let counts = heard.read(Clone::clone);
        self.heading("summary");
        let Self { calls, refused, skipped, checks, .. } = self;
        let line = format!("{calls} requests ({refused} refused), {skipped} tools not tried, {checks} checks");
        self.line("this client", &line);
        self.line("requests of the server", &counts.server_requests());
        self.line("notifications of the server", &counts.news());
        let faults = counts.faults.iter().map(|fault| format!("violation: {fault}"));
        let failures: Vec<String> = std::mem::take(&mut self.failures).into_iter().chain(faults).collect();
        for failure in &failures {
            self.print(&format!("  FAILED {failure}"));
        }
        self.print(if failures.is_empty() { "\nok: no violations" } else { "\nFAILED" });
        failures.is_empty()
    }

    fn print(&mut self, text: &str) {
        let start = if std::mem::take(&mut self.drawn) { "\r\x1b[K" } else { "" };
        self.write(&format!("{start}{text}\n"));
    }

    fn write(&self, text: &str) {
        // A closed output is not an error.
        let mut out = io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}
