//! Prints the time and the changes of threads of a call, for each case whose name contains the argument. The threads
//! are those of this process, which has the client, and also the server unless that is a child. Under `strace -c -f` it
//! shows the system calls.
#![allow(missing_docs, reason = "it is a program")]
#![expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "it is a report")]

#[path = "shared/mod.rs"]
mod peers;

use std::{env, fs, time::Instant};

/// How many runs are measured, after a tenth of them.
const RUNS: u64 = 4000;

/// Returns the number of changes of threads of this process that were waits, and of those that were not.
fn switches() -> [u64; 2] {
    let mut sum = [0; 2];
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for status in tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok()) {
        for line in status.lines() {
            let (name, value) = line.split_once(':').unwrap_or_default();
            let value: u64 = value.trim().parse().unwrap_or(0);
            match name {
                "voluntary_ctxt_switches" => sum[0] += value,
                "nonvoluntary_ctxt_switches" => sum[1] += value,
                _ => {}
            }
        }
    }
    sum
}

fn main() {
    if peers::serve() {
        return;
    }
    let filter = env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    for case in peers::cases().into_iter().filter(|case| case.to_string().contains(&filter)) {
        let name = case.to_string();
        let mut work = case.make();
        let runs = RUNS / work.messages.isqrt();
        (0..runs / 10).for_each(|_| work.run());
        let (before, start) = (switches(), Instant::now());
        (0..runs).for_each(|_| work.run());
        let time = start.elapsed();
        let after = switches();
        let calls = (runs * work.messages) as f64;
        let [waits, others] = [0, 1].map(|kind| after[kind].saturating_sub(before[kind]) as f64 / calls);
        println!("{name}: {:.1} µs, {waits:.2} waits, {others:.2} other switches", time.as_secs_f64() * 1e6 / calls);
    }
}
