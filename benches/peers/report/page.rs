//! The page `benches/RESULTS.md`.

use std::{fmt::Write, fs, process::Command};

use mcp_benches::{FRAMES, IN_FLIGHT, SIZES};

use crate::{
    Results,
    goals::{REVISIONS, goals, short},
    picture::{Line, draw},
};

const HEAD: &str = "# Results

Written by `cargo bench -p mcp-benches-peers --bench report`, which measures everything anew.
[README.md](README.md) describes the cases.

## How far to trust it

- Times are medians of seven rounds. Each round times every case once, so a disturbance of the
  machine affects all of them. Servers are asked in rounds, too, and the best round of each counts.
  The time of a start is the median of 60 starts in turn.
- Server and client share one processor: the time of a round trip is the sum of the work of both,
  and no process waits for another processor to wake up.
- Ratios within this page can be compared, times with those of other machines cannot. Ratios of two
  machines differ as well: a processor may be faster at the work of the limits than at that of
  servers. On a machine that others use, times differ by a tenth from run to run and sometimes by
  more. Instructions and allocations do not, and there is a baseline of those of the core
  (`instructions.csv`).
- Every response of a server is compared with the expected one.
";

/// Describes this machine, from commands of the system.
fn machine() -> String {
    let said = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    };
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("", |it| it.1);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let many = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "Machine: {many} processors ({model}), {} {}; {}; load at the end: {load}.\n",
        said("uname", &["-s"]),
        said("uname", &["-r"]),
        said("rustc", &["--version"])
    )
}

struct Table(String);

impl Table {
    fn new(columns: &[&str]) -> Self {
        let mut table = Self(String::new());
        table.row(columns.iter().map(ToString::to_string));
        table.row(columns.iter().enumerate().map(|(number, _)| if number == 0 { "---" } else { "---:" }.to_owned()));
        table
    }

    fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().collect();
        let _ = writeln!(self.0, "| {} |", cells.join(" | "));
    }
}

/// Formats nanoseconds with a unit.
fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        large if large >= 1e6 => format!("{} ms", short(large / 1e6)),
        medium if medium >= 1e3 => format!("{} µs", short(medium / 1e3)),
        small => format!("{} ns", short(small)),
    }
}

/// Formats a number with a separator for thousands.
fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (number, digit) in digits.chars().enumerate() {
        if number > 0 && (digits.len() - number) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn write(results: &Results) -> String {
    let sections = [
        HEAD.to_owned(),
        machine(),
        aims(results),
        decoding(results),
        groups(results),
        round_trips(results),
        clients(results),
        servers(results),
        web(results),
        processors(results),
        memory(results),
        sdks(results),
    ];
    wrap(&sections.join("\n"))
}

/// Wraps lines at the maximum width of Markdown in this repository. Tables are not wrapped.
fn wrap(page: &str) -> String {
    const WIDTH: usize = 100;
    let mut wrapped = String::new();
    for line in page.lines() {
        let indent = if line.starts_with("- ") || line.starts_with("  ") { "  " } else { "" };
        let mut column = 0;
        for (index, word) in line.split(' ').enumerate() {
            let length = word.chars().count();
            if index > 0 && !line.starts_with('|') && column + 1 + length > WIDTH {
                wrapped.push('\n');
                wrapped.push_str(indent);
                column = indent.len();
            } else if index > 0 {
                wrapped.push(' ');
                column += 1;
            }
            wrapped.push_str(word);
            column += length;
        }
        wrapped.push('\n');
    }
    wrapped
}

fn aims(results: &Results) -> String {
    let mut table = Table::new(&["goal", "measured", "wanted", "reached"]);
    let goals = goals(results);
    let reached = goals.iter().filter(|goal| goal.reached).count();
    let count = goals.len();
    for goal in goals {
        let mark = if goal.reached { "yes" } else { "**no**" };
        table.row([goal.what, goal.measured, goal.wanted, mark.to_owned()]);
    }
    format!("## Goals\n\n{reached} of {count} are reached.\n\n{}", table.0)
}

fn decoding(Results { times, .. }: &Results) -> String {
    let columns = [
        "lines",
        "envelope",
        "limit: newline",
        "limit: UTF-8",
        "limit: skipped by serde_json",
        "limit: borrowed by serde_json",
        "limit: Value of serde_json",
    ];
    let mut table = Table::new(&[&["frame"], &columns[..]].concat());
    let mut typed = Table::new(&["params or result", "typed", "derived by serde", "ratio"]);
    for frame in FRAMES {
        let of = |what: &str| times.of(&format!("decode/{what}, {frame}"));
        let cells = columns.iter().map(|what| {
            let (it, skipped) = (of(what), of("limit: skipped by serde_json"));
            format!("{} ({})", time(it), short(it / skipped))
        });
        table.row([frame.to_owned()].into_iter().chain(cells));
        if frame != "ping" {
            let (ours, derived) = (of("typed"), of("limit: derived by serde"));
            typed.row([frame.to_owned(), time(ours), time(derived), short(ours / derived)]);
        }
    }
    format!(
        "## Decoding\n\nTime per frame, and in brackets the ratio to what serde_json takes to skip it.\n\n{}\n{}",
        table.0, typed.0
    )
}

fn groups(Results { times, allocations, .. }: &Results) -> String {
    let mut text = String::new();
    for (group, title) in [
        ("encode", "Encoding"),
        ("round trip", "Round trips of the core"),
        ("churn", "Calls that are given up"),
        ("sse", "Server-sent events"),
        ("http", "HTTP, both machines in memory"),
    ] {
        let mut table = Table::new(&["case", "time per message", "messages/s", "MB/s", "allocations per message"]);
        for (name, nanoseconds, bytes) in times.group(group) {
            let allocated = allocations.get(&format!("{group}/{name}")).copied().unwrap_or(f64::NAN);
            table.row([
                name.to_owned(),
                time(nanoseconds),
                whole(1e9 / nanoseconds),
                whole(bytes / nanoseconds * 1e3),
                short(allocated),
            ]);
        }
        let _ = writeln!(text, "## {title}\n\n{}", table.0);
    }
    let mut table = Table::new(&["requests in flight", "time per call"]);
    for in_flight in IN_FLIGHT {
        table.row([whole(number(in_flight)), time(times.of(&format!("in flight/{in_flight}")))]);
    }
    text + "## Requests in flight\n\n![Calls per second by requests in flight](pictures/in-flight.svg)\n\n" + &table.0
}

fn round_trips(Results { times, .. }: &Results) -> String {
    let mut table = Table::new(&["small call", "memory", "of rmcp", "stdio", "of rmcp", "HTTP"]);
    for at_once in [1, 64] {
        let rmcp = |over: &str| times.of(&format!("rmcp/{over}, {at_once} at once"));
        let against = |over: &str, it: f64| [time(it), format!("{}×", short(rmcp(over) / it))];
        let mut row = |name: String, cells: Vec<String>| {
            let empty = vec![String::new(); 5 - cells.len()];
            table.row([name].into_iter().chain(cells).chain(empty));
        };
        for (_, end) in REVISIONS {
            for adapter in ["blocking", "smol", "tokio"] {
                let of = |over: &str| times.of(&format!("{adapter}/{over}, {at_once} at once{end}"));
                let mut cells = ["memory", "stdio"].map(|over| against(over, of(over))).concat();
                cells.push(time(of("HTTP")));
                row(format!("{adapter}, {at_once} at once{end}"), cells);
            }
        }
        row(format!("rmcp, {at_once} at once"), ["memory", "stdio"].map(|over| against(over, rmcp(over))).concat());
        for typed in ["", ", typed"] {
            let core = times.of(&format!("round trip/{at_once} at once{typed}"));
            row(format!("the core alone, {at_once} at once{typed}"), against("memory", core).to_vec());
        }
    }
    format!(
        "## Client and server of the same library\n\nTime per call, and how often it fits into rmcp's. In memory both are in one \
         process; over stdio they are parent and child. Calls are made in a session of 2025-11-25, as those of rmcp's \
         client and server, or in the stateless 2026-07-28, which a client of this project prefers; each message of \
         the latter is about twice as long.\n\n{}\n![Throughput by size](pictures/size.svg)\n",
        table.0
    )
}

fn clients(Results { times, .. }: &Results) -> String {
    let mut table = Table::new(&["client", "1 at once", "of its limit", "64 at once", "of its limit"]);
    for (_, end) in REVISIONS {
        for client in ["blocking", "smol", "tokio", "hyper"] {
            let of = |client: &str, at_once: usize| times.of(&format!("client/{client}, {at_once} at once{end}"));
            let cells = [1, 64].map(|at_once| {
                let it = of(client, at_once);
                [time(it), short(of("hyper", at_once) / it)]
            });
            table.row([format!("{client}{end}")].into_iter().chain(cells.into_iter().flatten()));
        }
    }
    format!(
        "## Clients over HTTP\n\nTime per call of one server, that of `mcp-tokio` in a process of its own, which answers in JSON. `hyper` \
         sends prepared requests of the same revision, with the same headers and members, and searches the responses \
         for the text. Its rate is 1.\n\n{}",
        table.0
    )
}

fn servers(Results { servers, web_programs, .. }: &Results) -> String {
    let mut table = Table::new(&[
        "server",
        "calls/s",
        "with 64 unanswered",
        "16 KiB, MB/s",
        "1 MiB, MB/s",
        "peak, MiB",
        "instructions per call",
        "allocations per call",
    ]);
    let mut built = Table::new(&[
        "program",
        "clean build, s",
        "packages linked",
        "stripped, KiB",
        "start to answer, ms",
        "resident, MiB",
    ]);
    #[expect(clippy::cast_precision_loss, reason = "they are not that large")]
    for (name, (program, figures)) in servers {
        table.row([
            (*name).to_owned(),
            whole(figures.one_by_one),
            whole(figures.pipelined),
            whole(figures.medium),
            whole(figures.large),
            short(figures.peak),
            whole(figures.instructions),
            short(figures.allocations),
        ]);
        built.row([
            (*name).to_owned(),
            short(program.build.as_secs_f64()),
            program.packages.to_string(),
            whole(program.size as f64 / 1024.0),
            short(figures.start),
            short(figures.resident),
        ]);
    }
    for (name, program) in web_programs {
        built.row([
            format!("{name}, defaults, HTTP"),
            short(program.build.as_secs_f64()),
            program.packages.to_string(),
            whole(program.size as f64 / 1024.0),
            String::new(),
            String::new(),
        ]);
    }
    format!(
        "## Servers over standard input and output\n\nThe smallest echo server of each kind. `json` reads and writes JSON with serde \
         and knows nothing else, `pipe` only searches for bytes; `rmcp` is over pipes without threads in between, `rmcp, usual` over \
         its usual transport. Those with `defaults` are the servers of the READMEs, with default features.\n\n{}\n{}",
        table.0, built.0
    )
}

fn web(Results { web, .. }: &Results) -> String {
    let mut table = Table::new(&[
        "server",
        "1 connection, calls/s",
        "of its limit",
        "32 connections, calls/s",
        "of its limit",
        "memory per session",
    ]);
    for (name, rates) in web {
        let has_threads = name == "threads" || name.starts_with("blocking");
        let limit = web[if has_threads { "threads" } else { "hyper" }];
        table.row([
            name.clone(),
            whole(rates.one),
            short(rates.one / limit.one),
            whole(rates.many),
            short(rates.many / limit.many),
            rates.session.map_or_else(String::new, |bytes| format!("{} KiB", short(bytes / 1024.0))),
        ]);
    }
    format!(
        "## Servers over HTTP\n\n`hyper` answers with what it finds by searching for bytes, on one thread as those of smol and tokio \
         do. `threads` does the same without a library for HTTP and with a thread for each connection, as those of blocking \
         have. The requests to both have the headers of a session, which they ignore. `rmcp` is on a runtime of many threads. In JSON it has no sessions, in which it is the fastest. The memory per session \
         is what a server holds more after 1,000 sessions with one call each, divided by their number.\n\n{}",
        table.0
    )
}

fn processors(Results { processors, .. }: &Results) -> String {
    format!(
        "## More processors\n\nServers over HTTP with default features, by `cores` (`benches/servers/cores`): each connection has a \
         session of its own, or those of a client share one, or all share one.\n\n{}",
        processors.text
    )
}

fn sdks(Results { sdks, .. }: &Results) -> String {
    format!(
        "## Other SDKs\n\nThe smallest server of each, over standard input and output, by `benches/sdks/run`.\n\n{sdks}"
    )
}

fn memory(Results { allocations, .. }: &Results) -> String {
    let mut table = Table::new(&["what", "bytes"]);
    for (name, bytes) in allocations.iter().filter_map(|(name, bytes)| Some((name.strip_prefix("memory/")?, bytes))) {
        table.row([name.to_owned(), whole(*bytes)]);
    }
    format!(
        "## Memory of the core\n\nHeld from the allocator by each of 10,000, and of 1,000,000 idle server connections in one process.\n\n{}",
        table.0
    )
}

#[expect(clippy::cast_precision_loss, reason = "they are not that many")]
fn number(count: usize) -> f64 {
    count as f64
}

/// Returns the charts with the names of their files.
pub(crate) fn pictures(Results { times, servers, .. }: &Results) -> [(&'static str, String); 2] {
    let in_flight = Line {
        name: "core".to_owned(),
        points: IN_FLIGHT.iter().map(|count| (number(*count), 1e9 / times.of(&format!("in flight/{count}")))).collect(),
    };
    let marks: Vec<_> = IN_FLIGHT.iter().map(|count| (number(*count), whole(number(*count)))).collect();
    let calls = draw(
        "Calls by requests in flight, through both machines",
        ("requests in flight", "calls per second"),
        &marks,
        &[in_flight],
    );
    let core = SIZES.iter().map(|(name, size)| {
        let case = if *size == 32 {
            "round trip/1 at once, typed".to_owned()
        } else {
            format!("round trip/1 at once, typed, {name}")
        };
        (number(*size), times.speed(&case))
    });
    let mut lines = vec![Line { name: "core, both machines".to_owned(), points: core.collect() }];
    lines.extend(["blocking", "smol", "tokio", "rmcp", "json"].map(|name| {
        let figures = servers[name].1;
        let points =
            vec![(32.0, figures.one_by_one * 32.0 / 1e6), (16384.0, figures.medium), (1_048_576.0, figures.large)];
        Line { name: format!("{name}, stdio"), points }
    }));
    let marks: Vec<_> = SIZES.iter().map(|(name, size)| (number(*size), (*name).to_owned())).collect();
    let sizes =
        draw("Throughput by size of the text, one call after the other", ("text", "MB per second"), &marks, &lines);
    [("in-flight.svg", calls), ("size.svg", sizes)]
}
