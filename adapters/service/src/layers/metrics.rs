//! Measurements of requests.

use std::{fmt, sync::Arc};

use mcp_proto::{connection::CancelCause, protocol::Method, rpc::Timestamp};

use crate::{
    driver_api::deferred::Deferred,
    inbound::{
        failure::Failure,
        middleware::{Completed, IncomingRequest, Middleware, Next},
        rpc_result::ResponseKind,
    },
};

/// The number of requests that have ended, with the labels `method`, `name` and `outcome`.
pub const REQUESTS: &str = "mcp_requests_total";

/// The time of requests in seconds: a histogram with the labels of [`REQUESTS`].
pub const DURATION: &str = "mcp_request_duration_seconds";

/// The number of requests in flight, with the label `method`.
pub const IN_FLIGHT: &str = "mcp_requests_in_flight";

/// The labels of a measurement: names and values.
pub type Labels<'a> = [(&'static str, &'a str)];

/// A receiver of the measurements of a [`Metrics`] layer. It runs on the threads of requests, so it should be fast.
pub trait MetricsRecorder: Send + Sync + 'static {
    /// Adds to a counter.
    fn count(&self, name: &'static str, labels: &Labels<'_>, by: u64);

    /// Adds a value to a histogram.
    fn observe(&self, name: &'static str, labels: &Labels<'_>, value: f64);

    /// Adds to a gauge, or subtracts from it.
    fn adjust(&self, name: &'static str, labels: &Labels<'_>, by: f64);
}

/// A layer that counts and times requests: [`REQUESTS`], [`DURATION`] and [`IN_FLIGHT`].
///
/// The number of values of labels is bounded: unknown methods have the label `other`, and only existing tools and
/// prompts have their names. The outcomes are `result`, `failed`, `input_required`, `error`, `cancelled` and
/// `timed_out`.
///
/// With the feature `metrics`, `Metrics::global` records with the crate `metrics`.
#[derive(Clone)]
pub struct Metrics(Arc<dyn MetricsRecorder>);

impl Metrics {
    /// Creates a layer with a recorder.
    #[must_use]
    pub fn new(recorder: impl MetricsRecorder) -> Self {
        Self(Arc::new(recorder))
    }

    /// Creates a layer that records with the recorder of the crate `metrics` that is installed when it records.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn global() -> Self {
        Self::new(global::Global)
    }
}

/// A request without a measurement. Dropping this makes the measurement.
struct Unmeasured {
    recorder: Arc<dyn MetricsRecorder>,
    request: IncomingRequest,
    began: Timestamp,
    kind: Option<ResponseKind>,
}

impl Unmeasured {
    fn method(&self) -> &str {
        let method = self.request.method();
        // Methods of the application are bounded, and others have no handler.
        if Method::parse(method).is_some() || self.request.has_handler() { method } else { "other" }
    }

    fn name(&self) -> &str {
        let is_bounded = matches!(Method::parse(self.request.method()), Some(Method::CallTool | Method::GetPrompt));
        if is_bounded && self.request.has_handler() { self.request.name().unwrap_or_default() } else { "" }
    }
}

impl Drop for Unmeasured {
    fn drop(&mut self) {
        let context = self.request.context();
        let outcome = match (context.cancel_cause(), &self.kind) {
            (Some(CancelCause::TimedOut), _) => "timed_out",
            (Some(_), _) | (None, None) => "cancelled",
            (None, Some(ResponseKind::Result)) => "result",
            (None, Some(ResponseKind::Failed)) => "failed",
            (None, Some(ResponseKind::InputRequired)) => "input_required",
            (None, Some(ResponseKind::Error(_))) => "error",
        };
        let method = self.method();
        let labels = [("method", method), ("name", self.name()), ("outcome", outcome)];
        let elapsed = context.now().saturating_since(self.began);
        self.recorder.adjust(IN_FLIGHT, &[("method", method)], -1.0);
        self.recorder.count(REQUESTS, &labels, 1);
        self.recorder.observe(DURATION, &labels, elapsed.as_secs_f64());
    }
}

impl Middleware for Metrics {
    fn handle(&self, request: IncomingRequest, next: Next) -> Deferred<Result<Completed, Failure>> {
        let began = request.context().now();
        let mut unmeasured = Unmeasured { recorder: self.0.clone(), request, began, kind: None };
        self.0.adjust(IN_FLIGHT, &[("method", unmeasured.method())], 1.0);
        next.run().map(move |completed| {
            unmeasured.kind = Some(completed.kind().clone());
            drop(unmeasured);
            Ok(completed)
        })
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(feature = "metrics")]
mod global {
    use metrics::{Label, counter, gauge, histogram};

    use super::{Labels, MetricsRecorder};

    /// The recorder of the crate `metrics`.
    pub(super) struct Global;

    fn owned(labels: &Labels<'_>) -> Vec<Label> {
        labels.iter().map(|(name, value)| Label::new(*name, (*value).to_owned())).collect()
    }

    impl MetricsRecorder for Global {
        fn count(&self, name: &'static str, labels: &Labels<'_>, by: u64) {
            counter!(name, owned(labels)).increment(by);
        }

        fn observe(&self, name: &'static str, labels: &Labels<'_>, value: f64) {
            histogram!(name, owned(labels)).record(value);
        }

        fn adjust(&self, name: &'static str, labels: &Labels<'_>, by: f64) {
            gauge!(name, owned(labels)).increment(by);
        }
    }
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use std::sync::Mutex;

    use metrics::{
        Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString,
        Unit,
    };

    use super::*;
    use crate::util::lock::lock;

    /// The measurements that were recorded.
    #[derive(Clone, Default)]
    struct Recorded(Arc<Mutex<Vec<String>>>);

    struct Measure(Recorded, String);

    impl Measure {
        fn add(&self, what: &str, value: f64) {
            lock(&self.0.0).push(format!("{what} {} {value}", self.1));
        }
    }

    impl CounterFn for Measure {
        fn increment(&self, value: u64) {
            self.add("count", f64::from(u32::try_from(value).expect("small")));
        }

        fn absolute(&self, _: u64) {}
    }

    impl GaugeFn for Measure {
        fn increment(&self, value: f64) {
            self.add("adjust", value);
        }

        fn decrement(&self, _: f64) {}

        fn set(&self, _: f64) {}
    }

    impl HistogramFn for Measure {
        fn record(&self, value: f64) {
            self.add("observe", value);
        }
    }

    impl Recorded {
        fn measure(&self, key: &Key) -> Arc<Measure> {
            let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            Arc::new(Measure(self.clone(), format!("{} {}", key.name(), labels.join(" "))))
        }
    }

    impl Recorder for Recorded {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.measure(key))
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.measure(key))
        }

        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(self.measure(key))
        }
    }

    #[test]
    fn measurements_reach_the_recorder_that_is_installed() {
        let recorded = Recorded::default();
        let metrics = Metrics::global();
        metrics::with_local_recorder(&recorded, || {
            metrics.0.count("a", &[("b", "c"), ("d", "e")], 2);
            metrics.0.observe("f", &[], 0.5);
            metrics.0.adjust("g", &[("h", "")], -1.0);
        });
        assert_eq!(*lock(&recorded.0), ["count a b=c d=e 2", "observe f  0.5", "adjust g h= -1"]);
    }
}
