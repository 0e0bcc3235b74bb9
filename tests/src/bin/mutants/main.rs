//! Tries mutants of the core, the service and the driver: as many as possible in one build, then one by one those that
//! have to be built alone. `tests/mutants/run` calls this program and documents its usage.
//!
//! ```text
//! mutants OUT --seed N --take M --skip K [FOLDER...]
//! ```
//!
//! Only mutants in these folders are drawn, if there are any.
//!
//! `OUT/together` and `OUT/alone` are copies of the repository to change, and `OUT/list.json` is the output of
//! `cargo mutants --list --json`. What they build goes to `OUT/../build-together` and `OUT/../build-alone`.
//!
//! Verdicts are written to `OUT/verdicts.csv`, where the last one on a mutant counts. Mutants with a verdict are not
//! tried again.

mod build;
mod mutant;
mod plant;
mod reach;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, path};

use crate::build::{Clone, Planted};
use crate::mutant::Mutant;
use crate::reach::Reach;
use crate::trial::{Builds, Program, Verdict, print};

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        let _ = writeln!(io::stderr(), "usage: mutants OUT --seed N --take M --skip K [FOLDER...]");
        return ExitCode::from(2);
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::from(2)
        }
    }
}

struct Arguments {
    out: PathBuf,
    seed: u64,
    take: usize,
    skip: usize,
    folders: Vec<String>,
}

fn arguments() -> Option<Arguments> {
    let mut words = env::args().skip(1);
    let out = path::absolute(words.next()?).ok()?;
    let mut number = |name: &str| (words.next()? == name).then(|| words.next()?.parse::<u32>().ok()).flatten();
    let (seed, take, skip) = (number("--seed")?.into(), number("--take")? as usize, number("--skip")? as usize);
    Some(Arguments { out, seed, take, skip, folders: words.collect() })
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let Arguments { out, seed, take, skip, folders } = arguments;
    if *take > plant::MOST {
        return Err(io::Error::other(format!("a build has at most {} mutants", plant::MOST)));
    }
    let mut all = mutant::read(&out.join("list.json"))?;
    if let Some(folder) = folders.iter().find(|folder| !all.iter().any(|mutant| mutant.is_in(folder))) {
        return Err(io::Error::other(format!("no mutant is in {folder}")));
    }
    all.retain(|mutant| folders.is_empty() || folders.iter().any(|folder| mutant.is_in(folder)));
    let mutants = mutant::sample(all, *seed, *skip, *take);
    let mut verdicts = Verdicts::open(out.join("verdicts.csv"))?;

    // The planted mutants and their numbers do not depend on earlier verdicts, so that nothing is built twice.
    let clone = clone(out, "together")?;
    let fits = |mutant: &Mutant| !verdicts.unfit.contains(&mutant.name);
    let Planted { fit, unviable, alone } =
        clone.plant((1..).zip(&mutants).filter(|(_, mutant)| fits(mutant)).collect())?;
    for mutant in unviable {
        verdicts.add(mutant, Verdict::Unviable)?;
    }
    for mutant in alone {
        verdicts.add(mutant, Verdict::Alone)?;
    }
    print(&format!("{} mutants in one build", fit.len()));
    let programs = clone.programs()?.ok_or_else(|| io::Error::other("the tests do not compile"))?;
    let reach = Reach::record(
        &programs,
        &out.join(format!("reached-{seed}-{skip}-{take}{}.csv", folders.concat().replace('/', "-"))),
    )?;
    let together = Builds { mutated: &programs, original: &programs };
    let alone = Alone { clone: self::clone(out, "alone")?, original: &programs, reach: &reach };
    for (number, mutant) in (1..).zip(&mutants) {
        let mut verdict = match verdicts.known.get(&mutant.name).map(String::as_str) {
            None => trial::verdict(together, reach.of(number), build::package(mutant), number)?,
            Some("alone") => Verdict::Alone,
            Some(_) => continue,
        };
        // A mutant of a function that the compiler runs has not been tried.
        if verdict == Verdict::Alone || verdict == Verdict::Survived && clone.is_const(mutant) {
            verdict = alone.verdict(mutant, number)?;
        }
        verdicts.add(mutant, verdict)?;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for verdict in mutants.iter().filter_map(|mutant| verdicts.known.get(&mutant.name)) {
        *counts.entry(verdict).or_default() += 1;
    }
    counts.iter().for_each(|(verdict, count)| print(&format!("{count:5} {verdict}")));
    Ok(())
}

/// Builds mutants one by one.
struct Alone<'a> {
    clone: Clone,
    /// A build without a mutant.
    original: &'a [Program],
    reach: &'a Reach,
}

impl Alone<'_> {
    /// Builds a mutant and tries it by all tests: which of them run a constant is not known.
    fn verdict(&self, mutant: &Mutant, number: u32) -> io::Result<Verdict> {
        self.clone.replace(mutant)?;
        let verdict = match self.clone.programs()? {
            None => Verdict::Unviable,
            Some(mutated) => {
                let builds = Builds { mutated: &mutated, original: self.original };
                trial::verdict(builds, self.reach.all(), build::package(mutant), number)?
            }
        };
        print(&format!("{verdict} alone: {}", mutant.name));
        Ok(verdict)
    }
}

/// Returns a copy of the repository, which builds into a folder beside those of all commits.
fn clone(out: &Path, name: &str) -> io::Result<Clone> {
    Clone::new(&out.join(name), &out.join(format!("../build-{name}")))
}

/// A table of verdicts: a verdict, and the name of a mutant.
struct Verdicts {
    path: PathBuf,
    /// The last verdicts by name.
    known: BTreeMap<String, String>,
    /// The names of the mutants that do not compile with others.
    unfit: BTreeSet<String>,
}

impl Verdicts {
    fn open(path: PathBuf) -> io::Result<Self> {
        let (mut known, mut unfit) = (BTreeMap::new(), BTreeSet::new());
        if path.exists() {
            for row in csv::ReaderBuilder::new().has_headers(false).from_path(&path)?.records() {
                let row = row?;
                if matches!(&row[0], "unviable" | "alone") {
                    unfit.insert(row[1].to_owned());
                }
                known.insert(row[1].to_owned(), row[0].to_owned());
            }
        }
        Ok(Self { path, known, unfit })
    }

    /// Writes the verdict immediately, because a run may be stopped at any time.
    fn add(&mut self, mutant: &Mutant, verdict: Verdict) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.path)?;
        writeln!(file, "{verdict},\"{}\"", mutant.name.replace('"', "\"\""))?;
        if verdict == Verdict::Survived {
            print(&format!("survived: {}", mutant.name));
        }
        self.known.insert(mutant.name.clone(), verdict.to_string());
        Ok(())
    }
}
