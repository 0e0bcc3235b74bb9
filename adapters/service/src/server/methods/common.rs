//! The common code of several topics: pages of lists, handlers with requests for input, and the caller.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerRole,
    schema::{CacheHints, Encode},
    wire::ErrorObject,
};

use crate::{
    driver_api::{
        deferred::Deferred,
        job::{HandlerKind, Job},
    },
    inbound::{context::Context, rpc_result::RpcResult, state::SessionState},
    server::{
        catalog::Catalog,
        input_required::{CallerId, InputRounds, run_in_rounds},
        routes::Request,
        visibility::Registered,
    },
    util::{paged_list::PagedList, uri::is_uri},
};

/// A page of a list.
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) next_cursor: Option<String>,
    /// The cache hints of the list.
    pub(super) hints: CacheHints,
}

impl SessionState<ServerRole> {
    /// Responds with a page of a list, converted into its type of result.
    pub(super) fn list<
        T: Registered<Description: Send + Sync> + Send + Sync + 'static,
        R: Encode + Send + Sync + 'static,
    >(
        self: &Arc<Self>,
        inbound: &Request<'_>,
        cursor: Option<String>,
        list: fn(&Catalog) -> &PagedList<T>,
        result: fn(Page<T::Description>) -> R,
    ) -> Option<Job> {
        let listed = self.app.0.listed_for(inbound);
        self.answer(inbound, move |shared| {
            let service = &*shared.app.0;
            let (page, next_cursor) = listed.page(service, list, cursor.as_deref())?;
            let items = page.iter().map(|entry| entry.listed().clone()).collect();
            Ok(result(Page { items, next_cursor, hints: service.list_hints() }))
        })
    }

    /// Runs a handler that may request input. In the modern era its requests are sent in an `input_required` result.
    pub(super) fn run_with_input<T: Encode + Send + Sync + 'static>(
        self: &Arc<Self>,
        inbound: &Request<'_>,
        caller: Option<CallerId>,
        kind: HandlerKind,
        failed: fn(&T) -> bool,
        run: impl FnOnce(&Context) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> RpcResult<Option<Job>> {
        let Some(caller) = caller else { return Ok(Some(self.handler_job(inbound, kind, run))) };
        let rounds = self.begin_rounds(inbound, caller)?;
        Ok(Some(self.handler_job(inbound, kind, move |context| run_in_rounds(context, rounds, failed, run))))
    }

    /// Begins the rounds of a request of the modern era.
    pub(super) fn begin_rounds(&self, inbound: &Request<'_>, caller: CallerId) -> RpcResult<Box<InputRounds>> {
        let method = inbound.method.known().ok_or_else(|| ErrorObject::method_not_found(inbound.method.as_str()))?;
        InputRounds::begin(&self.app.0.state_signer, method, inbound.params.as_ref(), caller)
    }
}

/// Returns the caller of a request of the modern era.
pub(super) fn caller(inbound: &Request<'_>) -> Option<CallerId> {
    inbound.connection.read(|conn| CallerId::of(conn, inbound.key))
}

/// Checks a URI of a client.
pub(super) fn valid_uri(uri: String) -> RpcResult<String> {
    if is_uri(&uri) { Ok(uri) } else { Err(ErrorObject::invalid_params("Invalid params: not a URI")) }
}
