//! Repetition of requests of clients.

use std::{any::Any, collections::HashSet, fmt, io, sync::Arc, time::Duration};

use mcp_proto::{
    connection::{Backoff, ClientRole, Failure, SendError},
    protocol::Method,
    schema::{
        CallToolParams, CallToolResult, GetPromptParams, GetPromptResult, ReadResourceParams, ReadResourceResult,
        Request, Tool,
    },
    wire::ErrorObject,
};
use serde_core::Serialize;

use super::rate_limit::RATE_LIMITED;
use crate::{
    client::requests::{call, texts},
    driver_api::deferred::Deferred,
    outbound::{error::CallError, peer::Peer},
    util::random::Random,
};

/// A policy for repeating requests that have failed, for [`Peer::retrying`].
///
/// A request is repeated only if running it twice has the same effect:
///
/// - requests that read: lists, resources, prompts, completions, tasks, pings;
/// - requests that set something to the same value: the log level, subscriptions to resources;
/// - calls of tools that the policy [names](Self::tools), or that are [annotated](Self::annotated) as read-only or
///   idempotent.
///
/// It is also repeated only if no response of a handler has arrived: the outbox was full, the response was lost on the
/// network or did not arrive before the idle timeout, or a server or proxy has refused the request temporarily (HTTP
/// 408, 425, 429, 502, 503 and 504, and the error of a [`RateLimit`](super::RateLimit)). Results and other errors are
/// final, and so is the end of the connection.
///
/// ```
/// use mcp_proto::connection::ClientRole;
/// use mcp_service::{CallError, Peer, layers::Retry};
///
/// async fn temperature(server: &Peer<ClientRole>) -> Result<String, CallError> {
///     let patient = server.retrying(&Retry::new().attempts(5).tools(["temperature"]));
///     let result = patient.call_tool("temperature", serde_json::json!({"city": "Oslo"})).await?;
///     Ok(result.content.first().and_then(|content| content.as_text()).unwrap_or_default().to_owned())
/// }
/// ```
///
/// A tool that requests input (2026-07-28) may do so again when it is repeated.
#[derive(Clone)]
pub struct Retry {
    attempts: u32,
    backoff: Backoff,
    max_wait: Duration,
    tools: Arc<HashSet<String>>,
    random: Random,
}

impl Default for Retry {
    fn default() -> Self {
        Self::new()
    }
}

impl Retry {
    /// Creates a policy of at most three attempts, for no tools.
    #[must_use]
    pub fn new() -> Self {
        Self {
            attempts: 3,
            backoff: Backoff::default(),
            max_wait: Duration::from_secs(60),
            tools: Arc::default(),
            random: Random::default(),
        }
    }

    /// Sets the most attempts to send a request, including the first one. Default 3.
    #[must_use]
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the delays between attempts. Each is shortened by a random part of up to a half, so that not all clients
    /// try again at the same time.
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the longest delay that a server can request. If it requests a longer one, the request fails at once.
    /// Default 60 seconds.
    #[must_use]
    pub const fn max_wait(mut self, max: Duration) -> Self {
        self.max_wait = max;
        self
    }

    /// Repeats calls of these tools, too. They must be idempotent: a second call with the same arguments has no further
    /// effect.
    #[must_use]
    pub fn tools<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        Arc::make_mut(&mut self.tools).extend(names.into_iter().map(Into::into));
        self
    }

    /// Repeats calls of those of these tools that are annotated as read-only or idempotent. Annotations are claims of
    /// the server: use it only for servers that you trust.
    #[must_use]
    pub fn annotated<'a>(self, tools: impl IntoIterator<Item = &'a Tool>) -> Self {
        let is_safe = |tool: &&Tool| {
            tool.annotations
                .as_ref()
                .is_some_and(|claims| claims.is_read_only() || claims.idempotent_hint == Some(true))
        };
        self.tools(tools.into_iter().filter(is_safe).map(|tool| tool.name.clone()))
    }

    /// Sets the source of random bytes for the delays. The default is the operating system.
    #[must_use]
    pub fn random(mut self, fill: impl Fn(&mut [u8]) -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.random = Random::new(fill);
        self
    }

    /// Returns whether a request may be repeated.
    fn allows<R: Request + 'static>(&self, params: &R) -> bool {
        match R::METHOD {
            Method::CallTool => {
                let params: &dyn Any = params;
                params.downcast_ref::<CallToolParams>().is_some_and(|call| self.tools.contains(&call.name))
            }
            method => is_idempotent(method),
        }
    }

    /// Returns the delay before the attempt after `made` attempts, if there may be another one.
    fn delay(&self, made: u32, error: &CallError) -> Option<Duration> {
        let requested = passing(error)?;
        if made >= self.attempts || requested.is_some_and(|requested| requested > self.max_wait) {
            return None;
        }
        let delay = self.backoff.delay(made);
        let random = self.random.bytes().map_or(u32::MAX, u32::from_ne_bytes);
        let part = delay / 2 * (random >> 16) / (1 << 16);
        Some(match requested {
            // The attempt is not before the requested time.
            Some(requested) => requested + part,
            None => delay / 2 + part,
        })
    }
}

const fn is_idempotent(method: Method) -> bool {
    matches!(
        method,
        Method::Ping
            | Method::Discover
            | Method::ListTools
            | Method::ListPrompts
            | Method::GetPrompt
            | Method::ListResources
            | Method::ListResourceTemplates
            | Method::ReadResource
            | Method::Complete
            | Method::SetLevel
            | Method::Subscribe
            | Method::Unsubscribe
            | Method::ListTasks
            | Method::GetTask
            | Method::ExtGetTask
            | Method::ListSkills
            | Method::GetSkill
            | Method::ReadDirectory
    )
}

/// Returns the delay that the server has requested, if the error may be temporary and no handler has responded.
#[expect(clippy::option_option, reason = "the outer one says whether the error may pass")]
fn passing(error: &CallError) -> Option<Option<Duration>> {
    match error {
        CallError::Send(SendError::Busy)
        | CallError::TimedOut { total: false }
        | CallError::Failed(Failure::StreamLost | Failure::Network(_)) => Some(None),
        CallError::Failed(Failure::Status { status: 408 | 425 | 429 | 502..=504, retry_after, .. }) => {
            Some(*retry_after)
        }
        CallError::Rpc(error) if error.code == RATE_LIMITED => Some(Some(retry_after(error)?)),
        _ => None,
    }
}

/// Returns the delay in the error of a rate limit. Other errors with this code have none.
fn retry_after(error: &ErrorObject) -> Option<Duration> {
    let millis = error.data.as_ref()?;
    mcp_proto::wire::RawJson::from(millis).member("retryAfterMs")?.decode().ok().map(Duration::from_millis)
}

/// A server for requests that are repeated: see [`Peer::retrying`].
#[derive(Clone, Debug)]
pub struct RetryPeer {
    peer: Peer<ClientRole>,
    retry: Retry,
}

impl Peer<ClientRole> {
    /// Returns the same server for requests that a policy repeats after a temporary failure.
    ///
    /// The options of this peer, such as timeouts, apply to each attempt.
    #[must_use]
    pub fn retrying(&self, retry: &Retry) -> RetryPeer {
        RetryPeer { peer: self.clone(), retry: retry.clone() }
    }
}

impl RetryPeer {
    /// Sends a request. Dropping the [`Deferred`] cancels it.
    ///
    /// The request fails with the error of the last attempt.
    pub fn request<R>(&self, params: R) -> Deferred<Result<R::Result, CallError>>
    where
        R: Request<Result: Send + 'static> + Send + Sync + 'static,
    {
        let Self { peer, retry } = self.clone();
        let may_repeat = retry.allows(&params);
        Deferred::poll_once(async move {
            let mut made = 0;
            loop {
                let outcome = match peer.request(&params) {
                    Ok(pending) => pending.await,
                    Err(error) => Err(error.into()),
                };
                made += 1;
                let error = match outcome {
                    Ok(result) => return Ok(result),
                    Err(error) => error,
                };
                match retry.delay(made, &error).filter(|_| may_repeat) {
                    Some(delay) => peer.sleep(delay).await.map_err(CallError::Closed)?,
                    None => return Err(error),
                }
            }
        })
    }

    /// Calls a tool, as [`Peer::call_tool`] does.
    pub fn call_tool(&self, name: &str, arguments: impl Serialize) -> Deferred<Result<CallToolResult, CallError>> {
        match call(name, arguments) {
            Ok(params) => self.request(params),
            Err(error) => Deferred::ready(Err(error.into())),
        }
    }

    /// Gets a prompt, as [`Peer::get_prompt`] does.
    pub fn get_prompt(&self, name: &str, arguments: impl Serialize) -> Deferred<Result<GetPromptResult, CallError>> {
        match texts(arguments) {
            Ok(arguments) => self.request(GetPromptParams { arguments, ..GetPromptParams::new(name) }),
            Err(error) => Deferred::ready(Err(error.into())),
        }
    }

    /// Reads a resource, as [`Peer::read_resource`] does.
    pub fn read_resource(&self, uri: &str) -> Deferred<Result<ReadResourceResult, CallError>> {
        self.request(ReadResourceParams::new(uri))
    }

    /// Returns the server, for requests that are sent once.
    #[must_use]
    pub const fn peer(&self) -> &Peer<ClientRole> {
        &self.peer
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("attempts", &self.attempts).field("tools", &self.tools).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::{connection::CloseReason, wire::Json};
    use serde_json::json;

    use super::*;

    fn policy() -> Retry {
        let random = |bytes: &mut [u8]| {
            bytes.fill(0xff);
            Ok(())
        };
        let backoff = Backoff { initial: Duration::from_secs(65_536), max: Duration::from_secs(1 << 20) };
        Retry::new().max_wait(Duration::from_secs(9)).backoff(backoff).random(random)
    }

    fn status(status: u16, retry_after: Option<Duration>) -> CallError {
        CallError::Failed(Failure::Status { status, challenges: Vec::new(), retry_after, body: String::new() })
    }

    #[test]
    fn temporary_failures_are_repeated_after_their_delay() {
        let policy = policy();
        // A half of the delay, and a random part of the other half.
        let usual = Some(Duration::from_millis(65_535_500));
        for code in [408, 425, 429, 502, 503, 504] {
            assert_eq!(policy.delay(1, &status(code, None)), usual, "{code}");
        }
        for error in [
            CallError::Send(SendError::Busy),
            CallError::TimedOut { total: false },
            CallError::Failed(Failure::StreamLost),
            CallError::Failed(Failure::Network("reset".into())),
        ] {
            assert_eq!(policy.delay(1, &error), usual, "{error:?}");
        }
        for error in [
            CallError::Send(SendError::Closed),
            CallError::TimedOut { total: true },
            CallError::Cancelled,
            CallError::Closed(CloseReason::ConnectionLost),
            CallError::Failed(Failure::SessionLost),
            CallError::Rpc(ErrorObject::new(RATE_LIMITED, "of another server")),
            CallError::Rpc(
                ErrorObject::internal("bad").with_data(Json::new(&json!({"retryAfterMs": 1})).expect("JSON")),
            ),
        ] {
            assert_eq!(policy.delay(1, &error), None, "{error:?}");
        }
        for code in [400, 401, 403, 404, 407, 409, 428, 500, 501, 505] {
            assert_eq!(policy.delay(1, &status(code, None)), None, "{code}");
        }
    }

    #[test]
    fn delays_are_at_least_those_that_the_server_requests() {
        let policy = policy().backoff(Backoff { initial: Duration::from_secs(2), max: Duration::from_secs(2) });
        let [least, most] = [Duration::from_secs(9), Duration::from_secs(10)];
        let delay = policy.delay(1, &status(503, Some(least))).expect("another attempt");
        assert!(least < delay && delay < most, "{delay:?}");
        assert_eq!(policy.delay(1, &status(503, Some(least + Duration::from_millis(1)))), None, "it is too long");
        assert!(policy.delay(2, &status(503, None)).is_some());
        assert_eq!(policy.delay(3, &status(503, None)), None, "it was the last attempt");
    }

    #[test]
    fn only_requests_without_further_effects_are_repeated() {
        use mcp_proto::schema::{
            CancelTaskParams, CompleteParams, CompletionArgument, CreateMessageParams, GetTaskParams,
            ListPromptsParams, ListResourceTemplatesParams, ListResourcesParams, ListTasksParams, ListToolsParams,
            LoggingLevel, PingParams, PromptReference, SetLevelParams, SubscribeParams, UnsubscribeParams,
        };

        let policy = Retry::new().tools(["read"]);
        for allowed in [
            policy.allows(&PingParams::default()),
            policy.allows(&ListToolsParams::default()),
            policy.allows(&ListPromptsParams::default()),
            policy.allows(&ListResourcesParams::default()),
            policy.allows(&ListResourceTemplatesParams::default()),
            policy.allows(&ListTasksParams::default()),
            policy.allows(&GetTaskParams::new("1")),
            policy.allows(&GetPromptParams::new("a")),
            policy.allows(&ReadResourceParams::new("a:b")),
            policy.allows(&SubscribeParams::new("a:b")),
            policy.allows(&UnsubscribeParams::new("a:b")),
            policy.allows(&SetLevelParams::new(LoggingLevel::Error)),
            policy.allows(&CompleteParams::new(PromptReference::new("a"), CompletionArgument::new("a", ""))),
            policy.allows(&CallToolParams::new("read")),
        ] {
            assert!(allowed);
        }
        assert!(!policy.allows(&CallToolParams::new("write")));
        assert!(!policy.allows(&CancelTaskParams::new("1")));
        assert!(!policy.allows(&CreateMessageParams::new([], 1_u64)));
    }
}
