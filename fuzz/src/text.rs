//! Texts with their own grammar: URI templates, URIs, base64.

use std::collections::BTreeMap;

use mcp_proto::schema::{Map, decode_base64, encode_base64, is_base64};
use mcp_service::{UriTemplate, is_uri};

use crate::cost;

/// Values that are expanded into a URI are matched again, and the expansion contains only characters that are valid in
/// a URI.
///
/// Input: a template, a line feed, a URI, and then values for the variables, one on each line.
pub fn template(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    // A template comes from the server's own configuration, or is at most as long as a message. The URI comes from the
    // peer.
    cost::assert_bounded(data, |data| {
        let mut lines = core::str::from_utf8(data).unwrap_or_default().split('\n');
        let template = lines.next().and_then(|template| UriTemplate::parse(template).ok());
        template.zip(lines.next()).map(|(template, uri)| template.matches(uri));
    });
    let mut lines = text.split('\n');
    let (Some(template), uri) = (lines.next(), lines.next().unwrap_or_default()) else { return };
    let Ok(template) = UriTemplate::parse(template) else { return };
    let names: Vec<&str> = template.variables().collect();
    if let Some(values) = template.matches(uri) {
        assert!(values.iter().all(|(name, _)| names.contains(&name)), "{values:?}");
        // An escape may stand for a character that needs none, and that would end another value.
        if !uri.contains('%') {
            let filled = template.expand(&values);
            let read = template.matches(&filled).unwrap_or_else(|| panic!("{filled} was {uri}"));
            assert_eq!(sorted(&read), sorted(&values), "{filled} was {uri}");
        }
    }
    let values = names.iter().copied().zip(lines.map(str::to_owned)).collect();
    let filled = template.expand(&values);
    assert!(filled.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)), "{filled}");
    // The matched values belong to variables of the template.
    if let Some(read) = template.matches(&filled) {
        assert!(read.iter().all(|(name, _)| names.contains(&name)), "{read:?}");
    }
}

/// Sorts the values, because query variables may come in any order.
fn sorted(values: &Map<String>) -> BTreeMap<&str, &String> {
    values.iter().collect()
}

/// A URI conforms to RFC 3986, as far as its characters and their order are concerned.
pub fn uri(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    cost::assert_bounded(data, |data| {
        std::hint::black_box(core::str::from_utf8(data).is_ok_and(is_uri));
    });
    if !is_uri(text) {
        return;
    }
    let (scheme, _) = text.split_once(':').expect("a scheme");
    assert!(mcp_proto::schema::has_scheme(text, scheme), "{text}");
    assert!(scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)));
    assert!(text.is_ascii() && text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
    assert!(text.matches('#').count() <= 1, "{text}");
    // A URI without variables is a template that expands to itself and matches only itself.
    if let Ok(template) = UriTemplate::parse(text) {
        assert_eq!(template.variables().count(), 0);
        assert_eq!(template.expand(&Map::new()), text);
        assert!(template.matches(text).is_some());
    }
}

/// Encoded bytes are decoded again, and have one encoding.
pub fn base64(data: &[u8]) {
    cost::assert_bounded(data, |data| drop(core::str::from_utf8(data).ok().and_then(decode_base64)));
    let encoded = encode_base64(data);
    assert!(is_base64(&encoded));
    assert_eq!(decode_base64(&encoded).as_deref(), Some(data));
    let Ok(text) = core::str::from_utf8(data) else { return };
    let decoded = decode_base64(text);
    assert_eq!(is_base64(text), decoded.is_some());
    if let Some(bytes) = decoded {
        // Unused bits of the last digit may be set. Nothing else may differ.
        let again = encode_base64(&bytes);
        let digits = text.trim_end_matches('=').len();
        assert_eq!(again.len(), text.len());
        assert_eq!(again[..digits.saturating_sub(1)], text[..digits.saturating_sub(1)]);
        assert_eq!(again[digits..], text[digits..]);
    }
}
