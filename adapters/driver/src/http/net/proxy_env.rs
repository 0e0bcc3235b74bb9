//! The proxy that the environment names, and the hosts that clients reach without it.

use std::env;

use crate::{error::Error, http::net::proxy::Proxy, os::command::is_same_variable};

/// The variables that may name a proxy, by precedence.
const PROXIES: [&str; 6] = ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];

/// The variables with the hosts that are reached without the proxy.
const EXEMPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The hosts that clients reach without the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Exemption {
    All,
    /// A host, and those below it, as in curl and Go.
    Host(String),
    Prefix(String),
    Suffix(String),
}

impl Exemption {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let is_beginning = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        Some(match (text.strip_prefix('*'), text.strip_suffix('*')) {
            _ if text.is_empty() => return None,
            (Some(""), _) => Self::All,
            (Some(suffix), _) => Self::Suffix(suffix.to_owned()),
            _ if text.starts_with('.') => Self::Suffix(text),
            (_, Some(prefix)) => Self::Prefix(prefix.to_owned()),
            _ if text.ends_with('.') && is_beginning(&text) => Self::Prefix(text),
            // The last dot of an absolute name.
            _ => Self::Host(bare(text.strip_suffix('.').unwrap_or(&text)).to_owned()),
        })
    }

    /// Returns whether it covers a host, whose name has small letters.
    fn covers(&self, host: &str) -> bool {
        match self {
            Self::All => true,
            Self::Host(name) => {
                host.strip_suffix(&**name).is_some_and(|below| below.is_empty() || below.ends_with('.'))
            }
            Self::Prefix(prefix) => host.starts_with(&**prefix),
            Self::Suffix(suffix) => host.ends_with(&**suffix),
        }
    }
}

/// Returns an IPv6 address without its brackets, and other hosts as they are.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

impl Proxy {
    /// Returns the proxy that the environment names: the first of `ALL_PROXY`, `HTTPS_PROXY` and `HTTP_PROXY`, in
    /// capital or small letters, that is the address of an HTTP proxy, such as `http://proxy.example:3128`. It is used
    /// for servers with and without TLS. The address may contain a name and a password, with percent-encoding. The
    /// hosts of `NO_PROXY` are [exempt](Self::exempt). `None` if no variable is set.
    ///
    /// In a CGI program, `HTTP_PROXY` is the header `Proxy` of the client's request, so it is ignored if there is a
    /// variable `REQUEST_METHOD`. So is `http_proxy` on Windows, where it is the same variable.
    ///
    /// # Errors
    /// If there are proxies in the environment, but none of HTTP. The error does not contain their addresses.
    pub fn from_env() -> Result<Option<Self>, Error> {
        // A value that is no text is not taken for a missing one: the client would connect directly.
        Self::from_variables(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Error> {
        let is_cgi = get("REQUEST_METHOD").is_some();
        let is_header = |name: &str| is_cgi && is_same_variable(name.as_ref(), "HTTP_PROXY".as_ref());
        let value = |name: &&str| get(name).filter(|value| !value.is_empty() && !is_header(name));
        let set: Vec<_> = PROXIES.iter().filter_map(value).collect();
        let exempt = EXEMPTIONS.iter().find_map(value).unwrap_or_default();
        match set.iter().find_map(|value| Self::from_variable(value)) {
            Some(proxy) => Ok(Some(proxy.exempt(&exempt))),
            None if set.is_empty() => Ok(None),
            // Without an error, the client would connect directly.
            None => Err(Self::invalid("the environment names no proxy of HTTP, such as http://proxy.example:3128")),
        }
    }

    fn from_variable(value: &str) -> Option<Self> {
        let rest = match value.split_once("://") {
            Some((scheme, rest)) => Some(rest).filter(|_| scheme.eq_ignore_ascii_case("http"))?,
            None => value,
        };
        let (user, address) = rest.rsplit_once('@').map_or((None, rest), |(user, address)| (Some(user), address));
        let proxy = Self::new(&format!("http://{address}")).ok()?;
        let Some(user) = user else { return Some(proxy) };
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        Some(proxy.basic(&decode(name)?, &decode(password)?))
    }

    /// Sets the hosts that clients reach without the proxy, separated by commas, as in the variable `NO_PROXY`:
    /// `example.com` is this host and those below it, `.example.com` and `*.example.com` are only those below it,
    /// `10.0.` and `10.0.*` are those that begin like this, and `*` is every host. Networks such as `10.0.0.0/8` and
    /// ports are not supported: such an entry covers no host.
    #[must_use]
    pub fn exempt(mut self, hosts: &str) -> Self {
        self.exemptions = hosts.split(',').filter_map(Exemption::parse).collect();
        self
    }

    /// Returns whether clients reach a host without the proxy.
    pub(super) fn is_exempt(&self, host: &str) -> bool {
        self.exemptions.iter().any(|exemption| exemption.covers(bare(host)))
    }
}

/// Decodes percent-encoding.
fn decode(text: &str) -> Option<String> {
    let (mut rest, mut decoded) = (text.bytes(), Vec::new());
    while let Some(byte) = rest.next() {
        decoded.push(match byte {
            b'%' => {
                let (high, low) = (char::from(rest.next()?), char::from(rest.next()?));
                u8::try_from(high.to_digit(16)? << 4 | low.to_digit(16)?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(variables: &[(&str, &str)]) -> Result<Option<Proxy>, String> {
        let get = |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        Proxy::from_variables(get).map_err(|error| error.to_string())
    }

    #[test]
    fn first_http_proxy_of_the_environment_is_used() {
        let address = |variables: &[(&str, &str)]| proxy(variables).map(|it| it.map(|it| (it.host, it.port)));
        let is = |host: &str, port| Ok(Some((host.to_owned(), port)));
        assert_eq!(address(&[]), Ok(None));
        assert_eq!(address(&[("HTTP_PROXY", ""), ("NO_PROXY", "*")]), Ok(None));
        assert_eq!(address(&[("http_proxy", "a"), ("https_proxy", "HTTP://b:1/"), ("FTP_PROXY", "c")]), is("b", 1));
        assert_eq!(address(&[("http_proxy", "a:2"), ("ALL_PROXY", "socks5://b")]), is("a", 2));
        assert_eq!(address(&[("HTTP_PROXY", "http://[::1]")]), is("[::1]", 80));
        let in_cgi = [("REQUEST_METHOD", ""), ("HTTP_PROXY", "a"), ("http_proxy", "b")];
        // Both are one variable on Windows.
        let expected = if cfg!(windows) { Ok(None) } else { is("b", 80) };
        assert_eq!((address(&in_cgi), address(&in_cgi[..2])), (expected, Ok(None)));
        for other in [
            "socks5://canary",
            "https://canary",
            "http://canary:x/",
            "canary:99999",
            "http://%zz:canary@proxy",
            "can ary",
        ] {
            let error = address(&[("ALL_PROXY", other)]).expect_err(other);
            assert!(error.contains("no proxy of HTTP") && !error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn credentials_of_the_environment_are_decoded() {
        let authorization = |value: &str| {
            let proxy = proxy(&[("ALL_PROXY", value)]).expect(value).expect(value);
            proxy.authorization.map(|value| value.to_str().expect("text").to_owned())
        };
        assert_eq!(authorization("http://proxy"), None);
        // "user:p@ss:+%", in base64.
        assert_eq!(authorization("user:p%40ss:+%25@proxy:1").as_deref(), Some("Basic dXNlcjpwQHNzOisl"));
        assert_eq!(authorization("http://user@proxy").as_deref(), Some("Basic dXNlcjo="));
    }

    #[test]
    fn exempt_hosts_are_those_of_the_list() {
        let list = "Example.com, .below.example,*.under.example,10.0.,192.168.*,[::1],,";
        let proxy =
            proxy(&[("ALL_PROXY", "proxy"), ("NO_PROXY", ""), ("no_proxy", list)]).expect("a proxy").expect("a proxy");
        let names = ["example.com", "a.example.com", "a.b.example.com", "a.below.example", "a.b.under.example"];
        for host in names.into_iter().chain(["10.0.0.1", "192.168.1.1", "[::1]", "::1"]) {
            assert!(proxy.is_exempt(host), "{host}");
        }
        let absolute = Exemption::parse("Example.com.").expect("a host");
        assert!(absolute.covers("example.com") && !absolute.covers("example.com.evil.example"));
        for host in [
            "aexample.com",
            "example.com.a",
            "below.example",
            "under.example",
            "10.1.0.1",
            "[::2]",
            "proxy",
            "localhost",
        ] {
            assert!(!proxy.is_exempt(host), "{host}");
        }
        assert!(proxy.exempt("*").is_exempt("anything"));
    }
}
