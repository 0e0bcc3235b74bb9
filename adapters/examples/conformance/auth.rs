//! The authorization of a client under test.

use std::{
    env,
    error::Error,
    future::ready,
    io::{self, Read, Write},
    net::TcpStream,
};

use mcp_driver::http::auth::{
    AuthMethod, AuthRuntime, ClientIdentity, ClientMetadata, ClientOptions, GrantType, Headless, IdentityProvider,
    OAuth, ProofKey, Registration, Secret, Settings, SigningKey, Url,
};
use serde_json::Value;

/// The document that describes the client. The suite does not fetch it.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// The redirect URI. It is not requested.
const REDIRECT: &str = "http://127.0.0.1:9876/callback";

/// Returns the provider of credentials for a scenario of authorization.
pub(crate) fn provider<R: AuthRuntime>(url: &str, context: &Value) -> Result<OAuth<R>, Box<dyn Error>> {
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let text = |name: &str| context[name].as_str().map(ToOwned::to_owned);
    let mut builder = OAuth::builder(url)?;
    let mut settings = Settings { offline_access: true, ..Settings::default() };
    if let Some(key) = text("private_key_pem") {
        builder = builder.signer(match context["signing_algorithm"].as_str() {
            Some("RS256") => SigningKey::rs256(&key)?,
            _ => SigningKey::es256(&key)?,
        });
    }
    settings.identities = match text("client_id") {
        Some(client_id) => {
            let issuer = text("issuer").map_or_else(|| issuer_of(&Url::parse(url)?), Ok)?;
            ClientOptions { pre_registered: vec![known(issuer, client_id, context)], ..Default::default() }
        }
        None => ClientOptions {
            metadata: Some(ClientMetadata::new(Url::parse(METADATA)?, "conformance-client", [Url::parse(REDIRECT)?])?),
            registration: Some(Registration::new("conformance-client", [])),
            ..Default::default()
        },
    };
    if scenario.starts_with("auth/dpop") {
        builder = builder.proofs(ProofKey::generate()?.required());
    }
    if let Some(jwt) = text("valid_jwt").or(text("idp_id_token")) {
        builder = builder.assertions(move |_| ready(Ok(Secret::new(jwt.clone()))));
    }
    match &*scenario {
        "auth/client-credentials-jwt" | "auth/client-credentials-basic" => {}
        "auth/wif-jwt-bearer" => settings.grant_type = GrantType::JwtBearer,
        "auth/enterprise-managed-authorization" => {
            let endpoint = Url::parse(&text("idp_token_endpoint").ok_or("there is no token endpoint")?)?;
            let [issuer, client_id] = ["idp_issuer", "idp_client_id"].map(|name| text(name).unwrap_or_default());
            let client =
                ClientIdentity { auth_method: Some(AuthMethod::None), ..known(issuer, client_id, &Value::Null) };
            settings.grant_type = GrantType::IdentityAssertion(IdentityProvider::new(endpoint, client));
        }
        _ => builder = builder.user_agent(Headless::new(Url::parse(REDIRECT)?, |url| ready(follow(&url)))),
    }
    Ok(builder.settings(settings).build()?)
}

/// Returns the identity that the suite has given out.
fn known(issuer: String, client_id: String, context: &Value) -> ClientIdentity {
    let has_key = context["private_key_pem"].is_string();
    ClientIdentity {
        issuer,
        client_id,
        secret: context["client_secret"].as_str().map(Secret::new),
        secret_expires_at: None,
        redirect_uris: Vec::new(),
        auth_method: has_key.then_some(AuthMethod::PrivateKeyJwt),
    }
}

/// Returns the issuer of the server. A real operator would configure it.
fn issuer_of(server: &Url) -> Result<String, Box<dyn Error>> {
    let path = format!("/.well-known/oauth-protected-resource{}", server.path());
    let response = get(server, &path)?;
    let (_, body) = response.split_once("\r\n\r\n").ok_or("there is no body")?;
    let metadata: Value = serde_json::from_str(body)?;
    Ok(metadata["authorization_servers"][0].as_str().ok_or("there is no authorization server")?.to_owned())
}

/// Requests the authorization as a browser does, and returns the query of the redirect.
fn follow(url: &Url) -> io::Result<String> {
    let response = get(url, &format!("{}?{}", url.path(), url.query().unwrap_or_default()))?;
    let location = response.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location").then(|| value.trim())
    });
    let query = location.and_then(|location| Some(location.split_once('?')?.1.to_owned()));
    query.ok_or_else(|| io::Error::other(format!("no redirect: {response}")))
}

/// Returns the response to a request. The mock server of the suite is on this machine.
fn get(url: &Url, target: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((url.host(), url.port()))?;
    let host = format!("{}:{}", url.host(), url.port());
    write!(stream, "GET {target} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}
