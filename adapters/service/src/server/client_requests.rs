//! Requests of a server's handler to its client.

use std::time::Duration;

use mcp_proto::{
    connection::{SendError, ServerRole},
    protocol::{Capability, Era, ProtocolVersion},
    schema::{
        At, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult,
        ElicitUrlParams, Encode, InputRequest, ListRootsParams, ListRootsResult, LogMessageParams, LoggingLevel,
        Request, Root, SamplingMessage, UrlElicitationRequired,
    },
    wire::{ErrorCode, ErrorObject, JsonObject},
};
use serde_core::Serialize;

#[cfg(feature = "schemas")]
use super::elicited::Elicited;
use super::{
    form::IntoForm,
    input_required::ClientResponses,
    peer::{log_message, prepare_sampling},
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
/// [`side_effect`](Self::side_effect) marks what must not be done twice, so that tests find a request after it.
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

    /// Sends a log message. It is dropped without an error if the client does not [want](Self::wants_log) messages of
    /// this level, and in a task of 2026-07-28, which has no log. For a task of a tool with scopes (2025-11-25) it is
    /// dropped as long as no `tasks/result` waits, since other streams of the session may belong to a token without the
    /// scopes.
    ///
    /// **A client of 2026-07-28 gets no log messages unless its request asks for them.** A client of this library does
    /// so with [`logging`](crate::Peer::logging). In a session a client gets all messages before it sets a level.
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

    /// Returns whether the client gets log messages of this level, for messages that are expensive to make.
    #[must_use]
    pub fn wants_log(&self, level: LoggingLevel) -> bool {
        match self.in_flight.origin {
            RequestOrigin::Request(key) => {
                self.in_flight.role.task.get().is_none() && self.connection.read(|conn| conn.wants_log(key, level))
            }
            RequestOrigin::Task(_) => self.connection.read(|conn| conn.log_level()).is_none_or(|least| level >= least),
        }
    }

    /// Marks an effect that must not happen twice, such as a payment, before the handler causes it. `what` describes
    /// it.
    ///
    /// Without a session (2026-07-28) a handler runs again after each request for input, so the last of its requests
    /// has to come before the first effect. A test client (feature `testing`) that checks this with
    /// `Setup::check_side_effects` fails the test if a request for input follows the mark. Otherwise the mark does
    /// nothing.
    ///
    /// ```
    /// use mcp_proto::schema::{ElicitAction, ElicitSchema, Map};
    /// use mcp_service::{CallError, Context};
    ///
    /// async fn pay(context: Context) -> Result<&'static str, CallError> {
    ///     let answer = context.elicit("Pay 5 EUR?", ElicitSchema::new(Map::new())).await?;
    ///     if answer.action != ElicitAction::Accept {
    ///         return Ok("cancelled");
    ///     }
    ///     context.side_effect("payment");
    ///     // Pay here.
    ///     Ok("paid")
    /// }
    /// ```
    pub fn side_effect(&self, what: &str) {
        if cfg!(any(test, feature = "testing")) {
            let _ = self.in_flight.role.side_effect.set(what.into());
        }
    }

    pub(crate) fn send_log(&self, message: &LogMessageParams) -> Result<(), SendError> {
        #[cfg(any(test, feature = "testing"))]
        if !self.wants_log(message.level) && !self.is_cancelled() {
            self.shared.state.noted.add_dropped_log();
        }
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
    /// **Without a session (2026-07-28) the handler ends here and runs again from its start with the response.** What
    /// must not happen twice comes after the last request: see [`side_effect`](Self::side_effect).
    ///
    /// It fails if the client has no model, the user refuses, or the request was cancelled, for example.
    pub fn sample(&self, params: CreateMessageParams) -> Deferred<Result<CreateMessageResult, CallError>> {
        self.request_sampling(None, params)
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
        self.sample(params).map(|response| {
            let text = response?.to_text();
            text.ok_or_else(|| CallError::Invalid("the response of the model is not a text".into()))
        })
    }

    /// Shows a form to the client's user (2025-06-18): a [`Form`](crate::form::Form) or an
    /// [`ElicitSchema`](mcp_proto::schema::ElicitSchema). An accepted response matches the form.
    ///
    /// **Without a session (2026-07-28) the handler ends here and runs again from its start with the response.** What
    /// must not happen twice comes after the last request: see [`side_effect`](Self::side_effect).
    ///
    /// It is no error if the user declines or dismisses the form: see [`ElicitResult::action`]. It fails if the client
    /// shows no forms, or the request was cancelled, for example.
    pub fn elicit(&self, message: impl Into<String>, form: impl IntoForm) -> Deferred<Result<ElicitResult, CallError>> {
        match form.into_schema(self.version()) {
            Ok(schema) => self.request_elicitation(None, ElicitFormParams::new(message, schema).into()),
            Err(why) => Deferred::ready(Err(SendError::Encode(why).into())),
        }
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
            Ok(form) => self.elicit(message, form).map(|response| Elicited::read(&response?)),
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
        let result = self.request_elicitation(None, params.into());
        result.map(|response| Ok(UrlElicitation { action: response?.action, id, client }))
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
        let supports_context = self.version() == ProtocolVersion::V2025_11_25
            && self.info().client_capabilities.set().contains(Capability::ElicitationUrl);
        if !supports_context {
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
        self.request_roots(None, ListRootsParams::default()).map(|result| Ok(result?.roots))
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
    ///     let input_requests = [("greeting", greeting.into()), ("roots", ListRootsParams::default().into())];
    ///     let responses = context.request_inputs(input_requests).wait()?;
    ///     let (greeting, roots) =
    ///         (responses.get::<CreateMessageParams>("greeting")?, responses.get::<ListRootsParams>("roots")?);
    ///     Ok(format!("{} greets {} roots", greeting.model, roots.roots.len()))
    /// }
    /// ```
    pub fn request_inputs<N: Into<String>>(
        &self,
        input_requests: impl IntoIterator<Item = (N, InputRequest)>,
    ) -> Deferred<Result<ClientResponses, CallError>> {
        let mut input_requests: Vec<_> =
            input_requests.into_iter().map(|(name, input_request)| (name.into(), input_request)).collect();
        let mut deferred_responses = Vec::new();
        if self.version().era() == Era::Modern {
            for (name, input_request) in input_requests.drain(..) {
                let deferred = self.request_named(name, input_request);
                let is_hopeless =
                    deferred.peek().is_some_and(|it| !matches!(it, Ok(_) | Err(CallError::InputRequired)));
                deferred_responses.push(deferred);
                if is_hopeless {
                    break;
                }
            }
        }
        let context = self.clone();
        Deferred::new(async move {
            let (mut responses, mut failed) = (ClientResponses::default(), None);
            for deferred in deferred_responses {
                match deferred.await {
                    Ok((name, response)) => responses.insert(name, response),
                    // The other requests belong to the same round.
                    Err(CallError::InputRequired) => failed = failed.or(Some(CallError::InputRequired)),
                    Err(error) => return Err(error),
                }
            }
            for (name, input_request) in input_requests {
                let (name, response) = context.request_named(name, input_request).await?;
                responses.insert(name, response);
            }
            failed.map_or(Ok(responses), Err)
        })
    }

    /// Makes a request of any kind.
    pub(crate) fn request_named(
        &self,
        name: String,
        input_request: InputRequest,
    ) -> Deferred<Result<(String, JsonObject), CallError>> {
        type Named = Deferred<Result<(String, JsonObject), CallError>>;
        fn named<T: Encode + Send + 'static>(name: String, response: Deferred<Result<T, CallError>>) -> Named {
            response.map(|response| {
                let response = At(&response?, None).to_json().and_then(JsonObject::try_from);
                Ok((name, response.map_err(|error| CallError::Decode(error.to_string()))?))
            })
        }
        match input_request {
            InputRequest::CreateMessage(request) => {
                let response = self.request_sampling(Some(&name), request.params);
                named(name, response)
            }
            InputRequest::Elicit(request) => {
                let response = self.request_elicitation(Some(&name), request.params);
                named(name, response)
            }
            InputRequest::ListRoots(request) => {
                let response = self.request_roots(Some(&name), request.params.unwrap_or_default());
                named(name, response)
            }
            InputRequest::Other(_) => Deferred::ready(Err(SendError::Encode("not an input request".into()).into())),
        }
    }

    fn request_sampling(
        &self,
        name: Option<&str>,
        params: CreateMessageParams,
    ) -> Deferred<Result<CreateMessageResult, CallError>> {
        let supports_context = self.info().client_capabilities.set().contains(Capability::SamplingContext);
        match prepare_sampling(params, Some(self.version()), supports_context) {
            Ok(mut params) => {
                params.meta = self.related(params.meta);
                self.request_input(name, params)
            }
            Err(error) => Deferred::ready(Err(error.into())),
        }
    }

    fn request_roots(
        &self,
        name: Option<&str>,
        mut params: ListRootsParams,
    ) -> Deferred<Result<ListRootsResult, CallError>> {
        params.meta = self.related(params.meta);
        self.request_input(name, params)
    }

    /// Sends an elicitation, and checks the response against the form.
    fn request_elicitation(
        &self,
        name: Option<&str>,
        mut params: ElicitParams,
    ) -> Deferred<Result<ElicitResult, CallError>> {
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
        self.request_input(name, params).map(move |response| {
            let response = response?;
            let Some(Err(why)) = schema.map(|schema| form::check_answer(&schema, &response)) else {
                return Ok(response);
            };
            if let (Some(rounds), None) = (in_flight.role.rounds.get(), in_flight.role.task.get()) {
                rounds.refuse(&why);
            }
            Err(CallError::Invalid(why))
        })
    }

    /// Notes for tests that a request for input follows a side effect. A task of 2026-07-28 is not repeated.
    #[cfg(any(test, feature = "testing"))]
    fn note_question(&self) {
        if let (Some(effect), None) = (self.in_flight.role.side_effect.get(), self.in_flight.role.task.get()) {
            self.shared.state.noted.add_repeated(effect);
        }
    }

    /// Makes a request as the era does it.
    fn request_input<R>(&self, name: Option<&str>, input_request: R) -> Deferred<Result<R::Result, CallError>>
    where
        R: Request<Result: Send> + Clone + Into<InputRequest> + Send + Sync + 'static,
    {
        #[cfg(any(test, feature = "testing"))]
        self.note_question();
        if let Some(task) = self.in_flight.role.task.get() {
            return self.request_in_task(task, name, input_request);
        }
        match self.in_flight.role.rounds.get() {
            Some(rounds) => Deferred::ready(self.check().and_then(|()| rounds.request(name, &input_request))),
            None if self.version().era() == Era::Legacy => self.send_request(input_request),
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
