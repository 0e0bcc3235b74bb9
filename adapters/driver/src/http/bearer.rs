//! A token that the application has.

use std::{fmt, io, sync::Arc};

use http::{HeaderValue, Request, header};

use crate::http::client::{AuthProvider, BoxFuture, Refusal};

/// Sends the same token with each request (RFC 6750). It is not renewed: a refusal fails the request.
#[derive(Clone)]
pub struct Bearer(HeaderValue);

impl Bearer {
    /// Creates a provider of a token.
    ///
    /// # Errors
    /// If the token is empty, or has other characters than visible ASCII. The error does not show it.
    pub fn new(token: &str) -> io::Result<Self> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "the token has characters that no token has");
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid());
        }
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| invalid())?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

impl AuthProvider for Bearer {
    fn authorize<'a>(&'a self, request: &'a mut Request<Arc<[u8]>>) -> BoxFuture<'a, io::Result<()>> {
        request.headers_mut().insert(header::AUTHORIZATION, self.0.clone());
        Box::pin(async { Ok(()) })
    }

    fn challenged<'a>(&'a self, _: &'a mut Refusal) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: AUTH-017 AUTH-069
    #[test]
    fn sends_bearer_token_without_printing_it() {
        let bearer = Bearer::new("canary|1~+/=").expect("a token");
        let mut request = Request::new(Arc::from(*b""));
        mcp_service::block_on(bearer.authorize(&mut request)).expect("there is a token");
        assert_eq!(request.headers()[header::AUTHORIZATION], "Bearer canary|1~+/=");
        assert!(!format!("{bearer:?} {request:?}").contains("canary"));
    }

    #[test]
    fn rejects_invalid_bearer_tokens() {
        for token in ["", "canary b", "canary\r\nx: y", "canary\u{7f}", "canary\u{e4}"] {
            let error = Bearer::new(token).expect_err("no token");
            assert!(!format!("{error} {error:?}").contains("canary"));
        }
    }
}
