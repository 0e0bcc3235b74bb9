//! What a server tells its client and asks of it.

use mcp_proto::{
    connection::{SendError, ServerEnd},
    protocol::{Capability, ProtocolVersion},
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ElicitationCompleteParams,
        ListRootsParams, ListRootsResult, LogMessageParams, LoggingLevel, check_tool_results,
    },
    wire::Json,
};
use serde_core::Serialize;

use crate::{
    outbound::{error::CallError, peer::Peer, pending::Pending},
    tasks::handle::Started,
    util::{elicitation_form as form, uri::is_uri},
};

/// What a server tells its client and asks of it, apart from any request of the client. Handlers have their
/// [`Context`](crate::Context) for that.
///
/// Where the client has to ask its user or its model, it may be silent for as long as a request may take in all.
impl Peer<ServerEnd> {
    /// Asks the client's model.
    ///
    /// # Errors
    /// If it is not allowed now, or the conversation is not in order; nothing has been sent then.
    pub fn sample(&self, params: &CreateMessageParams) -> Result<Pending<CreateMessageResult>, SendError> {
        let knows = self.capabilities().contains(Capability::SamplingContext);
        self.patient_for::<CreateMessageParams>().request(&in_order(params.clone(), self.version(), knows)?)
    }

    /// Asks the client's model in a task: `params` carry `task` (2025-11-25).
    ///
    /// # Errors
    /// As [`sample`](Self::sample).
    pub fn sample_as_task(
        &self,
        params: &CreateMessageParams,
    ) -> Result<Pending<Started<CreateMessageResult, ServerEnd>>, SendError> {
        let knows = self.capabilities().contains(Capability::SamplingContext);
        self.request_as_task(&in_order(params.clone(), self.version(), knows)?)
    }

    /// Asks the client's user, with a form (2025-06-18) or a page (2025-11-25). An answer that does not fit the form is
    /// [`CallError::Invalid`].
    ///
    /// # Errors
    /// If it is not allowed now, or the page has no valid URL; nothing has been sent then.
    pub fn elicit(&self, params: &ElicitParams) -> Result<Pending<ElicitResult>, SendError> {
        let schema = match params {
            ElicitParams::Form(form) => Some(form.requested_schema.clone()),
            ElicitParams::Url(page) if !is_uri(&page.url) => return Err(SendError::Encode("not a URL".into())),
            _ => None,
        };
        let pending = self.patient_for::<ElicitParams>().request(params)?;
        Ok(pending.and_then(move |answer| match schema.map(|schema| form::check_answer(&schema, &answer)) {
            Some(Err(why)) => Err(CallError::Invalid(why)),
            _ => Ok(answer),
        }))
    }

    /// Asks for the folders that the server may work in.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn list_roots(&self) -> Result<Pending<ListRootsResult>, SendError> {
        self.request(&ListRootsParams::default())
    }

    /// Sends a log message. It is dropped if the client does not want messages of this level.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn log(&self, level: LoggingLevel, logger: Option<&str>, data: impl Serialize) -> Result<(), SendError> {
        self.notify(&log_message(level, logger, data)?)
    }

    /// Says that the user is done with the page that was asked for under this id (2025-11-25).
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn elicitation_complete(&self, id: &str) -> Result<(), SendError> {
        self.notify(&ElicitationCompleteParams::new(id))
    }
}

/// A log message.
pub(super) fn log_message(
    level: LoggingLevel,
    logger: Option<&str>,
    data: impl Serialize,
) -> Result<LogMessageParams, SendError> {
    Ok(LogMessageParams { logger: logger.map(Into::into), ..LogMessageParams::new(level, Json::new(&data)?) })
}

/// A conversation as a client takes it, if it does.
///
/// Since 2025-11-25 a client has to say that it can give the model `context`; asking is pointless otherwise.
pub(super) fn in_order(
    mut params: CreateMessageParams,
    version: Option<ProtocolVersion>,
    knows_context: bool,
) -> Result<CreateMessageParams, SendError> {
    if version >= Some(ProtocolVersion::V2025_11_25) && !knows_context {
        params.include_context = None;
    }
    check_tool_results(&params.messages).map_err(|fault| SendError::Encode(fault.to_string()))?;
    if params.model_preferences.as_ref().is_some_and(|preferences| !preferences.is_valid()) {
        return Err(SendError::Encode("a priority is not from 0 to 1".into()));
    }
    Ok(params)
}
