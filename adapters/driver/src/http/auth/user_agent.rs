//! User agents, which show an authorization URL to the user and receive its redirect.

use std::{
    fmt,
    future::Future,
    io::{self, ErrorKind},
    sync::Arc,
};

use mcp_proto::auth::Url;

use crate::http::client::BoxFuture;

/// A user agent: it shows authorization URLs to the user, and receives the redirects.
pub trait UserAgent: Send + Sync + 'static {
    /// Returns the redirect URI of the client.
    fn redirect_uri(&self) -> &Url;

    /// Shows `url` to the user, and passes each redirect to `redirects` until one ends the authorization.
    ///
    /// The future is dropped if the authorization ends in another way, for example because it expires.
    ///
    /// # Errors
    /// If the URL cannot be shown. The requests that wait then fail with [`AuthError::NotOpened`], and later ones begin
    /// another authorization. If the future ends without an error and no redirect has ended the authorization, the user
    /// has cancelled it: no authorization begins before
    /// [`OAuth::allow_authorization`](super::OAuth::allow_authorization).
    ///
    /// [`AuthError::NotOpened`]: mcp_proto::auth::client::AuthError::NotOpened
    fn authorize(&self, url: Url, redirects: Redirects) -> BoxFuture<'static, io::Result<()>>;
}

/// The effect of a redirect on its authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirected {
    /// The authorization continues with the code of the redirect.
    Accepted,
    /// The redirect has ended the authorization: it was denied, or has expired.
    Refused,
    /// The redirect does not belong to the authorization, which waits for another one.
    Ignored,
}

/// The receiver of the redirects of one authorization.
#[derive(Clone)]
pub struct Redirects(Arc<dyn Fn(&str) -> Redirected + Send + Sync>);

impl Redirects {
    pub(super) fn new(handle: impl Fn(&str) -> Redirected + Send + Sync + 'static) -> Self {
        Self(Arc::new(handle))
    }

    /// Handles the query of a redirect.
    #[must_use = "an ignored redirect does not end the authorization"]
    pub fn handle(&self, query: &str) -> Redirected {
        (self.0)(query)
    }
}

impl fmt::Debug for Redirects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redirects").finish_non_exhaustive()
    }
}

/// A user agent without a browser: a function that shows a URL and returns the query of the redirect.
pub struct Headless<F> {
    redirect_uri: Url,
    authorize: F,
}

impl<F, Fut> Headless<F>
where
    F: Fn(Url) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = io::Result<String>> + Send + 'static,
{
    /// Creates a user agent from a function.
    #[must_use]
    pub const fn new(redirect_uri: Url, authorize: F) -> Self {
        Self { redirect_uri, authorize }
    }
}

impl<F, Fut> UserAgent for Headless<F>
where
    F: Fn(Url) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = io::Result<String>> + Send + 'static,
{
    fn redirect_uri(&self) -> &Url {
        &self.redirect_uri
    }

    fn authorize(&self, url: Url, redirects: Redirects) -> BoxFuture<'static, io::Result<()>> {
        let query = (self.authorize)(url);
        Box::pin(async move {
            match redirects.handle(&query.await?) {
                Redirected::Accepted | Redirected::Refused => Ok(()),
                Redirected::Ignored => {
                    Err(io::Error::new(ErrorKind::InvalidData, "the redirect does not belong to the authorization"))
                }
            }
        })
    }
}

impl<F> fmt::Debug for Headless<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Headless").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_names_the_redirect_uri() {
        let redirect_uri = Url::parse("http://127.0.0.1:7777/callback").expect("a URL");
        let headless = Headless::new(redirect_uri, |_| async { Ok(String::new()) });
        let text = format!("{headless:?}");
        assert!(text.starts_with("Headless") && text.contains("http://127.0.0.1:7777/callback"), "{text}");
        assert_eq!(format!("{:?}", Redirects::new(|_| Redirected::Ignored)), "Redirects { .. }");
    }
}
