//! Compiles each file in `tests/ui`, and checks what the compiler says about the mistake in it.
//!
//! Comments in a file name the errors, the first one first:
//!
//! - `//~ MESSAGE text` is an error whose message is one of this crate and contains the text.
//! - `//~ RUSTC text` is an error whose message is one of the compiler: it has this code, or contains the text.
//! - `//~ LABEL text` and `//~ NOTE text` are in a label and in a note of the error above.
//! - `//~ AT text` is the text that the error above points at.
//!
//! There are no other errors. A file without such comments compiles. Only words of this crate and codes of the compiler
//! are compared, and no positions, since these differ between versions of the compiler.

use std::{
    collections::HashMap,
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The comments of one error: the message, and then labels and notes.
type Expected = Vec<(String, String)>;

/// What the compiler says about a file.
#[derive(Default)]
struct Output {
    compiles: bool,
    errors: Vec<Value>,
}

#[test]
fn mistakes_are_explained() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .collect();
    files.sort();
    // Messages name types by shorter paths without the re-exports of the feature `macros`.
    let (of_attribute, others): (Vec<_>, Vec<_>) =
        files.iter().cloned().partition(|path| name(path).starts_with("macro_"));
    let mut outputs = compile("schemas", &others);
    outputs.extend(compile("macros", &of_attribute));
    let table = fs::read_to_string(folder.join("README.md")).expect("the table");
    let mut report = String::new();
    for path in &files {
        assert!(table.contains(&format!("`{}", name(path))), "{} is not in the table", path.display());
        let expected = expected(path);
        let output = outputs.remove(name(path)).unwrap_or_default();
        for fault in faults(&expected, &output) {
            let _ = writeln!(report, "\n{}: {fault}", path.display());
        }
    }
    assert!(report.is_empty(), "{report}");
}

/// Returns the name of the program of a file.
fn name(path: &Path) -> &str {
    path.file_stem().and_then(|name| name.to_str()).expect("a name")
}

/// Reads the comments of a file.
fn expected(path: &Path) -> Vec<Expected> {
    let mut errors: Vec<Expected> = Vec::new();
    for line in fs::read_to_string(path).expect("a file").lines() {
        let Some((_, comment)) = line.split_once("//~ ") else { continue };
        let (kind, text) = comment.split_once(' ').expect("a kind and a text");
        let entry = (kind.to_owned(), text.to_owned());
        match kind {
            "MESSAGE" | "RUSTC" => errors.push(vec![entry]),
            "LABEL" | "NOTE" | "AT" => errors.last_mut().expect("an error above").push(entry),
            _ => panic!("{}: unknown comment {line:?}", path.display()),
        }
    }
    errors
}

/// Returns each difference between the comments and the errors.
fn faults(expected: &[Expected], output: &Output) -> Vec<String> {
    if expected.is_empty() {
        return if output.compiles { vec![] } else { vec![format!("does not compile\n{}", rendered(&output.errors))] };
    }
    let mut faults = Vec::new();
    if output.compiles {
        faults.push("compiles".to_owned());
    }
    if output.errors.first().is_some_and(|error| !has(error, &expected[0][0])) {
        faults.push(format!("the first error is not {:?}", expected[0][0]));
    }
    for comments in expected {
        if !output.errors.iter().any(|error| comments.iter().all(|comment| has(error, comment))) {
            faults.push(format!("there is no error with {comments:?}"));
        }
    }
    if !output.errors.iter().all(|error| expected.iter().any(|comments| has(error, &comments[0]))) {
        faults.push("there is an error without a comment".to_owned());
    }
    if !faults.is_empty() {
        faults.push(format!("the compiler says:\n{}", rendered(&output.errors)));
    }
    faults
}

/// Returns whether an error is as a comment says.
fn has(error: &Value, (kind, text): &(String, String)) -> bool {
    let contains = |value: &Value| value.as_str().is_some_and(|value| value.contains(text));
    let any = |list: &Value, key: &str| list.as_array().is_some_and(|list| list.iter().any(|one| contains(&one[key])));
    match kind.as_str() {
        "MESSAGE" => contains(&error["message"]),
        "RUSTC" => error["code"]["code"] == text.as_str() || contains(&error["message"]),
        "LABEL" => any(&error["spans"], "label"),
        "AT" => error["spans"].as_array().is_some_and(|spans| spans.iter().any(|span| is_at(span, text))),
        _ => any(&error["children"], "message"),
    }
}

/// Returns whether the main place of an error is this text, in one line.
fn is_at(span: &Value, text: &str) -> bool {
    let line = &span["text"][0];
    let column = |key: &str| line[key].as_u64().and_then(|column| usize::try_from(column - 1).ok());
    let highlighted = || line["text"].as_str()?.get(column("highlight_start")?..column("highlight_end")?);
    span["is_primary"] == true && highlighted() == Some(text)
}

fn rendered(errors: &[Value]) -> String {
    errors.iter().filter_map(|error| error["rendered"].as_str()).collect()
}

/// Compiles the files as programs of one package, which depends on this crate with a feature. Returns the output for
/// each program.
fn compile(feature: &str, files: &[PathBuf]) -> HashMap<String, Output> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui").join(feature);
    let mut manifest = format!(
        r#"
            package = {{ name = "ui", version = "0.0.0", edition = "2024", autobins = false }}
            workspace = {{}}
            profile.dev.debug = false

            [dependencies]
            mcp-service = {{ path = {here:?}, default-features = false, features = [{feature:?}] }}
            schemars = "1"
            serde = {{ version = "1", features = ["derive"] }}
        "#
    );
    for path in files {
        let _ = writeln!(manifest, "[[bin]]\nname = {:?}\npath = {path:?}", name(path));
    }
    fs::create_dir_all(&package).expect("a folder");
    fs::write(package.join("Cargo.toml"), manifest).expect("a manifest");
    // With the versions of the workspace, nothing has to be downloaded.
    if let Ok(lock) = fs::read(here.join("../../Cargo.lock")) {
        fs::write(package.join("Cargo.lock"), lock).expect("a lock file");
    }
    let run = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["check", "--offline", "--quiet", "--keep-going", "--message-format=json", "--target-dir", "../target"])
        .env("CARGO_INCREMENTAL", "0")
        // Lints of the caller would be errors that no file names.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(&package)
        .output()
        .expect("cargo");
    let mut outputs: HashMap<String, Output> = HashMap::new();
    for line in String::from_utf8_lossy(&run.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let Some(program) = message["target"]["name"].as_str() else { continue };
        let output = outputs.entry(program.to_owned()).or_default();
        let error = &message["message"];
        match message["reason"].as_str() {
            Some("compiler-artifact") => output.compiles = true,
            // The last error only counts the others, and has no place.
            Some("compiler-message") if error["level"] == "error" && !is_summary(error) => {
                output.errors.push(error.clone());
            }
            _ => {}
        }
    }
    let is_there = files.iter().any(|path| outputs.contains_key(name(path)));
    assert!(is_there, "cargo compiles no file: {}", String::from_utf8_lossy(&run.stderr));
    outputs
}

fn is_summary(error: &Value) -> bool {
    error["message"].as_str().is_some_and(|text| text.starts_with("aborting due to"))
}
