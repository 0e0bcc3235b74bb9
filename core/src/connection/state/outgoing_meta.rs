//! What a request says beside its params, in their `_meta`: who sends it, and what it wants beside its answer.

use alloc::{sync::Arc, vec::Vec};

use crate::{
    connection::{json_splice, types::RequestOptions},
    protocol::ProtocolVersion,
    rpc::CallId,
    schema::{LoggingLevel, TraceContext, keys},
    wire::{
        Json,
        encode::{self, Encoded},
        scan::may_have,
    },
};

/// What every request of the modern era says in `_meta`, as texts: the keys and values but for the version.
#[derive(Clone, Debug)]
pub(crate) struct ClientIdentity {
    pub(crate) info: Json,
    pub(crate) capabilities: Json,
}

/// What the application wants to be said with a request, each time it is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetaOptions {
    pub(crate) level: Option<LoggingLevel>,
    trace: Option<Arc<TraceContext>>,
    /// It is not said, but decides what becomes of a task.
    pub(crate) follow_task: bool,
}

impl MetaOptions {
    pub(crate) fn of(options: &RequestOptions) -> Self {
        Self { level: options.log_level, trace: options.trace.clone(), follow_task: options.follow_task }
    }
}

/// All that is said.
#[derive(Clone, Copy)]
pub(crate) struct OutgoingMeta<'a> {
    /// Where each request says who sends it, in which revision.
    pub(crate) modern: Option<(ProtocolVersion, &'a ClientIdentity)>,
    pub(crate) extra: &'a MetaOptions,
    /// The call whose progress is wanted.
    pub(crate) token: Option<CallId>,
}

/// The value of a member.
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
    /// The members of `_meta`, in their order.
    fn members(self) -> impl DoubleEndedIterator<Item = (&'static str, Value<'a>)> {
        let token = self.token.map(|token| (keys::PROGRESS_TOKEN, Value::Number(token.as_u64())));
        let sender = self.modern.map(|(version, identity)| {
            [
                (keys::PROTOCOL_VERSION, Value::Text(version.as_str())),
                (keys::CLIENT_INFO, Value::Json(identity.info.get())),
                (keys::CLIENT_CAPABILITIES, Value::Json(identity.capabilities.get())),
            ]
        });
        let trace = self.extra.trace.iter().flat_map(|trace| trace.members());
        // In a session the level is a matter of the session.
        let level = self.extra.level.filter(|_| self.modern.is_some());
        token
            .into_iter()
            .chain(sender.into_iter().flatten())
            .chain(trace.map(|(name, value)| (name, Value::Text(value))))
            .chain(level.map(|level| (keys::LOG_LEVEL, Value::Text(level.as_str()))))
    }

    /// Appends what `params` appends, which is an object or nothing, with all this in it.
    pub(crate) fn append(self, out: &mut Vec<u8>, params: impl FnOnce(&mut Vec<u8>) -> Encoded) -> Encoded {
        let start = out.len();
        // It is written first, so that the params, which may be large, need not be moved for it.
        self.members().for_each(|(name, value)| {
            out.extend_from_slice(if out.len() == start { b"{\"_meta\":{\"" } else { b",\"" });
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            value.append(out);
        });
        if out.len() == start {
            return params(out);
        }
        out.push(b'}');
        let object = out.len();
        params(out)?;
        let has_members =
            out[object..].strip_prefix(b"{").map(|inside| inside.trim_ascii_start().first() != Some(&b'}'));
        match has_members {
            None => out.push(b'}'),
            // Its brace becomes the comma between the two.
            Some(true) if !may_have(&out[object..], "_meta") => out[object] = b',',
            Some(_) => {
                out.drain(start..object);
                self.splice(out, start);
            }
        }
        Ok(())
    }

    /// Adds all this to the params that begin at `start` and end with `out`.
    pub(crate) fn splice(self, out: &mut Vec<u8>, start: usize) {
        let mut text = Vec::new();
        for (name, value) in self.members().rev() {
            text.clear();
            value.append(&mut text);
            json_splice::set_meta(out, start, name, core::str::from_utf8(&text).unwrap_or("null"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Json, RawJson};
    use alloc::string::String;

    /// Params with what is said beside them: as they are written, and as it is added to them later.
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
    fn the_token_is_added_or_replaced_and_nothing_else_changes() {
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
    fn all_that_is_said_is_one_object_whatever_the_params_say() {
        let identity = ClientIdentity {
            info: Json::parse(r#"{"name":"me"}"#).expect("JSON"),
            capabilities: Json::parse("{}").expect("JSON"),
        };
        let trace = TraceContext::within("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let extra =
            MetaOptions { level: Some(LoggingLevel::Info), trace: trace.ok().map(Arc::new), follow_task: false };
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
        let [said, _] = both(all, r#"{"a":1,"_meta":{"b":2}}"#);
        let said = RawJson::trusted(&said).member("_meta").expect("it is there").into_owned();
        let names: Vec<_> = said.members().map(|(name, _)| name.into_owned()).collect();
        let expected =
            [keys::PROTOCOL_VERSION, keys::CLIENT_INFO, keys::CLIENT_CAPABILITIES, keys::TRACEPARENT, keys::LOG_LEVEL];
        assert_eq!(names[..5], expected);
        assert_eq!(names[5..], ["b"]);
    }
}
