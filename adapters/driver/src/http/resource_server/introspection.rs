//! Token introspection (RFC 7662), for access tokens that only their authorization server can verify.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use http::{HeaderValue, Request, StatusCode, header};
use mcp_proto::auth::{Secret, Url, UrlError, basic_credentials, form_encode};
use mcp_service::{Deferred, driver_api::WaitQueue};

use super::{
    claims::ClaimRules,
    json::{Invalid, members, object},
    secure_url,
    single_flight::{Demand, SingleFlight},
    verifier::{AccessToken, LEEWAY, TokenError, TokenVerifier},
};
use crate::{http::fetch::HttpFetch, sync::lock};

/// The most bytes of a response.
const MAX_LEN: usize = 64 * 1024;

/// The most tokens whose responses are cached: this number of active tokens, and the same number of inactive ones.
const MAX_CACHED: usize = 1024;

/// The most bytes of a response that is cached.
const MAX_CACHED_LEN: usize = 8 * 1024;

/// The longest time to live that can be set.
const MAX_CACHE_TTL: Duration = Duration::from_secs(60 * 60);

/// The time to live of refusals. Repeated requests with a refused token cause no further introspection.
const NEGATIVE_CACHE_TTL: Duration = Duration::from_secs(5);

/// The most tokens that are introspected at the same time.
const MAX_LOOKUPS: usize = 32;

/// Verifies access tokens by requests to their authorization server.
///
/// The response about an active token is cached for a short time, and not longer than the token is valid. A refusal is
/// cached for five seconds. Responses of more than 8 KiB are not cached. Requests with the same token wait for one
/// response. At most 32 tokens are introspected at the same time, and requests with other tokens wait. A token with
/// another audience than this server, or without one, is refused.
#[derive(Clone)]
pub struct IntrospectionVerifier(Arc<Inner>);

struct Inner {
    url: Url,
    issuer: String,
    audiences: Vec<String>,
    authorization: Secret,
    client: Box<dyn HttpFetch>,
    cache_ttl: Duration,
    state: Mutex<State>,
    /// Requests that wait for a free lookup.
    waiting: WaitQueue,
    now: fn() -> (Instant, SystemTime),
}

type Verified = Result<AccessToken, TokenError>;

/// The hash of a token. Tokens themselves are not stored.
type Id = [u8; 32];

#[derive(Default)]
struct State {
    active: Cache<AccessToken>,
    refused: Cache<TokenError>,
    lookups: BTreeMap<Id, Waiters>,
}

/// A request to the authorization server about a token, for all requests with that token.
#[derive(Default)]
struct Lookup {
    flight: SingleFlight,
    result: Mutex<Option<Verified>>,
}

/// A lookup without a result, and the number of requests that wait for it.
#[derive(Default)]
struct Waiters {
    lookup: Arc<Lookup>,
    count: usize,
}

/// A request that waits for a lookup. Dropping the last one cancels the lookup.
struct Waiter<'a> {
    inner: &'a Inner,
    id: Id,
    lookup: Arc<Lookup>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.inner.state);
        let mut cancelled = None;
        if let Entry::Occupied(mut entry) = state.lookups.entry(self.id)
            && Arc::ptr_eq(&entry.get().lookup, &self.lookup)
        {
            entry.get_mut().count -= 1;
            if entry.get().count == 0 {
                cancelled = Some(entry.remove());
            }
        }
        drop(state);
        drop(cancelled);
        self.inner.waiting.notify_one();
    }
}

/// A cache of results by token, each with its expiry.
struct Cache<T>(BTreeMap<Id, (Instant, T)>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Clone> Cache<T> {
    fn get(&mut self, id: &Id, now: Instant) -> Option<T> {
        let (until, value) = self.0.get(id)?;
        if now < *until {
            return Some(value.clone());
        }
        self.0.remove(id);
        None
    }

    fn insert(&mut self, id: Id, value: T, now: Instant, until: Instant) {
        if self.0.len() >= MAX_CACHED {
            self.0.retain(|_, (until, _)| now < *until);
        }
        if self.0.len() < MAX_CACHED && now < until {
            self.0.insert(id, (until, value));
        }
    }
}

/// The state of a token when a request with it arrives.
enum Found<'a> {
    Known(Verified),
    Lookup(Waiter<'a>),
}

impl IntrospectionVerifier {
    /// Creates a verifier that introspects tokens of `issuer` for `resource` at `url`. This server authenticates there
    /// with a client id and a secret (`client_secret_basic`).
    ///
    /// # Errors
    /// If `url` is neither an `https` URL nor an `http` URL on the loopback interface.
    pub fn new(
        url: &str,
        (issuer, resource): (&str, &str),
        (client_id, secret): (&str, &Secret),
        client: impl HttpFetch,
    ) -> Result<Self, UrlError> {
        Ok(Self(Arc::new(Inner {
            url: secure_url(url)?,
            issuer: issuer.to_owned(),
            audiences: vec![resource.to_owned()],
            authorization: basic_credentials(client_id, secret),
            client: Box::new(client),
            cache_ttl: Duration::from_secs(30),
            state: Mutex::default(),
            waiting: WaitQueue::default(),
            now: || (Instant::now(), SystemTime::now()),
        })))
    }

    /// Sets the longest time for which a response is cached. A revoked token is accepted until then. Default 30
    /// seconds, at most an hour.
    ///
    /// # Panics
    /// If the verifier was cloned before.
    #[must_use]
    pub fn cache_ttl(mut self, time: Duration) -> Self {
        self.inner().cache_ttl = time.min(MAX_CACHE_TTL);
        self
    }

    fn inner(&mut self) -> &mut Inner {
        Arc::get_mut(&mut self.0).expect("a verifier is configured before it is cloned")
    }
}

impl Inner {
    async fn verify(self: &Arc<Self>, token: Secret) -> Verified {
        let id = token.sha256();
        // Requests with a cached token do not wait for other tokens.
        if let Some(known) = self.known(&mut lock(&self.state), &id) {
            return known;
        }
        let waiter = match self.waiting.acquire(|| self.find(id)).await {
            Found::Known(known) => return known,
            Found::Lookup(waiter) => waiter,
        };
        let lookup = &waiter.lookup;
        let demand = |_| if lock(&lookup.result).is_some() { Demand::Nothing } else { Demand::Wait };
        let begin = || {
            let (inner, lookup) = (self.clone(), Arc::downgrade(lookup));
            async move {
                let begin = (inner.now)();
                let response = inner.request(&token).await;
                let verified = inner.cache(id, begin, response);
                if let Some(lookup) = lookup.upgrade() {
                    inner.finish(id, &lookup, verified);
                }
            }
        };
        lookup.flight.run(demand, begin).await;
        let verified = lock(&lookup.result).clone();
        verified.unwrap_or_else(|| Err(TokenError::Unavailable("the introspection has ended".into())))
    }

    /// Returns the cached result of a token.
    fn known(&self, state: &mut State, id: &Id) -> Option<Verified> {
        let (now, _) = (self.now)();
        let refused = |state: &mut State| state.refused.get(id, now).map(Err);
        state.active.get(id, now).map(Ok).or_else(|| refused(state))
    }

    /// Returns the cached result of a token, or its lookup, unless there are too many.
    fn find(&self, id: Id) -> Option<Found<'_>> {
        let mut state = lock(&self.state);
        if let Some(known) = self.known(&mut state, &id) {
            return Some(Found::Known(known));
        }
        let is_full = state.lookups.len() >= MAX_LOOKUPS;
        let waiters = match state.lookups.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if is_full => return None,
            Entry::Vacant(entry) => entry.insert(Waiters::default()),
        };
        waiters.count += 1;
        Some(Found::Lookup(Waiter { inner: self, id, lookup: waiters.lookup.clone() }))
    }

    /// Sets the result of a lookup. Later requests begin a new lookup, unless the result is cached.
    fn finish(&self, id: Id, lookup: &Arc<Lookup>, verified: Verified) {
        let mut state = lock(&self.state);
        *lock(&lookup.result) = Some(verified);
        if let Entry::Occupied(entry) = state.lookups.entry(id)
            && Arc::ptr_eq(&entry.get().lookup, lookup)
        {
            entry.remove();
        }
    }

    /// Caches the response to a lookup that began at this time.
    fn cache(
        &self,
        id: Id,
        begin: (Instant, SystemTime),
        response: Result<(AccessToken, usize), TokenError>,
    ) -> Verified {
        let (now, _) = (self.now)();
        let (token, length) = match response {
            Ok(found) => found,
            Err(why) => {
                if !matches!(why, TokenError::Unavailable(_)) {
                    let until = begin.0 + NEGATIVE_CACHE_TTL.min(self.cache_ttl);
                    lock(&self.state).refused.insert(id, why.clone(), now, until);
                }
                return Err(why);
            }
        };
        let left = token.expires.map_or(Duration::MAX, |at| at.duration_since(begin.1).unwrap_or_default());
        if left.is_zero() {
            return Err(TokenError::Expired);
        }
        if length <= MAX_CACHED_LEN {
            lock(&self.state).active.insert(id, token.clone(), now, begin.0 + left.min(self.cache_ttl));
        }
        Ok(token)
    }

    /// Returns the response of the authorization server about a token, and its length.
    async fn request(&self, token: &Secret) -> Result<(AccessToken, usize), TokenError> {
        let unavailable = |why: String| TokenError::Unavailable(why);
        let body = format!("token={}&token_type_hint=access_token", form_encode(token.expose()));
        let mut authorization = HeaderValue::try_from(self.authorization.expose())
            .map_err(|_| unavailable("the credentials are malformed".into()))?;
        authorization.set_sensitive(true);
        let request = Request::post(self.url.as_str())
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .header(header::AUTHORIZATION, authorization)
            .body(body.into_bytes())
            .map_err(|error| unavailable(error.to_string()))?;
        let response = self.client.fetch(request, MAX_LEN).await.map_err(|error| unavailable(error.to_string()))?;
        if response.status() != StatusCode::OK {
            return Err(unavailable(format!("the status of the introspection is {}", response.status().as_u16())));
        }
        Ok((self.read(response.body())?, response.body().len()))
    }

    fn read(&self, body: &[u8]) -> Result<AccessToken, TokenError> {
        let malformed = || TokenError::Unavailable("the introspection is malformed".into());
        let claims = object(body).ok_or_else(malformed)?;
        let [active, kind] = members(&claims, ["active", "token_type"]).map_err(|Invalid| malformed())?;
        match active.flag() {
            Ok(Some(true)) => {}
            Ok(Some(false)) => return Err(TokenError::Inactive),
            _ => return Err(malformed()),
        }
        let kind =
            kind.text().map_err(|Invalid| TokenError::Claim("token_type"))?.map(|kind| kind.to_ascii_lowercase());
        let is_bound = kind.as_deref() == Some("dpop");
        if !is_bound && !matches!(kind.as_deref(), None | Some("bearer" | "access_token")) {
            return Err(TokenError::Type);
        }
        let rules = ClaimRules {
            issuer: &self.issuer,
            audiences: &self.audiences,
            leeway: LEEWAY,
            requires_issuer_and_expiry: false,
        };
        // For a malformed response, the token is not refused.
        let token = rules.check(claims, (self.now)().1);
        let token = token.map_err(|why| if why == TokenError::Malformed { malformed() } else { why })?;
        // Otherwise the key to which it is bound is unknown.
        if is_bound && token.key_thumbprint.is_none() { Err(TokenError::Claim("cnf")) } else { Ok(token) }
    }
}

impl TokenVerifier for IntrospectionVerifier {
    fn verify(&self, token: &Secret) -> Deferred<Result<AccessToken, TokenError>> {
        let (inner, token) = (self.0.clone(), token.clone());
        Deferred::new(async move { inner.verify(token).await })
    }
}

impl fmt::Debug for IntrospectionVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntrospectionVerifier").field("url", &self.0.url).finish_non_exhaustive()
    }
}
