//! The cost of one message of a peer: limits are checked in bytes and before the work.

mod answers;
mod inbound;

use std::fmt::Write as _;

use allocation_counter::measure;

/// Returns the bytes that `f` allocates, freed or not.
fn allocated(f: impl FnOnce()) -> u64 {
    measure(f).bytes_total
}

/// Returns an object of `count` members with names of seven digits and this value.
fn members(count: usize, value: &str) -> String {
    let mut text = String::from("{");
    for number in 0..count {
        let comma = if number == 0 { "" } else { "," };
        write!(text, "{comma}\"{number:07}\":{value}").expect("a string takes it");
    }
    text.push('}');
    text
}
