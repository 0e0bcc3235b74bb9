//! The configuration of a client.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, time::Duration};

use http::{HeaderMap, Uri};

use super::uri::is_http;
use crate::connection::Backoff;

/// The configuration of a client: the address of its server, headers, and limits.
///
/// `Debug` shows neither the query of the address nor the values of headers: these may be secret.
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The address of the server.
    pub url: Uri,
    /// Headers that are added to every request. They are only sent to the server's own origin.
    pub headers: HeaderMap,
    /// Whether to hold a stream open in a session for messages on the server's own initiative. Default true.
    pub listen: bool,
    /// Whether to try the transport of 2024-11-05 with a server that does not support a newer one. Default true.
    pub http_sse: bool,
    /// Whether the driver can handle 401 and 403: the client then requests credentials with
    /// [`Action::Authenticate`](super::Action::Authenticate). Default false: the request fails.
    pub authenticates: bool,
    /// Pauses before a lost stream is resumed, if the server does not set a delay. Default 1 second, at most 30.
    pub backoff: Backoff,
    /// Resource limits of the client.
    pub limits: Limits,
    /// See [`new`](Self::new).
    pub seed: u64,
}

/// Limits of a client, in addition to those of its connection.
///
/// The size of a message is bounded by [`frame_bytes`](crate::connection::Limits::frame_bytes), for responses and for
/// streams. The bodies of requests are the messages of the application, which no limit here counts: each is kept until
/// its exchange is over, and [`exchanges`](Self::exchanges) limits their number. Of the heads of responses, a client
/// keeps the id of its session, of at most 4 KiB, and the challenges of refusals, of at most 64 KiB each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Exchanges at once, with the streams that are resumed later. Default 256. Beyond it, no new request is sent until
    /// one is over. 16 more are reserved for responses, notifications and cancellations.
    pub exchanges: usize,
    /// Bytes of a body that is not a JSON-RPC response; its beginning is part of the error. Default 64 KiB.
    pub error_bytes: usize,
    /// Bytes of incomplete responses, of all exchanges together, of the challenges of refusals, and of calls that wait
    /// for a new list of tools (2026-07-28): their refusals, and the cursors of the pages that they wait for. Default
    /// 256 MiB. Beyond it, the call whose response needs more fails with
    /// [`TooLarge`](crate::connection::Failure::TooLarge), and a refused call is not sent again.
    pub body_bytes: usize,
    /// Redirects that are followed in a row. Default 5.
    pub redirects: u32,
    /// How often in a row a stream is resumed without a new event. Default 5; 0 is never.
    pub attempts: u32,
    /// The longest pause before a stream is resumed, regardless of the server's request. Default 5 minutes.
    pub max_retry_delay: Duration,
    /// How long the first requests in a session wait for the response to the request that
    /// [listens](ClientOptions::listen). Default 500 milliseconds: some servers do not respond before they have
    /// something to send.
    pub listen_timeout: Duration,
    /// How long the rest of a body is read after the response is known, so that the network connection can be reused.
    /// Default 1 second.
    pub drain_timeout: Duration,
    /// How long the server may take to accept a message that is not a request: a notification, or the response to a
    /// request of the server. Default 60 seconds, as the idle timeout of a request. After that the exchange is aborted
    /// to make room for others.
    pub accept_timeout: Duration,
    /// How long the server may take to confirm that a session is over. Default 3 seconds.
    pub delete_timeout: Duration,
    /// The number of tools whose header arguments are remembered (2026-07-28). Default 4,096.
    pub tools: usize,
    /// The bytes of that memory: names, paths of arguments, and 64 for each of them. Default 4 MiB. Beyond it, further
    /// tools are not remembered, as beyond [`tools`](Self::tools).
    pub tool_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            exchanges: 256,
            error_bytes: 64 << 10,
            body_bytes: 256 << 20,
            redirects: 5,
            attempts: 5,
            max_retry_delay: Duration::from_secs(5 * 60),
            listen_timeout: Duration::from_millis(500),
            drain_timeout: Duration::from_secs(1),
            accept_timeout: Duration::from_secs(60),
            delete_timeout: Duration::from_secs(3),
            tools: 4096,
            tool_bytes: 4 << 20,
        }
    }
}

/// The error of an address that is not one of an HTTP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidUrl(String);

/// An address without its possibly secret parts: name and password, query, fragment.
pub(super) struct Shown<'a>(pub(super) &'a Uri);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = self.0.scheme() {
            write!(f, "{scheme}://")?;
        }
        if let Some(authority) = self.0.authority() {
            f.write_str(authority.as_str().rsplit('@').next().unwrap_or_default())?;
        }
        f.write_str(self.0.path())
    }
}

/// Returns a text that is not an address without its possibly secret parts.
fn shown(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let end = (0..=path.len().min(200)).rev().find(|at| path.is_char_boundary(*at)).unwrap_or(0);
    match (path.split_once("://"), path.rfind('@')) {
        // A part of a name or password is secret, too.
        (_, Some(_)) if end < path.len() => "…".to_string(),
        (Some((scheme, _)), Some(at)) if scheme.len() < at => format!("{scheme}://…{}", &path[at..]),
        (_, Some(at)) => format!("…{}", &path[at..]),
        (_, None) => path[..end].to_string(),
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, headers, listen, http_sse, authenticates, backoff, limits, .. } = self;
        f.debug_struct("ClientOptions")
            .field("url", &format_args!("{}", Shown(url)))
            .field("headers", &headers.keys().collect::<Vec<_>>())
            .field("listen", listen)
            .field("http_sse", http_sse)
            .field("authenticates", authenticates)
            .field("backoff", backoff)
            .field("limits", limits)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for InvalidUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not the address of an HTTP server", self.0)
    }
}

impl core::error::Error for InvalidUrl {}

impl ClientOptions {
    /// Creates the configuration of a client of the server at this address.
    ///
    /// `seed` varies the pauses of clients that have lost the same server, so that they do not reconnect at the same
    /// time. The core generates no random bits: pass them in, different ones for each client. They need not be secret.
    ///
    /// # Errors
    /// Returns [`InvalidUrl`] if it is not the address of an HTTP server, with scheme and host and without a name and
    /// password. The error repeats neither these nor a query.
    pub fn new(url: &str, seed: u64) -> Result<Self, InvalidUrl> {
        let invalid = || InvalidUrl(shown(url));
        let parsed: Uri = url.split('#').next().unwrap_or_default().parse().map_err(|_| invalid())?;
        let named = parsed.authority().is_some_and(|authority| authority.as_str().contains('@'));
        if !is_http(&parsed) || named {
            return Err(invalid());
        }
        Ok(Self {
            url: parsed,
            headers: HeaderMap::new(),
            listen: true,
            http_sse: true,
            authenticates: false,
            backoff: Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(30) },
            limits: Limits::default(),
            seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_options_hide_secrets() {
        let mut options = ClientOptions::new("https://example.com:8443/mcp?key=canary#x", 1).expect("an address");
        options.headers.insert("authorization", "Bearer canary".parse().expect("a value"));
        for text in [format!("{options:?}"), format!("{options:#?}")] {
            assert!(!text.contains("canary"), "{text}");
            assert!(text.contains("https://example.com:8443/mcp") && text.contains("authorization"), "{text}");
        }
        for url in [
            "http://name:canary@example.com/",
            "canary:canary@example.com",
            "http://name:can ary@example.com/",
            "ftp://canary@example.com/a?canary",
            "nowhere?canary",
            "http://?canary#canary",
        ] {
            let error = ClientOptions::new(url, 1).expect_err("no address");
            let text = format!("{error} {error:?} {error:#?}");
            assert!(!text.contains("canary") && !text.contains("can ary"), "{text}");
        }
    }

    #[test]
    fn invalid_addresses_are_shown_up_to_200_bytes() {
        let error = |url: &str| ClientOptions::new(url, 1).map(|_| ()).expect_err("no address").to_string();
        let text = |shown: &str| format!("{shown:?} is not the address of an HTTP server");
        let long = |len: usize| "x".repeat(len);
        assert_eq!(error("nowhere?q"), text("nowhere"));
        assert_eq!(error(&long(200)), text(&long(200)));
        assert_eq!(error(&long(201)), text(&long(200)));
        assert_eq!(error(&[&*long(199), "\u{e4}"].concat()), text(&long(199)), "a character is not split");
        assert_eq!(error("ftp://me:pw@a.example/x"), text("ftp://…@a.example/x"));
        assert_eq!(error("me:pw@a.example/x"), text("…@a.example/x"));
        assert_eq!(error(&["http://me@a", &*long(189), "b"].concat()), text("…"));
        assert_eq!(error(&["ftp://me@a", &*long(190)].concat()), text(&["ftp://…@a", &*long(190)].concat()));
    }
}
