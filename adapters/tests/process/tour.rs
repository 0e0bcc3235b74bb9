//! The examples, as they are run by users.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use libtest_mimic::Trial;

use super::{fixture::program, run};
use crate::NAME;

pub(crate) fn trials() -> Vec<Trial> {
    // They are built together with the tests, unless only some tests were asked for.
    let missing = ["tour", "everything", "echo"].iter().any(|name| !example(name).exists());
    let trials = vec![
        // req: STDIO-008
        Trial::test("the_tour_of_our_server_ends_well", run(ours)),
        Trial::test("the_tour_of_the_smallest_server_ends_well", run(smallest)),
        Trial::test("the_tour_tells_of_violations", run(violations)),
        Trial::test("the_tour_tells_of_a_server_that_dies", run(death)),
    ];
    trials.into_iter().map(|trial| trial.with_ignored_flag(missing)).collect()
}

/// An example on the same adapter.
fn example(name: &str) -> PathBuf {
    // This program is in the folder `deps` beside the examples.
    program().ancestors().nth(2).expect("it is in a folder").join("examples").join(format!("{name}-{NAME}"))
}

fn tour(args: &[&str]) -> (Output, String) {
    let output = Command::new(example("tour")).args(args).output().expect("it can be started");
    let text = String::from_utf8(output.stdout.clone()).expect("it writes text");
    (output, text)
}

fn ours() {
    let (output, text) = tour(&[]);
    assert!(output.status.success(), "{text}");
    assert!(text.ends_with("\nok: no violations\n"), "{text}");
    for part in
        ["server                               everything", "test_tool_with_progress", "100/100", "exit status: 0"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

fn smallest() {
    let (output, text) = tour(&["--", example("echo").to_str().expect("text")]);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("echo {\"message\":\"tour\"}"), "{text}");
}

/// Runs the tour of a server with something in front of it or behind it.
fn bent(script: &str) -> String {
    let server = example("everything");
    let (output, text) = tour(&["--", "sh", "-c", script, "sh", server.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    text
}

fn violations() {
    let answer = r#"{"jsonrpc":"2.0","id":77,"result":{}}"#;
    assert!(bent(&format!("echo '{answer}'; exec \"$@\"")).contains("violation: a response to 77"));
    assert!(bent("echo a banner; exec \"$@\"").contains("violation: not a message: \"a banner\""));
    // What comes out is not what it should be.
    assert!(bent("\"$@\" | sed -u 's/Hello, Ada!/Hello!/'").contains("expected \"Hello, Ada!\""));
}

fn death() {
    let text = bent("\"$@\" | sed -u 12q; echo enough >&2; exit 7");
    assert!(text.contains("FAILED connection"), "{text}");
}
