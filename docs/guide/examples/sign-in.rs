//! A protected server and its authorization server in one program, to try a sign-in on this machine.
//! The only user is Ada, who agrees by a click and has no password: it is for trying only.
//!
//! ```sh
//! cargo run -p mcp-guide --example sign-in
//! # In another terminal. It opens a browser, and prints `http://127.0.0.1:8000 ada`.
//! cargo run -p mcp-tokio --example oauth-client-tokio -- http://127.0.0.1:8000/mcp whoami
//! # This tool needs another scope, so the browser asks again.
//! cargo run -p mcp-tokio --example oauth-client-tokio -- http://127.0.0.1:8000/mcp forget
//! ```

use std::{
    collections::HashMap,
    error::Error,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{Html, IntoResponse, Redirect},
    routing::{get, post},
};
use base64ct::{Base64UrlUnpadded, Encoding};
use mcp_proto::auth::{ResourceMetadata, Scopes};
use mcp_service::{Context, RegisterError, Service, Tool};
use mcp_tokio::http::{AccessToken, Endpoint, EndpointOptions, Policy, ResourceServer, TokenError};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What the user has agreed to.
struct Grant {
    redirect: String,
    challenge: String,
    scope: String,
}

#[derive(Default)]
struct Granted {
    codes: HashMap<String, Grant>,
    /// The scopes of each access token.
    tokens: HashMap<String, String>,
}

/// The authorization server.
struct Issuer {
    url: String,
    granted: Mutex<Granted>,
}

type Fields = HashMap<String, String>;

fn fields(text: &str) -> Fields {
    form_urlencoded::parse(text.as_bytes())
        .into_owned()
        .collect()
}

fn field<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).map_or("", String::as_str)
}

/// Returns a text that cannot be guessed. A real server uses more bits.
fn secret() -> String {
    format!("{:016x}", RandomState::new().hash_one(0))
}

fn answer(status: StatusCode, value: &Value) -> impl IntoResponse + use<> {
    (
        status,
        [(CONTENT_TYPE, "application/json")],
        value.to_string(),
    )
}

impl Issuer {
    fn metadata(&self) -> Value {
        let url = |path: &str| format!("{}{path}", self.url);
        json!({
            "issuer": self.url,
            "authorization_endpoint": url("/authorize"),
            "token_endpoint": url("/token"),
            "registration_endpoint": url("/register"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "scopes_supported": ["notes", "notes:write"],
        })
    }

    /// Ada agrees: the browser takes a code back to the client.
    fn allow(&self, query: &str) -> Option<String> {
        let request = fields(query);
        let redirect = field(&request, "redirect_uri").to_owned();
        // Codes are for programs on this machine only.
        let rest = redirect.strip_prefix("http://127.0.0.1:")?;
        rest.split('/').next()?.parse::<u16>().ok()?;
        let (code, state) = (secret(), field(&request, "state"));
        let back =
            form_urlencoded::Serializer::for_suffix(format!("{redirect}?"), redirect.len() + 1)
                .append_pair("code", &code)
                .append_pair("state", state)
                .finish();
        let of = |name: &str| field(&request, name).to_owned();
        let (challenge, scope) = (of("code_challenge"), of("scope"));
        let grant = Grant {
            redirect,
            challenge,
            scope,
        };
        self.granted.lock().unwrap().codes.insert(code, grant);
        Some(back)
    }

    /// Exchanges a code for an access token. A code can be used once.
    fn token(&self, body: &str) -> Option<Value> {
        let request = fields(body);
        let mut granted = self.granted.lock().unwrap();
        let grant = granted.codes.remove(field(&request, "code"))?;
        let digest = hmac_sha256::Hash::hash(field(&request, "code_verifier").as_bytes());
        let is_good = Base64UrlUnpadded::encode_string(&digest) == grant.challenge
            && field(&request, "redirect_uri") == grant.redirect;
        let token = secret();
        is_good.then(|| {
            granted.tokens.insert(token.clone(), grant.scope.clone());
            json!({"access_token": token, "token_type": "Bearer", "scope": grant.scope})
        })
    }

    fn verify(&self, token: &str) -> Result<AccessToken, TokenError> {
        let granted = self.granted.lock().unwrap();
        let scope = granted
            .tokens
            .get(token)
            .ok_or(TokenError::Refused("it is unknown"))?;
        Ok(AccessToken::new(&self.url, "ada").scope(scope))
    }
}

async fn register(body: String) -> impl IntoResponse {
    let Ok(Value::Object(mut client)) = serde_json::from_str(&body) else {
        return answer(
            StatusCode::BAD_REQUEST,
            &json!({"error": "invalid_client_metadata"}),
        );
    };
    client.insert("client_id".into(), secret().into());
    client.insert("token_endpoint_auth_method".into(), "none".into());
    answer(StatusCode::CREATED, &client.into())
}

async fn authorize(RawQuery(query): RawQuery) -> Html<String> {
    let query = query.unwrap_or_default();
    let escape = |text: &str| {
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('"', "&quot;")
    };
    let scope = escape(field(&fields(&query), "scope"));
    let query = escape(&query);
    Html(format!(
        r#"<h1>Sign in as Ada</h1><p>A program asks for: {scope}</p>
        <form method="post" action="/allow?{query}"><button>Allow</button></form>"#
    ))
}

async fn allow(
    State(issuer): State<Arc<Issuer>>,
    RawQuery(query): RawQuery,
) -> axum::response::Response {
    match issuer.allow(&query.unwrap_or_default()) {
        Some(back) => Redirect::to(&back).into_response(),
        None => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn token(State(issuer): State<Arc<Issuer>>, body: String) -> impl IntoResponse {
    match issuer.token(&body) {
        Some(token) => answer(StatusCode::OK, &token),
        None => answer(StatusCode::BAD_REQUEST, &json!({"error": "invalid_grant"})),
    }
}

fn service() -> Result<Service, RegisterError> {
    let who = |context: Context| context.info().principal.as_ref().map(|who| who.id.clone());
    Service::builder("notes", env!("CARGO_PKG_VERSION"))
        .tool(Tool::new("whoami", who).description("Returns the subject of the token"))
        .tool(Tool::new("forget", || "All notes are gone").scope("notes:write"))
        .build()
}

/// Serves both at the address of a listener.
pub(crate) async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let url = format!("http://{}", listener.local_addr()?);
    let issuer = Arc::new(Issuer {
        url: url.clone(),
        granted: Mutex::default(),
    });
    let metadata = ResourceMetadata::new(format!("{url}/mcp").parse()?, url.parse()?)
        .required_scopes(Scopes::of(["notes"]).ok_or("no scopes")?);
    let verifier = issuer.clone();
    let server = ResourceServer::of(metadata, move |token: &str| verifier.verify(token));
    let endpoint = Endpoint::new(&service()?, EndpointOptions::new(Policy::loopback()))?;
    let endpoint = endpoint.protect(server);

    let served = issuer.clone();
    let app = Router::new()
        .route_service("/mcp", endpoint.clone())
        .route_service("/.well-known/oauth-protected-resource/{*path}", endpoint)
        .route(
            "/.well-known/oauth-authorization-server",
            get(async move || answer(StatusCode::OK, &served.metadata())),
        )
        .route("/register", post(register))
        .route("/authorize", get(authorize))
        .route("/allow", post(allow))
        .route("/token", post(token))
        .with_state(issuer);
    println!("{url}/mcp");
    Ok(axum::serve(listener, app).await?)
}

#[tokio::main]
#[allow(dead_code, reason = "a test includes this file")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:8000".into());
    serve(TcpListener::bind(address).await?).await
}
