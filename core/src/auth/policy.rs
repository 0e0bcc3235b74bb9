//! The policy for URLs in documents of servers.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::{fmt, net::IpAddr};

use super::url::Url;

/// The part of the network in which a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// The internet, or a name that is not resolved yet.
    Public,
    /// The same machine.
    Loopback,
    /// A private network: RFC 1918, RFC 4193, RFC 6598.
    Private,
    /// The same link, where clouds serve credentials of machines: RFC 3927, RFC 4291.
    LinkLocal,
    /// An address that no host has: unspecified, broadcast, multicast, reserved.
    Reserved,
}

impl Network {
    /// Returns the network of an address. An IPv6 address that stands for an IPv4 address (mapped, compatible, 6to4,
    /// NAT64) is in the network of that IPv4 address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [a, b, c, _] = address.octets();
        match (a, b) {
            (127, _) => Self::Loopback,
            (169, 254) => Self::LinkLocal,
            (100, 64..=127) => Self::Private,
            _ if address.is_private() => Self::Private,
            // Protocol assignments, among which clouds have their metadata, documentation, and benchmarks.
            (192, 0) if matches!(c, 0 | 2) => Self::Reserved,
            (198, 18 | 19) => Self::Reserved,
            (0 | 224..=255, _) => Self::Reserved,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let segments = address.segments();
        let v4 = |high: u16, low: u16| {
            let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
            Self::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match segments {
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            [0, 0, 0, 0, 0, 0, 0, 0] => Self::Reserved,
            [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
            | [0, 0, 0, 0, 0xffff, 0, high, low]
            | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
            | [0x2002, high, low, ..] => v4(high, low),
            // Local translation prefixes (RFC 8215), and Teredo, which hides an address.
            [0x64, 0xff9b, 1, ..] | [0x2001, 0, ..] => Self::Reserved,
            [0xfc00..=0xfdff, ..] => Self::Private,
            [0xfe80..=0xfebf, ..] => Self::LinkLocal,
            // Site-local addresses are deprecated, but still in use.
            [0xfec0..=0xfeff, ..] => Self::Private,
            [0xff00..=0xffff, ..] => Self::Reserved,
            _ => Self::Public,
        }
    }

    /// Returns the network of the host of a URL. A name is in a public network, except `localhost`.
    #[must_use]
    pub fn of_url(url: &Url) -> Self {
        let host = url.host();
        let host = host.strip_suffix('.').unwrap_or(host);
        let is_local = |host: &str| {
            let tail = host.len().checked_sub(10).and_then(|at| host.get(at..));
            host.eq_ignore_ascii_case("localhost") || tail.is_some_and(|tail| tail.eq_ignore_ascii_case(".localhost"))
        };
        match url.address() {
            Some(address) => Self::of(address),
            None if is_local(host) => Self::Loopback,
            // Resolvers read names such as `127.1`, `0x7f000001` or `2130706433` as addresses.
            None if host.rsplit('.').next().is_some_and(is_number) => Self::Reserved,
            None => Self::Public,
        }
    }
}

/// Returns whether the host is on the same machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    Network::of_url(url) == Network::Loopback
}

fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        || label.bytes().all(|byte| byte.is_ascii_digit())
}

/// Decides which URLs from documents of a server, and of its authorization server, the client follows.
///
/// - The scheme is `https`, except on the loopback interface.
/// - A loopback or private address is followed only if the server itself is in that network, a link-local one only if
///   it is the host of the server. The name of the server itself may have a loopback or private address: requests to
///   the origin of the server are sent there anyway.
/// - A redirect stays at its origin.
///
/// The application then resolves the name, and calls [`check_address`](Self::check_address) before it connects, because
/// a public name may have a private address.
#[derive(Clone, Debug)]
pub struct UrlPolicy {
    server: Url,
    network: Network,
}

/// The reason why a URL is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlRefused {
    /// The URL is not encrypted, and not on the loopback interface.
    NotEncrypted,
    /// The URL is in a network in which the server is not.
    Network(Network),
    /// The URL is a redirect to another origin.
    Redirect,
}

impl fmt::Display for UrlRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEncrypted => f.write_str("the URL is not https"),
            Self::Network(network) => write!(f, "the URL leads to a {network:?} address"),
            Self::Redirect => f.write_str("the redirect leads to another origin"),
        }
    }
}

impl core::error::Error for UrlRefused {}

impl UrlPolicy {
    /// Creates the policy for the documents of a server.
    #[must_use]
    pub fn new(server: &Url) -> Self {
        Self { server: server.clone(), network: Network::of_url(server) }
    }

    /// Sets the address to which the name of the server was resolved. If the URL of the server has an IP address,
    /// nothing changes.
    #[must_use]
    pub fn with_server_address(mut self, address: IpAddr) -> Self {
        if self.server.address().is_none() {
            self.network = Network::of(address);
        }
        self
    }

    /// Checks a URL that a document names, before its host is resolved.
    ///
    /// # Errors
    /// Returns the reason if it is not followed.
    pub fn check(&self, url: &Url) -> Result<(), UrlRefused> {
        let network = Network::of_url(url);
        if !url.is_https() && network != Network::Loopback {
            return Err(UrlRefused::NotEncrypted);
        }
        self.check_network(url, network)
    }

    /// Checks an address to which the host of `url` was resolved.
    ///
    /// # Errors
    /// Returns the reason if the client must not connect to it.
    pub fn check_address(&self, url: &Url, address: IpAddr) -> Result<(), UrlRefused> {
        let network = Network::of(address);
        if !url.is_https() && network != Network::Loopback {
            return Err(UrlRefused::NotEncrypted);
        }
        // The name of the server may have a loopback or private address. For other origins, the network of the server
        // decides.
        let is_own = matches!(network, Network::Loopback | Network::Private) && url.is_same_origin(&self.server);
        if is_own { Ok(()) } else { self.check_network(url, network) }
    }

    fn check_network(&self, url: &Url, network: Network) -> Result<(), UrlRefused> {
        let is_server = url.host().eq_ignore_ascii_case(self.server.host());
        let is_allowed = match network {
            Network::Public => true,
            Network::Loopback | Network::Private => self.network == network,
            Network::LinkLocal => self.network == network && is_server,
            Network::Reserved => false,
        };
        if is_allowed { Ok(()) } else { Err(UrlRefused::Network(network)) }
    }

    /// Checks the target `to` of a redirect in the response to a request to `from`.
    ///
    /// # Errors
    /// Returns the reason if it is not followed.
    pub fn check_redirect(&self, from: &Url, to: &Url) -> Result<(), UrlRefused> {
        if from.is_same_origin(to) { self.check(to) } else { Err(UrlRefused::Redirect) }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    const PUBLIC: &str = "https://mcp.example/mcp";
    const LOCAL: &str = "http://127.0.0.1:3000/mcp";
    const OFFICE: &str = "https://10.1.2.3/mcp";

    #[test]
    fn addresses_are_in_their_networks() {
        use Network::{LinkLocal, Loopback, Private, Public, Reserved};
        for (address, network) in [
            ("8.8.8.8", Public),
            ("127.0.0.1", Loopback),
            ("127.255.255.255", Loopback),
            ("10.0.0.1", Private),
            ("172.15.255.255", Public),
            ("172.16.0.0", Private),
            ("172.31.255.255", Private),
            ("172.32.0.0", Public),
            ("192.168.0.1", Private),
            ("100.63.255.255", Public),
            ("100.64.0.0", Private),
            ("192.0.0.192", Reserved),
            ("192.0.66.2", Public),
            ("198.19.0.1", Reserved),
            ("64:ff9b:1::a00:1", Reserved),
            ("2001:0:1::1", Reserved),
            ("100.127.255.255", Private),
            ("100.128.0.0", Public),
            ("169.254.169.254", LinkLocal),
            ("0.0.0.0", Reserved),
            ("0.1.2.3", Reserved),
            ("224.0.0.1", Reserved),
            ("255.255.255.255", Reserved),
            ("2606:4700::1", Public),
            ("::1", Loopback),
            ("::", Reserved),
            ("::ffff:127.0.0.1", Loopback),
            ("::127.0.0.1", Loopback),
            ("::ffff:169.254.169.254", LinkLocal),
            ("::ffff:0:10.0.0.1", Private),
            ("64:ff9b::10.0.0.1", Private),
            ("2002:7f00:1::", Loopback),
            ("fc00::1", Private),
            ("fdff::1", Private),
            ("fe80::1", LinkLocal),
            ("febf::1", LinkLocal),
            ("fec0::1", Private),
            ("ff02::1", Reserved),
        ] {
            assert_eq!(Network::of(address.parse().expect(address)), network, "{address}");
        }
    }

    // req: AUTH-068 SEC-009
    #[test]
    fn document_urls_match_the_network_of_the_server() {
        let table = [
            // (URL, from a public server, from one on this machine, from one in a private network)
            ("https://as.example/token", true, true, true),
            ("http://as.example/token", false, false, false),
            ("https://127.0.0.1/", false, true, false),
            ("http://127.0.0.1:9/", false, true, false),
            ("http://localhost/", false, true, false),
            ("http://LOCALHOST./", false, true, false),
            ("http://as.localhost/", false, true, false),
            ("http://localhost.evil.example/", false, false, false),
            ("http://[::1]/", false, true, false),
            ("http://[::ffff:127.0.0.1]/", false, true, false),
            ("https://10.1.2.3/", false, false, true),
            ("https://192.168.1.1/", false, false, true),
            ("http://10.1.2.3/", false, false, false),
            ("https://169.254.169.254/latest", false, false, false),
            ("https://[fe80::1]/", false, false, false),
            ("https://0.0.0.0/", false, false, false),
            ("https://127.1/", false, false, false),
            ("https://2130706433/", false, false, false),
            ("https://0x7f000001/", false, false, false),
            ("https://0x7f.1/", false, false, false),
            ("https://a.example.0x/", false, false, false),
        ];
        for (text, public, local, office) in table {
            for (server, expected) in [(PUBLIC, public), (LOCAL, local), (OFFICE, office)] {
                let result = UrlPolicy::new(&url(server)).check(&url(text));
                assert_eq!(result.is_ok(), expected, "{text} from {server}: {result:?}");
            }
        }
        let metadata = url("https://169.254.169.254/mcp");
        let policy = UrlPolicy::new(&metadata);
        assert_eq!(policy.check(&url("https://169.254.169.254/token")), Ok(()), "the server itself");
        assert!(policy.check(&url("https://169.254.1.1/token")).is_err());
    }

    #[test]
    fn checks_resolved_addresses() {
        let policy = UrlPolicy::new(&url(PUBLIC));
        let named = url("https://as.example/token");
        let check = |policy: &UrlPolicy, address: &str| policy.check_address(&named, address.parse().expect(address));
        assert_eq!(check(&policy, "8.8.8.8"), Ok(()));
        for (address, network) in [
            ("127.0.0.1", Network::Loopback),
            ("10.0.0.1", Network::Private),
            ("169.254.169.254", Network::LinkLocal),
            ("::ffff:10.0.0.1", Network::Private),
        ] {
            assert_eq!(check(&policy, address), Err(UrlRefused::Network(network)));
        }
        // The host of the server may be in a private network, and no other.
        let same = |port: &str| url(&format!("https://MCP.example{port}/.well-known/x"));
        for (address, allowed) in
            [("10.0.0.9", true), ("127.0.0.1", true), ("169.254.169.254", false), ("0.0.0.0", false)]
        {
            let address = address.parse().expect(address);
            assert_eq!(policy.check_address(&same(""), address).is_ok(), allowed, "{address}");
            assert!(policy.check_address(&same(":444"), address).is_err(), "{address} at another port");
        }
        // A server whose name leads into a private network may name others there.
        let office = policy.with_server_address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)));
        assert_eq!(check(&office, "10.0.0.1"), Ok(()));
        assert!(check(&office, "127.0.0.1").is_err());
        let fixed = UrlPolicy::new(&url("https://8.8.8.8/")).with_server_address(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(check(&fixed, "127.0.0.1").is_err(), "what the URL says counts");
    }

    #[test]
    fn redirects_stay_at_their_origin() {
        let policy = UrlPolicy::new(&url(PUBLIC));
        let from = url("https://as.example/a");
        assert_eq!(policy.check_redirect(&from, &url("https://as.example/b")), Ok(()));
        for to in ["https://other.example/a", "http://as.example/a", "https://as.example:8443/a", "https://127.0.0.1/"]
        {
            assert_eq!(policy.check_redirect(&from, &url(to)), Err(UrlRefused::Redirect), "{to}");
        }
    }
}
