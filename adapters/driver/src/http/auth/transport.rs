//! The HTTP requests of an authorization.

use std::{io, sync::Arc};

use http::Response;
use mcp_proto::auth::{UrlPolicy, client::Request};

use crate::{http::client::BoxFuture, runtime::Runtime};

/// An HTTP client for the requests of an authorization, to any origin.
///
/// It follows no redirects, and reads at most one byte more than [`MAX_LEN`](mcp_proto::auth::document::MAX_LEN) of a
/// body. It calls [`UrlPolicy::check_address`] before it connects to an address, unless the request [is
/// configured](Request::is_configured). The caller limits the time.
pub trait AuthTransport<R>: Send + Sync + 'static {
    /// Sends a request and returns its response.
    ///
    /// If the policy allows none of the addresses, the error wraps the [`UrlRefused`] with [`io::Error::new`], which
    /// becomes the cause of the error of the authorization.
    ///
    /// [`UrlRefused`]: mcp_proto::auth::UrlRefused
    fn exchange(
        &self,
        runtime: &R,
        request: Request,
        policy: UrlPolicy,
    ) -> BoxFuture<'static, io::Result<Response<Vec<u8>>>>;
}

/// A runtime that has an HTTP client for authorizations.
pub trait AuthRuntime: Runtime {
    /// Returns the default HTTP client.
    fn transport() -> Arc<dyn AuthTransport<Self>>;

    /// Returns the runtime for the actions of a load, refresh, authorization or sign-out: the current one. `last` is
    /// the runtime of the previous flow. A runtime that would start new threads returns it.
    ///
    /// # Errors
    /// If there is no runtime.
    fn for_flow(last: Option<Self>) -> io::Result<Self> {
        drop(last);
        Self::current()
    }
}
