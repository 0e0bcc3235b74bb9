//! The part of the state that depends on the role.

use alloc::{boxed::Box, sync::Arc};
use core::fmt;

use crate::{
    connection::{
        engine::client_steps::Steps,
        state::{client_start::StartState, outgoing_meta::ClientIdentity},
        types::{ClientConfig, Opening, ServerConfig, Settings},
    },
    protocol::ProtocolVersion,
    schema::{At, Implementation, InitializeParams, InitializeResult},
};

/// The part of the state that depends on the role.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "a process has many servers, and each needs the large variant")]
pub(crate) enum RoleState {
    Client {
        config: Arc<ClientConfig>,
        start_state: StartState,
        server: Option<Box<InitializeResult>>,
        identity: Option<ClientIdentity>,
        /// The principal of the requests' credentials, if known.
        principal: Option<Arc<str>>,
        /// The steps that only a client takes.
        steps: &'static Steps,
    },
    Server {
        config: Arc<ServerConfig>,
        client: Option<InitializeParams>,
    },
}

/// Omits the configuration, which never changes.
impl fmt::Debug for RoleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client { config: _, start_state, server, identity: _, principal: _, steps: _ } => f
                .debug_struct("Client")
                .field("start_state", start_state)
                .field("server", server)
                .finish_non_exhaustive(),
            Self::Server { config: _, client } => {
                f.debug_struct("Server").field("client", client).finish_non_exhaustive()
            }
        }
    }
}

impl RoleState {
    pub(crate) fn client(config: Arc<ClientConfig>, opening: Opening) -> Self {
        let newest = ProtocolVersion::LATEST;
        // Only a request of the modern era carries the identity of the client.
        let identity = config.settings.versions.contains(newest).then(|| {
            let info = At(&config.info, Some(newest)).to_json().ok()?;
            let capabilities = At(&config.capabilities, Some(newest)).to_json().ok()?;
            Some(ClientIdentity::new(newest, info, capabilities))
        });
        Self::Client {
            config,
            start_state: StartState::new(opening),
            server: None,
            identity: identity.flatten(),
            principal: None,
            steps: Steps::ALL,
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        match self {
            Self::Client { config, .. } => &config.settings,
            Self::Server { config, .. } => &config.settings,
        }
    }

    /// Returns whether a server's application confirms subscriptions that name resources.
    pub(crate) fn confirms_subscriptions(&self) -> bool {
        match self {
            Self::Client { .. } => false,
            Self::Server { config, .. } => config.confirm_subscriptions,
        }
    }

    pub(crate) fn hash_seed(&self) -> u64 {
        match self {
            Self::Client { config, .. } => config.hash_seed,
            Self::Server { config, .. } => config.hash_seed,
        }
    }

    /// Returns the identity that a client puts into its requests.
    pub(crate) const fn identity(&self) -> Option<&ClientIdentity> {
        match self {
            Self::Client { identity, .. } => identity.as_ref(),
            Self::Server { .. } => None,
        }
    }

    /// Returns the principal of a client.
    pub(crate) fn principal(&self) -> Option<Arc<str>> {
        match self {
            Self::Client { principal, .. } => principal.clone(),
            Self::Server { .. } => None,
        }
    }

    /// Returns the steps that only a client takes, or `None` for a server.
    pub(crate) const fn steps(&self) -> Option<&'static Steps> {
        match self {
            Self::Client { steps, .. } => Some(steps),
            Self::Server { .. } => None,
        }
    }

    /// Returns the implementation info of a server.
    pub(crate) fn server_info(&self) -> Option<&Implementation> {
        match self {
            Self::Client { .. } => None,
            Self::Server { config, .. } => Some(&config.info),
        }
    }
}
