//! The mutants of cargo-mutants, and a random sample of them.

use std::{fs, io, path::Path};

use serde_json::Value;

/// A position: line and column, from 1, as cargo-mutants counts them.
pub(crate) type Place = (usize, usize);

/// One change of the sources.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// Its name in cargo-mutants: file, position, and change.
    pub(crate) name: String,
    pub(crate) file: String,
    /// The function that contains it, from its first attribute to its last brace. None for constants.
    pub(crate) function: Option<(Place, Place)>,
    /// Whether the function returns an `impl Trait`.
    pub(crate) returns_impl: bool,
    /// The replaced text.
    pub(crate) span: (Place, Place),
    pub(crate) replacement: String,
}

impl Mutant {
    /// Returns whether its file is in a folder.
    pub(crate) fn is_in(&self, folder: &str) -> bool {
        self.file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Reads the output of `cargo mutants --list --json`.
///
/// # Errors
/// If the file cannot be read, or has another format.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Mutant>> {
    let list: Vec<Value> = serde_json::from_str(&fs::read_to_string(path)?)?;
    let mutants: Option<Vec<Mutant>> = list.iter().map(mutant).collect();
    mutants.ok_or_else(|| io::Error::other("a mutant without a name or a place"))
}

fn mutant(value: &Value) -> Option<Mutant> {
    let text = |member: &str| Some(value[member].as_str()?.to_owned());
    Some(Mutant {
        name: text("name")?,
        file: text("file")?,
        function: span(&value["function"]["span"]),
        returns_impl: value["function"]["return_type"].as_str().is_some_and(|result| result.contains("impl ")),
        span: span(&value["span"])?,
        replacement: text("replacement")?,
    })
}

fn span(value: &Value) -> Option<(Place, Place)> {
    let place = |end: &str| {
        let number = |member: &str| usize::try_from(value[end][member].as_u64()?).ok();
        Some((number("line")?, number("column")?))
    };
    Some((place("start")?, place("end")?))
}

/// Returns `take` mutants after the first `skip`, in a random order that depends on the seed only.
pub(crate) fn sample(mut mutants: Vec<Mutant>, seed: u64, skip: usize, take: usize) -> Vec<Mutant> {
    mutants.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    shuffle(&mut mutants, seed);
    mutants.into_iter().skip(skip).take(take).collect()
}

/// Fisher and Yates, with the numbers of SplitMix64.
fn shuffle<T>(items: &mut [T], mut state: u64) {
    for last in (1..items.len()).rev() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut number = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        number ^= number >> 31;
        items.swap(last, (number % (last as u64 + 1)) as usize);
    }
}
