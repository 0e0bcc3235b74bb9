//! Error messages of hyper.

use std::error::Error;

/// Returns the message of an error, followed by those of its causes.
pub(super) fn error_chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        message = format!("{message}: {error}");
        source = error.source();
    }
    message
}
