//! Lists that changed: however often, one notification for each until it has left.

use crate::{
    connection::{
        engine::Engine,
        state::list_changes::{LISTS, ListChanges},
    },
    protocol::{Method, Phase},
    rpc::{FrameOwner, Priority},
    wire::encode,
};

impl Engine {
    /// Marks the list that `method` speaks of, if anybody is to hear of it; `false` if it speaks of none.
    pub(crate) fn note_change(&mut self, method: Method, is_heard: bool) -> bool {
        let Some(bit) = ListChanges::bit(method) else { return false };
        if is_heard {
            self.changes.0 |= bit;
        }
        true
    }

    /// Announces what has changed. What there is no room for stays to be announced.
    pub(crate) fn flush_changes(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        let has_session = self.has_session() && self.phase >= Phase::Ready;
        for (index, method) in LISTS.into_iter().enumerate() {
            if self.changes.0 & (1 << index) == 0 || self.has_room().is_err() {
                continue;
            }
            self.changes.0 &= !(1 << index);
            self.flush_change(method);
            if has_session {
                let _: Result<_, ()> = self.outbox.push(Priority::Control, FrameOwner::None, usize::MAX, |out| {
                    encode::open_notification(out, method.as_str());
                    out.push(b'}');
                    Ok(())
                });
            }
        }
    }
}
