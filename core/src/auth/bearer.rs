//! Bearer tokens in requests (RFC 6750): how a server reads them, and the errors of its challenges.

use alloc::string::String;
use core::str;

use super::secret::Secret;

/// The most bytes of an access token that a server reads.
pub const MAX_TOKEN: usize = 8 * 1024;

/// The error of a challenge to a client that has sent a token (RFC 6750, section 3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BearerError {
    /// The request is malformed (400).
    InvalidRequest,
    /// The token is not accepted (401). The reason is for developers.
    InvalidToken(String),
    /// The request needs more scopes than the token has (403).
    InsufficientScope,
}

impl BearerError {
    /// Returns the code: `invalid_request`, `invalid_token` or `insufficient_scope`.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidToken(_) => "invalid_token",
            Self::InsufficientScope => "insufficient_scope",
        }
    }
}

/// Reads the access token of a request from the values of its `Authorization` headers. Returns `None` if there is no
/// such header, or one of another scheme than `Bearer`.
///
/// No other part of a request is a place for tokens: the query is not read.
///
/// # Errors
/// Returns [`BearerError::InvalidRequest`] if there are several headers, or if the token is malformed or has more than
/// [`MAX_TOKEN`] bytes. The length is checked before anything else.
pub fn bearer_token<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<Secret>, BearerError> {
    const SCHEME: &[u8] = b"bearer";
    let mut values = values.into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() || value.len() > SCHEME.len() + 1 + MAX_TOKEN {
        return Err(BearerError::InvalidRequest);
    }
    let (scheme, rest) = value.split_at(value.iter().position(|byte| *byte == b' ').unwrap_or(value.len()));
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return Ok(None);
    }
    let token = rest.trim_ascii();
    let padding = token.iter().rev().take_while(|byte| **byte == b'=').count();
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    let body = &token[..token.len() - padding];
    match str::from_utf8(token) {
        Ok(text) if !body.is_empty() && body.iter().all(is_token) => Ok(Some(Secret::new(text))),
        _ => Err(BearerError::InvalidRequest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, vec};

    #[test]
    fn token_is_read_from_a_single_header() {
        let read = |values: &[&str]| {
            let token = bearer_token(values.iter().map(|value| value.as_bytes()));
            token.map(|token| token.map(|token| String::from(token.expose())))
        };
        for (value, token) in [
            ("Bearer abc", "abc"),
            ("bearer abc", "abc"),
            ("BEARER  abc ", "abc"),
            ("Bearer a.b-c_d~e+f/g==", "a.b-c_d~e+f/g=="),
        ] {
            assert_eq!(read(&[value]), Ok(Some(token.into())), "{value}");
        }
        assert_eq!(read(&[]), Ok(None));
        for other in ["", "Basic YTpi", "DPoP abc", "Bearerabc", "abc", "Bearer\tabc"] {
            assert_eq!(read(&[other]), Ok(None), "{other:?} is no bearer token");
        }
        for bad in ["Bearer", "Bearer ", "Bearer =", "Bearer a b", "Bearer a=b", "Bearer a,Bearer b", "Bearer \u{e4}"] {
            assert_eq!(read(&[bad]), Err(BearerError::InvalidRequest), "{bad:?}");
        }
        assert_eq!(read(&["Bearer a", "Bearer a"]), Err(BearerError::InvalidRequest));
        assert_eq!(read(&["Bearer a", "Basic YTpi"]), Err(BearerError::InvalidRequest));
    }

    #[test]
    fn token_length_is_limited() {
        let read = |len: usize| {
            let value = format!("Bearer {}", "x".repeat(len));
            bearer_token(vec![value.as_bytes()]).map(|token| token.map(|token| token.expose().len()))
        };
        assert_eq!(read(MAX_TOKEN), Ok(Some(MAX_TOKEN)));
        assert_eq!(read(MAX_TOKEN + 1), Err(BearerError::InvalidRequest));
    }
}
