//! Checks the prose of the repository: words that it avoids, the width of Markdown and of comments, and paths on pages.

use std::fmt::Write as _;
use std::fs;

use mcp_tests::workspace::{self, Source};

/// Pronouns that replace the name of a component. Each line with one of them counts once.
const PRONOUNS: [&str; 3] = ["whoever", "nobody", "somebody"];

/// The exact number of such lines in each folder. A change that rewords a line also changes the number here, so the
/// numbers only shrink.
const KNOWN: [(&str, usize); 18] = [
    ("core", 0),
    ("adapters/service", 0),
    ("adapters/macros", 0),
    ("adapters/driver", 0),
    ("adapters/blocking", 0),
    ("adapters/smol", 0),
    ("adapters/tokio", 0),
    ("adapters/wasm", 0),
    ("adapters/cli", 0),
    ("adapters/examples", 0),
    ("adapters/tests", 0),
    ("tests", 0),
    ("fuzz", 0),
    ("benches", 0),
    ("docs", 0),
    (".ci", 0),
    (".github", 0),
    (".", 0),
];

/// The widest line of Markdown outside of tables and code blocks, in characters.
const WIDEST: usize = 100;

/// The widest line of a comment in a source file, in characters. `cargo fmt` does not wrap comments.
const WIDEST_COMMENT: usize = 120;

/// The longest name of a test, in characters.
const LONGEST_NAME: usize = 60;

/// Reads the files of a folder, or those that lie in the root itself.
fn files(folder: &str, extensions: &[&str]) -> Vec<Source> {
    let root = workspace::root();
    if folder != "." {
        return workspace::sources(&root, &[folder], extensions).expect("readable sources");
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(&root).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        let is_wanted = path.extension().and_then(|end| end.to_str()).is_some_and(|end| extensions.contains(&end));
        if is_wanted && path.is_file() {
            let text = fs::read_to_string(&path).expect("a readable file");
            found.push(Source { path: path.file_name().expect("a name").into(), text });
        }
    }
    found
}

/// Returns the lines with a pronoun, as `path:line: text`.
fn pronouns(source: &Source) -> Vec<String> {
    let lines = source.text.lines().enumerate().filter(|(_, line)| {
        let line = line.to_lowercase();
        line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| PRONOUNS.contains(&word))
    });
    lines.map(|(at, line)| format!("{}:{}: {}", source.path.display(), at + 1, line.trim())).collect()
}

/// Returns the lines of Markdown that are too wide, as `path:line: width`.
fn wide(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (at, line) in source.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let width = line.chars().count();
        // A single word cannot be broken: an address, for example.
        let is_one_word = line.split_whitespace().count() <= 1;
        if width > WIDEST && !is_code && !is_one_word && !line.starts_with('|') {
            found.push(format!("{}:{}: {width} columns", source.path.display(), at + 1));
        }
    }
    found
}

/// Returns the lines of comments that are too wide, as `path:line: width`. Tables, code and lists of requirements
/// cannot be broken.
fn wide_comments(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (at, line) in source.text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_code = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        if comment.starts_with("```") {
            is_code = !is_code;
        }
        let width = line.chars().count();
        let is_one_word = comment.split_whitespace().count() <= 1;
        let is_table = comment.starts_with('|') || comment.starts_with("req: ");
        if width > WIDEST_COMMENT && !is_code && !is_one_word && !is_table {
            found.push(format!("{}:{}: {width} columns", source.path.display(), at + 1));
        }
    }
    found
}

/// Returns the paths in code spans that lead from the root of the workspace and do not exist, as `page:line: path`.
fn dead_paths(source: &Source) -> Vec<String> {
    let root = workspace::root();
    let mut found = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        for span in line.split('`').skip(1).step_by(2) {
            let is_path = KNOWN.iter().any(|(folder, _)| *folder != "." && span.starts_with(&format!("{folder}/")))
                && span.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
            if is_path && !root.join(span).exists() {
                found.push(format!("{}:{}: there is no {span}", source.path.display(), at + 1));
            }
        }
    }
    found
}

fn report(found: &[String]) {
    let list = found.iter().fold(String::new(), |mut list, line| {
        let _ = write!(list, "\n  {line}");
        list
    });
    assert!(found.is_empty(), "{list}");
}

#[test]
fn pronoun_counts_match_the_table() {
    let mut found = Vec::new();
    for (folder, known) in KNOWN {
        let sources = files(folder, &["rs", "md", "toml", "csv", "lua", "mjs", "patch", "py", "sh"]);
        let lines: Vec<String> =
            sources.iter().filter(|source| !source.path.ends_with(file!())).flat_map(pronouns).collect();
        if lines.len() != known {
            found.push(format!("{folder}: {} lines with {PRONOUNS:?}, and {known} in the table", lines.len()));
            // `git grep -iwE` finds all of them.
            found.extend(lines.into_iter().take(10));
        }
    }
    report(&found);
}

#[test]
fn markdown_lines_are_at_most_100_columns() {
    let mut pages = files(".", &["md"]);
    for (folder, _) in KNOWN.iter().filter(|(folder, _)| *folder != ".") {
        pages.extend(files(folder, &["md"]));
    }
    assert!(pages.len() > 10, "only {} pages found", pages.len());
    report(&pages.iter().flat_map(wide).collect::<Vec<_>>());
}

#[test]
fn comments_are_at_most_120_columns() {
    let folders = KNOWN.iter().map(|(folder, _)| *folder);
    let sources: Vec<_> = folders.flat_map(|folder| files(folder, &["rs"])).collect();
    assert!(sources.len() > 100, "only {} sources found", sources.len());
    report(&sources.iter().flat_map(wide_comments).collect::<Vec<_>>());
}

/// Returns the functions with a name of more than 60 characters, as `path:line: name`. Only tests have such names.
fn long_names(source: &Source) -> Vec<String> {
    let names = source.text.lines().enumerate().filter_map(|(at, line)| {
        let (_, name) = line.split_once("fn ").filter(|_| declares_function(line.trim()))?;
        Some((at + 1, name.split(['(', '<']).next()?))
    });
    let long = names.filter(|(_, name)| name.len() > LONGEST_NAME);
    long.map(|(at, name)| format!("{}:{at}: {name}", source.path.display())).collect()
}

#[test]
fn names_of_tests_are_short() {
    let sources: Vec<_> = KNOWN.iter().flat_map(|(folder, _)| files(folder, &["rs"])).collect();
    report(&sources.iter().flat_map(long_names).collect::<Vec<_>>());
    let name = "n".repeat(61);
    let planted = Source { path: "a.rs".into(), text: format!("#[test]\nfn {name}() {{}}\nfn {}() {{}}", &name[1..]) };
    assert_eq!(long_names(&planted), [format!("a.rs:2: {name}")]);
}

#[test]
fn paths_in_pages_exist() {
    // The changelog names files that existed earlier.
    let mut pages = files(".", &["md"]);
    pages.retain(|page| !page.path.ends_with("CHANGELOG.md"));
    for folder in ["docs", "tests", "benches", "fuzz"] {
        pages.extend(files(folder, &["md"]));
    }
    report(&pages.iter().flat_map(dead_paths).collect::<Vec<_>>());
}

#[test]
fn finds_pronouns_and_wide_lines() {
    let source = |text: &str| Source { path: "page.md".into(), text: text.to_owned() };
    for text in ["/// Whoever asks.", "a nobody", "// of somebody's", "NOBODY"] {
        assert_eq!(pronouns(&source(text)).len(), 1, "{text}");
    }
    for text in ["who ever", "everybody", "is_nobody()", "whoeverness"] {
        assert_eq!(pronouns(&source(text)), [""; 0], "{text}");
    }
    assert_eq!(dead_paths(&source("`core/src/lib.rs`, `core/cellar.rs`")), ["page.md:1: there is no core/cellar.rs"]);
    let words = "word ".repeat(21);
    assert_eq!(wide(&source(&format!("\n{words}"))), ["page.md:2: 105 columns"]);
    for text in [format!("```\n{words}\n```"), format!("|{words}|"), "w".repeat(101), "word ".repeat(20)] {
        assert_eq!(wide(&source(&text)), [""; 0], "{text}");
    }
    let words = "word ".repeat(24);
    assert_eq!(wide_comments(&source(&format!("fn a() {{\n    //! {words}"))), ["page.md:2: 128 columns"]);
    let code = format!("/// ```\n/// {words}\n/// ```");
    let address = format!("/// {}", "w".repeat(121));
    for text in [code, format!("/// | {words}"), format!("// req: {words}"), address, format!("\"{words}\"")] {
        assert_eq!(wide_comments(&source(&text)), [""; 0], "{text}");
    }
}

/// The folders of code whose doc comments the sentence rules hold for.
const PUBLISHED: [&str; 9] = [
    "core/src",
    "adapters/service/src",
    "adapters/macros/src",
    "adapters/driver/src",
    "adapters/blocking/src",
    "adapters/smol/src",
    "adapters/tokio/src",
    "adapters/wasm/src",
    "adapters/cli/src",
];

/// Words that begin a clause in place of a name: "What is stored".
const CLAUSES: [&str; 9] = ["What", "Who", "Whatever", "That", "Those", "Why", "Which", "Until", "As"];

/// Returns the first word of a text.
fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}

/// Returns whether a line declares a function or a method.
fn declares_function(line: &str) -> bool {
    let is_modifier = |word: &str| word.is_empty() || word.starts_with("pub") || word.ends_with(')');
    let is_keyword = |word: &str| ["default", "const", "async"].contains(&word);
    let (start, _) = line.split_once("fn ").unwrap_or(("=", ""));
    start.split(' ').all(|word| is_modifier(word) || is_keyword(word))
}

/// Returns the items with a first sentence that breaks a rule, as `path:line: sentence`. The first word about a
/// function is a verb in the third person: it ends with "s". No sentence begins with a clause in place of a name, also
/// that of a module. Tests in the same file are left out, because their comments say why a test exists.
fn first_sentences(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut report = |at: usize, text: &str| found.push(format!("{}:{at}: {text}", source.path.display()));
    let text = source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut first = None;
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if let Some(text) = line.strip_prefix("//!").filter(|_| at == 0)
            && CLAUSES.contains(&first_word(text.trim()))
        {
            report(1, text.trim());
        }
        if let Some(text) = line.strip_prefix("///") {
            // A first line that a macro writes is no text of the source: `#[doc = concat!(..)]`.
            first.get_or_insert((at + 1, text.trim()));
            continue;
        }
        if line.starts_with("#[") || line.starts_with("//") {
            continue;
        }
        let Some((at, text)) = first.take().filter(|(_, text)| !text.is_empty()) else { continue };
        let word = first_word(text);
        let is_verb = word.starts_with(char::is_uppercase) && word.ends_with('s');
        if (declares_function(line) && !is_verb) || CLAUSES.contains(&word) {
            report(at, text);
        }
    }
    found
}

#[test]
fn first_sentences_are_in_the_third_person() {
    let sources = PUBLISHED.iter().flat_map(|folder| files(folder, &["rs"]));
    let is_test = |source: &Source| {
        let name = |part: &std::ffi::OsStr| part.to_string_lossy().trim_end_matches(".rs").ends_with("tests");
        source.path.iter().any(name)
    };
    let sources: Vec<Source> = sources.filter(|source| !is_test(source)).collect();
    assert!(sources.len() > 300, "only {} files found", sources.len());
    report(&sources.iter().flat_map(first_sentences).collect::<Vec<_>>());
}

#[test]
fn finds_first_sentences_in_other_forms() {
    let of = |text: &str| first_sentences(&Source { path: "a.rs".into(), text: text.into() });
    for function in ["pub const fn f() {}", "fn f() {}", "pub(in crate::a) async fn f<T>() {}"] {
        assert_eq!(of(&format!("/// Return it.\n#[must_use]\n{function}")), ["a.rs:1: Return it."], "{function}");
    }
    assert_eq!(of("pub trait A {\n    /// The end.\n    fn end(&self);\n}"), ["a.rs:2: The end."]);
    for item in ["pub struct Kept;", "struct Kept;", "kept: u8,", "Kept,", "type Kept = u8;"] {
        assert_eq!(of(&format!("/// What is kept.\n/// More.\n{item}")), ["a.rs:1: What is kept."], "{item}");
    }
    assert_eq!(of("//! What is kept.\n"), ["a.rs:1: What is kept."]);
    assert_eq!(of("/// Returns it.\n///\n/// What else.\npub fn f() {}\n/// The kept.\npub struct Kept;"), [""; 0]);
    assert_eq!(of("/// A callback.\ntype F = fn(u8);\n/// The callback.\ncall: fn(u8),"), [""; 0]);
    assert_eq!(of("#[cfg(test)]\nmod tests {\n    /// What is kept.\n    fn f() {}"), [""; 0]);
}
