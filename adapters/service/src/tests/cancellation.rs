use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    connection::{CancelCause, ClientRole, RequestOptions},
    protocol::ProtocolVersion,
    schema::{CreateMessageParams, CreateMessageResult, SamplingMessage},
    wire::ErrorCode,
};
use serde_json::json;

use super::echo;
use super::pair::Pair;
use crate::{
    client::Host,
    inbound::{context::Context, failure::Failure},
    outbound::error::CallError,
    server::{service::Service, tool::Tool},
    util::lock::lock,
};

type Seen = Arc<Mutex<Vec<String>>>;

/// A service with a tool that runs until it is cancelled.
fn patient(seen: &Seen, begun: &Arc<AtomicBool>) -> Service {
    let (seen, begun) = (seen.clone(), begun.clone());
    let work = move |context: Context| {
        begun.store(true, Ordering::SeqCst);
        let slept = context.sleep(Duration::from_secs(30)).wait();
        lock(&seen).push(format!("{slept:?} {:?} {:?}", context.is_cancelled(), context.cancel_cause()));
        context.progress(1.0, None, None).wait()?;
        context.check()?;
        Ok::<_, Failure>("finished")
    };
    echo().tool(Tool::new("work", work)).build().expect("a good service")
}

#[test]
fn handler_observes_cancellation() {
    let (seen, begun) = (Seen::default(), Arc::new(AtomicBool::new(false)));
    let service = patient(&seen, &begun);
    for version in ProtocolVersion::LEGACY {
        begun.store(false, Ordering::SeqCst);
        let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
        let pending = pair.to_server().call_tool("work", ()).expect("it can be sent");
        pair.until(|| begun.load(Ordering::SeqCst));
        pair.server.take_lines();
        pending.cancel(Some("changed my mind"));
        assert_eq!(pair.wait(pending).expect_err("it was cancelled"), CallError::Cancelled);
        let expected = "Err(Cancelled) true Some(Peer(Some(\"changed my mind\")))";
        assert_eq!(std::mem::take(&mut *lock(&seen)), [expected]);
        assert!(pair.server.take_lines().is_empty(), "there is no response");
        pair.assert_clean();
    }
}

#[test]
fn dropping_a_call_cancels_it() {
    let (seen, begun) = (Seen::default(), Arc::new(AtomicBool::new(false)));
    let pair = Pair::simple(&patient(&seen, &begun));
    let pending = pair.to_server().call_tool("work", ()).expect("it can be sent");
    pair.until(|| begun.load(Ordering::SeqCst));
    drop(pending);
    pair.settle();
    assert_eq!(lock(&seen).len(), 1);
    pair.assert_clean();

    // A request that was not written yet is removed from the outbox.
    pair.client.take_lines();
    drop(pair.to_server().call_tool("work", ()).expect("it can be sent"));
    pair.settle();
    assert!(pair.client.take_lines().is_empty());
}

#[test]
fn job_cancelled_before_start_does_not_run() {
    use crate::driver_api::{connection_handle::Application, job::Job};
    use mcp_proto::connection::Event;

    let (seen, begun) = (Seen::default(), Arc::new(AtomicBool::new(false)));
    let pair = Pair::simple(&patient(&seen, &begun));
    let params = mcp_proto::wire::Json::parse(r#"{"name":"work"}"#).expect("JSON");
    let line = json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "work"}}).to_string();
    let event = pair.server.with_conn(|conn| {
        let frame = mcp_proto::codec::Frame::new(line.as_bytes());
        conn.handle_frame(Default::default(), frame).map(Event::into_owned)
    });
    assert!(!params.get().is_empty());
    let job: Job = pair.server_session.handle(&pair.server.connection(), event.expect("a request")).expect("a job");
    pair.input_to_server(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}}).to_string(),
    );
    job.run();
    assert!(!begun.load(Ordering::SeqCst));
    pair.settle();
    assert!(pair.server.take_lines().is_empty());
    pair.assert_clean();
}

#[test]
fn dropped_job_sends_an_error_response() {
    use crate::driver_api::connection_handle::Application;
    use mcp_proto::connection::Event;

    let pair = Pair::simple(&echo().build().expect("a good service"));
    let line = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo", "arguments": {"message": "hi"}}});
    let line = line.to_string();
    let event = pair.server.with_conn(|conn| {
        let frame = mcp_proto::codec::Frame::new(line.as_bytes());
        conn.handle_frame(Default::default(), frame).map(Event::into_owned)
    });
    drop(pair.server_session.handle(&pair.server.connection(), event.expect("a request")).expect("a job"));
    let mut out = Vec::new();
    pair.server.with_conn(|conn| conn.poll_transmit(&mut out));
    let answer: serde_json::Value = serde_json::from_slice(&out).expect("an answer");
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32603)));
}

#[test]
fn input_requests_end_with_their_request() {
    let seen = Seen::default();
    let observed = seen.clone();
    let service = Service::builder("test", "1")
        .tool(Tool::new("ask", move |context: Context| {
            let answer = context.sample(CreateMessageParams::new([SamplingMessage::user("hi")], 1_u64)).wait();
            lock(&observed).push(format!("{:?}", answer.err()));
            // No further request is sent.
            lock(&observed).push(format!("{:?}", context.roots().wait().err()));
        }))
        .build()
        .expect("a good service");
    let received = Arc::new(AtomicBool::new(false));
    let stopped = Arc::new(Mutex::new(None));
    let (asking, stopping) = (received.clone(), stopped.clone());
    let host = Host::builder("client", "1")
        .roots(&crate::client::roots::Roots::default())
        .sampling(move |_: CreateMessageParams, context| {
            asking.store(true, Ordering::SeqCst);
            let _ = context.sleep(Duration::from_secs(30)).wait();
            *lock(&stopping) = context.cancel_cause();
            Err("stopped")
        })
        .build();
    let pair = Pair::new(&host, &service, ProtocolVersion::V2025_11_25);
    let pending = pair.to_server().call_tool("ask", ()).expect("it can be sent");
    pair.until(|| received.load(Ordering::SeqCst));
    drop(pending);
    pair.settle();
    assert_eq!(*lock(&seen), ["Some(Cancelled)", "Some(Cancelled)"]);
    assert!(matches!(*lock(&stopped), Some(CancelCause::Peer(Some(_)))), "the other side was told");
    pair.assert_clean();
}

#[test]
fn connection_end_cancels_calls_and_handlers() {
    let (seen, begun) = (Seen::default(), Arc::new(AtomicBool::new(false)));
    let pair = Pair::simple(&patient(&seen, &begun));
    let server = pair.to_server().with_options(RequestOptions::no_timeout());
    let waiting = std::thread::spawn(move || server.call_tool("work", ()).map_err(CallError::from)?.wait());
    pair.until(|| begun.load(Ordering::SeqCst));
    let reason = std::thread::spawn({
        let server = pair.to_server();
        move || server.closed().wait()
    });
    pair.cut();
    assert!(matches!(waiting.join().expect("no panic"), Err(CallError::Closed(_))));
    assert_eq!(*lock(&seen), ["Err(Cancelled) true Some(Closed)"]);
    let reason = reason.join().expect("no panic");
    assert_eq!(pair.to_server().close_reason(), Some(reason));
    assert!(pair.to_server().call_tool("work", ()).is_err());
    pair.assert_clean();
}

#[test]
fn a_handler_can_wait_for_the_cancellation() {
    let (seen, begun) = (Seen::default(), Arc::new(AtomicBool::new(false)));
    let (observed, beginning) = (seen.clone(), begun.clone());
    let (other_eye, other_beginning) = (seen.clone(), begun.clone());
    let service = Service::builder("test", "1")
        .tool(Tool::new("wait", move |context: Context| {
            let cancelled = context.cancelled();
            beginning.store(true, Ordering::SeqCst);
            lock(&observed).push(format!("waited {:?}", cancelled.wait()));
        }))
        .tool(Tool::new_async("await", move |context: Context| {
            let (observed, beginning) = (other_eye.clone(), other_beginning.clone());
            async move {
                beginning.store(true, Ordering::SeqCst);
                let cause = context.cancelled().await;
                lock(&observed).push(format!("awaited {cause:?}"));
            }
        }))
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    for tool in ["wait", "await"] {
        begun.store(false, Ordering::SeqCst);
        let pending = pair.to_server().call_tool(tool, ()).expect("it can be sent");
        pair.until(|| begun.load(Ordering::SeqCst));
        drop(pending);
        pair.settle();
    }
    assert_eq!(*lock(&seen), ["waited Peer(None)", "awaited Peer(None)"]);
    pair.assert_clean();
}

/// The peer gets an error in time, and the handler is cancelled, on either side.
#[test]
fn reply_timeout_cancels_handlers() {
    let time = Duration::from_secs(5);
    let (seen, begun) = (Seen::default(), Arc::new(AtomicBool::new(false)));
    let (causes, has_begun) = (seen.clone(), begun.clone());
    let wait = move |context: Context| {
        let (causes, has_begun) = (causes.clone(), has_begun.clone());
        async move {
            has_begun.store(true, Ordering::SeqCst);
            context.cancelled().await;
            lock(&causes).push(format!("{:?}", context.cancel_cause()));
            "late"
        }
    };
    let service = echo().tool(Tool::new_async("wait", wait)).reply_timeout(time).build().expect("a good service");
    let pair = Pair::simple(&service);
    let id = pair.send_line("tools/call", json!({"name": "wait"}));
    pair.until(|| begun.load(Ordering::SeqCst));
    pair.advance(time - Duration::from_nanos(1));
    assert_eq!(pair.answered(&id), None);
    pair.pass(Duration::from_nanos(1));
    assert_eq!(pair.answered(&id).expect("it is answered")["error"]["code"], -32603);
    assert_eq!(std::mem::take(&mut *lock(&seen)), ["Some(TimedOut)"]);
    pair.assert_clean();

    begun.store(false, Ordering::SeqCst);
    let (causes, has_begun) = (seen.clone(), begun.clone());
    let wait = move |_: CreateMessageParams, context: Context<ClientRole>| {
        let (causes, has_begun) = (causes.clone(), has_begun.clone());
        async move {
            has_begun.store(true, Ordering::SeqCst);
            context.cancelled().await;
            lock(&causes).push(format!("{:?}", context.cancel_cause()));
            Err::<CreateMessageResult, _>(Failure::rejected())
        }
    };
    let host = Host::builder("client", "1").sampling_async(wait).reply_timeout(time).build();
    let pair = Pair::new(&host, &echo().build().expect("a good service"), ProtocolVersion::LATEST_LEGACY);
    let params = CreateMessageParams::new([SamplingMessage::user("hi")], 1_u64);
    let pending = pair.to_client().request(&params).expect("it can be sent");
    pair.until(|| begun.load(Ordering::SeqCst));
    pair.pass(time);
    let refused = pair.wait(pending).expect_err("it took too long");
    assert!(matches!(&refused, CallError::Rpc(error) if error.code == ErrorCode::INTERNAL_ERROR), "{refused:?}");
    assert_eq!(*lock(&seen), ["Some(TimedOut)"]);
    pair.assert_clean();
}
