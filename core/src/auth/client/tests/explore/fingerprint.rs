//! The parts of a state that decide about its successors.

extern crate std;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::{super::super::step::After, *};

impl System {
    /// Returns all that decides what can happen from here. Numbers that only count are taken relative to the last one.
    pub(super) fn fingerprint(&self) -> u64 {
        let Model { families, refreshes, entry, writes, signed_out } = &self.model;
        let json = |it: &Credentials| it.to_json().expose().to_string();
        let entry = entry.as_ref().map(|(generation, it)| (writes - generation.0, json(it)));
        let mut text = format!("{families:?}{}{entry:?}{signed_out:?}{}", (*refreshes).min(3), self.faults);
        for process in &self.processes {
            text += &process.fingerprint(*writes);
        }
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        hasher.finish()
    }
}

impl Process {
    fn fingerprint(&self, writes: u64) -> String {
        let it = &self.client;
        let json = |it: &Credentials| it.to_json().expose().to_string();
        let generation = |it: Option<Generation>| it.map(|it| writes - it.0);
        let step = match &it.step {
            Step::Storing(_, credentials, after) => {
                let after = match after {
                    After::Finish => "finish".to_string(),
                    After::Ask(_) => "ask".to_string(),
                    After::Find(error) => error.to_string(),
                    After::FailForgotten(error) => error.to_string(),
                };
                format!("{:?}{after}", credentials.as_ref().map(|it| json(it)))
            }
            _ => String::new(),
        };
        let counts = |counts: Counts| {
            // There is one issuer, so no tokens of another one are taken into use.
            let Counts { refreshes, authorizations, completed, switches: _ } = it.counts;
            (refreshes - counts.refreshes, authorizations - counts.authorizations, completed - counts.completed)
        };
        let token = |token: TokenId| it.token_id - token.0;
        let mut text = format!(
            "{}{step}{:?}{:?}{:?}{:?}{:?}{:?}{:?}{}{}{}{}{}{:?}",
            it.step.name(),
            it.goal,
            counts(it.counts_before),
            it.error,
            it.refusal(),
            it.signed_out.map(|(flow, id)| (it.flow - flow, token(id))),
            generation(it.base),
            it.credentials.as_ref().map(json),
            it.unsaved.len(),
            it.overwrites,
            it.metadata.is_some(),
            it.new_until.is_some(),
            it.stored.len(),
            it.pause_length(),
        );
        for state in &self.calls {
            text += &match state {
                State::Waiting => "waiting".to_string(),
                State::Done(result) => format!("{result:?}"),
                State::Running(call, asked) => {
                    let Attempts { flow, since, .. } = &call.attempts;
                    format!(
                        "{:?}{:?}{:?}{asked}",
                        call.used.map(token),
                        flow.map(|flow| it.flow - flow),
                        since.map(counts)
                    )
                }
            };
        }
        text += &match &self.action {
            Some(Action::Request(request)) => {
                let refresh = request.body.expose().split('&').find(|pair| pair.starts_with("refresh_token="));
                format!("{}{refresh:?}", request.url.path())
            }
            Some(Action::Store { expected, .. }) => format!("store {:?}", generation(*expected)),
            other => format!("{}", other.is_some()),
        };
        text += &match &self.answer {
            Some(Answer::Response(_, status, body)) => format!("{status}{body}"),
            Some(Answer::Stored(_, StoreReply::Stored(new))) => format!("stored {}", writes - new.0),
            Some(Answer::Stored(_, StoreReply::Conflict(found))) => {
                format!("{:?}", found.as_ref().map(|it| (writes - it.0.0, json(&it.1))))
            }
            Some(Answer::Stored(_, StoreReply::Failed)) => "failed".to_string(),
            None => String::new(),
        };
        text + &format!("{:?}{}{}{}", self.initiator, self.has_signed_out, self.has_crashed, self.has_failed)
    }
}
