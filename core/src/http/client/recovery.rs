//! Sessions and streams: how they begin, and what becomes of them when they are lost.

use alloc::{boxed::Box, string::String, vec::Vec};

use http::{StatusCode, response::Parts};

use super::{
    Client, ExchangeId,
    exchange::{Exchange, Flow, Job, Kind, Post, Refused, Stage, Why},
    machine::Gate,
};
use crate::connection::{CloseReason, Failure};

impl Client {
    pub(super) fn broken(&mut self, id: ExchangeId, why: String) {
        let Some(Exchange { job, uri, redirects, .. }) = self.exchanges.remove(&id) else { return };
        match job {
            Job::Listen(_) | Job::Resume(_) => self.come_back(job),
            // It may have been asked on what the refusal came on, and that may have been closed behind it.
            Job::Old(Some(why)) if !why.again => {
                self.start(Job::Old(Some(Box::new(Why { again: true, ..*why }))), uri, redirects);
            }
            Job::Old(Some(why)) => self.refused(Job::Post(why.post), why.refused),
            Job::Old(None) => self.end(CloseReason::Lost(why)),
            Job::Post(Post { kind: Kind::Initialized, .. }) => self.open_gate(),
            Job::Post(_) => self.unanswered(&job, Failure::Network(why)),
            Job::Farewell(_) | Job::Done => {}
        }
    }

    pub(super) fn stream_ended(&mut self, id: ExchangeId) {
        let Some(Exchange { job, .. }) = self.exchanges.remove(&id) else { return };
        match job {
            Job::Listen(_) | Job::Resume(_) => self.come_back(job),
            Job::Post(post) if post.mirrored.is_none() && !post.flow.last_id.is_empty() => {
                self.come_back(Job::Resume(post));
            }
            Job::Post(_) => self.unanswered(&job, Failure::StreamLost),
            Job::Old(Some(why)) => self.refused(Job::Post(why.post), why.refused),
            // The session was that stream.
            Job::Old(None) => self.end(CloseReason::Eof),
            Job::Farewell(_) | Job::Done => {}
        }
    }

    /// Takes up a stream that was lost, later.
    pub(super) fn come_back(&mut self, job: Job) {
        if job.asked().is_some_and(|asked| !self.conn.awaits(asked.id)) {
            return;
        }
        if let Some(job) = self.pause(job) {
            self.deaf |= matches!(job, Job::Listen(_));
            self.unanswered(&job, Failure::StreamLost);
        }
    }

    /// The server does not open a stream, or take one up again.
    pub(super) fn not_resumed(&mut self, id: ExchangeId, head: &Parts) {
        let Some(job) = self.relieve(id) else { return };
        match job {
            job if Failure::status_may_pass(head.status.as_u16()) => self.come_back(job),
            // What it was read up to means nothing to the server. Perhaps a new one does.
            Job::Listen(flow) if head.status == StatusCode::BAD_REQUEST && !flow.last_id.is_empty() => {
                self.come_back(Job::Listen(Flow { last_id: String::new(), ..flow }));
            }
            Job::Listen(_) => self.deaf = true,
            job => self.unanswered(&job, Failure::StreamLost),
        }
    }

    /// A message without an answer of its own was accepted.
    pub(super) fn accepted(&mut self, id: ExchangeId) {
        self.dismiss(id);
        if self.gate == Gate::Initialized(id) {
            self.open_gate();
        }
    }

    /// There is a session: the server is listened to, and what was held back goes as soon as it can be heard.
    pub(super) fn open_gate(&mut self) {
        match self.listen() {
            Some(stream) => {
                let until = self.clock + self.options.limits.silence;
                self.gate = Gate::Listening { stream, until };
            }
            None => self.let_go(),
        }
    }

    /// What was held back goes.
    pub(super) fn let_go(&mut self) {
        self.gate = Gate::Open;
        for post in core::mem::take(&mut self.held) {
            self.post(post);
        }
    }

    /// The handshake is over.
    pub(super) fn opened(&mut self, id: ExchangeId) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            self.session = exchange.session.take();
        }
        self.gate = Gate::Until(Kind::Initialized);
        self.deaf = false;
    }

    /// The server does not know the session any more.
    pub(super) fn session_lost(&mut self, id: ExchangeId) {
        let sent_in = self.exchanges.get_mut(&id).and_then(|exchange| exchange.sent_in.take());
        let Some(job) = self.relieve(id) else { return };
        let is_news = self.session.is_some() && self.session == sent_in;
        match job {
            // It belongs to what is lost.
            Job::Post(Post { asked: None, .. }) => {}
            Job::Post(post) if post.again => {
                let refused = Refused { status: 404, ..Refused::default() };
                return self.refused(Job::Post(post), refused);
            }
            // It was never accepted, so it can be sent in the next one.
            Job::Post(post) if is_news || self.gate != Gate::Open => {
                self.held.push_back(Post { again: true, ..post });
            }
            Job::Post(post) => self.post(Post { again: true, ..post }),
            job => self.unanswered(&job, Failure::SessionLost),
        }
        if !is_news {
            return;
        }
        self.session = None;
        let streams: Vec<_> = self
            .exchanges
            .iter()
            .filter(|(_, it)| {
                matches!(it.stage, Stage::Events(_) | Stage::Whole(_)) || matches!(it.job, Job::Listen(_))
            })
            .map(|(id, _)| *id)
            .collect();
        for id in streams {
            if let Some(Exchange { job, .. }) = self.abort(id) {
                self.unanswered(&job, Failure::SessionLost);
            }
        }
        for pause in core::mem::take(&mut self.pauses) {
            self.unanswered(&pause.job, Failure::SessionLost);
        }
        self.gate = Gate::Until(Kind::Initialize);
        self.conn.renew(self.clock);
    }
}
