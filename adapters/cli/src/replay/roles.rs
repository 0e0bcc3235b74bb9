//! The state machines of both roles, which take part in a record: each receives the messages of the other side, and
//! does what its own side did. Ids of requests that a machine sends are its own, so those of the record are mapped.

use std::{collections::HashMap, time::Duration};

use mcp_proto::{
    Event, Timestamp,
    codec::Frame,
    connection::{
        Client, ClientConfig, ClientRole, Connection, Opening, RequestOptions, SendError, Server, ServerConfig,
        ServerRole, Violation,
    },
    protocol::{CapabilitySet, Era, ProtocolVersion, VersionSet},
    rpc::{CallId, ReplyKey},
    schema::{At, ClientCapabilities, Implementation, ServerCapabilities},
    wire::{JsonObject, Message, RawJson, RequestId},
};
use serde_json::{Map, Value, json};

/// The deepest nesting of JSON.
pub(crate) const DEPTH: u32 = 128;

/// The most ids that are mapped.
const MAX_IDS: usize = 1 << 16;

/// No deadline of a machine passes because of virtual time: a record may last for days.
const NO_DEADLINE: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The facts of a record that are collected before it is played.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// The revision that the server answered `initialize` with.
    pub(crate) version: Option<ProtocolVersion>,
    /// Whether there are requests of 2026-07-28.
    pub(crate) is_modern: bool,
    pub(crate) server: Option<ServerCapabilities>,
    pub(crate) client: Option<ClientCapabilities>,
}

impl Setup {
    fn versions(&self) -> VersionSet {
        let legacy = match self.version {
            Some(version) => VersionSet::only(version),
            None if self.is_modern => VersionSet::NONE,
            None => VersionSet::LEGACY,
        };
        if self.is_modern { legacy.union(VersionSet::MODERN) } else { legacy }
    }
}

/// A request that a machine has sent.
#[derive(Debug)]
struct Sent {
    call: Option<CallId>,
    own: RequestId,
    /// Its progress token in the record.
    token: Option<RequestId>,
    /// The one that the machine has chosen.
    own_token: Option<RequestId>,
    is_subscription: bool,
}

/// The member of `_meta` that names the subscription of a notification.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A machine.
#[derive(Debug)]
pub(crate) struct Role<E> {
    machine: Connection<E>,
    /// The keys of requests of the peer, by their ids.
    keys: HashMap<RequestId, ReplyKey>,
    /// The ids that the machine gave to requests of its side, by their ids in the record.
    sent: HashMap<RequestId, Sent>,
    /// The same for progress tokens, from the machine's ids.
    tokens: HashMap<RequestId, RequestId>,
    /// The key in `sent` of the request that opens the connection.
    opening: RequestId,
    out: Vec<u8>,
    ended: Option<String>,
}

fn info() -> Implementation {
    Implementation::new("replay", "1")
}

/// Returns the capabilities of a server that its client did not discover.
fn assumed() -> Value {
    let list = json!({"listChanged": true});
    json!({"tools": list, "prompts": list, "resources": {"listChanged": true, "subscribe": true}, "completions": {},
        "logging": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Creates the machine of the server.
pub(crate) fn server(setup: &Setup) -> Role<ServerRole> {
    let mut config = ServerConfig::new(info(), 0);
    config.capabilities = match &setup.server {
        Some(server) => server.clone(),
        None if setup.is_modern => serde_json::from_value(assumed()).unwrap_or_default(),
        None => ServerCapabilities::default(),
    };
    config.settings.versions = setup.versions();
    Role::new(Server::new(config, Timestamp::ZERO))
}

/// Creates the machine of the client.
pub(crate) fn client(setup: &Setup) -> Role<ClientRole> {
    let mut config = ClientConfig::new(info(), 0);
    config.capabilities = setup.client.clone().unwrap_or_default();
    // A client that supports both eras probes by itself; the record says which one was used in the end.
    let versions = setup.versions();
    let (era, versions) = match setup.version {
        Some(_) => (Era::Legacy, versions.intersection(VersionSet::LEGACY)),
        None if setup.is_modern => (Era::Modern, VersionSet::MODERN),
        None => (Era::Legacy, VersionSet::LEGACY),
    };
    config.settings.versions = versions;
    config.settings.handshake_timeout = NO_DEADLINE;
    config.settings.probe_timeout = NO_DEADLINE;
    config.settings.request = RequestOptions::no_timeout();
    let mut role = Role::new(Client::with_opening(config, Opening::known(era), Timestamp::ZERO));
    role.opening();
    role
}

impl<E> Role<E> {
    fn new(machine: Connection<E>) -> Self {
        let (keys, sent, tokens) = (HashMap::new(), HashMap::new(), HashMap::new());
        let opening = RequestId::from("\u{0}opening");
        Self { machine, keys, sent, tokens, opening, out: Vec::new(), ended: None }
    }

    /// Describes what this side knows: phase, revision, and the capabilities of the peer.
    pub(crate) fn knows(&self) -> String {
        let phase = match &self.ended {
            Some(why) => format!("closed ({why})"),
            None => format!("{:?}", self.machine.phase()).to_lowercase(),
        };
        let version = self.machine.version().map_or("no revision", ProtocolVersion::as_str);
        format!("{phase}, {version}, {}", names(self.machine.peer_capabilities()))
    }

    fn take(&mut self, event: Event<'_>, found: &mut Vec<Violation<'static>>) {
        match event {
            Event::Violation(violation) => found.push(violation.into_owned()),
            Event::Request { key, .. } => {
                if let Some(id) = self.machine.request_id(key)
                    && self.keys.len() < MAX_IDS
                {
                    self.keys.insert(id.clone(), key);
                }
            }
            Event::Closed(reason) => self.ended = Some(reason.to_string()),
            _ => {}
        }
    }

    /// Takes a message of the other side, and returns what is wrong with it.
    pub(crate) fn receive(&mut self, now: Timestamp, frame: &[u8]) -> Vec<Violation<'static>> {
        let mut found = Vec::new();
        if self.ended.is_some() {
            return found;
        }
        let mapped = self.with_own_ids(frame);
        let frame = mapped.as_deref().unwrap_or(frame);
        let event = self.machine.handle_frame(now, Frame::new(frame)).map(Event::into_owned);
        if let Some(event) = event {
            self.take(event, &mut found);
        }
        self.machine.handle_timeout(now);
        while let Some(event) = self.machine.poll_event() {
            self.take(event, &mut found);
        }
        self.discard_output();
        found
    }

    /// Returns a frame with the ids that the machine gave, if it is a response, progress, or about a subscription.
    fn with_own_ids(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let text = str::from_utf8(frame).ok()?;
        let value = match Message::parse(text, DEPTH).ok()? {
            Message::Response { id, result } => {
                let own = &self.sent.get(&id)?.own;
                return Some(
                    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, own.as_json(), result.get()).into_bytes(),
                );
            }
            Message::Error { id: Some(id), .. } => {
                let own = &self.sent.get(&id)?.own;
                let mut value: Value = serde_json::from_str(text).ok()?;
                value["id"] = serde_json::from_str(own.as_json()).ok()?;
                value
            }
            Message::Notification { method, params } if method == "notifications/progress" => {
                let token: RequestId = params?.member("progressToken")?.decode().ok()?;
                let own = self.tokens.get(&token)?;
                let mut value: Value = serde_json::from_str(text).ok()?;
                value["params"]["progressToken"] = serde_json::from_str(own.as_json()).ok()?;
                value
            }
            Message::Notification { method, params } => {
                let params = params?;
                let is_end = method == "notifications/cancelled";
                let id: RequestId = match is_end {
                    true => params.member("requestId")?.decode().ok()?,
                    false => params.member("_meta")?.member(SUBSCRIPTION)?.decode().ok()?,
                };
                let own = &self.sent.get(&id).filter(|sent| sent.is_subscription)?.own;
                let own: Value = serde_json::from_str(own.as_json()).ok()?;
                let mut value: Value = serde_json::from_str(text).ok()?;
                if is_end {
                    value["params"]["requestId"] = own;
                } else {
                    value["params"]["_meta"][SUBSCRIPTION] = own;
                }
                value
            }
            _ => return None,
        };
        Some(value.to_string().into_bytes())
    }

    fn discard_output(&mut self) {
        while self.machine.poll_transmit(&mut self.out).is_some() {
            self.out.clear();
        }
        while self.machine.poll_writable().is_some() {}
    }

    /// Sends a request of this side, as the record has it.
    pub(crate) fn request(
        &mut self,
        now: Timestamp,
        id: &RequestId,
        method: &str,
        params: Option<&RawJson<'_>>,
    ) -> Result<(), SendError> {
        let mut params: Map<String, Value> = params.and_then(|params| params.decode().ok()).unwrap_or_default();
        let meta = params.remove("_meta");
        let token: Option<RequestId> =
            meta.as_ref().and_then(|meta| serde_json::from_value(meta.get("progressToken")?.clone()).ok());
        let mut options = RequestOptions::no_timeout();
        options.progress = token.is_some();
        options.bypass_cache = true;
        options.follow_task = false;
        options.resubscribe = false;
        let params = JsonObject::new(&params)?;
        let call = self.machine.request_raw(now, method, Some(&RawJson::from(&params)), options)?;
        self.learn(id, Some(call), token, method == "subscriptions/listen");
        Ok(())
    }

    /// Reads the id and the progress token of the request that the machine has just written.
    fn learn(&mut self, id: &RequestId, call: Option<CallId>, token: Option<RequestId>, is_subscription: bool) {
        self.out.clear();
        while self.machine.poll_transmit(&mut self.out).is_some() {}
        let Some(line) = self.out.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()) else { return };
        let Some(Ok(Message::Request { id: own, meta, .. })) =
            str::from_utf8(line).ok().map(|line| Message::parse(line, DEPTH))
        else {
            return;
        };
        let own_token = meta.and_then(|meta| meta.member("progressToken")?.decode::<RequestId>().ok());
        if self.sent.len() == MAX_IDS {
            return;
        }
        if let (Some(token), Some(own)) = (token.clone(), own_token.clone()) {
            self.tokens.insert(token, own);
        }
        self.sent.insert(id.clone(), Sent { call, own, token, own_token, is_subscription });
    }

    /// Returns whether the machine has sent this request.
    pub(crate) fn has_sent(&self, id: &RequestId) -> bool {
        self.sent.contains_key(id)
    }

    /// Forgets a request of this side that has ended.
    pub(crate) fn forget(&mut self, id: &RequestId) {
        if let Some(Sent { token: Some(token), own_token, .. }) = self.sent.remove(id)
            // A later request may have it.
            && self.tokens.get(&token) == own_token.as_ref()
        {
            self.tokens.remove(&token);
        }
    }

    /// Sends a notification of this side.
    pub(crate) fn notify(&mut self, method: &str, params: Option<&RawJson<'_>>) -> Result<(), SendError> {
        let outcome = match method {
            "notifications/cancelled" => {
                let id: Option<RequestId> = params.and_then(|params| params.member("requestId")?.decode().ok());
                if let Some(Sent { call: Some(call), .. }) = id.and_then(|id| self.sent.get(&id)) {
                    // It may have ended in this moment.
                    let _ = self.machine.cancel(*call, None);
                }
                Ok(())
            }
            // The machine sends it by itself, and progress belongs to a request.
            "notifications/initialized" | "notifications/progress" => Ok(()),
            _ => self.machine.notify_raw(method, params),
        };
        self.discard_output();
        outcome
    }

    /// Sends a response of this side.
    pub(crate) fn respond(&mut self, message: &Message<'_>) -> Result<(), SendError> {
        let outcome = match message {
            Message::Response { id, result } => match self.keys.remove(id) {
                Some(key) => self.machine.respond_raw(key, result),
                // The machine has answered by itself.
                None => Ok(()),
            },
            Message::Error { id: Some(id), error } => match self.keys.remove(id) {
                Some(key) => self.machine.respond_error(key, error),
                None => Ok(()),
            },
            _ => Ok(()),
        };
        self.discard_output();
        outcome
    }
}

impl Role<ClientRole> {
    /// Reads the id of the request that opens the connection, to be mapped when the record has it.
    fn opening(&mut self) {
        self.learn(&self.opening.clone(), None, None, false);
    }

    /// Maps the request that opened the connection.
    pub(crate) fn opened(&mut self, id: &RequestId) {
        if let Some(own) = self.sent.remove(&self.opening) {
            self.sent.insert(id.clone(), own);
            self.opening = id.clone();
        }
    }

    /// Opens a connection of 2026-07-28 whose client sends requests before it has discovered the server. Unless the
    /// server tells its capabilities later, all are assumed.
    pub(crate) fn open_without_discovery(&mut self, now: Timestamp, server: Option<&ServerCapabilities>) {
        if let Some(Sent { own, .. }) = self.sent.remove(&self.opening) {
            let told = server.and_then(|server| At(server, Some(ProtocolVersion::LATEST)).to_json().ok());
            let capabilities = told.map_or_else(|| assumed().to_string(), |told| told.get().to_owned());
            let version = ProtocolVersion::LATEST.as_str();
            let frame = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"complete","supportedVersions":["{version}"],"capabilities":{capabilities},"ttlMs":0,"cacheScope":"private"}}}}"#,
                own.as_json()
            );
            self.receive(now, frame.as_bytes());
        }
    }
}

fn names(set: CapabilitySet) -> String {
    let names: Vec<_> = set.iter().map(|capability| capability.path()).collect();
    if names.is_empty() { "no capabilities".into() } else { names.join(" ") }
}
