//! Checks the pages: links lead somewhere, the table of features is complete, code is compiled, and
//! the lines that pages count are those of the programs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

/// Where links to files of the repository lead.
const REPOSITORY: [&str; 2] = [
    "https://github.com/mcp-proto/mcp-proto/blob/main/",
    "https://github.com/mcp-proto/mcp-proto/tree/main/",
];

/// What the community asks of an SDK to document with an example, and then what this library has beyond that: see
/// `features.md`.
const FEATURES: [&str; 78] = [
    "list tools",
    "call a tool",
    "text results",
    "image results",
    "audio results",
    "embedded resources in results",
    "failures: `isError`",
    "tools list changed",
    "list resources",
    "read text resources",
    "read binary resources",
    "list resource templates",
    "read by template",
    "subscribe",
    "unsubscribe",
    "resource updated",
    "resources list changed",
    "list prompts",
    "get without arguments",
    "get with arguments",
    "embedded resources in prompts",
    "images in prompts",
    "prompts list changed",
    "sampling",
    "elicitation: request",
    "elicitation: validation",
    "elicitation: defaults",
    "elicitation: enumerations",
    "roots: list",
    "roots: changed",
    "log messages",
    "log level",
    "completion of prompt arguments",
    "completion of resource arguments",
    "ping",
    "progress",
    "cancellation",
    "pagination",
    "capability negotiation",
    "version negotiation",
    "stdio: server",
    "stdio: client",
    "Streamable HTTP: server",
    "Streamable HTTP: client",
    "Streamable HTTP: event streams",
    "Streamable HTTP: sessions",
    "HTTP+SSE: server",
    "HTTP+SSE: client",
    "protection against DNS rebinding",
    "tasks",
    "skills",
    "the core alone",
    "structured output",
    "caching hints",
    "elicitation: URL",
    "several questions in one round",
    "both eras from one handler",
    "subscriptions of 2026-07-28",
    "shared sessions",
    "request headers",
    "authorization: server",
    "authorization: client",
    "middleware",
    "ready-made layers",
    "metrics",
    "retries",
    "events as log messages",
    "spans of requests",
    "trace context",
    "mounted services",
    "proxies",
    "`mcpServers` files",
    "OpenAPI documents",
    "typed clients by `mcp generate`",
    "tests with virtual time",
    "side effects before a question",
    "dropped log messages",
    "cancellation in real time",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("docs/guide lies in the workspace")
        .to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the Markdown files of the root, of `docs`, of the crates and of the other folders with pages.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in [".", ".github", "benches", "core", "docs", "fuzz", "tests"] {
        collect(&normal(&root().join(folder)), folder != ".", &mut found);
    }
    for entry in fs::read_dir(root().join("adapters")).expect("a readable folder") {
        collect(&entry.expect("a readable entry").path(), false, &mut found);
    }
    found.sort();
    found
}

fn collect(folder: &Path, deep: bool, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("a readable entry").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if path.is_dir()
            && deep
            && !["node_modules", "target"].contains(&name)
            && !name.starts_with('.')
        {
            collect(&path, deep, found);
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
}

/// Returns the lines of a page that are not in a code block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the targets of the links of a page.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text).collect::<Vec<_>>().join(" ");
    let parts = prose.split("](").skip(1);
    parts
        .filter_map(|part| Some(part.split_once(')')?.0.split_whitespace().collect()))
        .collect()
}

/// Returns the identifiers of the headings of a page, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// Returns why a link of a page leads nowhere, if it does. Other sites are not asked.
fn dead(page: &Path, link: &str) -> Option<String> {
    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = match REPOSITORY
        .iter()
        .find_map(|start| target.strip_prefix(start))
    {
        Some(path) => root().join(path),
        None if target.contains("://") || target.starts_with("mailto:") => return None,
        None if target.is_empty() => page.to_owned(),
        None => normal(&page.parent()?.join(target)),
    };
    if !path.exists() {
        return Some(format!("{}: there is no {link}", page.display()));
    }
    // The book contains the pages of its folder only.
    let book = root().join("docs/guide/src");
    if page.starts_with(&book) && !target.contains("://") && !path.starts_with(&book) {
        return Some(format!("{}: {link} is not in the book", page.display()));
    }
    let is_page = path.extension().is_some_and(|end| end == "md");
    if is_page && !anchor.is_empty() && !anchors(&read(&path)).contains(anchor) {
        return Some(format!("{}: there is no heading {link}", page.display()));
    }
    None
}

/// Removes `..` from a path.
fn normal(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(found.pop()),
            Component::CurDir => {}
            part => found.push(part),
        }
    }
    found
}

/// Returns the cells of the rows of the tables of a page.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = prose(text).filter(|line| line.starts_with('|') && !line.starts_with("| ---"));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// Returns the section of a page with a heading, up to the next heading.
fn section<'a>(text: &'a str, anchor: &str) -> Vec<&'a str> {
    let mut is_code = false;
    let mut is_inside = anchor.is_empty();
    let mut found = Vec::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        if !is_code && line.starts_with('#') && !anchor.is_empty() {
            is_inside = anchors(line).contains(anchor);
        }
        if is_inside {
            found.push(line);
        }
    }
    found
}

/// Counts the lines of a program that are neither blank nor comments, up to its tests.
fn lines_of_code(text: &str) -> usize {
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("#[cfg(test)]"));
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

fn guide(page: &str) -> PathBuf {
    root().join("docs/guide/src").join(page)
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    assert!(pages.len() > 45, "only {} pages", pages.len());
    let dead: Vec<_> = pages
        .iter()
        .flat_map(|page| {
            links(&read(page))
                .into_iter()
                .filter_map(|link| dead(page, &link))
        })
        .collect();
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn finds_dead_links() {
    let page = guide("tools.md");
    for link in [
        "nothing.md",
        "#nothing",
        "tools.md#nothing",
        "../../../README.md",
        &format!("{}no.rs", REPOSITORY[0]),
    ] {
        assert!(dead(&page, link).is_some(), "{link}");
    }
    for link in [
        "resources.md",
        "#list",
        "tools.md#subscriptions-of-2026-07-28",
        "https://example.com/x",
    ] {
        assert_eq!(dead(&page, link), None);
    }
    assert_eq!(
        links("[a](b) `c`\n```\n[no](code)\n```\n[d\ne](f#g)"),
        ["b", "f#g"]
    );
    assert!(anchors("# HTTP+SSE: server and client").contains("httpsse-server-and-client"));
}

#[test]
fn each_page_of_the_guide_is_in_the_summary_and_compiled() {
    let summary: BTreeSet<String> = links(&read(&guide("SUMMARY.md"))).into_iter().collect();
    let compiled = read(&root().join("docs/guide/lib.rs"));
    for entry in fs::read_dir(guide("")).expect("a readable folder") {
        let name = entry
            .expect("a readable entry")
            .file_name()
            .into_string()
            .expect("UTF-8");
        assert!(
            name == "SUMMARY.md" || summary.contains(&name),
            "{name} is not in the summary"
        );
        let has_code = read(&guide(&name)).contains("```rust");
        assert!(
            !has_code || compiled.contains(&format!("\"src/{name}\"")),
            "{name} is not compiled"
        );
    }
}

#[test]
fn every_block_of_rust_is_compiled() {
    let compiled = read(&root().join("docs/guide/lib.rs"));
    for page in pages() {
        let name = page.strip_prefix(root()).expect("it lies in the workspace");
        // Pages about the tests show comments above tests.
        if ["tests", "fuzz", "benches"]
            .iter()
            .any(|folder| name.starts_with(folder))
        {
            continue;
        }
        let name = name.display().to_string();
        let included = match name.strip_prefix("docs/") {
            Some(name) => name
                .strip_prefix("guide/")
                .map_or_else(|| format!("../{name}"), str::to_owned),
            None => format!("../../{name}"),
        };
        let text = read(&page);
        for line in text.lines().filter(|line| line.starts_with("```rust")) {
            assert!(!line.contains("ignore"), "{name}: {line}");
            let is_compiled = compiled.contains(&format!("\"{included}\""));
            assert!(is_compiled, "lib.rs does not compile the code of {name}");
        }
    }
}

/// The figures of the README beside rmcp are those of the page that a benchmark writes.
#[test]
fn figures_of_the_readme_are_measured() {
    let results = read(&root().join("benches/RESULTS.md"));
    let results = rows(&results);
    let of = |server: &str, width: usize| {
        let found = results
            .iter()
            .find(|row| row[0] == server && row.len() == width);
        found
            .unwrap_or_else(|| panic!("{server} was not measured"))
            .clone()
    };
    // The columns of the two tables about servers over standard input and output.
    let columns = [
        ("calls per second, one by one", 8, 1),
        ("calls per second, 64 unanswered", 8, 2),
        ("instructions per call", 8, 6),
        ("packages linked", 6, 2),
        ("clean build, seconds", 6, 1),
        ("peak memory with 64 MiB of unanswered calls, MiB", 8, 5),
    ];
    let readme = read(&root().join("README.md"));
    let readme = rows(&readme);
    for (figure, width, column) in columns {
        let row = readme.iter().find(|row| row[0] == figure);
        let row = row.unwrap_or_else(|| panic!("README.md has no {figure}"));
        for (shown, server) in row[1..].iter().zip(["tokio", "rmcp", "rmcp, usual"]) {
            assert_eq!(*shown, of(server, width)[column], "{figure} of {server}");
        }
    }
}

/// Returns the code of a page or a section: its blocks of Rust.
fn blocks(lines: &[&str]) -> String {
    let mut is_code = false;
    let mut found = String::new();
    for line in lines {
        if line.starts_with("```") {
            is_code = line.starts_with("```rust");
        } else if is_code {
            found.extend([line.trim_start_matches("# "), "\n"]);
        }
    }
    found
}

/// Returns code without its comments.
fn without_comments(code: &str) -> String {
    let lines = code.lines().map(|line| {
        // A URI such as `docs://readme` begins no comment.
        let is_comment = |at: usize| line[..at].trim_end() != &line[..at] || at == 0;
        let end = line
            .match_indices("//")
            .map(|(at, _)| at)
            .find(|at| is_comment(*at));
        &line[..end.unwrap_or(line.len())]
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns whether code uses a name outside of comments:
///
/// - `Type::member` is used as such, or as `.member`.
/// - An attribute such as `#[serde(default)]` is used with or without a value.
/// - Another name in lower case is a function, and is called.
/// - A type is named.
fn uses(code: &str, name: &str) -> bool {
    let code = without_comments(code);
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let has = |text: &str| {
        code.match_indices(text).any(|(at, _)| {
            let continues = |pair: [Option<char>; 2]| pair.iter().all(|c| c.is_some_and(is_part));
            let (before, after) = (&code[..at], &code[at + text.len()..]);
            !continues([before.chars().next_back(), text.chars().next()])
                && !continues([text.chars().next_back(), after.chars().next()])
        })
    };
    if name.starts_with("#[") {
        return has(name.trim_end_matches([')', ']']));
    }
    match name.rsplit_once("::") {
        Some((_, member)) => has(name) || has(&format!(".{member}")),
        None if name.starts_with(char::is_lowercase) => has(&format!("{name}(")),
        None => has(name),
    }
}

#[test]
fn names_are_found_in_code_only() {
    assert!(uses("    roots.set([root])?; // changed", "Roots::set"));
    assert!(uses("roots\n    .set([root])", "Roots::set"));
    assert!(uses("f(Roots::set)", "Roots::set"));
    assert!(uses("let uri = \"docs://readme\"; call()", "call"));
    for code in [
        "// roots.set(x)",
        "    x(); // set",
        "roots.reset()",
        "roots.set_all()",
        "set_all()",
        "let set = 1; set()",
        "Other::set()",
        "MyRoots::set()",
    ] {
        assert!(!uses(code, "Roots::set"), "{code}");
    }
    assert!(!uses("let call = 1; recall()", "call"));
    assert!(uses("Backend::builder()", "Backend") && !uses("BackendError", "Backend"));
    for code in ["#[serde(default)]", "#[serde(default = \"table\")]"] {
        assert!(uses(code, "#[serde(default)]"), "{code}");
    }
    for code in [
        "Roots::default()",
        "{\"default\": 1}",
        "#[serde(default_of)]",
    ] {
        assert!(!uses(code, "#[serde(default)]"), "{code}");
    }
    let page = [
        "```rust,no_run",
        "# hidden();",
        "shown();",
        "```",
        "```sh",
        "other();",
        "```",
        "prose();",
    ];
    let code = blocks(&page);
    assert!(uses(&code, "hidden") && uses(&code, "shown"));
    assert!(!uses(&code, "other") && !uses(&code, "prose"));
}

/// Names of the standard library, and names that other things have, too.
const UNSPECIFIC: [&str; 7] = ["Default", "Err", "None", "Ok", "Result", "Some", "Store"];

#[test]
fn each_feature_has_a_section_with_code_and_a_program() {
    let text = read(&guide("features.md"));
    let rows: BTreeMap<_, _> = rows(&text)
        .into_iter()
        .map(|row| (row[0], (row[1], row[2], row[3])))
        .filter(|(feature, _)| *feature != "feature")
        .collect();
    for feature in FEATURES {
        assert!(rows.contains_key(feature), "{feature} is not in the table");
    }
    for (feature, (api, shown, program)) in rows {
        let link = links(shown)
            .pop()
            .unwrap_or_else(|| panic!("{feature} has no section"));
        let (page, anchor) = link.split_once('#').unwrap_or((&link, ""));
        let page = read(&guide(page));
        let shown = blocks(&section(&page, anchor));
        let program = links(program)
            .pop()
            .filter(|link| link.ends_with(".rs"))
            .unwrap_or_else(|| panic!("{feature} has no program"));
        let path = program
            .strip_prefix(REPOSITORY[0])
            .expect("a file of the repository");
        let code = read(&root().join(path));
        let names: Vec<_> = api.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{feature} names no API");
        for name in names {
            assert!(
                !UNSPECIFIC.contains(&name),
                "{feature}: {name} is used anywhere"
            );
            assert!(uses(&shown, name), "{feature}: {link} does not use {name}");
            assert!(uses(&code, name), "{feature}: {path} does not use {name}");
        }
    }
}

#[test]
fn counted_lines_are_those_of_the_programs() {
    let mut checked = 0;
    for page in ["rmcp.md", "programs.md"] {
        for row in rows(&read(&guide(page)))
            .into_iter()
            .filter(|row| row.len() == 4)
        {
            let file = row
                .iter()
                .flat_map(|cell| links(cell))
                .find(|link| link.contains("/docs/guide/"));
            let Some(file) = file else { continue };
            let path = root().join(
                file.strip_prefix(REPOSITORY[0])
                    .expect("a file of the repository"),
            );
            let counted = lines_of_code(&read(&path));
            let now: usize = row
                .iter()
                .rev()
                .find_map(|cell| cell.parse().ok())
                .expect("a number of lines");
            assert_eq!(now, counted, "{page}: {}", row[0]);
            if page == "rmcp.md" {
                let before: usize = row[1].parse().expect("a number of lines");
                assert!(
                    2 * now <= before,
                    "{}: {now} lines are more than half of {before}",
                    row[0]
                );
            }
            checked += 1;
        }
    }
    assert_eq!(checked, 13);
}
