//! An index of the connection's own answers in the outbox, by the requests that they answer.

use alloc::collections::BTreeSet;

use super::outbox::{Number, Queue};
use crate::{collections::StaticDefault, wire::RequestId};

/// An index of the answers that wait, by the hashes of the ids that they answer. Each answer is entered once, at the
/// first lookup after it was queued: most peers never cancel a request that was answered at once.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnAnswers {
    by_id: BTreeSet<(u64, Number)>,
    /// The last frame that was looked at.
    known: Option<Number>,
}

impl StaticDefault for OwnAnswers {
    const EMPTY: &'static Self = &Self { by_id: BTreeSet::new(), known: None };
}

impl OwnAnswers {
    /// Entries of answers that have left are dropped when there are more of them than this, and than of those that
    /// wait.
    const SLACK: usize = 64;

    /// Finds the first answer to the request with this id, of `waiting` in the queue, and forgets it.
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
                // The id of another one has the same hash.
                Some(_) => from = number.checked_add(1)?,
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
}
