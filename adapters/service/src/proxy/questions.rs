//! Requests of a backend to the client: for input of the user or the model, and for its roots.
//!
//! The call that a request belongs to is found when the request arrives, and not when its handler begins: other calls
//! may have ended or begun since. A request that names no call is passed to a client only if all calls in flight at
//! its arrival were those of that client. If the call that it was sent with ends before the client has responded, it
//! is sent with another call of the client that was in flight at the arrival, or else refused. It is never sent with a
//! call that began later: the backend did not have that call when it sent the request, so the client may be another
//! one.

use std::{
    any::Any,
    sync::{Arc, Weak},
};

use mcp_proto::{
    connection::{ClientRole, SendError, ServerRole},
    protocol::{Method, MethodName},
    rpc::{CallId, ReplyKey},
    schema::{
        CreateMessageRequest, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams, ElicitRequest,
        ElicitResult, ElicitUrlParams, InputRequest, ListRootsRequest, ListRootsResult, UrlElicitationRequired,
    },
    wire::{ErrorObject, Json, RawJson},
};
use serde_core::de::DeserializeOwned;

use super::{
    call_table::{Answer, CallEntry, Candidates},
    shared::Shared,
};
use crate::{
    client::{Host, Observe},
    driver_api::{connection_handle::ConnectionHandle, deferred::select_biased},
    inbound::{context::Context, failure::Failure},
    outbound::{calls::Calls, error::CallError, peer::Peer},
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
    /// It does not keep the connection of the client alive.
    calls: Arc<Calls<ServerRole>>,
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
        .forwards_forms()
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

/// An observer of the messages of a backend. It passes notifications to clients.
struct Observed(Weak<Shared>);

impl Observe for Observed {
    fn request(
        &self,
        connection: &Arc<dyn ConnectionHandle<ClientRole>>,
        number: u64,
        key: ReplyKey,
    ) -> Box<dyn Any + Send> {
        Box::new(self.0.upgrade().map(|shared| shared.source_of(connection, number, key)))
    }

    fn notification(
        &self,
        method: &MethodName<'_>,
        params: Option<&RawJson<'_>>,
        number: u64,
        related_call: Option<CallId>,
    ) {
        if let Some(shared) = self.0.upgrade() {
            shared.observe(method, params, number, related_call);
        }
    }

    fn response(&self, number: u64, call: CallId) {
        if let Some(shared) = self.0.upgrade() {
            shared.calls.responded((number, call));
        }
    }

    fn late_response(&self, number: u64, call: CallId) {
        if let Some(shared) = self.0.upgrade() {
            shared.calls.responded_late((number, call));
        }
    }
}

/// The call of a client that a request of a backend belongs to, as known when the request arrives.
enum Source {
    /// The call that has required this input (2026-07-28).
    Input(ReplyKey),
    /// The call on whose stream the request has arrived.
    Stream(CallId),
    /// One of these calls of a client.
    Candidates(Candidates),
    Unknown,
}

impl Shared {
    /// Finds the call of a request that arrives now. The handler may begin later: then calls have ended that the
    /// request may belong to, and others have begun.
    fn source_of(&self, connection: &Arc<dyn ConnectionHandle<ClientRole>>, number: u64, key: ReplyKey) -> Source {
        let (is_input, related) = connection.read(|conn| (conn.input_request(key).is_some(), conn.related_call(key)));
        let source = match related {
            _ if is_input => return Source::Input(key),
            // The call may have ended. Then the request belongs to no other.
            Some(call) => Source::Stream(call),
            // The request may belong to a cancelled call, also if another call of its client is in flight.
            None => self.calls.candidates(number).map_or(Source::Unknown, Source::Candidates),
        };
        let is_certain = matches!(source, Source::Stream(call) if self.calls.get((number, call)).is_some());
        if !is_certain {
            self.calls.may_continue(number, connection.update(|_, now| now) + self.limits.grace_period);
        }
        source
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
    let mut source = backend.in_flight.role.take_arrival::<Option<Source>>().flatten().unwrap_or(Source::Unknown);
    let (connection, mut input) = (backend.shared.calls.number(), None);
    let mut entry = match &mut source {
        Source::Input(key) => {
            let origin = backend.connection.read(|conn| conn.input_request(*key)).ok_or_else(unknown)?;
            let entry = shared.calls.get((connection, origin.call));
            input = Some(origin);
            entry
        }
        Source::Stream(call) => shared.calls.get((connection, *call)),
        Source::Candidates(candidates) => shared.calls.next_candidate(candidates),
        Source::Unknown => None,
    }
    .ok_or_else(unknown)?;
    let refused = input.is_some().then(|| entry.clone());
    let (name, open) = input.map_or((None, 1), |origin| (Some(origin.name), origin.open));
    let method = method_of(&question);
    let question = shared.own_page(question, &entry);
    let answer = loop {
        let front = entry.context();
        // A client without a session gets the question in the result of its request.
        let in_rounds = front.in_flight.role.task.get().is_none() && front.in_flight.role.rounds.get().is_some();
        if in_rounds {
            let answer = entry.ask(name.clone(), open, question.clone());
            let answer = answer.ok_or_else(|| Failure::rpc(ErrorObject::internal("Too many questions about one call")));
            let asked = OpenQuestion { answer: answer?, entry };
            match select_biased(asked.answer.wait(), backend.cancelled()).await {
                Ok(Some(answer)) => break answer,
                Ok(None) => {}
                Err(_) => break Err(CallError::Cancelled),
            }
        } else {
            drop(entry);
            let name = name.clone().unwrap_or_else(|| "question".into());
            let pending = front.request_named(name, question.clone());
            match select_biased(pending, backend.cancelled()).await {
                Ok(Err(CallError::Cancelled | CallError::Send(SendError::Answered))) => {}
                Ok(answer) => break answer.map(|(_, answer)| answer),
                Err(_) => break Err(CallError::Cancelled),
            }
        }
        // The call has ended, and the question may be that of another call of the client.
        let Source::Candidates(candidates) = &mut source else { return Err(unknown()) };
        entry = shared.calls.next_candidate(candidates).ok_or_else(unknown)?;
    };
    let answer = answer.map_err(|error| {
        let error = refusal(error, method);
        if let Some(call) = refused {
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
        let page = OpenPage { id: std::mem::replace(id, own), client, calls: context.shared.calls.clone() };
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
        if let Some(OpenPage { id, calls, .. }) = found
            && let Some(connection) = calls.connection()
        {
            // A client of another revision is not notified.
            let _ = Peer::new(connection, calls).elicitation_complete(&format!("{}:{id}", self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        proxy::limits::ProxyLimits,
        server::{service::Service, tool::Tool},
        testing::TestClient,
        util::prefix::Prefix,
    };

    #[test]
    fn open_pages_do_not_keep_connections() {
        let (sent, got) = std::sync::mpsc::channel();
        let keep = Tool::new("keep", move |context: Context| sent.send(context).map_or("ended", |()| "kept"));
        let service = Service::builder("test", "1.0.0").tool(keep).build().expect("a service");
        let client = TestClient::new(&service);
        client.call_tool("keep", ()).expect("a result");
        let context = got.recv().expect("a context");
        let prefix = Prefix::parse("back").expect("a prefix");
        let shared = Shared::new("back".into(), prefix, ProxyLimits::default(), &service);
        let mut page = ElicitUrlParams::new("Open it", "https://example.com");
        page.elicitation_id = Some("1".into());
        shared.own_id(&mut page, &context);
        let connection = Arc::downgrade(&context.connection);
        drop((client, context));
        assert_eq!((connection.strong_count(), lock(&shared.pages).len()), (0, 1));
        shared.page_completed("1");
        assert_eq!(lock(&shared.pages).len(), 0);
    }
}
