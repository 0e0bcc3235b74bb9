//! Tries mutants of the core, the service and the driver, all in one build. `tests/mutants/run` calls this program and
//! documents its usage.
//!
//! ```text
//! mutants CLONE OUT --seed N --take M --skip K [FOLDER...]
//! ```
//!
//! Only mutants in these folders are drawn, if there are any.
//!
//! `CLONE` is a copy of the repository to change, `OUT/list.json` the output of `cargo mutants --list --json`. Verdicts
//! are written to `OUT/verdicts.csv`, and mutants with a verdict are not tried again. `OUT/alone.txt` gets a regular
//! expression for `cargo mutants --re` for each mutant that has to be built alone.

mod build;
mod mutant;
mod plant;
mod reach;
mod trial;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use crate::build::{Clone, Planted};
use crate::mutant::Mutant;
use crate::reach::Reach;
use crate::trial::{Verdict, print};

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        let _ = writeln!(io::stderr(), "usage: mutants CLONE OUT --seed N --take M --skip K [FOLDER...]");
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
    clone: PathBuf,
    out: PathBuf,
    seed: u64,
    take: usize,
    skip: usize,
    folders: Vec<String>,
}

fn arguments() -> Option<Arguments> {
    let mut words = env::args().skip(1);
    let (clone, out) = (words.next()?.into(), words.next()?.into());
    let mut number = |name: &str| (words.next()? == name).then(|| words.next()?.parse::<u32>().ok()).flatten();
    let (seed, take, skip) = (number("--seed")?.into(), number("--take")? as usize, number("--skip")? as usize);
    Some(Arguments { clone, out, seed, take, skip, folders: words.collect() })
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let Arguments { clone, out, seed, take, skip, folders } = arguments;
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
    let clone = Clone::new(clone)?;
    let fits =
        |mutant: &Mutant| !matches!(verdicts.known.get(&mutant.name).map(String::as_str), Some("unviable" | "alone"));
    let Planted { fit, unviable, alone } =
        clone.plant((1..).zip(&mutants).filter(|(_, mutant)| fits(mutant)).collect())?;
    for mutant in unviable {
        verdicts.add(mutant, Verdict::Unviable)?;
    }
    for mutant in alone {
        verdicts.add(mutant, Verdict::Alone)?;
    }
    print(&format!("{} mutants in one build", fit.len()));
    let programs = clone.programs()?;
    let reach = Reach::record(
        &programs,
        &out.join(format!("reached-{seed}-{skip}-{take}{}.csv", folders.concat().replace('/', "-"))),
    )?;
    for (number, mutant) in fit {
        if verdicts.known.contains_key(&mutant.name) {
            continue;
        }
        match trial::verdict(&programs, &reach, build::package(mutant), number)? {
            // A mutant of a function that the compiler runs was not tried.
            Verdict::Survived if clone.is_const(mutant) => verdicts.add(mutant, Verdict::Alone)?,
            verdict => verdicts.add(mutant, verdict)?,
        }
    }
    let of = |mutant: &&Mutant| verdicts.known.get(&mutant.name).is_some_and(|verdict| verdict == "alone");
    let mut patterns = String::new();
    for mutant in mutants.iter().filter(of) {
        let _ = writeln!(patterns, "^{}$", mutant::escape(&mutant.name));
    }
    fs::write(out.join("alone.txt"), patterns)?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for verdict in mutants.iter().filter_map(|mutant| verdicts.known.get(&mutant.name)) {
        *counts.entry(verdict).or_default() += 1;
    }
    counts.iter().for_each(|(verdict, count)| print(&format!("{count:5} {verdict}")));
    Ok(())
}

/// A table of verdicts: a verdict, and the name of a mutant.
struct Verdicts {
    path: PathBuf,
    /// Verdicts by name.
    known: BTreeMap<String, String>,
}

impl Verdicts {
    fn open(path: PathBuf) -> io::Result<Self> {
        let mut known = BTreeMap::new();
        if path.exists() {
            for row in csv::ReaderBuilder::new().has_headers(false).from_path(&path)?.records() {
                let row = row?;
                known.insert(row[1].to_owned(), row[0].to_owned());
            }
        }
        Ok(Self { path, known })
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
