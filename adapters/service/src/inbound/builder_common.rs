//! What hosts and services have in common when they are put together.

use mcp_proto::{
    connection::Settings,
    protocol::{Capability, CapabilitySet, VersionSet},
    schema::{Implementation, Map},
    wire::JsonObject,
};

use super::{custom_methods::Custom, state::Role};
use crate::util::random::Random;

/// What every builder collects.
pub(crate) struct Common<E: Role> {
    pub(crate) info: Implementation,
    pub(crate) settings: Settings,
    pub(crate) versions: VersionSet,
    pub(crate) experimental: Map<JsonObject>,
    pub(crate) withheld: CapabilitySet,
    pub(crate) custom: Custom<E>,
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
            custom: Custom::default(),
            random: Random::default(),
        }
    }

    /// The settings, with the revisions that were chosen.
    pub(crate) fn chosen_settings(&self) -> Settings {
        Settings { versions: self.versions, ..self.settings.clone() }
    }
}

/// What of a list of capabilities is there and not withheld, whether by itself or as a part of something.
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

/// The methods that every builder has. `$End` is whose builder it is.
macro_rules! common_methods {
    ($End:ident) => {
        /// Says more of itself than a name and a version.
        pub fn info(mut self, f: impl FnOnce(&mut mcp_proto::schema::Implementation)) -> Self {
            f(&mut self.common.info);
            self
        }

        /// Bounds and times of the connections. The [revisions](Self::versions) are not taken from here.
        pub fn settings(mut self, settings: mcp_proto::connection::Settings) -> Self {
            self.common.settings = settings;
            self
        }

        /// Bounds how long a handler may take to answer a request, from when the request came in. Then the peer gets an error,
        /// and the work on the request is cancelled. Default: none, since handlers may take as long as they like.
        ///
        /// This is [`reply_timeout`](mcp_proto::connection::Settings::reply_timeout) of the [settings](Self::settings), which
        /// replace it if they are given after it.
        pub fn reply_timeout(mut self, time: std::time::Duration) -> Self {
            self.common.settings.reply_timeout = Some(time);
            self
        }

        /// The revisions to speak, whatever the settings say. Default: all of them. A host that speaks both eras asks each
        /// server first which one it is of, and waits for the answer no longer than the
        /// [settings](mcp_proto::connection::Settings::probe_timeout) say.
        pub fn versions(mut self, versions: mcp_proto::protocol::VersionSet) -> Self {
            self.common.versions = versions;
            self
        }

        /// Hears a notification of the specification: the type of its params says which one.
        ///
        /// Notifications are heard one after the other, and before the requests that came behind them. What is registered
        /// last for a notification is what hears it.
        pub fn on<N: mcp_proto::schema::Notification>(
            mut self,
            f: impl Fn(N, crate::outbound::peer::Peer<$End>) + Send + Sync + 'static,
        ) -> Self {
            self.common.custom.listen(N::METHOD.as_str(), f);
            self
        }

        /// As [`on`](Self::on), for code that hands back a future. The next notification is heard when it is done.
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

        /// Hears a notification that is not in the specification.
        pub fn on_notification<P: serde_core::de::DeserializeOwned>(
            mut self,
            method: &str,
            f: impl Fn(P, crate::outbound::peer::Peer<$End>) + Send + Sync + 'static,
        ) -> Self {
            self.common.custom.listen(method, f);
            self
        }

        /// As [`on_notification`](Self::on_notification), for code that hands back a future.
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

        /// Answers a request that is not in the specification. The result has to be written as a JSON object.
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

        /// As [`on_request`](Self::on_request), for code that hands back a future.
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

        /// Runs code around every response: to refuse requests, to count them, to see how they ended and how long that
        /// took. Functions and futures are wrapped alike; code that blocks in it delays other futures.
        ///
        /// It sees each request that this side answers, also those that are answered without a handler, such as lists and calls
        /// of tools that there are not. It runs the [`Next`](crate::Next) or refuses, and what it refuses with is an error of the
        /// protocol, also for tools. What comes first is outermost. A panic in it fails the one request.
        ///
        /// A request that [asks](crate::CallError::InputRequired) passes again with the responses (2026-07-28). Of a
        /// request that becomes a task, the work on the task is wrapped. Not wrapped are the handshake, pings,
        /// subscriptions (2026-07-28), requests about the tasks of a session (2025-11-25), and notifications, which
        /// cannot be refused.
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
            self.common.custom.wrap(crate::inbound::middleware::layer(f));
            self
        }

        /// Says which distributed trace the code that runs is part of: requests of ours belong to it, and say so in their
        /// `_meta`. Without it, or if it does not know, what is asked on behalf of a request belongs to the trace of that one, and
        /// all else to none, unless it is [said](crate::Peer::with_trace). It is asked for each request, and should be quick.
        pub fn trace_with(
            mut self,
            f: impl Fn() -> Option<mcp_proto::schema::TraceContext> + Send + Sync + 'static,
        ) -> Self {
            self.common.custom.tracer = Some(std::sync::Arc::new(f));
            self
        }

        /// Hears what the peer does wrong, and what it complains of. It should not take long.
        pub fn on_fault(mut self, f: impl Fn(crate::inbound::fault::Fault) + Send + Sync + 'static) -> Self {
            self.common.custom.critic = Some(std::sync::Arc::new(f));
            self
        }

        /// Declares something that is not in the specification.
        pub fn experimental(mut self, name: impl Into<String>, settings: mcp_proto::wire::JsonObject) -> Self {
            self.common.experimental.insert(name, settings);
            self
        }

        /// Does not declare a capability and what is part of it, although there is something behind it.
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
