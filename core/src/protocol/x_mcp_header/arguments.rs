//! Finds the arguments of a call that headers repeat.

use alloc::{vec, vec::Vec};

use super::HeaderParam;
use crate::wire::{
    RawJson,
    scan::{MAX_DEPTH, ScanError, Scanner},
};

/// One argument of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument<'a> {
    /// The argument is missing or null.
    Absent,
    /// The JSON text of the argument.
    Value(&'a str),
    /// A member on the path to the argument occurs twice.
    Twice,
}

/// Returns the arguments that `params` lead to, in the order of `params`. Reads the arguments once for all params.
pub(super) fn find<'a>(params: &[HeaderParam], arguments: Option<&'a RawJson<'_>>) -> Vec<Argument<'a>> {
    let found = vec![Argument::Absent; params.len()];
    let Some(arguments) = arguments.filter(|_| !params.is_empty()) else { return found };
    let mut order: Vec<usize> = (0..params.len()).collect();
    order.sort_unstable_by(|a, b| params[*a].path.cmp(&params[*b].path));
    let mut search = Search { params, found, passed: vec![0; params.len()] };
    // Arguments that are no object have no members; their text has been scanned before.
    let _ = search.object(&mut Scanner::new(arguments.get(), MAX_DEPTH), 0, &order);
    search.found
}

struct Search<'p, 'a> {
    params: &'p [HeaderParam],
    found: Vec<Argument<'a>>,
    /// The number of names of each path that were seen.
    passed: Vec<usize>,
}

impl<'a> Search<'_, 'a> {
    /// Reads the value that begins here, if it is an object: `depth` names below the root of the arguments. `order` are
    /// the params whose path leads through this object, sorted by path.
    fn object(&mut self, scanner: &mut Scanner<'a>, depth: usize, order: &[usize]) -> Result<(), ScanError> {
        let outer = u32::try_from(depth).map_err(|_| ScanError)?;
        if scanner.peek() != Some(b'{') || order.is_empty() {
            return scanner.value(outer).map(drop);
        }
        scanner.open(b'{', outer)?;
        let mut first = true;
        while let Some(name) = scanner.next_member(first)? {
            first = false;
            let meant = name.text().map_or(&[][..], |name| self.with_name(order, depth, &name));
            let Some(&one) = meant.first() else {
                scanner.value(outer + 1)?;
                continue;
            };
            if self.passed[one] > depth {
                // A second member of this name makes the argument ambiguous. Further ones change nothing.
                if self.found[one] != Argument::Twice {
                    meant.iter().for_each(|param| self.found[*param] = Argument::Twice);
                }
                scanner.value(outer + 1)?;
                continue;
            }
            meant.iter().for_each(|param| self.passed[*param] = depth + 1);
            // The shortest paths come first: they end here.
            let ends = meant.partition_point(|param| self.params[*param].path.len() == depth + 1);
            let (here, below) = meant.split_at(ends);
            let start = scanner.position();
            self.object(scanner, depth + 1, below)?;
            let value = scanner.since(start);
            if value != "null" {
                here.iter().for_each(|param| self.found[*param] = Argument::Value(value));
            }
        }
        Ok(())
    }

    /// Returns the params of `order` whose path continues with `name`.
    fn with_name<'o>(&self, order: &'o [usize], depth: usize, name: &str) -> &'o [usize] {
        let part = |param: &usize| self.params[*param].path.get(depth).map_or("", |part| part.as_str());
        let from = order.partition_point(|param| part(param) < name);
        let to = from + order[from..].partition_point(|param| part(param) == name);
        &order[from..to]
    }
}
