//! Media types, and negotiation by `Accept` (RFC 9110, sections 8.3.1 and 12.5.1).

use core::iter;

use http::{HeaderMap, HeaderValue, header};
use memchr::{memchr, memchr2};

use super::names::single;

/// Returns whether the body of a message with these headers has this type, with any parameters.
pub(super) fn is(headers: &HeaderMap, media_type: &str) -> bool {
    single(headers, &header::CONTENT_TYPE).ok().flatten().is_some_and(|value| names(value, media_type))
}

/// Returns whether a `Content-Type` is this type, with any parameters.
pub(super) fn names(value: &HeaderValue, media_type: &str) -> bool {
    value == media_type || value.to_str().is_ok_and(|value| parts(value).0.eq_ignore_ascii_case(media_type))
}

/// Splits a value into the type with subtype, and the parameters after them.
fn parts(value: &str) -> (&str, &str) {
    let end = memchr(b';', value.as_bytes()).unwrap_or(value.len());
    let (essence, parameters) = value.split_at(end);
    (essence.trim_ascii(), parameters)
}

/// Returns whether the sender of these headers accepts bodies of each of these types. Without `Accept`, it accepts any.
pub(super) fn accepts<const N: usize>(headers: &HeaderMap, media_types: [&str; N]) -> bool {
    let mut ranges = headers.get_all(header::ACCEPT).iter().peekable();
    if ranges.peek().is_none() {
        return true;
    }
    // The most specific range that matches decides.
    let mut best = [(0, false); N];
    for range in ranges.filter_map(|value| value.to_str().ok()).flat_map(elements) {
        let (range, parameters) = parts(range);
        for (best, media_type) in best.iter_mut().zip(media_types) {
            let specific = specificity(range, media_type);
            if specific > best.0 {
                *best = (specific, !is_zero(parameters));
            }
        }
    }
    best.iter().all(|(_, accepted)| *accepted)
}

/// Returns how closely a range describes a type: 0 if it does not.
fn specificity(range: &str, media_type: &str) -> u8 {
    if range.eq_ignore_ascii_case(media_type) {
        return 3;
    }
    let is_main = |main: &str| {
        let (found, rest) = media_type.split_at_checked(main.len()).unwrap_or_default();
        found.eq_ignore_ascii_case(main) && rest.starts_with('/')
    };
    match range.strip_suffix("/*") {
        Some("*") => 1,
        Some(main) if is_main(main) => 2,
        _ => 0,
    }
}

/// Returns whether the weight in these parameters is 0.
fn is_zero(parameters: &str) -> bool {
    let weight = parameters.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim_ascii().eq_ignore_ascii_case("q").then(|| value.trim_ascii())
    });
    weight.is_some_and(|weight| weight.starts_with('0') && weight.bytes().all(|byte| matches!(byte, b'0' | b'.')))
}

/// Splits a list into its elements. Commas in quotes do not split.
fn elements(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(list);
    iter::from_fn(move || {
        let list = rest?;
        let end = end_of_element(list.as_bytes());
        rest = end.map(|end| &list[end + 1..]);
        Some(&list[..end.unwrap_or(list.len())])
    })
}

/// Returns the position of the comma after the first element.
fn end_of_element(list: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b',', b'"', &list[at..])?;
        if list[at] == b',' {
            return Some(at);
        }
        // Without a second quote, all the rest is in quotes.
        loop {
            at += 1 + memchr2(b'"', b'\\', &list[at + 1..])?;
            if list[at] == b'"' {
                break;
            }
            at += usize::from(at + 1 < list.len());
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::names::{EVENTS, JSON};

    fn headers(name: header::HeaderName, values: &[&str]) -> HeaderMap {
        let values = values.iter().map(|value| (name.clone(), value.parse().expect("a value")));
        values.fold(HeaderMap::new(), |mut headers, (name, value)| {
            headers.append(name, value);
            headers
        })
    }

    #[test]
    fn compares_whole_media_types() {
        let table = [
            ("application/json", true),
            ("Application/JSON", true),
            ("application/json; charset=utf-8", true),
            ("application/json ;charset=utf-8", true),
            ("application/json;", true),
            ("text/plain; a=application/json", false),
            ("application/jsonp", false),
            ("application/json, text/plain", false),
            ("text/json", false),
            ("application/x-www-form-urlencoded", false),
            ("", false),
            ("json", false),
        ];
        for (value, expected) in table {
            assert_eq!(is(&headers(header::CONTENT_TYPE, &[value]), JSON), expected, "{value:?}");
        }
        assert!(!is(&HeaderMap::new(), JSON));
        assert!(!is(&headers(header::CONTENT_TYPE, &[JSON, "text/plain"]), JSON));
    }

    #[test]
    fn accept_header_respects_quality() {
        let table: [(&[&str], bool, bool); 21] = [
            (&["application/json, text/event-stream"], true, true),
            (&["application/json", "text/event-stream"], true, true),
            (&["text/event-stream;q=0.5,application/json;q=0.1"], true, true),
            (&["*/*"], true, true),
            (&["application/*, text/*"], true, true),
            (&["application/json"], true, false),
            (&["text/event-stream"], false, true),
            (&["APPLICATION/JSON; charset=utf-8"], true, false),
            (&["*/*, text/event-stream;q=0"], true, false),
            (&["*/*;q=0, text/event-stream"], false, true),
            (&["text/*;q=0.000, */* ; Q=1"], true, false),
            (&["text/*;q=0, text/event-stream;q=0.001"], false, true),
            (&["text/html;a=\"application/json, */*\""], false, false),
            (&["text/html;a=\"x\\\", application/json, \", text/event-stream"], false, true),
            (&["a/b;c=\"\\\\\", application/json, a/b;c=\"\", text/event-stream"], true, true),
            (&["text/html;a=\", application/json"], false, false),
            (&["text/event-stream, text/html;a=\"\\"], false, true),
            (&["application/jsonp, text/event-streams"], false, false),
            (&["applicatio/*, tex/*, font/*"], false, false),
            (&["*"], false, false),
            (&[""], false, false),
        ];
        for (values, json, events) in table {
            let headers = headers(header::ACCEPT, values);
            assert_eq!((accepts(&headers, [JSON]), accepts(&headers, [EVENTS])), (json, events), "{values:?}");
            assert_eq!(accepts(&headers, [JSON, EVENTS]), json && events, "{values:?}");
        }
        assert!(accepts(&HeaderMap::new(), [JSON]));
    }
}
