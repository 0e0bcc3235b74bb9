//! What the answers of several topics have in common: pages of lists, handlers that ask back, and the caller.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerRole,
    schema::{CacheHints, Encode, Meta},
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
        input_required::{Asker, Finished, Rounds},
        routes::Request,
        visibility::Registered,
    },
    util::{paged_list::Registry, uri::is_uri},
};

/// A page of a list.
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) next_cursor: Option<String>,
    /// For how long the list may be used again, and by whom.
    pub(super) hints: CacheHints,
}

impl SessionState<ServerRole> {
    /// Answers with a page of one of the lists, made into its kind of result.
    pub(super) fn list<T: Registered<About: Send + Sync> + Send + Sync + 'static, R: Encode + Send + Sync + 'static>(
        self: &Arc<Self>,
        inbound: &Request<'_>,
        cursor: Option<String>,
        list: fn(&Catalog) -> &Registry<T>,
        result: fn(Page<T::About>) -> R,
    ) -> Option<Job> {
        let view = self.app.0.view(inbound);
        self.answer(inbound, move |shared| {
            let service = &*shared.app.0;
            let (page, next_cursor) = view.page(service, list, cursor.as_deref())?;
            let items = page.iter().map(|entry| entry.listed().clone()).collect();
            Ok(result(Page { items, next_cursor, hints: service.list_hints() }))
        })
    }

    /// Runs a handler that may ask back. In the modern era its questions are the answer, for now.
    pub(super) fn in_rounds<T: Encode + Send + Sync + 'static>(
        self: &Arc<Self>,
        inbound: &Request<'_>,
        asker: Option<Asker>,
        meta: Option<Meta>,
        kind: HandlerKind,
        failed: fn(&T) -> bool,
        run: impl FnOnce(&Context) -> Deferred<RpcResult<T>> + Send + 'static,
    ) -> RpcResult<Option<Job>> {
        let (Some(asker), Some(method)) = (asker, inbound.method.known()) else {
            return Ok(Some(self.handler_job(inbound, meta, kind, run)));
        };
        let rounds = Rounds::begin(&self.app.0.seal, method, inbound.params.as_ref(), asker)?;
        Ok(Some(self.handler_job(inbound, meta, kind, move |context| {
            let request = context.clone();
            let _ = request.in_flight.role.rounds.set(Box::new(rounds));
            run(context).map(move |answer| match request.in_flight.role.rounds.get() {
                Some(rounds) => rounds.finish(&request.service().0.seal, answer, failed),
                None => answer.map(Finished::Complete),
            })
        })))
    }
}

/// Who has sent a request of the modern era.
pub(super) fn asker(inbound: &Request<'_>) -> Option<Asker> {
    inbound.connection.read(|conn| Asker::of(conn, inbound.key))
}

/// A URI that a client has sent.
pub(super) fn valid(uri: String) -> RpcResult<String> {
    if is_uri(&uri) { Ok(uri) } else { Err(ErrorObject::invalid_params("Invalid params: not a URI")) }
}
