//! HTTP responses that the binding creates itself: a head and a short body.

use alloc::{borrow::Cow, vec::Vec};

use http::{HeaderValue, Response, StatusCode, header};

use super::names::{JSON, SESSION_ID};
use crate::wire::{
    ErrorCode, ErrorObject, RequestId,
    encode::{self, MissingId},
};

/// A complete HTTP response.
pub type HttpResponse = Response<Vec<u8>>;

/// The refusal of an unauthorized request: 401, 403 for lack of scope, or 400 for malformed credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthRefusal {
    status: StatusCode,
    challenges: Vec<HeaderValue>,
    message: Cow<'static, str>,
}

impl AuthRefusal {
    /// Creates a 401: the client must authenticate. `how` is the value of `WWW-Authenticate`.
    #[must_use]
    pub fn unauthorized(how: HeaderValue) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, challenges: Vec::from([how]), message: "Unauthorized".into() }
    }

    /// Creates a 403: the principal is not allowed to do this. If another scope allows it, `how` is the value of
    /// `WWW-Authenticate`.
    #[must_use]
    pub fn forbidden(how: Option<HeaderValue>) -> Self {
        let challenges = how.into_iter().collect();
        Self { status: StatusCode::FORBIDDEN, challenges, message: "Forbidden".into() }
    }

    /// Creates a 400: the credentials of the request are malformed. `how` is the value of `WWW-Authenticate`.
    #[must_use]
    pub fn malformed(how: HeaderValue) -> Self {
        let message = "Malformed credentials".into();
        Self { status: StatusCode::BAD_REQUEST, challenges: Vec::from([how]), message }
    }

    /// Adds another challenge, a further value of `WWW-Authenticate`.
    #[must_use]
    pub fn or(mut self, how: HeaderValue) -> Self {
        self.challenges.push(how);
        self
    }

    /// Sets the message of the JSON-RPC error. A client gets only this error if the status was sent before.
    #[must_use]
    pub fn message(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.message = message.into();
        self
    }

    /// Returns the refusal as a JSON-RPC error.
    pub(super) fn error(&self) -> ErrorObject {
        ErrorObject::new(ErrorCode::INVALID_REQUEST, self.message.clone())
    }

    pub(super) const fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn add_to(&self, headers: &mut http::HeaderMap) {
        for challenge in &self.challenges {
            headers.append(header::WWW_AUTHENTICATE, challenge.clone());
        }
    }

    /// Creates the response to a request with this id, if the id is known.
    #[must_use]
    pub fn response(&self, id: Option<&RequestId>) -> HttpResponse {
        let mut answer = error(self.status, id, &self.error());
        self.add_to(answer.headers_mut());
        answer
    }
}

/// Creates a response without a body.
pub(super) fn empty(status: StatusCode) -> HttpResponse {
    let mut answer = Response::new(Vec::new());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    answer
}

/// Creates a response whose body is one JSON text.
pub(super) fn json(status: StatusCode, body: Vec<u8>) -> HttpResponse {
    let length = content_length(body.len());
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    answer.headers_mut().insert(header::CONTENT_LENGTH, length);
    answer
}

/// Returns the value of `Content-Length` for a body of so many bytes. Below 1000, as for most bodies, it allocates
/// nothing.
pub(super) fn content_length(bytes: usize) -> HeaderValue {
    /// The numbers below 1000, with three digits each.
    static SHORT: [[u8; 3]; 1000] = {
        let mut all = [[b'0'; 3]; 1000];
        let mut number = 1;
        while number < all.len() {
            let (mut digits, mut place) = (all[number - 1], 2);
            while digits[place] == b'9' {
                digits[place] = b'0';
                place -= 1;
            }
            digits[place] += 1;
            all[number] = digits;
            number += 1;
        }
        all
    };
    let blank = if bytes < 10 { 2 } else { usize::from(bytes < 100) };
    let digits = SHORT.get(bytes).and_then(|digits| core::str::from_utf8(&digits[blank..]).ok());
    digits.map_or_else(|| HeaderValue::from(bytes), HeaderValue::from_static)
}

/// Creates a response whose body is a JSON-RPC error, with or without an id.
pub(super) fn error(status: StatusCode, id: Option<&RequestId>, error: &ErrorObject) -> HttpResponse {
    let mut body = Vec::new();
    encode::error(&mut body, id.ok_or(MissingId::Absent), error);
    json(status, body)
}

/// Creates a refusal for a reason outside of JSON-RPC. Its body still is a JSON-RPC error, without an id.
pub(super) fn refusal(status: StatusCode, why: impl Into<Cow<'static, str>>) -> HttpResponse {
    error(status, None, &ErrorObject::new(ErrorCode::INVALID_REQUEST, why))
}

/// Creates a 404, after which a client begins a new session.
pub(super) fn no_session() -> HttpResponse {
    refusal(StatusCode::NOT_FOUND, "Session not found")
}

/// Creates a 400 for a stream of which nothing can be sent any more.
pub(super) fn nothing_to_resume() -> HttpResponse {
    refusal(StatusCode::BAD_REQUEST, "Last-Event-ID: the stream cannot be resumed")
}

/// Creates a 405.
pub(super) fn not_allowed(allowed: &'static str) -> HttpResponse {
    let mut answer = refusal(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed");
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// Creates a 503, after which the client may try again later.
pub(super) fn busy(why: &'static str) -> HttpResponse {
    busy_with(None, why)
}

/// Creates a 503 as the response to the request with this id.
pub(super) fn busy_with(id: Option<&RequestId>, why: &'static str) -> HttpResponse {
    let mut answer = error(StatusCode::SERVICE_UNAVAILABLE, id, &ErrorObject::new(ErrorCode::INVALID_REQUEST, why));
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

pub(super) fn set_session(headers: &mut http::HeaderMap, id: &super::SessionId) {
    headers.insert(SESSION_ID, id.header());
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn content_length_is_decimal() {
        for bytes in (0..1100).chain([65_536, usize::MAX]) {
            assert_eq!(content_length(bytes).to_str().expect("digits"), bytes.to_string());
        }
    }
}
