//! The layout of the house, read from its sources: which floor of the core uses which, that the core touches nothing outside of
//! itself, that adapters decide nothing, and that files stay short.

mod tokens;

use std::fmt::Write as _;

use mcp_tests::workspace::{self, Source};
use tokens::{Place, paths, words};

/// The floors of the core, lowest first. A floor imports only from floors below it.
const FLOORS: [&str; 9] = ["codec", "wire", "rpc", "protocol", "schema", "cache", "connection", "http", "auth"];

const LONGEST_FILE: usize = 800;

/// What adapters know of the core: a connection, its clock, its frames and its end, what a server says of itself, and of HTTP
/// what an answer is and who may come in. No method, no capability, no revision, no error: nothing that could be decided by.
const KNOWN_TO_ADAPTERS: [&str; 28] = [
    "Address",
    "Answer",
    "Caller",
    "Client",
    "ClientConfig",
    "ClientEnd",
    "CloseReason",
    "Connection",
    "Event",
    "Frame",
    "InitializeResult",
    "Limits",
    "LineDecoder",
    "Options",
    "Paths",
    "Policy",
    "Server",
    "ServerEnd",
    "Timestamp",
    "as",
    // Modules.
    "client",
    "codec",
    "connection",
    "http",
    "mcp_proto",
    "rpc",
    "schema",
    "server",
];

/// Modules of the standard library that reach outside of the program.
const OUTSIDE: [&str; 7] = ["env", "fs", "io", "net", "os", "process", "thread"];

/// Names that stand for clocks, threads or randomness wherever they come from.
const OUTSIDE_NAMES: [&str; 12] = [
    "Instant",
    "JoinHandle",
    "RandomState",
    "SystemTime",
    "ThreadId",
    "fastrand",
    "getrandom",
    "libc",
    "rand",
    "rustix",
    "thread_local",
    "tokio",
];

fn core_sources() -> Vec<Source> {
    let mut sources = workspace::sources(&workspace::root().join("core"), &["src"], &["rs"]).expect("readable sources");
    for source in &mut sources {
        source.path = source.path.strip_prefix("src").expect("a path in src").to_owned();
    }
    assert!(!sources.is_empty(), "no sources found");
    sources
}

/// The module path of a file in `core/src`: `rpc/mod.rs` is `["rpc"]`, `lib.rs` is `[]`.
fn module_of(source: &Source) -> Vec<String> {
    let mut module: Vec<String> =
        source.path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod" || last == "lib") {
        module.pop();
    }
    module
}

/// Every path in `source` that leads from its floor to another one that is not below it.
fn upward(source: &Source) -> Vec<String> {
    let module = module_of(source);
    let Some(floor) = module.first() else { return Vec::new() };
    let at = |path: &Place, what: String| format!("{}:{}: {what}", source.path.display(), path.line);
    let Some(own) = FLOORS.iter().position(|name| name == floor) else {
        return vec![format!("{}: `{floor}` is no floor", source.path.display())];
    };
    let mut found = Vec::new();
    for path in paths(&source.text, &module) {
        match FLOORS.iter().position(|name| *name == path.to) {
            Some(other) if other <= own => {}
            Some(_) => found.push(at(&path, format!("`{floor}` uses `{}`, which is above it", path.to))),
            None => found.push(at(&path, format!("`crate::{}` names no floor", path.to))),
        }
    }
    found
}

/// Every word in `source` that reaches outside of the core. Unit tests are left out: they run where there is a standard library.
fn outside(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for word in words(&source.text) {
        let reaches_out = match word.after_std.as_deref() {
            Some(path) => OUTSIDE.contains(&path),
            None => OUTSIDE_NAMES.contains(&word.text.as_str()),
        };
        if reaches_out {
            let path = word.after_std.map_or(word.text, |path| format!("std::{path}"));
            found.push(format!("{}:{}: `{path}`", source.path.display(), word.line));
        }
    }
    found
}

fn report(found: Vec<String>) {
    let list = found.iter().fold(String::new(), |mut list, line| {
        let _ = write!(list, "\n  {line}");
        list
    });
    assert!(found.is_empty(), "{list}");
}

#[test]
fn no_floor_imports_from_a_floor_above() {
    report(core_sources().iter().flat_map(upward).collect());
}

#[test]
fn the_core_touches_nothing_outside() {
    let sources = core_sources();
    let shipped = sources.iter().filter(|source| module_of(source).iter().all(|name| name != "tests"));
    report(shipped.flat_map(outside).collect());
}

#[test]
fn the_core_is_no_std_and_safe() {
    let lib = core_sources().into_iter().find(|source| module_of(source).is_empty()).expect("lib.rs");
    for line in ["#![no_std]", "#![forbid(unsafe_code)]"] {
        assert!(lib.text.lines().any(|found| found == line), "{line} is missing");
    }
}

/// What a source uses of the core that an adapter has no business with.
fn decides(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut fault = |what: String| found.push(format!("{}: {what}", source.path.display()));
    let code: String = source.text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    for (at, _) in code.match_indices("mcp_proto::") {
        let mut open = 0;
        let end = code[at..].find(|c: char| {
            open += i32::from(c == '{') - i32::from(c == '}');
            open < 0 || open == 0 && matches!(c, ';' | ',' | '(' | ')' | '<' | '>')
        });
        let path = &code[at..at + end.expect("a path ends")];
        for name in path.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty()) {
            if !KNOWN_TO_ADAPTERS.contains(&name) {
                fault(format!("`{name}`"));
            }
        }
    }
    // It is passed on as it is; only the last one is looked at, to go home after it.
    for (at, _) in source.text.match_indices("Event::") {
        if !source.text[at..].starts_with("Event::Closed") {
            fault("an event that is looked into".to_owned());
        }
    }
    found
}

#[test]
fn adapters_decide_nothing() {
    for adapter in ["blocking", "smol", "tokio"] {
        let root = workspace::root().join("adapters").join(adapter);
        let sources = workspace::sources(&root, &["src"], &["rs"]).expect("readable sources");
        report(sources.iter().flat_map(decides).collect());
    }
}

#[test]
fn what_an_adapter_should_not_know_is_found() {
    for text in [
        "use mcp_proto::{connection::Connection, protocol::Method};",
        "fn f() -> bool { mcp_proto::protocol::has(1) }",
        "use mcp_proto::connection::Event;\nfn f(event: &Event) -> bool { matches!(event, Event::Ready) }",
    ] {
        assert!(!decides(&source("driver.rs", text)).is_empty(), "{text}");
    }
}

#[test]
fn files_stay_short() {
    let sources = workspace::sources(&workspace::root(), &workspace::CODE, &["rs"]).expect("readable sources");
    assert!(sources.len() > 5, "only {} files found", sources.len());
    let length = |source: &Source| source.text.lines().count();
    let long = sources.iter().filter(|source| length(source) > LONGEST_FILE);
    report(long.map(|source| format!("{}: {} lines", source.path.display(), length(source))).collect());
}

fn source(path: &str, text: &str) -> Source {
    Source { path: path.into(), text: text.into() }
}

#[test]
fn an_import_that_runs_upward_is_found() {
    for text in [
        "use crate::schema::Tool;",
        "pub(crate) use crate::{wire::Id, schema::{Tool, Prompt}};",
        "use super::super::schema::Tool;",
        "use super::{super::{schema, wire}, slot};",
        "fn f() -> crate::schema::Tool { g::<crate::wire::Id>() }",
        "macro_rules! m { () => { $crate::schema::Tool } }",
        "mod inner { use super::super::super::schema; }",
        "mod inner { fn f(t: super::super::super::schema::Tool) {} }",
        "use crate::{self as all, schema as s};",
    ] {
        assert_eq!(upward(&source("rpc/outgoing.rs", text)).len(), 1, "{text}");
    }
    assert_eq!(upward(&source("codec/mod.rs", "use super::wire;")).len(), 1);
    assert_eq!(upward(&source("wire/mod.rs", "use crate::Tool;")), ["wire/mod.rs:1: `crate::Tool` names no floor"]);
    assert_eq!(upward(&source("wire/mod.rs", "\nuse crate::*;")), ["wire/mod.rs:2: `crate::*` names no floor"]);
    assert_eq!(upward(&source("cellar.rs", "")), ["cellar.rs: `cellar` is no floor"]);
}

#[test]
fn an_import_that_runs_downward_is_fine() {
    for text in [
        "use crate::{wire::{self, Id}, rpc};\nuse crate::protocol::Method;",
        "use super::{Kind, super::wire::Id};",
        "//! Like `crate::schema`.\n/// See [`crate::schema::Tool`].\n// use crate::schema;\nconst A: &str = \"crate::schema\";",
        "mod inner { use super::*; use super::super::Party; pub(in crate::protocol) use self::schema; }",
        "pub(crate) fn f() {}",
        "use schema_of::schema;",
    ] {
        assert_eq!(upward(&source("protocol/method.rs", text)), [""; 0], "{text}");
    }
    assert_eq!(upward(&source("lib.rs", "pub use crate::auth::Anything;")), [""; 0]);
}

#[test]
fn what_reaches_outside_is_found() {
    for text in [
        "use std::net::TcpStream;",
        "use std::{fmt, io::{self, Read}};",
        "fn f() { std::thread::spawn(g) }",
        "use std::time::{Duration, Instant};",
        "fn f() { let _ = std::time::SystemTime::now(); }",
        "use rand::Rng;",
        "extern crate libc;",
        "#[cfg(feature = \"std\")] fn f() { ::std::fs::read(p) }",
        "use foldhash::fast::RandomState;",
    ] {
        assert_eq!(outside(&source("rpc/a.rs", text)).len(), 1, "{text}");
    }
    for text in [
        "extern crate std; use std::error::Error; use core::time::Duration;",
        "#[cfg(test)] mod tests { use std::thread; }",
        "#[cfg(test)]\n#[allow(dead_code)]\nfn f() { std::thread::spawn(g) }\n",
        "#[cfg(any(test, feature = \"std\"))] extern crate std;",
        "// std::thread\nconst A: &str = \"rand\"; struct Brand { operand: u8 }",
    ] {
        assert_eq!(outside(&source("rpc/a.rs", text)), [""; 0], "{text}");
    }
    let tested_or_not = "#[cfg(not(test))] fn f() { std::thread::spawn(g) }";
    assert_eq!(outside(&source("rpc/a.rs", tested_or_not)).len(), 1);
}
