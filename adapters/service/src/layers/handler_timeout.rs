//! A timeout of handlers.

use std::{collections::HashMap, time::Duration};

use crate::{
    driver_api::deferred::Deferred,
    inbound::{
        failure::Failure,
        in_flight::RequestOrigin,
        middleware::{Completed, IncomingRequest, Middleware, Next},
    },
};

/// A layer that limits the time of handlers. After that time the caller gets an error, and the handler is cancelled:
/// [`Context::is_cancelled`](crate::Context::is_cancelled) returns true, and waits through its context end at once.
///
/// The time begins when the request reaches this layer. A handler that ignores its cancellation runs to its end, but
/// its caller does not wait for it.
///
/// [`reply_timeout`](crate::ServiceBuilder::reply_timeout) sets one time for all requests, from their arrival. Of it
/// and of several of these layers, the one that ends first counts. The layer does not limit the work of tasks, which
/// have a [policy](crate::TaskPolicy).
///
/// ```
/// use std::time::Duration;
///
/// use mcp_service::{Service, Tool, layers::HandlerTimeout};
///
/// let service = Service::builder("vault", "1.0.0")
///     .tool(Tool::new("open", || "open"))
///     .tool(Tool::new("count", || "all of it"))
///     .with_layer(HandlerTimeout::new(Duration::from_secs(10)).of("count", Duration::from_secs(300)))
///     .build()?;
/// # Ok::<(), mcp_service::RegisterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct HandlerTimeout {
    time: Duration,
    of: HashMap<String, Duration>,
}

impl HandlerTimeout {
    /// Creates a timeout of all handlers.
    #[must_use]
    pub fn new(time: Duration) -> Self {
        Self { time, of: HashMap::new() }
    }

    /// Sets another time for a tool or a prompt with this name, or a resource with this URI.
    #[must_use]
    pub fn of(mut self, name: impl Into<String>, time: Duration) -> Self {
        self.of.insert(name.into(), time);
        self
    }
}

impl Middleware for HandlerTimeout {
    fn handle(&self, request: IncomingRequest, next: Next) -> Deferred<Result<Completed, Failure>> {
        let own = if self.of.is_empty() { None } else { request.name().and_then(|name| self.of.get(name)) };
        let time = own.copied().unwrap_or(self.time);
        let context = request.context();
        if let (true, RequestOrigin::Request(key)) = (request.has_handler(), &context.in_flight.origin) {
            context.connection.update(|conn, now| {
                let deadline = now + time;
                if conn.deadline(*key).is_none_or(|earlier| deadline < earlier) {
                    // A request that has become a task already has its response.
                    let _ = conn.set_deadline(*key, Some(deadline));
                }
            });
        }
        next.run().map(Ok)
    }
}
