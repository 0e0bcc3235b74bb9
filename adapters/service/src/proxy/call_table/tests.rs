use std::{
    future::Future,
    pin::pin,
    task::{Context as TaskContext, Poll, Waker},
};

use mcp_proto::{
    connection::{CloseReason, Connection},
    protocol::ProtocolVersion,
    schema::{CallToolResult, InputRequest},
    wire::ErrorObject,
};

use super::*;
use crate::{
    driver_api::waiters::Waiters,
    inbound::context::Context,
    outbound::pending::Pending,
    server::{service::Service, tool::Tool},
    testing::TestClient,
};

/// Returns a client with a session, and the context of a request that it has sent.
fn request() -> (TestClient, Context) {
    let (sent, got) = std::sync::mpsc::channel();
    let keep = Tool::new("keep", move |context: Context| {
        sent.send(context).expect("the test waits");
        "kept"
    });
    let service = Service::builder("test", "1.0.0").tool(keep).build().expect("a service");
    let client = TestClient::of(&service).version(ProtocolVersion::V2025_11_25).connect();
    client.call_tool("keep", ()).expect("a result");
    (client, got.recv().expect("a context"))
}

fn question() -> InputRequest {
    serde_json::from_str(r#"{"method":"roots/list"}"#).expect("a request")
}

/// Returns the names of the questions of a round, if all have arrived.
fn round(entry: &CallEntry) -> Option<Vec<Question>> {
    match pin!(entry.questions()).poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(questions) => Some(questions),
        Poll::Pending => None,
    }
}

fn names(questions: &[Question]) -> Vec<&str> {
    questions.iter().map(|question| question.name.as_str()).collect()
}

#[test]
fn the_id_of_a_call_is_set_once() {
    let (_client, context) = request();
    let entry = CallEntry::new(context);
    assert_eq!(entry.id(|| None), None);
    assert_eq!(entry.id(|| Some("first".into())).as_deref(), Some("first"));
    assert_eq!(entry.id(|| Some("second".into())).as_deref(), Some("first"));
    assert_eq!(entry.id(|| None).as_deref(), Some("first"));
}

#[test]
fn only_the_first_refusal_counts() {
    let (_client, context) = request();
    let entry = CallEntry::new(context);
    let [first, second] = ["first", "second"].map(ErrorObject::internal);
    assert!(!entry.is_refusal(&first));
    entry.refuse(&first);
    entry.refuse(&second);
    assert!(entry.is_refusal(&first) && !entry.is_refusal(&second));
}

#[test]
fn questions_of_a_round_arrive_together() {
    let (_client, context) = request();
    let entry = CallEntry::new(context);
    assert!(round(&entry).is_none());
    let first = entry.ask(Some("a".into()), 2, question()).expect("there is room");
    assert!(round(&entry).is_none(), "one is missing");
    let _second = entry.ask(None, 2, question()).expect("there is room");
    let asked = round(&entry).expect("both are there");
    assert_eq!(names(&asked), ["a", "question"]);
    // Those without a response are asked again, with others.
    entry.put_back(asked);
    let _third = entry.ask(Some("a".into()), 3, question()).expect("there is room");
    let asked = round(&entry).expect("all are there");
    assert_eq!(names(&asked), ["a", "question", "a-2"]);
    entry.put_back(asked);
    // A question that is not waited for is not asked.
    first.abandon();
    assert!(round(&entry).is_none(), "two of three");
    entry.withdrawn();
    assert_eq!(names(&round(&entry).expect("both are there")), ["question", "a-2"]);
    // Withdrawals of others leave at least one to wait for.
    (0..3).for_each(|_| entry.withdrawn());
    assert!(round(&entry).is_none());
    let _last = entry.ask(None, 0, question()).expect("there is room");
    assert_eq!(names(&round(&entry).expect("it is there")), ["question-2"]);
}

#[test]
fn the_questions_of_a_call_are_bounded() {
    let (_client, context) = request();
    let entry = CallEntry::new(context);
    let mut asked = 0;
    for expected in [64, 128] {
        while entry.ask(None, 64, question()).map(drop).is_some() {
            asked += 1;
        }
        assert_eq!(asked, expected);
        let all = round(&entry);
        assert_eq!(all.map(|all| all.len()), Some(64));
    }
    while asked < 1023 {
        assert!(entry.ask(Some(format!("name {asked}")), 1, question()).is_some());
        asked += 1;
        drop(round(&entry));
    }
    assert!(entry.ask(None, 1, question()).is_some(), "the last one");
    drop(round(&entry));
    assert!(entry.ask(None, 1, question()).is_none(), "it has 1,024 names");
}

#[test]
fn permits_are_counted_for_each_client() {
    let table = Arc::new(CallTable::default());
    let [ada, eve] = [1, 2].map(ClientKey::Connection);
    let counts = || {
        let inner = lock(&table.table);
        (inner.taken, held_by(&inner.taken_by, &ada), held_by(&inner.taken_by, &eve))
    };
    let admit = |client: &ClientKey| table.admit(client.clone(), 4);
    let [first, second, third, fourth] = [&ada, &ada, &eve, &ada].map(|client| admit(client).expect("there is room"));
    assert_eq!((counts(), table.len()), ((4, 3, 1), 4));
    assert!(admit(&eve).is_none());
    drop(first);
    assert_eq!(counts(), (3, 2, 1));
    let fifth = admit(&eve).expect("one is free");
    assert_eq!(counts(), (4, 2, 2));
    drop((second, third));
    assert_eq!(counts(), (2, 1, 1));
    drop((fourth, fifth));
    assert_eq!((counts(), table.len()), ((0, 0, 0), 0));
    assert!(lock(&table.table).taken_by.is_empty());
}

#[test]
fn waiting_calls_are_counted_for_each_client() {
    let (client, context) = request();
    let (table, peer) = (Arc::new(CallTable::default()), client.server());
    let now = peer.connection().update(|_, now| now);
    let waiting = |seconds| WaitingCall {
        entry: CallEntry::new(context.clone()),
        pending: Box::new(()),
        permit: table.admit(ClientKey::Connection(1), 100).expect("there is room"),
        method: Method::CallTool,
        principal: None,
        peer: peer.clone(),
        until: now + Duration::from_secs(seconds),
    };
    let counts = || {
        let inner = lock(&table.table);
        (inner.waiting.len(), held_by(&inner.waiting_by, &ClientKey::Connection(1)), inner.taken)
    };
    assert!(table.keep("a".into(), waiting(9), 2).is_none());
    assert!(table.keep("b".into(), waiting(5), 2).is_none());
    assert!(table.keep("c".into(), waiting(7), 2).is_some(), "there is no room");
    assert_eq!(counts(), (2, 2, 2));
    let number = peer.calls().number();
    assert_eq!(table.next_expiry(number), Some(now + Duration::from_secs(5)));
    assert_eq!(table.next_expiry(number + 1), None);
    assert!(table.take("a", |_| false).is_none() && table.take("c", |_| true).is_none());
    assert!(table.take("a", |call| call.until == now + Duration::from_secs(9)).is_some());
    assert_eq!(counts(), (1, 1, 1));
    client.advance(Duration::from_secs(5) - Duration::from_nanos(1));
    table.expire();
    assert_eq!(counts(), (1, 1, 1));
    client.advance(Duration::from_nanos(1));
    table.expire();
    assert_eq!(counts(), (0, 0, 0));
    assert!(lock(&table.table).waiting_by.is_empty());
}

/// A call of a client, on a connection to a backend.
struct Sent {
    /// Dropping it cancels the call.
    pending: Pending<CallToolResult>,
    entry: Arc<CallEntry>,
    registered: Registered,
}

/// Sends a call, which waits in the outbox until the connection is settled.
fn send(table: &Arc<CallTable>, peer: &Peer<ClientRole>, context: &Context, is_task: bool) -> Sent {
    let entry = CallEntry::new(context.clone());
    let registered = table.register(peer, &entry, Duration::from_secs(60));
    let pending = peer.call_tool("keep", ()).expect("it is sent");
    table.began(peer, &entry, pending.id(), is_task);
    Sent { pending, entry, registered }
}

fn is(found: Option<Arc<CallEntry>>, expected: &Sent) -> bool {
    found.is_some_and(|found| Arc::ptr_eq(&found, &expected.entry))
}

#[test]
fn call_in_the_outbox_is_not_in_flight() {
    let ((client, context), (_bob, of_bob)) = (request(), request());
    let (table, peer) = (Arc::new(CallTable::default()), client.server());
    let number = peer.calls().number();
    // It waits for a request slot.
    let waiting = table.register(&peer, &CallEntry::new(of_bob.clone()), Duration::from_secs(60));
    assert!(table.candidates(number).is_none());
    drop(waiting);
    assert!(table.callers(number).late.is_empty(), "it was not sent");
    let ada = send(&table, &peer, &context, false);
    assert!(table.candidates(number).is_none(), "it is in the outbox");
    client.settle();
    let bob = send(&table, &peer, &of_bob, false);
    let mut candidates = table.candidates(number).expect("the call of bob is in the outbox");
    client.settle();
    assert!(table.candidates(number).is_none(), "the calls are those of two clients");
    // The call of bob was not sent when the message arrived, although it had begun.
    drop(ada);
    assert!(table.next_candidate(&mut candidates).is_none());
    drop(bob);
}

/// A response may arrive between the cancellation of a call and its end here. The one that names a task ends no work.
#[test]
fn cancelled_calls_are_late_until_their_work_ends() {
    let (client, context) = request();
    let (table, peer) = (Arc::new(CallTable::default()), client.server());
    let number = peer.calls().number();
    for (is_task, with_result, expected) in [(false, false, 0), (true, false, 1), (true, true, 0)] {
        let call = send(&table, &peer, &context, is_task);
        let mut last = call.pending.id();
        let result = peer.call_tool("keep", ()).expect("it is sent");
        if with_result {
            table.responded_late((number, last));
            last = result.id();
            table.began(&peer, &call.entry, last, is_task);
        }
        table.responded_late((number, last));
        drop(call);
        assert_eq!(table.callers(number).late.len(), expected, "{is_task} {with_result}");
        lock(&table.table).late = LateCalls::default();
    }
}

#[test]
fn message_on_the_stream_of_an_ended_call_belongs_to_no_other() {
    let ((client, context), (_bob, of_bob)) = (request(), request());
    let (table, peer) = (Arc::new(CallTable::default()), client.server());
    let [ada, bob] = [&context, &of_bob].map(|context| send(&table, &peer, context, false));
    let (number, call) = (peer.calls().number(), ada.pending.id());
    client.settle();
    assert!(is(table.get((number, call)), &ada) && is(table.get((number, bob.pending.id())), &bob));
    assert!(table.get((number + 1, call)).is_none());
    drop(ada);
    assert!(table.get((number, call)).is_none());
}

#[test]
fn candidates_are_the_calls_at_the_arrival_the_latest_first() {
    let ((client, context), (_bob, of_bob)) = (request(), request());
    let (table, peer) = (Arc::new(CallTable::default()), client.server());
    let number = peer.calls().number();
    let sent = [(); 4].map(|()| send(&table, &peer, &context, false));
    client.settle();
    let mut candidates = table.candidates(number).expect("all are of one client");
    assert!(table.candidates(number + 1).is_none(), "it is another connection");
    let later = send(&table, &peer, &of_bob, false);
    client.settle();
    let [first, second, third, fourth] = sent;
    fourth.registered.responded();
    assert!(is(table.next_candidate(&mut candidates), &third));
    drop(second);
    assert!(is(table.next_candidate(&mut candidates), &first));
    assert!(table.next_candidate(&mut candidates).is_none());
    drop((first, third, fourth, later));
    assert!(lock(&table.table).by_call.is_empty());
}

/// The call of a client that the backend has responded to does not count, before its handler has ended.
#[test]
fn call_with_a_response_is_not_in_flight() {
    let ((client, context), (_bob, of_bob)) = (request(), request());
    let (table, peer) = (Arc::new(CallTable::default()), client.server());
    let number = peer.calls().number();
    let [ada, bob] = [&context, &of_bob].map(|context| send(&table, &peer, context, false));
    client.settle();
    table.responded((number + 1, ada.pending.id()));
    assert!(table.callers(number).sole().is_none());
    table.responded((number, ada.pending.id()));
    assert!(is(table.callers(number).sole(), &bob));
    drop((ada, bob.registered));
    let callers = table.callers(number);
    assert_eq!((callers.calls.len(), callers.late.len()), (0, 1));
    assert!(table.callers(number + 1).late.is_empty(), "it is another connection");
    let own = of_bob.shared.calls.number();
    assert!(callers.have_left(own) && !callers.have_left(own + 1));
    client.advance(Duration::from_secs(60));
    assert!(table.callers(number).late.is_empty());
}

#[test]
fn task_is_in_flight_until_its_result_arrives() {
    let (client, context) = request();
    let (table, peer) = (Arc::new(CallTable::default()), client.server());
    let (number, task) = (peer.calls().number(), send(&table, &peer, &context, true));
    let result = peer.call_tool("keep", ()).expect("it is sent");
    client.settle();
    table.responded((number, task.pending.id()));
    assert!(is(table.callers(number).sole(), &task));
    table.began(&peer, &task.entry, result.id(), true);
    assert!(is(table.get((number, task.pending.id())), &task) && is(table.get((number, result.id())), &task));
    assert_eq!(table.callers(number).calls.len(), 1);
    table.responded((number, result.id()));
    assert!(table.callers(number).sole().is_none());
    drop(task.registered);
    table.began(&peer, &task.entry, result.id(), true);
    assert!(lock(&table.table).by_call.is_empty(), "the call has ended");
    assert!(table.callers(number).late.is_empty());
}

/// A former connection, which notes whether the lock of a table is free when it is dropped.
struct Former {
    table: Arc<CallTable>,
    free: Arc<Mutex<Option<bool>>>,
    waiters: Waiters,
}

impl ConnectionHandle<ClientRole> for Former {
    fn with_mut(&self, _: &mut dyn FnMut(&mut Connection<ClientRole>, Timestamp)) {
        unreachable!("nothing is sent over it");
    }

    fn with_ref(&self, _: &mut dyn FnMut(&Connection<ClientRole>)) {
        unreachable!("nothing is read from it");
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

impl Drop for Former {
    fn drop(&mut self) {
        *lock(&self.free) = Some(self.table.table.try_lock().is_ok());
    }
}

#[test]
fn former_connections_are_dropped_outside_of_the_lock() {
    let (_client, context) = request();
    let (table, free) = (Arc::new(CallTable::default()), Arc::default());
    let former = Former { table: table.clone(), free: Arc::clone(&free), waiters: Waiters::new() };
    let former = Peer::new(Arc::new(former), Arc::default());
    lock(&table.table).late.add(Client::of(&context), None, &former, Timestamp::ZERO);
    former.calls().close(&CloseReason::ConnectionLost);
    drop(former);
    assert_eq!(*lock(&free), None, "its late call keeps it");
    table.expire();
    assert_eq!(*lock(&free), Some(true), "dropping a connection drops its jobs, which may have calls");
}
