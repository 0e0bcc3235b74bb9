//! The `tracing` spans of requests of this side. Without the feature the functions do nothing.

#[cfg(feature = "tracing")]
mod there {
    use tracing::field::{Empty, display};

    use crate::{outbound::error::CallError, util::text_arguments::excerpt};

    /// The span of a request of this side, from when it is sent until it has ended. Its parent is the span in which it
    /// is sent.
    #[derive(Debug)]
    pub(crate) struct CallSpan(tracing::Span);

    impl CallSpan {
        pub(crate) fn new(method: &str) -> Self {
            Self(tracing::info_span!(
                target: "mcp_service::call",
                "call",
                method = %excerpt(method).escape_debug(),
                name = Empty,
                outcome = Empty,
                code = Empty,
            ))
        }

        /// Records the name of the tool or the prompt, or the URI of the resource.
        pub(crate) fn name(&self, name: &str) {
            if !self.0.is_disabled() {
                self.0.record("name", display(excerpt(name).escape_debug()));
            }
        }

        /// Records the outcome; `None` if it was given up.
        pub(crate) fn end(&self, error: Option<Option<&CallError>>) {
            if self.0.is_disabled() {
                return;
            }
            let outcome = match error {
                Some(None) => "result",
                Some(Some(CallError::Rpc(error))) => {
                    self.0.record("code", error.code.0);
                    "error"
                }
                Some(Some(CallError::TimedOut { .. })) => "timed_out",
                Some(Some(CallError::Cancelled)) | None => "cancelled",
                Some(Some(CallError::Closed(_))) => "closed",
                Some(Some(_)) => "failed",
            };
            self.0.record("outcome", outcome);
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod there {
    use crate::outbound::error::CallError;

    #[derive(Debug)]
    pub(crate) struct CallSpan;

    #[allow(clippy::unused_self, reason = "there is nothing to see")]
    impl CallSpan {
        pub(crate) const fn new(_: &str) -> Self {
            Self
        }

        pub(crate) const fn name(&self, _: &str) {}

        pub(crate) const fn end(&self, _: Option<Option<&CallError>>) {}
    }
}

pub(crate) use there::CallSpan;
