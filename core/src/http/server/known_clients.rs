//! The descriptions of clients of 2026-07-28 in recent requests.

use alloc::sync::Arc;

use super::{clients::Client, request_reader::Request};
use crate::connection::KnownClient;

/// The number of descriptions that are kept. Each takes a few KiB at most.
const SLOTS: usize = 16;

/// The descriptions of clients in recent requests. A request with the same description is read faster. Senders with
/// different principals or addresses mostly have different slots, so that they do not replace the description of each
/// other.
#[derive(Debug, Default)]
pub(super) struct KnownClients([Option<Arc<KnownClient>>; SLOTS]);

impl KnownClients {
    /// Returns the description in the last request of this sender.
    pub(super) fn of(&self, sender: &Client) -> Option<Arc<KnownClient>> {
        self.0[sender.slot(SLOTS)].clone()
    }

    /// Keeps the description in a request.
    pub(super) fn note(&mut self, request: &Request) {
        let Some((client, _)) = &request.known_client else { return };
        let slot = &mut self.0[request.client.slot(SLOTS)];
        if !slot.as_ref().is_some_and(|known| Arc::ptr_eq(known, client)) {
            *slot = Some(client.clone());
        }
    }
}
