//! The state of a request that a client keeps for the server, authenticated with a key of the server.

use std::{fmt, time::Duration};

use hmac_sha256::HMAC;
use mcp_proto::{
    schema::{Encode, InputResponses, JsonLine, decode_base64, encode_base64},
    wire::{ErrorObject, Json},
};

use crate::{
    inbound::rpc_result::RpcResult,
    util::time::{SystemTime, UNIX_EPOCH},
};

/// The version of the format. A state in another format is refused.
const FORMAT: u8 = 2;

/// The bytes before the responses: format, expiry, round.
const HEAD: usize = 1 + 8 + 4;

/// Authenticates states with an HMAC. A client can read a state, and only a holder of the key can make one.
///
/// A valid state proves that a service of this name, with this key, has made it for this principal, method and params,
/// and not longer than the lifetime ago. It proves neither that this client got it over this connection, nor that the
/// client has not used it before: it can be replayed until it expires. Nor does it prove that the server has requested
/// the input in the request: a client can send responses to requests that it foresees, without any state.
/// So the response to an elicitation is a statement of the client, and no proof of its user's decision.
pub(crate) struct StateSigner {
    /// The name of the service: others may share its key, and have a tool of the same name.
    service: String,
    key: Option<[u8; 32]>,
    lifetime: Duration,
}

/// The request to which a state belongs. The state is invalid for any other request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// The principal, if it is known.
    pub(super) principal: Option<String>,
    pub(super) method: &'static str,
    pub(super) digest: [u8; 32],
}

/// The contents of a state.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RequestState {
    /// The number of rounds so far.
    pub(super) round: u32,
    /// The responses of earlier rounds.
    pub(super) answers: InputResponses,
}

impl StateSigner {
    pub(crate) const fn new(service: String, key: Option<[u8; 32]>, lifetime: Duration) -> Self {
        Self { service, key, lifetime }
    }

    pub(super) fn sign(&self, scope: &Scope, state: &RequestState) -> RpcResult<String> {
        self.sign_at(now(), scope, state)
    }

    /// Verifies the state of a request, and returns it.
    ///
    /// # Errors
    /// -32602 if the state is invalid, belongs to another request, or has expired. The error does not say which.
    pub(super) fn verify(&self, scope: &Scope, text: &str) -> RpcResult<RequestState> {
        self.verify_at(now(), scope, text).ok_or_else(|| ErrorObject::invalid_params("Invalid params: requestState"))
    }

    fn sign_at(&self, now: u64, scope: &Scope, state: &RequestState) -> RpcResult<String> {
        let mut sealed = vec![FORMAT];
        sealed.extend_from_slice(&now.saturating_add(self.lifetime.as_secs()).to_be_bytes());
        sealed.extend_from_slice(&state.round.to_be_bytes());
        let written = state.answers.append_at(None, &mut JsonLine::new(&mut sealed));
        written.map_err(|error| ErrorObject::internal(format!("The input responses cannot be encoded: {error}")))?;
        let mac = self.mac(scope, &sealed).ok_or_else(|| ErrorObject::internal("No randomness available"))?;
        sealed.extend_from_slice(&mac.finalize());
        Ok(encode_base64(&sealed))
    }

    fn verify_at(&self, now: u64, scope: &Scope, text: &str) -> Option<RequestState> {
        let sealed = decode_base64(text)?;
        let (sealed, mac) = sealed.split_last_chunk()?;
        // The comparison takes constant time.
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
        Some(RequestState { round, answers: answers.decode().ok()? })
    }

    fn mac(&self, scope: &Scope, sealed: &[u8]) -> Option<HMAC> {
        let mut mac = HMAC::new(self.key?);
        // The lengths keep the parts apart: bytes cannot move from one part to the next.
        let (known, principal) = match &scope.principal {
            Some(principal) => ([1], principal.as_bytes()),
            None => ([0], &[][..]),
        };
        for part in [self.service.as_bytes(), &known, principal, scope.method.as_bytes(), &scope.digest, sealed] {
            mac.update((part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        Some(mac)
    }
}

impl fmt::Debug for StateSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateSigner").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::{protocol::Method, wire::JsonObject};
    use serde_json::{Value, json};

    fn of(params: &Value) -> [u8; 32] {
        let params = Json::new(params).expect("JSON");
        crate::server::input_required::digest::Params::of(Some(&(&params).into())).digest()
    }

    fn scope() -> Scope {
        Scope { principal: Some("ada".into()), method: "tools/call", digest: of(&json!({"name": "t"})) }
    }

    fn state() -> RequestState {
        let answer = JsonObject::new(&json!({"action": "decline"})).expect("an object");
        RequestState { round: 3, answers: InputResponses::from([("q1", answer)]) }
    }

    // req: M-MRTR-011 M-MRTR-013 M-MRTR-014 M-MRTR-015
    #[test]
    fn state_is_valid_in_time_for_its_request_only() {
        let methods = Method::ALL.iter().map(|method| method.as_str());
        methods.for_each(|method| only_with_its_request(&Scope { method, ..scope() }));
    }

    fn only_with_its_request(scope: &Scope) {
        let minute = Duration::from_secs(60);
        let state_signer = StateSigner::new("bank".into(), Some([7; 32]), minute);
        let text = state_signer.sign_at(1000, scope, &state()).expect("a state");
        for now in [0, 1000, 1059] {
            assert_eq!(state_signer.verify_at(now, scope, &text), Some(state()));
        }
        for now in [1060, u64::MAX] {
            assert_eq!(state_signer.verify_at(now, scope, &text), None);
        }
        let others = [
            Scope { principal: Some("eve".into()), ..scope.clone() },
            Scope { principal: Some(String::new()), ..scope.clone() },
            Scope { principal: None, ..scope.clone() },
            Scope { method: "prompts/other", ..scope.clone() },
            Scope { digest: of(&json!({"name": "u"})), ..scope.clone() },
        ];
        for other in others {
            assert_eq!(state_signer.verify_at(1000, &other, &text), None, "{other:?}");
        }
        // Nor with another key, by another service that has the same one, or without any.
        for other in [
            StateSigner::new("bank".into(), Some([8; 32]), minute),
            StateSigner::new("bar".into(), Some([7; 32]), minute),
            StateSigner::new(String::new(), Some([7; 32]), minute),
            StateSigner::new("bank".into(), None, minute),
        ] {
            assert_eq!(other.verify_at(1000, scope, &text), None, "{}", other.service);
        }
        assert!(StateSigner::new("bank".into(), None, minute).sign_at(1000, scope, &state()).is_err());
    }

    // req: M-MRTR-010 M-MRTR-012
    #[test]
    fn state_with_any_changed_bit_is_rejected() {
        let state_signer = StateSigner::new("bank".into(), Some([7; 32]), Duration::from_secs(60));
        let text = state_signer.sign_at(1000, &scope(), &state()).expect("a state");
        let sealed = decode_base64(&text).expect("base64");
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(state_signer.verify_at(1000, &scope(), &encode_base64(&changed)), None, "bit {bit}");
        }
        for len in 0..sealed.len() {
            assert_eq!(state_signer.verify_at(1000, &scope(), &encode_base64(&sealed[..len])), None, "{len} bytes");
        }
        for junk in ["", "x", "v1.k3.9f2c", "AAAA"] {
            assert_eq!(state_signer.verify_at(1000, &scope(), junk), None);
        }
    }

    /// Processes that share a key accept each other's states, also with different versions of this crate, so the format
    /// never changes. The text was made with another implementation.
    #[test]
    fn state_is_signed_with_hmac_sha256() {
        let sealed = "AgAAAAAAAAQkAAAAA3sicTEiOnsiYWN0aW9uIjoiZGVjbGluZSJ9fSKjdpmFLBDDu3M07JgpeDytnqksDKJ4x+N24i5Qvvp4";
        let state_signer = StateSigner::new("bank".into(), Some([7; 32]), Duration::from_secs(60));
        assert_eq!(state_signer.sign_at(1000, &scope(), &state()).as_deref(), Ok(sealed));
    }
}
