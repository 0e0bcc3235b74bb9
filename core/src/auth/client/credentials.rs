//! The stored credentials of a client.

use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};
use core::iter;

use serde_json::{Map, Value};

use crate::auth::{
    auth_method::AuthMethod,
    client_identity::ClientIdentity,
    document::{Document, DocumentError, Member},
    scope::Scopes,
    secret::Secret,
    token::TokenType,
    url::Url,
};

/// The version of an entry of a store. The store gives each version of an entry a generation that its key never had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation(pub u64);

/// The credentials that are stored for one server. Identity and tokens belong to one issuer, and are not used with
/// another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The identity of the client, which names the issuer.
    pub client: ClientIdentity,
    /// The tokens; `None` if they were refused.
    pub tokens: Option<StoredTokens>,
    /// The credentials at other issuers, the last one that was used first: a server may change its authorization
    /// server, and change back. These have no `others`.
    pub others: Vec<Credentials>,
}

/// Tokens, with their resource, scopes and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTokens {
    /// The access token.
    pub access: Secret,
    /// The type of the access token.
    pub token_type: TokenType,
    /// The refresh token.
    pub refresh: Option<Secret>,
    /// The identifier of the resource, byte for byte.
    pub resource: Url,
    /// The granted scopes: the requested ones, unless the server has named others.
    pub scopes: Scopes,
    /// The scopes that were requested.
    pub requested: Scopes,
    /// When the tokens were issued, in seconds since 1970.
    pub issued_at: u64,
    /// When the access token expires, in seconds since 1970.
    pub expires_at: Option<u64>,
    /// The [thumbprint](super::DpopKey::thumbprint) of the key to which the tokens are bound.
    pub key_thumbprint: Option<String>,
}

/// The result of an [`Action::Store`](super::Action::Store).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreReply {
    /// The entry is stored, and has this generation.
    Stored(Generation),
    /// The entry is not stored, because the store has this other entry, or none.
    Conflict(Option<Box<(Generation, Credentials)>>),
    /// The store failed.
    Failed,
}

/// The stored form is one JSON object. Unknown members are ignored, and members without a value are omitted.
///
/// | member | value |
/// | --- | --- |
/// | `issuer` | the issuer of the authorization server |
/// | `client_id` | the identifier of the client |
/// | `client_secret` | the secret of the client |
/// | `client_secret_expires_at` | when the secret expires, in seconds since 1970 |
/// | `redirect_uris` | a list of the redirect URIs of the client |
/// | `token_endpoint_auth_method` | the registered name of how the client authenticates |
/// | `tokens` | an object of those below |
/// | `access_token` | the access token |
/// | `token_type` | `Bearer`, `DPoP` or `N_A` |
/// | `refresh_token` | the refresh token |
/// | `resource` | the identifier of the resource |
/// | `scope`, `requested_scope` | the scopes that were granted and requested, divided by spaces |
/// | `issued_at`, `expires_at` | seconds since 1970 |
/// | `jkt` | the thumbprint of the key to which the tokens are bound |
/// | `others` | a list of such objects, for other issuers; absent if there are none |
impl Credentials {
    /// The most other issuers whose credentials are kept.
    pub const MAX_OTHERS: usize = 3;

    /// Creates credentials at one issuer.
    #[must_use]
    pub const fn new(client: ClientIdentity, tokens: Option<StoredTokens>) -> Self {
        Self { client, tokens, others: Vec::new() }
    }

    /// Returns the credentials at each issuer, each without others.
    pub(super) fn into_each(self) -> impl Iterator<Item = Self> {
        let Self { client, tokens, others } = self;
        iter::once(Self::new(client, tokens)).chain(others)
    }

    /// Returns the stored form, which is JSON. It contains all secrets in plain text.
    #[must_use]
    pub fn to_json(&self) -> Secret {
        Secret::new(self.to_object().to_string())
    }

    fn to_object(&self) -> Value {
        let Self { client, tokens, others } = self;
        let mut object = Map::new();
        put(&mut object, "issuer", Some(&*client.issuer));
        put(&mut object, "client_id", Some(&*client.client_id));
        put(&mut object, "client_secret", client.secret.as_ref().map(Secret::expose));
        put(&mut object, "client_secret_expires_at", client.secret_expires_at);
        let uris: Vec<_> = client.redirect_uris.iter().map(Url::as_str).collect();
        put(&mut object, "redirect_uris", Some(uris).filter(|uris| !uris.is_empty()));
        put(&mut object, "token_endpoint_auth_method", client.auth_method.map(AuthMethod::as_str));
        put(&mut object, "tokens", tokens.as_ref().map(StoredTokens::to_object));
        let others: Vec<_> = others.iter().map(Self::to_object).collect();
        put(&mut object, "others", Some(others).filter(|others| !others.is_empty()));
        Value::Object(object)
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Returns the reason if `json` is not the stored form of credentials. At most [`document::MAX_LEN`] bytes are
    /// read.
    ///
    /// [`document::MAX_LEN`]: crate::auth::document::MAX_LEN
    pub fn from_json(json: &[u8]) -> Result<Self, DocumentError> {
        let document = Document::parse(json)?;
        let [others] = document.members(["others"])?;
        let others = others.objects(Self::MAX_OTHERS)?;
        Ok(Self { others: others.iter().map(Self::read).collect::<Result<_, _>>()?, ..Self::read(&document)? })
    }

    /// Reads credentials without the others.
    fn read(document: &Document) -> Result<Self, DocumentError> {
        let [issuer, id, secret, expires, uris, method, tokens] = document.members([
            "issuer",
            "client_id",
            "client_secret",
            "client_secret_expires_at",
            "redirect_uris",
            "token_endpoint_auth_method",
            "tokens",
        ])?;
        let invalid = DocumentError::Invalid;
        let method = method.text()?.map(|name| AuthMethod::parse(&name).ok_or(invalid("token_endpoint_auth_method")));
        let parse = |uri: &String| Url::parse(uri).map_err(|error| DocumentError::Url("redirect_uris", error));
        let client = ClientIdentity {
            issuer: issuer.needed_text()?,
            client_id: id.needed_text()?,
            secret: secret.text()?.map(Secret::new),
            secret_expires_at: expires.seconds()?,
            redirect_uris: uris.texts()?.iter().flatten().map(parse).collect::<Result<_, _>>()?,
            auth_method: method.transpose()?,
        };
        let tokens = tokens.object()?.map(|object| StoredTokens::read(&object)).transpose()?;
        Ok(Self::new(client, tokens))
    }
}

impl StoredTokens {
    fn to_object(&self) -> Value {
        let mut object = Map::new();
        put(&mut object, "access_token", Some(self.access.expose()));
        put(&mut object, "token_type", Some(self.token_type.as_str()));
        put(&mut object, "refresh_token", self.refresh.as_ref().map(Secret::expose));
        put(&mut object, "resource", Some(self.resource.as_str()));
        put(&mut object, "scope", Some(self.scopes.to_string()));
        put(&mut object, "requested_scope", Some(self.requested.to_string()));
        put(&mut object, "issued_at", Some(self.issued_at));
        put(&mut object, "expires_at", self.expires_at);
        put(&mut object, "jkt", self.key_thumbprint.as_deref());
        Value::Object(object)
    }

    fn read(object: &Document) -> Result<Self, DocumentError> {
        let [access, kind, refresh, resource, scope, requested, issued, expires, key] = object.members([
            "access_token",
            "token_type",
            "refresh_token",
            "resource",
            "scope",
            "requested_scope",
            "issued_at",
            "expires_at",
            "jkt",
        ])?;
        let scopes = |member: Member, name| {
            Scopes::parse(&member.text()?.unwrap_or_default()).ok_or(DocumentError::Invalid(name))
        };
        Ok(Self {
            access: Secret::new(access.needed_text()?),
            token_type: TokenType::parse(&kind.needed_text()?).ok_or(DocumentError::Invalid("token_type"))?,
            refresh: refresh.text()?.map(Secret::new),
            resource: resource.needed_url()?,
            scopes: scopes(scope, "scope")?,
            requested: scopes(requested, "requested_scope")?,
            issued_at: issued.seconds()?.ok_or(DocumentError::Missing("issued_at"))?,
            expires_at: expires.seconds()?,
            key_thumbprint: key.text()?,
        })
    }
}

/// Adds a member, if it has a value.
fn put(object: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(name.into(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, vec};

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    fn full() -> Credentials {
        let client = ClientIdentity {
            issuer: "https://as.example/".into(),
            client_id: "id \"\u{e4}\"".into(),
            secret: Some(Secret::new("s\\")),
            secret_expires_at: Some(7),
            redirect_uris: vec![url("http://127.0.0.1:1/cb"), url("https://c.example/cb?x=1")],
            auth_method: Some(AuthMethod::ClientSecretPost),
        };
        let tokens = StoredTokens {
            access: Secret::new("a"),
            token_type: TokenType::Dpop,
            refresh: Some(Secret::new("r")),
            resource: url("https://mcp.example/mcp?tenant=1"),
            scopes: Scopes::parse("x").expect("scopes"),
            requested: Scopes::parse("x y").expect("scopes"),
            issued_at: 1,
            expires_at: Some(u64::MAX),
            key_thumbprint: Some("thumb".into()),
        };
        let other = ClientIdentity { issuer: "https://other.example".into(), secret: None, ..client.clone() };
        let others = vec![Credentials::new(other.clone(), Some(tokens.clone())), Credentials::new(other, None)];
        Credentials { client, tokens: Some(tokens), others }
    }

    #[test]
    fn credentials_round_trip() {
        let full = full();
        let registration = Credentials { tokens: None, ..full.clone() };
        let client = ClientIdentity {
            secret: None,
            secret_expires_at: None,
            redirect_uris: Vec::new(),
            auth_method: None,
            ..full.client.clone()
        };
        let tokens = full.tokens.clone().map(|tokens| StoredTokens {
            refresh: None,
            expires_at: None,
            key_thumbprint: None,
            scopes: Scopes::default(),
            requested: Scopes::default(),
            ..tokens
        });
        for credentials in [registration, Credentials::new(client, tokens), full] {
            let json = credentials.to_json();
            assert_eq!(Credentials::from_json(json.expose().as_bytes()), Ok(credentials));
            assert_eq!(format!("{json:?}"), "[redacted]");
        }
    }

    #[test]
    fn an_entry_of_one_issuer_is_read() {
        // As it was written before there were others.
        let json = r#"{"issuer":"https://as.example","client_id":"id","tokens":{"access_token":"a","token_type":"Bearer",
            "resource":"https://mcp.example/mcp","issued_at":1}}"#;
        let read = Credentials::from_json(json.as_bytes()).expect("an entry");
        assert_eq!((&*read.client.issuer, read.others.len()), ("https://as.example", 0));
        assert_eq!(read.tokens.expect("tokens").access.expose(), "a");
    }

    #[test]
    fn largest_tokens_round_trip() {
        // Each of these bytes takes two in JSON. A server cannot give out what takes more.
        let text = "\\".repeat(crate::auth::document::MAX_TEXT);
        let mut credentials = Credentials { others: Vec::new(), ..full() };
        (credentials.client.client_id, credentials.client.secret) = (text.clone(), Some(Secret::new(&*text)));
        let tokens = credentials.tokens.as_mut().expect("tokens");
        (tokens.access, tokens.refresh) = (Secret::new(&*text), Some(Secret::new(text)));
        assert_eq!(Credentials::from_json(credentials.to_json().expose().as_bytes()), Ok(credentials));
    }

    #[test]
    fn rejects_malformed_credentials() {
        let one = Credentials { others: Vec::new(), ..full() };
        let read_in = |json: &Secret, from: &str, to: &str| {
            assert!(json.expose().contains(from), "{from}");
            Credentials::from_json(json.expose().replacen(from, to, 1).as_bytes())
        };
        let (json, of_several) = (one.to_json(), full().to_json());
        let read = |from: &str, to: &str| read_in(&json, from, to);
        assert_eq!(read("{", "{\"new\":[],"), Ok(one), "what is not known is ignored");
        for (from, to, error) in [
            ("\"issuer\"", "\"x\"", DocumentError::Missing("issuer")),
            ("\"client_secret_post\"", "\"x\"", DocumentError::Invalid("token_endpoint_auth_method")),
            ("\"DPoP\"", "\"x\"", DocumentError::Invalid("token_type")),
            ("\"x y\"", "\"\\\"\"", DocumentError::Invalid("requested_scope")),
            ("\"issued_at\"", "\"x\"", DocumentError::Missing("issued_at")),
            ("\"tokens\":{", "\"tokens\":[],\"x\":{", DocumentError::Invalid("tokens")),
            ("\"tokens\"", "\"issuer\"", DocumentError::Duplicate("issuer")),
        ] {
            assert_eq!(read(from, to), Err(error), "{from}");
        }
        for (more, error) in [
            ("{\"x\":1},", DocumentError::Missing("issuer")),
            ("{},{},", DocumentError::Invalid("others")),
            ("1,", DocumentError::Invalid("others")),
        ] {
            let others = format!("\"others\":[{more}");
            assert_eq!(read_in(&of_several, "\"others\":[", &others), Err(error), "{more}");
        }
        let long = format!("{}{}", json.expose(), " ".repeat(crate::auth::document::MAX_LEN));
        assert_eq!(Credentials::from_json(long.as_bytes()), Err(DocumentError::TooLong));
        assert_eq!(Credentials::from_json(b"\xff"), Err(DocumentError::NotAnObject));
    }
}
