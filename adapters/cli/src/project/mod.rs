//! Creates projects: a server or a client that builds and passes its own test.

use std::{fs, io, path::Path};

use crate::{
    error::Failed,
    options::{AdapterOption, NewOptions},
    show,
};

/// Where the crates are, until they are released.
const REPOSITORY: &str = "https://github.com/mcp-proto/mcp-proto";

/// Names that cargo refuses: keywords, crates that are always there, and folders that it makes itself.
const RESERVED: [&str; 62] = [
    "Self",
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// Creates a project in a new folder.
pub(crate) fn create(options: &NewOptions) -> Result<(), Failed> {
    let name = options.name.as_str();
    if !is_package_name(name) {
        let why = if RESERVED.contains(&name) {
            "Rust or Cargo uses this word itself"
        } else {
            "that begins with a letter from `a` to `z`, and has at most 64 letters, digits, `-` and `_`"
        };
        return Err(Failed::usage(format!("`{name}` is not the name of a package: {why}")));
    }
    let manifest = manifest(options)?;
    let folder = Path::new(name);
    fs::create_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failed::usage(format!("{name} is there, and is not overwritten")),
        _ => Failed::usage(format!("{name} cannot be created: {error}")),
    })?;
    let (main, module) = (main(options), if options.client { "client.rs" } else { "service.rs" });
    let (code, readme) = if options.client {
        (include_str!("templates/client.rs.in"), include_str!("templates/client-readme.md.in"))
    } else {
        (include_str!("templates/server.rs.in"), include_str!("templates/server-readme.md.in"))
    };
    let files = [
        ("Cargo.toml", manifest.as_str()),
        ("README.md", readme),
        (".gitignore", "/target\n"),
        ("src/main.rs", main),
        (&format!("src/{module}"), code),
    ];
    fs::create_dir(folder.join("src")).map_err(|error| Failed::usage(error.to_string()))?;
    for (path, text) in files {
        let path = folder.join(path);
        fs::write(&path, text.replace("{{name}}", name))
            .map_err(|error| Failed::usage(format!("{} cannot be written: {error}", path.display())))?;
    }
    show::line(&format!("created {name}: cd {name} && cargo test"))
}

fn is_package_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        && !RESERVED.contains(&name)
}

const fn main(options: &NewOptions) -> &'static str {
    match (options.client, options.adapter) {
        (false, AdapterOption::Tokio) => include_str!("templates/server-main-tokio.rs.in"),
        (false, AdapterOption::Smol) => include_str!("templates/server-main-smol.rs.in"),
        (false, AdapterOption::Blocking) => include_str!("templates/server-main-blocking.rs.in"),
        (true, AdapterOption::Tokio) => include_str!("templates/client-main-tokio.rs.in"),
        (true, AdapterOption::Smol) => include_str!("templates/client-main-smol.rs.in"),
        (true, AdapterOption::Blocking) => include_str!("templates/client-main-blocking.rs.in"),
    }
}

/// Returns `Cargo.toml`.
fn manifest(options: &NewOptions) -> Result<String, Failed> {
    let checkout = match &options.path {
        Some(path) => Some(
            path.canonicalize()
                .map_err(|error| Failed::usage(format!("{} cannot be used: {error}", path.display())))?,
        ),
        None => None,
    };
    let source = |folder: &str| match &checkout {
        Some(root) => format!("path = {}", quoted(&root.join(folder).to_string_lossy())),
        None => format!("git = \"{REPOSITORY}\""),
    };
    let adapter = options.adapter.name();
    let mut lines = vec![
        "[package]".to_owned(),
        "name = \"{{name}}\"\nversion = \"0.1.0\"\nedition = \"2024\"\nrust-version = \"1.88\"\n".to_owned(),
        "[dependencies]".to_owned(),
        format!("mcp-{adapter} = {{ {} }}", source(&format!("adapters/{adapter}"))),
        format!("mcp-service = {{ {} }}", source("adapters/service")),
    ];
    match options.adapter {
        AdapterOption::Tokio => {
            lines.push("tokio = { version = \"1.40\", features = [\"macros\", \"rt-multi-thread\"] }".to_owned());
        }
        AdapterOption::Smol => lines.push("smol = \"2\"".to_owned()),
        AdapterOption::Blocking => {}
    }
    if options.client {
        lines.push(format!("mcp-proto = {{ {} }}", source("core")));
    } else {
        lines.push("schemars = \"1.2\"\nserde = { version = \"1.0\", features = [\"derive\"] }".to_owned());
    }
    lines.push("\n[dev-dependencies]".to_owned());
    lines.push(format!("mcp-service = {{ {}, features = [\"testing\"] }}", source("adapters/service")));
    if !options.client {
        lines.push("serde_json = \"1.0\"".to_owned());
    }
    // A project within the folder of a workspace is not a part of it.
    lines.push("\n[workspace]\n".to_owned());
    Ok(lines.join("\n"))
}

/// Returns a text as TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_packages() {
        for name in ["a", "my-server", "My_server2"] {
            assert!(is_package_name(name), "{name}");
        }
        for name in [
            "",
            "2a",
            "-a",
            "a/b",
            "..",
            "a b",
            "ä",
            "test",
            "fn",
            "build",
            "deps",
            "examples",
            "incremental",
            "type",
            "use",
            "while",
            "Self",
            &"a".repeat(65),
        ] {
            assert!(!is_package_name(name), "{name}");
        }
        assert!(RESERVED.is_sorted());
    }
}
