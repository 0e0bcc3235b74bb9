//! Private keys of clients, for assertions and proofs (RFC 7515, RFC 7523, RFC 9449).

use std::{fmt, io};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use mcp_proto::auth::{
    Secret,
    client::{AssertionClaims, DpopKey, ProofClaims},
};
use ring::{
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::{Map, Value, json};

use crate::http::auth::signer::{AssertionSigner, ProofSigner};

/// The private key of a client, which signs its assertions.
pub struct SigningKey {
    key: Key,
    /// The identifier of the key, for authorization servers that know several.
    id: Option<String>,
}

enum Key {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
}

/// The reason why a key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is no PKCS#8 key in PEM.
    Pem,
    /// The key does not fit the algorithm, or is too short.
    Key,
    /// The system has no random bytes.
    Random,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pem => "the key is not in PEM (PKCS#8)",
            Self::Key => "the key is not one of the algorithm",
            Self::Random => "the system has no random bytes",
        })
    }
}

impl std::error::Error for KeyError {}

impl SigningKey {
    /// Reads a key on the curve P-256 in PEM (PKCS#8), for the algorithm `ES256`.
    ///
    /// # Errors
    /// If `pem` is no such key.
    pub fn es256(pem: &str) -> Result<Self, KeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| KeyError::Pem)?;
        let (der, random) = (der.secret_pkcs8_der(), SystemRandom::new());
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random);
        Ok(Self { key: Key::Es256(key.map_err(|_| KeyError::Key)?), id: None })
    }

    /// Reads an RSA key of at least 2,048 bits in PEM (PKCS#8), for the algorithm `RS256`.
    ///
    /// # Errors
    /// If `pem` is no such key.
    pub fn rs256(pem: &str) -> Result<Self, KeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| KeyError::Pem)?;
        let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| KeyError::Key)?;
        Ok(Self { key: Key::Rs256(key), id: None })
    }

    /// Sets the identifier of the key (`kid`).
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    fn sign_jwt(&self, payload: &str) -> io::Result<Secret> {
        let mut header = Map::new();
        header.insert("typ".into(), "JWT".into());
        if let Some(id) = &self.id {
            header.insert("kid".into(), id.as_str().into());
        }
        self.key.sign_jwt(header, payload)
    }
}

impl Key {
    /// Signs a payload. The algorithm is added to the header.
    fn sign_jwt(&self, mut header: Map<String, Value>, payload: &str) -> io::Result<Secret> {
        let algorithm = match self {
            Self::Es256(_) => "ES256",
            Self::Rs256(_) => "RS256",
        };
        header.insert("alg".into(), algorithm.into());
        let part = |text: &str| Base64UrlUnpadded::encode_string(text.as_bytes());
        let signed = format!("{}.{}", part(&Value::Object(header).to_string()), part(payload));
        let (random, failed) = (SystemRandom::new(), |_| io::Error::other("the key cannot sign"));
        let signature = match self {
            Self::Es256(key) => key.sign(&random, signed.as_bytes()).map_err(failed)?.as_ref().to_vec(),
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).map_err(failed)?;
                signature
            }
        };
        Ok(Secret::new(format!("{signed}.{}", Base64UrlUnpadded::encode_string(&signature))))
    }
}

impl AssertionSigner for SigningKey {
    fn sign(&self, claims: &AssertionClaims) -> io::Result<Secret> {
        self.sign_jwt(&claims.to_json())
    }
}

/// A private key to which tokens are bound (DPoP), with the algorithm `ES256`.
pub struct ProofKey {
    key: Key,
    /// The public key as a JWK.
    public: Value,
    description: DpopKey,
}

impl ProofKey {
    /// Generates a key. Stored tokens cannot be used any more after the process has ended.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        Self::from_pkcs8(pkcs8.map_err(|_| KeyError::Random)?.as_ref())
    }

    /// Reads a key on the curve P-256 in PEM (PKCS#8).
    ///
    /// # Errors
    /// If `pem` is no such key.
    pub fn es256(pem: &str) -> Result<Self, KeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| KeyError::Pem)?;
        Self::from_pkcs8(der.secret_pkcs8_der())
    }

    /// Refuses tokens that are not bound to the key. Otherwise they are accepted from servers without DPoP.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.description.is_required = true;
        self
    }

    fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new());
        let key = key.map_err(|_| KeyError::Key)?;
        // The uncompressed point: 4, and two coordinates.
        let [4, point @ ..] = key.public_key().as_ref() else { return Err(KeyError::Key) };
        let (x, y) = point.split_at_checked(32).ok_or(KeyError::Key)?;
        let [x, y] = [x, y].map(Base64UrlUnpadded::encode_string);
        let thumbprint = thumbprint(&x, &y);
        let public = json!({"crv": "P-256", "kty": "EC", "x": x, "y": y});
        let description = DpopKey { thumbprint, algorithm: "ES256".into(), is_required: false };
        Ok(Self { key: Key::Es256(key), public, description })
    }
}

/// Returns the thumbprint of a public key on the curve P-256 (RFC 7638, section 3).
fn thumbprint(x: &str, y: &str) -> String {
    // The members are in the order of the RFC, without spaces.
    let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    Base64UrlUnpadded::encode_string(digest(&SHA256, canonical.as_bytes()).as_ref())
}

impl ProofSigner for ProofKey {
    fn key(&self) -> DpopKey {
        self.description.clone()
    }

    fn sign(&self, claims: &ProofClaims) -> io::Result<Secret> {
        let header = [("typ".to_owned(), "dpop+jwt".into()), ("jwk".to_owned(), self.public.clone())];
        self.key.sign_jwt(Map::from_iter(header), &claims.to_json())
    }
}

impl fmt::Debug for ProofKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProofKey").field("thumbprint", &self.description.thumbprint).finish_non_exhaustive()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
    };

    use super::*;

    /// Keys of these tests only.
    const RSA: &str = include_str!("test_rsa.pem");
    const EC: &str = "-----BEGIN PRIVATE KEY-----\n\
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgdTTqYg5lWfYeFg4Q\n\
        GC7Cok6tF0qplyJHlXXQVwBYzuahRANCAARRWpm7UPD33xr+nre5yyL8QV2aezRi\n\
        mVyvfArTH/KDYEZzsE/YKCq18Prh7KwODXmArKel4TU01q1of/1HOP+t\n\
        -----END PRIVATE KEY-----";

    fn claims() -> AssertionClaims {
        AssertionClaims {
            client_id: "client".into(),
            audience: "https://as.example".into(),
            id: "1".into(),
            issued_at: 1,
            expires_at: 61,
        }
    }

    /// Returns the header and the payload of a JWT with a good signature.
    fn verified(jwt: &Secret, algorithm: &'static dyn VerificationAlgorithm, public: &[u8]) -> [Value; 2] {
        let (signed, signature) = jwt.expose().rsplit_once('.').expect("three parts");
        let decode = |part: &str| Base64UrlUnpadded::decode_vec(part).expect("base64url");
        let key = UnparsedPublicKey::new(algorithm, public);
        key.verify(signed.as_bytes(), &decode(signature)).expect("a good signature");
        let (header, payload) = signed.split_once('.').expect("three parts");
        [header, payload].map(|part| serde_json::from_slice(&decode(part)).expect("JSON"))
    }

    #[test]
    fn assertions_are_signed() {
        let payload = json!({
            "iss": "client", "sub": "client", "aud": "https://as.example", "jti": "1", "iat": 1, "exp": 61,
        });
        let key = SigningKey::es256(EC).expect("a key").id("k");
        let Key::Es256(pair) = &key.key else { panic!("another algorithm") };
        let jwt = key.sign(&claims()).expect("it signs");
        let header = json!({"typ": "JWT", "alg": "ES256", "kid": "k"});
        assert_eq!(verified(&jwt, &ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref()), [header, payload.clone()]);
        let key = SigningKey::rs256(RSA).expect("a key");
        let Key::Rs256(pair) = &key.key else { panic!("another algorithm") };
        let jwt = key.sign(&claims()).expect("it signs");
        let header = json!({"typ": "JWT", "alg": "RS256"});
        assert_eq!(verified(&jwt, &RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref()), [header, payload]);
    }

    #[test]
    fn dpop_proof_contains_public_key() {
        let key = ProofKey::es256(EC).expect("a key").required();
        let url = mcp_proto::auth::Url::parse("https://mcp.example/mcp?a=b").expect("a URL");
        let token = Secret::new("canary");
        let claims = ProofClaims::new("1".into(), "POST", &url, 1, Some(&token), Some("n"));
        let jwt = key.sign(&claims).expect("it signs");
        let Key::Es256(pair) = &key.key else { panic!("another algorithm") };
        let [header, payload] = verified(&jwt, &ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref());
        assert_eq!(header, json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": key.public}));
        assert_eq!([&payload["htm"], &payload["htu"]], [&json!("POST"), &json!("https://mcp.example/mcp")]);
        assert!(key.key().is_required && header["jwk"]["d"].is_null());
        let [one, other] = [(); 2].map(|()| ProofKey::generate().expect("random bytes").key().thumbprint);
        assert_ne!(one, other);
    }

    #[test]
    fn thumbprint_matches_rfc_9449() {
        // RFC 9449, section 6.1.
        let (x, y) = ("l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs", "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA");
        assert_eq!(thumbprint(x, y), "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
    }

    #[test]
    fn rejects_keys_of_other_algorithms() {
        for (pem, error) in [(RSA, KeyError::Key), ("", KeyError::Pem), ("canary", KeyError::Pem)] {
            assert_eq!(SigningKey::es256(pem).expect_err("no key"), error);
            assert_eq!(ProofKey::es256(pem).expect_err("no key"), error);
        }
        assert_eq!(SigningKey::rs256(EC).expect_err("no key"), KeyError::Key);
        let shown = format!("{:?} {:?}", SigningKey::es256(EC).expect("a key"), ProofKey::es256(EC).expect("a key"));
        let secret = EC.lines().nth(1).expect("a line");
        assert!(!shown.contains(secret) && shown.len() < 200, "{shown}");
    }
}
