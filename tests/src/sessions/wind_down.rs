//! Winds a system down: every request ends, and all sessions become idle.

use std::time::Duration;

use mcp_proto::connection::ResourceUsage;

use super::{
    client::{ClientMessage, TransportKind},
    system::{RespondOutcome, System},
};
use crate::explore::{Rule, Violation, ensure};

/// The number of rounds after which a missing response counts as lost.
const ROUNDS: usize = 12;

impl System {
    /// Lets applications respond, clients read and resume lost streams, and time pass. Then checks that the system is
    /// idle.
    ///
    /// # Errors
    /// If the system is not idle, or a rule is broken.
    pub fn wind_down(&mut self) -> Result<(), Violation> {
        self.answer_unread()?;
        for client_index in 0..self.clients.len() {
            for at in 0..self.clients[client_index].streams.len() {
                if self.clients[client_index].streams[at].listens
                    && !matches!(self.clients[client_index].kind, TransportKind::HttpSse(_))
                {
                    self.disconnect(client_index, at)?;
                }
            }
        }
        for round in 0..ROUNDS {
            self.read_all()?;
            for server_request in 0..self.server_requests.len() {
                if !self.server_requests[server_request].answered {
                    self.respond_to_server_request(server_request)?;
                }
            }
            for job in 0..self.jobs.len() {
                if !self.jobs[job].answered {
                    let answered = self.respond(job, 1)?;
                    ensure(answered == RespondOutcome::Done || round < 2, Rule::Output, || {
                        "there is never capacity".into()
                    })?;
                }
            }
            for client_index in 0..self.clients.len() {
                for at in 0..self.clients[client_index].streams.len() {
                    let stream = &self.clients[client_index].streams[at];
                    if stream.is_resumable() && !stream.listens && !self.clients[client_index].over {
                        self.resume(client_index, at, true)?;
                    }
                }
            }
            self.read_all()?;
            self.advance(Duration::from_secs(2))?;
            let is_away = |client_index: &super::Client| {
                !client_index.over && client_index.streams.iter().any(|it| it.is_resumable() && !it.listens)
            };
            let answered = self.jobs.iter().all(|job| job.answered);
            if round > 0 && answered && !self.clients.iter().any(is_away) {
                break;
            }
        }
        self.check_answers()?;
        for client_index in 0..self.clients.len() {
            self.make_final_call(client_index)?;
        }
        let limits = self.config.limits.clone();
        self.advance(limits.replay_time + limits.keepalive)?;
        self.check_idle()?;
        self.check_server_requests()?;
        for client_index in 0..self.clients.len() {
            self.delete(client_index)?;
            if matches!(self.clients[client_index].kind, TransportKind::HttpSse(_)) {
                self.disconnect(client_index, 0)?;
            }
        }
        self.advance(Duration::from_secs(60))?;
        let left = (self.server.sessions.len(), self.server.endpoint.len(), self.server.endpoint.requests());
        ensure(left == (0, 0, 0), Rule::Rest, || format!("sessions that are over remain: {left:?}"))
    }

    /// Lets applications respond while no client starts to read. A client that does not read blocks others for a
    /// limited time only.
    fn answer_unread(&mut self) -> Result<(), Violation> {
        let time = 2 * self.config.limits.stalled;
        for job in 0..self.jobs.len() {
            let is_resumable =
                self.server.sessions.get(&self.jobs[job].session).is_some_and(|session| session.id().is_some());
            let is_old = self.clients.iter().any(|client| matches!(client.kind, TransportKind::HttpSse(_)));
            if self.jobs[job].answered || !is_resumable || is_old || self.respond(job, 1)? == RespondOutcome::Done {
                continue;
            }
            self.advance(time)?;
            ensure(self.respond(job, 1)? == RespondOutcome::Done, Rule::Output, || {
                format!("no capacity within {time:?}")
            })?;
        }
        Ok(())
    }

    fn read_all(&mut self) -> Result<(), Violation> {
        for client_index in 0..self.clients.len() {
            for abandoned in std::mem::take(&mut self.clients[client_index].abandoned) {
                self.server.read(abandoned.sent, true);
                self.server.disconnect(abandoned.sent);
            }
            for at in 0..self.clients[client_index].streams.len() {
                self.read(client_index, at)?;
            }
        }
        Ok(())
    }

    /// Checks that each request has a response or is known to be lost, and that all exchanges of requests have ended.
    fn check_answers(&self) -> Result<(), Violation> {
        for client in self.clients.iter().filter(|client| !client.over) {
            let open = client.open_requests();
            ensure(open.is_empty(), Rule::Rest, || format!("never answered: {open:?} of {:?}", client.streams))?;
            for stream in client.streams.iter().filter(|stream| !stream.listens) {
                ensure(stream.exchange.is_none(), Rule::Rest, || format!("an exchange that never ends: {stream:?}"))?;
            }
        }
        Ok(())
    }

    /// Sends a final call of a client, so that the session checks its streams.
    fn make_final_call(&mut self, client_index: usize) -> Result<(), Violation> {
        if self.clients[client_index].over {
            return Ok(());
        }
        let before = self.jobs.len();
        let at = self.send_messages(client_index, &[ClientMessage::Call { progress: true }], false, true)?;
        for job in before..self.jobs.len() {
            self.progress(job, 1)?;
            self.respond(job, 1)?;
        }
        self.read(client_index, at)?;
        self.check_answers()?;
        Ok(())
    }

    /// Checks that all sessions are idle.
    fn check_idle(&self) -> Result<(), Violation> {
        for session in self.server.sessions.values() {
            let usage = session.usage();
            let connection = session.view().usage();
            let old =
                self.clients.iter().any(|client| matches!(&client.kind, TransportKind::HttpSse(_)) && !client.over);
            let exchanges = usize::from(session.id().is_some() && usage.exchanges == 1 && old);
            let rest = (usage.exchanges - exchanges, usage.queued_bytes, usage.streams, usage.events);
            ensure(rest == (0, 0, 0, 0), Rule::Rest, || format!("a session is not idle: {usage:?}"))?;
            ensure((usage.replay, usage.replay_bytes) == (0, 0), Rule::Rest, || {
                format!("the replay is not empty: {usage:?}")
            })?;
            ensure(connection == ResourceUsage::default(), Rule::Rest, || {
                format!("a connection is not idle: {connection:?}")
            })?;
        }
        Ok(())
    }
}
