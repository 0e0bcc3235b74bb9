//! Who sends a request.

use alloc::sync::Arc;
use core::net::IpAddr;

use crate::{connection::Principal, http::Challenge};

/// Who sends a request, as far as whoever moves the bytes has found out.
#[derive(Clone, Debug)]
pub enum Caller {
    /// Nobody asked, and callers cannot be told apart. Where they begin sessions, these are told apart.
    Anybody,
    /// Nobody asked. Callers are told apart by their addresses: what one of them may hold leaves room for the others. It
    /// proves nothing, and gives nobody the right to use a session. All addresses of an IPv6 network of 64 bits are one caller;
    /// an IPv4 address that is written as an IPv6 address is that IPv4 address.
    Anonymous(IpAddr),
    /// This one.
    Known(Arc<Principal>),
    /// Nobody who may do this.
    Refused(Challenge),
}
