//! Tokens of all kinds, and the reason why each of them is refused.

mod rotation;
mod rsa;

use std::{sync::LazyLock, time::UNIX_EPOCH};

use base64ct::{Base64UrlUnpadded, Encoding};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair},
};
use serde_json::{Value, json};

use super::*;

const ISSUER: &str = "https://auth.example";
const RESOURCE: &str = "https://mcp.example/mcp";

/// The time of all tests.
const NOW: u64 = 1_800_000_000;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    Base64UrlUnpadded::encode_string(bytes.as_ref())
}

/// A key of an authorization server.
pub(super) struct Signer {
    pair: EcdsaKeyPair,
    id: &'static str,
}

static OURS: LazyLock<Signer> = LazyLock::new(|| Signer::new("ours"));
static ED25519: LazyLock<Ed25519KeyPair> = LazyLock::new(|| {
    let seed = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("random bytes");
    Ed25519KeyPair::from_pkcs8(seed.as_ref()).expect("a key")
});

impl Signer {
    pub(super) fn new(id: &'static str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("random bytes");
        Self { pair: EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).expect("a key"), id }
    }

    pub(super) fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": self.id, "x": x, "y": y})
    }

    pub(super) fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("random bytes");
        format!("{signed}.{}", encode(signature))
    }

    pub(super) fn token(&self) -> String {
        self.sign(&json!({"alg": "ES256", "typ": "at+jwt", "kid": self.id}), &claims())
    }
}

fn header() -> Value {
    json!({"alg": "ES256", "typ": "at+jwt", "kid": "ours"})
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": RESOURCE, "exp": NOW + 300, "sub": "ada", "client_id": "app", "scope": "a b"})
}

fn with(mut object: Value, name: &str, value: Value) -> Value {
    object[name] = value;
    object
}

fn without(mut object: Value, name: &str) -> Value {
    object.as_object_mut().expect("an object").remove(name);
    object
}

pub(super) fn set(keys: &[Value]) -> Vec<u8> {
    json!({"keys": keys}).to_string().into_bytes()
}

fn key_set() -> Vec<u8> {
    let rsa = json!({"kty": "RSA", "n": rsa::N, "e": "AQAB", "kid": "rsa"});
    let ed25519 = json!({"kty": "OKP", "crv": "Ed25519", "x": encode(ED25519.public_key()), "kid": "ed25519"});
    let for_secrets = json!({"kty": "oct", "k": "AAAA", "kid": "oct", "alg": "HS256"});
    set(&[for_secrets, OURS.jwk(), rsa, ed25519])
}

fn verifier() -> JwtVerifier {
    JwtVerifier::new(ISSUER, RESOURCE, KeySet::parse(&key_set()).expect("a key set")).at(now)
}

fn verify(token: &str) -> Result<AccessToken, TokenError> {
    verifier().verify(&Secret::new(token)).wait()
}

#[test]
fn accepts_tokens_of_the_authorization_server() {
    let token = verify(&OURS.token()).expect("it is good");
    assert_eq!((&*token.issuer, token.subject.as_deref()), (ISSUER, Some("ada")));
    assert_eq!((token.client_id.as_deref(), &*token.scope), (Some("app"), "a b"));
    assert_eq!(token.expires, Some(now() + Duration::from_secs(330)), "the leeway is part of it");
    assert_eq!(token.claims.map(|claims| claims.get().to_owned()), Some(claims().to_string()));
    for (header, claims) in [
        (without(header(), "typ"), claims()),
        (with(header(), "typ", json!("JWT")), claims()),
        (with(header(), "typ", json!("application/AT+JWT")), claims()),
        (without(header(), "kid"), claims()),
        (header(), with(claims(), "aud", json!(["https://other.example", RESOURCE]))),
        (header(), with(claims(), "exp", json!(NOW - 29))),
        (header(), with(claims(), "exp", json!(NOW as f64 + 0.5))),
        (header(), with(claims(), "nbf", json!(NOW + 30))),
        (header(), with(claims(), "nbf", json!(NOW))),
    ] {
        assert!(verify(&OURS.sign(&header, &claims)).is_ok(), "{header} {claims}");
    }
    // Other names of the same things.
    let other = without(without(claims(), "client_id"), "scope");
    let other = with(with(other, "azp", json!("party")), "scp", json!(["c", "d"]));
    let token = verify(&OURS.sign(&header(), &other)).expect("it is good");
    assert_eq!((token.client_id.as_deref(), &*token.scope), (Some("party"), "c d"));
    assert_eq!(token.key_thumbprint, None);
    let bound = with(claims(), "cnf", json!({"jkt": "x".repeat(43)}));
    let token = verify(&OURS.sign(&header(), &bound)).expect("it is good");
    assert_eq!(token.key_thumbprint, Some("x".repeat(43)));
    for token in [rsa::RS256, rsa::PS256] {
        assert!(verify(token).is_ok(), "{token}");
    }
    let signed = format!("{}.{}", encode(r#"{"alg":"EdDSA","kid":"ed25519"}"#), encode(claims().to_string()));
    assert!(verify(&format!("{signed}.{}", encode(ED25519.sign(signed.as_bytes())))).is_ok());
}

/// Signs a token with a key that is public, as if it were a secret.
fn forged_with_a_public_key(key: &[u8]) -> String {
    let signed = format!("{}.{}", encode(r#"{"alg":"HS256","kid":"rsa"}"#), encode(claims().to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), signed.as_bytes());
    format!("{signed}.{}", encode(tag))
}

// req: AUTH-055 AUTH-058 M-AUTH-032 M-AUTH-033 SEC-004
#[test]
fn rejected_tokens_have_reasons() {
    let good = OURS.token();
    let (signed, signature) = good.rsplit_once('.').expect("three parts");
    let sign = |header: Value, claims: Value| OURS.sign(&header, &claims);
    let unsigned = |algorithm: &str| {
        let header = encode(json!({"alg": algorithm}).to_string());
        format!("{header}.{}.", encode(claims().to_string()))
    };
    let claim = |name, value| sign(header(), with(claims(), name, value));
    let n = Base64UrlUnpadded::decode_vec(rsa::N).expect("base64");
    let stranger = Signer::new("ours");
    let table: Vec<(&str, String, TokenError)> = vec![
        ("alg none", unsigned("none"), TokenError::Algorithm),
        ("alg None", unsigned("None"), TokenError::Algorithm),
        ("alg none, signed", sign(with(header(), "alg", json!("none")), claims()), TokenError::Algorithm),
        ("no alg", sign(without(header(), "alg"), claims()), TokenError::Algorithm),
        ("HS256 with the modulus", forged_with_a_public_key(&n), TokenError::Algorithm),
        ("HS256 with the key set", forged_with_a_public_key(&key_set()), TokenError::Algorithm),
        (
            "an algorithm that is not allowed",
            sign(with(header(), "alg", json!("RS384")), claims()),
            TokenError::Algorithm,
        ),
        ("another algorithm", sign(with(header(), "alg", json!("RS256")), claims()), TokenError::UnknownKey),
        ("RS256 as PS256", rsa::RS256.replacen(head_of(rsa::RS256), head_of(rsa::PS256), 1), TokenError::Signature),
        ("an unknown key", sign(with(header(), "kid", json!("other")), claims()), TokenError::UnknownKey),
        ("a key for secrets", sign(with(header(), "kid", json!("oct")), claims()), TokenError::UnknownKey),
        ("the key of a stranger", stranger.token(), TokenError::Signature),
        ("no signature", format!("{signed}."), TokenError::Signature),
        (
            "other claims",
            format!("{}.{}.{signature}", head_of(&good), encode(claims().to_string() + " ")),
            TokenError::Signature,
        ),
        ("a foreign issuer", claim("iss", json!("https://evil.example")), TokenError::Issuer),
        ("a longer issuer", claim("iss", json!("https://auth.example.evil.example")), TokenError::Issuer),
        ("an issuer with a slash", claim("iss", json!("https://auth.example/")), TokenError::Issuer),
        ("no issuer", sign(header(), without(claims(), "iss")), TokenError::Claim("iss")),
        ("a wrong audience", claim("aud", json!("https://other.example")), TokenError::Audience),
        ("a longer audience", claim("aud", json!("https://mcp.example/mcp2")), TokenError::Audience),
        ("the origin as audience", claim("aud", json!("https://mcp.example")), TokenError::Audience),
        ("no audience", sign(header(), without(claims(), "aud")), TokenError::Claim("aud")),
        ("an empty audience", claim("aud", json!([])), TokenError::Audience),
        ("an audience of another type", claim("aud", json!(1)), TokenError::Claim("aud")),
        ("expired", claim("exp", json!(NOW - 30)), TokenError::Expired),
        ("expired long ago", claim("exp", json!(0)), TokenError::Expired),
        ("not valid yet", claim("nbf", json!(NOW + 31)), TokenError::NotYetValid),
        ("no expiry", sign(header(), without(claims(), "exp")), TokenError::Claim("exp")),
        ("a key that is no hash", claim("cnf", json!({"jkt": "x"})), TokenError::BOUND),
        ("a key of another type", claim("cnf", json!({"jkt": 1})), TokenError::BOUND),
        ("a certificate", claim("cnf", json!({"x5t#S256": "x".repeat(43)})), TokenError::BOUND),
        ("a key and a certificate", claim("cnf", json!({"jkt": "x".repeat(43), "x5t#S256": "x"})), TokenError::BOUND),
        ("an empty binding", claim("cnf", json!({})), TokenError::BOUND),
        ("a binding that is none", claim("cnf", json!(null)), TokenError::BOUND),
        ("a client of another type", claim("client_id", json!(1)), TokenError::Claim("client_id")),
        ("a party of another type", claim("azp", json!(1)), TokenError::Claim("azp")),
        ("an expiry as text", claim("exp", json!("9999999999")), TokenError::Claim("exp")),
        ("a beginning as text", claim("nbf", json!("0")), TokenError::Claim("nbf")),
        ("an id token of another kind", sign(with(header(), "typ", json!("logout+jwt")), claims()), TokenError::Type),
        ("an assertion", sign(with(header(), "typ", json!("oauth-id-jag+jwt")), claims()), TokenError::Type),
        ("an extension", sign(with(header(), "crit", json!(["b64"])), claims()), TokenError::Malformed),
        (
            "a key in the header",
            stranger.sign(&with(without(header(), "kid"), "jwk", stranger.jwk()), &claims()),
            TokenError::Signature,
        ),
    ];
    for (what, token, error) in table {
        assert_eq!(verify(&token), Err(error), "{what}");
    }
}

#[test]
fn malformed_tokens_are_rejected() {
    let good = OURS.token();
    for malformed in ["", ".", "..", "a.b", "a.b.c", "a.b.c.d", &format!("{good}.x.y"), &format!("{good}="), &good[1..]]
    {
        assert_eq!(verify(malformed), Err(TokenError::Malformed), "{malformed}");
    }
    // A name that is there twice says two things.
    let twice = claims().to_string().replacen('{', "{\"exp\":0,", 1);
    let signed = format!("{}.{}", encode(header().to_string()), encode(twice));
    let signature = OURS.pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("random bytes");
    assert_eq!(verify(&format!("{signed}.{}", encode(signature))), Err(TokenError::Malformed));
}

fn head_of(token: &str) -> &str {
    token.split('.').next().unwrap_or_default()
}

#[test]
fn only_allowed_algorithms_are_used() {
    let only = |algorithms: &[Algorithm], token: &str| {
        let verifier = verifier().algorithms(algorithms.iter().copied());
        verifier.verify(&Secret::new(token)).wait().map(|_| ())
    };
    assert_eq!(only(&[Algorithm::Es256], &OURS.token()), Ok(()));
    assert_eq!(only(&[Algorithm::Es256], rsa::RS256), Err(TokenError::Algorithm));
    assert_eq!(only(&[Algorithm::Ps256], rsa::RS256), Err(TokenError::Algorithm));
    assert_eq!(only(&[Algorithm::Rs256], rsa::RS256), Ok(()));
    assert_eq!(only(&[], &OURS.token()), Err(TokenError::Algorithm));
}

#[test]
fn key_set_size_is_limited() {
    let parse = |body: &[u8]| KeySet::parse(body).map(|_| ()).map_err(|error| error.to_string());
    let small = json!({"kty": "OKP", "crv": "Ed25519", "x": "AA"});
    let many = |count: usize| set(&vec![small.clone(); count]);
    assert_eq!(parse(&many(KeySet::MAX_KEYS)), Ok(()));
    assert_eq!(parse(&many(KeySet::MAX_KEYS + 1)), Err("the key set has more than 100 keys".into()));
    assert_eq!(parse(&many(10_000)), Err("the key set has more than 262144 bytes".into()));
    let least = set(&vec![json!(0); 10_000]);
    assert_eq!(parse(&least), Err("the key set has more than 100 keys".into()));
    for bad in [&b""[..], b"[]", b"{}", b"{\"keys\":{}}", b"{\"keys\":[],\"keys\":[]}", b"<html>", b"\xff"] {
        assert_eq!(parse(bad), Err("it is not a JSON Web Key Set".into()));
    }
}

#[test]
fn ignores_keys_unfit_for_signatures() {
    for (name, value) in [
        ("use", json!("enc")),
        ("key_ops", json!(["encrypt"])),
        ("alg", json!("ES384")),
        ("alg", json!("ECDH-ES")),
        ("crv", json!("P-384")),
        ("kty", json!("oct")),
        ("x", json!("AA")),
        ("x", json!("!")),
        ("x", json!(1)),
        ("kid", json!(1)),
    ] {
        let keys = KeySet::parse(&set(&[with(OURS.jwk(), name, value.clone())])).expect("a key set");
        let verifier = JwtVerifier::new(ISSUER, RESOURCE, keys).at(now);
        let refused = verifier.verify(&Secret::new(OURS.token())).wait();
        assert_eq!(refused, Err(TokenError::UnknownKey), "{name} {value}");
    }
}
