//! Tests of `mcp new` and `mcp man`.

use std::{env, fs, path::Path, process::Command};

use crate::{mcp, recorder::Folder};

/// The root of the repository.
fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a folder")
}

/// Creates a project in a folder.
fn create(folder: &Folder, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp"));
    command.current_dir(folder.file("")).arg("new").args(arguments);
    let output = command.output().expect("it runs");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Compiles projects with their tests. `MCP_TEST_PROJECTS=1` runs the tests, for all adapters, which takes minutes the
/// first time.
pub(crate) fn projects_compile() {
    let is_whole = env::var_os("MCP_TEST_PROJECTS").is_some();
    // The crates of the adapter without a runtime are few. The other adapters differ in one file.
    let adapters: &[&str] = if is_whole { &["blocking", "smol", "tokio"] } else { &["blocking"] };
    let (folder, root) = (Folder::new("project"), root());
    let root_text = root.to_str().expect("UTF-8");
    let kinds =
        adapters.iter().flat_map(|adapter| [(*adapter, "server", None), (*adapter, "client", Some("--client"))]);
    for (adapter, kind, more) in kinds {
        let name = format!("a-{adapter}-{kind}");
        let options = ["--adapter", adapter, "--path", root_text];
        let more: Vec<_> = more.into_iter().chain(options).collect();
        assert_eq!(create(&folder, &[&[name.as_str()], &more[..]].concat()).0, 0, "{name}");
        let project = folder.file(&name);
        // The crates of the workspace are there, so nothing is downloaded.
        fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).expect("it is copied");
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects");
        let mut command = Command::new(cargo);
        let what: &[&str] = if is_whole { &["test"] } else { &["check", "--tests"] };
        command.args(what).args(["--offline", "--quiet"]).current_dir(&project).env("CARGO_TARGET_DIR", &target);
        // The first run builds all crates of the adapter.
        command.envs([("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_INCREMENTAL", "0")]);
        let output = command.output().expect("it runs");
        let out = String::from_utf8_lossy(&output.stdout);
        let has_run = !is_whole || out.contains("test result: ok");
        assert!(output.status.success() && has_run, "{name}: {output:#?}");
    }
    let (code, error) = create(&folder, &["a-blocking-server"]);
    assert!(code == 2 && error.contains("a-blocking-server is there, and is not overwritten"), "{error}");
}

pub(crate) fn projects_depend_on_the_repository() {
    let folder = Folder::new("project-git");
    for adapter in ["tokio", "smol", "blocking"] {
        for kind in [None, Some("--client")] {
            let name = format!("{adapter}{}", kind.unwrap_or_default());
            let arguments: Vec<_> = [&*name, "--adapter", adapter].into_iter().chain(kind).collect();
            assert_eq!(create(&folder, &arguments).0, 0, "{name}");
            let manifest = fs::read_to_string(folder.file(&name).join("Cargo.toml")).expect("a manifest");
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{manifest}");
            let line = format!("mcp-{adapter} = {{ git = \"https://github.com/mcp-proto/mcp-proto\" }}");
            assert!(manifest.contains(&line), "{manifest}");
            let main = fs::read_to_string(folder.file(&name).join("src/main.rs")).expect("a file");
            assert!(main.contains(&format!("mcp_{adapter}::")), "{main}");
            let readme = fs::read_to_string(folder.file(&name).join("README.md")).expect("a file");
            assert!(readme.contains(&name) && !readme.contains("{{"), "{readme}");
        }
    }
    for name in ["../a", "a b", "test", "build", "use", ""] {
        let (code, error) = create(&folder, &[name]);
        let is_a_word = ["test", "build", "use"].contains(&name);
        let why = if is_a_word { "Rust or Cargo uses this word itself" } else { "begins with a letter" };
        assert!(code == 2 && error.contains("is not the name of a package: "), "{name}: {error}");
        assert!(error.contains(why), "{name}: {error}");
    }
}

pub(crate) fn man_pages_are_written() {
    let folder = Folder::new("man");
    let path = folder.file("");
    let path = path.to_str().expect("UTF-8");
    assert_eq!(mcp(&["man", path]).0, 0);
    for (page, text) in [("mcp.1", "check"), ("mcp-check.1", "hostile"), ("mcp-record.1", "no\\-mask")] {
        let page = fs::read_to_string(folder.file(page)).expect("a page");
        assert!(page.contains(".TH") && page.contains(text), "{page}");
    }
    let (code, _, error) = mcp(&["man", "/no/such/folder"]);
    assert!(code == 2 && error.contains("/no/such/folder cannot be written"), "{error}");
}
