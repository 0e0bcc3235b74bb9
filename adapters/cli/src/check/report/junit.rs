//! The report for systems that read JUnit.

use super::{Report, last};
use crate::{markup::escape, rules};

/// Returns the report as XML. Warnings are passed tests with an output.
pub(in crate::check) fn junit(report: &Report<'_>) -> String {
    let skipped = report.count("not applicable") + report.count("not reachable");
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"mcp check {}\" tests=\"{}\" \
         failures=\"{}\" errors=\"0\" skipped=\"{skipped}\">\n",
        escape(report.subject),
        report.findings.len(),
        report.count("failed"),
    );
    for finding in report.findings {
        let check = finding.check;
        let name = escape(&format!("{}: {}", check.id, check.title));
        xml.push_str(&format!("<testcase classname=\"mcp.{}\" name=\"{name}\">", check.era.name()));
        let why = escape(finding.why());
        match finding.word() {
            "failed" => xml.push_str(&format!("<failure message=\"{why}\">{}</failure>", details(finding))),
            "warning" => xml.push_str(&format!("<system-out>warning: {why}\n{}</system-out>", details(finding))),
            "passed" => {}
            _ => xml.push_str(&format!("<skipped message=\"{why}\"/>")),
        }
        xml.push_str("</testcase>\n");
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

/// Returns the rules and the bytes of a check.
fn details(finding: &super::Finding) -> String {
    let mut text = String::new();
    for id in finding.rules() {
        text.push_str(&format!("{id}: {}\n", escape(rules::text(id))));
    }
    for entry in last(finding) {
        let mark = if entry.is_sent { "&gt;" } else { "&lt;" };
        for line in entry.text.lines() {
            text.push_str(&format!("{mark} {}\n", escape(line)));
        }
    }
    text
}
