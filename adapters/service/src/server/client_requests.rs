//! Requests of a server's handler to its client.

use std::time::Duration;

use mcp_proto::{
    connection::{SendError, ServerRole},
    protocol::{Capability, Era, ProtocolVersion},
    schema::{
        At, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult,
        ElicitSchema, ElicitUrlParams, Encode, InputRequest, ListRootsParams, ListRootsResult, LogMessageParams,
        LoggingLevel, Request, Root, SamplingMessage, UrlElicitationRequired,
    },
    wire::{ErrorCode, ErrorObject, JsonObject},
};
use serde_core::Serialize;

#[cfg(feature = "schemas")]
use super::elicited::Elicited;
use super::{
    input_required::ClientResponses,
    peer::{in_order, log_message},
    service::Service,
};
#[cfg(feature = "schemas")]
use crate::json_schema::form::form_of;
use crate::{
    driver_api::deferred::Deferred,
    inbound::{context::Context, failure::Failure, in_flight::RequestOrigin, session_tasks::TaskCarrier},
    outbound::{error::CallError, peer::Peer},
    util::{elicitation_form as form, uri::is_uri},
};

/// Methods for handlers of servers only. With these a handler sends requests to its client, in every revision.
///
/// A request is sent at once, and its response is a [`Deferred`]: a function waits for it, an asynchronous handler
/// awaits it, and dropping it cancels the request. So several requests can be sent before the first response.
///
/// In a session (up to 2025-11-25) the request is sent to the client, and the handler waits for the response. Without a
/// session (2026-07-28) the client gets the request in an `input_required` result and sends its own request again with
/// the response. The handler then runs again from the start, and its earlier requests have their responses at once. So
/// return errors with `?`, make the requests in the same order each time, and do nothing that must not be done twice
/// before the last request. Only handlers of tools, prompts and resources can make requests.
///
/// The task of a tool with scopes (2025-11-25, over HTTP) sends its requests when the client sends `tasks/result`, on
/// the stream of that request. Until then its status is `input_required`. That time counts towards the total timeout.
impl Context<ServerRole> {
    /// Returns the service of this handler, for example to add a tool.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.shared.app
    }

    /// Announces that the response will take a while. For a client that can reconnect for it (2025-11-25 over HTTP) the
    /// stream is closed, with the advice to reconnect after `retry`, or else after the default of the endpoint. For
    /// other clients nothing happens.
    #[doc(alias = "retry")]
    #[doc(alias = "resume")]
    pub fn release_stream(&self, retry: Option<Duration>) {
        if let RequestOrigin::Request(key) = self.in_flight.origin {
            self.connection.update(|conn, _| conn.release_stream(key, retry));
        }
    }

    /// Sends a log message. It is dropped if the client does not want messages of this level, and in a task of
    /// 2026-07-28, which has no log. For a task of a tool with scopes (2025-11-25) it is dropped as long as no
    /// `tasks/result` waits, since other streams of the session may belong to a token without the scopes.
    ///
    /// The future is pending only while the client does not read and the outbox is full; dropping it then drops the
    /// message. It fails if the data cannot be serialized as JSON, or the connection is closed.
    pub fn log(
        &self,
        level: LoggingLevel,
        logger: Option<&str>,
        data: impl Serialize,
    ) -> Deferred<Result<(), SendError>> {
        let mut message = match log_message(level, logger, data) {
            Ok(message) => message,
            Err(error) => return Deferred::ready(Err(error)),
        };
        message.meta = self.related(None);
        match self.send_log(&message) {
            Err(SendError::Busy) => self.send_when_writable(move |context| context.send_log(&message)),
            said => Deferred::ready(said),
        }
    }

    fn send_log(&self, message: &LogMessageParams) -> Result<(), SendError> {
        if self.in_flight.role.task.get().is_some() {
            // The tasks of 2026-07-28 have no log.
            return Ok(());
        }
        self.connection.update(|conn, _| match &self.in_flight.origin {
            RequestOrigin::Request(key) => conn.log(*key, message),
            RequestOrigin::Task(id) => match self.shared.tasks.carrier(conn, id) {
                TaskCarrier::Session => conn.notify(message),
                TaskCarrier::Request(waiting) => conn.log(waiting, message),
                TaskCarrier::Nothing => Ok(()),
            },
        })
    }

    /// Requests a message of the client's model (`sampling/createMessage`).
    ///
    /// It fails if the client has no model, the user refuses, or the request was cancelled, for example.
    pub fn sample(&self, params: CreateMessageParams) -> Deferred<Result<CreateMessageResult, CallError>> {
        self.ask_model(None, params)
    }

    /// Requests a text of the client's model in response to a prompt (`sampling/createMessage`), of at most
    /// `max_tokens` tokens.
    ///
    /// ```
    /// use mcp_service::{CallError, Context};
    ///
    /// async fn summarize(text: String, context: Context) -> Result<String, CallError> {
    ///     context.sample_text(format!("Summarize in one sentence: {text}"), 100).await
    /// }
    /// ```
    ///
    /// It fails as [`sample`](Self::sample) does, and if the model responds with something else than text.
    pub fn sample_text(&self, prompt: impl Into<String>, max_tokens: u64) -> Deferred<Result<String, CallError>> {
        let params = CreateMessageParams::new([SamplingMessage::user(prompt.into())], max_tokens);
        self.sample(params).map(|answer| {
            let text = answer?.to_text();
            text.ok_or_else(|| CallError::Invalid("the response of the model is not a text".into()))
        })
    }

    /// Shows a form to the client's user (2025-06-18). An accepted response matches the form.
    ///
    /// It is no error if the user declines or dismisses the form: see [`ElicitResult::action`]. It fails if the client
    /// shows no forms, or the request was cancelled, for example.
    pub fn elicit(
        &self,
        message: impl Into<String>,
        schema: ElicitSchema,
    ) -> Deferred<Result<ElicitResult, CallError>> {
        self.ask_user(None, ElicitFormParams::new(message, schema).into())
    }

    /// Shows a form whose fields are those of `T`, and returns its values (2025-06-18).
    ///
    /// The fields are texts, numbers, `bool`, enums of unit variants (a choice of one), `Vec`s of these enums (a choice
    /// of several, 2025-11-25), or an `Option` of one of these, which the user may leave out. Doc comments are the
    /// descriptions of the fields; a `#[schemars(title = "..")]` is the name of a field or a choice for users.
    ///
    /// ```
    /// use mcp_service::{CallError, Context, Elicited};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Booking {
    ///     /// The name of the guest.
    ///     name: String,
    ///     #[schemars(range(min = 1, max = 9))]
    ///     guests: u8,
    ///     room: Room,
    /// }
    ///
    /// #[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
    /// enum Room {
    ///     Single,
    ///     Double,
    /// }
    ///
    /// async fn book(context: Context) -> Result<String, CallError> {
    ///     match context.elicit_as::<Booking>("Which room?").await? {
    ///         Elicited::Accepted(Booking { name, guests, room }) => Ok(format!("{room:?} for {guests}: {name}")),
    ///         _ => Ok("nothing is booked".into()),
    ///     }
    /// }
    /// ```
    ///
    /// It fails as [`elicit`](Self::elicit) does. It also fails with [`SendError::Encode`] before anything is sent if a
    /// form cannot have all fields and rules of the type: nested structs, maps, lists of texts, enums with data,
    /// flattened enums or maps, and rules such as patterns. A flattened struct is a part of the form. Of the formats of
    /// texts, those that forms do not have are left out.
    #[cfg(feature = "schemas")]
    pub fn elicit_as<T>(&self, message: impl Into<String>) -> Deferred<Result<Elicited<T>, CallError>>
    where
        T: schemars::JsonSchema + serde_core::de::DeserializeOwned + Send + 'static,
    {
        match form_of::<T>(self.version()) {
            Ok(form) => self.elicit(message, form).map(|answer| Elicited::read(&answer?)),
            Err(why) => Deferred::ready(Err(SendError::Encode(why).into())),
        }
    }

    /// Asks the client's user to open a page, and for the consent to that (2025-11-25). The response does not say
    /// whether the user is done with the page: find out on your side, and call [`UrlElicitation::complete`].
    ///
    /// It fails if the client opens no pages, the text is no URL, or the request was cancelled, for example.
    pub fn elicit_url(
        &self,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> Deferred<Result<UrlElicitation, CallError>> {
        let params = match self.page(message.into(), url.into()) {
            Ok(params) => params,
            Err(error) => return Deferred::ready(Err(error)),
        };
        let id = params.elicitation_id.clone().unwrap_or_default();
        // Later revisions have no word for it.
        let client = (self.version() == ProtocolVersion::V2025_11_25).then(|| self.peer());
        let asked = self.ask_user(None, params.into());
        asked.map(|answer| Ok(UrlElicitation { action: answer?.action, id, client }))
    }

    /// Returns the failure of a request for which the user has to visit these pages first (message and URL each). A
    /// client that supports it gets the error -32042 (2025-11-25); others get a text with the URLs.
    #[must_use]
    pub fn url_elicitation_required<M: Into<String>, U: Into<String>>(
        &self,
        pages: impl IntoIterator<Item = (M, U)>,
    ) -> Failure {
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
        match At(&UrlElicitationRequired::new(pages), None).to_json() {
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

    /// Requests the folders that the server may work in (`roots/list`).
    ///
    /// It fails if the client has no roots, or the request was cancelled, for example.
    pub fn roots(&self) -> Deferred<Result<Vec<Root>, CallError>> {
        self.ask_client(None, ListRootsParams::default()).map(|result| Ok(result?.roots))
    }

    /// Makes several requests, each under a name. In a session they are sent one after the other; without one
    /// (2026-07-28) together. Names like `q1` are reserved for requests without a name. If one request fails, the
    /// result is its error.
    ///
    /// ```
    /// use mcp_proto::schema::{CreateMessageParams, ListRootsParams, SamplingMessage};
    /// use mcp_service::{CallError, Context};
    ///
    /// fn greet(context: &Context) -> Result<String, CallError> {
    ///     let greeting = CreateMessageParams::new([SamplingMessage::user("Generate a greeting")], 50_u64);
    ///     let questions = [("greeting", greeting.into()), ("roots", ListRootsParams::default().into())];
    ///     let answers = context.ask_all(questions).wait()?;
    ///     let (greeting, roots) =
    ///         (answers.get::<CreateMessageParams>("greeting")?, answers.get::<ListRootsParams>("roots")?);
    ///     Ok(format!("{} greets {} roots", greeting.model, roots.roots.len()))
    /// }
    /// ```
    pub fn ask_all<N: Into<String>>(
        &self,
        questions: impl IntoIterator<Item = (N, InputRequest)>,
    ) -> Deferred<Result<ClientResponses, CallError>> {
        let mut questions: Vec<_> = questions.into_iter().map(|(name, question)| (name.into(), question)).collect();
        let mut asked = Vec::new();
        if self.version().era() == Era::Modern {
            for (name, question) in questions.drain(..) {
                let deferred = self.ask_named(name, question);
                let is_hopeless =
                    deferred.peek().is_some_and(|it| !matches!(it, Ok(_) | Err(CallError::InputRequired)));
                asked.push(deferred);
                if is_hopeless {
                    break;
                }
            }
        }
        let context = self.clone();
        Deferred::new(async move {
            let (mut answers, mut failed) = (ClientResponses::default(), None);
            for deferred in asked {
                match deferred.await {
                    Ok((name, answer)) => answers.insert(name, answer),
                    // The other requests belong to the same round.
                    Err(CallError::InputRequired) => failed = failed.or(Some(CallError::InputRequired)),
                    Err(error) => return Err(error),
                }
            }
            for (name, question) in questions {
                let (name, answer) = context.ask_named(name, question).await?;
                answers.insert(name, answer);
            }
            failed.map_or(Ok(answers), Err)
        })
    }

    /// Makes a request of any kind.
    fn ask_named(&self, name: String, question: InputRequest) -> Deferred<Result<(String, JsonObject), CallError>> {
        type Named = Deferred<Result<(String, JsonObject), CallError>>;
        fn named<T: Encode + Send + 'static>(name: String, answer: Deferred<Result<T, CallError>>) -> Named {
            answer.map(|answer| {
                let answer = At(&answer?, None).to_json().and_then(JsonObject::try_from);
                Ok((name, answer.map_err(|error| CallError::Decode(error.to_string()))?))
            })
        }
        match question {
            InputRequest::CreateMessage(request) => {
                let answer = self.ask_model(Some(&name), request.params);
                named(name, answer)
            }
            InputRequest::Elicit(request) => {
                let answer = self.ask_user(Some(&name), request.params);
                named(name, answer)
            }
            InputRequest::ListRoots(request) => {
                let answer = self.ask_client(Some(&name), request.params.unwrap_or_default());
                named(name, answer)
            }
            InputRequest::Other(_) => Deferred::ready(Err(SendError::Encode("not a question".into()).into())),
        }
    }

    fn ask_model(
        &self,
        name: Option<&str>,
        params: CreateMessageParams,
    ) -> Deferred<Result<CreateMessageResult, CallError>> {
        let knows_context = self.info().client_capabilities.set().contains(Capability::SamplingContext);
        match in_order(params, Some(self.version()), knows_context) {
            Ok(mut params) => {
                params.meta = self.related(params.meta);
                self.put(name, params)
            }
            Err(error) => Deferred::ready(Err(error.into())),
        }
    }

    fn ask_client(
        &self,
        name: Option<&str>,
        mut params: ListRootsParams,
    ) -> Deferred<Result<ListRootsResult, CallError>> {
        params.meta = self.related(params.meta);
        self.put(name, params)
    }

    /// Sends an elicitation, and checks the response against the form.
    fn ask_user(&self, name: Option<&str>, mut params: ElicitParams) -> Deferred<Result<ElicitResult, CallError>> {
        let schema = match &mut params {
            ElicitParams::Form(form) => {
                form.meta = self.related(form.meta.take());
                Some(form.requested_schema.clone())
            }
            ElicitParams::Url(page) => {
                page.meta = self.related(page.meta.take());
                None
            }
            ElicitParams::Other(_) => None,
        };
        let in_flight = self.in_flight.clone();
        self.put(name, params).map(move |answer| {
            let answer = answer?;
            let Some(Err(why)) = schema.map(|schema| form::check_answer(&schema, &answer)) else { return Ok(answer) };
            if let (Some(rounds), None) = (in_flight.role.rounds.get(), in_flight.role.task.get()) {
                rounds.refuse(&why);
            }
            Err(CallError::Invalid(why))
        })
    }

    /// Makes a request as the era does it.
    fn put<R>(&self, name: Option<&str>, question: R) -> Deferred<Result<R::Result, CallError>>
    where
        R: Request<Result: Send> + Clone + Into<InputRequest> + Send + Sync + 'static,
    {
        if let Some(task) = self.in_flight.role.task.get() {
            return self.ask_in_task(task, name, question);
        }
        match self.in_flight.role.rounds.get() {
            Some(rounds) => Deferred::ready(self.check().and_then(|()| rounds.ask(name, &question))),
            None if self.version().era() == Era::Legacy => self.ask(question),
            // A session on the same connection has nothing to do with this request.
            None => {
                let (method, version) = (R::METHOD, self.version());
                Deferred::ready(Err(SendError::NotInRevision { method, version }.into()))
            }
        }
    }
}

/// A page of a URL elicitation.
#[derive(Debug)]
#[non_exhaustive]
pub struct UrlElicitation {
    /// The decision of the user. Consent does not mean that the user has done anything on the page.
    pub action: ElicitAction,
    id: String,
    /// The client to notify of the completion, in the revision that has this notification.
    client: Option<Peer<ServerRole>>,
}

impl UrlElicitation {
    /// Returns the id of the elicitation, which the client has, too.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Notifies the client that the user is done with the page (2025-11-25). In other revisions it does nothing.
    ///
    /// # Errors
    /// If the notification is not allowed now. It was not sent then.
    pub fn complete(self) -> Result<(), SendError> {
        self.client.map_or(Ok(()), |client| client.elicitation_complete(&self.id))
    }
}
