//! Plays the client's side of a record against a server, and compares the responses.

use std::{
    collections::{HashMap, HashSet, VecDeque},
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
    /// How many requests of each method the record has that have not arrived yet.
    expected: HashMap<String, u64>,
    /// Requests that the record does not have.
    unexpected: Vec<(RequestId, String)>,
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
    let mut player = Player::start(options, recorded_questions(options.record)?)?;
    let (mut same, mut different) = (0_u64, 0_u64);
    let mut record = Recorded::default();
    while let Some(item) = lines.next_item()? {
        let Item::Line(line) = item else { continue };
        let texts = texts(&line.bytes);
        if line.from == Origin::Client {
            texts.iter().for_each(|text| record.take(text));
            if let Some(bytes) = player.with_ids(&line.bytes, &record.pings) {
                player.send(&bytes)?;
            }
            continue;
        }
        for text in &texts {
            match Message::parse(text, DEPTH) {
                // The player responds to pings by itself.
                Ok(Message::Request { id, method, .. }) if method == "ping" => drop(record.pings.insert(id)),
                Ok(Message::Request { id, method, .. }) => player.wait_for_question(&id, &method)?,
                Ok(Message::Response { id, .. } | Message::Error { id: Some(id), .. }) => {
                    // A response to nothing is compared with nothing, and so is one that crossed a cancellation: the
                    // server need not send it.
                    let Some(method) = record.methods.remove(&id) else { continue };
                    if record.cancelled.remove(&id) {
                        continue;
                    }
                    let recorded: Value = serde_json::from_str(text)?;
                    let received = player.wait_for_response(&id, &method)?;
                    let differences = compare(&recorded, &received, options.ignore);
                    *(if differences.is_empty() { &mut same } else { &mut different }) += 1;
                    report(options.json, &id, &method, &differences)?;
                }
                _ => {}
            }
        }
    }
    for (id, method) in &player.unexpected {
        let received = format!("the request {method}");
        let difference = Difference { path: String::new(), recorded: "nothing".into(), received };
        report(options.json, id, method, &[difference])?;
        different += 1;
    }
    drop(player);
    if options.json {
        show::line(&json!({"kind": "end", "same": same, "different": different}).to_string())?;
    } else {
        show::line(&format!("{same} responses are the same, {different} differ"))?;
    }
    Ok(if different == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The messages of the record so far.
#[derive(Default)]
struct Recorded {
    /// The methods of the client's requests in flight.
    methods: HashMap<RequestId, String>,
    /// The requests that the client has cancelled.
    cancelled: HashSet<RequestId>,
    /// The pings of the server.
    pings: HashSet<RequestId>,
}

impl Recorded {
    /// Takes a message of the client.
    fn take(&mut self, text: &str) {
        match Message::parse(text, DEPTH) {
            Ok(Message::Request { id, method, .. }) => {
                self.cancelled.remove(&id);
                self.methods.insert(id, method.into_owned());
            }
            Ok(Message::Notification { method, params: Some(params) }) if method == "notifications/cancelled" => {
                let id = params.member("requestId").and_then(|id| id.decode::<RequestId>().ok());
                self.cancelled.extend(id.filter(|id| self.methods.contains_key(id)));
            }
            _ => {}
        }
    }
}

/// Returns the messages of a line: the members of a batch, or the only one.
fn texts(line: &[u8]) -> Vec<String> {
    match serde_json::from_slice(line) {
        Ok(Value::Array(batch)) => batch.iter().map(Value::to_string).collect(),
        _ => str::from_utf8(line).map(str::to_owned).into_iter().collect(),
    }
}

/// Returns how many requests of each method the server of the record has sent, without pings.
fn recorded_questions(record: &Path) -> Result<HashMap<String, u64>, Failed> {
    let (mut lines, mut questions) = (Lines::new(Reader::open(record)?)?, HashMap::new());
    while let Some(item) = lines.next_item()? {
        let Item::Line(Line { from: Origin::Server, bytes, .. }) = item else { continue };
        for text in texts(&bytes) {
            if let Ok(Message::Request { method, .. }) = Message::parse(&text, DEPTH) {
                *questions.entry(method.into_owned()).or_default() += 1;
            }
        }
    }
    questions.remove("ping");
    Ok(questions)
}

impl Player {
    fn start(options: &AgainstOptions<'_>, expected: HashMap<String, u64>) -> Result<Self, Failed> {
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
        let (timeout, unexpected) = (options.timeout, Vec::new());
        Ok(Self { child, input, messages, timeout, responses, questions, asked, expected, unexpected })
    }

    fn send(&mut self, line: &[u8]) -> Result<(), Failed> {
        let Some(input) = &mut self.input else { return Ok(()) };
        let line = [line, b"\n"].concat();
        input
            .write_all(&line)
            .and_then(|()| input.flush())
            .map_err(|error| Failed::ended(format!("the server does not read any more: {error}")))
    }

    /// Returns the line of the client: a response has the id of the server's request. `None` if it only responds to
    /// pings.
    fn with_ids(&self, line: &[u8], pings: &HashSet<RequestId>) -> Option<Vec<u8>> {
        let Ok(mut value) = serde_json::from_slice::<Value>(line) else { return Some(line.to_vec()) };
        let id_of = |message: &Value| -> Option<RequestId> {
            let is_response = message.get("method").is_none() && message.is_object();
            serde_json::from_value(message.get("id").filter(|_| is_response)?.clone()).ok()
        };
        let is_for_ping = |message: &Value| id_of(message).is_some_and(|id| pings.contains(&id));
        let mut is_changed = false;
        let mut change = |message: &mut Value| {
            let actual = id_of(message).and_then(|id| self.asked.get(&id));
            if let Some(actual) = actual.and_then(|id| serde_json::from_str::<Value>(id.as_json()).ok()) {
                message["id"] = actual;
                is_changed = true;
            }
        };
        match &mut value {
            Value::Array(batch) => {
                let before = batch.len();
                batch.retain(|message| !is_for_ping(message));
                if batch.is_empty() && before > 0 {
                    return None;
                }
                batch.iter_mut().for_each(&mut change);
                is_changed |= batch.len() < before;
            }
            message if is_for_ping(message) => return None,
            message => change(message),
        }
        Some(if is_changed { value.to_string().into_bytes() } else { line.to_vec() })
    }

    /// Takes one line of the server.
    fn take(&mut self, deadline: Instant, wanted: &str) -> Result<(), Failed> {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = self.messages.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => Failed::timeout(format!("the server has not sent {wanted} in time")),
            RecvTimeoutError::Disconnected => Failed::ended(format!("the server has ended before {wanted}")),
        })?;
        for text in texts(&line) {
            self.take_message(&text)?;
        }
        Ok(())
    }

    fn take_message(&mut self, text: &str) -> Result<(), Failed> {
        match Message::parse(text, DEPTH) {
            Ok(Message::Response { id, .. } | Message::Error { id: Some(id), .. })
                if self.responses.len() < WAITING =>
            {
                self.responses.insert(id, serde_json::from_str(text)?);
            }
            Ok(Message::Request { id, method, .. }) if method == "ping" => {
                let response = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.as_json());
                self.send(response.as_bytes())?;
            }
            Ok(Message::Request { id, method, .. }) if self.questions.len() < WAITING => {
                match self.expected.get_mut(&*method) {
                    Some(left) if *left > 0 => {
                        *left -= 1;
                        self.questions.push_back((method.into_owned(), id));
                    }
                    _ => {
                        let id_text = id.as_json();
                        let error = r#"{"code":-32601,"message":"the record has no such request"}"#;
                        self.send(format!(r#"{{"jsonrpc":"2.0","id":{id_text},"error":{error}}}"#).as_bytes())?;
                        if self.unexpected.len() < WAITING {
                            self.unexpected.push((id, method.into_owned()));
                        }
                    }
                }
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
