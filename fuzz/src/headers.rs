//! Headers that mirror members of a body (2026-07-28): values, and arguments of tools.

use mcp_proto::{
    protocol::{HeaderError, HeaderParam, MirroredHeaders, MirroredValue, decode_header, encode_header},
    wire::{Json, RawJson},
};

use crate::cost;

/// Each value survives encoding and decoding, and a server accepts the headers that a client writes for the arguments
/// of a tool.
///
/// Input: a value, a line feed, an input schema, a line feed, arguments. They are also tried as bytes of headers.
pub fn headers(data: &[u8]) {
    cost::assert_bounded(data, decode);
    let said = MirroredValue::from(Some(data));
    let Ok(text) = core::str::from_utf8(data) else { return assert_eq!(said, MirroredValue::Invalid) };
    value(text);
    let mut lines = text.split('\n');
    lines.clone().for_each(value);
    let (_, Some(schema), Some(arguments)) = (lines.next(), lines.next(), lines.next()) else { return };
    let (Ok(schema), Ok(arguments)) = (Json::parse(schema), Json::parse(arguments)) else { return };
    let (schema, arguments) = (RawJson::from(&schema), RawJson::from(&arguments));
    let Ok(params) = HeaderParam::of_schema(&schema) else { return };
    for param in &params {
        assert!(param.header().bytes().all(|byte| byte.is_ascii_graphic() && byte != b':'), "{param:?}");
        assert!(!param.path.is_empty() && schema.is_object(), "{param:?}");
        let Ok(value) = param.value(Some(&arguments)) else { continue };
        let verify = |said: Vec<(String, MirroredValue)>| {
            param
                .verify(Some(&arguments), &MirroredHeaders { params: said, ..MirroredHeaders::default() })
                .map_err(|why| why.fault)
        };
        let Some(value) = value else {
            assert_eq!(verify(Vec::new()), Ok(()));
            assert_eq!(verify(vec![(param.name.clone(), said.clone())]), Err(HeaderError::Unfounded));
            continue;
        };
        let header = (param.name.to_ascii_uppercase(), MirroredValue::from(Some(value.as_bytes())));
        let same = verify(vec![header.clone()]);
        // A number whose schema has another type is compared as text, and has several spellings.
        assert!(same.is_ok() || value.parse::<i64>().is_ok(), "{value:?}: {same:?}");
        assert_eq!(verify(Vec::new()), Err(HeaderError::Missing));
        assert_eq!(verify(vec![header.clone(), header]), Err(HeaderError::Malformed));
    }
    // Two params never have the same header.
    let mut names: Vec<_> = params.iter().map(|param| param.name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

/// Decodes all data of a peer: a header value, a schema, and mirrored arguments.
fn decode(data: &[u8]) {
    let said = MirroredValue::from(Some(data));
    let Ok(text) = core::str::from_utf8(data) else { return };
    drop(decode_header(text));
    let mut lines = text.split('\n').skip(1).map(Json::parse);
    let (Some(Ok(schema)), Some(Ok(arguments))) = (lines.next(), lines.next()) else { return };
    let Ok(params) = HeaderParam::of_schema(&RawJson::from(&schema)) else { return };
    let headers = params.iter().map(|param| (param.name.clone(), said.clone())).collect();
    let headers = MirroredHeaders { params: headers, ..MirroredHeaders::default() };
    // A server verifies the headers up to the first fault.
    let arguments = RawJson::from(&arguments);
    let _ = params.iter().try_for_each(|param| param.verify(Some(&arguments), &headers));
}

fn value(value: &str) {
    let text = encode_header(value);
    assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text:?}");
    assert_eq!(text.trim_matches([' ', '\t']), text, "blanks around a value are lost");
    assert_eq!(decode_header(&text).as_deref(), Some(value));
    assert_eq!(MirroredValue::from(Some(text.as_bytes())).encodes("h", value), Ok(()));
    // Decoded as a header of another implementation.
    match (decode_header(value), MirroredValue::from(Some(value.as_bytes()))) {
        (Some(read), said @ MirroredValue::Text(_)) => assert_eq!(said.encodes("h", &read), Ok(())),
        (None, said) => assert_eq!(said.encodes("h", value).map_err(|why| why.fault), Err(HeaderError::Malformed)),
        (Some(read), said) => panic!("{read:?} is read, and {said:?} is said"),
    }
}
