//! Requests of the server in a session, and subscriptions of requests that stand alone (2026-07-28).
//!
//! A request of the server ends exactly once for the application that made it, with the result that the client sent for it
//! or without a result. It reaches the client at most once. A subscription is acknowledged before anything else, and its
//! client hears of every change behind that.

use std::time::Duration;

use mcp_proto::{
    connection::{Outcome, RequestOptions},
    rpc::CallId,
    schema::ToolsListChangedParams,
    wire::{Json, RawJson},
};
use serde_json::{Value, json};

use super::{
    client::{Kind, Say},
    world::{ENVELOPE, World},
};
use crate::{
    explore::{Fault, Rule, demand},
    web::{modern, post},
};

/// What the metadata of each message of a subscription names.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A request of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// In which session.
    pub session: usize,
    /// Its name there.
    pub call: CallId,
    /// What its params say, and its result repeats.
    pub number: u64,
    /// The client that was asked, with the message: it has arrived.
    pub arrived: Option<(usize, Value)>,
    /// The client has answered it.
    pub answered: bool,
    /// It has ended for the application.
    pub ended: bool,
}

/// A subscription of a request that stands alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The id of the request.
    pub id: Value,
    /// It was acknowledged.
    pub acknowledged: bool,
    /// How many changes its client has heard of.
    pub heard: u64,
}

impl Subscription {
    /// A message has come on its stream.
    ///
    /// # Errors
    /// If it is not the next one of a subscription.
    pub(super) fn hear(&mut self, message: &Value) -> Result<(), Fault> {
        let broken = |why: &str| Err(Fault::new(Rule::Subscriptions, format!("{why}: {message}")));
        if message["params"]["_meta"][SUBSCRIPTION] != self.id {
            return broken("a message of another subscription");
        }
        match message["method"].as_str() {
            Some("notifications/subscriptions/acknowledged") if !self.acknowledged => self.acknowledged = true,
            Some("notifications/tools/list_changed") if self.acknowledged => self.heard += 1,
            _ => return broken("out of turn"),
        }
        Ok(())
    }
}

impl World {
    /// An application asks the client that it works for, with so many bytes more than it has to. Whether it could.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn ask(&mut self, job: usize, size: usize) -> Result<bool, Fault> {
        let (session, key, now) = (self.jobs[job].session, self.jobs[job].key, self.web.now);
        self.numbers += 1;
        let number = self.numbers;
        let params = json!({"messages": [], "maxTokens": 1, "number": number, "pad": "x".repeat(size)});
        let params = Json::new(&params).map_err(|error| Fault::new(Rule::Rest, error))?;
        let Some(open) = self.web.sessions.get_mut(&session) else { return Ok(false) };
        let time = Some(Duration::from_secs(60));
        let options = RequestOptions {
            related_request: Some(key),
            progress: false,
            total_timeout: time,
            ..RequestOptions::default()
        };
        let asked =
            open.connection(now).request_raw(now, "sampling/createMessage", Some(&RawJson::from(&params)), options);
        if let Ok(call) = asked {
            self.longest = self.longest.max(size + ENVELOPE);
            let question = Question { session, call, number, arrived: None, answered: false, ended: false };
            self.questions.push(question);
        }
        self.settle()?;
        Ok(asked.is_ok())
    }

    /// A client answers a request of the server that has arrived.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn reply(&mut self, question: usize) -> Result<(), Fault> {
        let question = &mut self.questions[question];
        let Some((who, message)) = &question.arrived else { return Ok(()) };
        let who = *who;
        let result = json!({"role": "assistant", "content": {"type": "text", "text": ""}, "model": "m",
            "number": question.number});
        let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        question.answered = true;
        let request = match &self.clients[who].kind {
            Kind::Session(id) => self.web.in_session(id, &body),
            Kind::Old(place) => post(place).body(body.to_string().into_bytes()).expect("a request"),
            Kind::Alone => return Err(Fault::new(Rule::FreshIds, "a request that stands alone was asked back")),
        };
        let asked = self.send(request, true);
        let now = self.web.now;
        self.clients[who].begin(now, asked, Vec::new(), false);
        self.settle()
    }

    /// A request of the server has arrived at a client.
    pub(super) fn arrived(&mut self, who: usize, message: Value) -> Result<(), Fault> {
        let number = message["params"]["number"].as_u64();
        let known = self.questions.iter_mut().find(|question| Some(question.number) == number);
        match known {
            Some(question) if question.arrived.is_none() => question.arrived = Some((who, message)),
            _ => return Err(Fault::new(Rule::Streams, format!("it was not asked, or not twice: {message}"))),
        }
        Ok(())
    }

    /// A request of the server has ended.
    pub(super) fn ended(&mut self, session: usize, call: CallId, outcome: &Outcome<'_>) -> Result<(), Fault> {
        let mut questions = self.questions.iter_mut();
        let question = questions.find(|it| (it.session, it.call) == (session, call) && !it.ended);
        let Some(question) = question else {
            return Err(Fault::new(Rule::EndsOnce, format!("{call:?} has ended before: {outcome:?}")));
        };
        question.ended = true;
        if let Outcome::Result(result) = outcome {
            let number = result.member("number").and_then(|number| number.decode::<u64>().ok());
            let fits = question.answered && number == Some(question.number);
            demand(fits, Rule::EndsRightly, || format!("{question:?} has ended with {number:?}"))?;
        }
        Ok(())
    }

    /// Whatever was asked has ended.
    pub(super) fn check_questions(&self) -> Result<(), Fault> {
        let open: Vec<_> = self.questions.iter().filter(|question| !question.ended).collect();
        demand(open.is_empty(), Rule::Rest, || format!("never ended: {open:?}"))
    }

    /// A client whose requests stand alone asks for changes: on which stream it hears of them.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn subscribe(&mut self, who: usize, reads: bool) -> Result<(), Fault> {
        let client = &mut self.clients[who];
        if client.kind != Kind::Alone {
            return Ok(());
        }
        // The id is one that no other request has.
        let (messages, _) = client.speak(&[Say::Ping], &mut self.numbers);
        let id = messages[0]["id"].clone();
        let request = modern(&id, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        let asked = self.send(request, reads);
        let now = self.web.now;
        let client = &mut self.clients[who];
        let at = client.begin(now, asked, Vec::new(), true);
        client.streams[at].subscription = Some(Subscription { id, acknowledged: false, heard: 0 });
        self.settle()
    }

    /// The list of tools changes, and every connection is told.
    ///
    /// # Errors
    /// If a subscription that is read does not hear of it.
    pub fn change(&mut self) -> Result<(), Fault> {
        let now = self.web.now;
        for session in self.web.sessions.values_mut() {
            let _ = session.connection(now).notify(&ToolsListChangedParams::default());
        }
        let before: Vec<_> = self.heard().map(|(who, at, heard, _)| (who, at, heard)).collect();
        self.settle()?;
        for (who, at, heard, reads) in self.heard() {
            let is_behind = before.contains(&(who, at, heard));
            demand(!reads || !is_behind, Rule::Subscriptions, || format!("{who} has not heard of a change on {at}"))?;
        }
        Ok(())
    }

    /// Of each subscription that is open: how many changes its client has heard of, and whether it reads what comes.
    fn heard(&self) -> impl Iterator<Item = (usize, usize, u64, bool)> {
        self.clients.iter().enumerate().flat_map(move |(who, client)| {
            client.streams.iter().enumerate().filter_map(move |(at, stream)| {
                let (carrier, subscription) = (stream.carrier.as_ref()?, stream.subscription.as_ref()?);
                Some((who, at, subscription.heard, self.web.is_read(carrier.asked)))
            })
        })
    }
}
