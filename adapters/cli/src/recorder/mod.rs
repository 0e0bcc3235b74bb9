//! Records messages between a client and a server.

mod file;
mod http;
mod stdio;
mod system;

use std::{ffi::OsString, path::Path};

pub(crate) use http::{ListenOptions, record_http};
pub(crate) use stdio::record_stdio;

/// The program to record, and the destination of the record.
#[derive(Debug)]
pub(crate) struct RecordOptions<'a> {
    /// The file.
    pub(crate) output: &'a Path,
    /// Whether secrets are masked.
    pub(crate) is_masked: bool,
    /// The most bytes of the file.
    pub(crate) max_bytes: u64,
    /// Whether nothing is written on the error output.
    pub(crate) quiet: bool,
    /// The program of the server and its arguments.
    pub(crate) command: &'a [OsString],
    /// More variables for the program.
    pub(crate) variables: Vec<(&'a str, &'a str)>,
}
