//! Requests of the server in a session, and subscriptions of stateless clients (2026-07-28).
//!
//! A request of the server ends exactly once for the application that sent it, with the result of the client or without
//! a result. It reaches the client at most once. The first message of a subscription is its acknowledgement, and its
//! client receives every later change.

use std::time::Duration;

use mcp_proto::{
    connection::{Outcome, RequestOptions},
    rpc::CallId,
    schema::ToolsListChangedParams,
    wire::{Json, RawJson},
};
use serde_json::{Value, json};

use super::{
    client::{ClientMessage, TransportKind},
    system::{ENVELOPE, System},
};
use crate::{
    explore::{Rule, Violation, ensure},
    http_server::{modern, post},
};

/// The member of the metadata that names the subscription of a message.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A request of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRequest {
    /// Its session.
    pub session: usize,
    /// Its id for the application.
    pub call: CallId,
    /// The number in its params, which the result repeats.
    pub number: u64,
    /// The client that received it, and the message.
    pub arrived: Option<(usize, Value)>,
    /// The client has responded.
    pub answered: bool,
    /// It has ended for the application.
    pub ended: bool,
}

/// A subscription of a stateless client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The id of the request.
    pub id: Value,
    /// It was acknowledged.
    pub acknowledged: bool,
    /// The number of changes that its client has received.
    pub changes: u64,
}

impl Subscription {
    /// Handles a message on the stream of the subscription.
    ///
    /// # Errors
    /// If the message does not belong to the subscription, or comes out of order.
    pub(super) fn handle(&mut self, message: &Value) -> Result<(), Violation> {
        let broken = |why: &str| Err(Violation::new(Rule::Subscriptions, format!("{why}: {message}")));
        if message["params"]["_meta"][SUBSCRIPTION] != self.id {
            return broken("a message of another subscription");
        }
        match message["method"].as_str() {
            Some("notifications/subscriptions/acknowledged") if !self.acknowledged => self.acknowledged = true,
            Some("notifications/tools/list_changed") if self.acknowledged => self.changes += 1,
            _ => return broken("out of turn"),
        }
        Ok(())
    }
}

impl System {
    /// Sends a request of an application to its client, with this many bytes of padding. Returns whether the core
    /// accepted it.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn send_server_request(&mut self, job: usize, size: usize) -> Result<bool, Violation> {
        let (session, key, now) = (self.jobs[job].session, self.jobs[job].key, self.server.now);
        self.numbers += 1;
        let number = self.numbers;
        let params = json!({"messages": [], "maxTokens": 1, "number": number, "pad": "x".repeat(size)});
        let params = Json::new(&params).map_err(|error| Violation::new(Rule::Rest, error))?;
        let Some(open) = self.server.sessions.get_mut(&session) else { return Ok(false) };
        let time = Some(Duration::from_secs(60));
        let options = RequestOptions {
            related_request: Some(key),
            progress: false,
            total_timeout: time,
            ..RequestOptions::default()
        };
        let sent =
            open.connection(now).request_raw(now, "sampling/createMessage", Some(&RawJson::from(&params)), options);
        if let Ok(call) = sent {
            self.longest = self.longest.max(size + ENVELOPE);
            let server_request = ServerRequest { session, call, number, arrived: None, answered: false, ended: false };
            self.server_requests.push(server_request);
        }
        self.settle()?;
        Ok(sent.is_ok())
    }

    /// Sends the response of a client to a request of the server.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn respond_to_server_request(&mut self, server_request: usize) -> Result<(), Violation> {
        let server_request = &mut self.server_requests[server_request];
        let Some((client_index, message)) = &server_request.arrived else { return Ok(()) };
        let client_index = *client_index;
        let result = json!({"role": "assistant", "content": {"type": "text", "text": ""}, "model": "m",
            "number": server_request.number});
        let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        server_request.answered = true;
        let request = match &self.clients[client_index].kind {
            TransportKind::Session(id) => self.server.in_session(id, &body),
            TransportKind::HttpSse(path) => post(path).body(body.to_string().into_bytes()).expect("a request"),
            TransportKind::Stateless => {
                return Err(Violation::new(Rule::FreshIds, "a request of the server to a stateless client"));
            }
        };
        let sent = self.send(request, true);
        let now = self.server.now;
        self.clients[client_index].begin(now, sent, Vec::new(), false);
        self.settle()
    }

    /// Records that a request of the server has reached a client.
    pub(super) fn on_server_request(&mut self, client_index: usize, message: Value) -> Result<(), Violation> {
        let number = message["params"]["number"].as_u64();
        let known = self.server_requests.iter_mut().find(|server_request| Some(server_request.number) == number);
        match known {
            Some(server_request) if server_request.arrived.is_none() => {
                server_request.arrived = Some((client_index, message))
            }
            _ => return Err(Violation::new(Rule::Streams, format!("an unknown or repeated request: {message}"))),
        }
        Ok(())
    }

    /// Records the end of a request of the server.
    pub(super) fn on_response(&mut self, session: usize, call: CallId, outcome: &Outcome<'_>) -> Result<(), Violation> {
        let mut server_requests = self.server_requests.iter_mut();
        let server_request = server_requests.find(|it| (it.session, it.call) == (session, call) && !it.ended);
        let Some(server_request) = server_request else {
            return Err(Violation::new(Rule::EndsOnce, format!("{call:?} has ended before: {outcome:?}")));
        };
        server_request.ended = true;
        if let Outcome::Result(result) = outcome {
            let number = result.member("number").and_then(|number| number.decode::<u64>().ok());
            let fits = server_request.answered && number == Some(server_request.number);
            ensure(fits, Rule::EndsRightly, || format!("{server_request:?} has ended with {number:?}"))?;
        }
        Ok(())
    }

    /// Checks that all requests of the server have ended.
    pub(super) fn check_server_requests(&self) -> Result<(), Violation> {
        let open: Vec<_> = self.server_requests.iter().filter(|server_request| !server_request.ended).collect();
        ensure(open.is_empty(), Rule::Rest, || format!("never ended: {open:?}"))
    }

    /// Opens a subscription of a stateless client.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn subscribe(&mut self, client_index: usize, reads: bool) -> Result<(), Violation> {
        let client = &mut self.clients[client_index];
        if client.kind != TransportKind::Stateless {
            return Ok(());
        }
        // The id differs from all other requests.
        let (messages, _) = client.build_messages(&[ClientMessage::Ping], &mut self.numbers);
        let id = messages[0]["id"].clone();
        let request = modern(&id, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        let sent = self.send(request, reads);
        let now = self.server.now;
        let client = &mut self.clients[client_index];
        let at = client.begin(now, sent, Vec::new(), true);
        client.streams[at].subscription = Some(Subscription { id, acknowledged: false, changes: 0 });
        self.settle()
    }

    /// Changes the list of tools on all connections.
    ///
    /// # Errors
    /// If a subscription that is read does not receive the change.
    pub fn change(&mut self) -> Result<(), Violation> {
        let now = self.server.now;
        for session in self.server.sessions.values_mut() {
            let _ = session.connection(now).notify(&ToolsListChangedParams::default());
        }
        let before: Vec<_> =
            self.received_changes().map(|(client_index, at, changes, _)| (client_index, at, changes)).collect();
        self.settle()?;
        for (client_index, at, changes, reads) in self.received_changes() {
            let missed_change = before.contains(&(client_index, at, changes));
            ensure(!reads || !missed_change, Rule::Subscriptions, || {
                format!("client {client_index} has not received a change on stream {at}")
            })?;
        }
        Ok(())
    }

    /// Returns for each open subscription the number of changes that its client has received, and whether the client
    /// reads.
    fn received_changes(&self) -> impl Iterator<Item = (usize, usize, u64, bool)> {
        self.clients.iter().enumerate().flat_map(move |(client_index, client)| {
            client.streams.iter().enumerate().filter_map(move |(at, stream)| {
                let (exchange, subscription) = (stream.exchange.as_ref()?, stream.subscription.as_ref()?);
                Some((client_index, at, subscription.changes, self.server.is_reading(exchange.sent)))
            })
        })
    }
}
