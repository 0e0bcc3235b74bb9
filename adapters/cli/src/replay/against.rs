//! Plays the client's side of a record against a server, and compares the responses.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, Read, Write},
    path::Path,
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    thread,
    time::{Duration, Instant},
};

use mcp_proto::{
    codec::LineDecoder,
    wire::{Message, RequestId},
};
use serde_json::{Value, json};

use super::roles::DEPTH;
use crate::{
    error::Failed,
    messages::{Item, Line, Lines},
    record::{Origin, Reader},
    show,
};

/// The most messages of the server that wait to be compared.
const WAITING: usize = 1 << 16;

/// The longest message of the server.
const MAX_MESSAGE: usize = 16 << 20;

/// The most differences of one response that are shown.
const SHOWN: usize = 10;

/// How long a server may take to end after its input was closed.
const END: Duration = Duration::from_secs(2);

/// The record, and the server to compare with it.
#[derive(Debug)]
pub(crate) struct AgainstOptions<'a> {
    pub(crate) record: &'a Path,
    /// The command line of the server.
    pub(crate) command: &'a str,
    /// Members that are left out of the comparison.
    pub(crate) ignore: &'a [String],
    pub(crate) timeout: Duration,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) variables: Vec<(&'a str, &'a str)>,
}

/// A server that the record is played against.
struct Player {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Vec<u8>>,
    timeout: Duration,
    /// Responses that have arrived, by id.
    responses: HashMap<RequestId, Value>,
    /// Requests of the server that the record has not had yet: method and id.
    questions: VecDeque<(String, RequestId)>,
    /// The ids of its requests, by their ids in the record.
    asked: HashMap<RequestId, RequestId>,
}

impl Drop for Player {
    fn drop(&mut self) {
        self.input = None;
        let deadline = Instant::now() + END;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays a record against a server. The exit code is 1 if a response differs.
pub(crate) fn replay_against(options: &AgainstOptions<'_>) -> Result<ExitCode, Failed> {
    let mut lines = Lines::new(Reader::open(options.record)?)?;
    if lines.reader().header().masked && !options.quiet {
        show::note("secrets in the record are masked: requests that need them will differ");
    }
    let mut player = Player::start(options)?;
    let (mut same, mut different) = (0_u64, 0_u64);
    let mut methods = HashMap::new();
    while let Some(item) = lines.next_item()? {
        let Item::Line(line) = item else { continue };
        let Some(message) = str::from_utf8(&line.bytes).ok().and_then(|text| Message::parse(text, DEPTH).ok()) else {
            if line.from == Origin::Client {
                player.send(&line.bytes)?;
            }
            continue;
        };
        match (line.from, &message) {
            (Origin::Client, message) => {
                if let Message::Request { id, method, .. } = message {
                    methods.insert(id.clone(), method.to_string());
                }
                player.send(&player.with_id(message, &line))?;
            }
            (Origin::Server, Message::Request { id, method, .. }) => player.wait_for_question(id, method)?,
            (Origin::Server, Message::Response { id, .. } | Message::Error { id: Some(id), .. }) => {
                // A response to nothing is compared with nothing.
                let Some(method) = methods.remove(id) else { continue };
                let recorded: Value = serde_json::from_slice(&line.bytes)?;
                let received = player.wait_for_response(id, &method)?;
                let differences = compare(&recorded, &received, options.ignore);
                if differences.is_empty() {
                    same += 1;
                } else {
                    different += 1;
                }
                report(options.json, id, &method, &differences)?;
            }
            (Origin::Server, _) => {}
        }
    }
    drop(player);
    if options.json {
        show::line(&json!({"kind": "end", "same": same, "different": different}).to_string())?;
    } else {
        show::line(&format!("{same} responses are the same, {different} differ"))?;
    }
    Ok(if different == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

impl Player {
    fn start(options: &AgainstOptions<'_>) -> Result<Self, Failed> {
        let words = shell_words::split(options.command)
            .map_err(|error| Failed::usage(format!("`{}`: {error}", options.command)))?;
        let Some((program, arguments)) = words.split_first() else {
            return Err(Failed::usage("the command of --against is empty"));
        };
        let stderr = if options.quiet { Stdio::null() } else { Stdio::inherit() };
        let mut child = Command::new(program)
            .args(arguments)
            .envs(options.variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(|error| Failed::start(program, &error))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, messages) = mpsc::sync_channel(WAITING);
        if let Some(output) = output {
            thread::Builder::new().name("server".into()).spawn(move || read(output, &sender))?;
        }
        let (responses, questions, asked) = (HashMap::new(), VecDeque::new(), HashMap::new());
        Ok(Self { child, input, messages, timeout: options.timeout, responses, questions, asked })
    }

    fn send(&mut self, line: &[u8]) -> Result<(), Failed> {
        let Some(input) = &mut self.input else { return Ok(()) };
        let line = [line, b"\n"].concat();
        input
            .write_all(&line)
            .and_then(|()| input.flush())
            .map_err(|error| Failed::ended(format!("the server does not read any more: {error}")))
    }

    /// Returns the line of the client: a response has the id of the server's request.
    fn with_id(&self, message: &Message<'_>, line: &Line) -> Vec<u8> {
        let (Message::Response { id, .. } | Message::Error { id: Some(id), .. }) = message else {
            return line.bytes.clone();
        };
        let actual = self.asked.get(id).and_then(|id| serde_json::from_str::<Value>(id.as_json()).ok());
        match (serde_json::from_slice::<Value>(&line.bytes), actual) {
            (Ok(mut value), Some(actual)) => {
                value["id"] = actual;
                value.to_string().into_bytes()
            }
            _ => line.bytes.clone(),
        }
    }

    /// Takes one message of the server.
    fn take(&mut self, deadline: Instant, wanted: &str) -> Result<(), Failed> {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = self.messages.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => Failed::timeout(format!("the server has not sent {wanted} in time")),
            RecvTimeoutError::Disconnected => Failed::ended(format!("the server has ended before {wanted}")),
        })?;
        let Ok(text) = str::from_utf8(&line) else { return Ok(()) };
        match Message::parse(text, DEPTH) {
            Ok(Message::Response { id, .. } | Message::Error { id: Some(id), .. })
                if self.responses.len() < WAITING =>
            {
                self.responses.insert(id, serde_json::from_str(text)?);
            }
            Ok(Message::Request { id, method, .. }) if self.questions.len() < WAITING => {
                self.questions.push_back((method.into_owned(), id));
            }
            _ => {}
        }
        Ok(())
    }

    fn wait_for_response(&mut self, id: &RequestId, method: &str) -> Result<Value, Failed> {
        let deadline = Instant::now() + self.timeout;
        loop {
            if let Some(response) = self.responses.remove(id) {
                return Ok(response);
            }
            self.take(deadline, &format!("the response to {method} {}", id.as_json()))?;
        }
    }

    fn wait_for_question(&mut self, recorded: &RequestId, method: &str) -> Result<(), Failed> {
        let deadline = Instant::now() + self.timeout;
        loop {
            if let Some(at) = self.questions.iter().position(|(asked, _)| asked == method)
                && let Some((_, actual)) = self.questions.remove(at)
            {
                self.asked.insert(recorded.clone(), actual);
                return Ok(());
            }
            self.take(deadline, &format!("the request {method}"))?;
        }
    }
}

fn read(mut output: impl Read, sender: &SyncSender<Vec<u8>>) {
    let mut lines = LineDecoder::new(MAX_MESSAGE);
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match output.read(&mut chunk) {
            Ok(0) => return,
            Ok(len) => lines.feed(&chunk[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        while let Some(frame) = lines.next_frame() {
            if sender.send(frame.bytes().to_vec()).is_err() {
                return;
            }
        }
    }
}

/// A member that differs.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    path: String,
    recorded: String,
    received: String,
}

fn report(json: bool, id: &RequestId, method: &str, differences: &[Difference]) -> Result<(), Failed> {
    let short = |text: &str| show::printable(&text.chars().take(200).collect::<String>());
    if json {
        let differences: Vec<_> = differences
            .iter()
            .map(|it| json!({"path": it.path, "recorded": it.recorded, "received": it.received}))
            .collect();
        let id: Value = serde_json::from_str(id.as_json())?;
        return show::line(&json!({"method": method, "id": id, "differences": differences}).to_string());
    }
    let verdict = if differences.is_empty() { "same" } else { "DIFFERS" };
    show::line(&format!("{verdict:<8} {} {}", show::printable(method), show::printable(id.as_json())))?;
    for Difference { path, recorded, received } in differences {
        let path = if path.is_empty() { "the response" } else { path };
        show::line(&format!("         {}", short(path)))?;
        show::line(&format!("           recorded: {}", short(recorded)))?;
        show::line(&format!("           received: {}", short(received)))?;
    }
    Ok(())
}

/// Returns where two responses differ: JSON Pointers, at most [`SHOWN`].
fn compare(recorded: &Value, received: &Value, ignore: &[String]) -> Vec<Difference> {
    let mut found = Vec::new();
    compare_at("", recorded, received, ignore, &mut found);
    found
}

fn compare_at(path: &str, recorded: &Value, received: &Value, ignore: &[String], found: &mut Vec<Difference>) {
    if found.len() == SHOWN {
        return;
    }
    match (recorded, received) {
        (Value::Object(left), Value::Object(right)) => {
            let both = left.keys().chain(right.keys().filter(|name| !left.contains_key(*name)));
            for name in both.filter(|name| !ignore.contains(name)) {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                let path = format!("{path}/{escaped}");
                match (left.get(name), right.get(name)) {
                    (Some(left), Some(right)) => compare_at(&path, left, right, ignore, found),
                    (left, right) => found.push(Difference::new(path, left, right)),
                }
                if found.len() == SHOWN {
                    return;
                }
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                compare_at(&format!("{path}/{index}"), left, right, ignore, found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => found.push(Difference::new(path.to_owned(), Some(left), Some(right))),
    }
}

impl Difference {
    fn new(path: String, recorded: Option<&Value>, received: Option<&Value>) -> Self {
        let text = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
        Self { path, recorded: text(recorded), received: text(received) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_their_paths() {
        let paths = |left: Value, right: Value, ignore: &[&str]| -> Vec<String> {
            let ignore: Vec<_> = ignore.iter().map(|name| (*name).to_owned()).collect();
            compare(&left, &right, &ignore).into_iter().map(|it| it.path).collect()
        };
        let left = json!({"a": [1, {"b/c": 2, "time": 1}], "only": 1});
        let right = json!({"a": [1, {"b/c": 3, "time": 2}], "other": 1});
        assert_eq!(paths(left.clone(), right.clone(), &["time"]), ["/a/1/b~1c", "/only", "/other"]);
        assert_eq!(paths(left.clone(), right, &[]).len(), 4);
        assert!(paths(left.clone(), left, &[]).is_empty());
        assert_eq!(paths(json!([1]), json!([1, 2]), &[]), [""]);
        let many = |value: u8| Value::Object((0..50).map(|it| (it.to_string(), json!(value))).collect());
        assert_eq!(paths(many(1), many(2), &[]).len(), SHOWN);
    }
}
