//! Questions of a handler in the modern era (2026-07-28): a request is answered with them, comes back with the answers,
//! and the handler runs again from the start. What it has asked before is answered at once, so that the same code
//! that waits for answers in a session gets by without any.

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
    inbound::rpc_result::RpcResult,
    outbound::error::CallError,
    util::{lock::lock, text_arguments::excerpt},
};
use digest::Params;
use request_state::Seal;
use request_state::{Scope, State};

/// The rounds of one request, as far as this one knows of the others.
#[derive(Debug)]
pub(crate) struct Rounds {
    method: Method,
    params: Params,
    /// How many rounds were before this one.
    round: u32,
    asker: Asker,
    /// The answers of all rounds.
    given: InputResponses,
    asked: Mutex<Asked>,
}

/// What a request says about its sender.
#[derive(Debug)]
pub(super) struct Asker {
    /// What the client can do.
    pub(super) declared: CapabilitySet,
    /// The principal, if the binding knows it. A pipe does not, and has only one client.
    pub(super) principal: Option<String>,
    /// How often one request may be answered with questions.
    pub(super) most_rounds: u32,
}

impl Asker {
    /// Who has sent a request of the modern era.
    pub(super) fn of(conn: &Connection<ServerRole>, key: ReplyKey) -> Option<Self> {
        let context = conn.context(key).filter(|context| context.era() == Era::Modern)?;
        Some(Self {
            declared: context.client_capabilities.set(),
            principal: context.principal.map(|principal| principal.id.clone()),
            most_rounds: conn.settings().limits.rounds,
        })
    }
}

/// What the handler has asked in this run.
#[derive(Debug, Default)]
struct Asked {
    /// Questions without a name of their own.
    unnamed: usize,
    names: BTreeSet<String>,
    /// The answers that it got.
    used: InputResponses,
    /// The questions that are still to be answered, as they are sent: only those who ask need to know what a question looks
    /// like.
    open: Map<Json>,
    /// Why one of them cannot be sent.
    unsendable: Option<String>,
    /// An answer that is none.
    refused: Option<ErrorObject>,
    /// What the client cannot do.
    lacking: CapabilitySet,
    /// The request is answered with questions.
    questions: bool,
}

/// What becomes of a request that may ask.
#[derive(Debug)]
pub(crate) enum Finished<T> {
    /// It is done.
    Complete(T),
    /// It has to be sent again with answers.
    Questions(Box<Questions>),
}

/// What an [`InputRequiredResult`](mcp_proto::schema::InputRequiredResult) says.
#[derive(Debug)]
pub(crate) struct Questions {
    asked: Map<Json>,
    state: String,
}

impl Encode for Questions {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        members.serialize_entry("resultType", ResultType::InputRequired.as_str())?;
        members.serialize_entry("inputRequests", &At(&self.asked, version))?;
        members.serialize_entry("requestState", &self.state)?;
        members.end()
    }
}

impl<T> Finished<T> {
    /// The result, if it is done.
    pub(crate) const fn complete(&self) -> Option<&T> {
        match self {
            Self::Complete(result) => Some(result),
            Self::Questions(_) => None,
        }
    }
}

impl<T: Encode> Encode for Finished<T> {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Complete(result) => result.encode_at(version, serializer),
            Self::Questions(questions) => questions.encode_at(version, serializer),
        }
    }

    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error> {
        match self {
            Self::Complete(result) => result.append_at(version, out),
            Self::Questions(questions) => questions.append_at(version, out),
        }
    }
}

impl Rounds {
    /// Reads what a request brings with it.
    ///
    /// # Errors
    /// -32602 if its state is none of ours or its answers are no objects.
    pub(super) fn begin(seal: &Seal, method: Method, params: Option<&RawJson<'_>>, asker: Asker) -> RpcResult<Self> {
        let given: InputResponses = member(params, "inputResponses")?.unwrap_or_default();
        let state: Option<String> = member(params, "requestState")?;
        let mut rounds = Self { method, params: Params::of(params), round: 0, asker, given, asked: Mutex::default() };
        if let Some(state) = state {
            let State { round, answers } = seal.open(&rounds.scope(), &state)?;
            rounds.round = round;
            // What was answered once stays answered.
            for (name, answer) in answers {
                rounds.given.insert(name, answer);
            }
        }
        Ok(rounds)
    }

    /// What a state of it is worth something with.
    fn scope(&self) -> Scope {
        let principal = self.asker.principal.clone();
        Scope { principal, method: self.method.as_str(), digest: self.params.digest() }
    }

    /// The answer to a question, if it is there. Questions without a name are counted.
    ///
    /// # Errors
    /// [`CallError::InputRequired`] if the client has to be asked, [`SendError::Undeclared`] if that makes no sense.
    pub(super) fn ask<R>(&self, name: Option<&str>, question: &R) -> Result<R::Result, CallError>
    where
        R: Request + Clone + Into<InputRequest>,
    {
        let mut asked = lock(&self.asked);
        let name = match name {
            Some(name) => name.to_owned(),
            None => {
                asked.unnamed += 1;
                format!("q{}", asked.unnamed)
            }
        };
        if !asked.names.insert(name.clone()) {
            return Err(CallError::Invalid(format!("there is a question {name:?} already")));
        }
        let needed = R::METHOD.needs(ProtocolVersion::LATEST).into_iter().chain(question.needs().iter());
        let lacking: Vec<_> = needed.filter(|needed| !self.asker.declared.contains(*needed)).collect();
        if let Some(missing) = lacking.last() {
            asked.lacking = lacking.iter().fold(asked.lacking, |set, missing| set.with(*missing));
            return Err(SendError::Undeclared(*missing).into());
        }
        let Some(answer) = self.given.get(&name) else {
            let question: InputRequest = question.clone().into();
            match At(&question, Some(ProtocolVersion::LATEST)).to_json() {
                Ok(question) => drop(asked.open.insert(name, question)),
                Err(error) => asked.unsendable = Some(error.to_string()),
            }
            return Err(CallError::InputRequired);
        };
        match answer.decode() {
            Ok(result) => {
                asked.used.insert(name, answer.clone());
                Ok(result)
            }
            Err(error) => {
                asked.refuse(&excerpt(&format_args!("{name}: {error}")));
                Err(CallError::Decode(error.to_string()))
            }
        }
    }

    /// Whether the handler has asked what has no answer yet.
    pub(super) fn is_asking(&self) -> bool {
        lock(&self.asked).is_asking()
    }

    /// Whether the request is answered with questions, or will be.
    pub(crate) fn has_asked(&self) -> bool {
        let asked = lock(&self.asked);
        asked.questions || asked.is_asking()
    }

    /// An answer does not fit its question.
    pub(super) fn refuse(&self, why: &str) {
        lock(&self.asked).refuse(why);
    }

    /// What becomes of the request after a run of its handler, which may have taken an open question for a failure.
    pub(super) fn finish<T>(
        &self,
        seal: &Seal,
        answer: RpcResult<T>,
        failed: fn(&T) -> bool,
    ) -> RpcResult<Finished<T>> {
        let asked = std::mem::take(&mut *lock(&self.asked));
        let is_asking = asked.is_asking();
        let Asked { used, open, unsendable, refused, lacking, .. } = asked;
        if let Some(error) = refused {
            return Err(error);
        }
        if is_asking {
            if self.round >= self.asker.most_rounds {
                return Err(ErrorObject::internal("This was answered with questions too often"));
            }
            let state = State { round: self.round.saturating_add(1), answers: used };
            let state = seal.close(&self.scope(), &state)?;
            if let Some(why) = unsendable {
                return Err(ErrorObject::internal(format!("The result cannot be sent: {why}")));
            }
            lock(&self.asked).questions = true;
            return Ok(Finished::Questions(Box::new(Questions { asked: open, state })));
        }
        // A handler can do without an answer, but if it fails, then because of that.
        if answer.as_ref().map_or(true, failed) && lacking != CapabilitySet::EMPTY {
            return Err(MissingRequiredClientCapability::error(lacking));
        }
        answer.map(Finished::Complete)
    }
}

impl Asked {
    /// Whether there is a question that has no answer yet.
    fn is_asking(&self) -> bool {
        !self.open.is_empty() || self.unsendable.is_some()
    }

    fn refuse(&mut self, why: &str) {
        self.refused.get_or_insert_with(|| {
            ErrorObject::invalid_params(excerpt(&format_args!("Invalid params: inputResponses: {why}")))
        });
    }
}

/// A member of params, which is not lenient: an answer that cannot be read must not be asked for again and again.
fn member<T: DeserializeOwned>(params: Option<&RawJson<'_>>, name: &str) -> RpcResult<Option<T>> {
    let member = params.and_then(|params| params.member(name));
    let read = member.map(|member| member.decode()).transpose();
    read.map_err(|error| ErrorObject::invalid_params(excerpt(&format_args!("Invalid params: {name}: {error}"))))
}

/// Responses to requests that were made together, by their names. See [`Context::ask_all`](crate::Context::ask_all).
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
        let answer = self.0.get(name).ok_or_else(|| CallError::Decode(format!("there was no question {name:?}")))?;
        answer.decode().map_err(|error| CallError::Decode(error.to_string()))
    }

    pub(super) fn insert(&mut self, name: String, answer: JsonObject) {
        self.0.insert(name, answer);
    }
}
