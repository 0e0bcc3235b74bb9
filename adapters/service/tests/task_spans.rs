//! Spans of requests that wait for tasks, and the locks that are held when they end.

use std::{
    fmt,
    sync::{Arc, OnceLock, mpsc},
    time::Duration,
};

use mcp_proto::{protocol::ProtocolVersion, schema::TaskSupport};
use mcp_service::{Context, ResultOrTask, Service, Tool, testing::TestClient};
use serde_json::{Value, json};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// Whether the outcome of a request is recorded.
struct HasOutcome(bool);

impl Visit for HasOutcome {
    fn record_debug(&mut self, field: &Field, _: &dyn fmt::Debug) {
        self.0 |= field.name() == "outcome";
    }
}

/// Uses the context of a task, on another thread, whenever the span of a request ends.
#[derive(Clone)]
struct UsesTask(Arc<OnceLock<Context>>, mpsc::Sender<bool>);

impl Subscriber for UsesTask {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "mcp_service"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut end = HasOutcome(false);
        values.record(&mut end);
        let Some(context) = self.0.get().filter(|_| end.0).cloned() else { return };
        let (done, has_ended) = mpsc::channel();
        std::thread::spawn(move || {
            // Takes the locks of the connection, of the list of tasks and of the task.
            drop(context.progress(0.5, None, None));
            let _ = done.send(());
        });
        let _ = self.1.send(has_ended.recv_timeout(Duration::from_secs(10)).is_ok());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn spans_end_outside_of_the_locks_of_tasks() {
    let (sender, ends) = mpsc::channel();
    let task_context = Arc::new(OnceLock::new());
    let context_of = task_context.clone();
    let slow = Tool::new_async("slow", move |context: Context| {
        let _ = context_of.set(context.clone());
        async move { context.sleep(Duration::from_secs(10)).await.map(|()| "done") }
    });
    let service = Service::builder("test", "1").tool(slow.task_support(TaskSupport::Optional)).build();
    tracing::subscriber::with_default(UsesTask(task_context.clone(), sender), || {
        let service = service.expect("a good service");
        let client = TestClient::of(&service).version(ProtocolVersion::V2025_11_25).connect();
        let mut next_id = 0;
        let mut send_request = |method: &str, params: Value| {
            next_id += 1;
            let id = format!("r{next_id}");
            client.send_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
            id
        };
        let begin = |send_request: &mut dyn FnMut(&str, Value) -> String| {
            let tools = client.wait(client.server().list_tools(None).expect("a request")).expect("a list").tools;
            let pending = client.server().call_tool_as_task(&tools[0], (), None).expect("a request");
            let ResultOrTask::Task(task) = client.wait(pending).expect("a task") else { panic!("it is a task") };
            let about = json!({"taskId": task.id()});
            (send_request("tasks/result", about.clone()), about)
        };
        // A request that is cancelled, one whose task is cancelled, and one whose task ends.
        let (waiting, about) = begin(&mut send_request);
        assert!(task_context.get().is_some(), "the task runs");
        while ends.try_recv().is_ok() {}
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}});
        client.send_line(&cancel.to_string());
        assert_eq!(ends.try_iter().collect::<Vec<_>>(), [true], "the request is cancelled");
        send_request("tasks/result", about.clone());
        send_request("tasks/cancel", about);
        // Those of both requests, and of the call whose task it is.
        assert_eq!(ends.try_iter().collect::<Vec<_>>(), [true; 3], "the task is cancelled");
        begin(&mut send_request);
        while ends.try_recv().is_ok() {}
        client.advance(Duration::from_secs(20));
        assert_eq!(ends.try_iter().collect::<Vec<_>>(), [true; 2], "the task ends");
    });
}
