//! The `tracing` spans of requests. Without the feature the functions do nothing.

#[cfg(feature = "tracing")]
mod there {
    use std::future::Future;

    use mcp_proto::protocol::Era;
    use tracing::{Instrument, Level, field::Empty};

    #[cfg(feature = "log-layer")]
    use crate::inbound::log_target::LogTarget;
    use crate::inbound::{
        log::plain,
        request::{InboundRequest, RequestInfo, RequestSummary, summary},
        rpc_result::ResponseKind,
        state::Role,
    };

    /// The span of a request.
    #[derive(Clone, Debug)]
    pub(crate) struct Span(tracing::Span);

    impl Span {
        /// Returns whether spans are recorded.
        pub(crate) fn is_enabled() -> bool {
            tracing::span_enabled!(target: "mcp_service", Level::INFO)
        }

        /// Creates the span of a request when it arrives, so waiting for a handler is part of it.
        pub(crate) fn of<E: Role>(inbound: &InboundRequest<'_, E>) -> Self {
            if !Self::is_enabled() {
                return Self(tracing::Span::none());
            }
            let mut info = inbound.connection.read(|conn| E::info(conn, Some(inbound.key)));
            info.trace = info.trace.or_else(|| inbound.trace());
            let summary = summary(inbound);
            #[cfg(feature = "log-layer")]
            return LogTarget::offer(inbound.connection, inbound.key, || Self::new(info, summary));
            #[cfg(not(feature = "log-layer"))]
            Self::new(info, summary)
        }

        /// Creates the span of a request that the connection does not know.
        pub(crate) fn new(info: RequestInfo, RequestSummary { id, method, name }: RequestSummary) -> Self {
            let trace = info.trace.as_ref();
            // Baggage can contain data of systems in front of the client.
            let has_details = tracing::enabled!(target: "mcp_service", Level::DEBUG);
            let era = match info.version.era() {
                Era::Legacy => "legacy",
                Era::Modern => "modern",
            };
            Self(tracing::info_span!(
                target: "mcp_service",
                "request",
                method = &*plain(&method),
                name = name.as_deref().map(plain).as_deref(),
                id = id.as_ref().map(|id| id.as_json()),
                era,
                version = info.version.as_str(),
                principal = info.principal.as_ref().map(|principal| plain(&principal.id)).as_deref(),
                traceparent = trace.and_then(|trace| trace.parent()).map(plain).as_deref(),
                tracestate = trace.and_then(|trace| trace.state()).map(plain).as_deref(),
                baggage = trace.and_then(|trace| trace.baggage()).filter(|_| has_details).map(plain).as_deref(),
                outcome = Empty,
                code = Empty,
            ))
        }

        pub(crate) fn within<T>(&self, f: impl FnOnce() -> T) -> T {
            self.0.in_scope(f)
        }

        pub(crate) fn instrument<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
            future.instrument(self.0.clone())
        }

        /// Records the outcome of the request.
        pub(crate) fn end(&self, is_cancelled: bool, kind: impl FnOnce() -> ResponseKind) {
            if self.0.is_disabled() {
                return;
            }
            let kind = kind();
            let outcome = match &kind {
                _ if is_cancelled => "cancelled",
                ResponseKind::Result => "result",
                ResponseKind::Failed => "failed",
                ResponseKind::InputRequired => "input_required",
                ResponseKind::Error(_) => "error",
            };
            self.0.record("outcome", outcome);
            match kind {
                ResponseKind::Error(error) if !is_cancelled => {
                    self.0.record("code", error.code.0);
                    tracing::info!(target: "mcp_service", parent: &self.0, message = &*plain(&error.message));
                }
                _ => tracing::debug!(target: "mcp_service", parent: &self.0, "answered"),
            }
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod there {
    use std::future::Future;

    use crate::inbound::{
        request::{InboundRequest, RequestInfo, RequestSummary},
        rpc_result::ResponseKind,
        state::Role,
    };

    #[derive(Clone, Debug)]
    pub(crate) struct Span;

    impl Span {
        pub(crate) const fn is_enabled() -> bool {
            false
        }

        pub(crate) const fn of<E: Role>(_: &InboundRequest<'_, E>) -> Self {
            Self
        }

        pub(crate) fn new(_: RequestInfo, _: RequestSummary) -> Self {
            Self
        }

        #[allow(clippy::unused_self, reason = "there is nothing to see")]
        pub(crate) fn within<T>(&self, f: impl FnOnce() -> T) -> T {
            f()
        }

        #[allow(clippy::unused_self, reason = "there is nothing to see")]
        pub(crate) fn instrument<F: Future>(&self, future: F) -> F {
            future
        }

        #[allow(clippy::unused_self, reason = "there is nothing to see")]
        pub(crate) fn end(&self, _: bool, _: impl FnOnce() -> ResponseKind) {}
    }
}

pub(crate) use super::span::there::Span;
