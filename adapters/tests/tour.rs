//! Runs the examples as programs.

use std::{
    env,
    path::PathBuf,
    process::{Command, ExitCode, Output},
};

use libtest_mimic::{Arguments, Failed, Trial};

/// A tour with the examples of an adapter.
#[derive(Clone, Copy)]
struct Tour(&'static str);

pub(crate) fn main(adapter: &'static str) -> ExitCode {
    let tour = Tour(adapter);
    // Cargo builds them with the tests, unless it builds only some tests.
    let missing = ["tour", "everything", "echo", "weather", "several"].iter().any(|name| !tour.example(name).exists());
    assert!(!missing, "build them first: cargo build -p mcp-{adapter} --examples");
    let trials = [
        // req: STDIO-008
        Trial::test("the_tour_of_our_server_ends_well", run(move || tour.ours())),
        Trial::test("the_tour_of_the_smallest_server_ends_well", run(move || tour.smallest())),
        Trial::test("one_client_drives_several_servers", run(move || tour.several())),
    ];
    let with_a_shell = [
        Trial::test("the_tour_tells_of_violations", run(move || tour.violations())),
        Trial::test("the_tour_tells_of_a_server_that_dies", run(move || tour.death())),
    ];
    let with_a_shell = with_a_shell.into_iter().map(|trial| trial.with_ignored_flag(cfg!(windows)));
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().chain(with_a_shell).collect()).exit_code()
}

/// Wraps a test that fails by panicking.
fn run(test: impl FnOnce() + Send + 'static) -> impl FnOnce() -> Result<(), Failed> + Send + 'static {
    move || {
        test();
        Ok(())
    }
}

impl Tour {
    /// Returns the path of an example of the same adapter.
    fn example(self, name: &str) -> PathBuf {
        // This program is in the folder `deps` beside the examples.
        env::current_exe()
            .expect("it has a name")
            .ancestors()
            .nth(2)
            .expect("it is in a folder")
            .join("examples")
            .join(format!("{name}-{}{}", self.0, env::consts::EXE_SUFFIX))
    }

    fn tour(self, args: &[&str]) -> (Output, String) {
        let output = Command::new(self.example("tour")).args(args).output().expect("it can be started");
        let text = String::from_utf8(output.stdout.clone()).expect("it writes text");
        (output, text)
    }

    fn several(self) {
        let path = |name| format!("{name}={}", self.example(name).display());
        // A program that does not exist, and one that exits without output, do not affect the others.
        let args = ["gone=/no/such/program".to_owned(), path("echo"), path("weather"), "true=/bin/true".to_owned()];
        let output = Command::new(self.example("several")).args(args).output().expect("it can be started");
        let text = String::from_utf8(output.stdout.clone()).expect("it writes text");
        assert!(output.status.success(), "{text}");
        for line in [
            "gone is not there: ",
            "true is not there: ",
            "echo__echo: Returns the message",
            "weather__get_alerts: Get weather alerts for a US state.",
            "weather__get_forecast: Get weather forecast for a location.",
            "weather__get_alerts answers:\nEvent: Wind Advisory",
            "weather__get_forecast answers:\nToday:\nTemperature: 64°F",
            "echo__echo answers:\nHello!",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    fn ours(self) {
        let (output, text) = self.tour(&[]);
        assert!(output.status.success(), "{text}");
        assert!(text.ends_with("\nok: no violations\n"), "{text}");
        for part in
            ["server                               everything", "test_tool_with_progress", "100/100", "exit status: 0"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    fn smallest(self) {
        let (output, text) = self.tour(&["--", self.example("echo").to_str().expect("text")]);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("echo {\"message\":\"tour\"}"), "{text}");
    }

    /// Runs the tour of a server whose output is modified by a script. Returns the output of the tour.
    fn bent(self, script: &str) -> String {
        let server = self.example("everything");
        let (output, text) = self.tour(&["--", "sh", "-c", script, "sh", server.to_str().expect("text")]);
        assert_eq!(output.status.code(), Some(1), "{text}");
        text
    }

    fn violations(self) {
        let answer = r#"{"jsonrpc":"2.0","id":77,"result":{}}"#;
        assert!(self.bent(&format!("echo '{answer}'; exec \"$@\"")).contains("violation: a response to 77"));
        assert!(self.bent("echo a banner; exec \"$@\"").contains("violation: not a message: \"a banner\""));
        // A wrong result is reported.
        assert!(self.bent("\"$@\" | sed -u 's/Hello, Ada!/Hello!/'").contains("expected \"Hello, Ada!\""));
    }

    fn death(self) {
        let text = self.bent("\"$@\" | sed -u 12q; echo enough >&2; exit 7");
        assert!(text.contains("FAILED connection"), "{text}");
    }
}
