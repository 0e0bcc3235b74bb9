//! The session of one connection: it dispatches each event.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize},
    },
};

use mcp_proto::connection::{ClientRole, CloseReason, Event, Outcome, Principal, ServerRole};

use super::{
    custom_methods::Dispatch,
    fault::Fault,
    in_flight::InFlightTable,
    log,
    request::InboundRequest,
    session_tasks::TaskStore,
    state::{Role, SessionState},
};
use crate::{
    driver_api::{
        connection_handle::{Application, ConnectionHandle, SentRequests},
        job::Job,
    },
    outbound::{calls::Calls, peer::Peer, subscriptions::Subscriptions},
};

/// The state and the dispatch of one connection. Each connection needs its own, from
/// [`Host::session`](crate::Host::session) or [`Service::session`](crate::Service::session).
pub struct Session<E: Role> {
    shared: Arc<SessionState<E>>,
}

/// The session of a client.
pub type ClientSession = Session<ClientRole>;

/// The session of a server.
pub type ServerSession = Session<ServerRole>;

impl<E: Role> Session<E> {
    /// Returns the peer of the connection that this session runs on.
    #[must_use]
    pub fn peer(&self, connection: &Arc<dyn ConnectionHandle<E>>) -> Peer<E> {
        Peer::new(connection.clone(), self.shared.calls.clone())
    }

    /// Returns the table of the requests that this side has in flight.
    #[must_use]
    pub fn calls(&self) -> &Arc<Calls<E>> {
        &self.shared.calls
    }

    /// Returns the application of the session: the [`Host`](crate::Host) or the [`Service`](crate::Service).
    #[must_use]
    pub fn app(&self) -> &E::App {
        &self.shared.app
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn shared(&self) -> &Arc<SessionState<E>> {
        &self.shared
    }
}

impl<E: Dispatch> Session<E> {
    pub(crate) fn new(app: E::App, tasks: TaskStore<E::InFlight>, subscriptions: Subscriptions) -> Self {
        let tracer = E::custom(&app).tracer.clone();
        let shared = Arc::new(SessionState {
            app,
            calls: Arc::new(Calls::with_subscriptions(subscriptions, tracer)),
            in_flight: InFlightTable::default(),
            tasks,
            state: E::State::default(),
            serial_jobs: AtomicUsize::new(0),
            registry_id: AtomicU64::new(0),
        });
        E::on_start(&shared);
        Self { shared }
    }

    fn handle_event(&self, connection: &Arc<dyn ConnectionHandle<E>>, event: Event<'_>) -> Option<Job> {
        let shared = &self.shared;
        shared.calls.attach(connection);
        // Most events of a server are requests, which do not concern calls.
        let event = match event {
            Event::Request { key, method, params } => {
                return shared.handle_request(&InboundRequest { connection, key, method, params });
            }
            event => event,
        };
        if let Event::Response { call, outcome } = &event {
            if let Outcome::Result(_) | Outcome::Error(_) | Outcome::Malformed = outcome {
                E::on_response(shared, *call);
            }
            if let Outcome::Error(error) = outcome {
                E::on_error_response(shared, error);
            }
        }
        match shared.calls.handle(event)? {
            Event::Notification { method, params, related_call } => {
                shared.handle_notification(connection, &method, params, related_call)
            }
            Event::Late(call) => {
                E::on_late_response(shared, call);
                None
            }
            Event::Cancelled { key, cause } => {
                shared.cancelled(connection, key, cause);
                None
            }
            Event::PeerError(error) => shared.fault(Fault::PeerError(error)),
            Event::Violation(violation) => shared.fault(Fault::Violation(violation.into_owned())),
            Event::Ready => {
                log::ready();
                E::on_ready(shared, connection);
                None
            }
            Event::Closed(reason) => {
                log::closed(&reason);
                shared.close();
                None
            }
            _ => None,
        }
    }
}

impl Application<ClientRole> for ClientSession {
    fn begin(&self, connection: &Arc<dyn ConnectionHandle<ClientRole>>) {
        self.shared.calls.attach(connection);
    }

    fn handle(&self, connection: &Arc<dyn ConnectionHandle<ClientRole>>, event: Event<'_>) -> Option<Job> {
        self.handle_event(connection, event)
    }
}

impl Application<ServerRole> for ServerSession {
    fn required_scopes(
        &self,
        connection: &Arc<dyn ConnectionHandle<ServerRole>>,
        sender: Option<&Principal>,
        requests: &mut SentRequests<'_>,
    ) -> Vec<Vec<String>> {
        self.shared.required_scopes(connection, sender, requests)
    }

    fn begin(&self, connection: &Arc<dyn ConnectionHandle<ServerRole>>) {
        self.shared.calls.attach(connection);
    }

    fn handle(&self, connection: &Arc<dyn ConnectionHandle<ServerRole>>, event: Event<'_>) -> Option<Job> {
        self.handle_event(connection, event)
    }
}

impl<E: Role> Drop for Session<E> {
    fn drop(&mut self) {
        // For a driver that was dropped without a last event. Otherwise it changes nothing.
        self.shared.calls.close(&CloseReason::ConnectionLost);
        self.shared.close();
        E::on_end(&self.shared);
    }
}

impl<E: Role> fmt::Debug for Session<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("app", &self.shared.app).finish_non_exhaustive()
    }
}
