//! All checks, in the order in which they run.

use super::{definition::Check, hostile, legacy, modern, passive};

/// The tables of checks. Those that only judge the messages of the others are the last ones.
const TABLES: [&[Check]; 10] = [
    modern::features::CHECKS,
    modern::subscriptions::CHECKS,
    modern::http::CHECKS,
    modern::messages::CHECKS,
    legacy::http::CHECKS,
    legacy::messages::CHECKS,
    legacy::handshake::CHECKS,
    legacy::features::CHECKS,
    hostile::CHECKS,
    passive::CHECKS,
];

/// Returns all checks.
pub(super) fn checks() -> impl Iterator<Item = &'static Check> {
    TABLES.into_iter().flatten()
}
