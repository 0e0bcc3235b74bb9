//! Requests of a backend to the client: for input of the user or the model, and for its roots.
//!
//! A request that names no call is passed to a client only if all calls in flight at its arrival were those of that
//! client. If the call that it was sent with ends before the client has responded, it is sent with another call of the
//! client that was in flight at the arrival, or else refused. It is never sent with a call that began later: the
//! backend did not have that call when it sent the request, so the client may be another one.

use std::sync::{Arc, Weak};

use mcp_proto::{
    connection::{ClientRole, SendError, ServerRole},
    protocol::{Method, MethodName},
    rpc::CallId,
    schema::{
        CreateMessageRequest, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams, ElicitRequest,
        ElicitResult, ElicitUrlParams, InputRequest, ListRootsRequest, ListRootsResult, UrlElicitationRequired,
    },
    wire::{ErrorObject, Json, RawJson},
};
use serde_core::de::DeserializeOwned;

use super::{
    call_table::{Answer, CallEntry, Callers},
    shared::Shared,
};
use crate::{
    client::{Host, Observe},
    driver_api::deferred::select_biased,
    inbound::{context::Context, failure::Failure, in_flight::RequestOrigin},
    outbound::{error::CallError, peer::Peer},
    server::client_key::ClientKey,
    util::lock::lock,
};

/// The most pages of URL elicitations whose completion can be passed on. A client that opens another page loses its own
/// oldest page, or else the oldest of all is removed.
const OPEN_PAGES: usize = 256;

/// A page of a URL elicitation.
pub(super) struct OpenPage {
    /// The id at the backend.
    id: String,
    client: ClientKey,
    peer: Peer<ServerRole>,
}

/// Builds the host of the connections to a backend. It declares all capabilities, because it serves all clients. In
/// 2026-07-28, each request declares the capabilities of its client.
pub(super) fn host(shared: &Weak<Shared>, name: &str, version: &str) -> Host {
    let [sampling, form, url, roots, observed] = std::array::from_fn(|_| shared.clone());
    Host::builder(name, version)
        .sampling_with_tools()
        .sampling_with_context()
        .sampling_async(move |params, context| {
            ask::<CreateMessageResult>(sampling.clone(), context, CreateMessageRequest::new(params).into())
        })
        .elicitation_async(move |params: ElicitFormParams, context| {
            ask::<ElicitResult>(form.clone(), context, ElicitRequest::new(params).into())
        })
        .elicitation_url_async(move |params: ElicitUrlParams, context| {
            let url = url.clone();
            async move {
                let answer: ElicitResult = ask(url, context, ElicitRequest::new(params).into()).await?;
                Ok::<ElicitAction, Failure>(answer.action)
            }
        })
        .roots_async(move |params, context| {
            let request = ListRootsRequest { params: Some(params), ..ListRootsRequest::default() };
            ask::<ListRootsResult>(roots.clone(), context, request.into())
        })
        .observe(Arc::new(Observed(observed)))
        .build()
}

/// An observer of the notifications of a backend, which passes them to clients.
struct Observed(Weak<Shared>);

impl Observe for Observed {
    fn notification(&self, method: &MethodName<'_>, params: Option<&RawJson<'_>>, related: (u64, Option<CallId>)) {
        if let Some(shared) = self.0.upgrade() {
            let (connection, call) = related;
            shared.observe(method, params, call.map(|call| (connection, call)));
        }
    }

    fn late_response(&self, connection: u64, call: CallId) {
        if let Some(shared) = self.0.upgrade() {
            shared.calls.responded_late((connection, call));
        }
    }
}

/// Passes a request of a backend to the client whose call it belongs to, and returns the response.
async fn ask<R: DeserializeOwned>(
    shared: Weak<Shared>,
    backend: Context<ClientRole>,
    question: InputRequest,
) -> Result<R, Failure> {
    let unknown = || Failure::rpc(ErrorObject::internal("No call of a client is in flight that this could belong to"));
    let shared = shared.upgrade().ok_or_else(unknown)?;
    let origin = match backend.in_flight.origin {
        RequestOrigin::Request(key) => backend.connection.read(|conn| conn.input_request(key)),
        RequestOrigin::Task(_) => None,
    };
    let related = match (&origin, &backend.in_flight.origin) {
        (None, RequestOrigin::Request(key)) => backend.connection.read(|conn| conn.related_call(*key)),
        _ => None,
    };
    let connection = backend.shared.calls.number();
    // A request that names no call may belong to a cancelled one, also if another call of its client is in flight.
    let is_certain = origin.is_some() || related.is_some();
    // Calls that begin later are not those that it belongs to.
    let mut callers = if is_certain { Callers::default() } else { shared.calls.callers() };
    let entry = match &origin {
        Some(origin) => shared.calls.get((connection, origin.call)),
        None if is_certain => shared.calls.of_message(related.map(|call| (connection, call))),
        None => callers.sole(),
    };
    if entry.is_none() || !is_certain {
        shared.calls.may_continue(connection, backend.connection.update(|_, now| now) + shared.limits.grace_period);
    }
    let mut entry = entry.ok_or_else(unknown)?;
    let is_input = origin.is_some();
    let call = entry.clone();
    let (name, open) = origin.map_or((None, 1), |origin| (Some(origin.name), origin.open));
    let method = method_of(&question);
    let question = shared.own_page(question, &entry);
    let answer = loop {
        let front = entry.context();
        // A client without a session gets the question in the result of its request.
        let in_rounds = front.in_flight.role.task.get().is_none() && front.in_flight.role.rounds.get().is_some();
        if !in_rounds {
            drop(entry);
            let pending = front.request_named(name.unwrap_or_else(|| "question".into()), question);
            break select_biased(async { pending.await.map(|(_, answer)| answer) }, backend.cancelled()).await;
        }
        let answer = entry.ask(name.clone(), open, question.clone());
        let answer = answer.ok_or_else(|| Failure::rpc(ErrorObject::internal("Too many questions about one call")))?;
        let asked = OpenQuestion { answer, entry };
        match select_biased(asked.answer.wait(), backend.cancelled()).await {
            Ok(Some(answer)) => break Ok(answer),
            // The call has ended, and the question may be that of another call of the client.
            Ok(None) if !is_certain => {
                shared.calls.retain_in_flight(&mut callers);
                entry = callers.sole().ok_or_else(unknown)?;
            }
            Ok(None) => return Err(unknown()),
            Err(cause) => break Err(cause),
        }
    };
    let answer = answer.unwrap_or(Err(CallError::Cancelled)).map_err(|error| refusal(error, method));
    let answer = answer.map_err(|error| {
        if is_input {
            call.refuse(&error);
        }
        Failure::rpc(error)
    })?;
    answer.decode().map_err(|error| Failure::rpc(ErrorObject::internal(format!("Invalid response: {error}"))))
}

/// A question that waits for the client. Dropping it withdraws the question.
struct OpenQuestion {
    answer: Arc<Answer>,
    entry: Arc<CallEntry>,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if !self.answer.is_over() {
            self.answer.abandon();
            self.entry.withdrawn();
        }
    }
}

const fn method_of(question: &InputRequest) -> Method {
    match question {
        InputRequest::CreateMessage(_) => Method::CreateMessage,
        InputRequest::ListRoots(_) => Method::ListRoots,
        _ => Method::Elicit,
    }
}

/// Returns the error that the backend gets.
fn refusal(error: CallError, method: Method) -> ErrorObject {
    match error {
        CallError::Rpc(error) => error,
        CallError::Send(SendError::Undeclared(_) | SendError::NotInRevision { .. }) => {
            ErrorObject::method_not_found(method.as_str())
        }
        error => ErrorObject::internal(error.to_string()),
    }
}

impl Shared {
    /// Gives a page of a backend an id that no other backend uses, and records the client of the page.
    fn own_page(&self, mut question: InputRequest, entry: &CallEntry) -> InputRequest {
        if let InputRequest::Elicit(ElicitRequest { params: ElicitParams::Url(page), .. }) = &mut question {
            self.own_id(page, &entry.context());
        }
        question
    }

    fn own_id(&self, page: &mut ElicitUrlParams, context: &Context) {
        let Some(id) = &mut page.elicitation_id else {
            // Sessions of 2025-11-25 need an id, which the revision of the backend does not have.
            page.elicitation_id = self.new_id().map(|id| format!("{}:{id}", self.name));
            return;
        };
        let own = format!("{}:{id}", self.name);
        let client = ClientKey::of(&context.connection, context.shared.calls.number());
        let page = OpenPage { id: std::mem::replace(id, own), client, peer: context.peer() };
        let removed = {
            let mut pages = lock(&self.pages);
            let is_full = pages.len() >= OPEN_PAGES;
            let removed = is_full.then(|| pages.iter().position(|known| known.client == page.client).unwrap_or(0));
            let removed = removed.and_then(|index| pages.remove(index));
            pages.push_back(page);
            removed
        };
        drop(removed);
    }

    /// Replaces the ids of the pages in an error by ids that no other backend uses.
    pub(super) fn own_pages(&self, mut error: ErrorObject, context: &Context) -> ErrorObject {
        let required = error.data.as_ref().and_then(|data| data.decode::<UrlElicitationRequired>().ok());
        if let Some(mut required) = required {
            required.elicitations.iter_mut().for_each(|page| self.own_id(page, context));
            let written = mcp_proto::schema::At(&required, None).to_json();
            error.data = written.ok().or_else(|| Json::new(&()).ok());
        }
        error
    }

    /// Notifies the client that a page was completed.
    pub(super) fn page_completed(&self, id: &str) {
        let found = {
            let mut pages = lock(&self.pages);
            let at = pages.iter().position(|page| page.id == id);
            at.and_then(|at| pages.remove(at))
        };
        if let Some(OpenPage { id, peer, .. }) = found {
            // A client of another revision is not notified.
            let _ = peer.elicitation_complete(&format!("{}:{id}", self.name));
        }
    }
}
