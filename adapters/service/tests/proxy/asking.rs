//! Backends that send requests to clients, and clients that respond to them.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{self, Poll, Waker},
};

use mcp_proto::schema::{
    CreateMessageParams, CreateMessageResult, ElicitFormParams, ElicitResult, ElicitSchema, ElicitValue, Map, Role,
    Root, SamplingContent,
};
use mcp_service::{Context, Failure, Host, Roots, Service, Tool};

use crate::world::World;

pub(crate) fn form() -> ElicitSchema {
    serde_json::from_str(r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#)
        .expect("a form")
}

/// A client whose user is called so.
pub(crate) fn host(user: &str) -> Host {
    let user = user.to_owned();
    let roots = Roots::new([Root::new(format!("file:///home/{user}"))]).expect("roots");
    let model = user.clone();
    Host::builder(user.clone(), "1.0.0")
        .roots(&roots)
        .elicitation(move |_: ElicitFormParams, _| {
            Ok::<_, Failure>(ElicitResult::accept(Map::from_iter([("name".to_owned(), ElicitValue::from(&*user))])))
        })
        .sampling(move |_: CreateMessageParams, _| {
            let poem = SamplingContent::text(format!("a poem by {model}"));
            Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, poem, "model"))
        })
        .build()
}

/// A server that asks, and counts how often its handler was called.
pub(crate) fn server(calls: &Arc<AtomicUsize>) -> Service {
    let calls = calls.clone();
    Service::builder("back", "1.0.0")
        .tool(Tool::new_async("greet", move |context: Context| {
            let calls = calls.clone();
            async move {
                calls.fetch_add(1, Ordering::SeqCst);
                let name = context.elicit("Who?", form()).await?;
                let name = format!("{:?}", name.content.and_then(|content| content.get("name").cloned()));
                let poem = context.sample_text("a poem", 10).await?;
                let again = context.elicit("Who else?", form()).await?.action;
                let roots = context.roots().await?;
                Ok::<_, Failure>(format!("{name}, {poem}, {again}, {}", roots[0].uri))
            }
        }))
        .tool(Tool::new_async("wait", async |context: Context| {
            context.cancelled().await;
        }))
        .build()
        .expect("a service")
}

/// A gate that a handler waits at.
#[derive(Default)]
pub(crate) struct Gate(Mutex<(bool, Option<Waker>)>);

impl Gate {
    pub(crate) fn open(&self) {
        let mut state = self.0.lock().expect("no panic");
        state.0 = true;
        state.1.take().into_iter().for_each(Waker::wake);
    }

    async fn pass(&self) {
        let is_open = |cx: &mut task::Context<'_>| {
            let mut state = self.0.lock().expect("no panic");
            state.1 = Some(cx.waker().clone());
            if state.0 { Poll::Ready(()) } else { Poll::Pending }
        };
        poll_fn(is_open).await;
    }
}

/// A client whose user responds to a form after the gate is open.
pub(crate) fn gated(user: &'static str, gate: &Arc<Gate>) -> Host {
    let gate = gate.clone();
    let host = Host::builder(user, "1.0.0").elicitation_async(move |_, _| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            let content = Map::from_iter([("name".to_owned(), ElicitValue::from(user))]);
            Ok::<_, Failure>(ElicitResult::accept(content))
        }
    });
    host.build()
}

/// Returns the id of the first request in a transcript.
pub(crate) fn first_id(transcript: &str) -> String {
    let id = transcript.split(r#""id":"#).nth(1).and_then(|rest| rest.split([',', '}']).next());
    id.expect("a request").to_owned()
}

/// Sends a question of a backend that names no call.
pub(crate) fn send_question(world: &mut World, id: &str, message: &str) {
    let form = r#"{"type":"object","properties":{"name":{"type":"string"}}}"#;
    let params = format!(r#"{{"message":"{message}","requestedSchema":{form}}}"#);
    let line = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"elicitation/create","params":{params}}}"#);
    world.back(0).send_server_line(&line);
}

pub(crate) fn send_result(world: &mut World, id: &str) {
    world.back(0).send_server_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#));
}
