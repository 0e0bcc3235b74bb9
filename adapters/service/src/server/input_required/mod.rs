//! Requests for input in the modern era (2026-07-28). The client gets them in an `input_required` result and sends its
//! request again with the responses. The handler then runs again from the start, and its earlier requests for input
//! have their responses at once. So the same code works that waits for the responses in a session.

pub(crate) mod digest;
pub(crate) mod request_state;

use std::{collections::BTreeSet, sync::Mutex};

use mcp_proto::{
    connection::{Connection, SendError, ServerRole},
    protocol::{CapabilitySet, Era, Method, ProtocolVersion},
    rpc::ReplyKey,
    schema::{
        At, Encode, InputRequest, InputResponses, JsonLine, Map, MissingRequiredClientCapability, Request, ResultType,
    },
    wire::{ErrorObject, Json, JsonObject, RawJson},
};
use serde_core::{Serializer, de::DeserializeOwned, ser::SerializeMap};

use crate::{
    driver_api::deferred::Deferred,
    inbound::{context::Context, rpc_result::RpcResult},
    outbound::error::CallError,
    util::{lock::lock, text_arguments::excerpt},
};
use digest::Params;
use request_state::StateSigner;
use request_state::{RequestState, Scope};

/// The rounds of one request: the current one, and the responses of earlier ones.
#[derive(Debug)]
pub(crate) struct InputRounds {
    method: Method,
    params: Params,
    /// The number of earlier rounds.
    round: u32,
    caller: CallerId,
    /// The responses in this request. The client can write anything there.
    given: InputResponses,
    /// The contents of the authenticated state of the request: the responses of earlier rounds, and values of the
    /// service.
    verified: InputResponses,
    record: Mutex<RoundRecord>,
}

/// The caller of a request.
#[derive(Debug)]
pub(super) struct CallerId {
    /// The capabilities of the client.
    pub(super) declared: CapabilitySet,
    /// The principal, if the binding authenticates requests. A pipe does not, and has only one client.
    pub(super) principal: Option<String>,
    /// The maximum number of rounds of one request.
    pub(super) max_rounds: u32,
}

impl CallerId {
    /// Returns the caller of a request of the modern era.
    pub(super) fn of(conn: &Connection<ServerRole>, key: ReplyKey) -> Option<Self> {
        let context = conn.context(key).filter(|context| context.era() == Era::Modern)?;
        Some(Self {
            declared: context.client_capabilities.set(),
            principal: context.principal.map(|principal| principal.id.clone()),
            max_rounds: conn.settings().limits.rounds,
        })
    }
}

/// The requests for input in this run of the handler.
#[derive(Debug, Default)]
struct RoundRecord {
    /// The number of requests without an own name.
    unnamed: usize,
    names: BTreeSet<String>,
    /// The responses that the handler got.
    used: InputResponses,
    /// The requests without a response, encoded. So only programs that make such requests link the code that encodes
    /// them.
    open: Map<Json>,
    /// The error of a request that cannot be encoded.
    unsendable: Option<String>,
    /// The error of an invalid response.
    refused: Option<ErrorObject>,
    /// The required capabilities that the client does not have.
    lacking: CapabilitySet,
    /// Set when the response is `input_required`.
    is_input_required: bool,
}

/// The result of a request that may require input.
#[derive(Debug)]
pub(crate) enum RoundResult<T> {
    /// The result of the method.
    Complete(T),
    /// The client has to send the request again with responses.
    InputRequired(Box<InputRequired>),
}

/// The members of an [`InputRequiredResult`](mcp_proto::schema::InputRequiredResult).
#[derive(Debug)]
pub(crate) struct InputRequired {
    requests: Map<Json>,
    state: String,
}

impl Encode for InputRequired {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        members.serialize_entry("resultType", ResultType::InputRequired.as_str())?;
        members.serialize_entry("inputRequests", &At(&self.requests, version))?;
        members.serialize_entry("requestState", &self.state)?;
        members.end()
    }
}

impl<T> RoundResult<T> {
    /// Returns the result of the method, if it has one.
    pub(crate) const fn complete(&self) -> Option<&T> {
        match self {
            Self::Complete(result) => Some(result),
            Self::InputRequired(_) => None,
        }
    }
}

impl<T: Encode> Encode for RoundResult<T> {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Complete(result) => result.encode_at(version, serializer),
            Self::InputRequired(input_requests) => input_requests.encode_at(version, serializer),
        }
    }

    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error> {
        match self {
            Self::Complete(result) => result.append_at(version, out),
            Self::InputRequired(input_requests) => input_requests.append_at(version, out),
        }
    }
}

impl InputRounds {
    /// Reads the state and the responses of a request.
    ///
    /// # Errors
    /// -32602 if the state is invalid or a response is no object.
    pub(super) fn begin(
        state_signer: &StateSigner,
        method: Method,
        params: Option<&RawJson<'_>>,
        caller: CallerId,
    ) -> RpcResult<Box<Self>> {
        let given: InputResponses = member(params, "inputResponses")?.unwrap_or_default();
        let state: Option<String> = member(params, "requestState")?;
        let (params, verified, record) = (Params::of(params), InputResponses::default(), Mutex::default());
        let mut rounds = Box::new(Self { method, params, round: 0, caller, given, verified, record });
        if let Some(state) = state {
            RequestState { round: rounds.round, answers: rounds.verified } =
                state_signer.verify(&rounds.scope(), &state)?;
        }
        Ok(rounds)
    }

    /// Returns the scope in which its state is valid.
    fn scope(&self) -> Scope {
        let principal = self.caller.principal.clone();
        Scope { principal, method: self.method.as_str(), digest: self.params.digest() }
    }

    /// Returns the response to a request for input, if there is one. Requests without a name are numbered.
    ///
    /// # Errors
    /// [`CallError::InputRequired`] if there is no response yet, [`SendError::Undeclared`] if the client lacks a
    /// capability for it.
    pub(super) fn request<R>(&self, name: Option<&str>, input_request: &R) -> Result<R::Result, CallError>
    where
        R: Request + Clone + Into<InputRequest>,
    {
        let mut record = lock(&self.record);
        let name = match name {
            Some(name) => name.to_owned(),
            None => {
                record.unnamed += 1;
                format!("q{}", record.unnamed)
            }
        };
        if !record.names.insert(name.clone()) {
            return Err(CallError::Invalid(format!("there is an input request {name:?} already")));
        }
        let needed = R::METHOD.needs(ProtocolVersion::LATEST).into_iter().chain(input_request.needs().iter());
        let lacking: Vec<_> = needed.filter(|needed| !self.caller.declared.contains(*needed)).collect();
        if let Some(missing) = lacking.last() {
            record.lacking = lacking.iter().fold(record.lacking, |set, missing| set.with(*missing));
            return Err(SendError::Undeclared(*missing).into());
        }
        // Responses of earlier rounds take precedence.
        let Some(answer) = self.verified.get(&name).or_else(|| self.given.get(&name)) else {
            let input_request: InputRequest = input_request.clone().into();
            match At(&input_request, Some(ProtocolVersion::LATEST)).to_json() {
                Ok(input_request) => drop(record.open.insert(name, input_request)),
                Err(error) => record.unsendable = Some(error.to_string()),
            }
            return Err(CallError::InputRequired);
        };
        match answer.decode() {
            Ok(result) => {
                record.used.insert(name, answer.clone());
                Ok(result)
            }
            Err(error) => {
                record.refuse(&excerpt(&format_args!("{name}: {error}")));
                Err(CallError::Decode(error.to_string()))
            }
        }
    }

    /// Keeps a value for the next round, in the state of the request.
    pub(crate) fn keep(&self, name: &str, value: JsonObject) {
        lock(&self.record).used.insert(name, value);
    }

    /// Returns a value that was kept in an earlier round, or a response of one. A client cannot make it up: it comes
    /// from the authenticated state only.
    pub(crate) fn kept(&self, name: &str) -> Option<&JsonObject> {
        self.verified.get(name)
    }

    /// Withdraws the requests of this run: the response is the outcome of the handler.
    pub(crate) fn withdraw(&self) {
        let mut record = lock(&self.record);
        (record.open, record.unsendable) = (Map::new(), None);
    }

    /// Returns the principal of the caller, if it is known.
    pub(crate) fn principal(&self) -> Option<&str> {
        self.caller.principal.as_deref()
    }

    /// Returns whether the handler has made a request without a response.
    pub(super) fn has_open_requests(&self) -> bool {
        lock(&self.record).has_open_requests()
    }

    /// Returns whether the response is `input_required`, or will be.
    pub(crate) fn requires_input(&self) -> bool {
        let record = lock(&self.record);
        record.is_input_required || record.has_open_requests()
    }

    /// Notes that a response is invalid.
    pub(super) fn refuse(&self, why: &str) {
        lock(&self.record).refuse(why);
    }

    /// Returns the result of the request after a run of its handler. The handler may have turned an open request for
    /// input into a failure; this ignores that failure.
    pub(super) fn finish<T>(
        &self,
        state_signer: &StateSigner,
        answer: RpcResult<T>,
        failed: fn(&T) -> bool,
    ) -> RpcResult<RoundResult<T>> {
        let record = {
            let mut record = lock(&self.record);
            if record.names.is_empty() && record.refused.is_none() {
                return answer.map(RoundResult::Complete);
            }
            std::mem::take(&mut *record)
        };
        let has_open_requests = record.has_open_requests();
        let RoundRecord { used, open, unsendable, refused, lacking, .. } = record;
        if let Some(error) = refused {
            return Err(error);
        }
        if has_open_requests {
            if self.round >= self.caller.max_rounds {
                return Err(ErrorObject::internal("Too many rounds of input requests"));
            }
            let state = RequestState { round: self.round.saturating_add(1), answers: used };
            let state = state_signer.sign(&self.scope(), &state)?;
            if let Some(why) = unsendable {
                return Err(ErrorObject::internal(format!("The result cannot be sent: {why}")));
            }
            lock(&self.record).is_input_required = true;
            return Ok(RoundResult::InputRequired(Box::new(InputRequired { requests: open, state })));
        }
        // A handler can succeed without a response. If it fails, the missing capability is the reason.
        if answer.as_ref().map_or(true, failed) && lacking != CapabilitySet::EMPTY {
            return Err(MissingRequiredClientCapability::error(lacking));
        }
        answer.map(RoundResult::Complete)
    }
}

/// Runs a handler that may request input, and returns the result of this round.
pub(super) fn run_in_rounds<T: Send + 'static>(
    context: &Context,
    rounds: Box<InputRounds>,
    failed: fn(&T) -> bool,
    run: impl FnOnce(&Context) -> Deferred<RpcResult<T>>,
) -> Deferred<RpcResult<RoundResult<T>>> {
    let _ = context.in_flight.role.rounds.set(rounds);
    let finish = move |context: &Context, answer| match context.in_flight.role.rounds.get() {
        Some(rounds) => rounds.finish(&context.service().0.state_signer, answer, failed),
        None => answer.map(RoundResult::Complete),
    };
    match run(context).try_take() {
        Ok(answer) => Deferred::ready(finish(context, answer)),
        Err(running) => {
            let context = context.clone();
            running.map(move |answer| finish(&context, answer))
        }
    }
}

impl RoundRecord {
    /// Returns whether there is a request without a response.
    fn has_open_requests(&self) -> bool {
        !self.open.is_empty() || self.unsendable.is_some()
    }

    fn refuse(&mut self, why: &str) {
        self.refused.get_or_insert_with(|| {
            ErrorObject::invalid_params(excerpt(&format_args!("Invalid params: inputResponses: {why}")))
        });
    }
}

/// Decodes a member of params. It is strict: an invalid response must not be requested again and again.
fn member<T: DeserializeOwned>(params: Option<&RawJson<'_>>, name: &str) -> RpcResult<Option<T>> {
    let member = params.and_then(|params| params.member(name));
    let read = member.map(|member| member.decode()).transpose();
    read.map_err(|error| ErrorObject::invalid_params(excerpt(&format_args!("Invalid params: {name}: {error}"))))
}

/// Responses to requests that were made together, by their names. See
/// [`Context::request_inputs`](crate::Context::request_inputs).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientResponses(pub(super) InputResponses);

impl ClientResponses {
    /// Returns the response to the request with this name, which was of the type `R`.
    ///
    /// ```
    /// # use mcp_proto::schema::{ElicitParams, ElicitResult};
    /// # use mcp_service::{ClientResponses, CallError};
    /// fn name(answers: &ClientResponses) -> Result<ElicitResult, CallError> {
    ///     answers.get::<ElicitParams>("user_name")
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CallError::Decode`] if no request had this name, or the response is not one to `R`.
    pub fn get<R: Request>(&self, name: &str) -> Result<R::Result, CallError> {
        let answer = self.0.get(name).ok_or_else(|| CallError::Decode(format!("unknown input request {name:?}")))?;
        answer.decode().map_err(|error| CallError::Decode(error.to_string()))
    }

    pub(super) fn insert(&mut self, name: String, answer: JsonObject) {
        self.0.insert(name, answer);
    }
}
