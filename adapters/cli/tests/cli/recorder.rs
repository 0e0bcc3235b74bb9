//! Tests of `mcp record`.

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use mcp_proto::schema::decode_base64;
use serde_json::Value;

use crate::{mcp, target};

/// A folder that is removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        // Tests of one process run at the same time, some of them once for each era.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("mcp-cli-{name}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server that sends each byte back. It ends with the exit code 7 at the end of its input, aborts on a line `die`,
/// and fills its error output on a line `flood`.
pub(crate) fn mirror() -> io::Result<()> {
    eprintln!("{}", std::process::id());
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        if line == b"die\n" {
            std::process::abort();
        }
        if line == b"flood\n" {
            thread::spawn(|| io::stderr().write_all(&[b'x'; 1 << 20]));
        }
        output.write_all(&line)?;
        output.flush()?;
        line.clear();
    }
    std::process::exit(7)
}

/// A recorder between this test and the mirror.
struct Recorded {
    recorder: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Recorded {
    fn start(file: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp"));
        command.arg("record").arg("-o").arg(file).args(more).arg("--");
        command.arg(env::current_exe().expect("a program")).arg("--mirror");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut recorder = command.spawn().expect("it runs");
        let input = recorder.stdin.take();
        let output = BufReader::new(recorder.stdout.take().expect("a pipe"));
        Self { recorder, input, output }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.input.as_mut().expect("it is open").write_all(bytes).expect("it is read");
    }

    fn line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.output.read_until(b'\n', &mut line).expect("it is written");
        line
    }

    /// Returns the id of the server, and its other error output without waiting for more.
    fn server(&mut self) -> String {
        let mut errors = BufReader::new(self.recorder.stderr.take().expect("a pipe"));
        let mut line = String::new();
        while line.trim().parse::<u32>().is_err() {
            line.clear();
            assert!(errors.read_line(&mut line).expect("text") > 0, "the server has written its id");
        }
        self.recorder.stderr = Some(errors.into_inner());
        line.trim().to_owned()
    }

    /// Waits for the end, and returns the exit code and the other output.
    fn end(mut self) -> (Option<i32>, Vec<u8>) {
        self.input = None;
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest).expect("it is written");
        (self.recorder.wait().expect("it ends").code(), rest)
    }
}

/// Returns the lines of a record without the first one.
pub(crate) fn entries(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("a record");
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let first = lines.next().expect("a line");
    assert_eq!(first["mcp_record"], 1);
    lines.collect()
}

/// Returns the bytes of a stream.
fn bytes(file: &Path, stream: &str) -> Vec<u8> {
    let of = |entry: &Value| match (entry["text"].as_str(), entry["base64"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (_, Some(text)) => decode_base64(text).expect("base64"),
        _ => Vec::new(),
    };
    entries(file).iter().filter(|entry| entry["stream"] == stream).flat_map(of).collect()
}

/// Returns bytes that look random, with all values and with lines.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    let mut bytes: Vec<u8> = (0..len).map(|_| next()).collect();
    bytes.push(b'\n');
    bytes
}

pub(crate) fn records_every_byte() {
    let folder = Folder::new("bytes");
    let file = folder.file("a.jsonl");
    let mut recorded = Recorded::start(&file, &["--no-mask"]);
    let server = recorded.server();
    let sent = [noise(300_000), "ä€🦀\r\n{\"password\":\"x\"}\n".as_bytes().to_vec()].concat();
    let mut input = recorded.input.take().expect("it is open");
    let writer = {
        let sent = sent.clone();
        thread::spawn(move || input.write_all(&sent).expect("it is read"))
    };
    let (code, received) = recorded.end();
    writer.join().expect("it is written");
    assert_eq!(code, Some(7), "the exit code of the server");
    assert!(received == sent, "no byte is changed");
    assert!(bytes(&file, "stdin") == sent && bytes(&file, "stdout") == sent, "each byte is recorded");
    assert_eq!(String::from_utf8(bytes(&file, "stderr")).expect("text"), format!("{server}\n"));
    let entries = entries(&file);
    assert_eq!(entries.last().expect("an entry")["exit"], 7);
    assert_eq!(entries.iter().filter(|entry| entry["end"] == true).count(), 3);
    let times: Vec<_> = entries.iter().map(|entry| entry["t"].as_u64().expect("a time")).collect();
    assert!(times.is_sorted());
}

pub(crate) fn masks_secrets_of_sessions() {
    let folder = Folder::new("masks");
    let file = folder.file("a.jsonl");
    let server = target("");
    let recorder = format!("{} record -o {} -- {server}", env!("CARGO_BIN_EXE_mcp"), file.display());
    let (code, out, error) = mcp(&["call", &recorder, "echo", "message=the password=canary here"]);
    assert_eq!((code, &*out), (0, "the password=canary here\n"), "{error}");
    let text = fs::read_to_string(&file).expect("a record");
    assert!(!text.contains("canary") && text.contains("the password=*** here"), "{text}");
    assert!(text.contains("tools/call") && text.contains("\"masked\":true"), "{text}");
}

pub(crate) fn nothing_is_lost_when_the_recorder_is_killed() {
    let folder = Folder::new("killed");
    let file = folder.file("a.jsonl");
    let mut recorded = Recorded::start(&file, &[]);
    let mut received = Vec::new();
    for number in 0..200 {
        recorded.send(format!("{{\"number\":{number}}}\n").as_bytes());
        received.extend(recorded.line());
    }
    recorded.recorder.kill().expect("it runs");
    recorded.recorder.wait().expect("it ends");
    assert!(bytes(&file, "stdout") == received && bytes(&file, "stdin") == received);
}

#[cfg(unix)]
pub(crate) fn the_end_of_the_server_is_recorded() {
    let folder = Folder::new("signals");
    // The signal, whether the recorder gets it, and its exit code. SIGINT and SIGHUP are not sent: a process inherits
    // that they are ignored, for example in the background of a script.
    for (signal, to_recorder, code) in [("KILL", false, 137), ("TERM", true, 143)] {
        let file = folder.file(&format!("{signal}.jsonl"));
        let mut recorded = Recorded::start(&file, &["--quiet"]);
        let server = recorded.server();
        recorded.send(b"{}\n");
        assert_eq!(recorded.line(), b"{}\n");
        let id = if to_recorder { recorded.recorder.id().to_string() } else { server };
        assert!(Command::new("kill").args(["-s", signal, &id]).status().expect("it runs").success());
        // The client still holds its end open.
        let mut rest = Vec::new();
        recorded.output.read_to_end(&mut rest).expect("the end of the server is passed on");
        assert_eq!(recorded.recorder.wait().expect("it ends").code(), Some(code), "{signal}");
        assert_eq!(entries(&file).last().expect("an entry")["signal"], code - 128);
    }
}

pub(crate) fn full_records_do_not_stop_messages() {
    let folder = Folder::new("full");
    let file = folder.file("a.jsonl");
    let mut recorded = Recorded::start(&file, &["--max-bytes", "4096"]);
    for number in 0..300 {
        let line = format!("{{\"number\":{number}}}\n");
        recorded.send(line.as_bytes());
        assert_eq!(recorded.line(), line.as_bytes());
    }
    let mut errors = recorded.recorder.stderr.take().expect("a pipe");
    assert_eq!(recorded.end().0, Some(7));
    let mut error = String::new();
    errors.read_to_string(&mut error).expect("text");
    assert_eq!(error.matches("messages are still forwarded").count(), 1, "{error}");
    assert!(fs::metadata(&file).expect("a record").len() <= 4096);
    assert!(entries(&file).last().expect("an entry")["stopped"].is_string());
}

#[cfg(unix)]
pub(crate) fn full_error_outputs_do_not_stop_messages() {
    use std::{
        sync::mpsc::{self, RecvTimeoutError},
        time::Duration,
    };

    let folder = Folder::new("flood");
    let file = folder.file("a.jsonl");
    let mut recorded = Recorded::start(&file, &["--max-bytes", "200000"]);
    // A recorder that hangs fails the test.
    let (done, is_done) = mpsc::channel::<()>();
    let id = recorded.recorder.id().to_string();
    let guard = thread::spawn(move || {
        let is_late = is_done.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout);
        if is_late {
            let _ = Command::new("kill").args(["-9", &id]).status();
        }
        is_late
    });
    recorded.send(b"flood\n");
    assert_eq!(recorded.line(), b"flood\n");
    // About as much as the pipe holds, which this test does not read.
    while !guard.is_finished() && fs::metadata(&file).map_or(0, |file| file.len()) < 65_000 {
        thread::yield_now();
    }
    for number in 0..300 {
        let line = format!("{{\"number\":{number},\"text\":\"{}\"}}\n", "x".repeat(1_000));
        recorded.send(line.as_bytes());
        assert_eq!(recorded.line(), line.as_bytes());
    }
    assert!(entries(&file).last().expect("an entry")["stopped"].is_string());
    recorded.recorder.stderr = None;
    assert_eq!(recorded.end().0, Some(7));
    drop(done);
    assert!(!guard.join().expect("it ends"));
}

pub(crate) fn wrong_recorders() {
    let (code, _, error) = mcp(&["record", "-o", "x"]);
    assert!(code == 2 && error.contains("COMMAND"), "{error}");
    let (code, _, error) = mcp(&["record", "http://127.0.0.1:1/mcp"]);
    assert!(code == 2 && error.contains("not provided:\n  --listen <ADDRESS>\n\n"), "{error}");
    for usage in ["mcp record [OPTIONS] -- <COMMAND>...\n", "mcp record [OPTIONS] --listen <ADDRESS> <URL>\n"] {
        assert!(error.contains(usage), "{error}");
    }
    let folder = Folder::new("wrong");
    let file = folder.file("a.jsonl").display().to_string();
    let (code, _, error) = mcp(&["record", "-o", &file, "--", "/no/such/program"]);
    assert!(code == 3 && error.contains("/no/such/program cannot be started"), "{code} {error}");
    let (code, _, error) = mcp(&["record", "-o", "/no/such/folder/a", "--", "/no/such/program"]);
    assert!(code == 2 && error.contains("/no/such/folder/a cannot be written"), "{code} {error}");
}
