//! The goals, and whether they are reached.

use crate::Results;

/// The revisions of calls: how they are named, and the ends of the names of their cases.
pub(crate) const REVISIONS: [(&str, &str); 2] = [("a session", ""), ("2026-07-28", ", 2026-07-28")];

/// One goal: the measured and the required value.
pub(crate) struct Goal {
    pub(crate) what: String,
    pub(crate) measured: String,
    pub(crate) wanted: String,
    pub(crate) reached: bool,
}

/// A goal with a minimum.
fn least(what: impl Into<String>, measured: f64, wanted: f64, unit: &str) -> Goal {
    let (reached, measured) = (measured >= wanted, format!("{}{unit}", short(measured)));
    Goal { what: what.into(), measured, wanted: format!("at least {wanted}{unit}"), reached }
}

/// A goal with a maximum.
fn most(what: impl Into<String>, measured: f64, wanted: f64, unit: &str) -> Goal {
    let (reached, measured) = (measured <= wanted, format!("{}{unit}", short(measured)));
    Goal { what: what.into(), measured, wanted: format!("at most {wanted}{unit}"), reached }
}

/// Formats a number with three digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        medium if medium >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

pub(crate) fn goals(results: &Results) -> Vec<Goal> {
    let groups = [core, eras, decoding, clients, servers, web, processors, memory, programs, defaults];
    groups.into_iter().flat_map(|group| group(results)).collect()
}

fn core(Results { times, allocations, .. }: &Results) -> Vec<Goal> {
    // Params and results are texts, or types. With rmcp they are types.
    let against_rmcp = |at_once: usize, typed: &str| {
        times.of(&format!("rmcp/memory, {at_once} at once")) / times.of(&format!("round trip/{at_once} at once{typed}"))
    };
    vec![
        most("allocations of a small call through both machines", allocations["round trip/1 at once"], 0.0, ""),
        least("round trips of the core, one by one, against rmcp's", against_rmcp(1, ""), 20.0, "×"),
        least("the same with 64 at once", against_rmcp(64, ""), 20.0, "×"),
        least("the same one by one, typed", against_rmcp(1, ", typed"), 20.0, "×"),
        least("the same with 64 at once, typed", against_rmcp(64, ", typed"), 20.0, "×"),
        most(
            "time per call with 100,000 in flight, against 1",
            times.of("in flight/100000") / times.of("in flight/1"),
            1.5,
            "×",
        ),
    ]
}

fn eras(Results { times, allocations, .. }: &Results) -> Vec<Goal> {
    let against = |modern: &str, legacy: &str| times.of(modern) / times.of(legacy);
    let (modern, legacy) = ("round trip/1 at once, 2026-07-28", "round trip/1 at once");
    vec![
        most("a call of 2026-07-28 in the core, against one of a session", against(modern, legacy), 1.15, "×"),
        most("allocations of it", allocations[modern], 0.0, ""),
        most("the same over HTTP in JSON", against("http/JSON, 2026-07-28", "http/JSON, a session"), 1.15, "×"),
    ]
}

fn decoding(Results { times, .. }: &Results) -> Vec<Goal> {
    let against = |what: &str, limit: &str, name: &str| {
        times.of(&format!("decode/{what}, {name}")) / times.of(&format!("decode/limit: {limit}, {name}"))
    };
    let skipped = |name| against("envelope", "skipped by serde_json", name);
    let mut goals = vec![
        most("envelope of a small call, against serde_json skipping it", skipped("call"), 1.0, "×"),
        most("the same of 64 KiB of prose", skipped("64 KiB prose"), 0.33, "×"),
        most("the same of 64 KiB of plain text", skipped("64 KiB plain"), 0.1, "×"),
    ];
    for name in ["call", "result", "list of 50 tools", "64 KiB plain", "64 KiB prose"] {
        let typed = against("typed", "derived by serde", name);
        goals.push(most(format!("typed decode, {name}, against what serde derives"), typed, 1.2, "×"));
    }
    for name in ["64 KiB plain", "64 KiB prose"] {
        let escaped =
            times.of(&format!("encode/escaped, {name}")) / times.of(&format!("encode/limit: escaped, {name}"));
        goals.push(most(format!("escaping {name}, against the fastest crate for it"), escaped, 1.0, "×"));
    }
    goals
}

fn clients(Results { times, .. }: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    for adapter in ["blocking", "smol", "tokio"] {
        for (revision, end) in REVISIONS {
            let small = [("memory", 1, 5.0), ("memory", 64, 5.0), ("stdio", 1, 3.0), ("stdio", 64, 8.0)];
            for (over, at_once, wanted) in small {
                // rmcp's client and server have a session.
                let rmcp = times.of(&format!("rmcp/{over}, {at_once} at once"));
                let it = times.of(&format!("{adapter}/{over}, {at_once} at once{end}"));
                let what = format!("{adapter}, client and server over {over}, {revision}: {at_once} at once");
                goals.push(least(format!("{what}, against rmcp's"), rmcp / it, wanted, "×"));
            }
            for at_once in [1, 64] {
                let of = |client: &str| times.of(&format!("client/{client}, {at_once} at once{end}"));
                let wanted = if adapter == "blocking" { 0.5 } else { 0.7 };
                let what = format!("{adapter}, client over HTTP, {revision}: {at_once} at once");
                goals.push(least(format!("{what}, against `hyper`"), of("hyper") / of(adapter), wanted, "×"));
            }
        }
    }
    goals
}

fn servers(Results { servers, .. }: &Results) -> Vec<Goal> {
    let limit = servers["json"].1;
    let mut goals = Vec::new();
    for adapter in ["blocking", "smol", "tokio"] {
        let it = servers[adapter].1;
        let goal = |what: &str| format!("{adapter}, stdio: {what}");
        goals.extend([
            least(goal("calls one by one, against `json`"), it.one_by_one / limit.one_by_one, 0.9, "×"),
            least(goal("calls with 64 unanswered, against `json`"), it.pipelined / limit.pipelined, 0.8, "×"),
            most(goal("instructions per call, against `json`"), it.instructions / limit.instructions, 1.25, "×"),
            most(goal("allocations per call, of the whole process"), it.allocations, 2.0, ""),
            least(goal("16 KiB texts, against `json`"), it.medium / limit.medium, 1.0, "×"),
            least(goal("1 MiB texts, against `json`"), it.large / limit.large, 1.0, "×"),
            most(goal("peak with 64 unanswered MiB, beyond 64 MiB in flight"), it.peak - 64.0, 16.0, " MiB"),
        ]);
    }
    goals
}

fn web(Results { web, .. }: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    for adapter in ["blocking", "smol", "tokio"] {
        let (name, wanted) = if adapter == "blocking" { ("threads", [0.6, 0.6]) } else { ("hyper", [0.8, 0.65]) };
        let limit = web[name];
        for (form, wanted) in ["JSON", "a stream"].into_iter().zip(wanted) {
            let it = web[&*format!("{adapter}, {form}, a session")];
            let goal = |over: &str| format!("{adapter}, HTTP: answers in {form} over {over}, against `{name}`");
            goals.push(least(goal("1 connection"), it.one / limit.one, wanted, "×"));
            goals.push(least(goal("32 connections"), it.many / limit.many, wanted, "×"));
        }
    }
    goals
}

fn processors(Results { processors, .. }: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    for adapter in ["blocking", "smol", "tokio"] {
        for (sessions, name, wanted) in [("each", "a session per connection", 1.8), ("one", "one session", 1.6)] {
            let what = format!("{adapter}, HTTP: two processors over one, {name}");
            goals.push(least(what, processors.gain(adapter, sessions), wanted, "×"));
        }
    }
    goals
}

fn memory(Results { allocations, .. }: &Results) -> Vec<Goal> {
    let held = |name: &str| allocations[&format!("memory/{name}")];
    let stream = held("an HTTP session with an open stream") - held("an HTTP session");
    vec![
        most("an idle server connection", held("an idle server connection"), 1024.0, " B"),
        most("a request in flight, at the client", held("a request in flight, at the client"), 256.0, " B"),
        most("a request in flight, at the server", held("a request in flight, at the server"), 256.0, " B"),
        most("an idle HTTP session, in the core", held("an HTTP session") / 1024.0, 4.0, " KiB"),
        most("an open stream of it, in the core", stream / 1024.0, 8.0, " KiB"),
    ]
}

fn programs(Results { servers, .. }: &Results) -> Vec<Goal> {
    let (rmcp, limit) = (&servers["rmcp"].0, servers["json"].1);
    let mut goals = Vec::new();
    #[expect(clippy::cast_precision_loss, reason = "they are not that large")]
    for adapter in ["blocking", "smol", "tokio"] {
        let (program, figures) = &servers[adapter];
        if adapter == "blocking" {
            let built = program.build.as_secs_f64() / rmcp.build.as_secs_f64();
            goals.push(most("blocking: packages linked", program.packages as f64, 25.0, ""));
            goals.push(most("blocking: clean release build, against rmcp's", built, 0.33, "×"));
        }
        goals.push(most(format!("{adapter}: size, stripped"), program.size as f64 / f64::from(1 << 20), 1.0, " MiB"));
        let start = figures.start / limit.start;
        goals.push(most(format!("{adapter}: start to the first answer, against `json`"), start, 1.2, "×"));
    }
    goals
}

#[expect(clippy::cast_precision_loss, reason = "they are not that large")]
fn defaults(Results { servers, web_programs, .. }: &Results) -> Vec<Goal> {
    let limit = servers["json"].1;
    let rmcp = [&servers["rmcp, defaults"].0, &web_programs["rmcp"]];
    let mut goals = Vec::new();
    for adapter in ["blocking", "smol", "tokio"] {
        let (program, figures) = &servers[&*format!("{adapter}, defaults")];
        let goal = |what: &str| format!("{adapter}, default features: {what}");
        goals.extend([
            most(goal("start to the first answer, against `json`"), figures.start / limit.start, 1.5, "×"),
            most(goal("resident after it"), figures.resident, 4.0, " MiB"),
        ]);
        let programs = [("stdio", program, 3.0), ("HTTP", &web_programs[adapter], 4.0)];
        for ((over, program, wanted), rmcp) in programs.into_iter().zip(rmcp) {
            let built = program.build.as_secs_f64() / rmcp.build.as_secs_f64();
            goals.push(most(goal(&format!("size over {over}, stripped")), program.size as f64 / 1e6, wanted, " MB"));
            goals.push(most(goal(&format!("clean build over {over}, against rmcp's")), built, 0.6, "×"));
        }
    }
    goals
}
