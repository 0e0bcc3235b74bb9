//! Addresses on the command line: of servers over HTTP.

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
