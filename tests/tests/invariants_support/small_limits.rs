//! One side with small limits whose application sends more than fits, and a peer that reads now and then.

use mcp_proto::{
    connection::{Event, Limits, RequestOptions, SendError, ServerRole},
    protocol::{Capability, ProtocolVersion, VersionSet},
    rpc::ReplyKey,
    wire::{Json, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_server},
    message::{cancelled, listen, request, request_with_token},
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A step of the application or of the peer. Numbers select among the current candidates, or are sizes.
#[derive(Clone, Debug)]
pub(crate) enum LimitStep {
    /// The peer sends this many requests in one frame.
    Request(usize, usize),
    Ping,
    Listen,
    TakeBack(u64),
    Respond(usize, usize),
    RespondOrError(usize, usize),
    Progress(usize),
    Notify(usize),
    Notification(usize),
    Change,
    SendRequest,
    /// The peer reads this many messages.
    Read(usize),
}

pub(crate) fn limit_steps() -> impl Strategy<Value = LimitStep> {
    let size = || prop_oneof![Just(1usize), 1usize..500, 500usize..3000];
    prop_oneof![
        4 => (1usize..5, 0usize..3).prop_map(|(requests, pings)| LimitStep::Request(requests, pings)),
        1 => Just(LimitStep::Ping),
        1 => Just(LimitStep::Listen),
        1 => (0u64..60).prop_map(LimitStep::TakeBack),
        6 => (any::<usize>(), size()).prop_map(|(n, size)| LimitStep::Respond(n, size)),
        1 => (any::<usize>(), size()).prop_map(|(n, size)| LimitStep::RespondOrError(n, size)),
        2 => any::<usize>().prop_map(LimitStep::Progress),
        2 => size().prop_map(LimitStep::Notify),
        2 => size().prop_map(LimitStep::Notification),
        1 => Just(LimitStep::Change),
        1 => Just(LimitStep::SendRequest),
        2 => (0usize..6).prop_map(LimitStep::Read),
    ]
}

/// One side with the open requests of its application.
pub(crate) struct LimitedSide {
    harness: Harness<ServerRole>,
    limits: Limits,
    open: Vec<(ReplyKey, f64)>,
    next_id: u64,
    /// The number of `Busy` errors.
    pub(crate) busy: usize,
}

impl LimitedSide {
    /// Returns a server of a session with batches, or of 2026-07-28.
    pub(crate) fn new(is_modern: bool) -> Self {
        let mut config = full_server();
        let limits = &mut config.settings.limits;
        (limits.outbox_bytes, limits.control_bytes, limits.frame_bytes) = (2000, 100_000, 4000);
        (limits.calls, limits.requests) = (3, 20);
        let limits = limits.clone();
        config.capabilities = config.capabilities.with(Capability::TasksExtension);
        let harness = if is_modern {
            config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
            Harness::server(config)
        } else {
            Harness::ready_server_with(config, ProtocolVersion::V2025_03_26)
        };
        Self { harness, limits, open: Vec::new(), next_id: 1, busy: 0 }
    }

    fn is_modern(&self) -> bool {
        self.harness.conn.version().is_none()
    }

    fn feed(&mut self, message: &Value) {
        self.harness.feed(message);
        for event in self.harness.take_events() {
            match event {
                Event::Request { key, .. } => self.open.push((key, 0.0)),
                Event::Closed(reason) => panic!("it is not to be left: {reason}"),
                _ => {}
            }
        }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Checks that a `Busy` connection has output to poll, and has capacity after that.
    fn check(&mut self, said: Result<(), SendError>, is_request: bool) {
        match said {
            Err(SendError::Busy) => self.busy += 1,
            Ok(())
            | Err(SendError::TooLarge | SendError::NotReady | SendError::Closed | SendError::NotInRevision { .. }) => {
                return;
            }
            Err(other) => panic!("{other}"),
        }
        let may_wait = is_request && self.harness.conn.usage().calls >= self.limits.calls;
        if !may_wait {
            assert!(self.harness.conn.has_output(), "there is no room, and nothing that could make some");
            let mut other = self.harness.conn.clone();
            let mut out = Vec::new();
            while other.poll_transmit(&mut out).is_some() {}
            assert!(other.has_room() && (is_request || !out.is_empty()), "what was polled has made no room");
        }
    }

    /// Feeds requests of the peer, in one batch where the revision has batches.
    fn feed_requests(&mut self, requests: usize, pings: usize) {
        let mut members = Vec::new();
        for _ in 0..requests {
            let id = self.id();
            members.push(if self.is_modern() {
                mcp_tests::message::modern(id, "tools/call", json!({"name": "t"}))
            } else {
                request_with_token(id, "tools/list", id)
            });
        }
        for _ in 0..pings {
            let id = self.id();
            members.push(request(id, "ping"));
        }
        if self.is_modern() || members.len() == 1 {
            members.iter().for_each(|member| self.feed(member));
        } else {
            self.feed(&Value::Array(members));
        }
    }

    pub(crate) fn step(&mut self, limit_steps: &LimitStep) {
        let json = |size: usize| Json::new(&json!({"pad": "x".repeat(size), "uri": "a:b"})).expect("JSON");
        let now = self.harness.now;
        match *limit_steps {
            LimitStep::Request(requests, pings) => {
                self.feed_requests(requests, pings);
            }
            LimitStep::Ping => {
                let id = self.id();
                self.feed(&request(id, "ping"));
            }
            LimitStep::Listen => {
                let id = self.id();
                self.feed(&listen(id, json!({"resourceSubscriptions": ["a:b"], "toolsListChanged": true})));
            }
            LimitStep::TakeBack(back) => {
                let id = self.next_id.saturating_sub(back);
                self.feed(&cancelled(id));
            }
            LimitStep::Respond(n, size) | LimitStep::RespondOrError(n, size) => {
                let Some(at) = n.checked_rem(self.open.len()) else { return };
                let (key, result) = (self.open[at].0, json(size));
                let result = RawJson::from(&result);
                let (said, gone) = if matches!(limit_steps, LimitStep::Respond(..)) {
                    let said = self.harness.conn.respond_raw(key, &result);
                    (said.clone(), said.is_ok())
                } else {
                    let said = self.harness.conn.respond_raw_or_error(key, &result);
                    (said.clone().map(drop), said.is_ok())
                };
                if gone {
                    self.open.swap_remove(at);
                } else {
                    assert!(self.harness.conn.request_id(key).is_some(), "it is still owed");
                }
                self.check(said, false);
            }
            LimitStep::Progress(n) => {
                let Some(at) = n.checked_rem(self.open.len()) else { return };
                let (key, progress) = &mut self.open[at];
                *progress += 1.0;
                let said = self.harness.conn.progress(*key, *progress, None, None);
                self.check(said, false);
            }
            LimitStep::Notify(size) => {
                let said = self.harness.conn.notify_raw("vendor/x", Some(&RawJson::from(&json(size))));
                self.check(said, false);
            }
            LimitStep::Notification(size) => {
                let said =
                    self.harness.conn.notify_raw("notifications/resources/updated", Some(&RawJson::from(&json(size))));
                self.check(said, false);
            }
            LimitStep::Change => {
                let said = self.harness.conn.notify_raw("notifications/tools/list_changed", None);
                self.check(said, false);
            }
            LimitStep::SendRequest => {
                let said = self.harness.conn.request_raw(now, "vendor/x", None, RequestOptions::default());
                self.check(said.map(drop), true);
            }
            LimitStep::Read(messages) => {
                let mut out = Vec::new();
                for _ in 0..messages {
                    self.harness.conn.poll_transmit(&mut out);
                }
            }
        }
    }

    /// Checks that every open request can get its response.
    pub(crate) fn finish(mut self) {
        while let Some((key, _)) = self.open.pop() {
            let result = Json::parse("{}").expect("JSON");
            let mut said = self.harness.conn.respond_raw(key, &RawJson::from(&result));
            if said == Err(SendError::Busy) {
                self.harness.sent();
                said = self.harness.conn.respond_raw(key, &RawJson::from(&result));
            }
            assert_eq!(said, Ok(()), "there is always room for a small answer, when what waits was read");
        }
        self.harness.sent();
        let usage = self.harness.conn.usage();
        assert_eq!((usage.outbox_bytes, usage.batches, usage.requests - usage.subscriptions), (0, 0, 0));
    }
}
