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
    /// The proof of possession is not accepted (401; RFC 9449, section 7.1). The reason is for developers.
    InvalidProof(String),
    /// The proof needs a nonce of the server (401; RFC 9449, section 9).
    UseNonce,
}

/// The scheme with which an access token is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenScheme {
    /// The token alone (RFC 6750).
    Bearer,
    /// With a proof of possession of the key to which it is bound (RFC 9449).
    Dpop,
}

impl BearerError {
    /// Returns the code: `invalid_request`, `invalid_token`, `insufficient_scope`, `invalid_dpop_proof` or
    /// `use_dpop_nonce`.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidToken(_) => "invalid_token",
            Self::InsufficientScope => "insufficient_scope",
            Self::InvalidProof(_) => "invalid_dpop_proof",
            Self::UseNonce => "use_dpop_nonce",
        }
    }
}

/// Reads the access token of a request from the values of its `Authorization` headers. Returns `None` if there is no
/// such header, or one of another scheme than `Bearer`.
///
/// Tokens in other parts of a request are ignored, also in the query.
///
/// # Errors
/// Returns [`BearerError::InvalidRequest`] if there are several headers, or if the token is malformed or has more than
/// [`MAX_TOKEN`] bytes. The length is checked before anything else.
pub fn bearer_token<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<Secret>, BearerError> {
    read(values, &[(b"bearer", TokenScheme::Bearer)]).map(|found| found.map(|(_, token)| token))
}

/// Reads the access token of a request as [`bearer_token`] does, also one with the scheme `DPoP`.
///
/// # Errors
/// As for [`bearer_token`].
pub fn access_token<'a>(
    values: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Option<(TokenScheme, Secret)>, BearerError> {
    read(values, &[(b"bearer", TokenScheme::Bearer), (b"dpop", TokenScheme::Dpop)])
}

fn read<'a>(
    values: impl IntoIterator<Item = &'a [u8]>,
    schemes: &[(&[u8], TokenScheme)],
) -> Result<Option<(TokenScheme, Secret)>, BearerError> {
    const LONGEST_SCHEME: usize = 6;
    let mut values = values.into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() || value.len() > LONGEST_SCHEME + 1 + MAX_TOKEN {
        return Err(BearerError::InvalidRequest);
    }
    let (scheme, rest) = value.split_at(value.iter().position(|byte| *byte == b' ').unwrap_or(value.len()));
    let Some((_, scheme)) = schemes.iter().find(|(name, _)| scheme.eq_ignore_ascii_case(name)) else {
        return Ok(None);
    };
    let token = rest.trim_ascii();
    let padding = token.iter().rev().take_while(|byte| **byte == b'=').count();
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    let body = &token[..token.len() - padding];
    match str::from_utf8(token) {
        Ok(text) if !body.is_empty() && text.len() <= MAX_TOKEN && body.iter().all(is_token) => {
            Ok(Some((*scheme, Secret::new(text))))
        }
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
    fn token_has_the_scheme_with_which_it_came() {
        let read = |value: &str| access_token([value.as_bytes()]).map(|found| found.map(|(scheme, _)| scheme));
        assert_eq!(read("dpop abc"), Ok(Some(TokenScheme::Dpop)));
        assert_eq!(read("DPoP abc"), Ok(Some(TokenScheme::Dpop)));
        assert_eq!(read("Bearer abc"), Ok(Some(TokenScheme::Bearer)));
        assert_eq!(read("DPoPabc"), Ok(None));
        assert_eq!(read("DPoP a b"), Err(BearerError::InvalidRequest));
        let long = |len: usize| read(&format!("DPoP {}", "x".repeat(len)));
        assert_eq!(long(MAX_TOKEN), Ok(Some(TokenScheme::Dpop)));
        assert_eq!(long(MAX_TOKEN + 1), Err(BearerError::InvalidRequest));
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
