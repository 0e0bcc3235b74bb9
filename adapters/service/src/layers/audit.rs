//! A record of each request.

use std::{borrow::Cow, collections::HashSet, fmt, sync::Arc, time::Duration};

use mcp_proto::{
    connection::{CancelCause, Principal},
    protocol::ProtocolVersion,
    schema::Implementation,
    wire::{ErrorObject, RequestId},
};

use crate::{
    driver_api::deferred::Deferred,
    inbound::{
        failure::Failure,
        middleware::{Completed, IncomingRequest, Middleware, Next},
        rpc_result::ResponseKind,
    },
    util::json_text::replace_values,
};

/// The record that an [`Audit`] makes of a request.
#[derive(Debug)]
#[non_exhaustive]
pub struct AuditRecord<'a> {
    /// The authenticated client, if the transport authenticates clients.
    pub principal: Option<&'a Principal>,
    /// The name and version that the client claims.
    pub client: Option<&'a Implementation>,
    /// The revision of the request.
    pub version: ProtocolVersion,
    /// The id of the request.
    pub id: Option<&'a RequestId>,
    /// The method.
    pub method: &'a str,
    /// The name of the tool or the prompt, or the URI of the resource, as the client has sent it.
    pub name: Option<&'a str>,
    /// The arguments as JSON, with redacted values. `None` if there are none, they are not recorded, or they are larger
    /// than the [limit](Audit::max_argument_bytes).
    pub arguments: Option<&'a str>,
    /// The size of the arguments as the client has sent them, in bytes.
    pub argument_bytes: usize,
    /// The outcome of the request.
    pub outcome: AuditOutcome<'a>,
    /// The time that the request took, by the clock of the connection.
    pub elapsed: Duration,
}

/// The outcome of a request, for an [`AuditRecord`].
#[derive(Debug)]
#[non_exhaustive]
pub enum AuditOutcome<'a> {
    /// The request has a result.
    Result,
    /// The request has the result of a tool that has failed.
    Failed,
    /// The response requests input of the client, which will send the request again (2026-07-28).
    InputRequired,
    /// The request has an error.
    Error(&'a ErrorObject),
    /// The client has cancelled the request, or the connection has ended.
    Cancelled,
    /// The request has timed out.
    TimedOut,
}

impl AuditOutcome<'_> {
    /// Returns the outcome in one word: `result`, `failed`, `input_required`, `error`, `cancelled` or `timed_out`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Failed => "failed",
            Self::InputRequired => "input_required",
            Self::Error(_) => "error",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }
}

/// A receiver of the records of an [`Audit`]. A closure is one.
///
/// It runs on the thread or task of the request, before the response is sent, so it should be fast. A panic fails the
/// request.
pub trait AuditSink: Send + Sync + 'static {
    /// Takes the record of a request.
    fn record(&self, record: &AuditRecord<'_>);
}

impl<F: Fn(&AuditRecord<'_>) + Send + Sync + 'static> AuditSink for F {
    fn record(&self, record: &AuditRecord<'_>) {
        self(record);
    }
}

/// A layer that records each request: its sender, its method and name, its arguments, and its outcome.
///
/// Each request that middleware wraps gets one record, also if its handler is dropped before its end. Add it before
/// other layers, so that their refusals are recorded, too.
///
/// ```
/// use mcp_service::{Service, Tool, layers::{Audit, AuditRecord}};
///
/// let audit = Audit::new(|record: &AuditRecord<'_>| {
///     let who = record.principal.map_or("-", |principal| &principal.id);
///     eprintln!("{who} {} {:?} {:?} {}", record.method, record.name, record.arguments, record.outcome.as_str());
/// });
/// let service = Service::builder("vault", "1.0.0")
///     .tool(Tool::new("open", || "open"))
///     .with_layer(audit.redact(["password", "token"]))
///     .build()?;
/// # Ok::<(), mcp_service::RegisterError>(())
/// ```
///
/// Names and arguments are those of the client, and may contain line feeds and control characters.
#[derive(Clone)]
pub struct Audit(Arc<Settings>);

#[derive(Clone)]
struct Settings {
    sink: Arc<dyn AuditSink>,
    /// Names of members, in lower case.
    redacted: HashSet<String>,
    max_argument_bytes: usize,
}

/// The value in place of a redacted one.
const REDACTED: &str = "\"[redacted]\"";

impl Audit {
    /// Creates a layer that passes the records to a sink.
    #[must_use]
    pub fn new(sink: impl AuditSink) -> Self {
        let settings = Settings { sink: Arc::new(sink), redacted: HashSet::new(), max_argument_bytes: 4 << 10 };
        Self(Arc::new(settings))
    }

    /// Creates a layer that writes the records as events of `tracing`: target `mcp_service::audit`, level `INFO`, in
    /// the span of the request. Texts of clients are escaped, so that each record is one line.
    #[cfg(feature = "tracing")]
    #[must_use]
    pub fn tracing() -> Self {
        Self::new(|record: &AuditRecord<'_>| {
            use crate::inbound::log::plain;

            let code = match record.outcome {
                AuditOutcome::Error(error) => Some(error.code.0),
                _ => None,
            };
            tracing::info!(
                target: "mcp_service::audit",
                principal = record.principal.map(|principal| plain(&principal.id)).as_deref(),
                client = record.client.map(|client| plain(&client.name)).as_deref(),
                version = record.version.as_str(),
                id = record.id.map(|id| plain(id.as_json())).as_deref(),
                method = &*plain(record.method),
                name = record.name.map(plain).as_deref(),
                arguments = record.arguments.map(plain).as_deref(),
                argument_bytes = record.argument_bytes,
                outcome = record.outcome.as_str(),
                code,
                elapsed_ms = u64::try_from(record.elapsed.as_millis()).unwrap_or(u64::MAX),
            );
        })
    }

    /// Redacts the values of members with these names, in arguments at any depth. Upper and lower case are the same.
    #[must_use]
    pub fn redact<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(|name| name.as_ref().to_lowercase());
        Arc::make_mut(&mut self.0).redacted.extend(names);
        self
    }

    /// Sets the most bytes of arguments that are recorded. Larger arguments are omitted as a whole. Default 4 KiB. With
    /// 0 no arguments are recorded.
    #[must_use]
    pub fn max_argument_bytes(mut self, max: usize) -> Self {
        Arc::make_mut(&mut self.0).max_argument_bytes = max;
        self
    }
}

impl Settings {
    fn redacted<'a>(&self, arguments: &'a str) -> Cow<'a, str> {
        if self.redacted.is_empty() {
            return Cow::Borrowed(arguments);
        }
        let is_secret = |name: &str| self.redacted.contains(&name.to_lowercase());
        replace_values(arguments, |value| value.name.is_some_and(is_secret).then(|| REDACTED.to_owned())).into()
    }
}

/// A request without a record. Dropping this makes the record.
struct Unrecorded {
    settings: Arc<Settings>,
    request: IncomingRequest,
    began: mcp_proto::rpc::Timestamp,
    kind: Option<ResponseKind>,
}

impl Drop for Unrecorded {
    fn drop(&mut self) {
        let Self { settings, request, began, kind } = self;
        let context = request.context();
        let outcome = match (context.cancel_cause(), kind.as_ref()) {
            (Some(CancelCause::TimedOut), _) => AuditOutcome::TimedOut,
            (Some(CancelCause::Peer(_) | CancelCause::Closed), _) | (None, None) => AuditOutcome::Cancelled,
            (None, Some(ResponseKind::Result)) => AuditOutcome::Result,
            (None, Some(ResponseKind::Failed)) => AuditOutcome::Failed,
            (None, Some(ResponseKind::InputRequired)) => AuditOutcome::InputRequired,
            (None, Some(ResponseKind::Error(error))) => AuditOutcome::Error(error),
        };
        let (info, arguments) = (context.info(), request.arguments());
        let argument_bytes = arguments.as_ref().map_or(0, |arguments| arguments.get().len());
        let arguments = arguments.as_ref().filter(|_| argument_bytes <= settings.max_argument_bytes);
        let arguments = arguments.map(|arguments| settings.redacted(arguments.get()));
        settings.sink.record(&AuditRecord {
            principal: info.principal.as_ref(),
            client: info.peer.as_ref(),
            version: info.version,
            id: request.id(),
            method: request.method(),
            name: request.name(),
            arguments: arguments.as_deref(),
            argument_bytes,
            outcome,
            elapsed: context.now().saturating_since(*began),
        });
    }
}

impl Middleware for Audit {
    fn handle(&self, request: IncomingRequest, next: Next) -> Deferred<Result<Completed, Failure>> {
        let began = request.context().now();
        // The id is read now, because the connection may not know it any more when the record is made.
        let _ = request.id();
        let mut unrecorded = Unrecorded { settings: self.0.clone(), request, began, kind: None };
        next.run().map(move |completed| {
            unrecorded.kind = Some(completed.kind().clone());
            drop(unrecorded);
            Ok(completed)
        })
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("redacted", &self.0.redacted).finish_non_exhaustive()
    }
}
