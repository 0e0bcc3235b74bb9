//! The entry of a process in Redis, which shows that the process still runs.

use std::{
    future::Future,
    io, mem,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use mcp_service::driver_api::Random;
use tokio::{task::JoinHandle, time::sleep};

use super::{RedisStore, millis};

/// How long a process counts as running after it has renewed its entry. Then its streams are lost.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// The time between renewals.
const RENEWAL: Duration = Duration::from_secs(5);

/// The time until a renewal that has failed is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// How long a process that has left makes no new entry, although it still writes states of its tasks.
const LEFT: Duration = Duration::from_secs(600);

/// The entry of this process. It is renewed from the first session or task of a store until the process leaves, or the
/// last clone of the store is dropped.
#[derive(Default)]
pub(super) struct Process {
    /// Random, so that it differs from the names of all other processes.
    name: String,
    state: Mutex<State>,
}

/// The state of the entry, and the store without this process.
#[derive(Default)]
enum State {
    /// There is no entry yet.
    #[default]
    New,
    Renewed(JoinHandle<()>, RedisStore),
    /// The entry was removed, and none is made again.
    Left(RedisStore),
}

impl Process {
    pub(super) fn new() -> Self {
        Self { name: format!("{:08x}", Random::default().seed() >> 32), state: Mutex::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Starts to renew the entry, unless that has begun. `store` may be any clone of the store of this process.
    pub(super) fn keep(&self, store: &RedisStore) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*state, State::New) {
            return;
        }
        let (name, runtime, store) = (self.name.clone(), store.runtime.clone(), store.without_process());
        let renewed = store.clone();
        let task = runtime.spawn(async move {
            let mut pause = RENEWAL;
            loop {
                sleep(pause).await;
                let mut step = renewed.step("renew", &name);
                step.add(millis(LEASE));
                // An entry that has expired since its last renewal is created again.
                pause = if renewed.run::<i64>(step).await.is_ok() { RENEWAL } else { RETRY };
            }
        });
        *state = State::Renewed(task, store);
    }

    /// Removes the entry, which is not renewed any more. Returns `None` if there was none.
    pub(super) fn leave(&self) -> Option<impl Future<Output = io::Result<i64>> + Send + use<>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (renewal, store) = match mem::take(&mut *state) {
            State::New => return None,
            State::Renewed(renewal, store) => (Some(renewal), store),
            State::Left(store) => (None, store),
        };
        *state = State::Left(store.clone());
        let mut step = store.step("leave", &self.name);
        step.add(millis(LEFT));
        renewal.iter().for_each(JoinHandle::abort);
        Some(async move { store.run(step).await })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let runtime = match &*self.state.get_mut().unwrap_or_else(PoisonError::into_inner) {
            State::Renewed(_, store) => store.runtime.clone(),
            State::New | State::Left(_) => return,
        };
        if let Some(left) = self.leave() {
            runtime.spawn(async move { drop(left.await) });
        }
    }
}
