//! Measures calls of a tool.

mod chart;
mod sample;

use std::{
    fs,
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use mcp_blocking::Client;
use mcp_proto::{connection::SendError, schema::CallToolResult};
use mcp_service::CallError;
use sample::Sample;
use serde_json::{Map, Value, json};

use crate::{error::Failed, show};

/// Calls before the first measurement.
const WARM_UP: u64 = 20;

/// The options of a measurement.
#[derive(Debug)]
pub(crate) struct BenchOptions<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Map<String, Value>,
    /// The calls at each concurrency.
    pub(crate) calls: u64,
    /// How many calls are in flight at once, one measurement for each.
    pub(crate) concurrency: &'a [usize],
    /// Whether responses may differ from the first one.
    pub(crate) any_answer: bool,
    pub(crate) svg: Option<&'a Path>,
    pub(crate) json: bool,
}

/// Calls a tool many times. The exit code is 1 if a call failed or had another result than the first one.
pub(crate) fn bench(client: &Client, options: &BenchOptions<'_>) -> Result<ExitCode, Failed> {
    let expected = client.call_tool(options.tool, options.arguments.clone())?.wait()?;
    if expected.is_error() {
        if options.json {
            show::json(&expected)?
        } else {
            show::content(&expected.content)?
        }
        return Err(Failed::tool());
    }
    for _ in 1..WARM_UP {
        client.call_tool(options.tool, options.arguments.clone())?.wait()?;
    }
    let mut samples = Vec::new();
    if !options.json {
        show::line(&Sample::head())?;
    }
    for &concurrency in options.concurrency {
        let sample = measure(client, options, &expected, concurrency)?;
        show::line(&if options.json { sample.json().to_string() } else { sample.line() })?;
        samples.push(sample);
    }
    if !options.json {
        for sample in &samples {
            show::line("")?;
            show::line(sample.plot().trim_end())?;
        }
    }
    if let Some(path) = options.svg {
        let image = chart::svg(options.tool, &samples);
        fs::write(path, image)
            .map_err(|error| Failed::usage(format!("{} cannot be written: {error}", path.display())))?;
    }
    let failed: u64 = samples.iter().map(|sample| sample.wrong).sum();
    if options.json {
        show::line(&json!({"kind": "end", "wrong": failed}).to_string())?;
    }
    if failed > 0 {
        show::note(&format!("{failed} calls failed or had another result than the first one"));
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes calls, `concurrency` at once.
fn measure(
    client: &Client,
    options: &BenchOptions<'_>,
    expected: &CallToolResult,
    concurrency: usize,
) -> Result<Sample, Failed> {
    let next = AtomicU64::new(0);
    let start = Instant::now();
    let worker = || -> Result<(Vec<u64>, u64), CallError> {
        let (mut latencies, mut wrong) = (Vec::new(), 0);
        while next.fetch_add(1, Ordering::Relaxed) < options.calls {
            let arguments = options.arguments.clone();
            let begin = Instant::now();
            let outcome =
                client.call_tool(options.tool, arguments).map_err(CallError::Send).and_then(|call| call.wait());
            latencies.push(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
            match outcome {
                Ok(result) if is_right(&result, expected, options.any_answer) => {}
                Ok(_) => wrong += 1,
                // Nothing can be measured any more.
                Err(error @ (CallError::Closed(_) | CallError::Failed(_) | CallError::Send(SendError::Closed))) => {
                    return Err(error);
                }
                Err(_) => wrong += 1,
            }
        }
        Ok((latencies, wrong))
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..concurrency).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(|worker| worker.join()).collect()
    });
    let elapsed = start.elapsed();
    let (mut latencies, mut wrong) = (Vec::new(), 0);
    for outcome in outcomes {
        let Ok(outcome) = outcome else { return Err(Failed::ended("a thread of the measurement has failed")) };
        let (some, bad) = outcome?;
        latencies.extend(some);
        wrong += bad;
    }
    Ok(Sample::new(concurrency, elapsed, latencies, wrong))
}

/// Compares results without their `_meta`.
fn is_right(result: &CallToolResult, expected: &CallToolResult, any: bool) -> bool {
    let is_same = || result.content == expected.content && result.structured_content == expected.structured_content;
    !result.is_error() && (any || is_same())
}
