//! The sender of a request.

use alloc::sync::Arc;
use core::net::IpAddr;

use crate::{connection::Principal, http::AuthRefusal};

/// The sender of a request, as far as the driver has identified it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Caller {
    /// Not authenticated, and not distinguished from other callers. If they begin sessions, these are distinguished.
    Anybody,
    /// Not authenticated, and identified by its address: one address cannot use all of a limit. An address proves
    /// nothing, and gives no right to use a session. All addresses of an IPv6 network of 64 bits are one caller; an
    /// IPv4 address that is written as an IPv6 address is that IPv4 address.
    Anonymous(IpAddr),
    /// Authenticated as this principal.
    Known(Arc<Principal>),
    /// Not allowed, with the challenge for the response.
    Refused(AuthRefusal),
}
