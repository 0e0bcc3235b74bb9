//! Requests and notifications of a server to its client.

use mcp_proto::{
    connection::{SendError, ServerRole},
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
    tasks::handle::ResultOrTask,
    util::{elicitation_form as form, uri::is_uri},
};

/// Requests and notifications of a server to its client, outside of any request of the client. Handlers use their
/// [`Context`](crate::Context) instead.
///
/// A request to the user or the model of the client has no idle timeout, only the total timeout.
impl Peer<ServerRole> {
    /// Requests a message of the client's model (`sampling/createMessage`).
    ///
    /// # Errors
    /// If the request is not allowed now, or `params` are invalid. It was not sent then.
    pub fn sample(&self, params: &CreateMessageParams) -> Result<Pending<CreateMessageResult>, SendError> {
        let supports_context = self.capabilities().contains(Capability::SamplingContext);
        self.with_user_timeout::<CreateMessageParams>().request(&prepare_sampling(
            params.clone(),
            self.version(),
            supports_context,
        )?)
    }

    /// Requests a message of the client's model as a task: `params` carry `task` (2025-11-25).
    ///
    /// # Errors
    /// As [`sample`](Self::sample).
    pub fn sample_as_task(
        &self,
        params: &CreateMessageParams,
    ) -> Result<Pending<ResultOrTask<CreateMessageResult, ServerRole>>, SendError> {
        let supports_context = self.capabilities().contains(Capability::SamplingContext);
        self.request_as_task(&prepare_sampling(params.clone(), self.version(), supports_context)?)
    }

    /// Shows a form (2025-06-18) or a page (2025-11-25) to the client's user. A response that does not match the form
    /// is [`CallError::Invalid`].
    ///
    /// # Errors
    /// If the request is not allowed now, or the page has no valid URL. It was not sent then.
    pub fn elicit(&self, params: &ElicitParams) -> Result<Pending<ElicitResult>, SendError> {
        let schema = match params {
            ElicitParams::Form(form) => Some(form.requested_schema.clone()),
            ElicitParams::Url(page) if !is_uri(&page.url) => return Err(SendError::Encode("not a URL".into())),
            _ => None,
        };
        let pending = self.with_user_timeout::<ElicitParams>().request(params)?;
        Ok(pending.and_then(move |answer| match schema.map(|schema| form::check_answer(&schema, &answer)) {
            Some(Err(why)) => Err(CallError::Invalid(why)),
            _ => Ok(answer),
        }))
    }

    /// Requests the folders that the server may work in (`roots/list`).
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn list_roots(&self) -> Result<Pending<ListRootsResult>, SendError> {
        self.request(&ListRootsParams::default())
    }

    /// Sends a log message. It is dropped if the client does not want messages of this level.
    ///
    /// # Errors
    /// If the notification is not allowed now. It was not sent then.
    pub fn log(&self, level: LoggingLevel, logger: Option<&str>, data: impl Serialize) -> Result<(), SendError> {
        self.notify(&log_message(level, logger, data)?)
    }

    /// Notifies the client that the user is done with the page of the elicitation with this id (2025-11-25).
    ///
    /// # Errors
    /// If the notification is not allowed now. It was not sent then.
    pub fn elicitation_complete(&self, id: &str) -> Result<(), SendError> {
        self.notify(&ElicitationCompleteParams::new(id))
    }
}

/// Creates a log message.
pub(super) fn log_message(
    level: LoggingLevel,
    logger: Option<&str>,
    data: impl Serialize,
) -> Result<LogMessageParams, SendError> {
    Ok(LogMessageParams { logger: logger.map(Into::into), ..LogMessageParams::new(level, Json::new(&data)?) })
}

/// Adapts the messages of a sampling request to the client, or refuses them.
///
/// Since 2025-11-25 a client has to say that it can give the model `context`; asking is pointless otherwise.
pub(super) fn prepare_sampling(
    mut params: CreateMessageParams,
    version: Option<ProtocolVersion>,
    supports_context: bool,
) -> Result<CreateMessageParams, SendError> {
    if version >= Some(ProtocolVersion::V2025_11_25) && !supports_context {
        params.include_context = None;
    }
    check_tool_results(&params.messages).map_err(|fault| SendError::Encode(fault.to_string()))?;
    if params.model_preferences.as_ref().is_some_and(|preferences| !preferences.is_valid()) {
        return Err(SendError::Encode("a priority is not from 0 to 1".into()));
    }
    Ok(params)
}
