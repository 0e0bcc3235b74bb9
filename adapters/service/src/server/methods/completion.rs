//! Requests for completion.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerRole,
    protocol::{Capability, Method},
    schema::{
        CompleteParams, CompleteResult, Completion, CompletionArgument, CompletionReference, PromptReference,
        ResourceTemplateReference,
    },
    wire::ErrorObject,
};

use crate::{
    driver_api::job::Job,
    inbound::{
        completion_request::CompletionRequest,
        request::{InboundRequest, params},
        rpc_result::RpcResult,
        state::SessionState,
    },
    server::{
        catalog::{FoundResource, ResourceHandler},
        completion::Completable,
        inner::Inner,
        required_scopes::lacks_scopes,
        routes::{Request, Route, SentRequest},
        visible_items::VisibleItems,
    },
    util::text_arguments::excerpt,
};

pub(super) const ROUTE: Route = Route { answer, scopes };

fn scopes(shared: &SessionState<ServerRole>, sent: &SentRequest<'_>) -> Vec<String> {
    let find = || {
        let CompleteParams { reference, .. } = sent.params?.decode().ok()?;
        shared.app.0.subject(&VisibleItems::of(sent), &reference).ok()?
    };
    find().map(|(_, scopes)| scopes).unwrap_or_default()
}

fn answer(shared: &Arc<SessionState<ServerRole>>, _: Method, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
    shared.complete(inbound)
}

impl SessionState<ServerRole> {
    fn complete(self: &Arc<Self>, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
        let InboundRequest { connection, .. } = *inbound;
        // In 2024-11-05 there was no capability for completion.
        if !connection.read(|conn| conn.capabilities().contains(Capability::Completions)) {
            return Err(ErrorObject::method_not_found(Method::Complete.as_str()));
        }
        let CompleteParams { reference, argument, context, .. } = params(inbound.params.as_ref())?;
        let CompletionArgument { name, value, .. } = argument;
        let known = context.and_then(|context| context.arguments).unwrap_or_default();
        let Some((subject, scopes)) = self.app.0.subject(&self.app.0.visible_to(inbound), &reference)? else {
            return Ok(self.answer(inbound, |_| Ok(CompleteResult::new(Completion::of([""; 0])))));
        };
        if let Some(refused) = lacks_scopes(inbound, &scopes) {
            return refused.map(|()| None);
        }
        if !subject.has(&name) {
            return Err(ErrorObject::invalid_params(excerpt(&format_args!("Unknown argument: {name}"))));
        }
        let kind = subject.completers().kind(&name);
        Ok(Some(self.handler_job(inbound, kind, move |context| {
            let completion_request = CompletionRequest { value, known, context: context.clone() };
            let completion = subject.completers().complete(&name, &completion_request);
            let request = context.clone();
            completion
                .map(move |completion| completion.map(CompleteResult::new).map_err(|failure| request.explain(failure)))
        })))
    }
}

/// The item of an argument, and the scopes that a request for its completion needs.
type Subject = (Arc<dyn Completable>, Vec<String>);

// The lock of the catalog is never held while a thread waits for that of a connection.
impl Inner {
    /// Returns the item of an argument; `None` if the item has no arguments.
    fn subject(&self, visible: &VisibleItems, reference: &CompletionReference) -> RpcResult<Option<Subject>> {
        let unknown =
            |what: &str, name: &str| ErrorObject::invalid_params(excerpt(&format_args!("Unknown {what}: {name}")));
        match reference {
            CompletionReference::Prompt(PromptReference { name, .. }) => {
                match visible.get(self, |catalog| &catalog.prompts, name) {
                    Some(prompt) => {
                        let scopes = prompt.scopes().to_vec();
                        Ok(Some((prompt, scopes)))
                    }
                    None => Err(unknown("prompt", name)),
                }
            }
            CompletionReference::Resource(ResourceTemplateReference { uri, .. }) => {
                if let Some(template) = visible.get(self, |catalog| &catalog.templates, uri) {
                    let scopes = template.scopes().to_vec();
                    return Ok(Some((template, scopes)));
                }
                match visible.find(self, uri) {
                    Some(FoundResource { handler: ResourceHandler::Template(template, _), scopes }) => {
                        Ok(Some((template, scopes)))
                    }
                    Some(_) => Ok(None),
                    None => Err(unknown("resource", uri)),
                }
            }
            CompletionReference::Other(_) => {
                Err(ErrorObject::invalid_params("Invalid params: unsupported kind of reference"))
            }
        }
    }
}
