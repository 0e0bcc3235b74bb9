//! Tokens that are bound to a key, with proofs that are signed and with forged ones.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use http::{Request, StatusCode, header, request::Parts};
use mcp_proto::{
    auth::{Challenge, Secret, Url, client::ProofClaims, dpop::NonceKey},
    http::{
        Policy,
        server::{Caller, EndpointOptions},
    },
    rpc::Timestamp,
};
use mcp_service::{Service, block_on};
use ring::{
    digest::{SHA256, digest},
    hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
        Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
    },
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::{Value, json};

use super::{AccessToken, Algorithm, Dpop, ResourceServer, TokenError};
use crate::{
    http::{
        auth::{ProofKey, ProofSigner as _},
        endpoint::Endpoint,
    },
    options::DriverOptions,
    runtime::{Runtime, Timer},
};

const SERVER: &str = "https://mcp.example/mcp";
const ISSUER: &str = "https://auth.example";
const NOW: u64 = 1_800_000_000;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    Base64UrlUnpadded::encode_string(bytes.as_ref())
}

fn hash(text: &str) -> String {
    encode(digest(&SHA256, text.as_bytes()))
}

/// A server whose tokens are `bound`, for this key, `unbound`, and `reader`, which is bound and lacks a scope.
fn server(thumbprint: &str, dpop: Dpop) -> ResourceServer {
    let thumbprint = thumbprint.to_owned();
    let verify = move |token: &str| match token {
        "bound" => Ok(AccessToken::new(ISSUER, "ada").scope("mcp").key_thumbprint(&*thumbprint)),
        "eve" => Ok(AccessToken::new(ISSUER, "eve").scope("mcp").key_thumbprint(&*thumbprint)),
        "other" => Ok(AccessToken::new(ISSUER, "ada").scope("mcp").key_thumbprint(hash("other"))),
        "reader" => Ok(AccessToken::new(ISSUER, "ada").scope("read").key_thumbprint(&*thumbprint)),
        "unbound" => Ok(AccessToken::new(ISSUER, "ada").scope("mcp")),
        _ => Err(TokenError::Signature),
    };
    let metadata = super::ResourceMetadata::new(SERVER.parse().expect("a URL"), ISSUER.parse().expect("a URL"));
    let metadata = metadata.required_scopes(super::Scopes::parse("mcp").expect("a scope"));
    let mut dpop = dpop;
    dpop.now = now;
    ResourceServer::of(metadata, verify).dpop(dpop)
}

fn head(authorization: &str, proofs: &[&str]) -> Parts {
    let mut request = Request::post("/mcp?x=y").header(header::AUTHORIZATION, authorization);
    for proof in proofs {
        request = request.header("dpop", *proof);
    }
    request.body(()).expect("a request").into_parts().0
}

/// Returns the error of the challenge, and the reason; the principal, if the request is accepted; or the status.
fn send(server: &ResourceServer, authorization: &str, proofs: &[&str]) -> Result<String, String> {
    let refusal = match block_on(server.caller(&head(authorization, proofs), || Timestamp::ZERO)) {
        Ok(Caller::Known(principal)) => return Ok(principal.id.clone()),
        Ok(Caller::Refused(refusal)) => refusal.response(None),
        Ok(_) => panic!("there is a token"),
        Err(response) => return Err(response.status().as_u16().to_string()),
    };
    let values = refusal.headers().get_all(header::WWW_AUTHENTICATE).iter().map(http::HeaderValue::as_bytes);
    let shown = |challenge: &Challenge| {
        let param = |name| challenge.param(name).unwrap_or("-").to_owned();
        format!(
            "{} {} {}: {}",
            refusal.status().as_u16(),
            challenge.scheme(),
            param("error"),
            param("error_description")
        )
    };
    Err(Challenge::parse_all(values).iter().map(shown).collect::<Vec<_>>().join(", "))
}

fn refused_proof(why: &str) -> Result<String, String> {
    Err(format!("401 DPoP invalid_dpop_proof: {why}"))
}

fn accepted(subject: &str) -> Result<String, String> {
    Ok(format!("{ISSUER} {subject}"))
}

/// A key of a client, which signs anything.
struct Key {
    pair: EcdsaKeyPair,
    jwk: Value,
}

impl Key {
    fn new() -> Self {
        Self::on("P-256", &ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    fn on(curve: &str, algorithm: &'static EcdsaSigningAlgorithm) -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("random bytes");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).expect("a key");
        let (x, y) = pair.public_key().as_ref()[1..].split_at((pair.public_key().as_ref().len() - 1) / 2);
        let jwk = json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)});
        Self { pair, jwk }
    }

    fn thumbprint(&self) -> String {
        let text = |name: &str| self.jwk[name].as_str().expect("text").to_owned();
        let (curve, x, y) = (text("crv"), text("x"), text("y"));
        hash(&format!(r#"{{"crv":"{curve}","kty":"EC","x":"{x}","y":"{y}"}}"#))
    }

    fn header(&self) -> Value {
        json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": self.jwk})
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        signed(header, claims, |text| self.pair.sign(&SystemRandom::new(), text).expect("it signs").as_ref().to_vec())
    }

    fn proof(&self, id: &str) -> String {
        self.sign(&self.header(), &claims(id))
    }
}

fn signed(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let text = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
    let signature = sign(text.as_bytes());
    format!("{text}.{}", encode(signature))
}

fn claims(id: &str) -> Value {
    json!({"jti": id, "htm": "POST", "htu": SERVER, "iat": NOW, "ath": hash("bound")})
}

fn with(mut object: Value, name: &str, value: Value) -> Value {
    object[name] = value;
    object
}

#[test]
fn proof_of_our_client_is_accepted() {
    let key = ProofKey::generate().expect("random bytes");
    let server = server(&key.key().thumbprint, Dpop::new());
    let url = Url::parse("https://mcp.example/mcp?x=y").expect("a URL");
    let claims = ProofClaims::new("1".into(), "POST", &url, NOW, Some(&Secret::new("bound")), None);
    let proof = key.sign(&claims).expect("it signs");
    assert_eq!(send(&server, "DPoP bound", &[proof.expose()]), accepted("ada"));
    assert_eq!(send(&server, "DPoP bound", &[proof.expose()]), refused_proof("the proof was used before"));
}

#[test]
fn requests_are_refused_with_reasons() {
    let (key, stranger) = (Key::new(), Key::new());
    let server = server(&key.thumbprint(), Dpop::new());
    let good = key.proof("good");
    let tampered = {
        let (rest, signature) = good.rsplit_once('.').expect("three parts");
        let (header, _) = rest.split_once('.').expect("three parts");
        format!("{header}.{}.{signature}", encode(claims("tampered").to_string()))
    };
    // The public key as the secret of a symmetric algorithm.
    let confused = signed(&with(key.header(), "alg", json!("HS256")), &claims("confused"), |text| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.pair.public_key().as_ref()), text).as_ref().to_vec()
    });
    let unsigned = signed(&with(key.header(), "alg", json!("none")), &claims("unsigned"), |_| Vec::new());
    // The key of the token in the header, the signature of another one.
    let forged = stranger.sign(&key.header(), &claims("forged"));
    let (header, of) =
        (key.header(), |name: &str, value: Value| key.sign(&key.header(), &with(claims("x"), name, value)));
    let token = |why: &str| Err(format!("401 DPoP invalid_token: {why}"));
    for (what, authorization, proofs, expected) in [
        ("no proof", "DPoP bound", vec![], refused_proof("the request has no proof")),
        ("two proofs", "DPoP bound", vec![good.clone(), good.clone()], refused_proof("the request has several proofs")),
        ("a forged signature", "DPoP bound", vec![forged], refused_proof("the signature of the proof is wrong")),
        ("other claims", "DPoP bound", vec![tampered], refused_proof("the signature of the proof is wrong")),
        ("the key of a stranger", "DPoP bound", vec![stranger.proof("x")], token("the token is bound to another key")),
        (
            "a token of another key",
            "DPoP other",
            vec![of("ath", json!(hash("other")))],
            token("the token is bound to another key"),
        ),
        ("HS256", "DPoP bound", vec![confused], refused_proof("the algorithm of the proof is not allowed")),
        ("none", "DPoP bound", vec![unsigned], refused_proof("the algorithm of the proof is not allowed")),
        (
            "another method",
            "DPoP bound",
            vec![of("htm", json!("GET"))],
            refused_proof("the proof is for another method"),
        ),
        (
            "another server",
            "DPoP bound",
            vec![of("htu", json!("https://evil.example/mcp"))],
            refused_proof("the proof is for another URL"),
        ),
        (
            "another token",
            "DPoP bound",
            vec![of("ath", json!(hash("x")))],
            refused_proof("the proof is for another token"),
        ),
        ("too old", "DPoP bound", vec![of("iat", json!(NOW - 91))], refused_proof("the proof is too old")),
        ("too early", "DPoP bound", vec![of("iat", json!(NOW + 31))], refused_proof("the proof is from the future")),
        (
            "the type of a token",
            "DPoP bound",
            vec![key.sign(&with(header, "typ", json!("at+jwt")), &claims("x"))],
            refused_proof("the type of the proof is not dpop+jwt"),
        ),
    ] {
        let proofs: Vec<_> = proofs.iter().map(String::as_str).collect();
        assert_eq!(send(&server, authorization, &proofs), expected, "{what}");
    }
}

#[test]
fn tokens_are_refused_with_reasons() {
    let key = Key::new();
    let server = server(&key.thumbprint(), Dpop::new());
    let good = key.proof("good");
    let of = |name: &str, value: Value| key.sign(&key.header(), &with(claims("x"), name, value));
    let token = |why: &str| Err(format!("401 DPoP invalid_token: {why}"));
    let without_proof = || {
        Err("401 Bearer invalid_token: the token is bound to a key, and was sent without a proof, 401 DPoP -: -".into())
    };
    for (what, authorization, proofs, expected) in [
        (
            "an unbound token",
            "DPoP unbound",
            vec![of("ath", json!(hash("unbound")))],
            token("the token is not bound to a key"),
        ),
        (
            "a wrong token",
            "DPoP wrong",
            vec![of("ath", json!(hash("wrong")))],
            token("the signature of the token is wrong"),
        ),
        ("a bound token without a proof", "Bearer bound", vec![], without_proof()),
        ("a bound token with the wrong scheme", "Bearer bound", vec![good.clone()], without_proof()),
        (
            "a malformed token",
            "DPoP a b",
            vec![good.clone()],
            Err("400 Bearer invalid_request: -, 400 DPoP invalid_request: -".into()),
        ),
        ("another scheme", "Basic YTpi", vec![good.clone()], Err("401 Bearer -: -, 401 DPoP -: -".into())),
        (
            "a scope is missing",
            "DPoP reader",
            vec![of("ath", json!(hash("reader")))],
            Err("403 DPoP insufficient_scope: -".into()),
        ),
        ("an unbound token as it is", "Bearer unbound", vec![], accepted("ada")),
        ("a good proof", "DPoP bound", vec![good.clone()], accepted("ada")),
        ("the same again", "DPoP bound", vec![good.clone()], refused_proof("the proof was used before")),
        ("the other case of the scheme", "dpop bound", vec![key.proof("other")], accepted("ada")),
    ] {
        let proofs: Vec<_> = proofs.iter().map(String::as_str).collect();
        assert_eq!(send(&server, authorization, &proofs), expected, "{what}");
    }
}

#[test]
fn server_can_require_bound_tokens() {
    let key = Key::new();
    let server = server(&key.thumbprint(), Dpop::new().required().algorithms([Algorithm::Es256]));
    let document = String::from_utf8(server.inner.document.clone()).expect("text");
    assert!(
        document.contains(r#""dpop_signing_alg_values_supported":["ES256"],"dpop_bound_access_tokens_required":true"#)
    );
    let refused = "401 DPoP invalid_token: a token that is bound to a key is needed, with a proof";
    for authorization in ["Bearer unbound", "Bearer bound", "Bearer wrong"] {
        assert_eq!(send(&server, authorization, &[]), Err(refused.into()), "{authorization}");
    }
    assert_eq!(send(&server, "DPoP bound", &[&key.proof("1")]), accepted("ada"));
}

#[test]
fn bound_tokens_are_refused_without_dpop() {
    let verify = |_: &str| Ok(AccessToken::new(ISSUER, "ada").key_thumbprint(hash("x")));
    let server = ResourceServer::new(SERVER, ISSUER, verify).expect("two URLs");
    let refused = "401 Bearer invalid_token: the token is bound to a key, which is not checked here";
    assert_eq!(send(&server, "Bearer bound", &[]), Err(refused.into()));
    assert_eq!(send(&server, "DPoP bound", &[&Key::new().proof("1")]), Err("401 Bearer -: -".into()));
}

#[test]
fn signatures_of_all_algorithms_are_verified() {
    const RSA: &str = include_str!("../auth/test_rsa.pem");
    let check = |algorithm: &str, jwk: Value, canonical: String, sign: &dyn Fn(&[u8]) -> Vec<u8>| {
        let server = server(&hash(&canonical), Dpop::new());
        let header = json!({"typ": "dpop+jwt", "alg": algorithm, "jwk": jwk});
        let proof = signed(&header, &claims("1"), sign);
        assert_eq!(send(&server, "DPoP bound", &[&proof]), accepted("ada"), "{algorithm}");
        let forged = signed(&header, &claims("2"), |text| sign(&[text, b" "].concat()));
        assert_eq!(
            send(&server, "DPoP bound", &[&forged]),
            refused_proof("the signature of the proof is wrong"),
            "{algorithm}"
        );
    };
    let p384 = Key::on("P-384", &ECDSA_P384_SHA384_FIXED_SIGNING);
    let canonical = |key: &Key| {
        let text = |name: &str| key.jwk[name].as_str().expect("text").to_owned();
        format!(r#"{{"crv":"P-384","kty":"EC","x":"{}","y":"{}"}}"#, text("x"), text("y"))
    };
    let sign = |text: &[u8]| p384.pair.sign(&SystemRandom::new(), text).expect("it signs").as_ref().to_vec();
    check("ES384", p384.jwk.clone(), canonical(&p384), &sign);
    let seed = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("random bytes");
    let pair = Ed25519KeyPair::from_pkcs8(seed.as_ref()).expect("a key");
    let x = encode(pair.public_key());
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": x});
    check("EdDSA", jwk, format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#), &|text| {
        pair.sign(text).as_ref().to_vec()
    });
    let der = PrivatePkcs8KeyDer::from_pem_slice(RSA.as_bytes()).expect("a key");
    let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).expect("a key");
    // DER: a sequence of the modulus, with a leading zero, and the exponent.
    let modulus = &pair.public().as_ref()[9..9 + pair.public().modulus_len()];
    let (n, e) = (encode(modulus), encode([1, 0, 1]));
    let padding: [(&str, &'static dyn RsaEncoding); 2] = [("RS256", &RSA_PKCS1_SHA256), ("PS256", &RSA_PSS_SHA256)];
    for (algorithm, padding) in padding {
        let sign = |text: &[u8]| {
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(padding, &SystemRandom::new(), text, &mut signature).expect("it signs");
            signature
        };
        let jwk = json!({"kty": "RSA", "n": n, "e": e});
        check(algorithm, jwk, format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#), &sign);
    }
}

#[test]
fn nonces_are_given_out_and_required() {
    let (key, nonces) = (Key::new(), NonceKey::new([7; 32]));
    let server = server(&key.thumbprint(), Dpop::new().nonces(nonces.clone()));
    let is_sent = ResourceServer::has_proof;
    assert!(is_sent(&head("DPoP bound", &["x"]).headers) && !is_sent(&head("Bearer unbound", &[]).headers));
    let nonce = |has_proof, status| {
        let (name, value) = server.nonce(has_proof, status).expect("there is one");
        assert_eq!(name, "dpop-nonce");
        value.to_str().expect("text").to_owned()
    };
    assert_eq!(send(&server, "DPoP bound", &[&key.proof("1")]), Err("401 DPoP use_dpop_nonce: -".into()));
    let given = nonce(true, StatusCode::OK);
    assert_eq!(given, nonce(false, StatusCode::UNAUTHORIZED), "the first request has no proof");
    assert_eq!(given, nonces.current(NOW));
    let with_nonce = |id: &str, nonce: &str| key.sign(&key.header(), &with(claims(id), "nonce", json!(nonce)));
    assert_eq!(send(&server, "DPoP bound", &[&with_nonce("1", &given)]), accepted("ada"));
    let old = nonces.current(NOW - 240);
    assert_eq!(send(&server, "DPoP bound", &[&with_nonce("2", &old)]), Err("401 DPoP use_dpop_nonce: -".into()));
    assert!(server.nonce(false, StatusCode::OK).is_none());
    let plain = self::server(&key.thumbprint(), Dpop::new());
    assert!(plain.nonce(true, StatusCode::UNAUTHORIZED).is_none());
    let random = || {
        let server = self::server(&key.thumbprint(), Dpop::new().random_nonces().expect("random bytes"));
        server.nonce(true, StatusCode::OK).expect("there is one").1
    };
    assert_ne!(random(), random());
}

#[test]
fn principal_with_too_many_proofs_locks_out_itself() {
    let key = Key::new();
    let server = server(&key.thumbprint(), Dpop::new().replay_limits(10, 2));
    let of_eve = |id: &str| key.sign(&key.header(), &with(claims(id), "ath", json!(hash("eve"))));
    for id in ["1", "2"] {
        assert_eq!(send(&server, "DPoP eve", &[&of_eve(id)]), accepted("eve"));
    }
    assert_eq!(send(&server, "DPoP eve", &[&of_eve("3")]), Err("429".into()));
    assert_eq!(send(&server, "DPoP bound", &[&key.proof("3")]), accepted("ada"));
}

/// The seconds that have passed.
static PASSED: AtomicU64 = AtomicU64::new(0);

#[test]
fn proof_is_refused_as_long_as_it_is_accepted() {
    let key = Key::new();
    let mut server = server(&key.thumbprint(), Dpop::new());
    let inner = Arc::get_mut(&mut server.inner).expect("it was not cloned");
    let mut dpop = Dpop::new().max_age(Duration::from_secs(5)).leeway(Duration::from_secs(1));
    dpop.now = || now() + Duration::from_secs(PASSED.load(Ordering::SeqCst));
    inner.proofs = Some(dpop.apply(inner.metadata.clone()).1);
    let proof = key.proof("1");
    assert_eq!(send(&server, "DPoP bound", &[&proof]), accepted("ada"));
    for (passed, why) in [(0, "was used before"), (6, "was used before"), (7, "is too old")] {
        PASSED.store(passed, Ordering::SeqCst);
        assert_eq!(send(&server, "DPoP bound", &[&proof]), refused_proof(&format!("the proof {why}")), "{passed}");
    }
}

/// A runtime whose timers never fire.
#[derive(Clone)]
struct Threads;

impl Runtime for Threads {
    type Task = ();
    type Timer = Self;

    fn current() -> io::Result<Self> {
        Ok(Self)
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        thread::spawn(|| block_on(future));
    }

    fn detach((): ()) {}

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        thread::spawn(f);
    }

    fn timer(&self) -> Self {
        self.clone()
    }
}

impl Timer for Threads {
    fn poll_until(&mut self, _: Instant, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// The verification of a token, or a handler, can take longer than a nonce is valid.
#[test]
fn nonce_is_that_of_the_time_of_the_response() {
    static CLOCK: AtomicU64 = AtomicU64::new(NOW);
    let verify = |_: &str| {
        CLOCK.fetch_add(1000, Ordering::SeqCst);
        Err(TokenError::Signature)
    };
    let nonces = NonceKey::new([7; 32]);
    let mut dpop = Dpop::new().nonces(nonces.clone());
    dpop.now = || UNIX_EPOCH + Duration::from_secs(CLOCK.load(Ordering::SeqCst));
    let server = ResourceServer::new(SERVER, ISSUER, verify).expect("two URLs").dpop(dpop);
    let service = Service::builder("test", "1").build().expect("a good service");
    let options = EndpointOptions::new(Policy::hosts(["mcp.example"]).expect("a name"));
    let endpoint = Endpoint::on(&service, options, &DriverOptions::default(), Threads).protect(server);
    let request = Request::post("/mcp").header("host", "mcp.example").header("authorization", "Bearer token");
    let request = request.header("content-type", "application/json").header("accept", "*/*");
    let response = block_on(endpoint.handle(request.body(String::new()).expect("a request")));
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(CLOCK.load(Ordering::SeqCst), NOW + 1000, "the token was verified");
    assert_eq!(response.headers()["dpop-nonce"], nonces.current(NOW + 1000));
}
