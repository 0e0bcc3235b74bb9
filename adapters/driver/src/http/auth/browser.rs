//! Opening a browser.

use std::{
    ffi::OsString,
    fmt, io,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use mcp_proto::auth::{Network, Url};

/// The time in which an exit with an error means that the program has not opened the URL. Later, the user may have
/// closed the browser.
const STARTUP: Duration = Duration::from_secs(5);

/// A program that opens a URL for the user. The URL is its last argument, and it is started without a shell.
#[derive(Clone)]
pub struct Browser {
    program: OsString,
    args: Vec<OsString>,
}

impl Browser {
    /// Returns the program with which this system opens URLs: `open` on macOS, `rundll32` on Windows, `xdg-open`
    /// elsewhere.
    #[must_use]
    pub fn system() -> Self {
        if cfg!(windows) {
            // Not `start` of `cmd.exe`, a shell that would interpret the URL.
            return Self::new("rundll32").arg("url.dll,FileProtocolHandler");
        }
        Self::new(if cfg!(target_os = "macos") { "open" } else { "xdg-open" })
    }

    /// Creates a browser from the name of a program.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), args: Vec::new() }
    }

    /// Adds an argument before the URL.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Starts the program. Its input and output are empty.
    ///
    /// # Errors
    /// If the URL is neither `https`, nor `http` on the loopback interface, or the program cannot be started.
    pub fn open(&self, url: &Url) -> io::Result<()> {
        self.open_or(url, |_| ())
    }

    /// Does what [`open`](Self::open) does, and calls `failed` if the program ends with an error soon, for example
    /// because it finds no browser.
    pub(super) fn open_or(&self, url: &Url, failed: impl FnOnce(io::Error) + Send + 'static) -> io::Result<()> {
        let text = checked(url)?;
        let mut command = Command::new(&self.program);
        command.args(&self.args).arg(text);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let start = Instant::now();
        // The thread waits for the exit status in any case, so that no zombie process remains.
        let wait = move || {
            if let Ok(status) = child.wait()
                && !status.success()
                && start.elapsed() < STARTUP
            {
                failed(io::Error::other(format!("the program has ended with {status}")));
            }
        };
        thread::Builder::new().name("mcp-browser".to_owned()).spawn(wait)?;
        Ok(())
    }
}

/// Returns a URL that may be the argument of a program: its scheme is `http` or `https`, so it is no option.
fn checked(url: &Url) -> io::Result<&str> {
    if url.is_https() || Network::of_url(url) == Network::Loopback {
        return Ok(url.as_str());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "the URL is neither https nor on the loopback interface"))
}

impl fmt::Debug for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Browser").field("program", &self.program).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: SEC-009
    #[test]
    fn opens_only_https_and_loopback_urls() {
        // What is neither is no `Url`.
        for url in
            ["-flag", "--version", "javascript:alert(1)", "file:///etc/passwd", "", "http:/a", "-https://a.example"]
        {
            assert!(Url::parse(url).is_err(), "{url}");
        }
        let parse = |url: &str| Url::parse(url).expect("a URL");
        for url in [
            "http://a.example/",
            "HTTP://a.example/",
            "http://10.0.0.1/",
            "http://localhost.a.example/",
            "http://127.0.0.1.a.example/",
            "http://[2606:4700::1]/",
        ] {
            assert!(checked(&parse(url)).is_err(), "{url}");
        }
        for url in [
            "https://a.example/$(id)?a=%60id%60&b='",
            "HTTP://127.0.0.1:1/",
            "http://[::1]:1/",
            "http://localhost/",
            "http://localhost./",
            "http://as.localhost/",
        ] {
            assert_eq!(checked(&parse(url)).expect(url), parse(url).as_str());
        }
    }

    // req: SEC-010
    #[cfg(unix)]
    #[test]
    fn browser_gets_url_as_one_argument() {
        let folder = std::env::temp_dir().join(format!("mcp-browser-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let url = Url::parse("https://a.example/$(id);x?a='b'&c=d").expect("a URL");
        let file = folder.join("seen");
        // The program writes its last argument, and then renames the file, so that the test sees all of it.
        let script = r#"printf '%s\n%s\n' "$#" "$2" > "$1.new" && mv "$1.new" "$1""#;
        let browser = Browser::new("sh").arg("-c").arg(script).arg("sh").arg(&file);
        browser.open(&url).expect("there is a shell");
        let end = Instant::now() + Duration::from_secs(60);
        let seen = loop {
            if let Ok(seen) = std::fs::read_to_string(&file) {
                break seen;
            }
            assert!(Instant::now() < end, "the program writes nothing");
            thread::yield_now();
        };
        assert_eq!(seen, format!("2\n{}\n", url.as_str()));
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}
