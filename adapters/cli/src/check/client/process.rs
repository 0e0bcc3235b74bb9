//! A client that is a process.

use std::{
    io,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use mcp_driver::Command;

use super::{
    http::Server,
    inbox::{Inbox, inbox},
    link::{Arrival, HttpReply, Link},
    relay::Relay,
};
use crate::check::process::{kill_group, lock_group, start};

/// How often it is looked whether the process runs.
const TICK: Duration = Duration::from_millis(20);

/// How long the last messages of a process that has ended may take.
const LAST: Duration = Duration::from_millis(200);

/// How a client is started.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// The words of the command, in which `{url}`, `{server}` and `{command}` are replaced.
    pub(super) words: Vec<String>,
    pub(super) variables: Vec<(String, String)>,
    /// Whether the error output of the client is shown.
    pub(super) is_shown: bool,
}

/// How the words of a command name the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Url,
    Program,
    /// The URL is the last argument.
    Last,
}

/// Returns how a command names the server.
pub(super) fn place(words: &[String]) -> Place {
    let has = |name: &str| words.iter().any(|word| word.contains(name));
    match (has("{server}") || has("{command}"), has("{url}")) {
        (true, _) => Place::Program,
        (_, true) => Place::Url,
        _ => Place::Last,
    }
}

/// Returns the words of a command with the address of a server in them.
fn fill(words: &[String], url: &str, server: &[String]) -> Vec<String> {
    let mut filled = Vec::new();
    for word in words {
        if word == "{server}" {
            filled.extend(server.iter().cloned());
        } else {
            let line = shell_words::join(server);
            filled.push(word.replace("{url}", url).replace("{server}", &line).replace("{command}", &line));
        }
    }
    if place(words) == Place::Last {
        filled.push(url.to_owned());
    }
    filled
}

/// A client that is started anew as often as needed, with its server.
pub(super) struct Client {
    start: Start,
    running: Option<Running>,
}

struct Running {
    child: Child,
    inbox: Inbox,
    server: Kind,
    /// When the process has ended, and how.
    ended: Option<(Instant, Option<i32>)>,
}

enum Kind {
    Http(Server),
    Stdio(Relay),
}

impl Client {
    pub(super) const fn new(start: Start) -> Self {
        Self { start, running: None }
    }
}

impl Link for Client {
    fn is_http(&self) -> bool {
        place(&self.start.words) != Place::Program
    }

    fn start(&mut self) -> io::Result<()> {
        self.running = None;
        let (sender, inbox) = inbox();
        let (server, words) = if self.is_http() {
            let server = Server::bind(sender)?;
            let words = fill(&self.start.words, &server.url(), &[]);
            (Kind::Http(server), words)
        } else {
            let relay = Relay::bind(sender)?;
            let words = fill(&self.start.words, "", &relay.command()?);
            (Kind::Stdio(relay), words)
        };
        let Some((program, arguments)) = words.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"));
        };
        let mut command = Command::new(program).args(arguments).inherit_env();
        for (name, value) in &self.start.variables {
            command = command.env(name, value);
        }
        command = if self.start.is_shown { command.inherit_stderr() } else { command.discard_stderr() };
        let mut command = command.to_std();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // The servers that it starts, and launchers such as `npx`, are in one group.
        let (child, ..) = start(command)?;
        self.running = Some(Running { child, inbox, server, ended: None });
        Ok(())
    }

    fn stop(&mut self) {
        self.running = None;
    }

    fn hide(&mut self) {
        self.start.is_shown = false;
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn arrived(&mut self, deadline: Instant) -> Option<Arrival> {
        self.running.as_ref()?.inbox.recv_until(deadline)
    }

    fn next(&mut self, timeout: Duration) -> Arrival {
        let Some(running) = &mut self.running else { return Arrival::Ended(None) };
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(arrival) = running.inbox.recv(left.min(TICK)) {
                return arrival;
            }
            if running.ended.is_none()
                && let Ok(Some(status)) = running.child.try_wait()
            {
                running.ended = Some((Instant::now(), status.code()));
            }
            match running.ended {
                Some((at, code)) if at.elapsed() >= LAST => return Arrival::Ended(code),
                _ if left.is_zero() => return Arrival::Silence,
                _ => {}
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.running {
            Some(Running { server: Kind::Stdio(relay), .. }) => relay.write(bytes),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn end_server(&mut self) {
        if let Some(Running { server: Kind::Stdio(relay), .. }) = &mut self.running {
            relay.end();
        }
    }

    fn respond(&mut self, exchange: u64, reply: HttpReply) {
        if let Some(Running { server: Kind::Http(server), .. }) = &self.running {
            server.respond(exchange, reply);
        }
    }

    fn stream(&mut self, exchange: u64, bytes: &[u8]) {
        if let Some(Running { server: Kind::Http(server), .. }) = &self.running {
            server.stream(exchange, bytes);
        }
    }

    fn finish(&mut self, exchange: u64) {
        if let Some(Running { server: Kind::Http(server), .. }) = &self.running {
            server.finish(exchange);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A member of the group may outlive its leader.
        kill_group(&mut lock_group());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        shell_words::split(line).expect("words")
    }

    #[test]
    fn commands_name_the_server() {
        let server = words("'/a b/mcp' check-relay 5");
        let url = "http://127.0.0.1:5/mcp";
        let rows = [
            ("client --url={url} x", Place::Url, format!("client --url={url} x")),
            ("client", Place::Last, format!("client {url}")),
            ("client -- {server}", Place::Program, "client -- '/a b/mcp' check-relay 5".to_owned()),
            ("client {command}", Place::Program, "client \"'/a b/mcp' check-relay 5\"".to_owned()),
            ("client '--server={server}'", Place::Program, "client \"--server='/a b/mcp' check-relay 5\"".to_owned()),
        ];
        for (line, expected, filled) in rows {
            assert_eq!(place(&words(line)), expected, "{line}");
            assert_eq!(fill(&words(line), url, &server), words(&filled), "{line}");
        }
    }
}
