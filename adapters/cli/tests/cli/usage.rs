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

pub(crate) fn targets_that_are_something_else_are_explained() {
    let address = "; if it is an address, it begins with http:// or https://\n";
    let name = "; if it is the name of a server, --config names the file\n";
    for command in ["list", "check"] {
        for (target, exit, why) in [
            ("localhost:8000", 3, address),
            ("127.0.0.1:8000/mcp", 3, address),
            ("no-such-server", 3, name),
            ("HTTP://127.0.0.1:1/mcp", 3, "refused"),
            ("ftp://server/mcp", 2, "ftp://server/mcp is no address of a server: these begin with http://"),
            ("http://127.0.0.1:65536/mcp", 2, "mcp: the port of the address is no number up to 65535\n"),
            ("http://[::1]:65536/mcp", 2, "mcp: the port of the address is no number up to 65535\n"),
        ] {
            let (code, out, error) = mcp(&[command, target]);
            assert!(code == exit && out.is_empty(), "{command} {target}: {code} {out}");
            assert!(error.contains(why), "{command} {target}: {error}");
        }
        let (_, _, error) = mcp(&[command, "/no/such/program"]);
        assert!(!error.contains(';'), "{command}: {error}");
    }
    let (code, _, error) = mcp(&["list", "{}", "--timeout", "0"]);
    assert!(code == 3 && error.ends_with("; --timeout gives it more\n"), "{code} {error}");
    let (code, _, error) = mcp(&["record", "--listen", "127.0.0.1:0", "http://127.0.0.1:65536/"]);
    assert!(code == 2 && error.contains("the port of the address is no number up to 65535"), "{code} {error}");
}

pub(crate) fn tokens_that_no_server_takes_are_refused() {
    for command in ["list", "check"] {
        for (token, why) in [("", "is empty"), (" ", "is empty"), ("canary canary", "has characters that no token has")]
        {
            let (code, _, error) = mcp(&[command, "http://127.0.0.1:1/mcp", "--bearer", token]);
            assert_eq!((code, error), (2, format!("mcp: the token of --bearer {why}\n")), "{command}");
            let mut program = Command::new(env!("CARGO_BIN_EXE_mcp"));
            program.args([command, "http://127.0.0.1:1/mcp"]).env("MCP_BEARER_TOKEN", token);
            let output = program.output().expect("it runs");
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(error, format!("mcp: the token of the variable MCP_BEARER_TOKEN {why}\n"), "{command}");
        }
    }
}

pub(crate) fn wrong_files_of_servers_are_explained() {
    let folder = Folder::new("servers");
    let file = folder.file("servers.json");
    let path = file.to_str().expect("UTF-8");
    let program = env!("CARGO_BIN_EXE_mcp");
    let program = program.replace('\\', "\\\\");
    for (servers, exit, why) in [
        (r#"{}"#, 2, "has no server `x`, and no other one\n"),
        (r#"{"y": {"command": "a"}}"#, 2, "has no server `x`, but y\n"),
        (r#"{"x": {"command": "a"}, "y": {"command": 5}}"#, 2, "servers.json cannot be used: mcpServers.y.command: "),
        (r#"{"x": {"url": "127.0.0.1:1"}}"#, 2, "is not the address of an HTTP server\n"),
        (r#"{"x": {"url": "http://127.0.0.1:65536/"}}"#, 2, "the port of the address is no number up to 65535"),
        (r#"{"x": {"url": "http://127.0.0.1:1/", "headers": {"A": "canary\n"}}}"#, 2, "the header "),
        (r#"{"x": {"command": "PROGRAM", "cwd": "/no/such/folder"}}"#, 2, "its \"cwd\" is no folder\n"),
        (r#"{"x": {"command": "PROGRAM", "argument": []}}"#, 3, "servers.json: mcpServers.x.argument is ignored\n"),
    ] {
        let text = format!("{{\"mcpServers\": {}}}", servers.replace("PROGRAM", &program));
        fs::write(&file, text).expect("it is written");
        for command in ["list", "check"] {
            let (code, out, error) = mcp(&[command, "x", "--config", path]);
            assert!(code == exit && out.is_empty(), "{command} {servers}: {code} {out} {error}");
            assert!(error.contains(why) && !error.contains("canary"), "{command} {servers}: {error}");
        }
    }
    let (_, _, error) = mcp(&["list", "x", "--config", path, "--quiet"]);
    assert!(!error.contains("is ignored"), "{error}");
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
