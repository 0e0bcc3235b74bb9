//! A limit of the requests of each caller.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Mutex,
    time::Duration,
};

use mcp_proto::wire::{ErrorCode, ErrorObject, Json};
use serde_core::{Serialize, Serializer};

use super::caller::CallerKey;
use crate::{
    driver_api::deferred::Deferred,
    inbound::{
        failure::Failure,
        middleware::{Completed, IncomingRequest, Middleware, Next},
    },
    util::lock::lock,
};

/// The code of the error for a request beyond a [`RateLimit`]. Its data is an object with the member `retryAfterMs`:
/// the number of milliseconds after which the next request is accepted.
pub const RATE_LIMITED: ErrorCode = ErrorCode(429);

/// A function that selects the requests that count.
type Counts = Box<dyn Fn(&IncomingRequest) -> bool + Send + Sync>;

/// A layer that limits the requests of each caller: a token bucket for each principal.
///
/// A caller without a principal is counted by its address, or else by its connection. Callers over HTTP with neither
/// a principal nor an address share one bucket, unless the endpoint gets a `PeerAddr` that distinguishes them.
///
/// A request beyond the limit gets the error [`RATE_LIMITED`], which has the time until the next attempt. Its handler
/// does not run.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_service::{Service, Tool, layers::RateLimit};
///
/// let service = Service::builder("vault", "1.0.0")
///     .tool(Tool::new("open", || "open"))
///     // At most 20 calls at once, and 20 per minute in the long run.
///     .with_layer(RateLimit::new(20, Duration::from_secs(60)).only(|request| request.method() == "tools/call"))
///     .build()?;
/// # Ok::<(), mcp_service::RegisterError>(())
/// ```
///
/// # Limits
/// The table has a place for each caller whose bucket is not full: 64 Ki places, about 10 MiB, unless
/// [`max_callers`](Self::max_callers) sets another number. Without a free place, a new caller gets the place of the
/// caller that has used least. So a large number of callers cannot lock out others. It can only make the limit less
/// strict.
///
/// A request that is repeated with input of the client (2026-07-28) counts each time.
pub struct RateLimit {
    /// The nanoseconds after which a bucket gets another token.
    interval: u64,
    /// The nanoseconds after which an empty bucket is full.
    whole: u64,
    max_callers: usize,
    counts: Option<Counts>,
    table: Mutex<Table>,
}

/// The buckets that are not full. A bucket is stored as the time at which it will be full.
#[derive(Default)]
struct Table {
    buckets: HashMap<CallerKey, u64>,
    by_time: BTreeSet<(u64, CallerKey)>,
}

impl RateLimit {
    /// Creates a limit of `requests` per `time`: a caller can send this number at once, and then another one after each
    /// `time / requests`. Zero requests count as one.
    #[must_use]
    pub fn new(requests: u32, time: Duration) -> Self {
        let whole = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let requests = u64::from(requests.max(1));
        let interval = (whole / requests).max(1);
        Self {
            interval,
            whole: interval.saturating_mul(requests),
            max_callers: 1 << 16,
            counts: None,
            table: Mutex::default(),
        }
    }

    /// Counts only the requests for which `f` returns `true`. Default: all requests that middleware wraps.
    #[must_use]
    pub fn only(mut self, f: impl Fn(&IncomingRequest) -> bool + Send + Sync + 'static) -> Self {
        self.counts = Some(Box::new(f));
        self
    }

    /// Sets the number of callers in the table. Default 65,536, at least 1.
    #[must_use]
    pub fn max_callers(mut self, max: usize) -> Self {
        self.max_callers = max.max(1);
        self
    }

    /// Takes a token, or returns the time until there is one.
    fn take(&self, caller: CallerKey, now: u64) -> Result<(), Duration> {
        let mut table = lock(&self.table);
        let before = table.buckets.get(&caller).copied();
        let full = before.unwrap_or(now).max(now);
        let after = full.saturating_add(self.interval);
        if after - now > self.whole {
            return Err(Duration::from_nanos(after - now - self.whole));
        }
        if let Some(before) = before {
            table.by_time.remove(&(before, caller));
        }
        table.remove_full(now);
        if before.is_none() && table.buckets.len() >= self.max_callers {
            table.remove_first();
        }
        table.buckets.insert(caller, after);
        table.by_time.insert((after, caller));
        Ok(())
    }
}

impl Table {
    /// The most full buckets that one request removes.
    const REMOVED_AT_ONCE: usize = 2;

    /// Removes full buckets, which are equivalent to missing ones. Each request adds at most one, so removing two keeps
    /// the table small.
    fn remove_full(&mut self, now: u64) {
        for _ in 0..Self::REMOVED_AT_ONCE {
            if self.by_time.first().is_none_or(|(full, _)| *full > now) {
                return;
            }
            self.remove_first();
        }
    }

    fn remove_first(&mut self) {
        if let Some((_, caller)) = self.by_time.pop_first() {
            self.buckets.remove(&caller);
        }
    }
}

impl Middleware for RateLimit {
    fn handle(&self, request: IncomingRequest, next: Next) -> Deferred<Result<Completed, Failure>> {
        let counts = self.counts.as_ref().is_none_or(|counts| counts(&request));
        if counts {
            let context = request.context();
            if let Err(wait) = self.take(CallerKey::of(context), context.service_time().as_nanos()) {
                return Deferred::ready(Err(Failure::rpc(refusal(wait))));
            }
        }
        next.run().map(Ok)
    }
}

fn refusal(wait: Duration) -> ErrorObject {
    // Rounded up, so that the next request of a client that waits exactly this time is accepted.
    let retry_after_ms = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let error = ErrorObject::new(RATE_LIMITED, format!("Rate limit exceeded, retry after {retry_after_ms} ms"));
    match Json::new(&RetryAfter { retry_after_ms }) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}

struct RetryAfter {
    retry_after_ms: u64,
}

impl Serialize for RetryAfter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([("retryAfterMs", self.retry_after_ms)])
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("time", &Duration::from_nanos(self.whole))
            .field("callers", &lock(&self.table).buckets.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn caller(number: u32) -> CallerKey {
        CallerKey::named(&number.to_string())
    }

    #[test]
    fn a_bucket_is_refilled_evenly() {
        let limit = RateLimit::new(4, Duration::from_secs(8));
        let take = |at| limit.take(caller(1), at);
        assert!((0..4).all(|_| take(100 * SECOND).is_ok()));
        assert_eq!(take(100 * SECOND), Err(Duration::from_secs(2)));
        assert_eq!(take(101 * SECOND), Err(Duration::from_secs(1)), "a refused request costs nothing");
        assert!(take(102 * SECOND).is_ok());
        assert_eq!(take(102 * SECOND), Err(Duration::from_secs(2)));
        // It does not hold more than it can.
        assert!((0..4).all(|_| take(500 * SECOND).is_ok()));
        assert!(take(500 * SECOND).is_err());
        assert!(limit.take(caller(2), 500 * SECOND).is_ok());
    }

    #[test]
    fn many_callers_leave_the_table_and_its_limits_intact() {
        let limit = RateLimit::new(3, Duration::from_secs(3600)).max_callers(100);
        let now = 7 * SECOND;
        assert!((0..3).all(|_| limit.take(caller(0), now).is_ok()));
        for number in 1..10_000 {
            assert!(limit.take(caller(number), now).is_ok(), "caller {number} is locked out");
            let table = lock(&limit.table);
            assert!(table.buckets.len() <= 100 && table.by_time.len() == table.buckets.len());
        }
        assert!(limit.take(caller(0), now).is_err(), "the flood has refilled a bucket that was empty");
    }

    #[test]
    fn full_buckets_take_no_place() {
        let limit = RateLimit::new(3, Duration::from_secs(3));
        for number in 0..1000 {
            assert!(limit.take(caller(number), u64::from(number) * 10 * SECOND).is_ok());
            assert!(lock(&limit.table).buckets.len() <= 1);
        }
    }

    #[test]
    fn a_bucket_takes_a_place_until_it_is_full() {
        for (at, places) in [(SECOND - 1, 2), (SECOND, 1)] {
            let limit = RateLimit::new(1, Duration::from_secs(1));
            assert!(limit.take(caller(0), 0).is_ok() && limit.take(caller(1), at).is_ok());
            assert_eq!(lock(&limit.table).buckets.len(), places, "{at}");
        }
        // Each request removes at most two.
        let limit = RateLimit::new(1, Duration::from_secs(1));
        assert!((0..5).all(|number| limit.take(caller(number), 0).is_ok()));
        assert!(limit.take(caller(9), 5 * SECOND).is_ok());
        assert_eq!(lock(&limit.table).buckets.len(), 4);
    }

    #[test]
    fn a_clock_that_goes_back_locks_out_no_one_for_longer() {
        let limit = RateLimit::new(1, Duration::from_secs(1));
        assert!(limit.take(caller(1), 10 * SECOND).is_ok());
        assert_eq!(limit.take(caller(1), 9 * SECOND), Err(Duration::from_secs(2)));
        assert!(limit.take(caller(1), 11 * SECOND).is_ok());
    }

    #[test]
    fn a_limit_of_nothing_is_one_of_one() {
        let limit = RateLimit::new(0, Duration::from_secs(1));
        assert!(limit.take(caller(1), SECOND).is_ok());
        assert!(limit.take(caller(1), SECOND).is_err());
    }
}
