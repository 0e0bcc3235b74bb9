//! The public surface of each published crate is the one that `docs/api` lists, so a change of it shows in review.
//!
//! The listing is made from the sources with `syn`: `cargo public-api` and the JSON of rustdoc need a nightly compiler,
//! and this project builds with the stable one. It follows `pub mod` and `pub use` from `lib.rs`. Macros are not
//! expanded: a type that a macro of the crate declares is listed with the members that are written in the call.

mod crate_source;
mod listing;
mod old_names;
mod print;

use std::fs;

use mcp_tests::workspace;

/// The published crates: package and folder.
const CRATES: [(&str, &str); 8] = [
    ("mcp-proto", "core"),
    ("mcp-macros", "adapters/macros"),
    ("mcp-service", "adapters/service"),
    ("mcp-driver", "adapters/driver"),
    ("mcp-blocking", "adapters/blocking"),
    ("mcp-smol", "adapters/smol"),
    ("mcp-tokio", "adapters/tokio"),
    ("mcp-wasm", "adapters/wasm"),
];

const UPDATE: &str = "MCP_UPDATE_API=1 cargo test -p mcp-tests --test api";

#[test]
fn public_surfaces_match_the_listings() {
    let root = workspace::root();
    let folder = root.join("docs/api");
    let mut differ = Vec::new();
    for (package, path) in CRATES {
        let lib = root.join(path).join("src/lib.rs");
        if !lib.is_file() {
            continue;
        }
        let listed = listing::list(&crate_source::read(&lib), &package.replace('-', "_"));
        let file = folder.join(format!("{package}.txt"));
        if std::env::var_os("MCP_UPDATE_API").is_some() {
            fs::create_dir_all(&folder).expect("a folder for the listings");
            fs::write(&file, listed).expect("a listing that can be written");
            continue;
        }
        let known = fs::read_to_string(&file).unwrap_or_default();
        let new = listed.lines().filter(|line| !known.lines().any(|known| known == *line));
        differ.extend(new.map(|line| format!("{package}: + {line}")));
        let gone = known.lines().filter(|known| !listed.lines().any(|line| line == *known));
        differ.extend(gone.map(|line| format!("{package}: - {line}")));
        if differ.is_empty() && known != listed {
            differ.push(format!("{package}: the order of the lines"));
        }
    }
    let count = differ.len();
    differ.truncate(40);
    assert!(
        count == 0,
        "{count} lines of docs/api differ:\n  {}\nIf the change is meant, `{UPDATE}` writes the listings anew; commit them with it.",
        differ.join("\n  ")
    );
}

#[test]
fn lists_the_public_items_of_planted_sources() {
    let folder = std::env::temp_dir().join(format!("mcp-api-{}", std::process::id()));
    fs::create_dir_all(folder.join("room")).expect("a folder");
    let write = |path: &str, text: &str| fs::write(folder.join(path), text).expect("a file");
    write(
        "lib.rs",
        "mod room; pub mod open; pub use room::{Hidden as Shown, deep::*}; pub use other::Thing; mod private;",
    );
    write("open.rs", "pub use crate::room::Hidden; pub(crate) fn f() {} pub const A: u8 = 1;");
    write("private.rs", "pub struct Never;");
    write(
        "room/mod.rs",
        "pub mod deep; pub struct Hidden { pub a: u8, b: u8 } impl Hidden { pub fn get(&self) -> u8 { 1 } fn own() {} }
         impl Clone for Hidden { fn clone(&self) -> Self { Self { ..*self } } }
         #[cfg(test)] mod tests { pub struct Tests; }",
    );
    write(
        "room/deep.rs",
        "#[non_exhaustive] pub enum Kind<T> { One(T), #[doc(hidden)] Two { at: u8 } } pub trait Has: Send { type It; fn it(&self) -> Self::It; }
         object! { #[doc = \"A point.\"] pub struct Point: data { \"x\" => x: required u8; } }",
    );
    let listed = listing::list(&crate_source::read(&folder.join("lib.rs")), "planted");
    fs::remove_dir_all(&folder).expect("a folder that can be removed");
    let expected = [
        "pub enum planted::Kind<T> #[non_exhaustive]",
        "planted::Kind::One(T)",
        "planted::Kind::Two { at: u8 }",
        "pub trait planted::Has: Send",
        "planted::Has::type It",
        "planted::Has::fn it(&self) -> Self::It",
        "pub struct planted::Point by object!",
        "planted::Point: \"x\" => x: required u8",
        "pub struct planted::Shown",
        "planted::Shown::a: u8",
        "planted::Shown::fn get(&self) -> u8",
        "planted::Shown: Clone",
        "pub use other::Thing as planted::Thing",
        "pub mod planted::open",
        "pub const planted::open::A: u8",
        "pub struct planted::open::Hidden",
        "planted::open::Hidden::a: u8",
        "planted::open::Hidden::fn get(&self) -> u8",
        "planted::open::Hidden: Clone",
    ];
    for line in expected {
        assert!(listed.lines().any(|found| found == line), "{line} is missing in\n{listed}");
    }
    for line in listed.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        assert!(expected.contains(&line), "{line} is too much in\n{listed}");
    }
}
