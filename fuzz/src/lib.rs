//! The bodies of the fuzz targets: each takes bytes and panics if a property does not hold.
//!
//! They are ordinary functions, so every build compiles them, ordinary tests replay the corpora, and [`mutate`] derives
//! new inputs without a fuzzer. `README.md` describes long runs.

mod app;
mod auth;
pub mod cost;
mod headers;
mod lines;
mod message;
pub mod mutate;
mod pair;
mod params;
mod reference;
pub mod rng;
mod script;
pub mod seeds;
mod sse;
mod text;

use std::{fs, io, path::Path};

pub use auth::auth;
pub use headers::headers;
pub use lines::lines;
pub use message::message;
pub use pair::pair;
pub use params::{params, values};
pub use script::{client, server};
pub use sse::sse;
pub use text::{base64, template, uri};

/// The body of a target.
pub type Body = fn(&[u8]);

/// All targets: the name, which is also that of its corpus, and the body.
pub const TARGETS: [(&str, Body); 13] = [
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
    ("auth", auth),
];

/// Returns the stored inputs of a target, in the order of their names.
///
/// # Errors
/// If a file cannot be read.
pub fn corpus(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort_unstable();
    paths.into_iter().map(fs::read).collect()
}
