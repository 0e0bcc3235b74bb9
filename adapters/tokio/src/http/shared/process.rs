//! The entry of a process in Redis, which shows that the process still runs.

use std::{
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

/// The entry of this process. It is renewed from the first session of a store until the last clone of the store is
/// dropped, and is removed then.
#[derive(Default)]
pub(super) struct Process {
    /// Random, so that it differs from the names of all other processes.
    name: String,
    renewal: Mutex<Option<Renewal>>,
}

struct Renewal {
    task: JoinHandle<()>,
    /// The store, without this entry.
    store: RedisStore,
}

impl Process {
    pub(super) fn new() -> Self {
        Self { name: format!("{:08x}", Random::default().seed() >> 32), renewal: Mutex::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Starts to renew the entry, unless that has begun. `store` may be any clone of the store of this process.
    pub(super) fn keep(&self, store: &RedisStore) {
        let mut renewal = self.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        if renewal.is_some() {
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
                // An entry that has expired meanwhile is made again.
                pause = if renewed.run::<i64>(step).await.is_ok() { RENEWAL } else { RETRY };
            }
        });
        *renewal = Some(Renewal { task, store });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let renewal = self.renewal.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Renewal { task, store }) = renewal else { return };
        task.abort();
        let left = store.run::<i64>(store.step("leave", &self.name));
        store.runtime.spawn(async move { drop(left.await) });
    }
}
