//! An index of the engine's own responses in the outbox, by their requests.

use alloc::collections::BTreeSet;

use super::outbox::{Number, Queue};
use crate::{collections::StaticDefault, wire::RequestId};

/// An index of the waiting responses, by the hash of their request id. Each response is added once, at the first lookup
/// after it was queued, because most peers never cancel a request that gets its response at once.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnResponses {
    by_id: BTreeSet<(u64, Number)>,
    /// The number of the last frame that was inspected.
    known: Option<Number>,
}

impl StaticDefault for OwnResponses {
    const EMPTY: &'static Self = &Self { by_id: BTreeSet::new(), known: None };
}

impl OwnResponses {
    /// The number of entries, beyond two for each waiting response, above which stale entries are dropped.
    const SLACK: usize = 64;

    /// Returns the position of the first response to the request with this id, and removes its entry. `waiting` is the
    /// number of such responses in the queue.
    pub(super) fn take(
        &mut self,
        queue: &Queue,
        waiting: usize,
        id: &RequestId,
        hash: impl Fn(&RequestId) -> u64,
    ) -> Option<usize> {
        let mut known = self.known;
        for (at, number) in queue.behind(self.known) {
            if let Some(id) = queue.answered(at) {
                self.by_id.insert((hash(&id), number));
            }
            known = Some(number);
        }
        self.known = known;
        if self.by_id.len() > 2 * waiting + Self::SLACK {
            self.by_id.retain(|(_, number)| queue.find(*number).is_some());
        }
        let hash = hash(id);
        let mut from = 0;
        loop {
            let entry @ (_, number) = *self.by_id.range((hash, from)..=(hash, Number::MAX)).next()?;
            match queue.find(number) {
                None => {
                    self.by_id.remove(&entry);
                }
                Some(at) if queue.answered(at).as_ref() == Some(id) => {
                    self.by_id.remove(&entry);
                    return Some(at);
                }
                // Another id has the same hash.
                Some(_) => from = number.checked_add(1)?,
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
}
