//! A slow reference parser of messages, based on the members that `serde_json` finds.

use mcp_proto::wire::{MalformedKind, RequestId};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// A message, as texts.
#[derive(Debug)]
pub(crate) enum Expected<'a> {
    Request { id: &'a RawValue, method: String, params: Option<&'a RawValue>, meta: Option<&'a RawValue> },
    Notification { method: String, params: Option<&'a RawValue> },
    Response { id: &'a RawValue, result: &'a RawValue },
    Error { id: Option<&'a RawValue>, code: i64, message: String, data: Option<&'a RawValue> },
}

/// The reason why a text is not a message, and its subject.
#[derive(Debug)]
pub(crate) struct Refused<'a> {
    pub(crate) kind: MalformedKind,
    pub(crate) subject: Subject<'a>,
}

#[derive(Debug)]
pub(crate) enum Subject<'a> {
    Nothing,
    Response(&'a RawValue),
    Unreadable,
    Request(&'a RawValue),
}

/// Returns the members of an object in their order, each with its name and its text, or `None` for another value.
pub(crate) fn members(text: &str) -> Option<Vec<(String, &RawValue)>> {
    struct Ordered<'a>(Vec<(String, &'a RawValue)>);
    struct Collect;
    impl<'de> Visitor<'de> for Collect {
        type Value = Ordered<'de>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<'de>, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(Ordered(members))
        }
    }
    impl<'de> Deserialize<'de> for Ordered<'de> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(Collect)
        }
    }
    serde_json::from_str::<Ordered<'_>>(text).ok().map(|members| members.0)
}

/// Members of params and results that the protocol reads. Duplicates of them are rejected.
const IN_PARAMS: &str = "_meta name arguments uri cursor requestId reason progressToken progress total message protocolVersion \
    capabilities clientInfo level ref argument mode task taskId status inputResponses requestState notifications resultType \
    inputRequests ttlMs cacheScope nextCursor tools serverInfo result error pollIntervalMs supportedVersions \
    traceparent tracestate baggage";

/// The same for members of `_meta` with this prefix.
const IN_META: (&str, &str) = (
    "io.modelcontextprotocol/",
    "protocolVersion clientInfo clientCapabilities logLevel subscriptionId related-task serverInfo model-immediate-response",
);

/// Returns whether duplicates of a member are rejected.
fn decides(name: &str) -> bool {
    let (prefix, rest) = IN_META;
    let is_in = |list: &str, name: &str| list.split(' ').any(|other| other == name);
    is_in(IN_PARAMS, name) || name.strip_prefix(prefix).is_some_and(|name| is_in(rest, name))
}

/// Returns whether an object contains a duplicate of such a member.
fn is_ambiguous(text: &str) -> bool {
    let members = members(text).unwrap_or_default();
    members.iter().any(|(name, _)| decides(name) && members.iter().filter(|(other, _)| other == name).count() > 1)
}

/// Classifies a text whose value `serde_json` can build.
pub(crate) fn classify(text: &str) -> Result<Expected<'_>, Refused<'_>> {
    let Some(members) = members(text) else {
        let array = text.trim_start().starts_with('[');
        let kind = if array { MalformedKind::Array } else { MalformedKind::NotAnObject };
        return Err(Refused { kind, subject: Subject::Unreadable });
    };
    let all =
        |name: &str| members.iter().filter(|(member, _)| member == name).map(|(_, value)| *value).collect::<Vec<_>>();
    let one = |name: &str| all(name).last().copied();
    let twice = ["jsonrpc", "id", "method", "params", "result", "error"].iter().any(|name| all(name).len() > 1);
    let (id, method, result, error) = (one("id"), one("method"), one("result"), one("error"));
    let method_text = method.and_then(|method| text_of(method.get()));
    let readable = id.filter(|id| !twice && is_id(id.get()));

    let subject = match (method, readable) {
        (None, Some(id)) if result.is_some() || error.is_some() => Subject::Response(id),
        (None, None) if result.is_some() || error.is_some() => Subject::Nothing,
        (Some(_), None) if method_text.is_some() && id.is_none() && result.is_none() && error.is_none() => {
            Subject::Nothing
        }
        (_, Some(id)) => Subject::Request(id),
        (_, None) => Subject::Unreadable,
    };
    let refuse = |kind| Err(Refused { kind, subject });
    if twice {
        return refuse(MalformedKind::Duplicate);
    }
    let metas = |whole: &RawValue| {
        let members = self::members(whole.get()).unwrap_or_default();
        members.into_iter().any(|(name, meta)| name == "_meta" && is_ambiguous(meta.get()))
    };
    if one("params").is_some_and(|params| is_ambiguous(params.get()) || metas(params))
        || result.is_some_and(|result| is_ambiguous(result.get()) || metas(result))
    {
        return refuse(MalformedKind::DuplicateParam);
    }
    if one("jsonrpc").and_then(|version| text_of(version.get())).as_deref() != Some("2.0") {
        return refuse(MalformedKind::Version);
    }
    match (method, result, error) {
        (Some(_), None, None) => {
            let Some(method) = method_text else { return refuse(MalformedKind::Method) };
            if id.is_some_and(|id| !is_id(id.get())) {
                return refuse(MalformedKind::Id);
            }
            let params = one("params").filter(|params| params.get() != "null");
            let inner = params.map(|params| self::members(params.get()));
            if inner.as_ref().is_some_and(Option::is_none) {
                return refuse(MalformedKind::Params);
            }
            let inner = inner.flatten().unwrap_or_default();
            let meta = inner.iter().rfind(|(name, _)| name == "_meta").map(|(_, meta)| *meta);
            Ok(match id {
                Some(id) => Expected::Request { id, method, params, meta },
                None => Expected::Notification { method, params },
            })
        }
        (None, Some(result), None) => match id {
            Some(id) if is_id(id.get()) => Ok(Expected::Response { id, result }),
            Some(_) => refuse(MalformedKind::Id),
            None => refuse(MalformedKind::Shape),
        },
        (None, None, Some(error)) => error_response(id, error).or_else(refuse),
        _ => refuse(MalformedKind::Shape),
    }
}

/// Classifies a response with an error.
fn error_response<'a>(id: Option<&'a RawValue>, error: &'a RawValue) -> Result<Expected<'a>, MalformedKind> {
    let id = id.filter(|id| id.get() != "null");
    if id.is_some_and(|id| !is_id(id.get())) {
        return Err(MalformedKind::Id);
    }
    let inner = members(error.get()).unwrap_or_default();
    let last = |name: &str| inner.iter().rfind(|(member, _)| member == name).map(|(_, value)| *value);
    let code = last("code").filter(|code| is_id(code.get())).and_then(|code| integer(code.get())?.parse().ok());
    let message = last("message").and_then(|message| text_of(message.get()));
    let twice = ["code", "message", "data"].iter().any(|name| inner.iter().filter(|(it, _)| it == name).count() > 1);
    match (code, message) {
        (Some(code), Some(message)) if !twice => Ok(Expected::Error { id, code, message, data: last("data") }),
        _ => Err(MalformedKind::Error),
    }
}

fn is_id(token: &str) -> bool {
    token.len() <= RequestId::MAX_LEN && (text_of(token).is_some() || integer(token).is_some())
}

/// Returns the text of a JSON string.
pub(crate) fn text_of(token: &str) -> Option<String> {
    serde_json::from_str(token).ok()
}

/// Returns the digits of a JSON number that is an integer, in any spelling. A spelling with a fraction or an exponent
/// has at most 64 digits, so `1e999999999` is not expanded.
pub(crate) fn integer(token: &str) -> Option<String> {
    let (sign, rest) = token.strip_prefix('-').map_or(("", token), |rest| ("-", rest));
    if !rest.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if rest != "0" && rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(token.to_owned());
    }
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (before, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
        return Some("0".to_owned());
    }
    // The point moves one place at a time to the position of the exponent.
    let (mut before, mut behind) = (Vec::from(before), std::collections::VecDeque::from(Vec::from(behind)));
    let digits = |before: &[u8]| before.iter().skip_while(|digit| **digit == b'0').count();
    let mut places: i128 = exponent.parse().ok()?;
    while places != 0 {
        if places > 0 {
            before.push(behind.pop_front().unwrap_or(b'0'));
            places -= 1;
            if digits(&before) > 64 {
                return None;
            }
        } else {
            behind.push_front(before.pop()?);
            places += 1;
        }
    }
    if behind.iter().any(|digit| *digit != b'0') || digits(&before) > 64 {
        return None;
    }
    let digits: String = before.into_iter().skip_while(|digit| *digit == b'0').map(char::from).collect();
    Some(format!("{sign}{digits}"))
}

/// Returns the nesting depth of a JSON text.
pub(crate) fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match (in_string, byte) {
            (true, _) if std::mem::take(&mut escaped) => {}
            (true, b'\\') => escaped = true,
            (true, b'"') => in_string = false,
            (true, _) => {}
            (false, b'"') => in_string = true,
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => depth -= 1,
            (false, _) => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Returns an upper bound of the nesting depth of a text, including brackets in strings.
pub(crate) fn brackets(text: &str) -> usize {
    text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count()
}
