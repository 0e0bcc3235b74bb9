//! Judges each message of a record.

use std::io::BufRead;

use mcp_proto::{
    Timestamp,
    codec::FrameEnd,
    connection::{ClientRole, ServerRole, Violation},
    protocol::{Era, Method, ProtocolVersion},
    schema::{
        ClientNotification, ClientRequest, ClientResult, DiscoverResult, InitializeParams, InitializeResult,
        ServerNotification, ServerRequest, ServerResult,
    },
    wire::{ArrayIter, MalformedKind, Message, RawJson, RequestId},
};

use super::{
    finding::{Finding, Kind},
    roles::{self, DEPTH, Role, Setup},
};
use crate::{
    error::Failed,
    messages::{Call, Fact, Item, Ledger, Line, Lines, is_modern},
    record::Origin,
};

/// One message of a line.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// `request`, `notification`, `result`, `error` or `invalid`.
    pub(crate) kind: &'static str,
    pub(crate) id: Option<String>,
    /// The method. A response has that of its request.
    pub(crate) method: Option<String>,
    pub(crate) subject: Option<String>,
    /// Microseconds since the request, for responses.
    pub(crate) took: Option<u64>,
    /// A remark that is no broken rule.
    pub(crate) note: Option<&'static str>,
    /// The code and the text of an error.
    pub(crate) error: Option<String>,
}

/// A line with what it means.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) steps: Vec<Step>,
    pub(crate) findings: Vec<Finding>,
}

/// Plays a record.
#[derive(Debug)]
pub(crate) struct Judge {
    setup: Setup,
    masked: bool,
    client: Role<ClientRole>,
    server: Role<ServerRole>,
    ledger: Ledger,
    number: u64,
    /// Whether the messages are those of HTTP: streams of one session have no order among each other.
    is_http: bool,
    /// Whether the server may not have got a request.
    has_lost: bool,
    /// Whether messages are only paired.
    is_silent: bool,
}

/// Reads what is known of a record before it is played: the capabilities and the revision.
pub(crate) fn read_setup<R: BufRead>(mut lines: Lines<R>) -> Result<Setup, Failed> {
    let (mut setup, mut ledger, mut number) = (Setup::default(), Ledger::default(), 0);
    let (mut claims_modern, mut has_answer) = (false, false);
    while let Some(item) = lines.next_item()? {
        let Item::Line(line) = item else { continue };
        let Ok(text) = str::from_utf8(&line.bytes) else { continue };
        let Ok(message) = Message::parse(text, DEPTH) else { continue };
        number += 1;
        if let Message::Request { method, params: Some(params), meta, .. } = &message
            && line.from == Origin::Client
        {
            claims_modern |= is_modern(meta.as_ref());
            if method == "initialize" {
                setup.client = params.decode::<InitializeParams>().ok().map(|params| params.capabilities);
            } else if setup.client.is_none() && setup.version.is_none() {
                let name = "io.modelcontextprotocol/clientCapabilities";
                setup.client = meta.as_ref().and_then(|meta| meta.member(name)?.decode().ok());
            }
        }
        let fact = ledger.take(number, line.at, line.from, &message);
        has_answer |= line.from == Origin::Server && matches!(fact, Fact::Answered(_));
        let (Fact::Answered(call), Message::Response { result, .. }) = (fact, &message) else { continue };
        if line.from == Origin::Client {
            continue;
        }
        setup.is_modern |= call.is_modern;
        match &*call.method {
            "initialize" => {
                if let Ok(result) = result.decode::<InitializeResult>() {
                    setup.version = ProtocolVersion::parse(&result.protocol_version);
                    setup.server = Some(result.capabilities);
                }
            }
            "server/discover" => {
                if let Ok(result) = result.decode::<DiscoverResult>() {
                    setup.server = Some(result.capabilities);
                }
            }
            _ => {}
        }
    }
    // Such as a subscription that was open until the end.
    setup.is_modern |= claims_modern && !has_answer;
    Ok(setup)
}

impl Judge {
    pub(crate) fn new(setup: Setup, masked: bool) -> Self {
        let (client, server) = (roles::client(&setup), roles::server(&setup));
        let (ledger, number) = (Ledger::default(), 0);
        Self { setup, masked, client, server, ledger, number, is_http: false, has_lost: false, is_silent: false }
    }

    /// Creates a judge of a session over HTTP, or of one exchange of 2026-07-28.
    pub(crate) fn over_http(setup: Setup, masked: bool, has_lost: bool) -> Self {
        Self { is_http: true, has_lost, ..Self::new(setup, masked) }
    }

    /// Creates a judge that pairs messages over HTTP, and finds no broken rule: too little is known of them.
    pub(crate) fn silent() -> Self {
        Self { is_http: true, is_silent: true, ..Self::new(Setup::default(), false) }
    }

    /// Returns whether messages are judged.
    pub(crate) const fn judges(&self) -> bool {
        !self.is_silent
    }

    /// Returns the revision of the session.
    pub(crate) const fn version(&self) -> Option<ProtocolVersion> {
        self.setup.version
    }

    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Takes it that the response to a request of the client may be there, and is not in the record.
    pub(crate) fn lose(&mut self, id: &RequestId) {
        self.ledger.lose(id);
    }

    /// Takes it that messages of the client may be sent again.
    pub(crate) const fn lose_messages(&mut self) {
        self.has_lost = true;
    }

    /// Describes what a side knows.
    pub(crate) fn knows(&self, side: Origin) -> String {
        match side {
            Origin::Client => self.client.knows(),
            Origin::Server => self.server.knows(),
        }
    }

    /// Takes a line.
    pub(crate) fn take(&mut self, line: &Line) -> Judged {
        let mut judged = self.judge(line);
        if self.is_silent {
            judged.findings.clear();
        }
        if self.is_http {
            judged.findings.retain_mut(|finding| finding.holds_over_http(self.has_lost));
        }
        judged
    }

    fn judge(&mut self, line: &Line) -> Judged {
        let version = self.setup.version.or(self.setup.is_modern.then_some(ProtocolVersion::LATEST));
        let invalid = |kind, what: String| Judged {
            steps: vec![Step::invalid()],
            findings: vec![Finding::new(line.from, kind, version, what)],
        };
        self.number += 1;
        match line.end {
            FrameEnd::Complete => {}
            FrameEnd::Oversized => return invalid(Kind::TooLong, "a message of more than 16 MiB".into()),
            FrameEnd::Unterminated => {
                return invalid(Kind::Truncated, "the stream ended in the middle of a message".into());
            }
        }
        let Ok(text) = str::from_utf8(&line.bytes) else {
            return invalid(Kind::NotJson, "the line is not UTF-8".into());
        };
        let mut judged = Judged { steps: Vec::new(), findings: Vec::new() };
        let is_batch = version == Some(ProtocolVersion::V2025_03_26)
            && Message::parse(text, DEPTH).is_err_and(|error| error.kind == MalformedKind::Array)
            && ArrayIter::new(text, DEPTH).next().is_some();
        if is_batch {
            for member in ArrayIter::new(text, DEPTH) {
                self.take_message(line, member, &mut judged);
            }
        } else {
            self.take_message(line, text, &mut judged);
        }
        judged
    }

    fn take_message(&mut self, line: &Line, text: &str, judged: &mut Judged) {
        let from = line.from;
        let message = match Message::parse(text, DEPTH) {
            Ok(message) => message,
            Err(_) if self.is_silent => return judged.steps.push(Step::invalid()),
            Err(_) => {
                judged.steps.push(Step::invalid());
                self.take_invalid(from, text);
                self.receive(line, text, self.version_of(false), judged);
                if judged.findings.is_empty() {
                    let what = "the line is no message";
                    judged.add(Finding::new(from, Kind::NotJson, self.version_of(false), what));
                }
                return;
            }
        };
        let fact = self.ledger.take(self.number, line.at, from, &message);
        let is_only_modern = self.setup.is_modern && self.setup.version.is_none();
        let modern = is_only_modern
            || match (&message, &fact) {
                (Message::Request { meta, .. }, _) => is_modern(meta.as_ref()),
                (_, Fact::Answered(call) | Fact::Cancelled(call)) => call.is_modern,
                _ => false,
            };
        let mut step = Step::of(&message, line.at, &fact);
        if self.is_silent {
            judged.steps.push(step);
            return;
        }
        if modern && !self.setup.is_modern {
            step.note = Some("a request of 2026-07-28, which the server does not serve");
            judged.steps.push(step);
            return;
        }
        // A client that has no answer to its discovery in time tries the other era.
        if is_only_modern && is_handshake(&message) {
            step.note = Some("a handshake, which the server does not accept");
            judged.steps.push(step);
            return;
        }
        let version = self.version_of(modern);
        self.judge_fact(from, &message, &fact, version, &mut step, judged);
        self.judge_types(from, &message, &fact, version, judged);
        judged.steps.push(step);
        // The machine of the sender has forgotten the request, but its token stays valid as long as the task.
        if matches!(fact, Fact::Progress { of_task: true, .. }) {
            return;
        }
        let is_known = !matches!(fact, Fact::Unknown { .. });
        let is_mapped = match &message {
            Message::Response { id, .. } | Message::Error { id: Some(id), .. } => match from {
                Origin::Client => self.server.has_sent(id),
                Origin::Server => self.client.has_sent(id),
            },
            _ => true,
        };
        // A response to a request that the machine itself could not send is no fault of its sender, and neither is a
        // response that crosses a cancellation.
        if is_mapped || !is_known {
            self.receive(line, text, version, judged);
        }
        self.act(line, &message, modern, version, judged);
        if let (Message::Response { id, .. } | Message::Error { id: Some(id), .. }, Fact::Answered(_)) =
            (&message, &fact)
        {
            match from {
                Origin::Client => self.server.forget(id),
                Origin::Server => self.client.forget(id),
            }
        }
    }

    /// Notes the ids in what is no message.
    fn take_invalid(&mut self, from: Origin, text: &str) {
        let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return };
        let all = value.as_array().map_or(std::slice::from_ref(&value), Vec::as_slice);
        for id in all.iter().filter_map(|one| serde_json::from_value(one.get("id")?.clone()).ok()) {
            self.ledger.take_invalid(from, &id, value.is_array());
        }
    }

    fn version_of(&self, modern: bool) -> Option<ProtocolVersion> {
        let latest = self.setup.is_modern.then_some(ProtocolVersion::LATEST);
        if modern { latest } else { self.setup.version.or(latest) }
    }

    /// Lets the machine of the other side receive a message.
    fn receive(&mut self, line: &Line, text: &str, version: Option<ProtocolVersion>, judged: &mut Judged) {
        let now = now(line.at);
        let violations = match line.from {
            Origin::Client => self.server.receive(now, text.as_bytes()),
            Origin::Server => self.client.receive(now, text.as_bytes()),
        };
        let null = serde_json::from_str::<serde_json::Value>(text)
            .is_ok_and(|value| value.get("id").is_some_and(serde_json::Value::is_null));
        // The types say where the mistake is.
        let has_shape = judged.findings.iter().any(|finding| finding.kind == Kind::Shape);
        for violation in violations {
            if has_shape && matches!(violation, Violation::BadParams(_)) {
                continue;
            }
            if let Some(finding) = Finding::of(line.from, &violation, version, null) {
                judged.add(finding);
            }
        }
    }

    /// Lets the machine of the sender do what the sender did.
    fn act(
        &mut self,
        line: &Line,
        message: &Message<'_>,
        modern: bool,
        version: Option<ProtocolVersion>,
        judged: &mut Judged,
    ) {
        let now = now(line.at);
        let client_is_modern = self.setup.version.is_none();
        let outcome = match (line.from, message) {
            (_, Message::Response { .. } | Message::Error { .. }) => match line.from {
                Origin::Client => self.client.respond(message),
                Origin::Server => self.server.respond(message),
            },
            (Origin::Client, Message::Request { id, method, params, .. }) => {
                let opens = if client_is_modern { "server/discover" } else { "initialize" };
                if method == opens {
                    self.client.opened(id);
                    return;
                }
                if modern != client_is_modern {
                    return;
                }
                // Any request may be the first one, or be sent while the discovery is pending.
                if modern {
                    self.client.open_without_discovery(now, self.setup.server.as_ref());
                }
                self.client.request(now, id, method, params.as_ref())
            }
            // The machine of the client says that there are none.
            (Origin::Server, Message::Request { .. }) if modern => return,
            (Origin::Server, Message::Request { id, method, params, .. }) => {
                self.server.request(now, id, method, params.as_ref())
            }
            (Origin::Client, Message::Notification { method, params }) => self.client.notify(method, params.as_ref()),
            // Those of 2026-07-28 belong to requests and subscriptions, which the machine of the client checks.
            (Origin::Server, Message::Notification { .. }) if modern => return,
            (Origin::Server, Message::Notification { method, params }) => self.server.notify(method, params.as_ref()),
        };
        // It is the second opinion on a message.
        if let Err(error) = outcome
            && judged.findings.is_empty()
            && let Some(finding) = Finding::of_refusal(line.from, &error, version)
        {
            judged.add(finding);
        }
    }

    fn judge_fact(
        &self,
        from: Origin,
        message: &Message<'_>,
        fact: &Fact,
        version: Option<ProtocolVersion>,
        step: &mut Step,
        judged: &mut Judged,
    ) {
        let mut broken = |kind, what: &str| judged.add(Finding::new(from, kind, version, what));
        let is_session = version.is_none_or(|version| version.era() == Era::Legacy);
        match fact {
            Fact::Began { is_reused, shares_token } => {
                if *is_reused && is_session {
                    broken(Kind::IdReused, "the id was used before");
                }
                if *shares_token {
                    broken(Kind::TokenInUse, "another request in flight has this progress token");
                }
            }
            Fact::Duplicate => broken(Kind::IdInUse, "the id is in flight already"),
            Fact::Unknown { was_used: false } => broken(Kind::UnknownResponse, "no request has this id"),
            Fact::Unknown { was_used: true } => {
                broken(Kind::UnknownResponse, "the request with this id has a response already");
            }
            Fact::OfInvalid { is_array: true } if matches!(message, Message::Response { .. }) => {
                broken(Kind::BatchExecuted, "a request of a batch has a result");
            }
            Fact::Answered(call) if call.cancelled => step.note = Some("the request was cancelled before"),
            Fact::Cancelled(call) if call.method == "initialize" => {
                broken(Kind::CancelInitialize, "the request that opens the session was cancelled");
            }
            Fact::CancelledUnknown { was_used: false } => {
                broken(Kind::CancelUnknown, "no request of this side has this id");
            }
            Fact::CancelledUnknown { was_used: true } => step.note = Some("the request has ended before"),
            Fact::Progress { grows: false, .. } => {
                broken(Kind::ProgressNotGrowing, "the progress is not larger than before");
            }
            Fact::Progress { was_cancelled: true, .. } => step.note = Some("the request was cancelled before"),
            Fact::ProgressUnknown => broken(Kind::ProgressUnknown, "no request in flight has this token"),
            _ => {}
        }
        if from == Origin::Client && !is_session && matches!(message, Message::Response { .. } | Message::Error { .. })
        {
            broken(Kind::ClientResponse, "a client of 2026-07-28 sent a response");
        }
    }

    /// Decodes params and results as the types of their methods.
    fn judge_types(
        &self,
        from: Origin,
        message: &Message<'_>,
        fact: &Fact,
        version: Option<ProtocolVersion>,
        judged: &mut Judged,
    ) {
        let is_masked = |value: &RawJson<'_>| self.masked && value.get().contains("***");
        let mut shape = |kind, what: String| judged.add(Finding::new(from, kind, version, what));
        match (message, fact) {
            (Message::Request { method, params, .. } | Message::Notification { method, params }, _) => {
                let Some(known) = Method::parse(method) else { return };
                if params.as_ref().is_some_and(is_masked) {
                    return;
                }
                let is_request = matches!(message, Message::Request { .. });
                if let Err(why) = decode_params(from, known, is_request, params.as_ref().map(RawJson::get)) {
                    let kind = match known {
                        Method::Progress => Kind::ProgressShape,
                        Method::Cancelled => Kind::CancelShape,
                        _ => Kind::Shape,
                    };
                    shape(kind, format!("the params of {method} do not fit: {why}"));
                }
            }
            (Message::Response { result, .. }, Fact::Answered(call)) => {
                if !result.is_object() {
                    return shape(Kind::ResultNotObject, format!("the result of {} is no object", call.method));
                }
                if call.is_modern && result.member("resultType").is_none() {
                    shape(Kind::ResultType, format!("the result of {} has no resultType", call.method));
                }
                if is_masked(result) || call.may_be_task {
                    return;
                }
                if let Err(why) = decode_result(from, call, result.get()) {
                    let kind = if call.method == "initialize" { Kind::InitializeResult } else { Kind::Shape };
                    shape(kind, format!("the result of {} does not fit: {why}", call.method));
                }
            }
            _ => {}
        }
    }
}

fn decode_params(
    from: Origin,
    method: Method,
    is_request: bool,
    params: Option<&str>,
) -> Result<(), serde_json::Error> {
    match (from, is_request) {
        (Origin::Client, true) if ClientRequest::METHODS.contains(&method) => {
            ClientRequest::decode(method, params).map(drop)
        }
        (Origin::Server, true) if ServerRequest::METHODS.contains(&method) => {
            ServerRequest::decode(method, params).map(drop)
        }
        (Origin::Client, false) if ClientNotification::METHODS.contains(&method) => {
            ClientNotification::decode(method, params).map(drop)
        }
        (Origin::Server, false) if ServerNotification::METHODS.contains(&method) => {
            ServerNotification::decode(method, params).map(drop)
        }
        // The state machines say so.
        _ => Ok(()),
    }
}

fn decode_result(from: Origin, call: &Call, result: &str) -> Result<(), serde_json::Error> {
    let Some(method) = Method::parse(&call.method) else { return Ok(()) };
    let method = method.in_era(if call.is_modern { Era::Modern } else { Era::Legacy });
    match from {
        Origin::Server if ClientRequest::METHODS.contains(&method) => ServerResult::decode(method, result).map(drop),
        Origin::Client if ServerRequest::METHODS.contains(&method) => ClientResult::decode(method, result).map(drop),
        _ => Ok(()),
    }
}

/// Returns whether a message is the first one of a session.
fn is_handshake(message: &Message<'_>) -> bool {
    matches!(message, Message::Request { method, meta, .. } if method == "initialize" && !is_modern(meta.as_ref()))
}

const fn now(at: u64) -> Timestamp {
    Timestamp::from_nanos(at.saturating_mul(1_000))
}

impl Judged {
    /// Adds a finding, unless there is one of its kind.
    fn add(&mut self, finding: Finding) {
        if self.findings.iter().all(|other| other.kind != finding.kind) {
            self.findings.push(finding);
        }
    }
}

impl Step {
    const fn invalid() -> Self {
        Self { kind: "invalid", id: None, method: None, subject: None, took: None, note: None, error: None }
    }

    fn of(message: &Message<'_>, at: u64, fact: &Fact) -> Self {
        let mut step = Self::invalid();
        let of_id = |id: &RequestId| Some(id.as_json().to_owned());
        match message {
            Message::Request { id, method, params, .. } => {
                step.kind = "request";
                (step.id, step.method) = (of_id(id), Some(method.to_string()));
                step.subject = crate::messages::subject(params.as_ref());
            }
            Message::Notification { method, .. } => {
                step.kind = "notification";
                step.method = Some(method.to_string());
            }
            Message::Response { id, .. } => (step.kind, step.id) = ("result", of_id(id)),
            Message::Error { id, error } => {
                (step.kind, step.id) = ("error", id.as_ref().and_then(of_id));
                step.error = Some(format!("{} {}", error.code, error.message));
            }
        }
        if let Fact::Answered(call) = fact {
            step.took = Some(at.saturating_sub(call.at));
            (step.method, step.subject) = (Some(call.method.clone()), call.subject.clone());
        }
        step
    }
}
