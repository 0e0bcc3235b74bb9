//! Proofs of all kinds, and why each of them is refused.

use alloc::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use serde_json::{Value, json};

use super::*;
use crate::auth::{bearer::BearerError, client::ProofClaims, secret::Secret, url::Url};

const NOW: u64 = 1_800_000_000;
const TOKEN: &str = "token";
const SERVER: &str = "https://mcp.example/mcp?tenant=a";
/// RFC 9449, section 6.1.
const THUMBPRINT: &str = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I";

fn url(text: &str) -> Url {
    Url::parse(text).expect(text)
}

fn rules() -> ProofRules {
    ProofRules::new(&url(SERVER), ["ES256", "EdDSA", "PS256"])
}

fn jwk() -> Value {
    json!({"kty": "EC", "crv": "P-256", "x": "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs",
        "y": "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"})
}

fn header() -> Value {
    json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk()})
}

fn claims() -> Value {
    let token = Secret::new(TOKEN);
    let claims = ProofClaims::new("id".into(), "POST", &url(SERVER), NOW, Some(&token), None);
    serde_json::from_str(&claims.to_json()).expect("JSON")
}

fn with(mut object: Value, name: &str, value: Value) -> Value {
    object[name] = value;
    object
}

fn without(mut object: Value, name: &str) -> Value {
    object.as_object_mut().expect("an object").remove(name);
    object
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    Base64UrlUnpadded::encode_string(bytes.as_ref())
}

fn proof(header: &Value, claims: &Value) -> String {
    format!("{}.{}.{}", encode(header.to_string()), encode(claims.to_string()), encode("signature"))
}

fn read_all(rules: &ProofRules, values: &[&str]) -> Result<Proof, ProofError> {
    rules.read(NOW, values.iter().map(|value| value.as_bytes()), "POST", &Secret::new(TOKEN))
}

fn read(rules: &ProofRules, header: &Value, claims: &Value) -> Result<Proof, ProofError> {
    read_all(rules, &[&proof(header, claims)])
}

fn verified(id: &str, issued_at: u64) -> VerifiedProof {
    let claims = with(with(claims(), "jti", json!(id)), "iat", json!(issued_at));
    let value = proof(&header(), &claims);
    let read = rules().read(issued_at, [value.as_bytes()], "POST", &Secret::new(TOKEN)).expect("it is good");
    read.verify(THUMBPRINT, |_| true).expect("it is genuine")
}

#[test]
fn proof_of_a_client_is_accepted() {
    let read = read(&rules(), &header(), &claims()).expect("it is good");
    assert_eq!((read.algorithm(), read.signature()), ("ES256", &b"signature"[..]));
    let value = proof(&header(), &claims());
    assert_eq!(Some(read.signed()), value.rsplit_once('.').map(|(signed, _)| signed.as_bytes()));
    // A log of it is no way to send it again.
    let (text, secrets) = (format!("{read:?}"), [format!("{:?}", read.signature()), encode("signature"), "jti".into()]);
    assert!(text.contains("ES256") && text.contains("POST"), "{text}");
    for secret in secrets.iter().map(String::as_str).chain([&value[..40], TOKEN]) {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let proof = read.verify(THUMBPRINT, |proof| proof.signature() == b"signature").expect("it is genuine");
    let mut cache = ReplayCache::default();
    assert_eq!(cache.admit(NOW, "ada", &proof), Ok(()));
    assert_eq!(cache.admit(NOW, "ada", &proof), Err(ProofError::Replayed));
    assert_eq!(cache.admit(NOW, "eve", &proof), Err(ProofError::Replayed), "also by another principal");
}

#[test]
fn rejected_proofs_have_reasons() {
    let rsa = |bytes: usize| {
        let n = encode(vec![0xff; bytes]);
        with(with(header(), "alg", json!("PS256")), "jwk", json!({"kty": "RSA", "n": n, "e": "AQAB"}))
    };
    let key = |name: &str, value: Value| with(header(), "jwk", with(jwk(), name, value));
    let in_header = |name: &str, value: Value| with(header(), name, value);
    let secret = json!({"kty": "oct", "k": "AAAA"});
    for (what, header, error) in [
        ("no typ", without(header(), "typ"), ProofError::Type),
        ("the typ of a token", in_header("typ", json!("at+jwt")), ProofError::Type),
        ("another case", in_header("typ", json!("DPoP+jwt")), ProofError::Type),
        ("no alg", without(header(), "alg"), ProofError::Algorithm),
        ("alg none", in_header("alg", json!("none")), ProofError::Algorithm),
        ("HS256", with(in_header("alg", json!("HS256")), "jwk", secret.clone()), ProofError::Algorithm),
        ("HS256 with a public key", in_header("alg", json!("HS256")), ProofError::Algorithm),
        ("an algorithm that is not allowed", in_header("alg", json!("ES384")), ProofError::Algorithm),
        ("an algorithm of another key", in_header("alg", json!("PS256")), ProofError::Key),
        ("no key", without(header(), "jwk"), ProofError::Key),
        ("a key as text", in_header("jwk", json!("x")), ProofError::Key),
        ("a symmetric key", in_header("jwk", secret), ProofError::PrivateKey),
        ("an empty symmetric key", in_header("jwk", json!({"kty": "oct"})), ProofError::Key),
        ("a private key", key("d", json!("AAAA")), ProofError::PrivateKey),
        ("an empty private key", key("d", json!("")), ProofError::PrivateKey),
        ("a private key that is null", key("d", json!(null)), ProofError::PrivateKey),
        ("a prime", key("p", json!("AAAA")), ProofError::PrivateKey),
        ("another curve", key("crv", json!("secp256k1")), ProofError::Key),
        ("a short coordinate", key("x", json!("AAAA")), ProofError::Key),
        ("a coordinate with padding", key("x", json!(format!("{}=", encode([0; 32])))), ProofError::Key),
        ("a short modulus", rsa(255), ProofError::Key),
        ("a long modulus", rsa(513), ProofError::Key),
        ("an extension", in_header("crit", json!(["b64"])), ProofError::Malformed),
    ] {
        assert_eq!(read(&rules(), &header, &claims()).err(), Some(error), "{what}");
    }
    let padded = json!({"kty": "RSA", "n": encode([&[0][..], &[0xff; 256]].concat()), "e": "AQAB"});
    let padded = with(with(header(), "alg", json!("PS256")), "jwk", padded);
    assert_eq!(read(&rules(), &padded, &claims()).err(), Some(ProofError::Key));
    for good in [rsa(256), rsa(512)] {
        assert!(read(&rules(), &good, &claims()).is_ok());
    }
    let claim = |name: &str, value: Value| with(claims(), name, value);
    for (what, claims, error) in [
        ("no id", without(claims(), "jti"), ProofError::Claim("jti")),
        ("an empty id", claim("jti", json!("")), ProofError::Claim("jti")),
        ("an id as number", claim("jti", json!(1)), ProofError::Claim("jti")),
        ("no method", without(claims(), "htm"), ProofError::Claim("htm")),
        ("another method", claim("htm", json!("GET")), ProofError::Method),
        ("another case of the method", claim("htm", json!("post")), ProofError::Method),
        ("no URL", without(claims(), "htu"), ProofError::Claim("htu")),
        ("another URL", claim("htu", json!("https://mcp.example/mcp2")), ProofError::Url),
        ("no time", without(claims(), "iat"), ProofError::Claim("iat")),
        ("a time before 1970", claim("iat", json!(-1)), ProofError::Claim("iat")),
        ("too old", claim("iat", json!(NOW - 91)), ProofError::TooOld),
        ("too early", claim("iat", json!(NOW + 31)), ProofError::TooEarly),
        ("far in the future", claim("iat", json!(u64::MAX)), ProofError::TooEarly),
        ("expired", claim("exp", json!(NOW - 30)), ProofError::TooOld),
        ("not valid yet", claim("nbf", json!(NOW + 31)), ProofError::TooEarly),
        ("no hash", without(claims(), "ath"), ProofError::Claim("ath")),
        ("the hash of another token", claim("ath", json!(encode([0; 32]))), ProofError::TokenHash),
    ] {
        assert_eq!(read(&rules(), &header(), &claims).err(), Some(error), "{what}");
    }
    for (what, claims) in [
        ("just not too old", claim("iat", json!(NOW - 90))),
        ("just not too early", claim("iat", json!(NOW + 30))),
        ("with a fraction", claim("iat", json!(NOW as f64 + 0.5))),
        ("just not expired", claim("exp", json!(NOW - 29))),
        ("a nonce that nothing needs", claim("nonce", json!("x"))),
    ] {
        assert!(read(&rules(), &header(), &claims).is_ok(), "{what}");
    }
}

#[test]
fn malformed_proofs_are_refused() {
    let good = proof(&header(), &claims());
    assert_eq!(read_all(&rules(), &[]).err(), Some(ProofError::Missing));
    assert_eq!(read_all(&rules(), &[&good, &good]).err(), Some(ProofError::Several));
    let joined = format!("{good},{good}");
    for bad in ["", ".", "..", "a.b", "a.b.c", &good[1..], &format!("{good}="), &format!("{good}.x"), &joined, "\u{e4}"]
    {
        assert_eq!(read_all(&rules(), &[bad]).err(), Some(ProofError::Malformed), "{bad}");
    }
    // A name that is there twice says two things.
    let twice = |object: &Value, member: &str| encode(object.to_string().replacen('{', &format!("{{{member},"), 1));
    let header_twice = format!("{}.{}.AA", twice(&header(), "\"typ\":\"x\""), encode(claims().to_string()));
    let claims_twice = format!("{}.{}.AA", encode(header().to_string()), twice(&claims(), "\"htm\":\"GET\""));
    let key_twice = header().to_string().replacen("\"kty\"", "\"kty\":\"RSA\",\"kty\"", 1);
    let key_twice = format!("{}.{}.AA", encode(key_twice), encode(claims().to_string()));
    for bad in [header_twice, claims_twice, key_twice] {
        assert_eq!(read_all(&rules(), &[&bad]).err(), Some(ProofError::Malformed), "{bad}");
    }
    let long = |len: usize| {
        let rest = proof(&header(), &claims());
        format!("{rest}{}", "A".repeat(len - rest.len()))
    };
    assert_ne!(read_all(&rules(), &[&long(MAX_PROOF)]).err(), Some(ProofError::TooLong));
    assert_eq!(read_all(&rules(), &[&long(MAX_PROOF + 1)]).err(), Some(ProofError::TooLong));
}

#[test]
fn target_is_compared_after_normalization() {
    let is_target = |server: &str, target: &str| {
        let rules = ProofRules::new(&url(server), ["ES256"]);
        match read(&rules, &header(), &with(claims(), "htu", json!(target))) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error, ProofError::Url, "{target}");
                false
            }
        }
    };
    for target in [
        "https://mcp.example/mcp",
        "HTTPS://MCP.example:443/mcp",
        "https://mcp.example/mcp?x=y#z",
        "https://mcp.example/%6dcp",
        "https://mcp.example/a/../mcp",
        "https://mcp.example/./mcp",
        "https://mcp.example/%2e%2e/../mcp",
    ] {
        assert!(is_target(SERVER, target), "{target}");
    }
    for target in [
        "https://mcp.example/mcp/",
        "https://mcp.example/MCP",
        "https://mcp.example/",
        "https://mcp.example:8443/mcp",
        "http://mcp.example/mcp",
        "https://mcp.example.evil.example/mcp",
        "https://evil.example/mcp?https://mcp.example/mcp",
        "https://user@mcp.example/mcp",
        "https://mcp.example/..",
        "https://mcp.example%2fmcp",
        "/mcp",
        "mcp",
        "?",
    ] {
        assert!(!is_target(SERVER, target), "{target}");
    }
    for target in ["https://mcp.example", "https://mcp.example/", "https://mcp.example?x"] {
        assert!(is_target("https://mcp.example", target) && is_target("https://mcp.example/", target), "{target}");
    }
    let other = rules().url(&url("https://mcp.example/sse"));
    for target in ["https://mcp.example/mcp", "https://mcp.example/sse"] {
        assert!(read(&other, &header(), &with(claims(), "htu", json!(target))).is_ok(), "{target}");
    }
}

#[test]
fn proof_needs_the_key_of_its_token_and_a_signature() {
    let read = || read(&rules(), &header(), &claims()).expect("it is good");
    let error = |thumbprint: &str, is_genuine: bool| read().verify(thumbprint, |_| is_genuine).err();
    assert_eq!(error(THUMBPRINT, true), None);
    assert_eq!(error(THUMBPRINT, false), Some(ProofError::Signature));
    assert_eq!(error("", true), Some(ProofError::Binding));
    let unused = |_: &Proof| panic!("no signature of another key is verified");
    assert_eq!(read().verify(&THUMBPRINT.to_lowercase(), unused).err(), Some(ProofError::Binding));
}

/// RFC 7638, section 3.1, and RFC 8037, section A.3.
#[test]
fn thumbprints_match_the_rfcs() {
    let n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3ok\
             njhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn\
             1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";
    let rsa = json!({"kty": "RSA", "n": n, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"});
    let ed25519 = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    for (algorithm, jwk, thumbprint) in [
        ("PS256", rsa, "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"),
        ("EdDSA", ed25519, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"),
        ("ES256", jwk(), THUMBPRINT),
    ] {
        let header = with(with(header(), "alg", json!(algorithm)), "jwk", jwk);
        let proof = read(&rules(), &header, &claims()).expect("it is good");
        assert_eq!(proof.key().thumbprint(), thumbprint, "{algorithm}");
    }
}

#[test]
fn no_key_fits_a_symmetric_algorithm() {
    let rules = ProofRules::new(&url(SERVER), ["HS256", "none", "ES256"]);
    for algorithm in ["HS256", "none"] {
        let error = read(&rules, &with(header(), "alg", json!(algorithm)), &claims()).err();
        assert_eq!(error, Some(ProofError::Key), "{algorithm}");
    }
}

#[test]
fn nonce_is_valid_in_the_windows_before_and_after_its_own() {
    let key = NonceKey::new([7; 32]).window(60);
    let nonce = key.current(NOW);
    assert_eq!(nonce.len(), 32);
    let window = NOW / 60 * 60;
    assert!(key.is_valid(window, &nonce) && key.is_valid(window + 119, &nonce));
    // The clock of the server that has issued it may be ahead.
    assert!(key.is_valid(window - 1, &nonce) && key.is_valid(window - 60, &nonce));
    assert!(!key.is_valid(window + 120, &nonce) && !key.is_valid(window - 61, &nonce));
    assert_ne!(key.current(window + 60), nonce);
    assert!(!NonceKey::new([8; 32]).window(60).is_valid(NOW, &nonce), "of another key");
    let mut bytes = Base64UrlUnpadded::decode_vec(&nonce).expect("base64url");
    bytes[23] ^= 1;
    for bad in ["", "x", &nonce[1..], &format!("{nonce}A"), &encode(bytes), &encode([0; 24])] {
        assert!(!key.is_valid(NOW, bad), "{bad}");
    }
    assert!(!key.is_valid(0, &nonce) && key.is_valid(0, &key.current(0)));
    let mut later = Base64UrlUnpadded::decode_vec(&nonce).expect("base64url");
    later[7] += 1;
    assert!(!key.is_valid(window + 60, &encode(later)), "the number is part of the code");
    let shortest = NonceKey::new([7; 32]).window(0);
    assert!(shortest.is_valid(NOW + NonceKey::MIN_WINDOW, &shortest.current(NOW)));
    assert!(!format!("{key:?}").contains("7, 7"));
}

#[test]
fn proof_needs_a_valid_nonce_where_the_server_has_some() {
    let key = NonceKey::new([7; 32]);
    let rules = rules().nonces(key.clone());
    let with_nonce = |nonce: Value| read(&rules, &header(), &with(claims(), "nonce", nonce)).map(|_| ());
    assert_eq!(rules.nonce(NOW), Some(key.current(NOW)));
    assert_eq!(with_nonce(json!(key.current(NOW))), Ok(()));
    assert_eq!(read(&rules, &header(), &claims()).err(), Some(ProofError::Nonce));
    assert_eq!(with_nonce(json!("x")), Err(ProofError::Nonce));
    assert_eq!(with_nonce(json!(key.current(NOW - 300))), Err(ProofError::Nonce));
    assert_eq!(with_nonce(json!(1)), Err(ProofError::Claim("nonce")));
    assert_eq!(ProofError::Nonce.bearer_error(), BearerError::UseNonce);
    assert!(matches!(ProofError::Binding.bearer_error(), BearerError::InvalidToken(_)));
    assert!(matches!(ProofError::Method.bearer_error(), BearerError::InvalidProof(_)));
}

#[test]
fn proofs_are_kept_until_they_are_too_old() {
    let mut cache = ReplayCache::new(100, 100);
    let proof = verified("a", NOW);
    assert_eq!(cache.admit(NOW, "ada", &proof), Ok(()));
    // Age and leeway: 90 seconds.
    assert_eq!(cache.admit(NOW + 90, "ada", &proof), Err(ProofError::Replayed));
    // It is not forgotten before it is refused for its age.
    assert_eq!(cache.admit(NOW + 91, "ada", &proof), Err(ProofError::TooOld));
    assert!(cache.is_empty() && cache.held.is_empty() && cache.by_second.is_empty() && cache.old.is_empty());
    assert_eq!(cache.admit(NOW + 91, "ada", &verified("a", NOW + 91)), Ok(()));
}

#[test]
fn proof_is_not_accepted_again_after_the_clock_was_set_back() {
    let mut cache = ReplayCache::new(100, 100);
    let proof = verified("a", NOW);
    assert_eq!(cache.admit(NOW, "ada", &proof), Ok(()));
    assert_eq!(cache.admit(NOW + 91, "ada", &verified("b", NOW + 91)), Ok(()));
    assert_eq!(cache.admit(NOW, "ada", &proof), Err(ProofError::TooOld));
    assert_eq!(cache.admit(NOW, "eve", &proof), Err(ProofError::TooOld));
    assert_eq!(cache.admit(NOW, "ada", &verified("b", NOW + 91)), Err(ProofError::Replayed));
    // A proof that is accepted longer than those is accepted once.
    let later = verified("a", NOW + 1);
    assert_eq!(cache.admit(NOW + 1, "ada", &later), Ok(()));
    assert_eq!(cache.admit(NOW + 1, "ada", &later), Err(ProofError::Replayed));
    // A time far ahead refuses nothing for longer than the proofs that were there.
    assert_eq!(cache.admit(NOW + 1_000_000, "ada", &later), Err(ProofError::TooOld));
    assert_eq!(cache.admit(NOW + 92, "ada", &verified("c", NOW + 92)), Ok(()));
}

#[test]
fn old_proofs_are_removed_a_few_at_a_time() {
    let mut cache = ReplayCache::new(200, 100);
    let old = |cache: &ReplayCache| cache.old.iter().map(|(_, entries)| entries.len()).sum::<usize>();
    let proofs: Vec<_> = (0..100).map(|index| verified(&format!("{index}"), NOW)).collect();
    for proof in &proofs {
        assert_eq!(cache.admit(NOW, "ada", proof), Ok(()));
    }
    assert_eq!(cache.admit(NOW, "ada", &verified("x", NOW)), Err(ProofError::TooMany));
    // All of them are too old, and the share is free at once. So are their ids.
    let mut left = 100;
    for index in 0..100 {
        let id = format!("{index}");
        assert_eq!(cache.admit(NOW + 91, "ada", &verified(&id, NOW + 91)), Ok(()), "{index}");
        let removed = left - old(&cache);
        assert!(removed <= 16 && (removed > 1 || left == 0), "{removed} of {left}");
        left -= removed;
        assert_eq!(cache.len(), index + 1);
    }
    assert_eq!((left, cache.held.len(), cache.by_second.len()), (0, 1, 1));
    assert_eq!(cache.admit(NOW + 91, "ada", &verified("x", NOW + 91)), Err(ProofError::TooMany));
    assert_eq!(cache.admit(NOW + 91, "ada", &verified("99", NOW + 91)), Err(ProofError::Replayed));
}

#[test]
fn principal_that_fills_its_share_locks_out_itself() {
    let mut cache = ReplayCache::new(16, 5);
    let mut admitted = |principal: &str, count: usize, at: u64| {
        let admit = |index: usize| cache.admit(at, principal, &verified(&format!("{principal} {index}"), at));
        let results: Vec<_> = (0..count).map(admit).collect();
        assert!(results.iter().all(|result| matches!(result, Ok(()) | Err(ProofError::TooMany))), "{results:?}");
        results.iter().filter(|result| result.is_ok()).count()
    };
    assert_eq!(admitted("eve", 100, NOW), 5, "its share");
    assert_eq!(admitted("ada", 3, NOW), 3);
    assert_eq!(admitted("mallory", 100, NOW), 4, "no more than what is left");
    // One principal after the other gets less, and there is room for the next one.
    assert_eq!([admitted("p1", 100, NOW), admitted("p2", 100, NOW)], [2, 1]);
    assert_eq!(admitted("p3", 100, NOW), 1);
    assert_eq!(admitted("p4", 1, NOW), 0, "all of the room is used");
    assert_eq!(admitted("eve", 5, NOW + 91), 5, "old proofs make room");
    assert_eq!(cache.len(), 5);
}

#[test]
fn principals_that_fill_the_list_lock_out_no_others() {
    // 64 entries of the reserve, at most 4 of them of one principal, and 64 others.
    let mut cache = ReplayCache::new(128, 2048);
    let mut admitted = |principal: &str, count: usize, at: u64| {
        let admit = |index: usize| cache.admit(at, principal, &verified(&format!("{principal} {index}"), at));
        (0..count).map(admit).filter(Result::is_ok).count()
    };
    let greedy: usize = (0..10).map(|number| admitted(&format!("eve {number}"), 200, NOW)).sum();
    assert_eq!(greedy, 40 + 64, "all of the shared half, and their parts of the reserve");
    for number in 0..6 {
        assert_eq!(admitted(&format!("ada {number}"), 5, NOW), 4, "{number}: its part");
    }
    // The reserve is limited as well: nothing is forgotten for a new proof.
    assert_eq!(admitted("one too many", 5, NOW), 0);
    let first = verified("eve 0 0", NOW);
    assert_eq!(cache.len(), 128);
    assert_eq!(cache.admit(NOW, "eve 0", &first), Err(ProofError::Replayed));
    // Both halves are free when the proofs are too old.
    assert_eq!(cache.admit(NOW + 91, "one too many", &verified("x", NOW + 91)), Ok(()));
    assert_eq!(cache.len(), 1);
}

#[test]
fn full_list_still_serves_a_thousand_principals() {
    let mut cache = ReplayCache::default();
    let mut number = 0;
    let mut admitted = |principal: &str, count: usize| {
        let admit = |_: usize| {
            number += 1;
            let proof = VerifiedProof { thumbprint: "key".into(), id: format!("{number}"), last_second: NOW };
            cache.admit(NOW, principal, &proof)
        };
        (0..count).map(admit).take_while(Result::is_ok).count()
    };
    let all: usize = (0..20).map(|number| admitted(&format!("eve {number}"), ReplayCache::TOTAL)).sum();
    assert_eq!(all, ReplayCache::TOTAL / 2 + 20 * 128);
    assert_eq!((0..1004).filter(|number| admitted(&format!("ada {number}"), 200) == 128).count(), 1004);
}

#[test]
fn setters_have_bounds() {
    let rules = rules().max_age(u64::MAX).leeway(u64::MAX);
    let old = with(claims(), "iat", json!(NOW - 2 * ProofRules::MAX_SECONDS - 1));
    assert_eq!(read(&rules, &header(), &old).err(), Some(ProofError::TooOld));
    let future = with(claims(), "iat", json!(NOW + ProofRules::MAX_SECONDS + 1));
    assert_eq!(read(&rules, &header(), &future).err(), Some(ProofError::TooEarly));
}

#[test]
fn ages_and_clocks_are_limited_from_both_sides() {
    let is_read = |rules: &ProofRules, iat: u64| read(rules, &header(), &with(claims(), "iat", json!(iat))).is_ok();
    for (age, leeway) in [(10, 5), (0, 0), (ProofRules::MAX_SECONDS, ProofRules::MAX_SECONDS)] {
        let rules = rules().max_age(age).leeway(leeway);
        assert!(is_read(&rules, NOW - age - leeway) && !is_read(&rules, NOW - age - leeway - 1), "{age} {leeway}");
        assert!(is_read(&rules, NOW + leeway) && !is_read(&rules, NOW + leeway + 1), "{age} {leeway}");
    }
    let rules = rules().leeway(5);
    for (name, good, bad) in [("nbf", NOW + 5, NOW + 6), ("exp", NOW - 4, NOW - 5)] {
        let error = |at: u64| read(&rules, &header(), &with(claims(), name, json!(at))).err();
        assert!(error(good).is_none() && error(bad).is_some(), "{name}");
    }
    assert_eq!(rules.nonce(NOW), None);
}

#[test]
fn keys_fit_their_algorithms() {
    let key = |jwk: Value| {
        let document = crate::auth::document::Document::parse(jwk.to_string().as_bytes()).expect("an object");
        ProofPublicKey::parse(&document)
    };
    let rsa = |n: &[u8], e: &[u8]| key(json!({"kty": "RSA", "n": encode(n), "e": encode(e)}));
    let point = |curve: &str, x: usize, y: usize| {
        key(json!({"kty": "EC", "crv": curve, "x": encode(vec![1; x]), "y": encode(vec![2; y])}))
    };
    let ed25519 = |x: usize| key(json!({"kty": "OKP", "crv": "Ed25519", "x": encode(vec![3; x])}));
    const ALL: [&str; 13] = [
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA", "Ed25519", "ES512", "HS256",
        "none",
    ];
    for (key, fitting) in [
        (rsa(&[0xff; 256], &[1, 0, 1]), &ALL[..6]),
        (point("P-256", 32, 32), &ALL[6..7]),
        (point("P-384", 48, 48), &ALL[7..8]),
        (ed25519(32), &ALL[8..10]),
    ] {
        let key = key.expect("a key");
        let fits: Vec<_> = ALL.into_iter().filter(|algorithm| key.fits(algorithm)).collect();
        assert_eq!(fits, fitting, "{key:?}");
        assert_eq!(key.thumbprint().len(), 43);
    }
    assert!(rsa(&[0xff; 256], &[1; 8]).is_ok());
    for bad in [
        rsa(&[0xff; 256], &[1; 9]),
        rsa(&[0xff; 256], &[0, 1]),
        rsa(&[0xff; 256], &[]),
        point("P-256", 31, 32),
        point("P-256", 32, 33),
        point("P-384", 32, 32),
        point("P-384", 48, 47),
        ed25519(31),
        ed25519(33),
        key(json!({"kty": "RSA", "crv": "P-256", "n": encode([0xff; 256]), "e": "AQAB"})),
        key(json!({"kty": "OKP", "crv": "X25519", "x": encode([3; 32])})),
    ] {
        assert_eq!(bad, Err(ProofError::Key));
    }
    for name in ["d", "p", "q", "dp", "dq", "qi", "oth", "k"] {
        assert_eq!(key(with(jwk(), name, json!("AA"))), Err(ProofError::PrivateKey), "{name}");
    }
}
