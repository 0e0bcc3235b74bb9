//! The `_meta` of an outgoing request: identity of the client, progress token, trace context and log level.

use alloc::{boxed::Box, format, sync::Arc, vec::Vec};

use crate::{
    connection::{json_splice, types::RequestOptions},
    protocol::ProtocolVersion,
    rpc::CallId,
    schema::{At, ClientCapabilities, LoggingLevel, TraceContext, keys},
    wire::{
        Json,
        encode::{self, Encoded},
        name_search::may_have,
    },
};

/// The identity that every request of the modern era carries in `_meta`, encoded as JSON.
#[derive(Clone, Debug)]
pub(crate) struct ClientIdentity {
    info: Json,
    capabilities: Json,
    /// The members of `_meta` for requests of this revision, which most requests carry without changes.
    members: (ProtocolVersion, Box<[u8]>),
}

impl ClientIdentity {
    pub(crate) fn new(version: ProtocolVersion, info: Json, capabilities: Json) -> Self {
        let members = [(keys::CLIENT_INFO, &info), (keys::CLIENT_CAPABILITIES, &capabilities)];
        let mut text = format!(r#""{}":"{}""#, keys::PROTOCOL_VERSION, version.as_str());
        members.into_iter().for_each(|(name, value)| text.push_str(&format!(r#","{name}":{}"#, value.get())));
        Self { info, capabilities, members: (version, text.into_bytes().into()) }
    }
}

/// The options of a request that the application set. They apply each time the request is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetaOptions {
    pub(crate) level: Option<LoggingLevel>,
    trace: Option<Arc<TraceContext>>,
    /// Whether the engine polls a task that the request becomes. Not sent to the peer.
    pub(crate) follow_task: bool,
    /// The capabilities to declare in place of those of the client, as JSON.
    capabilities: Option<Json>,
}

impl MetaOptions {
    pub(crate) fn of(options: &RequestOptions) -> Self {
        let encode =
            |capabilities: &Arc<ClientCapabilities>| At(&**capabilities, Some(ProtocolVersion::LATEST)).to_json().ok();
        Self {
            level: options.log_level,
            trace: options.trace.clone(),
            follow_task: options.follow_task,
            capabilities: options.client_capabilities.as_ref().and_then(encode),
        }
    }
}

/// All members to write into `_meta`.
#[derive(Clone, Copy)]
pub(crate) struct OutgoingMeta<'a> {
    /// The revision and the identity of the client, in the modern era.
    pub(crate) modern: Option<(ProtocolVersion, &'a ClientIdentity)>,
    pub(crate) extra: &'a MetaOptions,
    /// The call whose id is the progress token, if progress is requested.
    pub(crate) token: Option<CallId>,
}

/// The value of a member of `_meta`.
#[derive(Clone, Copy)]
enum Value<'a> {
    Json(&'a str),
    Text(&'a str),
    Number(u64),
}

impl Value<'_> {
    fn append(self, out: &mut Vec<u8>) {
        match self {
            Self::Json(json) => out.extend_from_slice(json.as_bytes()),
            Self::Text(text) => encode::text(out, text),
            Self::Number(number) => encode::unsigned(out, number),
        }
    }
}

impl<'a> OutgoingMeta<'a> {
    /// Returns the members of `_meta` in the order in which they are written.
    fn members(self) -> impl DoubleEndedIterator<Item = (&'static str, Value<'a>)> {
        let token = self.token.map(|token| (keys::PROGRESS_TOKEN, Value::Number(token.as_u64())));
        let sender = self.modern.map(|(version, identity)| {
            let capabilities = self.extra.capabilities.as_ref().unwrap_or(&identity.capabilities);
            [
                (keys::PROTOCOL_VERSION, Value::Text(version.as_str())),
                (keys::CLIENT_INFO, Value::Json(identity.info.get())),
                (keys::CLIENT_CAPABILITIES, Value::Json(capabilities.get())),
            ]
        });
        token.into_iter().chain(sender.into_iter().flatten()).chain(self.others())
    }

    /// Returns the members that neither name the client nor the progress token.
    fn others(self) -> impl DoubleEndedIterator<Item = (&'static str, Value<'a>)> {
        let trace = self.extra.trace.iter().flat_map(|trace| trace.members());
        // A session sets its level with `logging/setLevel`.
        let level = self.extra.level.filter(|_| self.modern.is_some());
        trace
            .map(|(name, value)| (name, Value::Text(value)))
            .chain(level.map(|level| (keys::LOG_LEVEL, Value::Text(level.as_str()))))
    }

    /// Appends the params that `params` writes (an object or nothing), with these members in their `_meta`.
    pub(crate) fn append(self, out: &mut Vec<u8>, params: impl FnOnce(&mut Vec<u8>) -> Encoded) -> Encoded {
        let start = out.len();
        // `_meta` is written first, so that the params, which may be large, need not be moved.
        self.append_members(out);
        if out.len() == start {
            return params(out);
        }
        out.push(b'}');
        let object = out.len();
        params(out)?;
        match json_splice::has_members(&out[object..]) {
            None => out.push(b'}'),
            // The opening brace of the params becomes the comma after `_meta`.
            Some(true) if !may_have(&out[object..], "_meta") => out[object] = b',',
            Some(_) => {
                out.drain(start..object);
                self.splice(out, start);
            }
        }
        Ok(())
    }

    /// Appends the beginning of params, up to the last member of their `_meta`; nothing if there are no members.
    fn append_members(self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut meta = self;
        // The most common members are written as a whole.
        if let Some(token) = meta.token.take() {
            out.extend_from_slice(b"{\"_meta\":{\"progressToken\":");
            encode::unsigned(out, token.as_u64());
        }
        if let Some((version, ClientIdentity { members: (usual, members), .. })) = meta.modern
            && version == *usual
            && meta.extra.capabilities.is_none()
        {
            let begin: &[u8] = if out.len() == start { b"{\"_meta\":{" } else { b"," };
            out.extend_from_slice(begin);
            out.extend_from_slice(members);
            if meta.extra.level.is_none() && meta.extra.trace.is_none() {
                return;
            }
            return meta.others().for_each(|member| append_member(out, start, member));
        }
        if meta.modern.is_some() || meta.extra.trace.is_some() {
            meta.members().for_each(|member| append_member(out, start, member));
        }
    }

    /// Adds these members to the `_meta` of the params that begin at `start` and end with `out`.
    pub(crate) fn splice(self, out: &mut Vec<u8>, start: usize) {
        let mut text = Vec::new();
        for (name, value) in self.members().rev() {
            text.clear();
            value.append(&mut text);
            json_splice::set_meta(out, start, name, core::str::from_utf8(&text).unwrap_or("null"));
        }
    }
}

/// Appends a member of the `_meta` of params that begin at `start`.
fn append_member(out: &mut Vec<u8>, start: usize, (name, value): (&str, Value<'_>)) {
    out.extend_from_slice(if out.len() == start { b"{\"_meta\":{\"" } else { b",\"" });
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    value.append(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Json, RawJson};
    use alloc::string::String;

    /// Returns the params with their `_meta`: written by `append`, and added by `splice`.
    fn both(meta: OutgoingMeta<'_>, params: &str) -> [String; 2] {
        let mut written = b"before".to_vec();
        let mut added = written.clone();
        let append = |out: &mut Vec<u8>| {
            out.extend_from_slice(params.as_bytes());
            Ok(())
        };
        meta.append(&mut written, append).expect("it is text");
        added.extend_from_slice(if params.is_empty() { "{}" } else { params }.as_bytes());
        meta.splice(&mut added, 6);
        [written, added].map(|out| String::from_utf8(out).expect("text stays text").split_off(6))
    }

    // req: PROG-001 PROG-002
    #[test]
    fn sets_only_the_progress_token() {
        let cases = [
            ("{}", r#"{"_meta":{"progressToken":7}}"#),
            (r#"{"a":1}"#, r#"{"_meta":{"progressToken":7},"a":1}"#),
            (r#"{"_meta":{},"a":1}"#, r#"{"_meta":{"progressToken":7},"a":1}"#),
            (r#"{"_meta":{"k":[1]},"a":1}"#, r#"{"_meta":{"progressToken":7,"k":[1]},"a":1}"#),
            (r#"{"_meta":{"k":1,"progressToken":"mine"}}"#, r#"{"_meta":{"k":1,"progressToken":7}}"#),
            (
                r#"{ "a" : {"_meta":{}} , "_meta" : { "k" : 1 } }"#,
                r#"{ "a" : {"_meta":{}} , "_meta" : {"progressToken":7, "k" : 1 } }"#,
            ),
            ("{ }", r#"{"_meta":{"progressToken":7} }"#),
            (r#"{"_meta":null}"#, r#"{"_meta":{"progressToken":7}}"#),
        ];
        let extra = MetaOptions::default();
        let meta = OutgoingMeta { modern: None, extra: &extra, token: Some(CallId::from_raw(7)) };
        for (params, expected) in cases {
            assert_eq!(both(meta, params), [expected; 2]);
        }
    }

    #[test]
    fn meta_is_merged_into_one_object() {
        let identity = ClientIdentity::new(
            ProtocolVersion::LATEST,
            Json::parse(r#"{"name":"me"}"#).expect("JSON"),
            Json::parse("{}").expect("JSON"),
        );
        let trace = TraceContext::within("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let extra =
            MetaOptions { level: Some(LoggingLevel::Info), trace: trace.ok().map(Arc::new), ..MetaOptions::default() };
        let nothing = OutgoingMeta { modern: None, extra: &MetaOptions::default(), token: None };
        let all =
            OutgoingMeta { modern: Some((ProtocolVersion::LATEST, &identity)), extra: &extra, token: nothing.token };
        let traced = OutgoingMeta { modern: None, ..all };
        for params in ["", "{}", "{ }", r#"{"a":1}"#, r#"{"a":1,"_meta":{"b":2}}"#, r#"{"\u005fmeta":{"b":2}}"#] {
            let [written, added] = both(all, params);
            assert_eq!(written, added, "{params}");
            let [written, added] = both(traced, params);
            assert_eq!(written, added, "{params}");
            assert!(RawJson::trusted(&written).member("_meta").is_some_and(|meta| meta.has("traceparent")));
            assert_eq!(both(nothing, params)[0], params);
        }
        let [meta, _] = both(all, r#"{"a":1,"_meta":{"b":2}}"#);
        let meta = RawJson::trusted(&meta).member("_meta").expect("it is there").into_owned();
        let names: Vec<_> = meta.members().map(|(name, _)| name.into_owned()).collect();
        let expected =
            [keys::PROTOCOL_VERSION, keys::CLIENT_INFO, keys::CLIENT_CAPABILITIES, keys::TRACEPARENT, keys::LOG_LEVEL];
        assert_eq!(names[..5], expected);
        assert_eq!(names[5..], ["b"]);
    }

    #[test]
    fn a_request_can_declare_other_capabilities() {
        let identity = ClientIdentity::new(
            ProtocolVersion::LATEST,
            Json::parse("{}").expect("JSON"),
            Json::parse(r#"{"roots":{},"sampling":{}}"#).expect("JSON"),
        );
        let declared = [crate::protocol::Capability::Roots].into_iter().collect::<ClientCapabilities>();
        let options = RequestOptions { client_capabilities: Some(Arc::new(declared)), ..RequestOptions::no_timeout() };
        for (options, expected) in
            [(options, r#"{"roots":{}}"#), (RequestOptions::no_timeout(), r#"{"roots":{},"sampling":{}}"#)]
        {
            let extra = MetaOptions::of(&options);
            let meta = OutgoingMeta { modern: Some((ProtocolVersion::LATEST, &identity)), extra: &extra, token: None };
            for written in both(meta, r#"{"a":1}"#) {
                let written = RawJson::trusted(&written);
                let meta = written.member("_meta").expect("it is there").into_owned();
                assert_eq!(meta.member(keys::CLIENT_CAPABILITIES).expect("it is there").get(), expected);
            }
        }
    }
}
