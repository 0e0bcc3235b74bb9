//! Tasks of a service that runs in several processes, with a store in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_proto::{
    connection::Principal,
    schema::{CallToolResult, ListRootsParams, TaskSupport},
};
use serde_json::{Value, json};

use super::{
    begin, cancel, everything, get, modern, send_as, send_request, task_tool, unlisten, until, until_status, update,
    works,
};
use crate::tests::tasks::Gate;
use crate::{
    driver_api::deferred::Deferred,
    inbound::task_policy::TaskPolicy,
    server::{
        builder::ServiceBuilder,
        service::Service,
        tasks::task_store::{LocalTasks, StoredTask, TaskRecord, TaskStore},
        tool::Tool,
    },
    tests::{echo, pair::code},
    util::lock::lock,
};

/// The content of the store, which all processes share.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<SharedState>>);

#[derive(Default)]
struct SharedState {
    /// The process of each task, and its state.
    tasks: BTreeMap<String, (usize, String)>,
    processes: Vec<Option<LocalTasks>>,
    /// The tasks whose state was not written yet, with their processes.
    changed: BTreeSet<(usize, String)>,
    is_full: bool,
    /// Nothing is written in the background.
    is_stalled: bool,
    /// New tasks are not stored, and that does not fail.
    never_responds: bool,
    lifetimes: Vec<Duration>,
    /// The ids of the tasks that were looked up.
    found: BTreeSet<String>,
}

/// The store of one process.
struct Store {
    shared: Shared,
    process: usize,
}

impl Shared {
    /// Creates the service of a process.
    fn process(&self, builder: ServiceBuilder) -> Service {
        let process = lock(&self.0).processes.len();
        let store = Store { shared: self.clone(), process };
        builder.task_store(store).build().expect("a good service")
    }

    /// Ends a process without a warning.
    fn kill(&self, process: usize) {
        let mut state = lock(&self.0);
        state.processes[process] = None;
        state.changed.retain(|(of, _)| *of != process);
    }

    /// Writes the states that have changed, as a store does in the background.
    fn write(&self) {
        if lock(&self.0).is_stalled {
            return;
        }
        let changed = std::mem::take(&mut lock(&self.0).changed);
        for (process, id) in changed {
            let local = lock(&self.0).processes[process].clone();
            let record = local.and_then(|local| local.record(&id));
            let mut state = lock(&self.0);
            match record {
                Some(TaskRecord { id, state: text, lifetime, .. }) => {
                    state.lifetimes.push(lifetime);
                    state.tasks.insert(id, (process, text));
                }
                None => drop(state.tasks.remove(&id)),
            }
        }
    }

    fn stored(&self) -> usize {
        self.write();
        lock(&self.0).tasks.len()
    }
}

impl TaskStore for Store {
    fn attach(&self, tasks: LocalTasks) {
        lock(&self.shared.0).processes.push(Some(tasks));
    }

    fn put(&self, task: TaskRecord) -> Deferred<io::Result<()>> {
        let mut state = lock(&self.shared.0);
        if state.never_responds {
            return Deferred::new(std::future::pending());
        }
        if state.is_full {
            return Deferred::ready(Err(io::ErrorKind::QuotaExceeded.into()));
        }
        state.tasks.insert(task.id, (self.process, task.state));
        Deferred::ready(Ok(()))
    }

    fn changed(&self, id: &str) {
        lock(&self.shared.0).changed.insert((self.process, id.to_owned()));
    }

    fn find(&self, id: &str) -> Deferred<io::Result<Option<StoredTask>>> {
        self.shared.write();
        let mut state = lock(&self.shared.0);
        state.found.insert(id.to_owned());
        let found = state
            .tasks
            .get(id)
            .map(|(process, text)| StoredTask { state: text.clone(), is_running: state.processes[*process].is_some() });
        Deferred::ready(Ok(found))
    }

    fn send(&self, id: &str, command: String) -> Deferred<io::Result<()>> {
        let state = lock(&self.shared.0);
        if state.is_full {
            return Deferred::ready(Err(io::ErrorKind::QuotaExceeded.into()));
        }
        let process = state.tasks.get(id).and_then(|(process, _)| state.processes[*process].clone());
        drop(state);
        Deferred::ready(match process {
            Some(process) => {
                process.handle(id, &command);
                Ok(())
            }
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }
}

fn asks() -> Tool {
    task_tool("asks", |context| {
        let roots = context.request_inputs([("roots", ListRootsParams::default().into())]).wait()?;
        Ok(CallToolResult::text(roots.get::<ListRootsParams>("roots")?.roots.len().to_string()))
    })
}

// Issue: tasks of one process were unknown to all others.
#[test]
fn other_processes_show_and_finish_a_task() {
    let (open, gate) = Gate::new();
    let shared = Shared::default();
    let [first, second] = [(); 2].map(|()| shared.process(echo().tool(works(&gate))));
    let (here, there) = (modern(&first), modern(&second));
    let id = begin(&here, "works");
    let mut seen = get(&there, &id).expect("a task");
    assert_eq!(seen["status"], "working");
    let mut own = get(&here, &id).expect("a task");
    for task in [&mut seen, &mut own] {
        task.as_object_mut().expect("an object").remove("_meta");
    }
    assert_eq!(seen, own);
    open.send(()).expect("it waits");
    until_status(&here, &id, "completed");
    assert_eq!(get(&there, &id).expect("a task")["result"]["content"][0]["text"], "done");
    for unknown in ["x", &"0".repeat(32)] {
        assert_eq!(code(&get(&there, unknown)), -32602);
    }
    assert!(lock(&shared.0).lifetimes.iter().all(|time| *time <= Duration::from_secs(3600)));
    here.assert_clean();
    there.assert_clean();
}

/// Over HTTP the connection ends when the response was sent, which may be before the thread of the request goes on.
#[test]
fn task_is_not_cancelled_by_the_end_of_its_connection() {
    let (open, gate) = Gate::new();
    let builder = || echo().tool(works(&gate));
    for service in [builder().build().expect("a good service"), Shared::default().process(builder())] {
        let (first, second) = (modern(&service), modern(&service));
        *lock(&first.server.last) = Some("taskId");
        let id = begin(&first, "works");
        assert!(lock(&first.server.last).is_none(), "the connection has ended");
        open.send(()).expect("it waits");
        let ended = until(&second, &id, |task| task["status"] != "working");
        assert_eq!(ended["result"]["content"][0]["text"], "done", "{ended}");
    }
}

#[test]
fn other_processes_cancel_a_task() {
    let (_open, gate) = Gate::new();
    let shared = Shared::default();
    let [first, second] = [(); 2].map(|()| shared.process(echo().tool(works(&gate))));
    let (here, there) = (modern(&first), modern(&second));
    let id = begin(&here, "works");
    assert_eq!(cancel(&there, &id).expect("a receipt")["resultType"], "complete");
    until_status(&here, &id, "cancelled");
    assert_eq!(get(&there, &id).expect("a task")["status"], "cancelled");
    // It has ended, so that this changes nothing.
    cancel(&there, &id).expect("a receipt");
}

#[test]
fn other_processes_respond_to_input_requests() {
    let shared = Shared::default();
    let [first, second] = [(); 2].map(|()| shared.process(echo().tool(asks())));
    let (here, there) = (modern(&first), modern(&second));
    let id = begin(&here, "asks");
    until_status(&here, &id, "input_required");
    let task = until(&there, &id, |task| task["status"] == "input_required");
    let key = task["inputRequests"].as_object().expect("requests").keys().next().expect("one").clone();
    let refused = update(&there, &id, json!({&key: {"roots": 7}})).expect_err("it is invalid");
    assert_eq!(refused["code"], -32602);
    update(&there, &id, json!({"unknown": {}})).expect("it is ignored");
    assert_eq!(get(&here, &id).expect("a task")["status"], "input_required");
    update(&there, &id, json!({&key: {"roots": [{"uri": "file:///a"}]}})).expect("a receipt");
    let ended = until_status(&here, &id, "completed");
    assert_eq!(ended["result"]["content"][0]["text"], "1");
}

#[test]
fn responses_to_unknown_input_requests_are_passed_on() {
    let shared = Shared::default();
    let [first, second] = [(); 2].map(|()| shared.process(echo().tool(asks())));
    let (here, there) = (modern(&first), modern(&second));
    lock(&shared.0).is_stalled = true;
    let id = begin(&here, "asks");
    let task = until_status(&here, &id, "input_required");
    let key = task["inputRequests"].as_object().expect("requests").keys().next().expect("one").clone();
    assert_eq!(get(&there, &id).expect("a task")["status"], "working");
    update(&there, &id, json!({&key: {"roots": []}})).expect("a receipt");
    assert_eq!(until_status(&here, &id, "completed")["result"]["content"][0]["text"], "0");
}

#[test]
fn request_can_be_cancelled_while_its_task_is_stored() {
    let (_open, gate) = Gate::new();
    let shared = Shared::default();
    let service = shared.process(echo().tool(works(&gate)));
    let pair = modern(&service);
    lock(&shared.0).never_responds = true;
    let id = send_as(&pair, &everything(), "tools/call", json!({"name": "works"}));
    pair.until(|| service.tasks().usage().0 == 1);
    unlisten(&pair, &id);
    pair.until(|| service.tasks().usage() == (0, 0));
    lock(&shared.0).never_responds = false;
    begin(&pair, "works");
    assert_eq!(pair.answered(&id), None);
}

#[test]
fn request_cancelled_before_the_outbox_has_room_is_not_stored() {
    let shared = Shared::default();
    super::store::cancel_before_the_outbox_has_room(|builder| shared.process(builder));
    assert_eq!(lock(&shared.0).tasks.len(), 2, "the first and the last, whose removal was not written yet");
}

#[test]
fn tasks_of_a_process_that_has_ended_have_failed() {
    let (open, gate) = Gate::new();
    let shared = Shared::default();
    let [first, second] = [(); 2].map(|()| shared.process(echo().tool(works(&gate)).tool(asks())));
    let (here, there) = (modern(&first), modern(&second));
    let ended = begin(&here, "works");
    open.send(()).expect("it waits");
    until_status(&here, &ended, "completed");
    let (working, waiting) = (begin(&here, "works"), begin(&here, "asks"));
    until_status(&here, &waiting, "input_required");
    // The end of the first one is stored, since a client knows of it.
    shared.kill(0);
    assert_eq!(get(&there, &ended).expect("a task")["result"]["content"][0]["text"], "done");
    for id in [&working, &waiting] {
        let task = get(&there, id).expect("a task");
        assert_eq!((&task["status"], task.get("inputRequests")), (&json!("failed"), None), "{task}");
        assert_eq!(task["error"]["message"], "The process of the task has ended");
        cancel(&there, id).expect("a receipt");
        update(&there, id, json!({"roots.1": {"roots": []}})).expect("a receipt");
    }
}

#[test]
fn task_that_cannot_be_stored_does_not_begin() {
    let (open, gate) = Gate::new();
    let shared = Shared::default();
    let deferred = Tool::new_async("deferred", async |context: crate::Context| {
        format!("{}", context.become_task().await.unwrap_or(true))
    });
    let service =
        shared.process(echo().tool(works(&gate)).tool(deferred.task_support(TaskSupport::Optional).defer_task()));
    let pair = modern(&service);
    lock(&shared.0).is_full = true;
    let refused = send_request(&pair, "tools/call", json!({"name": "works"})).expect_err("there is no room");
    assert_eq!(refused["message"], "The task cannot be stored");
    let result = send_request(&pair, "tools/call", json!({"name": "deferred"})).expect("a result");
    assert_eq!(result["content"][0]["text"], "false");
    assert_eq!((service.tasks().usage(), shared.stored()), ((0, 0), 0));
    lock(&shared.0).is_full = false;
    let task = send_request(&pair, "tools/call", json!({"name": "deferred"})).expect("a result");
    let id = task["taskId"].as_str().expect("an id");
    assert_eq!(until_status(&pair, id, "completed")["result"]["content"][0]["text"], "true");
    drop(open);
}

#[test]
fn removed_tasks_are_removed_from_the_store() {
    let shared = Shared::default();
    let policy =
        TaskPolicy { max_shared_tasks: 2, default_ttl: Some(Duration::from_secs(60)), ..TaskPolicy::default() };
    let quick = || task_tool("quick", |_| Ok(CallToolResult::text("done")));
    let service = shared.process(echo().tool(quick()).task_policy(policy));
    let pair = modern(&service);
    for _ in 0..5 {
        let id = begin(&pair, "quick");
        until_status(&pair, &id, "completed");
        assert!(shared.stored() <= 2);
    }
    pair.pass(Duration::from_secs(61));
    assert_eq!(code(&get(&pair, "x")), -32602);
    assert_eq!(shared.stored(), 0);
}

#[test]
fn other_principals_do_not_find_a_task_of_another_process() {
    let (_open, gate) = Gate::new();
    let shared = Shared::default();
    let [first, second] = [(); 2].map(|()| shared.process(echo().tool(works(&gate).scope("work"))));
    let (here, there) = (modern(&first), modern(&second));
    let ask = |pair: &crate::tests::pair::Pair, principal: &Principal, method: &str, mut params: Value| {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": everything(),
        });
        let id = format!("{}-{method}", lock(&pair.server.lines).len());
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        pair.server.input_of(principal.clone(), line.as_bytes());
        pair.await_answer(&id)
    };
    let of = |name: &str, scopes: &[&str]| {
        let mut principal = Principal::new(name);
        principal.scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        principal
    };
    let begun = ask(&here, &of("a", &["work"]), "tools/call", json!({"name": "works"}));
    let id = json!({"taskId": begun["result"]["taskId"].as_str().expect("a task")});
    assert_eq!(ask(&there, &of("a", &["work"]), "tasks/get", id.clone())["result"]["status"], "working");
    for (method, params) in [("tasks/get", &id), ("tasks/cancel", &id)] {
        let foreign = ask(&there, &of("b", &["work"]), method, params.clone());
        assert_eq!(foreign["error"]["message"], "Task not found", "{foreign}");
        let lacking = ask(&there, &of("a", &[]), method, params.clone());
        assert_eq!(lacking["error"]["message"], "Insufficient scope: work", "{lacking}");
    }
    assert_eq!(ask(&here, &of("a", &["work"]), "tasks/get", id)["result"]["status"], "working");
}

#[test]
fn tasks_of_a_dropped_service_are_gone() {
    let shared = Shared::default();
    let service = shared.process(echo());
    let tasks = lock(&shared.0).processes[0].clone().expect("it is attached");
    assert_eq!((tasks.is_gone(), format!("{tasks:?}")), (false, "LocalTasks { is_gone: false }".into()));
    drop(service);
    assert!(tasks.is_gone() && tasks.record("unknown").is_none());
}

#[test]
fn only_ids_of_tasks_are_looked_up_in_the_store() {
    let (shared, (_, gate)) = (Shared::default(), Gate::new());
    let pair = modern(&shared.process(echo().tool(works(&gate))));
    let [id, upper] = ["0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789ABCDEF"];
    for id in [id, upper, &id[1..], &format!("{id}0"), "0123456789abcdef0123456789abcdeg", ""] {
        assert!(get(&pair, id).is_err(), "{id}");
    }
    assert_eq!(lock(&shared.0).found, [id, upper].map(str::to_owned).into());
}

#[test]
fn a_process_with_too_many_commands_is_busy() {
    let (_open, gate) = Gate::new();
    let shared = Shared::default();
    let [first, second] = [(); 2].map(|()| shared.process(echo().tool(works(&gate))));
    let (here, there) = (modern(&first), modern(&second));
    let id = begin(&here, "works");
    lock(&shared.0).is_full = true;
    let error = cancel(&there, &id).expect_err("there is no room");
    assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!("The process of the task is too busy")));
    lock(&shared.0).is_full = false;
    cancel(&there, &id).expect("a receipt");
    until_status(&here, &id, "cancelled");
}
