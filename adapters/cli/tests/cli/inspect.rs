//! `mcp inspect` in a terminal.

use std::{
    env,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::ExitStatusExt,
    process::{self, Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

use crate::{
    mcp,
    recorder::Folder,
    replay::{record, session},
    target,
};

/// A terminal with a program in it.
struct Terminal {
    child: Child,
    keys: File,
    /// The side of the program.
    screen: File,
    chunks: Receiver<Vec<u8>>,
    shown: String,
}

impl Terminal {
    fn open(arguments: &[&str]) -> Self {
        Self::run(&[&["inspect"], arguments].concat())
    }

    fn run(arguments: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it can be used");
        let name = ptsname(&master, Vec::new()).expect("its name").into_string().expect("text");
        let open = || File::options().read(true).write(true).open(&name).expect("the side of the program");
        let screen = open();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&screen, size).expect("a size");
        let mut program = Command::new(env!("CARGO_BIN_EXE_mcp"));
        program.args(arguments).stdin(open()).stdout(open()).stderr(Stdio::piped());
        let child = program.spawn().expect("it starts");
        let mut source = File::from(master.try_clone().expect("a copy"));
        let (sender, chunks) = mpsc::channel();
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(len @ 1..) = source.read(&mut chunk) {
                if sender.send(chunk[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys: master.into(), screen, chunks, shown: String::new() }
    }

    /// Waits until a word is written after the last one that was waited for. Blanks are not written.
    fn wait(&mut self, word: &str) {
        loop {
            if let Some(at) = self.shown.find(word) {
                self.shown.drain(..at + word.len());
                return;
            }
            match self.chunks.recv_timeout(Duration::from_secs(60)) {
                Ok(chunk) => self.shown.push_str(&String::from_utf8_lossy(&chunk)),
                Err(error) => panic!("no {word:?} ({error}) in {:?}", self.shown),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("keys");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Waits for the end of the program, and checks that the modes are restored. Returns the exit code.
    fn end(mut self) -> i32 {
        self.wait("\u{1b}[?1049l");
        let status = self.child.wait().expect("it ends");
        let modes = tcgetattr(&self.screen).expect("modes");
        assert!(modes.local_modes.contains(LocalModes::ECHO | LocalModes::ICANON), "{modes:?}");
        status.code().unwrap_or_else(|| panic!("signal {:?}", status.signal()))
    }
}

pub(crate) fn calls_answers_cancels_and_switches() {
    for (era, revision, other) in [("legacy", "2025-11-25", "2026-07-28"), ("modern", "2026-07-28", "2025-11-25")] {
        let mut terminal = Terminal::open(&[&target(""), "--era", era]);
        terminal.wait(revision);
        terminal.wait("placeOrder");
        // The form of `echo`: the message, how often, and the button.
        terminal.press("\rx7\t2\t\r");
        terminal.wait("x7x7");
        // A question of the server: two fields and the button.
        terminal.press("/sign.up\r\r\r");
        terminal.wait("news");
        terminal.press("Ada\t\t\r");
        terminal.wait("accept");
        // A call in flight is cancelled.
        terminal.press("/\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}wait\r\r\r");
        terminal.wait("flight");
        terminal.press("c");
        terminal.wait("cancelled");
        // A resize draws everything again.
        let size = Winsize { ws_row: 60, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal.screen, size).expect("a size");
        terminal.signal(Signal::WINCH);
        terminal.wait(revision);
        terminal.press("e");
        terminal.wait(other);
        terminal.press("q");
        assert_eq!(terminal.end(), 0);
    }
}

pub(crate) fn signals_restore_the_terminal() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut terminal = Terminal::open(&[&target("")]);
        terminal.wait("placeOrder");
        terminal.signal(signal);
        assert_eq!(terminal.end(), code);
    }
}

/// Steps through a record, and restores the terminal.
pub(crate) fn records_are_stepped_through() {
    let folder = Folder::new("step");
    let file = folder.file("a.jsonl");
    let call = r#">{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"alpha"}}"#;
    let answer = r#"<{"jsonrpc":"2.0","id":1,"result":7}"#;
    fs::write(&file, record(&session("2025-11-25", &[call, answer]))).expect("it is written");
    let arguments = ["replay", "--step", file.to_str().expect("UTF-8")];
    let mut terminal = Terminal::run(&arguments);
    // Only cells that change are written, so words are waited for that are new on the screen.
    terminal.wait("clientInfo");
    terminal.press(" ");
    terminal.wait("serverInfo");
    terminal.press("/ALPHA\r");
    terminal.wait("tools/call");
    terminal.press("v");
    terminal.wait("BASE-017");
    terminal.press("\u{1b}[H");
    terminal.wait("clientInfo");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut terminal = Terminal::run(&arguments);
        terminal.wait("clientInfo");
        terminal.signal(signal);
        assert_eq!(terminal.end(), code);
    }
    let (code, _, error) = mcp(&arguments);
    assert!(code == 2 && error.contains("is no terminal: --step needs one"), "{error}");
}

/// A server that ends neither with its input nor by a signal is killed by the second one.
pub(crate) fn a_second_signal_kills_the_server() {
    let fifo = env::temp_dir().join(format!("mcp-inspect-{}", process::id()));
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    let name = shell_words::quote(fifo.to_str().expect("a path of UTF-8")).into_owned();
    let (sender, lines) = mpsc::channel();
    let path = fifo.clone();
    thread::spawn(move || {
        let source = BufReader::new(File::open(path).expect("it opens"));
        for line in source.lines() {
            let _ = sender.send(line.expect("text"));
        }
    });
    let wait = || lines.recv_timeout(Duration::from_secs(60));
    // The pipe is open for as long as any process of the server runs. It would end by itself, if it is not killed.
    let program = format!("exec 9>{name}; trap '' TERM; {}; echo ended >&9; sleep 300", target(""));
    let mut terminal = Terminal::open(&[&format!("sh -c {}", shell_words::quote(&program))]);
    terminal.wait("placeOrder");
    terminal.signal(Signal::TERM);
    terminal.wait("\u{1b}[?1049l");
    assert_eq!(wait().as_deref(), Ok("ended"), "its input has ended");
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.child.wait().expect("it ends").code(), Some(143));
    assert_eq!(wait(), Err(RecvTimeoutError::Disconnected), "the server still runs");
    fs::remove_file(fifo).expect("it is there");
}

/// A server that floods with escape sequences, that is not a server, and that does not start.
pub(crate) fn hostile_servers_control_nothing() {
    // It would set the title of the window, and clear the screen.
    let flood = r"while :; do printf '\033]0;owned\007 \033[3J\n{\033}\n'; printf '\033]0;owned\007\n' >&2; done";
    let mut terminal = Terminal::open(&[&format!("sh -c {}", shell_words::quote(flood))]);
    let (mut seen, mut count) = (String::new(), 0);
    // The connection may end because of it.
    while count < 50 && !seen.contains("closed:") {
        count += 1;
        let chunk = terminal.chunks.recv_timeout(Duration::from_secs(60)).expect("it draws");
        seen.push_str(&String::from_utf8_lossy(&chunk));
    }
    assert!(seen.contains("owned"), "{seen:?}");
    assert!(!seen.contains("\u{1b}]") && !seen.contains("\u{7}") && !seen.contains("\u{1b}[3J"), "{seen:?}");
    // The keys are not behind the flood.
    terminal.press("?");
    terminal.wait("quit");
    terminal.press("?q");
    assert_eq!(terminal.end(), 0);
    for command in ["sh -c 'exit 3'", "/nowhere/at/all"] {
        let mut terminal = Terminal::open(&[command]);
        terminal.wait("closed:");
        terminal.press("q");
        assert_eq!(terminal.end(), 0);
    }
}
