//! Media types, and whether somebody accepts them (RFC 9110, sections 8.3.1 and 12.5.1).

use http::{HeaderMap, header};

use super::names::single;

/// Whether the body that these headers belong to is of this type, whatever parameters it has.
pub(super) fn is(headers: &HeaderMap, media_type: &str) -> bool {
    let value = single(headers, &header::CONTENT_TYPE).ok().flatten().and_then(|value| value.to_str().ok());
    value.is_some_and(|value| essence(value).eq_ignore_ascii_case(media_type))
}

/// The type and subtype, without parameters.
fn essence(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim_matches([' ', '\t'])
}

/// Whether somebody who sends these headers accepts a body of this type. Without `Accept`, anything is.
pub(super) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let mut ranges = headers.get_all(header::ACCEPT).iter().peekable();
    if ranges.peek().is_none() {
        return true;
    }
    // The most specific range that matches decides.
    let mut best = (0, false);
    for range in ranges.filter_map(|value| value.to_str().ok()).flat_map(elements) {
        let specific = specificity(essence(range), media_type);
        if specific > best.0 {
            best = (specific, !is_zero(range));
        }
    }
    best.1
}

/// How closely a range describes a type: 0 if it does not.
fn specificity(range: &str, media_type: &str) -> u8 {
    if range.eq_ignore_ascii_case(media_type) {
        return 3;
    }
    let main = media_type.split('/').next().unwrap_or_default();
    match range.split_once('/') {
        Some((found, "*")) if found.eq_ignore_ascii_case(main) => 2,
        Some(("*", "*")) => 1,
        _ => 0,
    }
}

/// Whether the weight of a range is 0.
fn is_zero(range: &str) -> bool {
    let weight = range.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim_matches([' ', '\t']).eq_ignore_ascii_case("q").then(|| value.trim_matches([' ', '\t']))
    });
    weight.is_some_and(|weight| weight.starts_with('0') && weight.bytes().all(|byte| matches!(byte, b'0' | b'.')))
}

/// The elements of a list, commas in quotes left alone.
fn elements(list: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut escaped = false;
    list.split(move |character| {
        if core::mem::take(&mut escaped) {
            return false;
        }
        match character {
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' => return !quoted,
            _ => {}
        }
        false
    })
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
    fn types_are_compared_and_not_searched() {
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
    fn ranges_are_weighed() {
        let table: [(&[&str], bool, bool); 16] = [
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
            (&["application/jsonp, text/event-streams"], false, false),
            (&["*"], false, false),
            (&[""], false, false),
        ];
        for (values, json, events) in table {
            let headers = headers(header::ACCEPT, values);
            assert_eq!((accepts(&headers, JSON), accepts(&headers, EVENTS)), (json, events), "{values:?}");
        }
        assert!(accepts(&HeaderMap::new(), JSON));
    }
}
