use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context as TaskContext, Poll, Wake},
    thread,
    time::Duration,
};

use mcp_proto::connection::RequestOptions;
use serde_json::json;

use super::echo;
use super::pair::Pair;
use crate::{
    inbound::context::Context,
    outbound::{error::CallError, pending::Pending},
    server::tool::Tool,
    util::lock::lock,
};

fn counting() -> Pair {
    let count = |steps: u32| {
        Tool::new(format!("count{steps}"), move |context: Context| {
            for step in 0..steps {
                context.progress(f64::from(step), Some(f64::from(steps)), Some("on it")).wait()?;
            }
            Ok::<_, crate::inbound::failure::Failure>("done")
        })
    };
    let quiet = Tool::new("quiet", |context: Context| context.sleep(Duration::from_secs(30)).wait());
    let service = echo().tool(count(3)).tool(count(500)).tool(quiet).build().expect("a good service");
    Pair::simple(&service)
}

#[test]
fn progress_precedes_the_result_in_order() {
    let pair = counting();
    let received = Arc::new(Mutex::new(Vec::new()));
    let recorder = received.clone();
    let pending = pair.to_server().call_tool("count3", ()).expect("it can be sent");
    let pending = pending
        .on_progress(move |progress| lock(&recorder).push((progress.progress, progress.total, progress.message)));
    pair.wait(pending).expect("a result");
    let step = |progress| (progress, Some(3.0), Some("on it".into()));
    assert_eq!(*lock(&received), [step(0.0), step(1.0), step(2.0)]);
    let lines = pair.server.take_lines();
    assert!(
        lines[..3].iter().all(|line| line["method"] == "notifications/progress") && lines[3].get("result").is_some()
    );
}

#[test]
fn unread_progress_is_bounded() {
    let pair = counting();
    let pending = pair.to_server().call_tool("count500", ()).expect("it can be sent");
    pair.settle();
    let mut received = Vec::new();
    let result = pending.wait_with(|progress| received.push(progress.progress));
    assert!(result.is_ok());
    assert_eq!(received, (436..500).map(f64::from).collect::<Vec<_>>(), "the newest, in order");
}

#[test]
fn calls_end_at_their_timeouts() {
    let pair = counting();
    let server = pair.to_server();
    let idle = server.call_tool("quiet", ()).expect("it can be sent");
    let short = server.within(Duration::from_secs(5)).call_tool("quiet", ()).expect("it can be sent");
    let forever = server.with_options(RequestOptions::no_timeout()).call_tool("quiet", ()).expect("it can be sent");
    pair.until(|| pair.server_session.shared().in_flight.len() == 3);
    let waiting = [idle, short].map(|pending| thread::spawn(move || pending.wait()));
    pair.advance(Duration::from_secs(6));
    pair.advance(Duration::from_secs(60));
    let [idle, short] = waiting.map(|waiting| waiting.join().expect("no panic").expect_err("too late"));
    assert_eq!(short, CallError::TimedOut { total: true });
    assert_eq!(idle, CallError::TimedOut { total: false });
    drop(forever);
    pair.assert_clean();
}

#[test]
fn another_thread_can_cancel() {
    let pair = counting();
    let pending = pair.to_server().call_tool("quiet", ()).expect("it can be sent");
    let (canceller, id) = (pending.canceller(), pending.id());
    let waiting = thread::spawn(move || pending.wait());
    canceller.clone().cancel(Some("enough"));
    canceller.cancel(None);
    pair.settle();
    assert_eq!(waiting.join().expect("no panic").expect_err("cancelled"), CallError::Cancelled);
    assert!(id.as_u64() > 0);
    pair.assert_clean();
}

/// A waker that counts its calls.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_call_can_be_awaited() {
    let pair = counting();
    let wakes = Arc::new(Wakes::default());
    let waker = wakes.clone().into();
    let mut cx = TaskContext::from_waker(&waker);
    let received = Arc::new(AtomicUsize::new(0));
    let recorder = received.clone();
    let pending = pair.to_server().call_tool("count3", ()).expect("it can be sent");
    let mut pending = Box::pin(pending.on_progress(move |_| _ = recorder.fetch_add(1, Ordering::SeqCst)));
    assert!(pending.as_mut().poll(&mut cx).is_pending());
    pair.settle();
    assert!(wakes.0.load(Ordering::SeqCst) > 0);
    match pending.as_mut().poll(&mut cx) {
        Poll::Ready(Ok(result)) => assert_eq!(result.content[0].as_text(), Some("done")),
        other => panic!("{other:?}"),
    }
    assert_eq!(received.load(Ordering::SeqCst), 3);
    drop(pending);
    pair.assert_clean();
}

#[test]
fn results_are_decoded_by_their_method() {
    let pair = Pair::scripted(&crate::client::Host::builder("client", "1").build(), |_, params| {
        match params["name"].as_str() {
            Some("odd") => Ok(json!({"content": "no list"})),
            Some("late") => Ok(json!({"tools": []})),
            _ => Ok(json!({"content": []})),
        }
    });
    let server = pair.to_server();
    let call = |name: &str| pair.wait(server.call_tool(name, ()).expect("it can be sent"));
    assert!(matches!(call("odd"), Err(CallError::Decode(why)) if why.contains("content")));
    assert!(call("late").expect("unknown members are kept").extra.get("tools").is_some());
    let malformed = server.call_tool("other", ()).expect("it can be sent");
    let id = malformed.id().as_u64();
    pair.client.flush();
    pair.input_to_client(&json!({"jsonrpc": "2.0", "id": id, "result": []}).to_string());
    assert_eq!(pair.wait(malformed), Err(CallError::Malformed));
    let failing = server
        .call_tool("late", ())
        .expect("it can be sent")
        .and_then(|_| Err::<(), _>(CallError::Invalid("no".into())));
    assert_eq!(pair.wait(failing), Err(CallError::Invalid("no".into())));
    pair.assert_clean();
}

#[test]
fn threads_can_send_requests_concurrently() {
    let pair = counting();
    let server = pair.to_server();
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let server = server.clone();
            thread::spawn(move || {
                for i in 0..50 {
                    let message = format!("{thread}-{i}");
                    let pending: Pending<_> =
                        server.call_tool("echo", json!({"message": message})).expect("it can be sent");
                    assert_eq!(pending.wait().expect("a result").content[0].as_text(), Some(message.as_str()));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| pair.finish(thread));
    pair.assert_clean();
}

#[test]
fn requests_in_flight_are_counted() {
    let pair = counting();
    let calls = pair.client_session.calls();
    assert_eq!((calls.len(), calls.is_empty()), (0, true));
    let pending = pair.to_server().call_tool("count3", ()).expect("it can be sent");
    assert_eq!((calls.len(), calls.is_empty()), (1, false));
    pair.wait(pending).expect("a result");
    assert_eq!((calls.len(), calls.is_empty()), (0, true));
}
