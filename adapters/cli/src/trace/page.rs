//! The page: one file of HTML that loads nothing. The record is a block of JSON in it, which the script reads.

use std::io::{self, Write};

use serde_json::json;

use super::model::{Message, Trace};
use crate::{markup::escape, record::Origin};

const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// The SHA-256 of the script in base64. The policy of the page allows no other script.
const SCRIPT_HASH: &str = "RYj6pjB/FiuyOaB1TZyIvleAl2mckW9dq4VZqJJoDPc=";

/// Returns JSON that can stand in an element `script`: nothing in it ends the element or begins a comment.
fn in_script(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Returns the row of a message. `page.js` names the columns.
fn row(message: &Message) -> String {
    let from = u8::from(message.from == Origin::Server);
    let pair = message.pair.and_then(|pair| i64::try_from(pair).ok()).unwrap_or(-1);
    let Message { at, kind, name, id, bytes, broken, text, .. } = message;
    json!([at, from, *kind as u8, name, id, pair, bytes, broken, text]).to_string()
}

/// Writes the page.
pub(super) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let header = &trace.header;
    let title = escape(&format!("{} over {}", header.server, header.transport));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{SCRIPT_HASH}'; style-src 'unsafe-inline'; base-uri 'none'; \
         form-action 'none'"
    );
    let broken: usize = trace.messages.iter().map(|message| message.broken.len()).sum();
    let length = trace.messages.last().map_or(0, |message| message.at) / 1_000;
    let about = format!(
        "{}, {length} ms, {} messages{}, at most {} requests in flight, {broken} broken rules{}",
        escape(&header.started),
        trace.messages.len(),
        if trace.left_out > 0 { format!(" and {} more that are left out", trace.left_out) } else { String::new() },
        trace.most_in_flight(),
        if header.masked { ", secrets masked" } else { "" },
    );
    write!(
        out,
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
{STYLE}</style>
</head>
<body>
<header><h1>{title}</h1><p>{about}</p></header>
<canvas id="overview" title="Messages over time: drag to zoom, scroll to zoom"></canvas>
<nav>
<input id="filter" type="search" placeholder="method, id, text, error" aria-label="Filter">
<label><input id="fold" type="checkbox"> fold repeats</label>
<button id="in">Zoom in</button><button id="out">Zoom out</button><button id="all">Whole record</button>
<button id="problems">Next problem</button>
<span id="shown"></span>
</nav>
<details open><summary>Statistics</summary><div id="statistics"></div></details>
<main>
<div id="sequence">
<div id="names"><span id="client">client</span><span id="server">server</span></div>
<div id="rows"><div id="spacer"></div><svg id="diagram" xmlns="http://www.w3.org/2000/svg"></svg></div>
</div>
<aside id="details" hidden></aside>
</main>
<noscript><p>This page needs its script. `mcp trace` also writes images (.svg), which need none.</p></noscript>
<script type="application/json" id="data">{{"names":{},"messages":["#,
        in_script(&json!(trace.names).to_string()),
    )?;
    for (number, message) in trace.messages.iter().enumerate() {
        out.write_all(if number == 0 { b"\n" } else { b",\n" })?;
        out.write_all(in_script(&row(message)).as_bytes())?;
    }
    write!(out, "\n]}}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_allows_the_script() {
        let hash = ring::digest::digest(&ring::digest::SHA256, SCRIPT.as_bytes());
        assert_eq!(mcp_proto::schema::encode_base64(hash.as_ref()), SCRIPT_HASH);
        assert!(!SCRIPT.contains("</script") && !SCRIPT.contains("<!--") && !STYLE.contains("</style"));
        for word in ["innerHTML", "outerHTML", "insertAdjacent", "eval(", "http:", "https:"] {
            assert!(!SCRIPT.replace("http://www.w3.org/2000/svg", "").contains(word), "{word}");
        }
    }

    #[test]
    fn texts_stay_texts() {
        assert_eq!(escape("<a href=\"x\">&'\u{0}\u{1b}\n"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\u{fffd}\u{fffd} ");
        let json = json!("</script><!-- \u{2028}&").to_string();
        let escaped = in_script(&json);
        assert!(!escaped.contains(['<', '>', '&', '\u{2028}']));
        assert_eq!(serde_json::from_str::<String>(&escaped).expect("JSON"), "</script><!-- \u{2028}&");
    }
}
