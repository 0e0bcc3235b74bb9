//! Export and import of the state of a session.

use alloc::sync::Arc;

use crate::{
    connection::{
        api::{Connection, ServerRole},
        engine::{Engine, RoleState},
        state::{client_params::kept_bytes, tags::FIRST_ID},
        types::{Event, ServerConfig, SessionSnapshot},
    },
    protocol::{Era, Phase},
    rpc::{Outgoing, Timestamp},
    schema::LoggingLevel,
};

impl Connection<ServerRole> {
    /// Creates a server that continues a session of another process. The ids of its requests begin after `calls`, so
    /// that several processes can send requests within one session.
    ///
    /// Returns `None` if the server does not serve the revision of the session.
    #[must_use]
    pub fn resumed(
        config: impl Into<Arc<ServerConfig>>,
        snapshot: &SessionSnapshot,
        calls: u64,
        now: Timestamp,
    ) -> Option<Self> {
        let config = config.into();
        let SessionSnapshot { version, client, .. } = snapshot;
        if version.era() != Era::Legacy || !config.settings.versions.contains(*version) {
            return None;
        }
        let mut resumed = Self::new(config, now);
        let engine = &mut resumed.engine;
        if let RoleState::Server { client: known, .. } = &mut engine.role_state {
            engine.described = u32::try_from(kept_bytes(client, 0)).unwrap_or(u32::MAX);
            *known = Some(client.clone());
        }
        engine.peer = client.capabilities.set();
        engine.version = Some(*version);
        engine.phase = Phase::Initializing;
        if calls > 0 {
            *engine.calls = Outgoing::new(FIRST_ID.saturating_add(calls));
        }
        resumed.apply_snapshot(snapshot);
        Some(resumed)
    }

    /// Returns the state of the session. `None` before the handshake, and in the modern era, which has no sessions.
    #[must_use]
    pub fn snapshot(&self) -> Option<SessionSnapshot> {
        let Engine { phase, version, log_level, .. } = &self.engine;
        let ready = *phase >= Phase::Ready;
        Some(SessionSnapshot { version: (*version)?, client: self.client()?.clone(), ready, log_level: *log_level })
    }

    /// Returns the part of the [`snapshot`](Self::snapshot) that can change: whether the client is ready, and its log
    /// level.
    #[must_use]
    pub fn mutable_state(&self) -> (bool, Option<LoggingLevel>) {
        (self.engine.phase >= Phase::Ready, self.engine.log_level)
    }

    /// Applies changes of the session's state that the client made through another process.
    pub fn apply_snapshot(&mut self, snapshot: &SessionSnapshot) {
        let engine = &mut self.engine;
        engine.log_level = snapshot.log_level.or(engine.log_level);
        if snapshot.ready && engine.phase == Phase::Initializing {
            engine.phase = Phase::Ready;
            engine.events.push_back(Event::Ready);
        }
    }
}
