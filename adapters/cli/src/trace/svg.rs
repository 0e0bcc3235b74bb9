//! The image: a sequence diagram with a histogram of latencies, without a script.

use std::io::{self, Write};

use super::model::{Kind, Message, Trace};
use crate::{markup::escape, record::Origin};

/// The most rows. Longer records are folded until they fit.
const MAX_ROWS: usize = 1_000;

/// The smallest number of messages with one name that are folded to one row.
const MIN_FOLD: usize = 4;

const WIDTH: usize = 1_000;
const ROW: usize = 26;
const CLIENT: usize = 130;
const SERVER: usize = 830;
const TOP: usize = 210;

/// The most bins of the histogram.
const MAX_BINS: usize = 26;

/// The longest label.
const LABEL: usize = 100;

const STYLE: &str = "text{font:12px sans-serif;fill:#1d2430}.s{font-size:11px;fill:#667085}.b{fill:#d92d20}\
    .l{stroke:#d5dbe5;stroke-width:2}.q{stroke:#2563eb}.r{stroke:#0f8a5f;stroke-dasharray:5 3}.n{stroke:#667085}\
    .e{stroke:#d92d20}path{fill:none;stroke-width:1.4}.f{fill:#f4f6f9;stroke:#d5dbe5}.h{fill:#2563eb}";

/// Some messages in one row.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    first: usize,
    count: usize,
}

/// Folds messages of one name that follow each other, and then, if there are still too many rows, neighbours.
fn fold(trace: &Trace) -> Vec<Row> {
    let all = &trace.messages;
    if all.len() <= MAX_ROWS / 5 {
        return (0..all.len()).map(|first| Row { first, count: 1 }).collect();
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut first = 0;
    while first < all.len() {
        let is_same = |it: &&Message| it.name == all[first].name && !it.is_bad();
        let count = all[first..].iter().take_while(is_same).count();
        if count >= MIN_FOLD {
            rows.push(Row { first, count });
        } else {
            rows.extend((first..first + count.max(1)).map(|first| Row { first, count: 1 }));
        }
        first += count.max(1);
    }
    if rows.len() <= MAX_ROWS {
        return rows;
    }
    let each = rows.len().div_ceil(MAX_ROWS);
    let join = |rows: &[Row]| Row { first: rows[0].first, count: rows.iter().map(|row| row.count).sum() };
    rows.chunks(each).map(join).collect()
}

fn millis(micros: u64) -> String {
    format!("{}.{:03} ms", micros / 1_000, micros % 1_000)
}

fn short(text: &str) -> String {
    if text.chars().count() <= LABEL {
        return escape(text);
    }
    escape(&(text.chars().take(LABEL - 1).collect::<String>() + "…"))
}

/// Writes the image.
pub(super) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let rows = fold(trace);
    let height = TOP + 40 + rows.len() * ROW;
    let header = &trace.header;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    )?;
    let title = format!("{} over {}, {}", header.server, header.transport, header.started);
    writeln!(out, "<text x=\"16\" y=\"24\" style=\"font-size:15px\">{}</text>", short(&title))?;
    let broken: usize = trace.messages.iter().map(|message| message.broken.len()).sum();
    let about = format!(
        "{} messages, at most {} requests in flight, {broken} broken rules{}",
        trace.messages.len(),
        trace.most_in_flight(),
        if trace.left_out > 0 { format!(", {} messages left out", trace.left_out) } else { String::new() }
    );
    writeln!(out, "<text x=\"16\" y=\"44\" class=\"s\">{about}</text>")?;
    histogram(trace, out)?;
    for (x, name) in [(CLIENT, "client"), (SERVER, "server")] {
        writeln!(out, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{name}</text>", TOP - 8)?;
        writeln!(out, "<path class=\"l\" d=\"M{x} {TOP}V{}\"/>", height - 20)?;
    }
    for (number, row) in rows.iter().enumerate() {
        let y = TOP + 8 + number * ROW;
        let first = &trace.messages[row.first];
        writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" class=\"s\" text-anchor=\"end\">{}</text>",
            CLIENT - 10,
            y + 18,
            millis(first.at)
        )?;
        if row.count == 1 { arrow(trace, first, y, out)? } else { folded(trace, row, y, out)? }
    }
    writeln!(out, "</svg>")
}

fn arrow(trace: &Trace, message: &Message, y: usize, out: &mut impl Write) -> io::Result<()> {
    let line = y + 16;
    let class = match message.kind {
        _ if message.is_bad() => "e",
        Kind::Request => "q",
        Kind::Result => "r",
        _ => "n",
    };
    if message.kind != Kind::Log {
        let (from, to, head) = match message.from {
            Origin::Client => (CLIENT, SERVER, SERVER - 7),
            Origin::Server => (SERVER, CLIENT, CLIENT + 7),
        };
        let (up, down) = (line - 4, line + 4);
        writeln!(out, "<path class=\"{class}\" d=\"M{from} {line}H{to}M{head} {up}L{to} {line}L{head} {down}\"/>")?;
    }
    let label = match message.kind {
        Kind::Log => message.text.clone(),
        Kind::Error => format!("error: {} {}", trace.names[message.name], message.id),
        _ => format!("{} {}", trace.names[message.name], message.id),
    };
    let rules = message.broken.first().map(|rule| format!(" {rule}")).unwrap_or_default();
    let text_class = if message.is_bad() { " class=\"b\"" } else { "" };
    let (middle, label) = ((CLIENT + SERVER) / 2, short(&(label + &rules)));
    writeln!(out, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\"{text_class}>{label}</text>", y + 12)?;
    let took = trace.latency(message).map(|took| format!("{}, ", millis(took))).unwrap_or_default();
    writeln!(out, "<text x=\"{}\" y=\"{}\" class=\"s\">{took}{} B</text>", SERVER + 10, y + 18, message.bytes)
}

fn folded(trace: &Trace, row: &Row, y: usize, out: &mut impl Write) -> io::Result<()> {
    let messages = &trace.messages[row.first..row.first + row.count];
    let mut latencies: Vec<_> = messages.iter().filter_map(|message| trace.latency(message)).collect();
    latencies.sort_unstable();
    let is_one = messages.iter().all(|message| message.name == messages[0].name);
    let name = if is_one { &*trace.names[messages[0].name] } else { "several" };
    let bad = messages.iter().filter(|message| message.is_bad()).count();
    let mut text = format!("{name}: {} messages", row.count);
    if let (Some(median), Some(slowest)) = (latencies.get(latencies.len() / 2), latencies.last()) {
        text += &format!(", median {}, slowest {}", millis(*median), millis(*slowest));
    }
    let class = if bad > 0 { " class=\"b\"" } else { "" };
    if bad > 0 {
        text += &format!(", {bad} problems");
    }
    writeln!(
        out,
        "<rect class=\"f\" x=\"{CLIENT}\" y=\"{}\" width=\"{}\" height=\"20\" rx=\"4\"/>",
        y + 3,
        SERVER - CLIENT
    )?;
    let middle = (CLIENT + SERVER) / 2;
    writeln!(out, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\"{class}>{}</text>", y + 17, short(&text))
}

/// Returns how many responses took how long, in bins that double, and the number of the first bin. The last one has all
/// longer latencies, too.
fn bins(trace: &Trace) -> Option<(usize, Vec<usize>)> {
    let mut bins = [0_usize; 65];
    for latency in trace.messages.iter().filter_map(|message| trace.latency(message)) {
        bins[latency.checked_ilog2().map_or(0, |log| log as usize + 1)] += 1;
    }
    let first = bins.iter().position(|count| *count > 0)?;
    let last = bins.iter().rposition(|count| *count > 0)?;
    let mut shown = bins[first..=last].to_vec();
    if shown.len() > MAX_BINS {
        let longer: usize = shown.drain(MAX_BINS..).sum();
        shown[MAX_BINS - 1] += longer;
    }
    Some((first, shown))
}

/// Draws how many responses took how long.
fn histogram(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    const WIDE: usize = 36;
    let Some((first, bins)) = bins(trace) else {
        return writeln!(out, "<text x=\"16\" y=\"70\" class=\"s\">no responses</text>");
    };
    let highest = bins.iter().copied().max().unwrap_or(1).max(1);
    writeln!(out, "<text x=\"16\" y=\"68\" class=\"s\">latency</text>")?;
    for (number, count) in bins.iter().enumerate() {
        let (x, high) = (16 + number * WIDE, count * 70 / highest);
        writeln!(out, "<rect class=\"h\" x=\"{x}\" y=\"{}\" width=\"{}\" height=\"{high}\"/>", 156 - high, WIDE - 3)?;
        if *count > 0 {
            writeln!(out, "<text x=\"{x}\" y=\"{}\" class=\"s\">{count}</text>", 152 - high)?;
        }
        let bin = first + number;
        let from = if bin == 0 { 0 } else { 1_u64 << (bin - 1) };
        let label = if from < 1_000 { format!("{from} µs") } else { format!("{} ms", from / 1_000) };
        writeln!(out, "<text x=\"{x}\" y=\"170\" class=\"s\">{label}</text>")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Header;

    #[test]
    fn the_histogram_has_all_responses() {
        let header = Header { started: String::new(), transport: "stdio".into(), server: "x".into(), masked: false };
        let mut trace = Trace::new(header);
        for log in 0..40 {
            let request = trace.messages.len();
            for (at, from, kind, pair) in
                [(0, Origin::Client, Kind::Request, request + 1), (1 << log, Origin::Server, Kind::Result, request)]
            {
                let (id, broken, text) = (String::new(), Vec::new(), String::new());
                trace.messages.push(Message { at, from, kind, name: 0, id, pair: Some(pair), bytes: 0, broken, text });
            }
        }
        let (first, bins) = bins(&trace).expect("responses");
        assert_eq!((first, bins.len(), bins.iter().sum::<usize>()), (1, MAX_BINS, 40));
    }
}
