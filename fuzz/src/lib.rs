//! The bodies of the fuzz targets: each takes bytes and panics if a property does not hold.
//!
//! They are ordinary functions, so every build compiles them, ordinary tests replay the corpora, and [`mutate`] makes new
//! inputs of them without any fuzzer. `README.md` says how to run them for long.

mod app;
pub mod cost;
pub mod dice;
mod headers;
mod lines;
mod message;
pub mod mutate;
mod pair;
mod params;
mod reference;
mod script;
pub mod seeds;
mod sse;
mod text;

use std::{fs, io, path::Path};

pub use headers::headers;
pub use lines::lines;
pub use message::message;
pub use pair::pair;
pub use params::{params, values};
pub use script::{client, server};
pub use sse::sse;
pub use text::{base64, template, uri};

/// What a target does with its input.
pub type Body = fn(&[u8]);

/// Every target: its name, which is that of its corpus, and its body.
pub const TARGETS: [(&str, Body); 12] = [
    ("lines", lines),
    ("sse", sse),
    ("message", message),
    ("params", params),
    ("values", values),
    ("server", server),
    ("client", client),
    ("pair", pair),
    ("headers", headers),
    ("template", template),
    ("uri", uri),
    ("base64", base64),
];

/// The stored inputs of a target, in the order of their names.
///
/// # Errors
/// If they cannot be read.
pub fn corpus(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort_unstable();
    paths.into_iter().map(fs::read).collect()
}
