//! Headers of the Fetch standard: names and values as texts, in which each character is one byte.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Headers that the host sets itself. Browsers ignore them, and other hosts refuse a request that has them.
const OF_THE_HOST: [HeaderName; 4] =
    [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// Headers that describe the bytes of a response on the wire. The host has decoded its body already.
const OF_THE_WIRE: [HeaderName; 3] = [header::CONTENT_ENCODING, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// The most headers of a received message. A `HeaderMap` has a limit too, which is far higher.
const MAX_HEADERS: usize = 256;

/// The message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A request, whose body the host has not decoded.
    Request,
    /// A response, whose body the host has decoded.
    Response,
}

/// The error of a received message with more than [`MAX_HEADERS`] headers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyHeaders;

/// Returns the headers of a request to send, or those of a response to create.
pub(crate) fn outbound(headers: &HeaderMap) -> impl Iterator<Item = (&str, String)> {
    let headers = headers.iter().filter(|(name, _)| !OF_THE_HOST.contains(name));
    headers.map(|(name, value)| (name.as_str(), value.as_bytes().iter().copied().map(char::from).collect()))
}

/// Adds a header of the host to the headers of a received message. A header that HTTP does not allow is left out.
pub(crate) fn add_inbound(
    headers: &mut HeaderMap,
    received: Received,
    name: &str,
    value: &str,
) -> Result<(), TooManyHeaders> {
    let bytes: Result<Vec<u8>, _> = value.chars().map(u8::try_from).collect();
    let (Ok(name), Ok(bytes)) = (HeaderName::try_from(name), bytes) else { return Ok(()) };
    let Ok(value) = HeaderValue::try_from(bytes) else { return Ok(()) };
    let is_left_out = match received {
        Received::Request => name == header::TRANSFER_ENCODING,
        Received::Response => OF_THE_WIRE.contains(&name),
    };
    if is_left_out {
        return Ok(());
    }
    if headers.len() >= MAX_HEADERS {
        return Err(TooManyHeaders);
    }
    headers.try_append(name, value).map(drop).map_err(|_| TooManyHeaders)
}

impl fmt::Display for TooManyHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there are more than {MAX_HEADERS} headers")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_bytes() {
        let mut headers = HeaderMap::new();
        headers.insert("x-name", HeaderValue::from_bytes(b"caf\xe9").expect("a value"));
        let texts: Vec<_> = outbound(&headers).collect();
        assert_eq!(texts, [("x-name", "caf\u{e9}".to_owned())]);
        let mut back = HeaderMap::new();
        add_inbound(&mut back, Received::Request, texts[0].0, &texts[0].1).expect("one header");
        assert_eq!(back, headers);
    }

    #[test]
    fn headers_of_the_host_are_not_sent() {
        let mut headers = HeaderMap::new();
        for name in ["host", "connection", "content-length", "transfer-encoding", "accept"] {
            headers.insert(name, HeaderValue::from_static("1"));
        }
        assert_eq!(outbound(&headers).collect::<Vec<_>>(), [("accept", "1".to_owned())]);
    }

    #[test]
    fn inbound_headers_are_those_of_the_decoded_body() {
        let names = |received| {
            let mut headers = HeaderMap::new();
            for (name, value) in [
                ("content-encoding", "gzip"),
                ("content-length", "20"),
                ("transfer-encoding", "chunked"),
                ("not a name", "1"),
                ("x-value", "\u{20ac}"),
                ("x-line", "a\nb"),
                ("x-two", "1"),
                ("x-two", "2"),
            ] {
                add_inbound(&mut headers, received, name, value).expect("few headers");
            }
            headers
                .iter()
                .map(|(name, value)| format!("{name}: {}", value.to_str().expect("ASCII")))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(Received::Response), ["x-two: 1", "x-two: 2"]);
        let of_request = ["content-encoding: gzip", "content-length: 20", "x-two: 1", "x-two: 2"];
        assert_eq!(names(Received::Request), of_request);
    }

    #[test]
    fn too_many_headers_are_an_error() {
        for same in [true, false] {
            let mut headers = HeaderMap::new();
            let mut add = |n| {
                let name = if same { "x-same".to_owned() } else { format!("x-{n}") };
                add_inbound(&mut headers, Received::Request, &name, "")
            };
            assert!((0..MAX_HEADERS).all(|n| add(n).is_ok()));
            assert_eq!(add(MAX_HEADERS), Err(TooManyHeaders));
            assert_eq!(headers.len(), MAX_HEADERS);
        }
    }
}
