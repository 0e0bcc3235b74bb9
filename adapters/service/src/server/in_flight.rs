//! The data of a request in flight that only servers have.

use std::{
    cell::RefCell,
    sync::{Arc, OnceLock},
};

use super::{
    input_required::InputRounds,
    tasks::{execution::TaskUpgrade, store::Task},
};
use crate::inbound::in_flight::{InFlight, RoleInFlight};

/// The data of a request in flight that only a server has.
#[derive(Default)]
pub struct ServerInFlight {
    /// The rounds of input, for a request of the modern era.
    pub(crate) rounds: OnceLock<Box<InputRounds>>,
    /// The permit to become a task of the extension (2026-07-28).
    pub(crate) task_upgrade: OnceLock<TaskUpgrade>,
    /// The task of the extension that it has become. Its handler's requests for input belong to the task then.
    pub(crate) task: OnceLock<Arc<Task>>,
    /// The first side effect of the handler, for tests.
    pub(crate) side_effect: OnceLock<Box<str>>,
}

thread_local! {
    static POOL: RefCell<Vec<Arc<InFlight<ServerInFlight>>>> = const { RefCell::new(Vec::new()) };
}

impl RoleInFlight for ServerInFlight {
    fn with_pool<R>(f: impl FnOnce(&mut Vec<Arc<InFlight<Self>>>) -> R) -> Option<R> {
        POOL.try_with(|pool| f(&mut pool.borrow_mut())).ok()
    }

    fn clear(&mut self) {
        drop(self.rounds.take());
        drop(self.task_upgrade.take());
        drop(self.task.take());
        drop(self.side_effect.take());
    }

    fn task_id(&self) -> Option<&str> {
        self.task.get().map(|task| task.id())
    }

    fn requires_input(&self) -> bool {
        self.rounds.get().is_some_and(|rounds| rounds.requires_input())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_proto::protocol::{CapabilitySet, Method};

    use super::*;
    use crate::{
        inbound::in_flight::RequestOrigin,
        server::input_required::{CallerId, request_state::StateSigner},
    };

    /// An entry is reused for another request, so nothing of the former one stays.
    #[test]
    fn a_recycled_entry_has_no_state_of_its_request() {
        let entry = InFlight::<ServerInFlight>::of_task("id".into(), None);
        let caller = CallerId { declared: CapabilitySet::EMPTY, principal: None, max_rounds: 1 };
        let state_signer = StateSigner::new("test".into(), None, Duration::ZERO);
        let rounds = InputRounds::begin(&state_signer, Method::CallTool, None, caller).expect("the first round");
        assert!(entry.role.rounds.set(rounds).is_ok());
        assert!(entry.role.side_effect.set("it was sent".into()).is_ok());
        let _ = entry.cancel(mcp_proto::connection::CancelCause::TimedOut);
        entry.recycle();
        let pooled = ServerInFlight::with_pool(|pool| pool.pop()).flatten().expect("this thread keeps it");
        assert!(pooled.role.side_effect.get().is_none() && pooled.role.rounds.get().is_none());
        assert!(!pooled.is_cancelled() && pooled.cause().is_none());
        assert!(matches!(&pooled.origin, RequestOrigin::Task(id) if id.is_empty()));
        assert!(!pooled.role.requires_input() && pooled.role.task_id().is_none());
    }
}
