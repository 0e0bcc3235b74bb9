//! The tools of checks: a connection that they control, and the known facts of the server.

mod list;
mod observed;
mod send;

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use list::ReadList;
pub(super) use observed::{Entry, Observed, shorten};
pub(super) use send::{Provoked, Reply, brief};
use serde_json::{Value, json};

use super::{
    era::Era,
    outcome::{Outcome, Rules, Verdict, not_applicable, not_reachable},
    wire::{Program, Request, Site, is_own},
};

/// The newest revision with sessions.
pub(super) const NEWEST: &str = "2025-11-25";

/// The revision without sessions.
pub(super) const MODERN: &str = "2026-07-28";

/// The revisions with sessions, from the oldest to the newest.
pub(super) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST];

/// How long the deletion of a session is waited for.
const DELETE: Duration = Duration::from_secs(2);

/// How a server is reached.
pub(super) enum Wire {
    Program(Box<dyn Program>),
    Site(Box<dyn Site>),
}

/// The state of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing is known: a check begins with a new connection.
    Unknown,
    /// A new connection without a message.
    Fresh,
    /// A session of this revision.
    Session(String),
    /// Requests without a session.
    Modern,
    /// Both in one process: messages that belong to no request may be of either era.
    Mixed,
}

/// The facts that are known of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The result of `initialize`, if the server has sessions.
    pub(super) legacy: Option<Value>,
    /// The result of `server/discover`, if the server speaks 2026-07-28.
    pub(super) modern: Option<Value>,
    /// Whether the server wants other credentials.
    pub(super) is_unauthorized: bool,
    /// How it is reached, for the report, and why an era is not there.
    pub(super) notes: Vec<String>,
}

/// Limits of the malformed and the many messages of `--hostile`.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostileLimits {
    pub(super) bytes: usize,
    pub(super) depth: usize,
    pub(super) messages: usize,
}

/// The connection of a check.
pub(super) struct Probe {
    pub(super) wire: Wire,
    pub(super) timeout: Duration,
    pub(super) hostile: HostileLimits,
    pub(super) facts: Facts,
    pub(super) mode: Mode,
    era: Era,
    /// The check that runs.
    check: &'static str,
    /// The session over HTTP.
    pub(super) session: Option<String>,
    /// The revision of the last handshake.
    negotiated: Option<String>,
    next: u64,
    /// Whether a process has been started and has not written yet.
    is_starting: bool,
    observed: Observed,
    /// Requests of this connection by their ids, and whether they have a response.
    sent: HashMap<String, bool>,
    /// Lists that were read, also those without an end.
    lists: BTreeMap<(Era, &'static str), ReadList>,
    /// Responses to requests of the server that are to be sent, and how many the check has had.
    replies: Vec<Value>,
    reply_count: usize,
    /// Whether the check has asked for log messages.
    pub(super) accepts_logging: bool,
    /// Sessions over HTTP that are not used any more, as the requests that delete them.
    unused: Vec<Request>,
    /// Whether the server responds to DELETE in time.
    deletes: bool,
    /// Whether a request had no valid credentials, in which the server has no part.
    pub(super) has_no_credentials: bool,
}

impl Facts {
    /// Returns the name and the version that the server gives itself.
    pub(super) fn identity(&self) -> String {
        let legacy = self.legacy.as_ref().map(|result| &result["serverInfo"]);
        let modern = self.modern.as_ref().map(|it| &it["_meta"]["io.modelcontextprotocol/serverInfo"]);
        let Some(info) = legacy.or(modern) else { return String::new() };
        format!("{} {}", info["name"].as_str().unwrap_or_default(), info["version"].as_str().unwrap_or_default())
    }

    /// Returns whether the handshake of a session has named a revision with sessions.
    pub(super) fn has_known_session(&self) -> bool {
        let version = self.legacy.as_ref().and_then(|it| it["protocolVersion"].as_str());
        version.is_some_and(|version| LEGACY.contains(&version))
    }

    /// Returns the revisions that are judged.
    pub(super) fn revisions(&self) -> Vec<String> {
        let legacy = self.legacy.as_ref().and_then(|it| it["protocolVersion"].as_str());
        let modern = self.modern.as_ref().map(|_| MODERN);
        legacy.into_iter().chain(modern).map(str::to_owned).collect()
    }
}

impl Probe {
    pub(super) fn new(wire: Wire, timeout: Duration, hostile: HostileLimits) -> Self {
        Self {
            wire,
            timeout,
            hostile,
            facts: Facts::default(),
            mode: Mode::Unknown,
            era: Era::Legacy,
            check: "",
            session: None,
            negotiated: None,
            next: 0,
            is_starting: false,
            observed: Observed::default(),
            sent: HashMap::new(),
            lists: BTreeMap::new(),
            replies: Vec::new(),
            reply_count: 0,
            accepts_logging: false,
            unused: Vec::new(),
            deletes: true,
            has_no_credentials: false,
        }
    }

    pub(super) const fn is_http(&self) -> bool {
        matches!(self.wire, Wire::Site(_))
    }

    pub(super) const fn era(&self) -> Era {
        self.era
    }

    /// Returns whether the server speaks both eras.
    pub(super) const fn is_dual(&self) -> bool {
        self.facts.legacy.is_some() && self.facts.modern.is_some()
    }

    /// Returns the revision of the connection.
    pub(super) fn version(&self) -> &str {
        match &self.mode {
            Mode::Session(version) => version,
            Mode::Modern => MODERN,
            Mode::Unknown | Mode::Fresh | Mode::Mixed => match self.era {
                Era::Legacy => self.newest_session(),
                Era::Modern => MODERN,
            },
        }
    }

    /// Returns the newest revision with sessions that the server has offered.
    pub(super) fn newest_session(&self) -> &str {
        let version = self.facts.legacy.as_ref().and_then(|result| result["protocolVersion"].as_str());
        version.filter(|version| LEGACY.contains(version)).unwrap_or(NEWEST)
    }

    /// Returns the capabilities that the server declares in the era of the check.
    pub(super) fn capability(&self, name: &str) -> Option<&Value> {
        let declared = match self.era {
            Era::Legacy => &self.facts.legacy,
            Era::Modern => &self.facts.modern,
        };
        declared.as_ref()?.get("capabilities")?.get(name)
    }

    /// Begins a check: what is sent and received from now on belongs to it.
    pub(super) fn begin(&mut self, check: &'static str, era: Era) {
        self.delete_sessions();
        (self.check, self.era) = (check, era);
        (self.reply_count, self.accepts_logging) = (0, false);
        self.observed.begin();
    }

    /// Ends a check. After a failure the next one has a new connection.
    pub(super) fn end(&mut self, verdict: &Verdict) -> Vec<Entry> {
        if matches!(verdict, Err(Outcome::Failed { .. } | Outcome::NoResponse(_) | Outcome::NotReachable(_))) {
            self.mode = Mode::Unknown;
        }
        self.observed.end()
    }

    /// Returns the bytes that show a broken rule which was noticed in passing.
    pub(super) fn noticed(&self) -> Option<&str> {
        self.observed.noticed(self.check)
    }

    /// Returns the broken ones of some rules, and the bytes that show them.
    pub(super) fn broken(&self, rules: Rules) -> Option<(Vec<&'static str>, String)> {
        self.observed.broken(rules)
    }

    /// Opens the connection that checks of an era share, unless it is there.
    pub(super) fn enter(&mut self) -> Verdict {
        match self.era {
            Era::Legacy => {
                let version = self.newest_session().to_owned();
                self.session_at(&version)
            }
            Era::Modern if self.mode == Mode::Modern => Ok(()),
            Era::Modern => {
                self.fresh()?;
                self.mode = Mode::Modern;
                if !self.is_http() {
                    // The process starts, and a server that serves one era of a connection picks this one.
                    self.call("server/discover", Value::Null)?;
                }
                Ok(())
            }
        }
    }

    /// Opens a new connection.
    pub(super) fn fresh(&mut self) -> Verdict {
        self.sent.clear();
        self.observed.new_session();
        self.replies.clear();
        self.leave_session();
        if let Wire::Program(program) = &mut self.wire
            && let Err(error) = program.restart()
        {
            return not_reachable(format!("the server cannot be started: {error}"));
        }
        self.is_starting = !self.is_http();
        self.mode = Mode::Fresh;
        Ok(())
    }

    /// Gives up the session. It is deleted after the check, which may compare it with the next one.
    fn leave_session(&mut self) {
        if let Some(id) = self.session.take().filter(|_| self.is_http() && self.deletes) {
            let mut request = Request { method: "DELETE", ..Request::default() };
            request.set("Mcp-Session-Id", Some(&id));
            // The mode may be that of a check that has failed.
            let version = self.negotiated.as_deref().filter(|version| *version >= "2025-06-18");
            request.set("MCP-Protocol-Version", version);
            self.unused.push(request);
        }
    }

    fn delete_sessions(&mut self) {
        for request in std::mem::take(&mut self.unused) {
            if let Wire::Site(site) = &mut self.wire
                && self.deletes
            {
                let response = site.exchange(&request, self.timeout.min(DELETE));
                // Without valid credentials, it is not known whether the server responds.
                self.deletes = response.as_ref().err().is_none_or(is_own);
            }
        }
    }

    /// Returns a text without the secrets of the requests.
    pub(super) fn mask(&self, text: &str) -> String {
        self.observed.secrets.mask(text)
    }

    /// Deletes the sessions over HTTP that are left.
    pub(super) fn close(&mut self) {
        self.leave_session();
        self.mode = Mode::Unknown;
        self.delete_sessions();
    }

    /// Opens a session of a revision, unless it is there.
    pub(super) fn session_at(&mut self, version: &str) -> Verdict {
        if matches!(&self.mode, Mode::Session(current) if current == version) {
            return Ok(());
        }
        self.fresh()?;
        let reply = self.initialize(version)?;
        match reply.message["result"]["protocolVersion"].as_str() {
            Some(negotiated) if negotiated == version => self.initialized(version),
            Some(other) => not_applicable(format!("the server negotiates {other} instead of {version}")),
            None => not_reachable(format!("there is no session of {version}")),
        }
    }

    /// Sends `initialize` on a new connection.
    pub(super) fn initialize(&mut self, version: &str) -> Result<Reply, Outcome> {
        let reply = self.call("initialize", initialize_params(version))?;
        self.take_session(&reply);
        Ok(reply)
    }

    /// Takes the session of a handshake.
    pub(super) fn take_session(&mut self, reply: &Reply) {
        self.session = reply.header("mcp-session-id").map(str::to_owned);
        self.negotiated = reply.message["result"]["protocolVersion"].as_str().map(str::to_owned);
    }

    /// Sends `notifications/initialized`, after which there is a session.
    pub(super) fn initialized(&mut self, version: &str) -> Verdict {
        self.mode = Mode::Session(version.to_owned());
        let message = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.notify(&message).map(|_| ())
    }

    /// Returns a new id.
    pub(super) fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns a request of the era, with a new id.
    pub(super) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.next_id();
        self.request_with_id(json!(id), method, params)
    }

    pub(super) fn request_with_id(&self, id: Value, method: &str, mut params: Value) -> Value {
        if self.era == Era::Modern {
            if params.is_null() {
                params = json!({});
            }
            if params.is_object() && params.get("_meta").is_none() {
                params["_meta"] = modern_meta();
            }
        }
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        message
    }

    /// Calls a method, and returns its response.
    pub(super) fn call(&mut self, method: &str, params: Value) -> Result<Reply, Outcome> {
        let message = self.request(method, params);
        self.ask(&message)
    }

    /// Sends a request whose response another check requires: without a right one, the check that runs is not
    /// reachable, and what it sends next has a new connection.
    pub(super) fn call_needed(&mut self, method: &str, params: Value) -> Result<Reply, Outcome> {
        let reply = match self.enter() {
            Ok(()) => self.call(method, params),
            Err(outcome) => Err(outcome),
        };
        if reply.is_err() {
            self.mode = Mode::Unknown;
        }
        reply.or_else(|outcome| match outcome {
            Outcome::Failed { why, .. } | Outcome::NoResponse(why) => not_reachable(why),
            outcome => Err(outcome),
        })
    }

    /// Sends a request, and returns its response.
    pub(super) fn ask(&mut self, message: &Value) -> Result<Reply, Outcome> {
        let request = self.http_request(message);
        self.transact(&message.to_string(), &message["id"], &request)
    }

    /// Returns the POST request of a message, with the headers of the era.
    pub(super) fn http_request(&self, message: &Value) -> Request {
        let mut request = Request { method: "POST", ..Request::default() };
        request.body = message.to_string().into_bytes();
        request.set("Content-Type", Some("application/json"));
        request.set("Accept", Some("application/json, text/event-stream"));
        match self.era {
            Era::Legacy => {
                request.set("Mcp-Session-Id", self.session.as_deref());
                if let Mode::Session(version) = &self.mode
                    && version.as_str() >= "2025-06-18"
                {
                    request.set("MCP-Protocol-Version", Some(version));
                }
            }
            Era::Modern => {
                request.set("MCP-Protocol-Version", Some(MODERN));
                request.set("Mcp-Method", message["method"].as_str());
                let member = if message["method"] == "resources/read" { "uri" } else { "name" };
                if matches!(message["method"].as_str(), Some("tools/call" | "prompts/get" | "resources/read")) {
                    request.set("Mcp-Name", message["params"][member].as_str().map(header_value).as_deref());
                }
            }
        }
        request
    }
}

/// Returns the params of `initialize`.
pub(super) fn initialize_params(version: &str) -> Value {
    let client = json!({"name": "mcp-check", "version": env!("CARGO_PKG_VERSION")});
    json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client})
}

/// Returns the metadata of a request of 2026-07-28.
pub(super) fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "mcp-check", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Returns the value of a header that mirrors a text.
pub(super) fn header_value(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    if is_plain {
        return text.to_owned();
    }
    format!("=?base64?{}?=", mcp_proto::schema::encode_base64(text.as_bytes()))
}
