//! What the clients of all adapters log while they send secrets over TLS and through proxies: none of them.

#[path = "../../../adapters/tests/identity.rs"]
mod identity;
mod issuer;
#[path = "../../../adapters/tests/recorder.rs"]
mod recorder;
mod relay;

use std::{net::SocketAddr, sync::Arc, thread};

use mcp_driver::{
    StopHandle,
    http::{AccessToken, HttpFetch, ResourceServer, TokenError, auth},
};
use mcp_proto::connection::ClientRole;
use mcp_service::{Deferred, Host, Peer, Service, Tool};
use mcp_tokio::http::rustls;
use serde_json::json;

use self::{identity::Identity, issuer::Issuer, recorder::Recorder, relay::Relay};

/// Part of every secret of these tests, and of nothing else.
const CANARY: &str = "canary";

/// A token that the server accepts.
const TOKEN: &str = "canary-bearer";

/// What the clients of an adapter do.
struct Adapter {
    name: &'static str,
    /// Connects with a token, directly or through a proxy, and calls.
    with_token: fn(&str, Option<SocketAddr>, &Identity),
    /// Connects with OAuth, calls, and calls with a new token.
    with_oauth: fn(&str, &Issuer, &Identity),
    /// Returns a client for short requests.
    fetch: fn(&Identity) -> Box<dyn HttpFetch>,
}

const ADAPTERS: [Adapter; 3] = [
    Adapter { name: "blocking", with_token: token_on_threads, with_oauth: oauth_on_threads, fetch: fetch_on_threads },
    Adapter { name: "smol", with_token: token_on_smol, with_oauth: oauth_on_smol, fetch: fetch_on_smol },
    Adapter { name: "tokio", with_token: token_on_tokio, with_oauth: oauth_on_tokio, fetch: fetch_on_tokio },
];

fn host() -> Host {
    Host::builder("test", "1").build()
}

fn call(client: &Peer<ClientRole>) {
    let result = client.call_tool("who", json!({})).expect("it is sent").wait().expect("the token is valid");
    assert_eq!(result.content[0].as_text(), Some("ada"));
}

fn settings() -> auth::Settings {
    let mut settings = auth::Settings::default();
    settings.identities.registration = Some(auth::Registration::new("test", []));
    settings
}

/// Returns a user who consents at once.
fn user(issuer: &Issuer) -> impl auth::UserAgent + use<> {
    let issuer = issuer.clone();
    auth::Loopback::new().expect("a port").open_with(move |url| {
        issuer.consent(url);
        Ok(())
    })
}

fn token_on_threads(url: &str, proxy: Option<SocketAddr>, identity: &Identity) {
    use mcp_blocking::http::{Connector, Proxy};
    let mut connector = Connector::new(url).expect("an address").tls(identity.client.clone());
    if let Some(proxy) = proxy {
        connector = connector.proxy(Proxy::new(&format!("http://{proxy}")).expect("an address"));
    }
    let client = connector.bearer(TOKEN).expect("a token").connect(&host()).expect("it serves");
    call(&client);
    client.close().into_result().expect("a good end");
}

fn oauth_on_threads(url: &str, issuer: &Issuer, identity: &Identity) {
    use mcp_blocking::http::{Connector, NetTransport, OAuth};
    let builder = OAuth::builder(url).expect("a URL").settings(settings());
    let builder = builder.transport(NetTransport::tls(identity.client.clone()));
    let oauth = builder.user_agent(user(issuer)).build().expect("random bytes");
    let connector = Connector::new(url).expect("an address").tls(identity.client.clone());
    let client = connector.auth(oauth).connect(&host()).expect("the user consents");
    call(&client);
    issuer.revoke();
    call(&client);
    client.close().into_result().expect("a good end");
}

fn fetch_on_threads(identity: &Identity) -> Box<dyn HttpFetch> {
    Box::new(mcp_blocking::http::FetchClient::new().tls(identity.client.clone()))
}

fn token_on_smol(url: &str, proxy: Option<SocketAddr>, identity: &Identity) {
    use mcp_smol::http::{Connector, Proxy};
    let mut connector = Connector::new(url).expect("an address").tls(identity.client.clone());
    if let Some(proxy) = proxy {
        connector = connector.proxy(Proxy::new(&format!("http://{proxy}")).expect("an address"));
    }
    let connector = connector.bearer(TOKEN).expect("a token");
    let client = smol::block_on(connector.connect(&host())).expect("it serves");
    call(&client);
    client.close().wait().into_result().expect("a good end");
}

fn oauth_on_smol(url: &str, issuer: &Issuer, identity: &Identity) {
    use mcp_smol::http::{Connector, OAuth};
    let builder = OAuth::builder(url).expect("a URL").settings(settings());
    let builder = builder.transport(mcp_driver::http::NetTransport::tls(identity.client.clone()));
    let oauth = builder.user_agent(user(issuer)).build().expect("random bytes");
    let connector = Connector::new(url).expect("an address").tls(identity.client.clone()).auth(oauth);
    let client = smol::block_on(connector.connect(&host())).expect("the user consents");
    call(&client);
    issuer.revoke();
    call(&client);
    client.close().wait().into_result().expect("a good end");
}

fn fetch_on_smol(identity: &Identity) -> Box<dyn HttpFetch> {
    Box::new(mcp_smol::http::FetchClient::new().tls(identity.client.clone()))
}

fn tokio_runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime")
}

fn token_on_tokio(url: &str, proxy: Option<SocketAddr>, identity: &Identity) {
    use mcp_tokio::http::{Connector, Proxy};
    let mut connector = Connector::new(url).expect("an address").tls(identity.client.clone());
    if let Some(proxy) = proxy {
        connector = connector.proxy(Proxy::new(&format!("http://{proxy}")).expect("an address"));
    }
    let (runtime, connector) = (tokio_runtime(), connector.bearer(TOKEN).expect("a token"));
    let client = runtime.block_on(connector.connect(&host())).expect("it serves");
    call(&client);
    client.close().wait().into_result().expect("a good end");
}

fn oauth_on_tokio(url: &str, issuer: &Issuer, identity: &Identity) {
    use mcp_tokio::http::{Connector, OAuth};
    let builder = OAuth::builder(url).expect("a URL").settings(settings());
    let builder = builder.transport(mcp_driver::http::NetTransport::tls(identity.client.clone()));
    let oauth = builder.user_agent(user(issuer)).build().expect("random bytes");
    let connector = Connector::new(url).expect("an address").tls(identity.client.clone()).auth(oauth);
    let runtime = tokio_runtime();
    let client = runtime.block_on(connector.connect(&host())).expect("the user consents");
    call(&client);
    issuer.revoke();
    call(&client);
    client.close().wait().into_result().expect("a good end");
}

fn fetch_on_tokio(identity: &Identity) -> Box<dyn HttpFetch> {
    Box::new(mcp_tokio::http::FetchClient::new().tls(identity.client.clone()))
}

/// A protected server on tokio, whose users the issuer knows.
struct Protected {
    url: String,
    stop: StopHandle,
    served: thread::JoinHandle<bool>,
}

impl Protected {
    fn new(issuer: &Issuer, identity: Option<&Identity>) -> Self {
        let runtime = tokio_runtime();
        let listener = runtime.block_on(mcp_tokio::http::Listener::bind("127.0.0.1:0")).expect("there is a port");
        let scheme = if identity.is_some() { "https" } else { "http" };
        // The certificate is for this name.
        let url = format!("{scheme}://localhost:{}/mcp", listener.local_addr().port());
        let known = issuer.clone();
        let verify = move |token: &str| {
            let is_valid = token == TOKEN || known.is_active(token);
            is_valid.then(|| AccessToken::new(known.url(), "ada")).ok_or(TokenError::Inactive)
        };
        let server = ResourceServer::new(&url, issuer.url(), verify).expect("two URLs");
        let mut listener = listener.protect(server);
        if let Some(identity) = identity {
            listener = listener.tls(identity.server.clone());
        }
        let stop = listener.stop_handle();
        let served = thread::spawn(move || runtime.block_on(listener.serve(&service())).is_ok());
        Self { url, stop, served }
    }

    fn stop(self) {
        (self.stop)();
        assert!(self.served.join().expect("no panic"), "it was told to stop");
    }
}

fn service() -> Service {
    let who = |context: mcp_service::Context| {
        context.info().principal.as_ref().map(|who| who.id.rsplit(' ').next().unwrap_or_default().to_owned())
    };
    let who = Tool::new("who", move |context: mcp_service::Context| who(context).unwrap_or_default());
    Service::builder("protected", "1").tool(who).build().expect("a service")
}

/// Checks that requests were recorded, and no secret.
fn assert_hidden(adapter: &str) {
    let records = Recorder::records();
    assert!(records.contains("tools/call"), "the requests are traced");
    let at = records.find(CANARY);
    let place = at.map(|at| records.get(at.saturating_sub(80)..(at + 80).min(records.len())));
    assert_eq!(place, None, "{adapter}: a secret is logged");
}

// req: AUTH-069
#[test]
fn tokens_are_not_logged() {
    Recorder::install();
    for adapter in ADAPTERS {
        let (identity, relay) = (Identity::new(), Relay::new());
        let issuer = Issuer::start(identity.server.clone());
        for identity in [None, Some(&identity)] {
            let server = Protected::new(&issuer, identity);
            let any = Identity::new();
            for proxy in [None, Some(relay.address)] {
                (adapter.with_token)(&server.url, proxy, identity.unwrap_or(&any));
            }
            server.stop();
        }
        assert!(relay.connections() >= 2, "{}: both servers are reached through the proxy", adapter.name);
        assert_hidden(adapter.name);
    }
}

// req: AUTH-069
#[test]
fn secrets_of_authorizations_over_tls_are_not_logged() {
    Recorder::install();
    for adapter in ADAPTERS {
        let identity = Identity::new();
        let issuer = Issuer::start(identity.server.clone());
        let server = Protected::new(&issuer, Some(&identity));
        (adapter.with_oauth)(&server.url, &issuer, &identity);
        assert_eq!(issuer.requests("/token"), 2, "{}: a code and a refresh token", adapter.name);
        assert_eq!(issuer.requests("/register"), 1, "{}", adapter.name);
        server.stop();
        assert_hidden(adapter.name);
    }
}

// req: AUTH-069
#[test]
fn secrets_of_short_requests_over_tls_are_not_logged() {
    Recorder::install();
    let (runtime, traced) = (Arc::new(tokio_runtime()), Protected::new(&Issuer::start(Identity::new().server), None));
    token_on_tokio(&traced.url, None, &Identity::new());
    traced.stop();
    for adapter in ADAPTERS {
        let identity = Identity::new();
        let issuer = Issuer::start(identity.server.clone());
        let request = http::Request::post(format!("{}/introspect", issuer.url()));
        let request = request.header("authorization", "Basic canary-basic").body(b"token=canary-access".to_vec());
        let _entered = runtime.enter();
        let fetched: Deferred<_> = (adapter.fetch)(&identity).fetch(request.expect("a request"), 1 << 10);
        let response = runtime.block_on(fetched).expect("it responds");
        assert_eq!((response.status().as_u16(), issuer.requests("/introspect")), (200, 1), "{}", adapter.name);
        assert_hidden(adapter.name);
    }
}
