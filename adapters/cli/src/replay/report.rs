//! Prints what happened in a record, as text or as JSON lines.

use std::{
    collections::HashMap,
    io::{self, BufWriter, Stdout, Write},
};

use serde_json::{Value, json};

use super::{
    Totals,
    finding::Finding,
    judge::Step,
    player::{PlayedMessage, Scope, Unanswered},
};
use crate::{
    error::Failed,
    messages::Call,
    record::{Header, Origin, What},
    show::{printable, without_controls},
    text::is_break_or_direction,
};

/// The output of a replay.
#[derive(Debug)]
pub(super) struct Report {
    out: BufWriter<Stdout>,
    json: bool,
    /// The state of both sides of a session after its last message.
    known: HashMap<Option<u32>, [String; 2]>,
}

/// Returns a text of a record on one line, with its characters in their order.
fn plain(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ").replace(is_break_or_direction, "\u{fffd}")
}

fn millis(at: u64) -> String {
    format!("{}.{:03}", at / 1_000, at % 1_000)
}

impl Report {
    pub(super) fn new(json: bool, header: &Header) -> Result<Self, Failed> {
        let mut report = Self { out: BufWriter::new(io::stdout()), json, known: HashMap::new() };
        let Header { started, transport, server, .. } = header;
        if !json {
            let text = format!("{} over {}, {}", plain(server), plain(transport), plain(started));
            report.text(&text)?;
        }
        Ok(report)
    }

    fn text(&mut self, text: &str) -> Result<(), Failed> {
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Prints a line of JSON, without the control characters that JSON allows.
    fn json(&mut self, line: &Value) -> Result<(), Failed> {
        self.text(&without_controls(&line.to_string()))
    }

    pub(super) fn message(&mut self, message: &PlayedMessage) -> Result<(), Failed> {
        let PlayedMessage { line, judged, scope, known, flying } = message;
        if self.json {
            for step in &judged.steps {
                let mut line = json!({"t": line.at, "from": line.from.name(), "bytes": line.bytes.len(), "kind": step.kind,
                    "id": step.id.as_deref().and_then(|id| serde_json::from_str::<Value>(id).ok()),
                    "method": step.method, "subject": step.subject, "took": step.took, "error": step.error,
                    "note": step.note, "broken": judged.findings.iter().map(of_finding).collect::<Vec<_>>(),
                    "client": known[0], "server": known[1],
                    "in_flight": {"client": flying.0, "server": flying.1}});
                add_scope(&mut line, *scope);
                self.json(&line)?;
            }
            return Ok(());
        }
        for step in &judged.steps {
            let arrow = match line.from {
                Origin::Client => "client ->",
                Origin::Server => "       <- server",
            };
            let (bytes, place) = (line.bytes.len(), place(*scope));
            let text = format!("{:>12}  {arrow:<16}  {}, {bytes} bytes{place}", millis(line.at), describe(step));
            self.text(&text)?;
            if step.kind == "invalid" {
                let start: String = String::from_utf8_lossy(&line.bytes).chars().take(100).collect();
                self.text(&format!("{:14}{}", "", plain(&start)))?;
            }
        }
        self.findings(&judged.findings)?;
        // Exchanges without a session know what each of them says.
        if scope.exchange.is_some() && scope.session.is_none() {
            return Ok(());
        }
        let old = self.known.insert(scope.session, known.clone()).unwrap_or_default();
        for (side, (new, old)) in ["client", "server"].iter().zip(known.iter().zip(old)) {
            if *new != old {
                self.text(&format!("{:14}the {side} knows: {}", "", plain(new)))?;
            }
        }
        Ok(())
    }

    fn findings(&mut self, findings: &[Finding]) -> Result<(), Failed> {
        for finding in findings {
            let rule = finding.rule.map(|rule| format!(" {rule}")).unwrap_or_default();
            self.text(&format!("{:14}BROKEN by the {}:{rule} {}", "", finding.by.name(), plain(&finding.what)))?;
            if !finding.text().is_empty() {
                self.text(&format!("{:14}  {}", "", finding.text()))?;
            }
        }
        Ok(())
    }

    /// Prints something about an exchange that is no message.
    pub(super) fn exchange(
        &mut self,
        at: u64,
        from: Origin,
        scope: Scope,
        text: &str,
        findings: &[Finding],
    ) -> Result<(), Failed> {
        if self.json {
            let broken: Vec<_> = findings.iter().map(of_finding).collect();
            let mut line = json!({"t": at, "from": from.name(), "kind": "http", "text": text, "broken": broken});
            add_scope(&mut line, scope);
            return self.json(&line);
        }
        let arrow = match from {
            Origin::Client => "client ->",
            Origin::Server => "       <- server",
        };
        self.text(&format!("{:>12}  {arrow:<16}  {}{}", millis(at), plain(text), place(scope)))?;
        self.findings(findings)
    }

    pub(super) fn log(&mut self, at: u64, text: &str) -> Result<(), Failed> {
        if self.json {
            return self.json(&json!({"t": at, "from": "server", "kind": "log", "text": text}));
        }
        self.text(&format!("{:>12}  {:<16}  log: {}", millis(at), "       <- server", plain(text)))
    }

    pub(super) fn event(&mut self, at: u64, what: &What) -> Result<(), Failed> {
        let Some(text) = event_text(what) else { return Ok(()) };
        if self.json {
            return self.json(&json!({"t": at, "kind": "event", "text": text}));
        }
        self.text(&format!("{:>12}  {text}", millis(at)))
    }

    pub(super) fn end(
        &mut self,
        open: &[Unanswered],
        totals: &Totals,
        why: &str,
        is_cut: bool,
        not_judged: u64,
    ) -> Result<(), Failed> {
        if self.json {
            let open: Vec<_> = open
                .iter()
                .map(|Unanswered { from, id, call, scope, why: own }| {
                    let why = own.as_deref().unwrap_or(why);
                    let mut line = json!({"t": call.at, "from": from.name(), "method": call.method,
                        "subject": call.subject, "id": serde_json::from_str::<Value>(id.as_json()).ok(),
                        "why": reason(call, why)});
                    add_scope(&mut line, *scope);
                    line
                })
                .collect();
            let rules: Vec<_> = totals
                .rules
                .iter()
                .map(|((by, rule), count)| json!({"by": by.name(), "rule": rule, "count": count}))
                .collect();
            let mut end = json!({"kind": "end", "why": why, "messages": totals.kinds, "broken": rules, "open": open,
                "cut": is_cut});
            if not_judged > 0 {
                end["not_judged"] = not_judged.into();
            }
            self.json(&end)?;
            return Ok(self.out.flush()?);
        }
        if is_cut {
            self.text("the last line of the record is incomplete: its bytes were not forwarded")?;
        }
        if !open.is_empty() {
            self.text("")?;
            self.text("Requests without a response:")?;
        }
        for Unanswered { from, id, call, scope, why: own } in open {
            let why = own.as_deref().unwrap_or(why);
            let subject = call.subject.as_deref().map(|it| format!(" {}", plain(it))).unwrap_or_default();
            let text = format!(
                "{:>12}  {} {}{subject} of the {}: {}{}",
                millis(call.at),
                plain(&call.method),
                plain(id.as_json()),
                from.name(),
                reason(call, &plain(why)),
                place(*scope)
            );
            self.text(&text)?;
        }
        self.text("")?;
        let kinds: Vec<_> = totals.kinds.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
        self.text(&if kinds.is_empty() { "The record has no messages.".to_owned() } else { kinds.join(", ") })?;
        match totals.broken {
            0 => self.text("No rule was broken.")?,
            count => self.text(&format!("Broken rules: {count}"))?,
        }
        if not_judged > 0 {
            let why = "their handshake is not in the record, several clients cannot be told apart, or the server did not \
                       accept them";
            self.text(&format!("Not judged: {not_judged} messages, because {why}"))?;
        }
        for ((by, rule), count) in &totals.rules {
            let rule = if rule.is_empty() { "without a row in the requirement tables" } else { rule };
            self.text(&format!("  {count} by the {}: {rule}", by.name()))?;
        }
        Ok(self.out.flush()?)
    }
}

/// Returns where a message belongs, for the end of a line.
fn place(scope: Scope) -> String {
    place_text(scope.session, scope.exchange).map(|text| format!(", {text}")).unwrap_or_default()
}

/// Names a session and an exchange, if there is one.
pub(crate) fn place_text(session: Option<u32>, exchange: Option<u64>) -> Option<String> {
    match (session, exchange) {
        (None, None) => None,
        (Some(session), None) => Some(format!("session {session}")),
        (None, Some(exchange)) => Some(format!("exchange {exchange}")),
        (Some(session), Some(exchange)) => Some(format!("session {session}, exchange {exchange}")),
    }
}

fn add_scope(line: &mut Value, scope: Scope) {
    if let Some(session) = scope.session {
        line["session"] = session.into();
    }
    if let Some(exchange) = scope.exchange {
        line["exchange"] = exchange.into();
    }
}

/// Returns why a request has no response.
fn reason(call: &Call, end: &str) -> String {
    match &*call.method {
        _ if call.cancelled => "it was cancelled, so it needs none".into(),
        _ if call.is_lost => "its response is compressed, too long, or not in the record".into(),
        "subscriptions/listen" => format!("the subscription was open until the end; {end}"),
        _ => format!("no response was written before the end; {end}"),
    }
}

/// Describes an event of a record that is no message.
pub(crate) fn event_text(what: &What) -> Option<String> {
    match what {
        What::End { from, stream } => Some(format!("the {} closed {}", from.name(), plain(stream))),
        What::Exit(code) => Some(format!("the server ended with the exit code {code}")),
        What::Signal(signal) => Some(format!("the server was ended by the signal {signal}")),
        What::Stopped(why) => Some(format!("the recording stopped: {}", plain(why))),
        What::Bytes { .. } | What::Http(_) => None,
    }
}

/// Describes a message.
pub(crate) fn describe(step: &Step) -> String {
    let method = plain(step.method.as_deref().unwrap_or_default());
    let subject = step.subject.as_deref().map(|it| format!(" {}", plain(it))).unwrap_or_default();
    let id = step.id.as_deref().map(plain).unwrap_or_default();
    let took = step.took.map(|took| format!(" after {} ms", millis(took))).unwrap_or_default();
    let error = step.error.as_deref().map(|it| format!(" ({})", plain(it))).unwrap_or_default();
    let note = step.note.map(|note| format!(" ({note})")).unwrap_or_default();
    match step.kind {
        "request" => format!("request {id}: {method}{subject}{note}"),
        "notification" => format!("{method}{note}"),
        "invalid" => "no message".into(),
        kind if method.is_empty() => format!("{kind} {id}{error}{note}"),
        kind => format!("{kind} {id} of {method}{subject}{took}{error}{note}"),
    }
}

fn of_finding(finding: &Finding) -> Value {
    json!({"by": finding.by.name(), "rule": finding.rule, "text": finding.text(), "what": finding.what})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_record_stay_in_their_line_and_in_their_order() {
        assert_eq!(plain("a\u{9b}\nb\u{202e}c\u{2028}d"), "a b\u{fffd}c\u{fffd}d");
    }
}
