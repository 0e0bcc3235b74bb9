//! A proof, and the rules for it (RFC 9449, section 4.3).

use alloc::{borrow::ToOwned, string::String, vec::Vec};
use core::{fmt, str};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use hmac_sha256::Hash;

use super::{jwk::ProofPublicKey, nonce::NonceKey};
use crate::auth::{
    bearer::BearerError,
    document::Document,
    secret::Secret,
    url::{Url, normalized_base},
};

/// The most bytes of a proof.
pub const MAX_PROOF: usize = 8 * 1024;

/// The reason why a proof is not accepted. Its text is sent to the client, and contains no part of the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProofError {
    /// The request has no proof.
    Missing,
    /// The request has several proofs.
    Several,
    /// The proof has more than [`MAX_PROOF`] bytes.
    TooLong,
    /// The proof is no signed JWT, or has a member twice.
    Malformed,
    /// Its type is not `dpop+jwt`.
    Type,
    /// Its algorithm is not allowed.
    Algorithm,
    /// Its key is no public key for the algorithm.
    Key,
    /// Its key has private members.
    PrivateKey,
    /// A claim is missing or has another type.
    Claim(&'static str),
    /// The proof is for another method.
    Method,
    /// The proof is for another URL.
    Url,
    /// The proof is for another token.
    TokenHash,
    /// The proof is too old, or has expired.
    TooOld,
    /// The proof is from the future.
    TooEarly,
    /// The proof has no valid nonce of the server.
    Nonce,
    /// The token is bound to another key.
    Binding,
    /// Its signature is wrong.
    Signature,
    /// The proof was accepted before.
    Replayed,
    /// There is no room for another proof of this principal.
    TooMany,
}

impl ProofError {
    /// Returns the error of a challenge.
    #[must_use]
    pub fn bearer_error(self) -> BearerError {
        use alloc::string::ToString as _;
        match self {
            Self::Nonce => BearerError::UseNonce,
            Self::Binding => BearerError::InvalidToken(self.to_string()),
            _ => BearerError::InvalidProof(self.to_string()),
        }
    }
}

impl fmt::Display for ProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the request has no proof",
            Self::Several => "the request has several proofs",
            Self::TooLong => "the proof is too long",
            Self::Malformed => "the proof is malformed",
            Self::Type => "the type of the proof is not dpop+jwt",
            Self::Algorithm => "the algorithm of the proof is not allowed",
            Self::Key => "the key of the proof is not a public key for its algorithm",
            Self::PrivateKey => "the key of the proof has private members",
            Self::Claim(name) => return write!(f, "the claim '{name}' of the proof is missing or invalid"),
            Self::Method => "the proof is for another method",
            Self::Url => "the proof is for another URL",
            Self::TokenHash => "the proof is for another token",
            Self::TooOld => "the proof is too old",
            Self::TooEarly => "the proof is from the future",
            Self::Nonce => "the proof needs a nonce of the server",
            Self::Binding => "the token is bound to another key",
            Self::Signature => "the signature of the proof is wrong",
            Self::Replayed => "the proof was used before",
            Self::TooMany => "there are too many requests",
        })
    }
}

impl core::error::Error for ProofError {}

/// The rules of a server for proofs.
#[derive(Clone, Debug)]
pub struct ProofRules {
    algorithms: Vec<String>,
    /// The public URLs, normalized and without queries.
    urls: Vec<String>,
    /// In seconds.
    max_age: u64,
    leeway: u64,
    nonces: Option<NonceKey>,
}

impl ProofRules {
    /// The default age of a proof, in seconds.
    pub const MAX_AGE: u64 = 60;

    /// The default difference between the clocks of servers and clients, in seconds.
    pub const LEEWAY: u64 = 30;

    /// The most seconds that either of the two can have.
    pub const MAX_SECONDS: u64 = 3600;

    /// Accepts proofs for the public URL of a server, with these algorithms: `ES256` for example. Symmetric algorithms
    /// and `none` are never accepted, since no key [fits](ProofPublicKey::fits) them.
    #[must_use]
    pub fn new<'a>(url: &Url, algorithms: impl IntoIterator<Item = &'a str>) -> Self {
        let algorithms = algorithms.into_iter().map(ToOwned::to_owned).collect();
        let rules = Self { algorithms, urls: Vec::new(), max_age: Self::MAX_AGE, leeway: Self::LEEWAY, nonces: None };
        rules.url(url)
    }

    /// Accepts proofs for another public URL of the server: of its stream over HTTP+SSE, or under another name.
    #[must_use]
    pub fn url(mut self, url: &Url) -> Self {
        self.urls.extend(normalized_base(url.as_str()));
        self
    }

    /// Sets how many seconds after its creation a proof is accepted, at most [`MAX_SECONDS`](Self::MAX_SECONDS).
    #[must_use]
    pub fn max_age(mut self, seconds: u64) -> Self {
        self.max_age = seconds.min(Self::MAX_SECONDS);
        self
    }

    /// Sets by how many seconds the clock of a client may be ahead or behind, at most
    /// [`MAX_SECONDS`](Self::MAX_SECONDS).
    #[must_use]
    pub fn leeway(mut self, seconds: u64) -> Self {
        self.leeway = seconds.min(Self::MAX_SECONDS);
        self
    }

    /// Requires a nonce of the server in each proof.
    #[must_use]
    pub fn nonces(mut self, key: NonceKey) -> Self {
        self.nonces = Some(key);
        self
    }

    /// Returns the nonce for the next proofs, if proofs need one.
    #[must_use]
    pub fn nonce(&self, now: u64) -> Option<String> {
        self.nonces.as_ref().map(|key| key.current(now))
    }

    /// Reads the proof of a request with the method `method` and the access token `token`, from the values of its
    /// `DPoP` headers. It does not verify the signature, and does not compare the key with that of the token.
    ///
    /// # Errors
    /// Returns the reason if it is not accepted. The length is checked before anything else.
    pub fn read<'v>(
        &self,
        now: u64,
        values: impl IntoIterator<Item = &'v [u8]>,
        method: &str,
        token: &Secret,
    ) -> Result<Proof, ProofError> {
        let mut values = values.into_iter();
        let value = values.next().ok_or(ProofError::Missing)?;
        if values.next().is_some() {
            return Err(ProofError::Several);
        }
        if value.len() > MAX_PROOF {
            return Err(ProofError::TooLong);
        }
        let proof = Proof::parse(value, &self.algorithms)?;
        let claims = &proof.claims;
        if claims.method != method {
            return Err(ProofError::Method);
        }
        if !normalized_base(&claims.url).is_some_and(|url| self.urls.contains(&url)) {
            return Err(ProofError::Url);
        }
        if claims.token_hash != Base64UrlUnpadded::encode_string(&Hash::hash(token.expose().as_bytes())) {
            return Err(ProofError::TokenHash);
        }
        if claims.issued_at > now.saturating_add(self.leeway) || claims.begins > now.saturating_add(self.leeway) {
            return Err(ProofError::TooEarly);
        }
        let last_second = proof.last_second(self.max_age, self.leeway);
        if last_second < now {
            return Err(ProofError::TooOld);
        }
        if let Some(key) = &self.nonces
            && !claims.nonce.as_ref().is_some_and(|nonce| key.is_valid(now, nonce))
        {
            return Err(ProofError::Nonce);
        }
        Ok(Proof { last_second, ..proof })
    }
}

/// A proof for a request, whose signature was not verified yet. Its `Debug` output does not contain the text.
#[derive(Clone)]
pub struct Proof {
    algorithm: String,
    key: ProofPublicKey,
    signed: String,
    signature: Vec<u8>,
    claims: Claims,
    /// The last second at which the proof is accepted.
    last_second: u64,
}

/// The claims that are checked.
#[derive(Clone)]
struct Claims {
    id: String,
    method: String,
    url: String,
    issued_at: u64,
    /// `exp` and `nbf`, which a JWT may have.
    expires: Option<u64>,
    begins: u64,
    token_hash: String,
    nonce: Option<String>,
}

impl Proof {
    fn parse(value: &[u8], allowed: &[String]) -> Result<Self, ProofError> {
        let text = str::from_utf8(value).map_err(|_| ProofError::Malformed)?;
        let (signed, signature) = text.rsplit_once('.').ok_or(ProofError::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(ProofError::Malformed)?;
        let decode = |part: &str| Base64UrlUnpadded::decode_vec(part).map_err(|_| ProofError::Malformed);
        let object = |part| Document::parse(&decode(part)?).map_err(|_| ProofError::Malformed);
        let header = object(header)?;
        let [kind, algorithm, key, critical] =
            header.members(["typ", "alg", "jwk", "crit"]).map_err(|_| ProofError::Malformed)?;
        if kind.text().ok().flatten().as_deref() != Some("dpop+jwt") {
            return Err(ProofError::Type);
        }
        if critical.is_there() {
            // No extension is supported (RFC 7515, section 4.1.11).
            return Err(ProofError::Malformed);
        }
        let algorithm = algorithm.text().ok().flatten().ok_or(ProofError::Algorithm)?;
        if !allowed.contains(&algorithm) {
            return Err(ProofError::Algorithm);
        }
        let key = key.object().ok().flatten().ok_or(ProofError::Key)?;
        let key = ProofPublicKey::parse(&key)?;
        if !key.fits(&algorithm) {
            return Err(ProofError::Key);
        }
        let (signature, claims) = (decode(signature)?, Claims::read(&object(payload)?)?);
        Ok(Self { algorithm, key, signed: signed.to_owned(), signature, claims, last_second: 0 })
    }

    fn last_second(&self, max_age: u64, leeway: u64) -> u64 {
        let by_age = self.claims.issued_at.saturating_add(max_age);
        // A token is not accepted on or after its expiry (RFC 7519, section 4.1.4).
        let by_expiry = self.claims.expires.map(|at| at.saturating_sub(1));
        by_expiry.into_iter().fold(by_age, u64::min).saturating_add(leeway)
    }

    /// Returns the algorithm, which is allowed and [fits](ProofPublicKey::fits) the key.
    #[must_use]
    pub fn algorithm(&self) -> &str {
        &self.algorithm
    }

    /// Returns the key in its header.
    #[must_use]
    pub fn key(&self) -> &ProofPublicKey {
        &self.key
    }

    /// Returns the part that is signed.
    #[must_use]
    pub fn signed(&self) -> &[u8] {
        self.signed.as_bytes()
    }

    /// Returns the signature.
    #[must_use]
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Verifies that the proof is signed with the key to which the token is bound, whose thumbprint is `thumbprint`.
    /// `is_genuine` returns whether the signature is valid for the key and the algorithm. It is called at most once.
    ///
    /// # Errors
    /// Returns [`ProofError::Binding`] or [`ProofError::Signature`].
    pub fn verify(self, thumbprint: &str, is_genuine: impl FnOnce(&Self) -> bool) -> Result<VerifiedProof, ProofError> {
        let own = self.key.thumbprint();
        if own != thumbprint {
            return Err(ProofError::Binding);
        }
        if !is_genuine(&self) {
            return Err(ProofError::Signature);
        }
        Ok(VerifiedProof { thumbprint: own, id: self.claims.id, last_second: self.last_second })
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proof")
            .field("algorithm", &self.algorithm)
            .field("method", &self.claims.method)
            .field("issued_at", &self.claims.issued_at)
            .finish_non_exhaustive()
    }
}

impl Claims {
    fn read(claims: &Document) -> Result<Self, ProofError> {
        let names = ["jti", "htm", "htu", "iat", "exp", "nbf", "ath", "nonce"];
        let [id, method, url, issued_at, expires, begins, token_hash, nonce] =
            claims.members(names).map_err(|_| ProofError::Malformed)?;
        let needed =
            |member: &crate::auth::document::Member, name| member.text().ok().flatten().ok_or(ProofError::Claim(name));
        let seconds =
            |member: &crate::auth::document::Member, name| member.seconds().map_err(|_| ProofError::Claim(name));
        Ok(Self {
            id: needed(&id, "jti")?,
            method: needed(&method, "htm")?,
            url: needed(&url, "htu")?,
            issued_at: seconds(&issued_at, "iat")?.ok_or(ProofError::Claim("iat"))?,
            expires: seconds(&expires, "exp")?,
            begins: seconds(&begins, "nbf")?.unwrap_or_default(),
            token_hash: needed(&token_hash, "ath")?,
            nonce: nonce.text().map_err(|_| ProofError::Claim("nonce"))?,
        })
    }
}

/// A proof that is signed with the key of the token.
#[derive(Clone, Debug)]
pub struct VerifiedProof {
    pub(super) thumbprint: String,
    pub(super) id: String,
    pub(super) last_second: u64,
}
