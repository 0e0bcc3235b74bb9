//! Addresses on the command line: of servers over HTTP, and of this machine to listen at.

use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, ToSocketAddrs},
};

use http::Uri;

use crate::error::Failed;

/// Returns whether a target is a URL of a server.
pub(crate) fn is_url(target: &str) -> bool {
    let scheme = target.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
}

/// Refuses a URL with a port that does not exist, which would count as the port of its scheme.
pub(crate) fn check_port(url: &str) -> Result<(), Failed> {
    let Ok(url) = url.parse::<Uri>() else { return Ok(()) };
    let Some(authority) = url.authority() else { return Ok(()) };
    let host = authority.as_str().rsplit('@').next().unwrap_or_default();
    let port = host.strip_prefix(authority.host()).and_then(|rest| rest.strip_prefix(':')).unwrap_or_default();
    if port.is_empty() || authority.port_u16().is_some() {
        return Ok(());
    }
    // The address is not repeated: it may have secrets.
    Err(Failed::usage("the port of the address is no number up to 65535"))
}

/// Listens with `bind` at an address of this machine only. `refusal` says why other addresses are refused.
pub(crate) fn listen<L>(
    address: &str,
    refusal: &str,
    bind: impl FnOnce(&[SocketAddr]) -> io::Result<L>,
) -> Result<L, Failed> {
    let wrong = |error: io::Error| match error.kind() {
        ErrorKind::InvalidInput => {
            Failed::usage(format!("{address} is no address with a port, such as 127.0.0.1:8000"))
        }
        _ => Failed::usage(format!("{address} cannot be listened at: {error}")),
    };
    let addresses: Vec<_> = address.to_socket_addrs().map_err(wrong)?.collect();
    if !addresses.iter().all(|address| address.ip().is_loopback()) {
        return Err(Failed::usage(refusal));
    }
    bind(&addresses).map_err(wrong)
}
