//! Plays the client's side of a record against a server, and compares the responses.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use mcp_driver::Command;
use mcp_proto::wire::{Message, RequestId};
use serde_json::{Value, json};

use super::{
    live_server::{Event, LiveServer},
    roles::DEPTH,
};
use crate::{
    address,
    error::Failed,
    messages::{Item, Line, Lines},
    record::{Origin, Reader},
    show,
    text::escaped,
};

/// The most bytes of messages of the server that wait until the record has reached them, and of responses to its
/// requests that it does not read.
const MAX_HELD: usize = 256 << 20;

/// The most differences of one response that are shown.
const SHOWN: usize = 10;

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
    server: LiveServer,
    timeout: Duration,
    /// Lines that are written after the current one.
    queue: VecDeque<Vec<u8>>,
    is_writing: bool,
    /// Whether the output of the server has ended.
    has_ended: bool,
    /// The requests of the client whose responses the record has not reached.
    awaited: HashSet<RequestId>,
    /// Responses that have arrived, by id. Their texts are many times smaller than their values.
    responses: HashMap<RequestId, String>,
    /// Requests of the server that the record has not reached: method and id.
    questions: VecDeque<(String, RequestId)>,
    /// The ids of its requests, by their ids in the record.
    asked: HashMap<RequestId, RequestId>,
    /// The ids, in the record, of requests that the server has not sent.
    missing: HashSet<RequestId>,
    /// How many requests of each method the record has that have not arrived yet.
    expected: HashMap<String, u64>,
    /// Requests that the record does not have.
    unexpected: Vec<(RequestId, String)>,
    /// The bytes of the queue, of responses and of requests that the record does not have.
    held: usize,
}

/// Plays a record against a server. The exit code is 1 if a response differs, or the requests of the server do.
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
                // The response may arrive before all of it is written.
                texts.iter().filter_map(|text| request_id(text)).for_each(|id| player.await_response(id));
                player.send(bytes)?;
            }
            continue;
        }
        for text in &texts {
            match Message::parse(text, DEPTH) {
                // The player responds to pings by itself.
                Ok(Message::Request { id, method, .. }) if method == "ping" => drop(record.pings.insert(id)),
                Ok(Message::Request { id, method, .. }) => {
                    let has_arrived = player.wait_for_question(&id, &method)?;
                    if !has_arrived {
                        let recorded = format!("the request {method}");
                        let difference = Difference { path: String::new(), recorded, received: "nothing".into() };
                        report(options.json, &id, &method, &[difference])?;
                        different += 1;
                    }
                }
                Ok(Message::Response { id, .. } | Message::Error { id: Some(id), .. }) => {
                    // A response to nothing is compared with nothing, and so is one that crossed a cancellation: the
                    // server need not send it.
                    let Some(method) = record.methods.remove(&id) else { continue };
                    if record.cancelled.remove(&id) {
                        player.skip_response(&id);
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
    let is_batch = line.trim_ascii_start().starts_with(b"[");
    match is_batch.then(|| serde_json::from_slice(line)) {
        Some(Ok(Value::Array(batch))) => batch.iter().map(Value::to_string).collect(),
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

/// Returns the id of a request.
fn request_id(text: &str) -> Option<RequestId> {
    match Message::parse(text, DEPTH) {
        Ok(Message::Request { id, .. }) => Some(id),
        _ => None,
    }
}

impl Player {
    fn start(options: &AgainstOptions<'_>, expected: HashMap<String, u64>) -> Result<Self, Failed> {
        if address::is_url(options.command) {
            return Err(Failed::usage("--against starts the program of a server, and uses no URL"));
        }
        let words = shell_words::split(options.command)
            .map_err(|error| Failed::usage(format!("`{}`: {error}", options.command)))?;
        let Some((program, arguments)) = words.split_first() else {
            return Err(Failed::usage("the command of --against is empty"));
        };
        let mut command = Command::new(program).args(arguments).inherit_env();
        for (name, value) in &options.variables {
            command = command.env(name, value);
        }
        command = if options.quiet { command.discard_stderr() } else { command.inherit_stderr() };
        // The server has a process group of its own, which Ctrl-C does not reach.
        mcp_blocking::shutdown_on_signals()?;
        let server = LiveServer::start(&command).map_err(|error| Failed::start(program, &error))?;
        Ok(Self {
            server,
            timeout: options.timeout,
            queue: VecDeque::new(),
            is_writing: false,
            has_ended: false,
            awaited: HashSet::new(),
            responses: HashMap::new(),
            questions: VecDeque::new(),
            asked: HashMap::new(),
            missing: HashSet::new(),
            expected,
            unexpected: Vec::new(),
            held: 0,
        })
    }

    /// Writes a line to the server, and takes what the server writes until it has read the line.
    fn send(&mut self, line: Vec<u8>) -> Result<(), Failed> {
        self.queue(line)?;
        let deadline = Instant::now() + self.timeout;
        while self.is_writing {
            if !self.take(deadline, "it has read all messages")? {
                return Err(Failed::timeout("the server has not read a message in time"));
            }
        }
        Ok(())
    }

    /// Writes a line to the server after those that are being written.
    fn queue(&mut self, line: Vec<u8>) -> Result<(), Failed> {
        self.hold(line.len())?;
        self.queue.push_back(line);
        self.write_next();
        Ok(())
    }

    fn write_next(&mut self) {
        if !self.is_writing
            && let Some(line) = self.queue.pop_front()
        {
            self.held -= line.len();
            self.server.write(line);
            self.is_writing = true;
        }
    }

    /// Counts bytes that are kept.
    fn hold(&mut self, len: usize) -> Result<(), Failed> {
        self.held += len;
        if self.held > MAX_HELD {
            let why = format!("more than {MAX_HELD} bytes of the server wait until the record has reached them");
            return Err(Failed::ended(why));
        }
        Ok(())
    }

    /// Returns the line of the client: a response has the id of the server's request. `None` if it only responds to
    /// pings, or to requests that the server has not sent.
    fn with_ids(&self, line: &[u8], pings: &HashSet<RequestId>) -> Option<Vec<u8>> {
        let Ok(mut value) = serde_json::from_slice::<Value>(line) else { return Some(line.to_vec()) };
        let id_of = |message: &Value| -> Option<RequestId> {
            let is_response = message.get("method").is_none() && message.is_object();
            serde_json::from_value(message.get("id").filter(|_| is_response)?.clone()).ok()
        };
        let is_unasked = |id: &RequestId| pings.contains(id) || self.missing.contains(id);
        let is_left_out = |message: &Value| id_of(message).is_some_and(|id| is_unasked(&id));
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
                batch.retain(|message| !is_left_out(message));
                if batch.is_empty() && before > 0 {
                    return None;
                }
                batch.iter_mut().for_each(&mut change);
                is_changed |= batch.len() < before;
            }
            message if is_left_out(message) => return None,
            message => change(message),
        }
        Some(if is_changed { value.to_string().into_bytes() } else { line.to_vec() })
    }

    /// Takes an event of the server. Returns whether there was one before the deadline. `wanted` is what the server has
    /// to do before it ends.
    fn take(&mut self, deadline: Instant, wanted: &str) -> Result<bool, Failed> {
        if self.has_ended && !self.is_writing {
            return Err(Failed::ended(format!("the server has ended before {wanted}")));
        }
        match self.server.next_event(deadline) {
            None => return Ok(false),
            Some(Event::Line(line)) => {
                for text in texts(&line) {
                    self.take_message(&text)?;
                }
            }
            Some(Event::Written(written)) => {
                written.map_err(|error| Failed::ended(format!("the server does not read any more: {error}")))?;
                self.is_writing = false;
                self.write_next();
            }
            Some(Event::End) => self.has_ended = true,
        }
        Ok(true)
    }

    fn take_message(&mut self, text: &str) -> Result<(), Failed> {
        match Message::parse(text, DEPTH) {
            // The first response counts.
            Ok(Message::Response { id, .. } | Message::Error { id: Some(id), .. }) if self.awaited.remove(&id) => {
                self.hold(text.len())?;
                self.responses.insert(id, text.to_owned());
            }
            Ok(Message::Request { id, method, .. }) if method == "ping" => {
                let response = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.as_json());
                self.queue(response.into_bytes())?;
            }
            Ok(Message::Request { id, method, .. }) => match self.expected.get_mut(&*method) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    self.questions.push_back((method.into_owned(), id));
                }
                _ => {
                    let id_text = id.as_json();
                    let error = r#"{"code":-32601,"message":"the record has no such request"}"#;
                    self.queue(format!(r#"{{"jsonrpc":"2.0","id":{id_text},"error":{error}}}"#).into_bytes())?;
                    self.hold(text.len())?;
                    self.unexpected.push((id, method.into_owned()));
                }
            },
            _ => {}
        }
        Ok(())
    }

    fn wait_for_response(&mut self, id: &RequestId, method: &str) -> Result<Value, Failed> {
        let deadline = Instant::now() + self.timeout;
        let wanted = format!("the response to {method} {}", id.as_json());
        loop {
            if let Some(response) = self.responses.remove(id) {
                self.held -= response.len();
                return Ok(serde_json::from_str(&response)?);
            }
            if !self.take(deadline, &wanted)? {
                return Err(Failed::timeout(format!("the server has not sent {wanted} in time")));
            }
        }
    }

    /// Takes it that a response is awaited from now on.
    fn await_response(&mut self, id: RequestId) {
        // An id may be used again.
        self.skip_response(&id);
        self.awaited.insert(id);
    }

    /// Forgets the response to a request, which need not arrive.
    fn skip_response(&mut self, id: &RequestId) {
        self.awaited.remove(id);
        if let Some(response) = self.responses.remove(id) {
            self.held -= response.len();
        }
    }

    /// Waits for a request of the server. Returns whether it has arrived in time.
    fn wait_for_question(&mut self, recorded: &RequestId, method: &str) -> Result<bool, Failed> {
        let deadline = Instant::now() + self.timeout;
        let wanted = format!("the request {method}");
        loop {
            if let Some(at) = self.questions.iter().position(|(asked, _)| asked == method)
                && let Some((_, actual)) = self.questions.remove(at)
            {
                self.missing.remove(recorded);
                self.asked.insert(recorded.clone(), actual);
                return Ok(true);
            }
            if !self.take(deadline, &wanted)? {
                // The record has no response to it any more.
                if let Some(left) = self.expected.get_mut(method) {
                    *left = left.saturating_sub(1);
                }
                self.missing.insert(recorded.clone());
                return Ok(false);
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
    if !json {
        return text(id, method, differences).iter().try_for_each(|line| show::line(line));
    }
    let differences: Vec<_> = differences
        .iter()
        .map(|it| json!({"path": it.path, "recorded": it.recorded, "received": it.received}))
        .collect();
    let id: Value = serde_json::from_str(id.as_json())?;
    let line = json!({"method": method, "id": id, "differences": differences});
    show::line(&show::for_stdout_json(&line.to_string()))
}

/// Returns the lines about a response. No name or value of the server can look like another line.
fn text(id: &RequestId, method: &str, differences: &[Difference]) -> Vec<String> {
    let short = |text: &str| escaped(&text.chars().take(200).collect::<String>());
    let verdict = if differences.is_empty() { "same" } else { "DIFFERS" };
    let mut lines = vec![format!("{verdict:<8} {} {}", short(method), short(id.as_json()))];
    for Difference { path, recorded, received } in differences {
        let path = if path.is_empty() { "the response" } else { path };
        lines.push(format!("         {}", short(path)));
        lines.push(format!("           recorded: {}", short(recorded)));
        lines.push(format!("           received: {}", short(received)));
    }
    lines
}

/// A part of the path of a value in a response.
#[derive(Clone, Copy)]
enum Step<'a> {
    Member(&'a str),
    Index(usize),
}

/// Returns a path as a JSON Pointer.
fn pointer(path: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        text.push('/');
        match step {
            Step::Member(name) => text.push_str(&name.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => text.push_str(&index.to_string()),
        }
    }
    text
}

/// Returns where two responses differ: JSON Pointers, at most [`SHOWN`].
fn compare(recorded: &Value, received: &Value, ignore: &[String]) -> Vec<Difference> {
    let mut found = Vec::new();
    compare_at(&mut Vec::new(), recorded, received, ignore, &mut found);
    found
}

/// Compares two values at a path. The text of a path is only made for a difference: a name can be as long as a message,
/// and have as many members.
fn compare_at<'a>(
    path: &mut Vec<Step<'a>>,
    recorded: &'a Value,
    received: &'a Value,
    ignore: &[String],
    found: &mut Vec<Difference>,
) {
    match (recorded, received) {
        (Value::Object(left), Value::Object(right)) => {
            let both = left.keys().chain(right.keys().filter(|name| !left.contains_key(*name)));
            for name in both.filter(|name| !ignore.contains(name)) {
                path.push(Step::Member(name));
                match (left.get(name), right.get(name)) {
                    (Some(left), Some(right)) => compare_at(path, left, right, ignore, found),
                    (left, right) => found.push(Difference::new(path, left, right)),
                }
                path.pop();
                if found.len() == SHOWN {
                    return;
                }
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                path.push(Step::Index(index));
                compare_at(path, left, right, ignore, found);
                path.pop();
                if found.len() == SHOWN {
                    return;
                }
            }
        }
        (left, right) if left == right => {}
        (left, right) => found.push(Difference::new(path, Some(left), Some(right))),
    }
}

impl Difference {
    fn new(path: &[Step<'_>], recorded: Option<&Value>, received: Option<&Value>) -> Self {
        let text = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
        Self { path: pointer(path), recorded: text(recorded), received: text(received) }
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
        assert_eq!(paths(json!([[1, 2], 3]), json!([[1, 4], 5]), &[]), ["/0/1", "/1"]);
    }

    /// A path is as long as the names in it: one for each member would take hundreds of gigabytes.
    #[test]
    fn long_names_of_large_values_are_compared_once() {
        let members: serde_json::Map<_, _> = (0..50_000).map(|it| (it.to_string(), json!([1]))).collect();
        let value = json!({"a".repeat(4 << 20): members});
        let began = Instant::now();
        assert!(compare(&value, &value, &[]).is_empty());
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }

    #[test]
    fn names_of_servers_stay_in_their_line() {
        let id: RequestId = serde_json::from_str("\"a\u{9b}\"").expect("an id");
        let path = pointer(&[Step::Member("a\nsame     tools/call 3\u{1b}[2J")]);
        let found = [Difference { path, recorded: "1\u{202e}".into(), received: "2\u{2028}".into() }];
        let expected = [
            "DIFFERS  roots/list\\n \"a\\u009b\"",
            "         /a\\nsame     tools~1call 3\\u001b[2J",
            "           recorded: 1\\u202e",
            "           received: 2\\u2028",
        ];
        assert_eq!(text(&id, "roots/list\n", &found), expected);
    }
}
