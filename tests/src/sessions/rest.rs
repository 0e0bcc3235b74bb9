//! Everything comes to an end: whatever is owed is answered, read or given up, and nothing is left.

use std::time::Duration;

use mcp_proto::connection::ResourceUsage;

use super::{
    client::{Kind, Say},
    world::{Answered, World},
};
use crate::explore::{Fault, Rule, demand};

/// Rounds after which what is still owed never comes.
const ROUNDS: usize = 12;

impl World {
    /// Applications answer what they have been asked, clients read what there is and come back for what they have lost, and
    /// time passes. Then nothing is left.
    ///
    /// # Errors
    /// If anything is, or a rule is broken on the way.
    pub fn wind_down(&mut self) -> Result<(), Fault> {
        self.answer_unread()?;
        for who in 0..self.clients.len() {
            for at in 0..self.clients[who].streams.len() {
                if self.clients[who].streams[at].listens && !matches!(self.clients[who].kind, Kind::Old(_)) {
                    self.hang_up(who, at)?;
                }
            }
        }
        for round in 0..ROUNDS {
            self.read_all()?;
            for question in 0..self.questions.len() {
                if !self.questions[question].answered {
                    self.reply(question)?;
                }
            }
            for job in 0..self.jobs.len() {
                if !self.jobs[job].answered {
                    let answered = self.answer(job, 1)?;
                    demand(answered == Answered::Done || round < 2, Rule::Output, || "there is never room".into())?;
                }
            }
            for who in 0..self.clients.len() {
                for at in 0..self.clients[who].streams.len() {
                    let stream = &self.clients[who].streams[at];
                    if stream.is_away() && !stream.listens && !self.clients[who].over {
                        self.resume(who, at, true)?;
                    }
                }
            }
            self.read_all()?;
            self.pass(Duration::from_secs(2))?;
            let is_away = |who: &super::Client| !who.over && who.streams.iter().any(|it| it.is_away() && !it.listens);
            let answered = self.jobs.iter().all(|job| job.answered);
            if round > 0 && answered && !self.clients.iter().any(is_away) {
                break;
            }
        }
        self.check_answers()?;
        for who in 0..self.clients.len() {
            self.leave(who)?;
        }
        let limits = self.play.limits.clone();
        self.pass(limits.replay_time + limits.keepalive)?;
        self.check_rest()?;
        self.check_questions()?;
        for who in 0..self.clients.len() {
            self.delete(who)?;
            if matches!(self.clients[who].kind, Kind::Old(_)) {
                self.hang_up(who, 0)?;
            }
        }
        self.pass(Duration::from_secs(60))?;
        let left = (self.web.sessions.len(), self.web.endpoint.len(), self.web.endpoint.requests());
        demand(left == (0, 0, 0), Rule::Rest, || format!("sessions that are over are still there: {left:?}"))
    }

    /// Applications answer while no client begins to read. A client that does not read holds up others for a while at most.
    fn answer_unread(&mut self) -> Result<(), Fault> {
        let time = 2 * self.play.limits.stalled;
        for job in 0..self.jobs.len() {
            let lasts = self.web.sessions.get(&self.jobs[job].session).is_some_and(|session| session.id().is_some());
            let is_old = self.clients.iter().any(|client| matches!(client.kind, Kind::Old(_)));
            if self.jobs[job].answered || !lasts || is_old || self.answer(job, 1)? == Answered::Done {
                continue;
            }
            self.pass(time)?;
            demand(self.answer(job, 1)? == Answered::Done, Rule::Output, || {
                format!("there is no room, and none comes in {time:?}")
            })?;
        }
        Ok(())
    }

    fn read_all(&mut self) -> Result<(), Fault> {
        for who in 0..self.clients.len() {
            for asked in std::mem::take(&mut self.clients[who].dead) {
                self.web.read(asked, true);
                self.web.hang_up(asked);
            }
            for at in 0..self.clients[who].streams.len() {
                self.read(who, at)?;
            }
        }
        Ok(())
    }

    /// Every request was answered, or its client knows why not; and what was cancelled is over, too.
    fn check_answers(&self) -> Result<(), Fault> {
        for client in self.clients.iter().filter(|client| !client.over) {
            let open = client.open();
            demand(open.is_empty(), Rule::Rest, || format!("never answered: {open:?} of {:?}", client.streams))?;
            for stream in client.streams.iter().filter(|stream| !stream.listens) {
                demand(stream.carrier.is_none(), Rule::Rest, || format!("an exchange that never ends: {stream:?}"))?;
            }
        }
        Ok(())
    }

    /// A client calls once more, so that streams are looked through.
    fn leave(&mut self, who: usize) -> Result<(), Fault> {
        if self.clients[who].over {
            return Ok(());
        }
        let before = self.jobs.len();
        let at = self.say(who, &[Say::Call { progress: true }], false, true)?;
        for job in before..self.jobs.len() {
            self.progress(job, 1)?;
            self.answer(job, 1)?;
        }
        self.read(who, at)?;
        self.check_answers()?;
        Ok(())
    }

    /// Sessions hold nothing that waits for anything.
    fn check_rest(&self) -> Result<(), Fault> {
        for session in self.web.sessions.values() {
            let usage = session.usage();
            let connection = session.view().usage();
            let old = self.clients.iter().any(|client| matches!(&client.kind, Kind::Old(_)) && !client.over);
            let exchanges = usize::from(session.id().is_some() && usage.exchanges == 1 && old);
            let rest = (usage.exchanges - exchanges, usage.queued_bytes, usage.streams, usage.events);
            demand(rest == (0, 0, 0, 0), Rule::Rest, || format!("a session holds something: {usage:?}"))?;
            demand((usage.replay, usage.replay_bytes) == (0, 0), Rule::Rest, || {
                format!("it keeps something: {usage:?}")
            })?;
            demand(connection == ResourceUsage::default(), Rule::Rest, || {
                format!("a connection holds something: {connection:?}")
            })?;
        }
        Ok(())
    }
}
