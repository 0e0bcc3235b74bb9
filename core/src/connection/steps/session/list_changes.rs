//! `list_changed` notifications. Repeated changes of a list are merged into one notification until the next response or
//! poll for output.

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
    /// Marks the list of a `list_changed` method as changed if `has_receiver`. Returns `false` for other methods.
    pub(crate) fn record_change(&mut self, method: Method, has_receiver: bool) -> bool {
        let Some(bit) = ListChanges::bit(method) else { return false };
        if has_receiver {
            self.list_changes.0 |= bit;
        }
        true
    }

    /// Sends a notification for each changed list. A list stays marked while the outbox has no room.
    pub(crate) fn flush_changes(&mut self) {
        if self.list_changes.is_empty() {
            return;
        }
        let has_session = self.has_session() && self.phase >= Phase::Ready;
        for (index, method) in LISTS.into_iter().enumerate() {
            if self.list_changes.0 & (1 << index) == 0 || self.has_room().is_err() {
                continue;
            }
            self.list_changes.0 &= !(1 << index);
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
