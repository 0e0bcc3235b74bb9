//! The sources of the keys of an authorization server.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use http::{Request, header};
use mcp_proto::auth::{Url, UrlError};

use super::keys::{KeySet, KeySetError};
use crate::{
    http::{
        fetch::HttpFetch,
        resource_server::{
            secure_url,
            single_flight::{Demand, Progress, SingleFlight},
            verifier::TokenError,
        },
    },
    sync::lock,
};

/// The keys of an authorization server: fixed ones, or a set at a URL that the server changes from time to time.
#[derive(Clone)]
pub struct KeySource(Source);

#[derive(Clone)]
enum Source {
    Fixed(Arc<KeySet>),
    Remote(Arc<Remote>),
}

/// A set of keys at a URL.
struct Remote {
    url: Url,
    client: Box<dyn HttpFetch>,
    /// The least time between two fetches.
    interval: Duration,
    state: Mutex<State>,
    flight: SingleFlight,
    now: fn() -> Instant,
}

#[derive(Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    /// The start of the fetch of these keys.
    fetched: Option<Instant>,
    /// The start of the last fetch.
    tried: Option<Instant>,
    /// The error of the last fetch, if it failed.
    error: Option<String>,
    /// The last keys that differ from `keys`.
    earlier: Option<Arc<KeySet>>,
}

/// A fetch shows that a key is missing if it began at most this long before the request with that key has arrived.
const JOIN_WINDOW: Duration = Duration::from_secs(1);

/// The age at which keys are fetched again, even if no token needs others.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The age up to which keys are used if they cannot be fetched again.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The least time between two fetches while there are no keys, and the time after which a fetch is begun again that no
/// request waits for any more: its timeout may have passed.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

impl KeySource {
    /// Fetches the keys from the `jwks_uri` of an authorization server when they are needed.
    ///
    /// They are fetched again after an hour, and when a token names an unknown key: at most once a minute, and once for
    /// all requests that wait. If that fails, the known keys stay in use for a day. Without keys, a failed fetch is
    /// repeated after five seconds.
    ///
    /// A token is refused for its unknown key only if a fetch that the request has waited for has not found that key,
    /// or if the last fetch has not found a key that an earlier one has found. Otherwise the key may be new, and
    /// requests with it get the status 503 until the next fetch. A token that names no key is refused if it is signed
    /// with none of the keys, unless the last fetch has failed.
    ///
    /// # Errors
    /// If `url` is neither an `https` URL nor an `http` URL on the loopback interface.
    pub fn remote(url: &str, client: impl HttpFetch) -> Result<Self, UrlError> {
        Self::remote_with_interval(url, Duration::from_secs(60), client)
    }

    /// Fetches the keys as [`remote`](Self::remote) does, with another least time between two fetches.
    ///
    /// # Errors
    /// If `url` is neither an `https` URL nor an `http` URL on the loopback interface.
    pub fn remote_with_interval(url: &str, interval: Duration, client: impl HttpFetch) -> Result<Self, UrlError> {
        Self::with_clock(url, interval, client, Instant::now)
    }

    pub(super) fn with_clock(
        url: &str,
        interval: Duration,
        client: impl HttpFetch,
        now: fn() -> Instant,
    ) -> Result<Self, UrlError> {
        let (url, client, flight) = (secure_url(url)?, Box::new(client), SingleFlight::default());
        Ok(Self(Source::Remote(Arc::new(Remote { url, client, interval, state: Mutex::default(), flight, now }))))
    }

    /// Returns the keys, with the required key if the authorization server has it. `is_there` returns whether a set has
    /// that key. If the token does not name its key, the set may not show it, so the known keys are returned.
    pub(super) async fn find(
        &self,
        is_named: bool,
        is_there: impl Fn(&Arc<KeySet>) -> bool,
    ) -> Result<Arc<KeySet>, TokenError> {
        let remote = match &self.0 {
            Source::Fixed(keys) => return Ok(keys.clone()),
            Source::Remote(remote) => remote,
        };
        let (arrived, mut waits) = ((remote.now)(), false);
        let demand = |progress| {
            let demand = remote.demand(progress, &is_there);
            waits = demand != Demand::Nothing;
            demand
        };
        remote.flight.run(demand, || remote.clone().refresh()).await;
        let state = lock(&remote.state);
        let Some(keys) = remote.usable(&state).cloned() else {
            return Err(TokenError::Unavailable(state.error.clone().unwrap_or_default()));
        };
        if is_there(&keys) {
            return Ok(keys);
        }
        // The key may be new, and clients would treat a refusal as final.
        if let Some(error) = &state.error {
            return Err(TokenError::Unavailable(error.clone()));
        }
        let is_recent = |fetched: Instant| arrived.saturating_duration_since(fetched) <= JOIN_WINDOW;
        let is_missing = waits && state.fetched.is_some_and(is_recent);
        if is_named && !is_missing && !state.earlier.as_ref().is_some_and(is_there) {
            return Err(TokenError::Unavailable("its key is not fetched again yet".into()));
        }
        Ok(keys)
    }
}

impl Remote {
    fn since(&self, begin: Instant) -> Duration {
        (self.now)().saturating_duration_since(begin)
    }

    /// Returns the keys, unless they are too old.
    fn usable<'a>(&self, state: &'a State) -> Option<&'a Arc<KeySet>> {
        state.keys.as_ref().filter(|_| state.fetched.is_some_and(|fetched| self.since(fetched) < MAX_AGE))
    }

    /// Returns whether to fetch the keys now, or to wait until they are fetched.
    fn demand(&self, progress: Progress, is_there: impl Fn(&Arc<KeySet>) -> bool) -> Demand {
        let mut state = lock(&self.state);
        let has_key = self.usable(&state).is_some_and(is_there);
        let interval = if state.keys.is_some() { self.interval } else { self.interval.min(RETRY_INTERVAL) };
        let is_within = |time| state.tried.is_some_and(|tried| self.since(tried) < time);
        let is_soon = is_within(interval);
        let is_fresh = state.fetched.is_some_and(|fetched| self.since(fetched) < REFRESH_INTERVAL);
        match progress {
            _ if has_key && is_fresh => return Demand::Nothing,
            // Requests whose key is known do not wait for others.
            Progress::Driven => return if has_key { Demand::Nothing } else { Demand::Wait },
            // All requests that waited for it were dropped.
            Progress::Parked if is_soon && is_within(RETRY_INTERVAL) => return Demand::Wait,
            Progress::Idle if is_soon => return Demand::Nothing,
            Progress::Parked | Progress::Idle => {}
        }
        state.tried = Some((self.now)());
        Demand::Restart
    }

    async fn fetch(&self) -> Result<KeySet, String> {
        let request = Request::get(self.url.as_str()).header(header::ACCEPT, "application/json");
        let request = request.body(Vec::new()).map_err(|error| error.to_string())?;
        let response = self.client.fetch(request, KeySet::MAX_LEN + 1).await.map_err(|error| error.to_string())?;
        if response.status() != http::StatusCode::OK {
            return Err(format!("the status of the key set is {}", response.status().as_u16()));
        }
        KeySet::parse(response.body()).map_err(|error: KeySetError| error.to_string())
    }

    /// Fetches the keys. If that fails, the known keys stay.
    async fn refresh(self: Arc<Self>) {
        let begin = (self.now)();
        let fetched = self.fetch().await;
        let mut state = lock(&self.state);
        match fetched {
            Ok(keys) => {
                let last = state.keys.take();
                let is_same = last.as_ref().is_some_and(|last| last.is_same(&keys));
                let earlier = if is_same { state.earlier.take() } else { last };
                let (keys, fetched) = (Some(Arc::new(keys)), Some(begin));
                *state = State { keys, fetched, tried: state.tried, error: None, earlier };
            }
            Err(why) => state.error = Some(why),
        }
    }
}

impl From<KeySet> for KeySource {
    fn from(keys: KeySet) -> Self {
        Self(Source::Fixed(Arc::new(keys)))
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Fixed(keys) => f.debug_tuple("KeySource").field(keys).finish(),
            Source::Remote(remote) => f.debug_tuple("KeySource").field(&remote.url).finish(),
        }
    }
}
