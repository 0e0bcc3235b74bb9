//! Responses to requests that the driver refuses itself.

use std::io;

use http::{HeaderValue, StatusCode, header};
use mcp_proto::http::HttpResponse;

/// Creates a 503 response, for a server that is closing or a store or random source that fails.
pub(super) fn unavailable() -> Box<HttpResponse> {
    let mut response = HttpResponse::new(Vec::new());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    Box::new(response)
}

/// Creates a 503 response for a client that has too much unread output and may retry later.
pub(super) fn busy() -> Box<HttpResponse> {
    again_later("This client has too much unread")
}

fn again_later(why: &str) -> Box<HttpResponse> {
    let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, why);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Creates the response to a request whose changes could not be written to the store.
pub(super) fn not_stored(error: &io::Error) -> Box<HttpResponse> {
    match error.kind() {
        io::ErrorKind::FileTooLarge => refusal(StatusCode::PAYLOAD_TOO_LARGE, "The client information is too large"),
        io::ErrorKind::QuotaExceeded => again_later("There is no room for another session"),
        _ => unavailable(),
    }
}

/// Creates an error response that names no request.
fn refusal(status: StatusCode, why: &str) -> Box<HttpResponse> {
    let error = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32600,"message":"{why}"}}}}"#);
    let mut response = HttpResponse::new(error.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Box::new(response)
}
