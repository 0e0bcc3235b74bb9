//! The deadlines of exchanges.

use alloc::vec::Vec;

use super::Session;
use crate::{
    http::{
        Deadline,
        server::{ExchangeId, exchange::Form},
    },
    rpc::Timestamp,
};

impl Session {
    /// Schedules a deadline of an exchange.
    pub(in crate::http::server) fn add_deadline(&mut self, deadline: Deadline) {
        if self.next.is_none_or(|next| deadline.at < next.at) {
            self.next = Some(deadline);
        }
    }

    /// Handles deadlines of exchanges that have passed.
    pub(super) fn visit(&mut self, now: Timestamp) {
        self.next = None;
        let ids: Vec<_> = self.exchanges.iter().map(|(id, _)| ExchangeId(id)).collect();
        for id in ids {
            let Some(exchange) = self.exchanges.get_mut(id.0) else { continue };
            match exchange.form {
                Form::Open { until } if until <= now => {
                    if let Some(stream) = exchange.stream {
                        self.open_stream(id, stream);
                    }
                }
                Form::Stream if exchange.quiet.is_some_and(|at| at <= now) => {
                    let bytes = exchange.comment();
                    self.wrote(id, bytes);
                }
                _ => {}
            }
            let deadline = self.exchanges.get(id.0).and_then(|exchange| exchange.deadline());
            deadline.into_iter().for_each(|deadline| self.add_deadline(deadline));
        }
    }
}
