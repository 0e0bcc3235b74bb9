//! The credentials of servers over HTTP: `mcp login` and `mcp logout`, and the stored tokens that other commands use.

use std::{
    env,
    future::{Future, ready},
    io,
    path::{Path, PathBuf},
    pin::Pin,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use http::{HeaderName, HeaderValue, Request, Uri, header::AUTHORIZATION};
use mcp_blocking::{
    Client, Error,
    http::{
        AuthProvider, ClientOptions, Connector, OAuth,
        auth::{
            Browser, ClientIdentity, Loopback, Redirects, Registration, Scopes, Secret, Settings, TokenStore, Url,
            UserAgent,
        },
    },
};
use mcp_driver::http::seed;
use mcp_proto::{auth::canonical, protocol::Capability};
use mcp_service::{Host, block_on};

use crate::{
    error::Failed,
    host,
    options::{ConnectionOptions, LoginOptions},
    show,
    target::{TOKEN, Target},
};

/// The variable of the environment with the secret of `--client-id`.
const CLIENT_SECRET: &str = "MCP_CLIENT_SECRET";

/// The credentials of the requests to a server.
#[derive(Clone, Debug)]
pub(crate) enum Credentials {
    /// Nothing, or headers that the user has given.
    None,
    /// A token that the user has given.
    Bearer(String),
    /// The tokens that `mcp login` has stored.
    Stored(OAuth),
}

impl Credentials {
    /// Returns the stored tokens for a server, if there are some.
    pub(crate) fn stored(server: &str, options: &ConnectionOptions) -> Result<Self, Failed> {
        let Some(path) = tokens_file(options).filter(|path| path.exists()) else { return Ok(Self::None) };
        let store = store(&path)?;
        if !is_stored(&store, &path, server)? {
            return Ok(Self::None);
        }
        let provider = OAuth::builder(server).map_err(usage)?;
        Ok(Self::Stored(provider.store(store).user_agent(NoUserAgent::new()?).build()?))
    }

    /// Connects with these credentials.
    pub(crate) fn connect(&self, connector: Connector, host: &Host) -> Result<Client, Error> {
        let connector = match self {
            Self::None => connector,
            Self::Bearer(token) => connector.bearer(token)?,
            Self::Stored(provider) => connector.auth(provider.clone()),
        };
        connector.connect(host)
    }
}

/// The stored tokens of a server, for a command that writes its own requests.
pub(crate) struct SignIn {
    provider: OAuth,
    address: ClientOptions,
    host: Host,
    /// The value of the header `Authorization` that was renewed last.
    renewed: Option<String>,
    /// Whether a refresh took too long.
    is_late: bool,
    /// Work that has taken too long and goes on. Each receiver has an error at its end.
    unfinished: Vec<mpsc::Receiver<()>>,
}

/// How long a refresh that took too long may hold up the end of the program. The authorization server may have replaced
/// the tokens, and the new ones are only in its response.
const REFRESH_WAIT: Duration = Duration::from_secs(10);

impl Drop for SignIn {
    fn drop(&mut self) {
        let deadline = Instant::now() + REFRESH_WAIT;
        for work in self.unfinished.drain(..) {
            let _ = work.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

impl SignIn {
    /// Returns the stored tokens for a server, if there are some, and the headers of its requests have no credentials.
    pub(crate) fn of(
        url: &str,
        headers: &[(String, String)],
        options: &ConnectionOptions,
    ) -> Result<Option<Self>, Failed> {
        // `mcp login` refuses an address with the name of a user.
        let has_user = url.parse::<Uri>().is_ok_and(|url| url.authority().is_some_and(|it| it.as_str().contains('@')));
        if has_user || headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str())) {
            return Ok(None);
        }
        let Credentials::Stored(provider) = Credentials::stored(url, options)? else { return Ok(None) };
        let mut address = ClientOptions::new(url, seed()).map_err(usage)?;
        for (name, value) in headers {
            address
                .headers
                .append(HeaderName::try_from(name).map_err(usage)?, HeaderValue::try_from(value).map_err(usage)?);
        }
        let (host, renewed, unfinished) = (host::host(options, None)?, None, Vec::new());
        Ok(Some(Self { provider, address, host, renewed, is_late: false, unfinished }))
    }

    /// Returns the value of the header `Authorization`. A token that is about to expire is refreshed, which takes at
    /// most `timeout`. After that, it is not tried again.
    pub(crate) fn authorization(&mut self, timeout: Duration) -> io::Result<Option<String>> {
        if self.is_late {
            return Err(late());
        }
        let (provider, url) = (self.provider.clone(), self.address.url.clone());
        let authorize = move || {
            let mut request = Request::new(Arc::default());
            *request.uri_mut() = url;
            block_on(provider.authorize(&mut request))?;
            let value = request.headers().get(AUTHORIZATION).map(|value| value.to_str().map(str::to_owned));
            value.transpose().map_err(io::Error::other)
        };
        let authorization = self.within(timeout, authorize)?;
        self.is_late = authorization.is_none();
        authorization.unwrap_or_else(|| Err(late()))
    }

    /// Refreshes a token that the server has refused, as another command does: by a connection, which may fail for
    /// other reasons. Returns whether there is another token in this time. This is tried once for each token.
    pub(crate) fn renew(&mut self, refused: Option<&str>, timeout: Duration) -> bool {
        if self.renewed.is_some() && self.renewed.as_deref() == refused {
            return false;
        }
        self.renewed = refused.map(str::to_owned);
        let connector = Connector::with_client_options(self.address.clone()).auth(self.provider.clone());
        let host = self.host.clone();
        let connect = move || drop(connector.connect(&host).map(|client| use_credentials(&client)));
        // The tokens of a refresh that takes longer are stored nevertheless.
        let is_done = self.within(timeout, connect).is_ok_and(|done| done.is_some());
        is_done && self.authorization(timeout).is_ok_and(|value| value.is_some() && value.as_deref() != refused)
    }

    /// Returns the result of work on a thread, unless it takes longer than `timeout`. The thread goes on then, and the
    /// end of the program waits for it.
    fn within<T: Send + 'static>(
        &mut self,
        timeout: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Option<T>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let (running, end) = mpsc::channel();
        let run = move || {
            let _running: mpsc::Sender<()> = running;
            // The receiver may have ended.
            let _ = sender.send(work());
        };
        thread::Builder::new().name("sign-in".into()).spawn(run)?;
        let result = receiver.recv_timeout(timeout).ok();
        if result.is_none() {
            self.unfinished.push(end);
        }
        Ok(result)
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the authorization server does not respond in time")
}

/// Signs the user in at the authorization server of a server, and stores the tokens.
pub(crate) fn login(options: &LoginOptions, connection: &ConnectionOptions) -> Result<ExitCode, Failed> {
    let address = address(&options.server, connection)?;
    if address.headers.contains_key(AUTHORIZATION) {
        return Err(Failed::usage("the header Authorization is given, which has priority over stored tokens"));
    }
    let server = address.url.to_string();
    let path = tokens_file(connection).ok_or_else(no_home)?;
    let store = store(&path)?;
    let was_signed_in = is_stored(&store, &path, &server)?;
    let loopback = Loopback::on(options.port.unwrap_or(0))
        .map_err(|error| Failed::usage(format!("the redirect cannot be listened for: {error}")))?;
    let was_asked = Arc::new(AtomicBool::new(false));
    let (asked, browser) = (was_asked.clone(), (!options.no_browser).then(browser));
    let user_agent = loopback.open_with(move |url| {
        asked.store(true, Ordering::Relaxed);
        show::note(&format!("sign in at {}", url.as_str()));
        // The user has the address if no browser opens.
        let _ = browser.as_ref().map(|browser| browser.open(url));
        Ok(())
    });
    let provider = OAuth::builder(&server).map_err(usage)?.settings(settings(options)?);
    let provider = provider.user_agent(user_agent).store(store).build()?;
    let connector = Connector::with_client_options(address).auth(provider.clone());
    let client = connector.connect(&host::host(connection, None)?).map_err(|error| Failed::connection(&error));
    let outcome = client.and_then(|client| use_credentials(&client));
    let was_asked = was_asked.load(Ordering::Relaxed);
    match (outcome, provider.error()) {
        // The provider says more than the refusal of the server.
        (Err(_), Some(error)) => return Err(Failed::connection(&error)),
        _ if was_asked && !provider.is_stored() => return Err(Failed::usage("the tokens could not be stored")),
        // The server has accepted the tokens, and refuses the list of its tools for another reason.
        (Err(failed), None) if was_asked && failed.is_refusal() => {}
        (Err(failed), None) if was_asked => {
            if !connection.quiet {
                show::note("the tokens are stored, but the server could not be used with them");
            }
            return Err(failed);
        }
        (outcome, _) => outcome?,
    }
    if !connection.quiet {
        if env::var_os(TOKEN).is_some() || connection.bearer.is_some() {
            show::note("the token of --bearer or MCP_BEARER_TOKEN has priority over the stored tokens");
        }
        show::note(match (was_asked, was_signed_in) {
            (true, _) => "signed in",
            (false, true) => "signed in already: for another sign-in, use `mcp logout` before",
            (false, false) => "the server does not ask for a sign-in",
        });
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes the stored tokens of a server, and revokes them if its authorization server can do that.
pub(crate) fn logout(server: &str, connection: &ConnectionOptions) -> Result<ExitCode, Failed> {
    let server = address(server, connection)?.url.to_string();
    let Credentials::Stored(provider) = Credentials::stored(&server, connection)? else {
        if !connection.quiet {
            show::note("there are no tokens for this server");
        }
        return Ok(ExitCode::SUCCESS);
    };
    block_on(provider.sign_out()).map_err(|error| Failed::connection(&error))?;
    if !connection.quiet {
        show::note("signed out");
    }
    Ok(ExitCode::SUCCESS)
}

/// Requests the tools, since some servers want credentials for these only.
fn use_credentials(client: &Client) -> Result<(), Failed> {
    if client.capabilities().contains(Capability::Tools) {
        client.list_tools(None)?.wait()?;
    }
    client.close();
    Ok(())
}

/// Returns the identity of the client and the scopes that it asks for.
fn settings(options: &LoginOptions) -> Result<Settings, Failed> {
    let mut settings = Settings { offline_access: true, ..Settings::default() };
    if !options.scopes.is_empty() {
        let scopes = Scopes::of(options.scopes.iter().map(String::as_str));
        settings.scopes = Some(scopes.ok_or_else(|| Failed::usage("a scope of --scope has wrong characters"))?);
    }
    let identities = &mut settings.identities;
    match (&options.client_id, &options.issuer) {
        (Some(client_id), Some(issuer)) => identities.pre_registered.push(ClientIdentity {
            issuer: issuer.clone(),
            client_id: client_id.clone(),
            secret: env::var(CLIENT_SECRET).ok().map(Secret::new),
            secret_expires_at: None,
            redirect_uris: Vec::new(),
            auth_method: None,
        }),
        _ => identities.registration = Some(Registration::new("mcp-cli", [])),
    }
    Ok(settings)
}

/// Returns the address of a server that is reached over HTTP.
fn address(server: &str, connection: &ConnectionOptions) -> Result<ClientOptions, Failed> {
    match Target::parse(server, connection)? {
        Target::Http { address, .. } => Ok(*address),
        Target::Program(_) => Err(Failed::usage("a program needs no sign-in: the server must be a URL")),
    }
}

/// Returns the file of the tokens, if the user has a home folder.
fn tokens_file(connection: &ConnectionOptions) -> Option<PathBuf> {
    if let Some(file) = &connection.tokens {
        return Some(file.clone());
    }
    // Specification of base directories: relative paths are ignored.
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = state.or_else(|| Some(env::home_dir()?.join(".local/state")))?;
    Some(folder.join("mcp/tokens.json"))
}

#[cfg(unix)]
fn store(path: &Path) -> Result<impl TokenStore + use<>, Failed> {
    mcp_blocking::http::auth::FileTokenStore::new(path).map_err(|error| unusable(path, &error))
}

/// Returns an error: without unsafe code, the access list of a file cannot be read on this system.
#[cfg(not(unix))]
fn store(_: &Path) -> Result<mcp_blocking::http::auth::MemoryTokenStore, Failed> {
    Err(Failed::usage("tokens cannot be stored on this system: give one with --bearer"))
}

fn is_stored(store: &impl TokenStore, path: &Path, server: &str) -> Result<bool, Failed> {
    let url = Url::parse(server).map_err(usage)?;
    Ok(store.load(&canonical(&url)).map_err(|error| unusable(path, &error))?.is_some())
}

fn unusable(path: &Path, error: &io::Error) -> Failed {
    Failed::usage(format!("{} cannot be used: {error}", path.display()))
}

fn usage(error: impl ToString) -> Failed {
    Failed::usage(error.to_string())
}

fn no_home() -> Failed {
    Failed::usage("there is no home folder: name the file of the tokens with --tokens")
}

fn browser() -> Browser {
    env::var_os("BROWSER").map_or_else(Browser::system, Browser::new)
}

/// A user agent that never asks. With it, stored tokens are refreshed, and no others are requested.
struct NoUserAgent(Url);

impl NoUserAgent {
    fn new() -> Result<Self, Failed> {
        Url::parse("http://127.0.0.1/callback").map(Self).map_err(usage)
    }
}

impl UserAgent for NoUserAgent {
    fn redirect_uri(&self) -> &Url {
        &self.0
    }

    fn authorize(&self, _: Url, _: Redirects) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send>> {
        Box::pin(ready(Err(io::Error::other("`mcp login` asks the user"))))
    }
}
