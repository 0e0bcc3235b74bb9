//! Limits of this process.

/// The most handles of a process.
const HANDLES: usize = 1 << 24;

/// Returns how many connections this process should have at once if each takes so many handles: as many as fit in three
/// quarters of the handles that the system gives a process, and at least one. The rest is left to handlers.
#[must_use]
pub fn most_connections(descriptors_each: usize) -> usize {
    (HANDLES / 4 * 3 / descriptors_each.max(1)).max(1)
}
