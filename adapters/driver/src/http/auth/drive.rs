//! The task that performs the actions of an authorization.

use std::{
    future::poll_fn,
    io::{self, ErrorKind},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use http::{HeaderName, header};
use mcp_proto::auth::{
    AuthClient, RedirectError, Secret, Url, UrlRefused, canonical,
    client::{Action, ActionId, Claims, Request, Response, StoreReply},
    document::MAX_LEN,
};

use crate::{
    http::auth::{
        provider::{DPOP_NONCE, Shared},
        signer::AssertionRequest,
        transport::AuthRuntime,
        user_agent::{Redirected, Redirects},
    },
    runtime::{Timer, race, timeout, unblock},
};

/// The timeout of an HTTP request, with its connection and its response, and of a call of a store.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The interval at which the store is read while an authorization waits for the user.
const STORE_INTERVAL: Duration = Duration::from_secs(3);

/// A guard that reports on drop that no task performs actions any more.
pub(super) struct DriveGuard<R: AuthRuntime>(Option<Arc<Shared<R>>>);

impl<R: AuthRuntime> DriveGuard<R> {
    pub(super) const fn new(shared: Arc<Shared<R>>) -> Self {
        Self(Some(shared))
    }
}

impl<R: AuthRuntime> Drop for DriveGuard<R> {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.state.update(|state| state.is_driven = false);
        }
    }
}

/// The next step of the task.
enum Next {
    Action(Action),
    /// No flow is in progress.
    Over,
    /// The task waits for another change than the counted ones: the result of an action was lost, or the state changes
    /// from outside.
    Waits(u64),
}

/// Performs actions until no flow is in progress.
pub(super) async fn run<R: AuthRuntime>(runtime: R, mut guard: DriveGuard<R>) {
    let Some(shared) = guard.0.clone() else { return };
    loop {
        let now = shared.now();
        let next = shared.state.update(|state| {
            state.report(|client| client.handle_timeout(now));
            match state.client.poll_action() {
                Some(action) => Next::Action(action),
                None if state.client.is_busy() => Next::Waits(state.changes),
                None => {
                    // Under the same lock, so that a later flow finds that no task performs its actions.
                    state.is_driven = false;
                    Next::Over
                }
            }
        });
        match next {
            Next::Action(action) => perform(&runtime, &shared, action).await,
            Next::Waits(changes) => {
                let is_changed = |changed: u64, is_busy: bool| (changed != changes || !is_busy).then_some(());
                shared.state.wait_for(|state| is_changed(state.changes, state.client.is_busy())).await;
            }
            Next::Over => {
                guard.0 = None;
                return;
            }
        }
    }
}

async fn perform<R: AuthRuntime>(runtime: &R, shared: &Arc<Shared<R>>, action: Action) {
    match action {
        Action::Request(request) => {
            let mut reply = Reply { shared, failure: Some(Failure::Response(request.id)) };
            let (id, response) = (request.id, exchange(runtime, shared, request).await);
            let now = shared.now();
            reply.report(|client| match &response {
                Ok(response) => {
                    let header = |name: HeaderName| response.headers().get(name)?.to_str().ok();
                    let (location, dpop_nonce) = (header(header::LOCATION), header(DPOP_NONCE));
                    let body = response.body().as_slice();
                    let response = Response { status: response.status().as_u16(), location, dpop_nonce, body };
                    client.handle_response(now, id, Some(response));
                }
                Err(error) => match error.get_ref().and_then(|why| why.downcast_ref::<UrlRefused>()) {
                    Some(refused) => client.handle_refused_address(now, id, *refused),
                    None => client.handle_response(now, id, None),
                },
            });
        }
        Action::OpenBrowser(url) => ask(runtime, shared, url).await,
        Action::Load { id, key } => {
            let mut reply = Reply { shared, failure: Some(Failure::Loaded(id)) };
            let store = shared.store.clone();
            let found = unblock_for(runtime, move || store.load(key.expose())).await;
            reply.report(|client| client.handle_loaded(id, found.map_err(|_| ())));
        }
        Action::Store { id, key, expected, credentials } => {
            let mut reply = Reply { shared, failure: Some(Failure::Stored(id)) };
            let store = shared.store.clone();
            let replace = move || store.replace(key.expose(), expected, credentials.as_deref());
            let stored = unblock_for(runtime, replace).await;
            reply.report(|client| client.handle_stored(id, stored.unwrap_or(StoreReply::Failed)));
        }
        Action::Sign { id, claims } => {
            let mut reply = Reply { shared, failure: Some(Failure::Signed(id)) };
            let signed = sign(shared, &claims);
            reply.report(|client| client.handle_signed(id, signed.as_ref()));
        }
        Action::Assertion { id, kind, audience, resource } => {
            let mut reply = Reply { shared, failure: Some(Failure::Asserted(id)) };
            let jwt = match &shared.assertions {
                Some(assertions) => {
                    let jwt = assertions(AssertionRequest { kind, audience, resource });
                    timeout(runtime, time_left(shared), jwt).await.and_then(Result::ok)
                }
                None => None,
            };
            reply.report(|client| client.handle_assertion(id, jwt.as_ref()));
        }
        // An action that this version does not know. Its flow does not continue.
        _ => {}
    }
}

/// Returns the timeout of the next action, which is not longer than the time that its flow has left.
fn time_left<R: AuthRuntime>(shared: &Shared<R>) -> Duration {
    let until = shared.state.read(|state| state.client.poll_timeout());
    until.map_or(TIMEOUT, |until| TIMEOUT.min(until.saturating_since(shared.now().instant)))
}

/// Returns the result of a function on another thread, or an error after the timeout. The function is not interrupted.
async fn unblock_for<R: AuthRuntime, T: Send + 'static>(
    runtime: &R,
    f: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    timeout(runtime, TIMEOUT, unblock(runtime, f)).await.unwrap_or_else(|| Err(ErrorKind::TimedOut.into()))
}

fn sign<R: AuthRuntime>(shared: &Shared<R>, claims: &Claims) -> Option<Secret> {
    match claims {
        Claims::Client(claims) => shared.signer.as_ref()?.sign(claims).ok(),
        Claims::Proof(claims) => shared.proofs.as_ref()?.sign(claims).ok(),
        _ => None,
    }
}

/// The failure that is reported for an action.
enum Failure {
    Response(ActionId),
    Loaded(ActionId),
    Stored(ActionId),
    Signed(ActionId),
    Asserted(ActionId),
    Browser,
}

/// A reporter of the result of an action. If it is dropped without a result, it reports a failure.
struct Reply<'a, R: AuthRuntime> {
    shared: &'a Shared<R>,
    failure: Option<Failure>,
}

impl<R: AuthRuntime> Reply<'_, R> {
    fn report(&mut self, report: impl FnOnce(&mut AuthClient)) {
        self.failure = None;
        self.shared.state.update(|state| state.report(report));
    }
}

impl<R: AuthRuntime> Drop for Reply<'_, R> {
    fn drop(&mut self) {
        let now = self.shared.now();
        match self.failure.take() {
            Some(Failure::Response(id)) => self.report(|client| client.handle_response(now, id, None)),
            Some(Failure::Loaded(id)) => self.report(|client| client.handle_loaded(id, Err(()))),
            Some(Failure::Stored(id)) => self.report(|client| client.handle_stored(id, StoreReply::Failed)),
            Some(Failure::Signed(id)) => self.report(|client| client.handle_signed(id, None)),
            Some(Failure::Asserted(id)) => self.report(|client| client.handle_assertion(id, None)),
            Some(Failure::Browser) => {
                let reason = "the task that waits for the redirect has ended";
                self.report(|client| client.handle_not_opened(reason.to_owned()));
            }
            None => {}
        }
    }
}

async fn exchange<R: AuthRuntime>(
    runtime: &R,
    shared: &Shared<R>,
    request: Request,
) -> io::Result<http::Response<Vec<u8>>> {
    let policy = shared.state.read(|state| state.client.policy().clone());
    let exchange = shared.transport.exchange(runtime, request, policy);
    let response = timeout(runtime, time_left(shared), exchange).await;
    let mut response = response.unwrap_or_else(|| Err(ErrorKind::TimedOut.into()))?;
    // One byte more than the limit shows that the document is too long.
    response.body_mut().truncate(MAX_LEN + 1);
    Ok(response)
}

/// Runs the user agent, until the authorization ends with a redirect, a timeout or a sign-out.
async fn ask<R: AuthRuntime>(runtime: &R, shared: &Arc<Shared<R>>, url: Url) {
    let mut reply = Reply { shared, failure: Some(Failure::Browser) };
    let Some(user_agent) = shared.user_agent.clone() else {
        return reply.report(|client| client.handle_not_opened("there is no user agent".to_owned()));
    };
    let Some(until) = shared.state.read(|state| state.client.poll_timeout()) else { return };
    let (end, mut timer) = (shared.instant(until), runtime.timer());
    let redirects = {
        let shared = shared.clone();
        Redirects::new(move |query| redirected(&shared, query))
    };
    // The user agent shows a page after the redirect, and ends after that.
    let mut over = pin!(shared.state.wait_for(|state| (!state.client.waits_for_user()).then_some(())));
    let mut grace = None;
    let late = poll_fn(|cx| {
        if grace.is_none() && over.as_mut().poll(cx).is_ready() {
            grace = Some(Instant::now() + Duration::from_secs(1));
        }
        match timer.poll_until(grace.unwrap_or(end).min(end), cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        }
    });
    let late = async { _ = race(read_store(runtime, shared), late).await };
    let authorized = race(late, user_agent.authorize(url, redirects)).await;
    let now = shared.now();
    reply.report(|client| match authorized {
        None => client.handle_timeout(now),
        // The user has closed the user agent, unless a redirect has ended the authorization.
        Some(Ok(())) => client.handle_cancelled(),
        Some(Err(error)) => client.handle_not_opened(error.to_string()),
    });
}

/// Reads the store at intervals while the authorization waits for the user, because another process may get tokens.
async fn read_store<R: AuthRuntime>(runtime: &R, shared: &Arc<Shared<R>>) {
    let (key, mut timer) = (canonical(&shared.server), runtime.timer());
    loop {
        let next = Instant::now() + STORE_INTERVAL;
        poll_fn(|cx| timer.poll_until(next, cx)).await;
        let (store, key) = (shared.store.clone(), key.clone());
        if let Ok(found) = unblock_for(runtime, move || store.load(&key)).await {
            shared.state.update(|state| state.client.handle_stored_meanwhile(found));
        }
    }
}

fn redirected<R: AuthRuntime>(shared: &Shared<R>, query: &str) -> Redirected {
    let now = shared.now();
    match shared.state.update(|state| state.client.handle_redirect(now, query)) {
        Ok(()) => Redirected::Accepted,
        Err(RedirectError::Denied(_) | RedirectError::NoCode | RedirectError::Expired | RedirectError::Used) => {
            Redirected::Refused
        }
        Err(_) => Redirected::Ignored,
    }
}
