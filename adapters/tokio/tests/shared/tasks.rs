//! Tasks of 2026-07-28 that two processes share, in Redis.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    protocol::{ProtocolVersion, VersionSet},
    schema::{CallToolParams, CallToolResult, TaskStatus, TaskSupport},
};
use mcp_service::{Context, Failure, Host, ResultOrTask, Service, TaskHandle, TaskPolicy, Tool};
use mcp_tokio::{
    Client,
    http::{ClientOptions, Connector, Endpoint, EndpointOptions, Policy, RedisStore},
};
use redis::{AsyncCommands, aio::MultiplexedConnection};
use tokio::sync::Semaphore;

use crate::Balanced;

/// A client whose requests alternate between two processes.
struct Pair {
    client: Client,
    /// The number of requests. Those with an even number go to the first process.
    count: Arc<AtomicUsize>,
}

type Task = TaskHandle<CallToolResult, mcp_proto::connection::ClientRole>;

impl Pair {
    async fn new(endpoints: [Endpoint; 2]) -> Self {
        let count = Arc::<AtomicUsize>::default();
        let mut address = ClientOptions::new("http://server.example/mcp", 1).expect("an address");
        address.listen = false;
        let host = Host::builder("tasks", "1").versions(VersionSet::only(ProtocolVersion::V2026_07_28)).build();
        let balanced = Balanced { endpoints, count: count.clone() };
        let client = Connector::with_client_options(address).http_client(balanced).connect(&host).await;
        Self { client: client.expect("it serves"), count }
    }

    /// Directs the next request to a process.
    fn next_at(&self, process: usize) -> &Client {
        self.count.store(process, Ordering::SeqCst);
        &self.client
    }

    async fn begin(&self) -> Task {
        let begun = self.next_at(0).request_as_task(&CallToolParams::new("work")).expect("it is sent").await;
        match begun.expect("a response") {
            ResultOrTask::Task(task) => task,
            ResultOrTask::Result(result) => panic!("no task: {result:?}"),
        }
    }

    /// Gets a task from the second process.
    async fn status_there(&self, task: &Task) -> TaskStatus {
        self.next_at(1);
        task.get().expect("it is sent").await.expect("a task").status
    }

    /// Gets a task from the second process until it has a status.
    async fn until(&self, task: &Task, status: TaskStatus) {
        while self.status_there(task).await != status {
            tokio::task::yield_now().await;
        }
    }
}

/// Creates a process whose tool ends for each permit.
async fn process(url: &str, gate: &Arc<Semaphore>) -> (Endpoint, RedisStore) {
    let gate = gate.clone();
    let work = Tool::new_async("work", move |context: Context| {
        let gate = gate.clone();
        async move {
            tokio::select! {
                permit = gate.acquire() => permit.map_err(Failure::from)?.forget(),
                _ = context.cancelled() => return Err(Failure::new("cancelled")),
            }
            Ok("worked")
        }
    });
    let store = RedisStore::connect(url).await.expect("Redis answers").prefix("tasks");
    let mut policy = TaskPolicy::default();
    policy.poll_interval = Duration::from_millis(1);
    let service = Service::builder("tasks", "1")
        .tool(work.task_support(TaskSupport::Optional))
        .task_policy(policy)
        .task_store(store.clone())
        .build()
        .expect("a service");
    let options = EndpointOptions::new(Policy::loopback());
    (Endpoint::new(&service, options).expect("there is a runtime"), store)
}

pub(super) async fn tasks_are_shared(url: String) {
    let client = redis::Client::open(&*url).expect("an address");
    let mut keys: MultiplexedConnection = client.get_multiplexed_async_connection().await.expect("Redis answers");
    let gate = Arc::new(Semaphore::new(0));
    let ((a, store), (b, other)) = (process(&url, &gate).await, process(&url, &gate).await);
    let pair = Pair::new([a.clone(), b.clone()]).await;

    let done = pair.begin().await;
    assert_eq!(pair.status_there(&done).await, TaskStatus::Working);
    let left: i64 = keys.pttl(format!("{{tasks}}:t:{}", done.id())).await.expect("it answers");
    assert!((3_000_000..=3_600_000).contains(&left), "{left}");
    gate.add_permits(1);
    // Each poll goes to the other process.
    pair.next_at(1);
    let result = done.result().expect("it is sent").await.expect("a result");
    assert_eq!(result.content[0].as_text(), Some("worked"));

    let cancelled = pair.begin().await;
    pair.next_at(1);
    cancelled.cancel().expect("it is sent").await.expect("a receipt");
    pair.until(&cancelled, TaskStatus::Cancelled).await;

    // A task of a process that does not run has failed, and one that had ended stays.
    let lost = pair.begin().await;
    assert_eq!(pair.status_there(&lost).await, TaskStatus::Working);
    store.tasks_written().await;
    a.close().await;
    drop((a, store));
    let entries: Vec<String> = keys.keys("{tasks}:p:*").await.expect("it answers");
    assert_eq!(entries.len(), 1, "the second process has no tasks");
    keys.del::<_, ()>(&entries).await.expect("it answers");
    pair.until(&lost, TaskStatus::Failed).await;
    assert_eq!(pair.status_there(&done).await, TaskStatus::Completed);

    // The tasks of a process that leaves have failed at once.
    let gate = Arc::new(Semaphore::new(0));
    let (leaving, store) = process(&url, &gate).await;
    let pair = Pair::new([leaving, b]).await;
    let (first, second) = (pair.begin().await, pair.begin().await);
    assert_eq!(pair.status_there(&first).await, TaskStatus::Working);
    for _ in 0..2 {
        store.leave().await.expect("Redis answers");
        assert_eq!(pair.status_there(&first).await, TaskStatus::Failed);
    }
    // Its handlers may still run, and the states that it writes make no new entry.
    gate.add_permits(1);
    let mut ended = Vec::new();
    while ended.len() != 1 {
        tokio::task::yield_now().await;
        ended.clear();
        for task in [&first, &second] {
            pair.next_at(0);
            let status = task.get().expect("it is sent").await.expect("a task").status;
            ended.extend((status == TaskStatus::Completed).then_some(task));
        }
    }
    store.tasks_written().await;
    assert_eq!(pair.status_there(ended[0]).await, TaskStatus::Completed);
    let other_task = if ended[0].id() == first.id() { &second } else { &first };
    assert_eq!(pair.status_there(other_task).await, TaskStatus::Failed);
    drop(other);
}
