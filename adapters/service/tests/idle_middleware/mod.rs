//! Middleware that does nothing.

use mcp_service::{Completed, Deferred, Failure, IncomingRequest, Middleware, Next};

/// As a function.
pub(crate) async fn nothing(_: IncomingRequest, next: Next) -> Result<Completed, Failure> {
    Ok(next.run().await)
}

/// As a type.
pub(crate) struct Nothing;

impl Middleware for Nothing {
    fn handle(&self, _: IncomingRequest, next: Next) -> Deferred<Result<Completed, Failure>> {
        next.run().map(Ok)
    }
}
