//! What a handler of a server can ask of its client while it works.

use mcp_proto::{
    connection::{SendError, ServerEnd},
    protocol::{Capability, ProtocolVersion},
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult,
        ElicitSchema, ElicitUrlParams, ListRootsParams, LoggingLevel, Root, UrlElicitationRequired,
    },
    wire::{ErrorCode, ErrorObject, Json},
};
use serde_core::Serialize;

use super::{
    Service,
    peer::{in_order, log_message},
};
use crate::{CallError, Context, Failure, Peer, is_uri, work::Origin};

/// What only handlers of a server can do. These are the one way to ask back: other revisions carry the questions
/// differently, handlers do not notice. So hand errors on with `?`.
impl Context<ServerEnd> {
    /// The service that this handler belongs to, for example to add a tool.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.shared.home
    }

    /// Sends a log message. It is dropped if the client does not want messages of this level.
    ///
    /// Blocks while a client that does not read leaves no room.
    ///
    /// # Errors
    /// If the data cannot be written as JSON, or the connection is closed.
    pub fn log(&self, level: LoggingLevel, logger: Option<&str>, data: impl Serialize) -> Result<(), SendError> {
        let mut message = log_message(level, logger, data)?;
        message.meta = self.related(None);
        self.when_there_is_room(|| {
            self.link.run(|conn, _| match self.work.origin {
                Origin::Request(key) => conn.log(key, &message),
                Origin::Task(_) => conn.notify(&message),
            })
        })
    }

    /// Asks the client's model, and waits.
    ///
    /// # Errors
    /// Why there is no answer: the client has no model, the user said no, nobody wants the result any more, ….
    pub fn sample(&self, params: CreateMessageParams) -> Result<CreateMessageResult, CallError> {
        let knows_context = self.info().client_capabilities.set().contains(Capability::SamplingContext);
        let mut params = in_order(params, Some(self.version()), knows_context)?;
        params.meta = self.related(params.meta);
        self.ask(&params)
    }

    /// Asks the client's user with a form, and waits (2025-06-18). The answer fits the form.
    ///
    /// That the user declines, or does not answer, is no error: see [`ElicitResult::action`].
    ///
    /// # Errors
    /// Why there is no answer: the client shows no forms, nobody wants the result any more, ….
    pub fn elicit(&self, message: impl Into<String>, schema: ElicitSchema) -> Result<ElicitResult, CallError> {
        let mut params = ElicitFormParams::new(message, schema);
        params.meta = self.related(None);
        let question = ElicitParams::from(params);
        let result: ElicitResult = self.ask(&question)?;
        if let (ElicitParams::Form(form), ElicitAction::Accept) = (&question, &result.action) {
            let none = Default::default();
            crate::form::check(&form.requested_schema, result.content.as_ref().unwrap_or(&none))
                .map_err(CallError::Invalid)?;
        }
        Ok(result)
    }

    /// Asks the client's user to open a page, and waits for the user's consent (2025-11-25). That the user is done there is
    /// not said by this: find out for yourself, and call [`PageVisit::complete`].
    ///
    /// # Errors
    /// Why there is no answer: the client opens no pages, this is no URL, nobody wants the result any more, ….
    pub fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> Result<PageVisit, CallError> {
        let mut params = self.page(message.into(), url.into())?;
        params.meta = self.related(None);
        let id = params.elicitation_id.clone().unwrap_or_default();
        let result: ElicitResult = self.ask(&ElicitParams::from(params))?;
        Ok(PageVisit { action: result.action, id, client: self.peer() })
    }

    /// The failure of a request that cannot be done before the user has been to these pages (message and URL each): the
    /// error -32042, which the client knows what to do with (2025-11-25). Other clients are told in words.
    #[must_use]
    pub fn pages_required<M: Into<String>, U: Into<String>>(&self, pages: impl IntoIterator<Item = (M, U)>) -> Failure {
        let pages: Result<Vec<_>, _> =
            pages.into_iter().map(|(message, url)| self.page(message.into(), url.into())).collect();
        let pages = match pages {
            Ok(pages) => pages,
            Err(error) => return Failure::new(error.to_string()),
        };
        let knows = self.version() == ProtocolVersion::V2025_11_25
            && self.info().client_capabilities.set().contains(Capability::ElicitationUrl);
        if !knows {
            let pages: Vec<_> = pages.iter().map(|page| format!("{} {}", page.message, page.url)).collect();
            return Failure::new(format!("Please open first: {}", pages.join(", ")));
        }
        let error = ErrorObject::new(ErrorCode::URL_ELICITATION_REQUIRED, "This request requires more information");
        match Json::new(&UrlElicitationRequired::new(pages)) {
            Ok(data) => Failure::rpc(error.with_data(data)),
            Err(error) => Failure::from(error),
        }
    }

    fn page(&self, message: String, url: String) -> Result<ElicitUrlParams, CallError> {
        if !is_uri(&url) {
            return Err(CallError::Send(SendError::Encode("not a URL".into())));
        }
        let id = self.service().0.random().name().map_err(|error| SendError::Encode(error.message.into_owned()))?;
        Ok(ElicitUrlParams { elicitation_id: Some(id), ..ElicitUrlParams::new(message, url) })
    }

    /// Asks for the folders that the server may work in, and waits.
    ///
    /// # Errors
    /// Why there is no answer: the client has no roots, nobody wants the result any more, ….
    pub fn roots(&self) -> Result<Vec<Root>, CallError> {
        let params = ListRootsParams { meta: self.related(None), ..ListRootsParams::default() };
        self.ask(&params).map(|result| result.roots)
    }
}

/// A page that the user was asked to open.
#[derive(Debug)]
pub struct PageVisit {
    /// Whether the user consented. Even then nothing is known of what happens on the page.
    pub action: ElicitAction,
    id: String,
    client: Peer<ServerEnd>,
}

impl PageVisit {
    /// The name of the visit, which the client knows, too.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Tells the client, and only this one, that the user is done with the page.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn complete(self) -> Result<(), SendError> {
        self.client.elicitation_complete(&self.id)
    }
}
