//! Limits of all checkers.

/// The most errors of one value that are reported.
pub(super) const MAX_ERRORS: usize = 8;
