//! All checks of clients, in the order in which they run.

use super::{calls, definition::Check, legacy, modern, passive, web};

/// The tables of checks. Those that only judge the messages of the others are the last ones.
const TABLES: [&[Check]; 5] = [modern::CHECKS, calls::CHECKS, legacy::CHECKS, web::CHECKS, passive::CHECKS];

/// Returns all checks.
pub(super) fn checks() -> impl Iterator<Item = &'static Check> {
    TABLES.into_iter().flatten()
}
