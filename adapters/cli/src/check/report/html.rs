//! The report as a page that has no script and loads nothing.

use super::{Report, WORDS, era_title, last};
use crate::{
    check::{era::Era, run::Finding},
    markup::escape,
    rules,
    text::one_line,
};

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1c1c1c;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
td{border-top:1px solid #ddd;padding:.35rem .6rem .35rem 0;vertical-align:top}td:first-child{white-space:nowrap}
code,pre{font:13px/1.4 ui-monospace,monospace}pre{background:#f5f5f5;padding:.6rem;overflow-x:auto;
white-space:pre-wrap;word-break:break-all}.passed{color:#1a7f37}.failed{color:#b3261e;font-weight:600}
.warning{color:#8a5a00}.not{color:#666}.why{color:#444}
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#181818}td{border-color:#3a3a3a}
pre{background:#242424}.passed{color:#6fcf87}.failed{color:#ff8a80}.warning{color:#e0b050}.not,.why{color:#aaa}}
";

/// Returns the page.
pub(in crate::check) fn html(report: &Report<'_>) -> String {
    let title = escape(&format!("mcp check: {}", report.subject));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
         http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri \
         'none'; form-action 'none'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{}\n<p>{}, revisions \
         {}</p>\n",
        badge(report),
        escape(&one_line(&report.identity)),
        escape(&one_line(&report.revisions.join(", "))),
    );
    let sums: Vec<_> = WORDS.iter().rev().map(|word| format!("{} {word}", report.count(word))).collect();
    page.push_str(&format!("<p>{}</p>\n", sums.join(", ")));
    for note in report.notes {
        page.push_str(&format!("<p class=\"not\">Not there: {}</p>\n", escape(note)));
    }
    for era in [Era::Modern, Era::Legacy] {
        let mut of_era: Vec<_> = report.findings.iter().filter(|finding| finding.check.era == era).collect();
        if of_era.iter().all(|finding| finding.word() == "not applicable") {
            continue;
        }
        // The worst first.
        of_era.sort_by_key(|finding| std::cmp::Reverse(WORDS.iter().position(|word| *word == finding.word())));
        page.push_str(&format!("<h2>{}</h2>\n<table>\n", era_title(era)));
        for finding in of_era {
            row(&mut page, finding);
        }
        page.push_str("</table>\n");
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn row(page: &mut String, finding: &Finding) {
    let (word, check) = (finding.word(), finding.check);
    let class = word.split(' ').next().unwrap_or_default();
    page.push_str(&format!(
        "<tr><td class=\"{class}\">{word}</td><td><code>{}</code> {}<br><span class=\"not\">{}</span>",
        check.id,
        escape(check.title),
        finding.rules().join(" "),
    ));
    if !finding.why().is_empty() {
        page.push_str(&format!("<br><span class=\"why\">{}</span>", escape(finding.why())));
    }
    if !finding.entries.is_empty() {
        page.push_str("<details><summary>Rules and bytes</summary>");
        for id in finding.rules() {
            page.push_str(&format!("<p><b>{id}</b> {}</p>", escape(rules::text(id))));
        }
        for entry in last(finding) {
            let mark = if entry.is_sent { "sent" } else { "received" };
            let lines: Vec<_> = entry.text.lines().map(escape).collect();
            page.push_str(&format!("<p class=\"not\">{mark}</p><pre>{}</pre>", lines.join("\n")));
        }
        page.push_str("</details>");
    }
    page.push_str("</td></tr>\n");
}

/// Returns a badge: it is an image of its own, to be copied out of the page.
fn badge(report: &Report<'_>) -> String {
    let (failed, warned) = (report.count("failed"), report.count("warning"));
    let (text, color) = match (failed, warned) {
        (0, 0) => (format!("{} passed", report.count("passed")), "#1a7f37"),
        (0, _) => (format!("{} passed, {warned} warnings", report.count("passed")), "#8a5a00"),
        _ => (format!("{failed} failed"), "#b3261e"),
    };
    let width = 70 + 20 + text.len() * 7;
    let middle = 70 + (width - 70) / 2;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"20\" role=\"img\" aria-label=\"mcp check: \
         {text}\"><rect width=\"70\" height=\"20\" fill=\"#444\"/><rect x=\"70\" width=\"{}\" height=\"20\" \
         fill=\"{color}\"/><g fill=\"#fff\" font-family=\"Verdana,sans-serif\" font-size=\"11\" \
         text-anchor=\"middle\"><text x=\"35\" y=\"14\">mcp check</text><text x=\"{middle}\" y=\"14\">{text}</text>\
         </g></svg>",
        width - 70,
    )
}
