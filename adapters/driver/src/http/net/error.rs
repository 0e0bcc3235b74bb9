//! Errors of hyper as text.

use std::error::Error;

/// An error, and what it came from.
pub(super) fn error_chain(error: &dyn Error) -> String {
    let mut story = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        story = format!("{story}: {error}");
        source = error.source();
    }
    story
}
