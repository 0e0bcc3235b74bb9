//! What a handler of a server can ask of its client while it works.

use mcp_proto::{
    connection::{SendError, ServerEnd},
    protocol::{Capability, Era, ProtocolVersion},
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult,
        ElicitSchema, ElicitUrlParams, InputRequest, ListRootsParams, ListRootsResult, LoggingLevel, Request, Root,
        UrlElicitationRequired,
    },
    wire::{ErrorCode, ErrorObject, Json},
};
use serde_core::Serialize;

use super::{
    Answers, Service,
    peer::{in_order, log_message},
};
use crate::{CallError, Context, Failure, Peer, form, is_uri, work::Origin};

/// What only handlers of a server can do. These are the one way to ask back, in every revision.
///
/// In a session (up to 2025-11-25) a question is sent to the client, and the handler waits for the answer. Without one
/// (2026-07-28) the request is answered with the question, comes back with the answer, and the handler runs again
/// from the start: what it has asked before is answered at once then. So hand errors on with `?`, ask in the same order
/// each time, and do nothing that must not be done twice before the last question. Only tools, prompts and resources
/// can ask.
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
        self.put_to_model(None, params)
    }

    /// Asks the client's user with a form, and waits (2025-06-18). The answer fits the form.
    ///
    /// That the user declines, or does not answer, is no error: see [`ElicitResult::action`].
    ///
    /// # Errors
    /// Why there is no answer: the client shows no forms, nobody wants the result any more, ….
    pub fn elicit(&self, message: impl Into<String>, schema: ElicitSchema) -> Result<ElicitResult, CallError> {
        self.put_to_user(None, ElicitFormParams::new(message, schema).into())
    }

    /// Asks the client's user to open a page, and waits for the user's consent (2025-11-25). That the user is done there is
    /// not said by this: find out for yourself, and call [`PageVisit::complete`].
    ///
    /// # Errors
    /// Why there is no answer: the client opens no pages, this is no URL, nobody wants the result any more, ….
    pub fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> Result<PageVisit, CallError> {
        let params = self.page(message.into(), url.into())?;
        let id = params.elicitation_id.clone().unwrap_or_default();
        let result = self.put_to_user(None, params.into())?;
        // Later revisions have no word for it.
        let client = (self.version() == ProtocolVersion::V2025_11_25).then(|| self.peer());
        Ok(PageVisit { action: result.action, id, client })
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
        self.put_to_client(None, ListRootsParams::default()).map(|result| result.roots)
    }

    /// Asks several questions at once, each under a name of its own, and waits for all answers. In a session they are
    /// asked one after the other; otherwise (2026-07-28) they leave together. Names like `q1` are those of the questions
    /// that have no other.
    ///
    /// ```
    /// use mcp_proto::schema::{CreateMessageParams, ListRootsParams, SamplingMessage};
    /// use mcp_service::{CallError, Context};
    ///
    /// fn greet(context: &Context) -> Result<String, CallError> {
    ///     let greeting = CreateMessageParams::new([SamplingMessage::user("Generate a greeting")], 50_u64);
    ///     let answers =
    ///         context.ask_all([("greeting", greeting.into()), ("roots", ListRootsParams::default().into())])?;
    ///     let (greeting, roots) =
    ///         (answers.get::<CreateMessageParams>("greeting")?, answers.get::<ListRootsParams>("roots")?);
    ///     Ok(format!("{} greets {} roots", greeting.model, roots.roots.len()))
    /// }
    /// ```
    ///
    /// # Errors
    /// Why one of them has no answer, as if it had been asked alone.
    pub fn ask_all<N: Into<String>>(
        &self,
        questions: impl IntoIterator<Item = (N, InputRequest)>,
    ) -> Result<Answers, CallError> {
        let (mut answers, mut failed) = (Answers::default(), None);
        for (name, question) in questions {
            let name = name.into();
            match self.ask_one(&name, question, &mut answers) {
                // The others are asked in the same round.
                Err(CallError::InputRequired) => failed = failed.or(Some(CallError::InputRequired)),
                asked => asked?,
            }
        }
        failed.map_or(Ok(answers), Err)
    }

    fn ask_one(&self, name: &str, question: InputRequest, answers: &mut Answers) -> Result<(), CallError> {
        let key = name.to_owned();
        match question {
            InputRequest::CreateMessage(request) => {
                answers.insert(key, &self.put_to_model(Some(name), request.params)?)
            }
            InputRequest::Elicit(request) => answers.insert(key, &self.put_to_user(Some(name), request.params)?),
            InputRequest::ListRoots(request) => {
                answers.insert(key, &self.put_to_client(Some(name), request.params.unwrap_or_default())?)
            }
            InputRequest::Other(_) => Err(SendError::Encode("not a question".into()).into()),
        }
    }

    fn put_to_model(&self, name: Option<&str>, params: CreateMessageParams) -> Result<CreateMessageResult, CallError> {
        let knows_context = self.info().client_capabilities.set().contains(Capability::SamplingContext);
        let mut params = in_order(params, Some(self.version()), knows_context)?;
        params.meta = self.related(params.meta);
        self.put(name, &params)
    }

    fn put_to_client(&self, name: Option<&str>, mut params: ListRootsParams) -> Result<ListRootsResult, CallError> {
        params.meta = self.related(params.meta);
        self.put(name, &params)
    }

    /// Asks the user, and holds the answer against the form.
    fn put_to_user(&self, name: Option<&str>, mut params: ElicitParams) -> Result<ElicitResult, CallError> {
        match &mut params {
            ElicitParams::Form(form) => form.meta = self.related(form.meta.take()),
            ElicitParams::Url(page) => page.meta = self.related(page.meta.take()),
            ElicitParams::Other(_) => {}
        }
        let answer = self.put(name, &params)?;
        if let ElicitParams::Form(form) = &params
            && let Err(why) = form::check_answer(&form.requested_schema, &answer)
        {
            if let Some(rounds) = self.work.rounds.get() {
                rounds.refuse(&why);
            }
            return Err(CallError::Invalid(why));
        }
        Ok(answer)
    }

    /// Asks in the way of the era.
    fn put<R>(&self, name: Option<&str>, question: &R) -> Result<R::Result, CallError>
    where
        R: Request<Result: 'static> + Clone + Into<InputRequest>,
    {
        match self.work.rounds.get() {
            Some(rounds) => {
                self.check()?;
                rounds.ask(name, question)
            }
            None if self.version().era() == Era::Legacy => self.ask(question),
            // A session on the same connection has nothing to do with this request.
            None => Err(SendError::NotInRevision { method: R::METHOD, version: self.version() }.into()),
        }
    }
}

/// A page that the user was asked to open.
#[derive(Debug)]
pub struct PageVisit {
    /// Whether the user consented. Even then nothing is known of what happens on the page.
    pub action: ElicitAction,
    id: String,
    /// Who is to be told, where there is a way to tell.
    client: Option<Peer<ServerEnd>>,
}

impl PageVisit {
    /// The name of the visit, which the client knows, too.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Tells the client, and only this one, that the user is done with the page (2025-11-25). Others find out for
    /// themselves.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn complete(self) -> Result<(), SendError> {
        self.client.map_or(Ok(()), |client| client.elicitation_complete(&self.id))
    }
}
