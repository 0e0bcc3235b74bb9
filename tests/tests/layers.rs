//! The layers of the workspace, read from its sources.
//!
//! In each crate imports run down, no cycle has more than three files, and no file imports through its own `lib.rs`.
//! The core uses nothing outside of itself, adapters contain no protocol decisions, and files stay short. `cargo run -p
//! mcp-tests --bin structure` prints the findings.

use std::fmt::Write as _;

use mcp_tests::structure::tokens::{functions, words};
use mcp_tests::structure::{CRATES, LONGEST_FILE, LONGEST_FUNCTION, Report, Rooms, check, sources};
use mcp_tests::workspace::{self, Source};

/// The known faults of each crate: exactly these. A change that removes a fault also removes its row, so the table only
/// shrinks. It is empty.
const KNOWN: [(&str, &[&str]); 0] = [];

/// The names of the core that adapters use: a connection with its clock, frames and close reason, the key of a
/// request, the server's introduction, and for HTTP the response and the caller. There is no method, capability,
/// revision or error, so adapters cannot make protocol decisions.
const KNOWN_TO_ADAPTERS: [&str; 32] = [
    "CallId",
    "Caller",
    "Client",
    "ClientConfig",
    "ClientOptions",
    "ClientRole",
    "CloseReason",
    "Connection",
    "EndpointOptions",
    "ExposedHeads",
    "Event",
    "Frame",
    "HttpResponse",
    "InitializeResult",
    "Limits",
    "LineDecoder",
    "Paths",
    "RequestHead",
    "Policy",
    "Principal",
    "Server",
    "ServerRole",
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

/// Returns whether a file contains only unit tests.
fn is_test(source: &Source) -> bool {
    source.path.with_extension("").iter().any(|part| part == "tests")
}

/// Returns every word in `source` that reaches outside of the core. Unit tests are left out, since they run with a
/// standard library.
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
fn crates_have_only_known_faults() {
    let mut found = Vec::new();
    for member in CRATES {
        let sources = sources(member.folder);
        let faults = check(&sources, member.rooms).faults();
        let known = KNOWN.iter().find(|(name, _)| *name == member.name).map_or(&[][..], |(_, known)| known);
        let new = faults.iter().filter(|fault| !known.contains(&fault.as_str()));
        found.extend(new.map(|fault| format!("{}: not in the table: {fault}", member.name)));
        let gone = known.iter().filter(|known| !faults.iter().any(|fault| fault == *known));
        found.extend(gone.map(|fault| format!("{}: in the table, and not there: {fault}", member.name)));
    }
    if !found.is_empty() {
        found.push("`cargo run -p mcp-tests --bin structure` prints each of them".to_owned());
    }
    report(found);
}

/// The folders of the core are its layers. This rule has no exceptions.
#[test]
fn core_imports_only_run_downward() {
    let core = CRATES[0];
    let found = check(&sources(core.folder), core.rooms);
    report(found.upward.into_iter().chain(found.without_room).collect());
}

#[test]
fn core_does_not_use_io_clocks_or_randomness() {
    let sources = sources("core");
    assert!(!sources.is_empty(), "no sources found");
    report(sources.iter().filter(|source| !is_test(source)).flat_map(outside).collect());
}

#[test]
fn core_is_no_std_and_forbids_unsafe() {
    let lib = sources("core").into_iter().find(|source| source.path.ends_with("lib.rs")).expect("lib.rs");
    for line in ["#![no_std]", "#![forbid(unsafe_code)]"] {
        assert!(lib.text.lines().any(|found| found == line), "{line} is missing");
    }
}

/// Returns the names of the core in a source that an adapter must not use.
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
    // Adapters pass events on unchanged. They only match `Event::Closed`, after which they finish.
    for (at, _) in source.text.match_indices("Event::") {
        if !source.text[at..].starts_with("Event::Closed") {
            fault("an event that is looked into".to_owned());
        }
    }
    found
}

#[test]
fn adapters_contain_no_protocol_decisions() {
    for adapter in ["blocking", "smol", "tokio", "wasm"] {
        let root = workspace::root().join("adapters").join(adapter);
        let sources = workspace::sources(&root, &["src"], &["rs"]).expect("readable sources");
        report(sources.iter().flat_map(decides).collect());
    }
}

#[test]
fn finds_protocol_decisions_in_adapters() {
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

/// Returns the functions that are too long, as `path:line: function`.
fn long_functions(source: &Source) -> Vec<String> {
    let long = functions(&source.text).into_iter().filter(|function| function.lines > LONGEST_FUNCTION);
    long.map(|it| format!("{}:{}: `{}` has {} lines", source.path.display(), it.line, it.name, it.lines)).collect()
}

#[test]
fn functions_stay_short() {
    let sources = workspace::sources(&workspace::root(), &workspace::CODE, &["rs"]).expect("readable sources");
    report(sources.iter().flat_map(long_functions).collect());
}

#[test]
fn finds_long_functions_of_tests() {
    let body = "\n    f();".repeat(79);
    let text = format!("#[cfg(test)]\nmod tests {{\n#[test]\nfn f() {{{body}\n}}\nfn g(); fn h() {{}}\n}}");
    assert_eq!(long_functions(&source("a.rs", &text)), ["a.rs:4: `f` has 81 lines"]);
}

fn source(path: &str, text: &str) -> Source {
    Source { path: path.into(), text: text.into() }
}

const ROOMS: Rooms = &[&["codec"], &["wire"], &["rpc"], &["protocol"], &["schema", "cache"], &["connection"]];

/// Checks sources against the rooms above.
fn checked(files: &[(&str, &str)]) -> Report {
    check(&files.iter().map(|(path, text)| source(path, text)).collect::<Vec<_>>(), ROOMS)
}

/// The files that imports of the layers below and above resolve to.
const AROUND: [(&str, &str); 4] = [
    ("lib.rs", "mod rpc; mod schema; mod wire; mod protocol; pub use wire::Id;"),
    ("wire/mod.rs", "pub struct Id; pub fn f() {}"),
    ("schema/mod.rs", "mod tool; pub use tool::{Prompt, Tool};"),
    ("schema/tool.rs", "pub struct Tool; pub struct Prompt;"),
];

#[test]
fn finds_upward_imports() {
    for text in [
        "use crate::schema::Tool;",
        "use crate::schema;",
        "pub(crate) use crate::{wire::Id, schema::Tool};",
        "use super::super::schema::Tool;",
        "use super::{super::{schema, wire}, slot};",
        "fn f() -> crate::schema::Tool { g::<crate::wire::Id>() }",
        "macro_rules! m { () => { $crate::schema::Tool } }",
        "mod inner { use super::super::super::schema; }",
        "mod inner { fn f(t: super::super::super::schema::Tool) {} }",
        "use crate::{self as all, schema as s};",
    ] {
        let planted = [AROUND.as_slice(), &[("rpc/mod.rs", "mod outgoing; mod slot;"), ("rpc/outgoing.rs", text)]];
        assert_eq!(checked(&planted.concat()).upward.len(), 1, "{text}");
    }
    let rooms_of_one_layer = [AROUND.as_slice(), &[("cache.rs", "use crate::schema::Tool;")]].concat();
    assert_eq!(checked(&rooms_of_one_layer).upward, ["cache.rs:1: `cache` uses `crate::schema::Tool` of `schema`"]);
    assert_eq!(checked(&[("cellar.rs", "")]).without_room, ["cellar.rs"]);
}

#[test]
fn accepts_downward_imports() {
    for text in [
        "use crate::{wire::{self, Id}, rpc};",
        "use super::{Kind, super::wire::Id};",
        "//! Like `crate::schema`.\n/// See [`crate::schema::Tool`].\n// use crate::schema;\nconst A: &str = \"crate::schema\";",
        "mod inner { use super::*; use super::super::Sender; pub(in crate::protocol) use self::schema; }",
        "pub(crate) fn f() {}",
        "use schema_of::schema;",
        "#[cfg(test)] mod tests { use crate::schema::Tool; }",
        "#[cfg(test)] use crate::schema::Tool;",
    ] {
        let planted = [AROUND.as_slice(), &[("protocol/mod.rs", "mod method;"), ("protocol/method.rs", text)]];
        assert_eq!(checked(&planted.concat()).upward, [""; 0], "{text}");
    }
}

#[test]
fn finds_imports_through_lib() {
    for text in
        ["use crate::Id;", "use crate::{Id as Number, wire};", "fn f(id: crate::Id) {}", "use super::super::Id;"]
    {
        let planted = [AROUND.as_slice(), &[("rpc/mod.rs", "mod slot;"), ("rpc/slot.rs", text)]].concat();
        assert_eq!(checked(&planted).through_lib.len(), 1, "{text}");
    }
    let direct = [AROUND.as_slice(), &[("rpc/mod.rs", "use crate::wire::Id;")]].concat();
    assert_eq!(checked(&direct).through_lib, [""; 0]);
}

#[test]
fn finds_import_cycles_through_re_exports() {
    let lib = ("lib.rs", "mod wire; pub use wire::{A, B};");
    let front = ("wire/mod.rs", "mod a; mod b; pub use {a::A, b::B};");
    for (one, other) in [
        ("use super::B; pub struct A(B);", "use super::A; pub struct B(A);"),
        ("use crate::B; pub struct A(B);", "pub struct B(crate::wire::A);"),
        ("use super::*; pub struct A(B);", "use super::a; pub struct B(a::A);"),
        ("pub struct A(super::b::B);", "macro_rules! m { () => { super::A } } pub struct B;"),
    ] {
        let found = checked(&[lib, front, ("wire/a.rs", one), ("wire/b.rs", other)]);
        assert_eq!(found.circles, [["wire/a.rs", "wire/b.rs"]], "{one} {other}");
        assert_eq!(found.ties.len(), 2, "{one} {other}");
    }
    let one_way = [lib, front, ("wire/a.rs", "use super::B; pub struct A(B);"), ("wire/b.rs", "pub struct B;")];
    assert_eq!(checked(&one_way).circles, [[""; 0]; 0]);
}

#[test]
fn reports_import_cycles_of_four_files() {
    let around = |last| {
        checked(&[
            ("wire/mod.rs", "mod a; mod b; mod c; mod d;"),
            ("wire/a.rs", "use super::b::B; pub struct A(B);"),
            ("wire/b.rs", "use super::c::C; pub struct B(C);"),
            ("wire/c.rs", "use super::d::D; pub struct C(D);"),
            ("wire/d.rs", last),
        ])
    };
    assert_eq!(around("pub struct D(super::a::A);").faults(), ["circle of 4 files in src/wire"]);
    assert_eq!(around("pub struct D(super::b::B);").faults(), [""; 0]);
    assert_eq!(around("pub struct D;").circles, [[""; 0]; 0]);
    assert_eq!(around("pub struct D; #[cfg(test)] mod tests { use super::super::a::A; }").circles, [[""; 0]; 0]);
}

#[test]
fn finds_import_cycles_through_macros() {
    let found = checked(&[
        ("lib.rs", "mod wire;"),
        ("wire/mod.rs", "#[macro_use] mod macros; mod id;"),
        ("wire/macros.rs", "macro_rules! number { () => { $crate::wire::id::Id } }"),
        ("wire/id.rs", "pub struct Id; fn f() { number!() }"),
    ]);
    assert_eq!(found.circles, [["wire/macros.rs", "wire/id.rs"]]);
}

#[test]
fn finds_long_functions_and_files() {
    let body = "\n    f();".repeat(78);
    let found = checked(&[("wire.rs", &format!("fn f() {{{body}\n}}\nfn g() {{{body}\n\n}}"))]);
    assert_eq!(found.long_functions, ["wire.rs:81: `g` has 81 lines"]);
    assert_eq!(checked(&[("wire.rs", &"\n".repeat(601))]).long_files, ["wire.rs: 601 lines"]);
}

#[test]
fn finds_io_clock_and_randomness_uses() {
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
