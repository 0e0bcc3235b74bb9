//! Headers of the Fetch standard: names and values as texts, in which each character is one byte.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Headers that the host sets itself. Browsers ignore them, and other hosts refuse a request that has them.
const OF_THE_HOST: [HeaderName; 4] =
    [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// Headers that describe the bytes on the wire. The host has decoded the body already.
const OF_THE_WIRE: [HeaderName; 3] = [header::CONTENT_ENCODING, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// Returns the headers of a request to send, or those of a response to create.
pub(crate) fn outbound(headers: &HeaderMap) -> impl Iterator<Item = (&str, String)> {
    let headers = headers.iter().filter(|(name, _)| !OF_THE_HOST.contains(name));
    headers.map(|(name, value)| (name.as_str(), value.as_bytes().iter().copied().map(char::from).collect()))
}

/// Adds a header of the host to the headers of a received request or response. A header that HTTP does not allow is
/// left out.
pub(crate) fn add_inbound(headers: &mut HeaderMap, name: &str, value: &str) {
    let bytes: Result<Vec<u8>, _> = value.chars().map(u8::try_from).collect();
    let (Ok(name), Ok(bytes)) = (HeaderName::try_from(name), bytes) else { return };
    if let Ok(value) = HeaderValue::try_from(bytes)
        && !OF_THE_WIRE.contains(&name)
    {
        headers.append(name, value);
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
        add_inbound(&mut back, texts[0].0, &texts[0].1);
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
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-encoding", "gzip"),
            ("content-length", "20"),
            ("transfer-encoding", "chunked"),
            ("content-type", "application/json"),
            ("not a name", "1"),
            ("x-value", "\u{20ac}"),
            ("x-line", "a\nb"),
            ("x-two", "1"),
            ("x-two", "2"),
        ] {
            add_inbound(&mut headers, name, value);
        }
        let names: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(names, [("content-type", &b"application/json"[..]), ("x-two", b"1"), ("x-two", b"2")]);
    }
}
