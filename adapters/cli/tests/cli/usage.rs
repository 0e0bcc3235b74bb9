//! Tests of what `mcp` says about wrong command lines, targets and files.

use std::{fs, io::pipe, process::Command};

use crate::{mcp, recorder::Folder};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

pub(crate) fn completions_have_the_commands_of_the_help() {
    for shell in SHELLS {
        let (code, out, error) = mcp(&["completions", shell]);
        assert_eq!((code, &*error), (0, ""), "{shell}");
        assert!(out.contains("bridge") && out.contains("bearer"), "{shell}");
        assert!(!out.contains("check-relay"), "{shell}");
    }
}

pub(crate) fn completions_may_be_read_in_part() {
    for shell in SHELLS {
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp"));
        let output = command.args(["completions", shell]).stdout(writer).output().expect("it runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
    }
}

pub(crate) fn files_that_cannot_be_read_are_named() {
    let folder = Folder::new("unreadable");
    let path = folder.file("").display().to_string();
    for command in
        [&["replay", &path][..], &["trace", &path, "-o", "a.svg"], &["call", "{}", "echo", &format!("@{path}")]]
    {
        let (code, out, error) = mcp(command);
        assert!(code == 2 && out.is_empty(), "{command:?}: {code} {out}");
        assert!(error.contains(&format!("{path} cannot be read: ")), "{command:?}: {error}");
    }
    let file = folder.file("a.json");
    fs::write(&file, b"{\"message\": \"\xff\"}").expect("it is written");
    let (code, _, error) = mcp(&["call", "{}", "echo", &format!("@{}", file.display())]);
    assert!(code == 2 && error.contains("a.json cannot be read: "), "{error}");
}

pub(crate) fn arguments_of_prompts_are_texts() {
    for argument in ["id:=5", r#"{"id": 5}"#] {
        let (code, out, error) = mcp(&["prompt", "{}", "greet", argument]);
        assert_eq!((code, &*out, &*error), (2, "", "mcp: the argument `id` is no text\n"), "{argument}");
    }
    assert_eq!(mcp(&["prompt", "{}", "greet", r#"id:="Ada""#]).1, "user:\nHello Ada\n");
}

/// A server without capabilities.
#[cfg(unix)]
pub(crate) fn lists_that_a_server_does_not_offer_are_named() {
    let answer = r#"{"jsonrpc":"2.0","id":\1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#;
    let server = format!("sed -un 's/.*\"id\":\\([0-9]*\\).*/{answer}/p'");
    let list = |kinds: &[&str]| mcp(&[&["--era", "legacy", "list", &server], kinds].concat());
    let all = "mcp: the server offers no tools, no resources, no resource templates, no prompts\n";
    assert_eq!(list(&[]), (0, String::new(), all.into()));
    assert_eq!(list(&["tools", "--json"]), (0, String::new(), "mcp: the server offers no tools\n".into()));
    assert_eq!(list(&["tools", "--quiet"]), (0, String::new(), String::new()));
}
