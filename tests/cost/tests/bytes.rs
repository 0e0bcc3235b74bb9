//! No decoder of peer data has its memory grow faster than its input.

use allocation_counter::{AllocationInfo, measure};
use mcp_tests_cost::{Case, MOST_GROWTH, SIZES, Work, cases};

/// The most bytes that a decoder may hold at once for each byte of input. A tree of values takes the most: an empty
/// value of two bytes in a list is one of 32 to 72 bytes, in a buffer that grows by doubling.
const MOST_PER_BYTE: u64 = 200;

/// What is allocated in any case, and says nothing about the input.
const SMALL: u64 = 64 << 10;

fn measured(case: &Case, size: usize) -> (usize, AllocationInfo) {
    let work = (case.make)(size);
    (work.input, measure(|| work.measured()))
}

#[test]
fn memory_grows_no_faster_than_input() {
    let mut faults = Vec::new();
    for case in cases() {
        let [.., (input, most)] = SIZES.map(|size| measured(&case, size));
        let (_, least) = measured(&case, SIZES[0]);
        for (what, most, least) in
            [("peak", most.bytes_max, least.bytes_max), ("sum", most.bytes_total, least.bytes_total)]
        {
            if most > MOST_GROWTH * least.max(SMALL) {
                faults.push(format!("{}: {what} grows from {least} to {most} bytes", case.name));
            }
        }
        if most.bytes_max > MOST_PER_BYTE * input as u64 + SMALL {
            faults.push(format!("{}: {} bytes at once for {input} of input", case.name, most.bytes_max));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn detects_quadratic_memory() {
    let copies =
        |size: usize| Work::new(size, move || drop((0..size / 64).map(|_| vec![0u8; size]).collect::<Vec<_>>()));
    let case = Case { name: "copies", make: copies };
    let (_, least) = measured(&case, SIZES[0]);
    let (_, most) = measured(&case, SIZES[3]);
    assert!(most.bytes_max > MOST_GROWTH * least.bytes_max.max(SMALL), "{} and {}", least.bytes_max, most.bytes_max);
}
