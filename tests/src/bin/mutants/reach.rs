//! Which tests run the function of a mutant: each test runs once alone, without a mutant, and the planted functions
//! write down that they run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use crate::trial::{self, Program};

/// The time in seconds after which a test is not tried on mutants.
const SLOW: u64 = 20;

/// A test, and what was recorded of it.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    /// The index of its program.
    pub(crate) program: usize,
    pub(crate) name: String,
    pub(crate) time: Duration,
    /// The numbers of the mutants whose function it runs.
    reached: BTreeSet<u32>,
}

/// All tests that pass without a mutant.
pub(crate) struct Reach {
    tests: Vec<Test>,
}

impl Reach {
    /// Runs each test of these programs, or reads what an earlier run wrote to `table`.
    pub(crate) fn record(programs: &[Program], table: &Path) -> io::Result<Self> {
        let names = programs.iter().map(|program| program.tests()).collect::<io::Result<Vec<_>>>()?;
        let listed: Vec<_> = names
            .into_iter()
            .enumerate()
            .flat_map(|(program, names)| names.into_iter().map(move |it| (program, it)))
            .collect();
        let mut known = BTreeMap::new();
        if table.exists() {
            for row in csv::ReaderBuilder::new().has_headers(false).from_path(table)?.records() {
                let row = row?;
                known.insert((row[0].to_owned(), row[1].to_owned()), (row[2].to_owned(), row[3].to_owned()));
            }
        }
        let next = AtomicUsize::new(0);
        let output = Mutex::new((fs::OpenOptions::new().create(true).append(true).open(table)?, Vec::new()));
        let folder = table.with_extension("reached");
        fs::create_dir_all(&folder)?;
        let worker = |worker: usize| -> io::Result<()> {
            while let Some((index, name)) = listed.get(next.fetch_add(1, Ordering::Relaxed)) {
                let program = &programs[*index];
                let key = (program.name.to_owned(), name.clone());
                let (milliseconds, numbers) = match known.get(&key) {
                    Some(known) => known.clone(),
                    None => run(program, name, &folder.join(worker.to_string()))?,
                };
                let mut output = output.lock().expect("no worker panics");
                let (file, tests) = &mut *output;
                if !known.contains_key(&key) {
                    use io::Write as _;
                    writeln!(file, "{},\"{}\",{milliseconds},{numbers}", key.0, key.1.replace('"', "\"\""))?;
                }
                match milliseconds.parse() {
                    Ok(time) => tests.push(Test {
                        program: *index,
                        name: key.1,
                        time: Duration::from_millis(time),
                        reached: numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect(),
                    }),
                    Err(_) => trial::print(&format!("not tried on mutants: {} {}: {milliseconds}", key.0, key.1)),
                }
            }
            Ok(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..2).map(|number| scope.spawn(move || worker(number))).collect();
            workers.into_iter().try_for_each(|it| it.join().map_err(|_| io::Error::other("a worker panicked"))?)
        })?;
        let (_, mut tests) = output.into_inner().map_err(|_| io::Error::other("a worker panicked"))?;
        tests.sort_by_key(|test| test.time);

        Ok(Self { tests })
    }

    /// Returns all tests, the fastest first.
    pub(crate) fn all(&self) -> Vec<&Test> {
        self.tests.iter().collect()
    }

    /// Returns the tests that run the function of a mutant, the fastest first.
    pub(crate) fn of(&self, number: u32) -> Vec<&Test> {
        self.tests.iter().filter(|test| test.reached.contains(&number)).collect()
    }
}

/// Runs one test alone. Returns the time in milliseconds or why it is not tried, and the numbers that it reached.
fn run(program: &Program, name: &str, reached: &Path) -> io::Result<(String, String)> {
    fs::write(reached, "")?;
    let start = Instant::now();
    let mut command = program.command(2 * SLOW, SLOW);
    let mut status = command.args(["--exact", name]).env("MUTANT_REACHED", reached).status()?;
    if status.code().is_some_and(|code| code != 0 && code != trial::TIMED_OUT) {
        // A test that counts allocations or steps counts what is written down, too.
        status = program.command(2 * SLOW, SLOW).args(["--exact", name]).status()?;
    }
    let time = match status.code() {
        Some(0) => start.elapsed().as_millis().to_string(),
        Some(trial::TIMED_OUT) => "takes too long".to_owned(),
        _ => "fails without a mutant".to_owned(),
    };
    Ok((time, fs::read_to_string(reached)?.split_whitespace().collect::<Vec<_>>().join(" ")))
}
