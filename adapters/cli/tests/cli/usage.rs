//! Tests of what `mcp` says about wrong command lines, targets and files.

use std::{io::pipe, process::Command};

use crate::mcp;

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
