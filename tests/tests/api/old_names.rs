//! The old names of `docs/glossary.md` are no public names any more, and no page uses them.

use std::collections::BTreeSet;
use std::fs;

use mcp_tests::workspace;

/// The headings of the two parts of the glossary that this test reads.
const CHANGED: &str = "## Names that changed before 0.1.0";
const REUSED: &str = "### Old names that mean something else";

/// A name, with the type or module in which it lies. An old name without an owner was a name anywhere.
type Name = (Option<String>, String);

/// Returns the first cells of the rows of the tables in `text`.
fn first_cells(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.filter_map(|line| line.split('|').nth(1))
}

fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Reads the names in a code span of the glossary: `a`, `A::b`, or `A::{b, c}`. The last two segments count.
fn names(span: &str) -> Vec<Name> {
    let span = span.split(['(', '<']).next().unwrap_or_default();
    let (owner, last) = match span.split_once("::{") {
        Some((owner, list)) => (Some(owner), list.trim_end_matches('}')),
        None => span.rsplit_once("::").map_or((None, span), |(owner, last)| (Some(owner), last)),
    };
    let owner = owner.map(|owner| owner.rsplit("::").next().unwrap_or_default().to_owned());
    last.split(", ").filter(|name| is_word(name)).map(|name| (owner.clone(), name.to_owned())).collect()
}

/// Returns the name that a line of `docs/api` lists.
fn listed(line: &str) -> Option<Name> {
    let mut path = String::new();
    let mut depth = 0;
    for word in line.split_inclusive(' ') {
        let is_keyword = ["pub", "const", "async", "fn", "struct", "enum", "trait", "type", "static", "mod", "use"];
        // `mcp_service::Context::fn elicit` has the keyword in front of the last segment.
        let start = word.trim_end().rsplit("::").next().unwrap_or_default();
        if is_keyword.contains(&start) {
            path.push_str(word.trim_end().trim_end_matches(start));
            continue;
        }
        path.push_str(word);
        break;
    }
    let mut plain = String::new();
    for c in path.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth > 0 => {}
            c if c.is_alphanumeric() || c == '_' || c == ':' => plain.push(c),
            _ => break,
        }
    }
    let mut segments = plain.trim_end_matches(':').rsplit("::").map(str::to_owned);
    let name = segments.next().filter(|name| is_word(name))?;
    Some((segments.next(), name))
}

/// The public names of all crates.
fn public_names() -> BTreeSet<Name> {
    let folder = workspace::root().join("docs/api");
    let mut names = BTreeSet::new();
    for (package, _) in crate::CRATES {
        let text = fs::read_to_string(folder.join(format!("{package}.txt"))).expect("a listing");
        names.extend(text.lines().filter(|line| !line.starts_with('#')).filter_map(listed));
    }
    names
}

/// The old names of the glossary, and those of them that are also names of something else.
fn glossary() -> (BTreeSet<Name>, BTreeSet<String>) {
    let text = fs::read_to_string(workspace::root().join("docs/glossary.md")).expect("a glossary");
    let (_, text) = text.split_once(CHANGED).expect("the part about changed names");
    let (changed, reused) = text.split_once(REUSED).expect("the part about reused names");
    let old = first_cells(changed).flat_map(code_spans).flat_map(names).collect();
    (old, first_cells(reused).flat_map(code_spans).map(str::to_owned).collect())
}

/// Returns whether a name is no ordinary word: it has a capital letter or an underscore.
fn is_distinct(name: &str) -> bool {
    name.contains(|c: char| c.is_uppercase() || c == '_')
}

#[test]
fn old_names_are_not_public() {
    let (old, reused) = glossary();
    assert!(old.len() > 400, "only {} old names found", old.len());
    let public = public_names();
    assert!(public.contains(&(Some("Context".to_owned()), "elicit".to_owned())), "the listings were not read");
    let plain: BTreeSet<&str> = public.iter().map(|(_, name)| name.as_str()).collect();
    let is_public = |(owner, name): &Name| match owner {
        Some(_) => public.contains(&(owner.clone(), name.clone())),
        None => is_distinct(name) && plain.contains(name.as_str()) && !reused.contains(name),
    };
    let found: Vec<_> = old.iter().filter(|name| is_public(name)).collect();
    assert!(found.is_empty(), "public, and not in the table of reused names: {found:?}");
    let stale: Vec<_> = reused.iter().filter(|name| !old.contains(&(None, (*name).clone()))).collect();
    assert!(stale.is_empty(), "reused, and no old names: {stale:?}");
}

#[test]
fn pages_do_not_use_old_names() {
    let (old, reused) = glossary();
    let is_old = |word: &str| is_distinct(word) && !reused.contains(word) && old.contains(&(None, word.to_owned()));
    let root = workspace::root();
    let mut pages =
        workspace::sources(&root, &["core", "adapters", "tests", "fuzz", "benches", "docs"], &["md"]).expect("pages");
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"] {
        let text = fs::read_to_string(root.join(page)).expect("a page");
        pages.push(workspace::Source { path: page.into(), text });
    }
    pages.retain(|page| !page.path.ends_with("glossary.md"));
    let mut found = Vec::new();
    for page in &pages {
        for (at, line) in page.text.lines().enumerate() {
            let words = code_spans(line).flat_map(|span| span.split(|c: char| !c.is_alphanumeric() && c != '_'));
            let words = words.filter(|word| is_old(word));
            found.extend(words.map(|word| format!("{}:{}: {word}", page.path.display(), at + 1)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn reads_names_of_listings_and_of_the_glossary() {
    let name = |owner: &str, name: &str| Some((Some(owner.to_owned()), name.to_owned()));
    assert_eq!(listed("pub trait a::Application<E>: Send"), name("a", "Application"));
    assert_eq!(listed("a::Context<E>::const fn id(&self) -> u8"), name("Context", "id"));
    assert_eq!(listed("a::Event::Closed(CloseReason)"), name("Event", "Closed"));
    assert_eq!(listed("a::b::Point::x: u8"), name("Point", "x"));
    assert_eq!(names("A::{b, c}"), [(Some("A".to_owned()), "b".to_owned()), (Some("A".to_owned()), "c".to_owned())]);
    assert_eq!(names("ask()"), [(None, "ask".to_owned())]);
}
