//! The common part of the builders of hosts and services.

use mcp_proto::{
    connection::Settings,
    protocol::{Capability, CapabilitySet, VersionSet},
    schema::{Implementation, Map},
    wire::JsonObject,
};

use super::{custom_methods::CustomMethods, state::Role};
use crate::util::random::Random;

/// The common fields of the builders.
pub(crate) struct Common<E: Role> {
    pub(crate) info: Implementation,
    pub(crate) settings: Settings,
    pub(crate) versions: VersionSet,
    pub(crate) experimental: Map<JsonObject>,
    pub(crate) withheld: CapabilitySet,
    pub(crate) custom: CustomMethods<E>,
    pub(crate) random: Random,
}

impl<E: Role> Common<E> {
    pub(crate) fn new(name: String, version: String) -> Self {
        Self {
            info: Implementation::new(name, version),
            settings: Settings::default(),
            versions: VersionSet::ALL,
            experimental: Map::new(),
            withheld: CapabilitySet::EMPTY,
            custom: CustomMethods::default(),
            random: Random::default(),
        }
    }

    /// Returns the settings, with the chosen revisions.
    pub(crate) fn chosen_settings(&self) -> Settings {
        Settings { versions: self.versions, ..self.settings.clone() }
    }
}

/// Returns the capabilities of a list that are present and not withheld, neither themselves nor a capability that
/// contains them.
pub(crate) fn declared(
    capabilities: &[(Capability, bool)],
    withheld: CapabilitySet,
) -> impl Iterator<Item = Capability> {
    let is_open = move |capability| !withheld.iter().any(|withheld| is_part_of(capability, withheld));
    capabilities
        .iter()
        .filter(|(_, is_there)| *is_there)
        .map(|(capability, _)| *capability)
        .filter(move |it| is_open(*it))
}

fn is_part_of(part: Capability, whole: Capability) -> bool {
    part.path().strip_prefix(whole.path()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Defines the common methods of the builders. `$End` is the role.
macro_rules! common_methods {
    ($End:ident) => {
        /// Sets more information about the implementation than its name and version.
        pub fn info(mut self, f: impl FnOnce(&mut mcp_proto::schema::Implementation)) -> Self {
            f(&mut self.common.info);
            self
        }

        /// Sets the limits and timeouts of the connections. The [revisions](Self::versions) are not taken from here.
        pub fn settings(mut self, settings: mcp_proto::connection::Settings) -> Self {
            self.common.settings = settings;
            self
        }

        /// Limits how long a handler may take to respond to a request, from its arrival. After that the peer gets an
        /// error, and the handler is cancelled. Default: no limit.
        ///
        /// This is [`reply_timeout`](mcp_proto::connection::Settings::reply_timeout) of the [settings](Self::settings),
        /// which replace it if they are set after it.
        pub fn reply_timeout(mut self, time: std::time::Duration) -> Self {
            self.common.settings.reply_timeout = Some(time);
            self
        }

        /// Sets the supported revisions; those in the settings are ignored. Default: all revisions. A host that
        /// supports both eras first probes the era of each server, and waits for the response at most for the [probe
        /// timeout](mcp_proto::connection::Settings::probe_timeout).
        pub fn versions(mut self, versions: mcp_proto::protocol::VersionSet) -> Self {
            self.common.versions = versions;
            self
        }

        /// Registers a handler for a notification of the specification. The type of its params selects the method.
        ///
        /// Notifications are handled one after the other, and before the requests that follow them. A later handler
        /// for a method replaces an earlier one.
        pub fn on<N: mcp_proto::schema::Notification>(
            mut self,
            f: impl Fn(N, crate::outbound::peer::Peer<$End>) + Send + Sync + 'static,
        ) -> Self {
            self.common.custom.listen(N::METHOD.as_str(), f);
            self
        }

        /// Registers a handler as [`on`](Self::on) does, from a function that returns a future. The next notification
        /// is handled when the future has ended.
        pub fn on_async<N: mcp_proto::schema::Notification, T>(
            mut self,
            f: impl Fn(N, crate::outbound::peer::Peer<$End>) -> T + Send + Sync + 'static,
        ) -> Self
        where
            T: std::future::Future<Output = ()> + Send + 'static,
        {
            self.common.custom.listen_async(N::METHOD.as_str(), f);
            self
        }

        /// Registers a handler for a notification that is not in the specification.
        pub fn on_notification<P: serde_core::de::DeserializeOwned>(
            mut self,
            method: &str,
            f: impl Fn(P, crate::outbound::peer::Peer<$End>) + Send + Sync + 'static,
        ) -> Self {
            self.common.custom.listen(method, f);
            self
        }

        /// Registers a handler as [`on_notification`](Self::on_notification) does, from a function that returns a
        /// future.
        pub fn on_notification_async<P: serde_core::de::DeserializeOwned, T>(
            mut self,
            method: &str,
            f: impl Fn(P, crate::outbound::peer::Peer<$End>) -> T + Send + Sync + 'static,
        ) -> Self
        where
            T: std::future::Future<Output = ()> + Send + 'static,
        {
            self.common.custom.listen_async(method, f);
            self
        }

        /// Registers a handler for a request that is not in the specification. The result must serialize as a JSON
        /// object.
        pub fn on_request<P, R, F>(
            mut self,
            method: &str,
            f: impl Fn(P, crate::inbound::context::Context<$End>) -> Result<R, F> + Send + Sync + 'static,
        ) -> Self
        where
            P: serde_core::de::DeserializeOwned,
            R: serde_core::Serialize,
            F: Into<crate::inbound::failure::Failure>,
        {
            self.common.custom.answer(method, f);
            self
        }

        /// Registers a handler as [`on_request`](Self::on_request) does, from a function that returns a future.
        pub fn on_request_async<P, R, F, T>(
            mut self,
            method: &str,
            f: impl Fn(P, crate::inbound::context::Context<$End>) -> T + Send + Sync + 'static,
        ) -> Self
        where
            P: serde_core::de::DeserializeOwned,
            R: serde_core::Serialize,
            F: Into<crate::inbound::failure::Failure>,
            T: std::future::Future<Output = Result<R, F>> + Send + 'static,
        {
            self.common.custom.answer_async(method, f);
            self
        }

        /// Adds middleware, which runs around every response. It sees the request with its
        /// [arguments](crate::IncomingRequest::arguments) and the outcome with its [result](crate::Completed::result).
        /// It can refuse the request, set other [arguments](crate::Next::with_arguments),
        /// [respond](crate::Next::respond) without the handler, and replace the
        /// [result](crate::Completed::with_result). It wraps functions and futures alike. Middleware that blocks delays
        /// other futures.
        ///
        /// It gets each request that this side responds to, also without a handler, such as lists and calls of unknown
        /// tools. It runs [`Next`](crate::Next), or refuses the request with an error of the protocol, also for tools.
        /// The first middleware is the outermost. A panic in it fails only this request.
        ///
        /// A request that [requires input](crate::CallError::InputRequired) passes again with the responses
        /// (2026-07-28). Of a request that becomes a task, the execution of the task is wrapped. Not wrapped are the
        /// handshake, pings, subscriptions (2026-07-28), requests about the tasks of a session (2025-11-25), and
        /// notifications, which cannot be refused.
        ///
        /// Requests that are refused before they reach the application pass no middleware: those that the connection or
        /// the transport does not accept, and over HTTP those whose principal lacks a required scope, which get the
        /// status 403. If the head of the response was sent before, such a request gets an error instead, which passes
        /// as the response to a request [without a handler](crate::IncomingRequest::has_handler).
        ///
        /// Middleware cannot ask the client in 2026-07-28 (elicitation, sampling, roots): a question is the outcome of
        /// the handler there, so that one before [`Next::run`](crate::Next::run) fails.
        ///
        /// The future of a request that does not wait needs no allocation. A type that implements
        /// [`Middleware`](crate::Middleware) needs no future at all.
        #[doc(alias = "middleware")]
        #[doc(alias = "around")]
        pub fn layer<T>(
            mut self,
            f: impl Fn(crate::inbound::middleware::IncomingRequest<$End>, crate::inbound::middleware::Next<$End>) -> T
            + Send
            + Sync
            + 'static,
        ) -> Self
        where
            T: std::future::Future<
                    Output = Result<crate::inbound::middleware::Completed, crate::inbound::failure::Failure>,
                > + Send
                + 'static,
        {
            self.common.custom.wrap(crate::inbound::middleware::FunctionLayer::new(f));
            self
        }

        /// Adds middleware of a type of its own, such as the ready-made [layers](crate::layers), as
        /// [`layer`](Self::layer) adds a closure.
        pub fn with_layer(mut self, layer: impl crate::inbound::middleware::Middleware<$End>) -> Self {
            self.common.custom.wrap(crate::inbound::middleware::MiddlewareLayer(layer));
            self
        }

        /// Sets the function that returns the distributed trace of the running code. Requests of this side belong to
        /// that trace and carry it in their `_meta`.
        ///
        /// Without the function, or if it returns `None`, a request on behalf of a peer's request belongs to the trace
        /// of that request, and any other request to none. [`with_trace`](crate::Peer::with_trace) overrides this. The
        /// function is called for each request and should be fast.
        pub fn trace_with(
            mut self,
            f: impl Fn() -> Option<mcp_proto::schema::TraceContext> + Send + Sync + 'static,
        ) -> Self {
            self.common.custom.tracer = Some(std::sync::Arc::new(f));
            self
        }

        /// Sets a handler for protocol violations of the peer, and for errors that the peer reports. It should be fast.
        pub fn on_fault(mut self, f: impl Fn(crate::inbound::fault::Fault) + Send + Sync + 'static) -> Self {
            self.common.custom.fault_handler = Some(std::sync::Arc::new(f));
            self
        }

        /// Declares an experimental capability, which is not in the specification.
        pub fn experimental(mut self, name: impl Into<String>, settings: mcp_proto::wire::JsonObject) -> Self {
            self.common.experimental.insert(name, settings);
            self
        }

        /// Withholds a capability and its parts: they are not declared, even if handlers for them are registered.
        pub fn disable_capability(mut self, capability: mcp_proto::protocol::Capability) -> Self {
            self.common.withheld = self.common.withheld.with(capability);
            self
        }

        /// Sets the source of random bytes, for ids that must not be guessed. The default is the operating system.
        pub fn random(mut self, fill: impl Fn(&mut [u8]) -> std::io::Result<()> + Send + Sync + 'static) -> Self {
            self.common.random = crate::util::random::Random::new(fill);
            self
        }
    };
}

pub(crate) use common_methods;
