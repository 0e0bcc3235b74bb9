//! The bytes of a check, and broken rules that any message may show.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use crate::check::{era::Era, outcome::Rules, secrets::Secrets};

/// The most entries of a check that are kept, and the most characters of each.
const ENTRIES: usize = 40;
const CHARACTERS: usize = 4000;

/// Bytes that were sent or received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check) struct Entry {
    pub(in crate::check) is_sent: bool,
    pub(in crate::check) text: String,
}

#[derive(Debug, Default)]
pub(in crate::check) struct Observed {
    entries: Vec<Entry>,
    left_out: usize,
    /// The first message that shows each broken rule, by the id of the check or of the rule.
    noticed: BTreeMap<&'static str, String>,
    /// The ids of events of the session.
    event_ids: HashSet<String>,
    /// Whether responses to malformed messages may have any id.
    pub(super) is_lenient: bool,
    /// Masked in all texts that are kept.
    pub(in crate::check) secrets: Secrets,
}

impl Observed {
    pub(in crate::check) fn begin(&mut self) {
        self.entries.clear();
        self.left_out = 0;
        self.is_lenient = false;
    }

    pub(in crate::check) fn end(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }

    pub(in crate::check) fn add(&mut self, is_sent: bool, text: &str) {
        if self.entries.len() == ENTRIES {
            // The last ones show the failure.
            self.entries.remove(1);
            self.left_out += 1;
        }
        self.entries.push(Entry { is_sent, text: masked(&self.secrets, text) });
    }

    /// Returns how many entries the check has had.
    pub(super) fn count(&self) -> usize {
        self.entries.len() + self.left_out
    }

    /// Returns the entries after the first ones, as far as they are kept.
    pub(super) fn since(&self, count: usize) -> Vec<Entry> {
        let from = if self.left_out == 0 { count } else { count.saturating_sub(self.left_out).max(1) };
        self.entries.get(from..).unwrap_or_default().to_vec()
    }

    /// Adds the entries of an earlier check whose result is used again.
    pub(super) fn add_again(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.add(entry.is_sent, &entry.text);
        }
    }

    pub(in crate::check) fn notice(&mut self, check: &'static str, text: &str) {
        let secrets = &self.secrets;
        self.noticed.entry(check).or_insert_with(|| masked(secrets, text));
    }

    /// Forgets the ids of events: they are unique within a session.
    pub(super) fn new_session(&mut self) {
        self.event_ids.clear();
    }

    pub(super) fn event_id(&mut self, id: &str) {
        if id.len() <= CHARACTERS && self.event_ids.len() < ENTRIES * 1000 && !self.event_ids.insert(id.to_owned()) {
            self.notice("event-ids", id);
        }
    }

    pub(in crate::check) fn noticed(&self, check: &str) -> Option<&str> {
        self.noticed.get(check).map(String::as_str)
    }

    /// Returns the broken ones of some rules, and the messages that show them, if there are any.
    pub(in crate::check) fn broken(&self, rules: Rules) -> Option<(Vec<&'static str>, String)> {
        let broken: Vec<_> = rules.iter().copied().filter(|rule| self.noticed.contains_key(rule)).collect();
        let mut texts: Vec<&str> = Vec::new();
        for text in broken.iter().filter_map(|rule| self.noticed(rule)) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        (!broken.is_empty()).then(|| (broken, texts.join(", and: ")))
    }

    /// Judges the shape of a message of the server. Returns whether it is a message.
    pub(super) fn judge(&mut self, message: &Value, era: Era, text: &str) -> bool {
        let legacy = era == Era::Legacy;
        let name = |old: &'static str, new: &'static str| if legacy { old } else { new };
        let Some(object) = message.as_object() else {
            self.notice(name("stdout-messages", "modern-stdout-messages"), text);
            return false;
        };
        if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            self.notice(name("jsonrpc-member", "modern-jsonrpc-member"), text);
        }
        if object.contains_key("method") {
            if !legacy && object.contains_key("id") {
                self.notice("modern-no-requests", text);
            }
            return true;
        }
        match (object.get("result"), object.get("error")) {
            (Some(result), None) => {
                // A server may take `initialize` for a handshake of sessions, whatever its metadata are.
                let is_handshake = result["protocolVersion"].is_string();
                if !result.is_object() {
                    self.notice(name("result-object", "modern-result-object"), text);
                } else if !legacy && !is_handshake && !result["resultType"].is_string() {
                    self.notice("modern-result-type", text);
                }
            }
            (None, Some(error)) => {
                let code = error.get("code").is_some_and(|code| code.is_i64() || code.is_u64());
                if !code || !error.get("message").is_some_and(Value::is_string) {
                    self.notice(name("error-object", "modern-error-object"), text);
                }
                if !legacy {
                    for rule in reserved(error["code"].as_i64().unwrap_or_default()) {
                        self.notice(rule, text);
                    }
                }
            }
            _ => self.notice(name("result-or-error", "modern-result-object"), text),
        }
        true
    }
}

/// Returns the rules of 2026-07-28 that forbid an error code.
fn reserved(code: i64) -> Rules {
    match code {
        -32002 => &["M-BASE-036"],
        -32042 => &["M-BASE-034", "M-BASE-037"],
        -32022..=-32020 => &[],
        -32099..=-32020 => &["M-BASE-034"],
        _ => &[],
    }
}

/// Cuts a long text.
pub(in crate::check) fn shorten(text: &str) -> String {
    cut(text, text.len())
}

/// Masks and cuts a text, which may have many megabytes. Only what is kept of it is looked at.
fn masked(secrets: &Secrets, text: &str) -> String {
    cut(&secrets.mask_beginning(text, CHARACTERS + 1), text.len())
}

/// Cuts the beginning of a text that has this many bytes.
fn cut(text: &str, bytes: usize) -> String {
    match text.char_indices().nth(CHARACTERS) {
        Some((at, _)) => format!("{} [... {bytes} bytes]", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn long_texts_are_cut_and_masked() {
        let mut observed = Observed::default();
        observed.secrets.add("X-Key", "canary-of-a-server");
        // A secret at each place around the end of what is kept.
        for before in CHARACTERS - 30..CHARACTERS + 5 {
            let text = format!("canary-of-a-server{}canary-of-a-server{}", "ä".repeat(before), "b".repeat(50));
            observed.add(false, &text);
            let entry = observed.entries.pop().expect("an entry").text;
            let whole: String = observed.secrets.mask(&text).chars().take(CHARACTERS).collect();
            assert_eq!(entry, format!("{whole} [... {} bytes]", text.len()));
            assert!(!entry.contains("can"), "{before}");
        }
        observed.add(false, "canary-of-a-server");
        assert_eq!(observed.entries[0].text, "***");
    }

    #[test]
    fn codes_of_long_messages_break_their_rules() {
        let all: Rules = &["M-BASE-034", "M-BASE-036", "M-BASE-037"];
        let rows: [(i64, Rules); 6] = [
            (-32602, &[]),
            (-32020, &[]),
            (-32002, &["M-BASE-036"]),
            (-32042, &["M-BASE-034", "M-BASE-037"]),
            (-32023, &["M-BASE-034"]),
            (-32099, &["M-BASE-034"]),
        ];
        for (code, rules) in rows {
            let error = serde_json::json!({"data": "a".repeat(2 * CHARACTERS), "code": code, "message": "no"});
            let message = serde_json::json!({"jsonrpc": "2.0", "id": 1, "error": error});
            let mut observed = Observed::default();
            assert!(observed.judge(&message, Era::Modern, &message.to_string()));
            assert_eq!(observed.broken(all).map(|(broken, _)| broken).unwrap_or_default(), rules, "{code}");
        }
    }

    #[test]
    fn each_broken_rule_is_named_and_each_message_shown_once() {
        let mut observed = Observed::default();
        for (rule, text) in [("BASE-006", "one"), ("BASE-004", "two"), ("BASE-003", "two"), ("BASE-004", "three")] {
            observed.notice(rule, text);
        }
        let rules: Rules = &["BASE-003", "BASE-004", "BASE-005", "BASE-006"];
        let broken = vec!["BASE-003", "BASE-004", "BASE-006"];
        assert_eq!(observed.broken(rules), Some((broken, "two, and: one".to_owned())));
        assert_eq!(observed.broken(&["BASE-005"]), None);
    }

    #[test]
    fn entries_are_found_where_others_were_left_out() {
        let mut observed = Observed::default();
        for number in 0..2 * ENTRIES {
            let count = observed.count();
            observed.add(false, &number.to_string());
            assert_eq!(observed.since(count), [Entry { is_sent: false, text: number.to_string() }], "{number}");
            assert_eq!(observed.since(count + 1), []);
        }
        let last: Vec<_> = observed.since(0).into_iter().map(|entry| entry.text).collect();
        let (first, next) = ((ENTRIES + 1).to_string(), (2 * ENTRIES - 1).to_string());
        assert_eq!((last.len(), &last[0], last.last()), (ENTRIES - 1, &first, Some(&next)));
    }

    #[test]
    fn what_is_cut_off_takes_no_time() {
        let mut observed = Observed::default();
        (0..10).for_each(|number| observed.secrets.add("X-Key", &format!("canary-of-a-server-{number}")));
        let text = "\\".repeat(32 << 20);
        let began = Instant::now();
        observed.add(false, &text);
        observed.notice("jsonrpc-member", &text);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        assert!(observed.entries[0].text.ends_with("\\ [... 33554432 bytes]"));
    }
}
