//! What a server hands to a client to be reminded of, so that it believes it when it comes back.

use std::{
    borrow::Cow,
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hmac_sha256::{HMAC, Hash};
use mcp_proto::{
    schema::{Encode, InputResponses, JsonLine, decode_base64, encode_base64},
    wire::{ErrorObject, Json, RawJson},
};
use serde_json::Number;

use crate::reply::Answer;

/// The form of what is sealed. Whatever comes back in another form is not ours.
const FORMAT: u8 = 1;

/// The bytes in front of the answers: format, expiry, round.
const HEAD: usize = 1 + 8 + 4;

/// Members of params that a request and its repetition do not have in common.
const OF_THIS_ROUND: [&str; 3] = ["_meta", "inputResponses", "requestState"];

/// Seals states. Anybody can read them, and nobody without the key can make one.
pub(crate) struct Seal {
    key: Option<[u8; 32]>,
    lifetime: Duration,
}

/// The request that a state belongs to. It is worth nothing with any other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// Who asks, where that is known.
    pub(super) principal: Option<String>,
    pub(super) method: &'static str,
    pub(super) digest: [u8; 32],
}

/// What is sealed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    /// How often the request has been answered with questions.
    pub(super) round: u32,
    /// What was answered in earlier rounds.
    pub(super) answers: InputResponses,
}

impl Seal {
    pub(crate) const fn new(key: Option<[u8; 32]>, lifetime: Duration) -> Self {
        Self { key, lifetime }
    }

    pub(super) fn close(&self, scope: &Scope, state: &State) -> Answer<String> {
        self.close_at(now(), scope, state)
    }

    /// # Errors
    /// -32602 if this is no state of ours, is of another request, or is too old. Which of these it is, nobody hears.
    pub(super) fn open(&self, scope: &Scope, text: &str) -> Answer<State> {
        self.open_at(now(), scope, text).ok_or_else(|| ErrorObject::invalid_params("Invalid params: requestState"))
    }

    fn close_at(&self, now: u64, scope: &Scope, state: &State) -> Answer<String> {
        let mut sealed = vec![FORMAT];
        sealed.extend_from_slice(&now.saturating_add(self.lifetime.as_secs()).to_be_bytes());
        sealed.extend_from_slice(&state.round.to_be_bytes());
        let written = state.answers.append_at(None, &mut JsonLine::new(&mut sealed));
        written.map_err(|error| ErrorObject::internal(format!("The answers cannot be kept: {error}")))?;
        let mac = self.mac(scope, &sealed).ok_or_else(|| ErrorObject::internal("No randomness available"))?;
        sealed.extend_from_slice(&mac.finalize());
        Ok(encode_base64(&sealed))
    }

    fn open_at(&self, now: u64, scope: &Scope, text: &str) -> Option<State> {
        let sealed = decode_base64(text)?;
        let (sealed, mac) = sealed.split_last_chunk()?;
        // Takes the same time wherever the first wrong byte is.
        if !self.mac(scope, sealed)?.finalize_verify(mac) {
            return None;
        }
        let (head, answers) = sealed.split_at_checked(HEAD)?;
        let (format, rest) = head.split_first()?;
        let (expiry, round) = rest.split_first_chunk()?;
        if *format != FORMAT || u64::from_be_bytes(*expiry) <= now {
            return None;
        }
        let round = u32::from_be_bytes(round.try_into().ok()?);
        let answers = Json::parse(str::from_utf8(answers).ok()?).ok()?;
        Some(State { round, answers: answers.decode().ok()? })
    }

    fn mac(&self, scope: &Scope, sealed: &[u8]) -> Option<HMAC> {
        let mut mac = HMAC::new(self.key?);
        // With its length in front, no part can pass for a part of its neighbour.
        let (known, principal) = match &scope.principal {
            Some(principal) => ([1], principal.as_bytes()),
            None => ([0], &[][..]),
        };
        for part in [&known[..], principal, scope.method.as_bytes(), &scope.digest, sealed] {
            mac.update((part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        Some(mac)
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The params of a request. Their digest is wanted if it is answered with questions, or answers some, which hardly any does.
#[derive(Debug)]
pub(super) enum Params {
    Short(Option<RawJson<'static>>),
    /// Long ones are not kept for that.
    Digest([u8; 32]),
}

/// Up to how many bytes params are short.
const SHORT: usize = 4 * 1024;

impl Params {
    pub(super) fn of(params: Option<&RawJson<'_>>) -> Self {
        match params {
            Some(params) if params.get().len() > SHORT => Self::Digest(digest(Some(params))),
            params => Self::Short(params.cloned().map(RawJson::into_owned)),
        }
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        match self {
            Self::Short(params) => digest(params.as_ref()),
            Self::Digest(digest) => *digest,
        }
    }
}

/// A digest of all that a request and its repetition have in common. The order of members makes no difference, and neither does
/// how texts and numbers are spelled.
fn digest(params: Option<&RawJson<'_>>) -> [u8; 32] {
    let mut digest = Hash::new();
    if params.and_then(|params| add(&mut digest, params, &OF_THIS_ROUND)).is_none() {
        digest = Hash::new();
        text_of(&mut digest, "null");
    }
    digest.finalize()
}

/// Adds a value but for these members; `None` if there is anything in it that cannot be read.
fn add(digest: &mut Hash, value: &RawJson<'_>, but: &[&str]) -> Option<()> {
    match value.get().as_bytes() {
        [b'[', ..] => {
            let items: Vec<Json> = value.decode().ok()?;
            digest.update(b"[");
            digest.update((items.len() as u64).to_be_bytes());
            items.iter().try_for_each(|item| add(digest, &item.into(), &[]))?;
        }
        [b'{', ..] => {
            let mut members: Vec<(Cow<'_, str>, RawJson<'_>)> = Vec::new();
            for (name, value) in value.members().filter(|(name, _)| !but.contains(&&**name)) {
                match members.binary_search_by(|(known, _)| known.cmp(&name)) {
                    // Of several of one name the last counts.
                    Ok(place) => members[place].1 = value,
                    Err(place) => members.insert(place, (name, value)),
                }
            }
            digest.update(b"{");
            digest.update((members.len() as u64).to_be_bytes());
            for (name, value) in members {
                text(digest, &name);
                add(digest, &value, &[])?;
            }
        }
        [b'"', ..] => text(digest, &value.clone().into_text()?),
        [b't' | b'f' | b'n', ..] => text_of(digest, value.get()),
        _ => text_of(digest, &value.decode::<Number>().ok()?.to_string()),
    }
    Some(())
}

/// Adds what is no text, no array and no object.
fn text_of(digest: &mut Hash, value: &str) {
    digest.update(b"=");
    text(digest, value);
}

fn text(digest: &mut Hash, text: &str) {
    digest.update(b"\"");
    digest.update((text.len() as u64).to_be_bytes());
    digest.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::wire::JsonObject;
    use serde_json::{Value, json};

    fn of(params: &Value) -> [u8; 32] {
        digest(Some(&RawJson::from(&Json::new(params).expect("JSON"))))
    }

    fn scope() -> Scope {
        Scope { principal: Some("ada".into()), method: "tools/call", digest: of(&json!({"name": "t"})) }
    }

    fn state() -> State {
        let answer = JsonObject::new(&json!({"action": "decline"})).expect("an object");
        State { round: 3, answers: InputResponses::from([("q1", answer)]) }
    }

    // req: M-MRTR-011 M-MRTR-013 M-MRTR-014 M-MRTR-015
    #[test]
    fn a_state_is_worth_something_only_in_time_and_with_its_request() {
        let seal = Seal::new(Some([7; 32]), Duration::from_secs(60));
        let text = seal.close_at(1000, &scope(), &state()).expect("a state");
        for now in [0, 1000, 1059] {
            assert_eq!(seal.open_at(now, &scope(), &text), Some(state()));
        }
        for now in [1060, u64::MAX] {
            assert_eq!(seal.open_at(now, &scope(), &text), None);
        }
        let others = [
            Scope { principal: Some("eve".into()), ..scope() },
            Scope { principal: Some(String::new()), ..scope() },
            Scope { principal: None, ..scope() },
            Scope { method: "prompts/get", ..scope() },
            Scope { digest: of(&json!({"name": "u"})), ..scope() },
        ];
        for other in others {
            assert_eq!(seal.open_at(1000, &other, &text), None, "{other:?}");
        }
        assert_eq!(Seal::new(Some([8; 32]), Duration::from_secs(60)).open_at(1000, &scope(), &text), None);
        assert!(Seal::new(None, Duration::from_secs(60)).close_at(1000, &scope(), &state()).is_err());
    }

    // req: M-MRTR-010 M-MRTR-012
    #[test]
    fn every_changed_bit_shows() {
        let seal = Seal::new(Some([7; 32]), Duration::from_secs(60));
        let text = seal.close_at(1000, &scope(), &state()).expect("a state");
        let sealed = decode_base64(&text).expect("base64");
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(seal.open_at(1000, &scope(), &encode_base64(&changed)), None, "bit {bit}");
        }
        for len in 0..sealed.len() {
            assert_eq!(seal.open_at(1000, &scope(), &encode_base64(&sealed[..len])), None, "{len} bytes");
        }
        for junk in ["", "x", "v1.k3.9f2c", "AAAA"] {
            assert_eq!(seal.open_at(1000, &scope(), junk), None);
        }
    }

    /// Processes that share a key believe each other, whichever version of this they run: so the form never changes. The text was
    /// made by other means.
    #[test]
    fn it_is_sealed_with_hmac_sha256() {
        let sealed = "AQAAAAAAAAQkAAAAA3sicTEiOnsiYWN0aW9uIjoiZGVjbGluZSJ9fdtYabnkxFBDbalneRq/lExLXq5UySgoxuQC+i2Ns1qE";
        let seal = Seal::new(Some([7; 32]), Duration::from_secs(60));
        assert_eq!(seal.close_at(1000, &scope(), &state()).as_deref(), Ok(sealed));
    }

    #[test]
    fn a_digest_is_of_values_and_not_of_texts() {
        let digest = |text| digest(Some(&RawJson::from(&Json::parse(text).expect("JSON"))));
        let same = r#"{"a":[1.5,100.0,1,-2,true,false,null,"\u00e9\n"],"b":{"c":"2","d":[]}}"#;
        let other = r#" {"b": {"c":1,"d":[ ] , "c":"2"}, "\u0061":[15e-1,1e2,1,-2,true,false,null,"\u00e9\u000a"]} "#;
        assert_eq!(digest(same), digest(other));
        // Made by other means: it never changes, since processes of several versions may share a key.
        assert_eq!(digest(same)[..8], [47, 218, 163, 111, 196, 22, 89, 163]);
        assert_ne!(digest("[1]"), digest("[1.0]"));
        for unreadable in ["[1e999]", r#"["\ud800"]"#] {
            assert_eq!(digest(unreadable), digest("null"));
        }
    }

    #[test]
    fn a_digest_is_of_what_stays_the_same() {
        let params = json!({"name": "t", "arguments": {"a": [1, "2", null], "b": {}}});
        let mut again = params.clone();
        again["_meta"] = json!({"x": 1});
        again["inputResponses"] = json!({});
        again["requestState"] = json!("s");
        assert_eq!(of(&params), of(&again));
        let swapped = Json::parse(r#"{"arguments":{"b":{},"a":[1,"2",null]},"name":"t"}"#).expect("JSON");
        assert_eq!(digest(Some(&RawJson::from(&swapped))), of(&params));
        for other in [
            json!({"name": "t", "arguments": {"a": [1, 2, null], "b": {}}}),
            json!({"name": "t", "arguments": {"a": [[1], "2", null], "b": {}}}),
            json!({"name": "t", "arguments": {"a": [1, "2", null]}}),
            json!({"name": "t"}),
            json!({}),
        ] {
            assert_ne!(of(&other), of(&params), "{other}");
        }
    }
}
